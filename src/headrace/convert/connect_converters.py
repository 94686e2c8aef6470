"""Kafka Connect's converters as formats: what values and keys are, and which registry knows them.

`reading` is for sink connectors, whose records come from Kafka; `writing` for source connectors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headrace.convert.draft import Plain
from headrace.convert.report import Keys
from headrace.formats.options import Part
from headrace.frontend.sql.tables import bare
from headrace.model.schema import Schema

REGISTRY = "${env:HEADRACE_REGISTRY:-http://localhost:8081}"
SCHEMA = 'add `schema:` with the columns, or convert again with --schema "id BIGINT, …"'
_VALUE = f"{Part.VALUE}.converter"
_CONFLUENT = {
    "AvroConverter": "confluent_avro",
    "ProtobufConverter": "confluent_protobuf",
    "JsonSchemaConverter": "json_schema",
}
# Those of AWS, whose registry is Glue.
_GLUE = {
    "AWSKafkaAvroConverter": "avro",
    "ProtobufSchemaConverter": "protobuf",
    "JsonSchemaConverter": "json_schema",
}
_NEEDLESS = (
    "schemas.enable",
    "schemas.cache.config",
    "basic.auth.credentials.source",
    "enhanced.avro.schema.support",
    "connect.meta.data",
    "avroRecordType",
    "dataFormat",
    "protobufMessageType",
)
_LOGIN = re.compile(r"((?:\$\{[^}]*\}|[^:$])*):(.*)", re.DOTALL)


@dataclass(frozen=True)
class Decoding:
    """Options of a source for what a converter reads, and a first step where one is needed."""

    values: dict[str, Plain] = field(default_factory=dict)
    steps: tuple[tuple[str, str], ...] = ()


def reading(keys: Keys, schema: str | None, debezium: dict[str, Plain] | None) -> Decoding:
    """What values are. `schema` are their columns; `debezium` says how changes are read, where
    they are such.
    """
    declared: dict[str, Plain] = {"schema": schema} if schema is not None else {}
    changes: dict[str, Plain] = {}
    if debezium is not None:
        changes = {"format": "debezium", **({"debezium": debezium} if debezium else {})}
    found = _registered(keys, Part.VALUE)
    if found is not None:
        keys.pass_over(_registering(_VALUE), "is not needed: only the sinks of a pipeline register")
        return Decoding(found | changes | declared)
    converter = (keys.take(_VALUE) or "").rpartition(".")[2]
    wrapped = keys.flag(f"{_VALUE}.schemas.enable", default=True)
    if converter == "ByteArrayConverter" and not changes:
        return Decoding({"format": "raw"})
    if converter == "StringConverter" and not changes:
        text = "SELECT CAST(value AS STRING) AS value FROM input"
        return Decoding({"format": "raw"}, (("text", text),))
    if converter != "JsonConverter":
        wrapped = False
        _tell(keys, converter)
    if schema is None:
        keys.report.to_add("the columns of the JSON records are not in the file", keys.span, SCHEMA)
        return Decoding(changes)
    # Debezium's envelopes are read with and without a schema beside them.
    is_payload = wrapped and not changes
    return _payload(schema) if is_payload else Decoding(changes | declared)


def writing(keys: Keys) -> dict[str, Plain]:
    """Options of a sink for what the value converter of a source connector writes."""
    found = _registered(keys, Part.VALUE)
    if found is not None:
        return found | _register(keys, _VALUE)
    place, converter = keys.at(_VALUE), (keys.take(_VALUE) or "").rpartition(".")[2]
    wrapped = keys.flag(f"{_VALUE}.schemas.enable", default=True)
    if converter == "JsonConverter" and wrapped:
        why = "is on: records would be `schema` and `payload`; here they are the payload"
        keys.report.lost(f"{_VALUE}.schemas.enable", place, why)
    elif converter not in ("", "JsonConverter"):
        keys.report.lost(_VALUE, place, f"is {converter}; records are JSON here")
        keys.lose(keys.left(f"{_VALUE}."), "belongs to it")
    return {}


def key_format(keys: Keys, values: dict[str, Plain]) -> dict[str, Plain]:
    """The same for the keys of a sink, where it writes any; they are of the values' registry."""
    found = _registered(keys, Part.KEY)
    if found is None:
        return {}
    keys.pass_over(_registering(f"{Part.KEY}.converter"), "is that of the values")
    theirs, ours = found["schema_registry"], values.get("schema_registry", found["schema_registry"])
    if theirs != ours:
        why = "is another registry than that of the values, and a sink here has one"
        name = f"{Part.KEY}.converter.schema.registry.url"
        keys.report.lost(name, keys.at(name), why)
    return {"key_format": found["format"], "schema_registry": ours}


