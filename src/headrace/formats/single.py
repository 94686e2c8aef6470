"""Messages one at a time, as JSON and back: for commands that show records or send a few.

A pipeline never comes here: it reads and writes whole batches, by `formats.reading` and
`formats.encoding`. What a schema means is left to fastavro and to Protobuf's own library.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, SchemaStore, StoredSchema
from headrace.errors import InvalidSchema, UnknownSchema
from headrace.formats import compression
from headrace.formats.framing import SIZES, ZLIB, header, id_in

# Of bytes: what a payload says, as values of JSON; and the other way.
Decoder = Callable[[bytes], Any]
Encoder = Callable[[Any], bytes]


class Messages:
    """Messages that name schemas of a store; each schema is asked for once."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._decoders: dict[str, Decoder] = {}

    def decoded(self, message: bytes | None) -> bytes | None:
        """The JSON of a message; one without a frame is what it was. Raises ValueError where it
        cannot be read.
        """
        id = id_in(message, self._store.framing) if message is not None else None
        if message is None or id is None:
            return message
        if id not in self._decoders:
            self._decoders[id] = self._decoder(id)
        try:
            value = self._decoders[id](_payload(message, self._store.framing))
        except Exception as error:
            raise ValueError(f"by schema {id}: {error}") from error
        return json.dumps(value, ensure_ascii=False, default=_plain).encode()

    def _decoder(self, id: str) -> Decoder:
        """One that always fails where there is no such schema, so that it is asked for once."""
        try:
            return decoder(self._store.by_id(id), self._store.framing)
        except (UnknownSchema, InvalidSchema) as error:
            words = str(error)

        def fail(_payload: bytes) -> Any:
            raise ValueError(words)

        return fail


def decoder(schema: StoredSchema, framing: Framing) -> Decoder:
    """Raises InvalidSchema."""
    with _understanding(schema):
        match schema.type:
            case SchemaType.AVRO:
                return _avro_decoder(schema)
            case SchemaType.PROTOBUF:
                return _protobuf_decoder(schema, framing)
            case SchemaType.JSON:
                return json.loads


def encoder(schema: StoredSchema, framing: Framing) -> Encoder:
    """Of values of JSON to messages with their frame; ValueError for one that does not fit.

    Raises InvalidSchema.
    """
    head = header(framing, schema.id)
    with _understanding(schema):
        match schema.type:
            case SchemaType.AVRO:
                payload = _avro_encoder(schema)
            case SchemaType.PROTOBUF:
                payload = _protobuf_encoder(schema, framing)
            case SchemaType.JSON:
                payload = _json_bytes

    def encode(value: Any) -> bytes:
        try:
            return head + payload(value)
        except Exception as error:
            raise ValueError(f"does not fit {schema.subject or schema.id}: {error}") from error

    return encode


@contextmanager
def _understanding(schema: StoredSchema) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise InvalidSchema(f"reading {schema.subject or schema.id}", str(error)) from error


