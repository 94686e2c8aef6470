"""Definitions that are made up: every source, sink, step and option of their specs.

They are written as JSON, which is YAML, so that none of what is tested writes them. A value is kept
when the option and the component's own checks have nothing against it.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import strategies as st

from headrace.frontend import variables, yaml
from headrace.frontend.options import PIPELINE, SOURCE
from headrace.sinks import SINKS
from headrace.sources import SOURCES
from headrace.spans import Field, Node, Severity, Span
from headrace.spec import Option, Spec, Type

HERE = Span("made up", 1, 1)
SCHEMA = "id BIGINT NOT NULL, name STRING, at TIMESTAMP, `odd name` ARRAY<INT>, s STRUCT<a: INT>"
COLUMNS = ("id", "name", "at")
EXPRESSIONS = ("id", "concat(name, ':', id)", "upper(name)", "'it''s # not'", "id % 3")
REGISTRY = {
    "endpoint": "${env:HEADRACE_MADE_UP:-http://localhost:8081}",
    "api_key": "me",
    "api_secret": "it's # a 'secret': \\ {x}",
}
AVRO = """{"type": "record", "name": "Order", "doc": "it's # one", "fields": [
  {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}"""
# What a component needs besides what is required by itself.
BASES: dict[str, tuple[dict[str, Any], ...]] = {
    "kafka source": (
        {"topic": "orders", "schema": SCHEMA},
        {"topics": ["orders", "returns"], "schema": SCHEMA.replace(", ", ",\n  ")},
        {"topic_pattern": "orders-\\d+|it's", "schema": SCHEMA},
        {"topic": "orders, returns", "format": "raw"},
        {"topic": "orders", "format": "confluent_avro", "schema_registry": REGISTRY},
        {"topic": "orders", "format": "json_schema", "schema_registry": {"type": "glue"}},
        {"topic": "orders", "format": "avro", "avro_schema": AVRO},
        {
            "topic": "orders",
            "format": "debezium",
            "schema": SCHEMA,
            "debezium": {"deletes": "rows"},
        },
        {
            "topic": "orders",
            "serde_config": {
                "serialization_method": "AVRO",
                "schema_registry_url": "https://registry",
                "schema_registry_password": "${env:HEADRACE_MADE_UP:-it's}",
            },
        },
    ),
    "files source": ({"schema": SCHEMA}, {"format": "text"}),
    "log source": ({"schema": SCHEMA, "format": "json"}, {}),
    "jdbc source": (
        {"schema": SCHEMA.replace(" NOT NULL", ""), "table": "orders"},
        {"query": "SELECT *\nFROM orders -- all; of 'them'"},
    ),
    "impulse source": ({"fields": {"id": "n", "name": "concat('it''s', n)", "at": "at"}},),
    "kafka sink": (
        {"bootstrap_server": "${env:HEADRACE_MADE_UP:-localhost:9092}"},
        {
            "bootstrap_server": "localhost:9092",
            "format": "confluent_protobuf",
            "schema_registry": REGISTRY,
            "register_schema": False,
        },
        {
            "bootstrap_server": "localhost:9092",
            "key": "id",
            "key_format": "avro",
            "key_subject": "it's",
            "schema_registry": REGISTRY,
        },
        {"format": "raw", "value": "name"},
    ),
}
DURATIONS = ("500ms", "2s", "5 m", "1 hour", "2 days", "90000ms")
# Letters that mean something in YAML, in SQL or in both, among ordinary ones.
LETTERS = "abc xyz019_.-:#'\"`\\,;{}[]()%&*!|>@=\n\tńλ✓"
STEPS: tuple[dict[str, Any], ...] = (
    {"sql": "SELECT id, name, at FROM {0} WHERE name <> 'it''s; --'"},
    {"sql": "  SELECT {0}.id, name, at\nFROM {0} -- all\n;\n"},
    {"sql": "WITH a AS (SELECT * FROM {0}) SELECT id, name, at FROM a"},
    {"python": "shop.clean"},
    {"python_rows": "shop.score", "schema": "id BIGINT, name STRING, at TIMESTAMP"},
    {"python_rows": "shop.score", "batch_size": 7},
    {"deduplicate": {"by": ["id", "name"], "remember": "forever"}},
    {"deduplicate": {"by": ["id"]}},
)


def definitions() -> st.SearchStrategy[str]:
    """The text of a file, which may still have a fault between its parts."""
    return st.randoms(use_true_random=True).map(lambda random: Maker(random).text())


class Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def text(self) -> str:
        names = self._names(self.random.choice((1, 1, 2)))
        steps = self._steps(names)
        last = steps[-1]["name"] if steps else names[0]
        sinks: dict[str, Any] = {}
        wanted = self._unread(names, steps) or [last]
        for name, rows in zip(self._names(len(wanted)), wanted, strict=True):
            named = {} if rows == last and len(names) == 1 and self._maybe() else {"from": rows}
            sinks[name] = {**self._component("sink", SINKS), **named}
        if wanted == [last] and self._maybe():
            sinks = {}
        sources = {name: self._component("source", SOURCES) for name in names}
        own = {"pipeline": self._word(), **self._some(PIPELINE, without=("pipeline", "guarantee"))}
        tree = {
            **own,
            "sources": sources,
            "transforms": steps,
            **({"sinks": sinks} if sinks else {}),
        }
        return json.dumps(tree, ensure_ascii=False)

    def _component(self, role: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
        connector = self.random.choice(sorted(kinds))
        kind = kinds[connector]
        values: dict[str, Any] = {"connector_type": connector}
        values |= self.random.choice(BASES.get(f"{connector} {role}", ({},)))
        options = sorted(
            kind.SPEC.options, key=lambda each: (not each.required, self.random.random())
        )
        for option in options:
            if option.name in values or not (option.required or self._maybe()):
                continue
            tried = {**values, option.name: self.value(option)}
            if option.required or _is_taken(kind, tried, role):
                values = tried
        if role == "source" and self._maybe():
            values |= self._some(SOURCE, without=("columns", "watermark", "metadata_table"))
        if "schema" in values and self._maybe():
            values["watermark"] = {"column": "at", "delay": self.random.choice(DURATIONS)}
        if "schema" in values and self._maybe():
            values["columns"] = self.random.choice(_SHOWN)
        return values

    def _unread(self, sources: list[str], steps: list[dict[str, Any]]) -> list[str]:
        """Tables that no step reads."""
        found = [*sources]
        for step in steps:
            before = found[-1]
            read = re.findall(r"FROM (\w+)", step["sql"]) if "sql" in step else [step.get("from")]
            gone = {before if name in (None, "input") else name for name in read}
            found = [name for name in found if name not in gone] + [step["name"]]
        return found

    def _steps(self, sources: list[str]) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        for number in range(self.random.choice((0, 1, 2, 3))):
            known = [*sources, *(step["name"] for step in steps)]
            has_input = len(known) == 1 or bool(steps)
            source = self.random.choice([*known, "input"] if has_input else known)
            step = dict(self.random.choice(STEPS))
            if "sql" in step:
                step["sql"] = step["sql"].format(source)
            elif source != "input":
                step["from"] = source
            name = self.random.choice([f"step_{number + 1}", f"made_{number}"])
            steps.append({"name": name, **step})
        return steps

    def _some(self, spec: Spec, without: tuple[str, ...]) -> dict[str, Any]:
        options = [option for option in spec.options if option.name not in without]
        return {option.name: self.value(option) for option in options if self._maybe()}

    def value(self, option: Option) -> Any:
        """One that the option itself takes; now and then as the default of a reference."""
        value = self._taken(option)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, list | dict) or "}" in text or self.random.random() > 0.15:
            return value
        return f"${{env:HEADRACE_MADE_UP:-{text}}}"

    def _taken(self, option: Option) -> Any:
        """Made up, or the option's example."""
        for _ in range(4):
            value = self._value(option)
            if _reads(option, value):
                return value
        tree, _ = yaml.read(f"{option.name}: {option.example}", "example")
        assert isinstance(tree.value, dict)
        return tree.value[option.name].node.plain()

    def _value(self, option: Option) -> Any:
        random = self.random
        if option.type is Type.MAPPING:
            return self._maybe() if option.flag and self._maybe() else self._mapping(option)
        if option.type is Type.MAPPINGS:
            return [self._mapping(option) for _ in range(random.choice((1, 2)))]
        if option.type is Type.PROPERTIES:
            return {self._word(): random.choice(EXPRESSIONS) for _ in range(random.choice((1, 3)))}
        simple = {
            Type.TEXT: random.choice([self._word(), random.choice(EXPRESSIONS), self._text()]),
            Type.INTEGER: max(option.minimum or 0, random.choice((1, 7, 1000, 10**6))),
            Type.FLAG: self._maybe(),
            Type.CHOICE: random.choice(option.choices or ("",)),
            Type.LIST: random.choice((["id"], ["name", "id"], "id", "id, at")),
            Type.DURATION: random.choice(DURATIONS),
        }
        return simple[option.type]

    def _mapping(self, option: Option) -> dict[str, Any]:
        inside = [each for each in option.fields if each.required or self._maybe()]
        return {each.name: self.value(each) for each in inside}

    def _maybe(self) -> bool:
        return self.random.random() < 0.4

    def _names(self, count: int) -> list[str]:
        pool = ["orders", "Returns", "source", "sink", "all", "lines", "paid", "made_0"]
        return self.random.sample(pool, count)

    def _word(self) -> str:
        tail = self.random.choices(string.ascii_letters + "0189._-", k=self.random.randint(0, 8))
        return self.random.choice(string.ascii_letters) + "".join(tail)

    def _text(self) -> str:
        return "".join(self.random.choices(LETTERS, k=self.random.randint(1, 12)))


_SHOWN: tuple[Any, ...] = (
    ["id", "at", "name"],
    {"id": "id", "name": "upper(name)", "at": "at"},
    {
        "id": "id",
        "name": "name",
        "at": "at",
        "odd name": "`odd name`",
        "s": "s",
        "more": "concat(name, ' # ', id)",
    },
)


def _fields(values: Mapping[str, Any]) -> dict[str, Field]:
    return {key: Field(HERE, _node(each)) for key, each in values.items()}


def _node(value: Any) -> Node:
    if isinstance(value, dict):
        return Node(_fields(value), HERE)
    return Node([_node(item) for item in value] if isinstance(value, list) else value, HERE)


def _reads(option: Option, value: Any) -> bool:
    spec = Spec("option", option.name, option.help, (option,))
    return not spec.read(_fields({option.name: value}), HERE)[1]


def _is_taken(kind: Any, values: Mapping[str, Any], role: str) -> bool:
    fields = {key: each for key, each in _fields(values).items() if key != "connector_type"}
    replaced, _ = variables.substitute(Node(fields, HERE))
    assert isinstance(replaced.value, dict)
    options, faults = kind.SPEC.read(replaced.value, HERE)
    found = kind.check(options) if role == "source" else kind.check(options, None)
    return not any(fault.severity is Severity.ERROR for fault in (*faults, *found))
