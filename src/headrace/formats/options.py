"""The options that say what the bytes of a key and a value are, for Kafka sources and sinks alike.

`Wanted` is what they ask for, of a key or of a value, whichever way it is written: as `format` with
its options, or as the `serde_config` of other tools. The checks of them are in `formats.checks`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.admin.stores import RegistryAddress
from headrace.model.evolution import Evolution
from headrace.model.schema import Schema, schema_fault
from headrace.spans import short
from headrace.spec import Option, Options, Type

# What a value can be; with `schema_registry`, avro and protobuf are framed as their registry has
# it, and confluent_… says the same in a word.
FORMATS = (
    "json",
    "raw",
    "avro",
    "confluent_avro",
    "protobuf",
    "confluent_protobuf",
    "json_schema",
    "debezium",
    "csv",
)
KEY_FORMATS = (
    "text",
    "json",
    "avro",
    "confluent_avro",
    "protobuf",
    "confluent_protobuf",
    "json_schema",
)
# Those whose messages cannot be read or written without a registry.
REGISTERED = ("confluent_avro", "confluent_protobuf", "json_schema")
# Those that may have one.
MAY_REGISTER = ("avro", "protobuf", "debezium")
# The methods of `serde_config`, by the formats that they are here.
METHODS = {"JSON": "json", "RAW_VALUE": "raw", "AVRO": "confluent_avro", "PROTOBUF": "protobuf"}


class Part(StrEnum):
    KEY = "key"
    VALUE = "value"


class Compression(StrEnum):
    """Of what stands behind a frame of AWS Glue."""

    NONE = "none"
    ZLIB = "zlib"


def address_fault(endpoint: str) -> str | None:
    for each in endpoint.split(","):
        if re.match(r"https?://[^/\s]", each.strip()) is None:
            shown = short(each.rpartition("@")[2].strip())
            return f"must begin with http:// or https:// and a host, and is `{shown}`"
    return None


REGISTRY = Option(
    "schema_registry",
    Type.MAPPING,
    "The schema registry that knows the schemas of these messages.",
    example="{endpoint: 'http://localhost:8081'}",
    fields=(
        Option(
            "type",
            Type.CHOICE,
            "`confluent` is every registry with Confluent's API; `glue` is that of AWS.",
            default="confluent",
            choices=("confluent", "glue"),
        ),
        Option(
            "endpoint",
            Type.TEXT,
            "Its address, or several with commas between them. Needed, except for AWS Glue.",
            aliases=("url",),
            example="http://localhost:8081",
            validate=address_fault,
        ),
        Option(
            "api_key",
            Type.TEXT,
            "The user, or the key of an API; for AWS Glue the access key, where the environment "
            "gives none.",
            aliases=("username",),
            secret=True,
        ),
        Option(
            "api_secret",
            Type.TEXT,
            "The password of that user.",
            aliases=("password",),
            secret=True,
        ),
        Option("region", Type.TEXT, "For AWS Glue: the region.", example="eu-central-1"),
        Option(
            "registry_name",
            Type.TEXT,
            "For AWS Glue: the registry. Default: `default-registry`.",
            example="orders",
        ),
        Option(
            "compression",
            Type.CHOICE,
            "For AWS Glue: whether messages are compressed. A sink writes none that are unless "
            "told to; a source sees it by each message, and `none` spares it from looking.",
            choices=tuple(Compression),
        ),
    ),
)

# In the order of `RegistryAddress`.
REGISTRY_FIELDS = ("type", "endpoint", "api_key", "api_secret", "region", "registry_name")

SERDE = Option(
    "serde_config",
    Type.MAPPING,
    "What a record's value is, as other tools say it; `format` and its options say the same.",
    example="{serialization_method: RAW_VALUE}",
    fields=(
        Option(
            "serialization_method",
            Type.CHOICE,
            "`RAW_VALUE` passes bytes, as `format: raw` does; `AVRO` is `confluent_avro`.",
            required=True,
            choices=tuple(METHODS),
            example="RAW_VALUE",
        ),
        Option("schema_classpath", Type.TEXT, "The class of a Protobuf message."),
        Option(
            "schema_registry_url",
            Type.TEXT,
            "The address of a schema registry.",
            example="http://localhost:8081",
            validate=address_fault,
        ),
        Option("schema_registry_username", Type.TEXT, "The user of a schema registry."),
        Option(
            "schema_registry_password",
            Type.TEXT,
            "The password of that user.",
            secret=True,
        ),
    ),
)


def delimiter_fault(delimiter: str) -> str | None:
    if len(delimiter) == 1 and delimiter not in "\n\r\"'":
        return None
    return "must be one character, and no quote"


_FORMAT = Option(
    "format",
    Type.CHOICE,
    "What a record's value is. `raw` is bytes as they are. `avro` and `protobuf` go by a schema of "
    "their own, or with `schema_registry` by the registry's, as `confluent_avro`, "
    "`confluent_protobuf` and `json_schema` always do.",
    default="json",
    choices=FORMATS,
)
_SCHEMA_FILE = Option(
    "schema_file",
    Type.TEXT,
    "A file with the schema of these messages: `.avsc` for Avro, `.proto` for Protobuf.",
    example="order.avsc",
)
_AVRO_SCHEMA = Option(
    "avro_schema",
    Type.TEXT,
    "The schema of plain Avro messages, as Avro's own JSON.",
    example='\'{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}\'',
)
_CLASSPATH = Option(
    "schema_classpath",
    Type.TEXT,
    "The class of a Protobuf message, as `module.Class`, which Python can import.",
    example="shop.orders_pb2.Order",
)
_MESSAGE = Option(
    "message",
    Type.TEXT,
    "The Protobuf message in the schema that these records are. Default: its first.",
    example="shop.Order",
)
_VALUE_SUBJECT = Option(
    "value_subject",
    Type.TEXT,
    "The subject of the values in the registry. Default: the topic's name followed by `-value`; "
    "for AWS Glue the topic's name.",
    example="orders-value",
)
_KEY_FORMAT = Option(
    "key_format",
    Type.CHOICE,
    "What a record's key is, where it is more than text or bytes.",
    choices=KEY_FORMATS,
)
_KEY_SCHEMA_FILE = Option(
    "key_schema_file",
    Type.TEXT,
    "A file with the schema of the keys: `.avsc` or `.proto`.",
    example="order_key.avsc",
)
_KEY_SUBJECT = Option(
    "key_subject",
    Type.TEXT,
    "The subject of the keys in the registry. Default: the topic's name followed by `-key`.",
    example="orders-key",
)
_KEY_SCHEMA = Option(
    "key_schema",
    Type.TEXT,
    "The columns of a key, as in CREATE TABLE. Needed for JSON.",
    example='"id BIGINT NOT NULL"',
    validate=schema_fault,
)
DELIMITER = Option(
    "delimiter",
    Type.TEXT,
    "What stands between two fields of `csv`: one character.",
    default=",",
    example='";"',
    validate=delimiter_fault,
)

DEBEZIUM = Option(
    "debezium",
    Type.MAPPING,
    "With `format: debezium`: how changes are read.",
    example="{change_columns: true}",
    fields=(
        Option(
            "deletes",
            Type.CHOICE,
            "`delete` deletes what has the key in sinks with `mode: upsert`; others do not see it. "
            "`rows` makes a row of what was there before, for tables that keep every change.",
            default="delete",
            choices=("delete", "rows"),
        ),
        Option(
            "change_columns",
            Type.FLAG,
            "Add the columns `_change_op`, `_change_time` and `_change_position`: what was done, "
            "when, and where in the log of the database.",
            default=False,
        ),
        Option(
            "timestamps",
            Type.CHOICE,
            "The unit of times that come as numbers, in messages that carry no schema. `auto` "
            "tells it by their size, which fails for microseconds in the years 1967 to 1973.",
            default="auto",
            choices=("auto", "milliseconds", "microseconds", "nanoseconds"),
        ),
        Option(
            "decimals",
            Type.CHOICE,
            "How numbers with a scale are written, in messages that carry no schema, as the "
            "connector's `decimal.handling.mode` has it; `string` is for `double` too.",
            default="precise",
            choices=("precise", "string"),
        ),
    ),
)

# What sources and sinks have in common; `schema` and what only one of them has stand there.
VALUE_OPTIONS = (
    _FORMAT,
    REGISTRY,
    _VALUE_SUBJECT,
    _SCHEMA_FILE,
    _AVRO_SCHEMA,
    _CLASSPATH,
    _MESSAGE,
    DELIMITER,
)
KEY_OPTIONS = (_KEY_FORMAT, _KEY_SCHEMA_FILE, _KEY_SUBJECT)
SOURCE_OPTIONS = (
    SERDE,
    DEBEZIUM,
    _KEY_SCHEMA,
    Option(
        "key_column",
        Type.TEXT,
        "With `key_format`: the column that holds the key.",
        default="key",
        example="order_key",
    ),
    Option(
        "schema_evolution",
        Type.CHOICE,
        "With the registry's schema and no `schema`: what becomes of a new version of it while the "
        "pipeline runs. `additive` takes up new fields as columns, `widen` also types that became "
        "wider, `freeze` none.",
        default=Evolution.ADDITIVE.value,
        choices=tuple(Evolution),
    ),
    Option(
        "on_incompatible_schema",
        Type.CHOICE,
        "When messages have a schema that `schema_evolution` does not allow, or that cannot be "
        "read: `fail` stops and shows the difference, `dlq` takes them for bad records.",
        default="fail",
        choices=("fail", "dlq"),
    ),
)
SINK_OPTIONS = (
    Option(
        "register_schema",
        Type.FLAG,
        "Register the schema of the rows when the pipeline is started, if the registry has it not. "
        "With `false` the newest schema of the subject is used, and must fit.",
        default=True,
    ),
)


@dataclass(frozen=True)
class ChangeRules:
    """What a definition says about changes of Debezium; the defaults are those of `DEBEZIUM`."""

    deletes: str = "delete"
    change_columns: bool = False
    timestamps: str = "auto"
    decimals: str = "precise"


@dataclass(frozen=True)
class Wanted:
    """What a definition says about the bytes of a key or of a value.

    `schema` are declared columns. Relative files begin at `folder`. `subjects` are those whose
    schemas the messages may have, the one that columns come from first; empty where topics go by a
    pattern. `column` is what a value that is no set of fields is called.
    """

    part: Part
    format: str
    folder: Path
    schema: Schema | None = None
    schema_file: str | None = None
    avro_schema: str | None = None
    classpath: str | None = None
    message: str | None = None
    delimiter: str = ","
    unstructured: bool = False
    registry: RegistryAddress | None = None
    subjects: tuple[str, ...] = ()
    column: str = "value"
    compression: Compression | None = None
    changes: ChangeRules = ChangeRules()

    @property
    def registered(self) -> bool:
        """Whether its schemas are those of a registry."""
        return self.format in REGISTERED or (
            self.format in MAY_REGISTER and self.registry is not None
        )

    @property
    def language(self) -> str:
        """The format without the word for its framing: json, avro, protobuf, …"""
        return self.format.removeprefix("confluent_")

    @property
    def gives_schema(self) -> bool:
        """Whether a definition has the schema of these messages in its own language."""
        return any((self.schema_file, self.avro_schema, self.classpath))

    @property
    def file(self) -> Path | None:
        return self.folder / self.schema_file if self.schema_file else None


def value_wanted(options: Options, folder: Path, topics: tuple[str, ...] = ()) -> Wanted:
    """What a source's or a sink's options say about its values."""
    serde = _of(options, "serde_config")
    method = serde["serialization_method"] if serde is not None else None
    registry = registry_of(options)
    return Wanted(
        Part.VALUE,
        METHODS[method] if method else str(options["format"]),
        folder,
        Schema.parse(options["schema"]) if _of(options, "schema") else None,
        options["schema_file"],
        options["avro_schema"],
        (serde["schema_classpath"] if serde is not None else None) or options["schema_classpath"],
        options["message"],
        options["delimiter"],
        bool(_of(options, "json_unstructured")),
        registry,
        subjects(options["value_subject"], topics, Part.VALUE, registry),
        compression=_compression(options),
        changes=_change_rules(_of(options, "debezium")),
    )


def key_wanted(options: Options, folder: Path, topics: tuple[str, ...] = ()) -> Wanted | None:
    """What they say about its keys; None where keys are left as they are."""
    if options["key_format"] is None:
        return None
    registry = registry_of(options)
    return Wanted(
        Part.KEY,
        options["key_format"],
        folder,
        Schema.parse(options["key_schema"]) if _of(options, "key_schema") else None,
        options["key_schema_file"],
        registry=registry,
        subjects=subjects(options["key_subject"], topics, Part.KEY, registry),
        column=_of(options, "key_column") or "key",
        compression=_compression(options),
    )


def registry_of(options: Options) -> RegistryAddress | None:
    """The registry that options name, in whichever of the two places."""
    named = options["schema_registry"]
    if named is not None:
        return RegistryAddress(*(named[name] for name in REGISTRY_FIELDS))
    serde = _of(options, "serde_config")
    if serde is None or serde["schema_registry_url"] is None:
        return None
    user, password = serde["schema_registry_username"], serde["schema_registry_password"]
    return RegistryAddress("confluent", serde["schema_registry_url"], user, password)


def _compression(options: Options) -> Compression | None:
    named = options["schema_registry"]
    said = named["compression"] if named is not None else None
    return Compression(said) if said is not None else None


def subjects(
    named: str | None, topics: tuple[str, ...], part: Part, registry: RegistryAddress | None
) -> tuple[str, ...]:
    """The subjects of messages: the one that is named, or one for each topic by its name.

    AWS's own clients name the schema of a key like that of the value, which can be meant only where
    one of them is none.
    """
    if named:
        return (named,)
    glue = registry is not None and registry.kind == "glue"
    suffix = "" if glue and part is Part.VALUE else f"-{part}"
    return tuple(f"{topic}{suffix}" for topic in topics)


def _change_rules(said: Options | None) -> ChangeRules:
    names = [each.name for each in fields(ChangeRules)]
    return ChangeRules(*(said[name] for name in names)) if said is not None else ChangeRules()


def _of(options: Options, name: str) -> Any:
    """An option that only sources, or only sinks, have."""
    return options[name] if name in options.spec.names else None