def _payload(message: bytes, framing: Framing) -> bytes:
    payload = message[SIZES[framing] :]
    if framing is not Framing.GLUE or message[1:2] != ZLIB:
        return payload
    found = compression.inflated(payload)
    if found is None:
        raise ValueError("it is compressed, and broken")
    return found


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    """What JSON has not, as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):  # times of a day, too
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | UUID) else repr(value)


# Avro

# What values of its types are in Python.
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "null": type(None),
    "int": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "string": str,
    "bytes": bytes,
    "fixed": bytes,
    "record": dict,
    "map": dict,
    "array": list,
}


def _avro(schema: StoredSchema) -> tuple[Any, dict[str, Any]]:
    """As fastavro has parsed it, and all that it names."""
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    for _, text in schema.references:
        parse_schema(json.loads(text), named_schemas=named)
    return parse_schema(json.loads(schema.text), named_schemas=named), named


def _avro_decoder(schema: StoredSchema) -> Decoder:
    from fastavro import schemaless_reader

    parsed, _ = _avro(schema)
    return lambda payload: schemaless_reader(BytesIO(payload), parsed, None)


def _avro_encoder(schema: StoredSchema) -> Encoder:
    from fastavro import schemaless_writer

    parsed, named = _avro(schema)

    def encode(value: Any) -> bytes:
        out = BytesIO()
        schemaless_writer(out, parsed, _avro_value(value, parsed, named), strict_allow_default=True)
        return out.getvalue()

    return encode


def _avro_value(value: Any, schema: Any, named: dict[str, Any]) -> Any:
    """A value of JSON as fastavro takes it: what `_plain` has made text of is what it was again."""
    if isinstance(schema, list):
        return _avro_choice(value, schema, named)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    if kind == "record" and isinstance(value, dict):
        types = {each["name"]: each["type"] for each in schema["fields"]}
        # One that the schema has not is left to be refused.
        return {
            name: _avro_value(each, types[name], named) if name in types else each
            for name, each in value.items()
        }
    if kind == "array" and isinstance(value, list):
        return [_avro_value(each, schema["items"], named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _avro_value(each, schema["values"], named) for key, each in value.items()}
    return _avro_simple(value, kind, str(schema.get("logicalType", "")))


def _avro_choice(value: Any, schemas: list[Any], named: dict[str, Any]) -> Any:
    """By the first of a union that it fits."""
    for each in schemas:
        with suppress(ValueError, TypeError, ArithmeticError):
            found = _avro_value(value, each, named)
            if _is_avro(found, named.get(each, {"type": each}) if isinstance(each, str) else each):
                return found
    names = (each if isinstance(each, str) else each.get("name", each["type"]) for each in schemas)
    raise ValueError(f"{value!r} is none of {', '.join(names)}")


def _is_avro(value: Any, schema: dict[str, Any]) -> bool:
    kind = schema["type"]
    if isinstance(value, Decimal | date | time):
        return "logicalType" in schema
    if kind == "record" and isinstance(value, dict):
        return value.keys() <= {each["name"] for each in schema["fields"]}
    if kind == "enum":
        return value in schema["symbols"]
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    return isinstance(value, _PYTHON[kind])


def _avro_simple(value: Any, kind: str, logical: str) -> Any:
    if logical == "decimal":
        return Decimal(str(value))
    if isinstance(value, str):
        if logical.startswith(("timestamp", "local-timestamp")):
            return datetime.fromisoformat(value)
        if logical.startswith("time-"):
            return time.fromisoformat(value)
        if logical == "date":
            return date.fromisoformat(value)
        if kind in ("bytes", "fixed"):
            return base64.b64decode(value, validate=True)
    return value


# Protobuf


def _protobuf_decoder(schema: StoredSchema, framing: Framing) -> Decoder:
    from google.protobuf import json_format, message_factory

    from headrace.formats import protobuf_schemas as schemas

    messages = schemas.of_text(schema.text, schema.references)
    where = schemas.glue_index_of if framing is Framing.GLUE else schemas.index_of
    heads = {_index(where(each), framing): each for each in messages.all()}
    if framing is Framing.CONFLUENT:
        heads[_varint(2) + _varint(0)] = heads[b"\0"]  # the first, as some write it in full

    def decode(payload: bytes) -> Any:
        found = max((head for head in heads if payload.startswith(head)), key=len, default=None)
        if found is None:
            raise ValueError("it names no message of the schema")
        made = message_factory.GetMessageClass(heads[found]).FromString(payload[len(found) :])
        return json_format.MessageToDict(made, preserving_proto_field_name=True)

    return decode


def _protobuf_encoder(schema: StoredSchema, framing: Framing) -> Encoder:
    from google.protobuf import json_format, message_factory

    from headrace.formats import protobuf_schemas as schemas

    first = schemas.of_text(schema.text, schema.references).message()
    where = schemas.glue_index_of if framing is Framing.GLUE else schemas.index_of
    head, made = _index(where(first), framing), message_factory.GetMessageClass(first)
    return lambda value: head + json_format.ParseDict(value, made()).SerializeToString()


def _index(path: tuple[int, ...], framing: Framing) -> bytes:
    """Which message of the schema it is, as it stands before the message."""
    if framing is Framing.GLUE:
        return _varint(path[0])
    if path == (0,):
        return b"\0"
    return b"".join(_varint(each * 2) for each in (len(path), *path))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