def _registered(keys: Keys, part: Part) -> dict[str, Plain] | None:
    """The format of a converter that goes by a registry, and that; None for any other one."""
    name = f"{part}.converter"
    title = (keys.peek(name) or "") if keys.left(name) else ""
    is_glue = "amazonaws" in title
    form = (_GLUE if is_glue else _CONFLUENT).get(title.rpartition(".")[2])
    if form is None:
        return None
    keys.take(name)
    registry = _glue(keys, name) if is_glue else _confluent(keys, name)
    strategy = f"{name}.{part}.subject.name.strategy"
    if (keys.take(strategy) or "TopicNameStrategy").rpartition(".")[2] != "TopicNameStrategy":
        why = f"names subjects otherwise; here one is that of the topic, or `{part}_subject`"
        keys.report.lost(strategy, keys.at(strategy), why)
    keys.pass_over([f"{name}.{each}" for each in _NEEDLESS], "is not needed")
    left = set(keys.left(f"{name}.")) - set(_registering(name))
    keys.lose(sorted(left), "has no equal here")
    return {"format": form, "schema_registry": registry}


def _confluent(keys: Keys, name: str) -> dict[str, Plain]:
    url = keys.take(f"{name}.schema.registry.url")
    if url is None:
        what = "the worker's schema.registry.url is not in the file"
        keys.report.to_add(what, keys.at(name), "set the variable HEADRACE_REGISTRY")
    login = f"{name}.basic.auth.user.info"
    info = keys.take(login, f"{name}.schema.registry.basic.auth.user.info")
    found: dict[str, Plain] = {"endpoint": url or REGISTRY}
    if info is None:
        return found
    both = _LOGIN.fullmatch(info)
    if both is None:
        what = f"`{login}` is a user and a password in one, which are two options here"
        hint = "set `api_key` and `api_secret` of `schema_registry`"
        keys.report.to_add(what, keys.at(login), hint)
        return found
    return {**found, "api_key": both[1], "api_secret": both[2]}


def _glue(keys: Keys, name: str) -> dict[str, Plain]:
    taken = {
        "region": keys.take(f"{name}.region"),
        "registry_name": keys.take(f"{name}.registry.name"),
        "endpoint": keys.take(f"{name}.endpoint"),
    }
    return {"type": "glue", **{key: each for key, each in taken.items() if each is not None}}


def _registering(name: str) -> list[str]:
    names = ("auto.register.schemas", "use.latest.version", "schemaAutoRegistrationEnabled")
    return [f"{name}.{each}" for each in names]


def _register(keys: Keys, name: str) -> dict[str, Plain]:
    """Confluent's converters register where nothing is said; those of AWS do not."""
    auto, latest, glue = _registering(name)
    is_glue = "amazonaws" in (keys.peek(name) or "")
    registers = keys.flag(auto, default=True) and not keys.flag(latest, default=False)
    if keys.flag(glue, default=False) if is_glue else registers:
        return {}
    return {"register_schema": False}


def _payload(schema: str) -> Decoding:
    """Records with a schema of Connect's own beside them."""
    columns = Schema.parse(schema).columns
    inside = ", ".join(f"{bare(each.name)}: {each.type}" for each in columns)
    unwrap = "SELECT * EXCEPT (payload), payload.* FROM input"
    return Decoding({"schema": f"payload STRUCT<{inside}>"}, (("payload", unwrap),))


def _tell(keys: Keys, converter: str) -> None:
    if converter:
        why = f"is {converter}, which cannot be read here; the records are taken for JSON"
        keys.report.lost(_VALUE, keys.at(_VALUE), why)
        keys.lose(keys.left(f"{_VALUE}."), "belongs to it")
    else:
        what = "the worker's value.converter is not in the file; taken for JSON without schemas"
        keys.report.to_add(what, keys.span, "look it up in the worker's configuration")
