"""Debezium's changes in JSON, as they are or as the `payload` beside their `schema`.

What a column is in a message is told by that `schema` alone, so it is read with every message that
has one, if there is a column whose values it matters for (`formats.debezium_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.formats import debezium_values as values
from headrace.formats.json import FIELDS_NAMED, NO_OBJECT, JsonReading, from_json, wrong_field
from headrace.formats.options import ChangeRules
from headrace.formats.reading import Steps, cases
from headrace.model.schema import Column, Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIELDS = f"STRUCT<fields: ARRAY<STRUCT<field: STRING, fields: ARRAY<{values.KIND}>>>>"
# Where the text of a row is: as it is now, or else as it was.
_IMAGES = ("payload.after", "after", "payload.before", "before")
_MISSING = "without a value for: "


@dataclass(frozen=True)
class JsonEnvelopes:
    columns: Schema
    rules: ChangeRules
    name: str = "Debezium's changes in JSON"

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        json = f"{prefix}json"
        return (
            *self._json.steps(source, prefix),
            *([(f"{prefix}kinds", self._kinds(json))] if self._encoded else []),
            (f"{prefix}change", self._change(json)),
        )

    def value(self, column: Column, image: str, prefix: str) -> str:
        return values.value(column, image, f"{prefix}kinds.{quote(column.name)}", self.rules)

    def key(self) -> str:
        """An object with some of the columns, or such a one as `payload`."""
        text = "CAST(key AS STRING)"
        plain = f"from_json({text}, {literal(self._image.ddl())})"
        wrapper = Schema((Column("payload", _struct(self._image)),))
        wrapped = f"from_json({text}, {literal(wrapper.ddl())}).payload"
        some = _any(f"one.{quote(name)} IS NOT NULL" for name in self.columns.names)
        # An array as a name for what is parsed once and looked at several times.
        return f"get(filter(array({wrapped}, {plain}), one -> {some}), 0)"

    def fault(self, source: str, prefix: str) -> str:
        return self._json.fault(source, prefix)

    def row_fault(self, prefix: str) -> str:
        return values.row_fault(self._image, self._encoded, prefix)

    def reason(self, code: str, source: str) -> str:
        sentences = {
            **NO_OBJECT,
            "WRONG_TYPE": self._wrong_words(source),
            "MISSING_FIELD": self._about_row(source, _MISSING, self._missing),
            "UNAVAILABLE_VALUE": self._about_row(source, values.NOT_SENT, self._not_sent),
        }
        return cases(code, sentences)

    @property
    def _image(self) -> Schema:
        """A row as Spark's parser reads it."""
        return Schema(tuple(Column(each.name, values.wire(each)) for each in self.columns.columns))

    @property
    def _encoded(self) -> tuple[Column, ...]:
        return tuple(filter(values.encoded, self.columns.columns))

    @property
    def _json(self) -> JsonReading:
        fields = Schema(tuple(Column(name, kind) for name, kind in self._fields.items()))
        wrapper = [Column("payload", _struct(fields))]
        if self._encoded:
            wrapper.append(Column("schema", _FIELDS))
        return JsonReading(Schema((*fields.columns, *wrapper)))

    @property
    def _fields(self) -> dict[str, str]:
        image = _struct(self._image)
        source = {"source": values.SOURCE} if self.rules.change_columns else {}
        return {"op": "STRING", "before": image, "after": image, **source}

    def _change(self, json: str) -> str:
        parts = ", ".join(f"'{name}', {_part(json, name)}" for name in self._fields)
        return f"named_struct({parts})"

    def _kinds(self, json: str) -> str:
        parts = ", ".join(f"{literal(each.name)}, {_kind(each, json)}" for each in self._encoded)
        return f"IF({json}.schema IS NULL, NULL, named_struct({parts}))"

    # What is told of a bad record: it is parsed once more.

    def _missing(self, image: str) -> dict[str, str]:
        return {name: f"{image}.{quote(name)} IS NULL" for name in self.columns.required}

    def _not_sent(self, image: str) -> dict[str, str]:
        found = {each.name: values.unavailable(each, image) for each in self._image.columns}
        return {name: sql for name, sql in found.items() if sql is not None}

    def _about_row(
        self, source: str, words: str, conditions: Callable[[str], dict[str, str]]
    ) -> str:
        """SQL for a sentence that ends with the columns of `after` for which a condition holds."""
        parsed = from_json(self._json.schema, source)
        after = _part("json", "after")
        names = [f"IF({sql}, {literal(name)}, NULL)" for name, sql in conditions(after).items()]
        listed = ", ".join(["', '", *names])
        return (
            f"concat({literal(words)}, transform(array({parsed}), json -> concat_ws({listed}))[0])"
        )

    def _wrong_words(self, source: str) -> str:
        if len(self.columns.columns) > FIELDS_NAMED:
            return "'a field does not fit the schema'"
        text = f"CAST({source} AS STRING)"
        images = ", ".join(f"get_json_object({text}, '$.{path}')" for path in _IMAGES)
        plain = [each for each in self.columns.columns if not values.encoded(each)]
        own = [wrong_field(each, f"coalesce({images})") for each in plain]
        encoded = self._about_row(source, "", self._undecodable)
        listed = ", ".join(["', '", *own, f"nullif({encoded}, '')"])
        envelope = "'the envelope is not as Debezium makes it'"
        found = f"coalesce(nullif(concat_ws({listed}), ''), {envelope})"
        return f"concat('does not fit the schema: ', {found})"

    def _undecodable(self, image: str) -> dict[str, str]:
        return {
            f"{each.name} is not {each.type}": f"{image}.{quote(each.name)} IS NOT NULL AND "
            f"{values.value(each, image, _kind(each, 'json'), self.rules)} IS NULL"
            for each in self._encoded
        }


def _part(json: str, name: str) -> str:
    """A field of the change, which is the message or its payload."""
    return f"IF({json}.payload IS NULL, {json}.{name}, {json}.payload.{name})"


def _kind(column: Column, json: str) -> str:
    """What the message's schema says of a column, as it says it of the row that there is now."""
    row = f"get(filter({json}.schema.fields, one -> one.field = 'after'), 0).fields"
    return f"get(filter({row}, one -> one.field = {literal(column.name)}), 0)"


def _struct(schema: Schema) -> str:
    fields = ", ".join(f"{quote(each.name)}: {each.type}" for each in schema.columns)
    return f"STRUCT<{fields}>"


def _any(conditions: Iterable[str]) -> str:
    return " OR ".join(conditions)
