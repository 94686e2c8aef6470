"""Kafka Connect's single message transforms as SQL, where that is simple.

Each is one SELECT over the rows before it. What routes records, or makes their keys, changes the
sink instead. A transform with a predicate, or one whose result depends on types that a
configuration does not say, is lost and told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.convert.draft import Plain
from headrace.convert.report import Keys
from headrace.frontend.sql.tables import bare
from headrace.model.schema import literal

_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
}
_METADATA = {
    "topic.field": "_kafka_topic",
    "partition.field": "_kafka_partition",
    "offset.field": "_kafka_offset",
    "timestamp.field": "_kafka_timestamp",
}
_UNKNOWN = "is a transform that has no equal here"


@dataclass
class Transforms:
    """What transforms do besides changing values."""

    steps: list[tuple[str, str]] = field(default_factory=list)  # a transform's name, and its SQL
    renames: list[tuple[str, str]] = field(default_factory=list)  # of topics: pattern, replacement
    key: str | None = None  # a column, or a struct of several
    # How changes of a database are read, where records are such.
    debezium: dict[str, Plain] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    skip_tombstones: bool = False
    need_metadata: bool = False

    def topic(self, name: str) -> str:
        """What becomes of a topic's name."""
        for pattern, replacement in self.renames:
            match = re.fullmatch(pattern, name)
            name = _expanded(match, replacement) if match else name
        return name

    def key_of(self, typed: bool) -> str | None:
        """SQL for the key as a sink takes it: by a schema of its own, or as text."""
        plain = typed or self.key is None or not self.key.startswith("struct(")
        return self.key if plain else f"to_json({self.key})"


def read(keys: Keys, from_kafka: bool) -> Transforms:
    """All transforms of a configuration in their order."""
    made = Transforms()
    predicates = {name: keys.take(f"predicates.{name}.type") for name in keys.listed("predicates")}
    for name in keys.listed("transforms"):
        _Transform(name, keys, made, from_kafka, predicates).convert()
    for name in predicates:
        keys.below(f"predicates.{name}.")
    return made


@dataclass
class _Transform:
    name: str
    keys: Keys
    made: Transforms
    from_kafka: bool
    predicates: dict[str, str | None]

    def convert(self) -> None:
        type_ = self._take("type") or ""
        kind, _, side = type_.rpartition(".")[2].partition("$")
        predicate = self._take("predicate")
        if kind == "Filter" and predicate is not None:
            self._filter(predicate)
        elif predicate is not None:
            self._lose(f"holds for some records only (`{predicate}`), which has no equal here")
        elif side == "Key":
            self._key(kind)
        elif kind in _VALUES:
            _VALUES[kind](self)
        else:
            self._lose(_UNKNOWN)
        self._take("negate")
        self.keys.lose(self.keys.left(f"transforms.{self.name}."), "has no equal here")

    def _take(self, *names: str) -> str | None:
        return self.keys.take(*(f"transforms.{self.name}.{name}" for name in names))

    def _listed(self, *names: str) -> list[str]:
        return self.keys.listed(*(f"transforms.{self.name}.{name}" for name in names))

    def _lose(self, why: str) -> None:
        place = self.keys.at(f"transforms.{self.name}.type")
        self.keys.report.lost(f"transforms.{self.name}", place, why)
        self.keys.below(f"transforms.{self.name}.")

    def _select(self, columns: str, where: str = "") -> None:
        condition = f" WHERE {where}" if where else ""
        self.made.steps.append((self.name, f"SELECT {columns} FROM input{condition}"))

    # Of values

    def _insert(self) -> None:
        added: list[str] = []
        static = self._take("static.field")
        value = self._take("static.value")
        if static is not None:
            added.append(f"{literal(value or '')} AS {_named(static)}")
        for key, column in _METADATA.items():
            name = self._take(key)
            if name is not None and self.from_kafka:
                self.made.need_metadata = True
                added.append(f"{column} AS {_named(name)}")
            elif name is not None:
                why = "is about a record of Kafka, and the rows come from elsewhere"
                whole = f"transforms.{self.name}.{key}"
                self.keys.report.lost(whole, self.keys.at(whole), why)
        if added:
            self._select(", ".join(["*", *added]))

    def _replace(self) -> None:
        kept = self._listed("include", "whitelist")
        dropped = self._listed("exclude", "blacklist")
        renames = dict(pair.split(":", 1) for pair in self._listed("renames") if ":" in pair)
        added = [f"{bare(old)} AS {_named(new)}" for old, new in renames.items()]
        if kept:
            self._select(
                ", ".join([*(_named(each) for each in kept if each not in renames), *added])
            )
        elif dropped or renames:
            self._select(", ".join([_all_but([*dropped, *renames]), *added]))

    def _mask(self) -> None:
        fields, replacement = self._listed("fields"), self._take("replacement")
        if replacement is None:
            self._lose("masks with the null of each field's type, which is not known here")
            return
        masked = [f"{literal(replacement)} AS {_named(each)}" for each in fields]
        self._select(", ".join([_all_but(fields), *masked]))

    def _cast(self) -> None:
        spec = dict(pair.split(":", 1) for pair in self._listed("spec") if ":" in pair)
        if not spec or any(type_ not in _TYPES for type_ in spec.values()):
            self._lose("casts the whole value, or to a type that is not known here")
            return
        casts = [
            f"CAST({bare(name)} AS {_TYPES[type_]}) AS {_named(name)}"
            for name, type_ in spec.items()
        ]
        self._select(", ".join([_all_but(spec), *casts]))

    def _time(self) -> None:
        name, form, target = self._take("field"), self._take("format"), self._take("target.type")
        column = bare(name or "")
        made = {
            "string": f"date_format({column}, {literal(form or '')})",
            "Timestamp": f"to_timestamp({column}, {literal(form or '')})",
            "Date": f"to_date({column}, {literal(form or '')})",
        }.get(target or "")
        if made is None or not name or not form:
            self._lose("converts by the type that a value has, which is not known here")
            return
        self._select(f"{_all_but([name])}, {made} AS {_named(name)}")

    def _extract(self) -> None:
        self._select(f"{bare(self._take('field') or '')}.*")

    def _hoist(self) -> None:
        self._select(f"struct(*) AS {_named(self._take('field') or '')}")

    def _route(self) -> None:
        regex, replacement = self._take("regex") or "", self._take("replacement") or ""
        try:
            groups = re.compile(regex).groups
        except re.error:
            groups = -1
        if any(int(number) > groups for number in re.findall(r"\$(\d)", f"$0{replacement}")):
            self._lose("has a pattern that cannot be understood here")
            return
        self.made.renames.append((regex, replacement))

    def _value_to_key(self) -> None:
        fields = self._listed("fields")
        if self.from_kafka:
            self._lose("makes keys of records that are not written to Kafka again")
            return
        names = ", ".join(bare(each) for each in fields)
        self.made.key = f"struct({names})"

    def _key(self, kind: str) -> None:
        named = self._take("field")
        if kind == "ExtractField" and named and self.made.key is not None:
            self.made.key = bare(named)
        else:
            self._lose("changes keys, which a sink here makes by its option `key`")

    def _header(self) -> None:
        name, value = self._take("header"), self._take("value.literal")
        if self.from_kafka or not name:
            self._lose("sets a header of records that are not written to Kafka again")
            return
        self.made.headers[name] = literal(value or "")

    def _filter(self, predicate: str) -> None:
        negated = (self._take("negate") or "false").lower() == "true"
        kind = (self.predicates.get(predicate) or "").rpartition(".")[2]
        pattern = self.keys.take(f"predicates.{predicate}.pattern")
        header = self.keys.take(f"predicates.{predicate}.name")
        if kind == "RecordIsTombstone" and not negated and self.from_kafka:
            self.made.skip_tombstones = True
            return
        condition = {
            "TopicNameMatches": f"_kafka_topic RLIKE {literal(f'^({pattern})$')}",
            "HasHeaderKey": f"exists(_kafka_headers, each -> each.key = {literal(header or '')})",
        }.get(kind)
        if condition is None or not self.from_kafka:
            self._lose("drops records by a condition that has no equal here")
            return
        self.made.need_metadata = True
        # What the predicate says of a record is dropped.
        self._select("*", condition if negated else f"NOT {condition}")

    def _changes(self) -> None:
        """Debezium's own: of each change the row afterwards, as `format: debezium` gives it."""
        if not self.from_kafka or self.made.steps:
            self._lose("is the first that is done with a record here, and is none of several")
            return
        deletes = self._take("delete.tombstone.handling.mode", "delete.handling.mode") or ""
        self.made.skip_tombstones = deletes == "drop"
        self.made.debezium = {}
        self._take("drop.tombstones")
        marked, added = deletes.startswith("rewrite"), self._listed("add.fields")
        if marked:
            self.made.debezium["deletes"] = "rows"
        if marked or added:
            self.made.debezium["change_columns"] = True
            how = "names columns otherwise: here they are `_change_op` and the like"
            place = self.keys.at(f"transforms.{self.name}.type")
            self.keys.report.differs(f"transforms.{self.name}", place, how)

    def _nothing(self) -> None:
        place = self.keys.at(f"transforms.{self.name}.type")
        why = "sets the name or version of a schema, which here has those of its sink"
        self.keys.report.needless(f"transforms.{self.name}", place, why)
        self.keys.below(f"transforms.{self.name}.")


_VALUES: dict[str, Callable[[_Transform], None]] = {
    "InsertField": _Transform._insert,
    "ReplaceField": _Transform._replace,
    "MaskField": _Transform._mask,
    "Cast": _Transform._cast,
    "TimestampConverter": _Transform._time,
    "ExtractField": _Transform._extract,
    "HoistField": _Transform._hoist,
    "RegexRouter": _Transform._route,
    "ValueToKey": _Transform._value_to_key,
    "InsertHeader": _Transform._header,
    "SetSchemaMetadata": _Transform._nothing,
    "ExtractNewRecordState": _Transform._changes,
    "UnwrapFromEnvelope": _Transform._changes,
}


def _expanded(match: re.Match[str], replacement: str) -> str:
    """Java's `$1` in a replacement."""
    return re.sub(r"\$(\d)", lambda each: match[int(each[1])] or "", replacement)


def _all_but(columns: Iterable[str]) -> str:
    names = [bare(each) for each in columns]
    return f"* EXCEPT ({', '.join(names)})"


def _named(column: str) -> str:
    return bare(column.rstrip("!?"))  # Connect's marks of required and optional fields
