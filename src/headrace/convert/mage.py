"""Mage's streaming sources and exporters in YAML: one file each, which together are a pipeline.

A data loader holds the options of a source, a data exporter those of a sink. Which of both a file
is follows from its folder, from its options, or from its place among several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from headrace.convert.draft import Draft, Part, Plain, Remark, plain_values, source_options
from headrace.convert.report import Keys, Reading, Report
from headrace.errors import DefinitionError
from headrace.formats.options import METHODS
from headrace.spans import Field, Node

_LOGINS = ("security_protocol", "ssl_config", "sasl_config")
_NO_LOGIN = "is a login, which pipelines cannot have yet"
_SCHEMA = 'add `schema:` with the columns, or convert again with --schema "id BIGINT, …"'
_BUFFER = "has no equal: a file is written with each batch"
_REGISTRY = {"url": "endpoint", "username": "api_key", "password": "api_secret"}
_STORES = {"amazon_s3": "s3a", "google_cloud_storage": "gs"}


@dataclass(frozen=True)
class Document:
    """A file and its tree."""

    file: str
    root: Node


def read(documents: Sequence[Document], schema: str | None = None) -> Reading:
    """A pipeline of one or two files. `schema` are the columns of a source of JSON."""
    report = Report()
    roles = _roles(documents)
    loader, exporter = roles.get("source"), roles.get("sink")
    if loader is None:
        report.to_add(
            "an exporter has no source: the one here is a guess",
            documents[0].root.span,
            "name the data loader's file too: headrace convert loader.yaml exporter.yaml",
        )
    source = _source(loader, schema, report) if loader else _guessed(exporter, schema)
    sinks = (_sink(exporter, report),) if exporter else ()
    name = PurePath((loader or exporter or documents[0]).file).stem
    draft = Draft(
        values={"pipeline": re.sub(r"[^A-Za-z0-9._-]", "_", name), "mode": "stream"},
        sources=(source,),
        sinks=sinks,
        heading=(f"From {' and '.join(each.file for each in documents)}, of Mage.",),
    )
    return Reading(draft, report.ordered)


def _roles(documents: Sequence[Document]) -> dict[str, Document]:
    if len(documents) > 2:
        hint = "name a data loader and a data exporter"
        raise DefinitionError(f"{len(documents)} files are not one pipeline", hint=hint)
    if len(documents) == 2:
        first, second = documents
        swapped = _role(first) == "sink" and _role(second) == "source"
        return {"source": second, "sink": first} if swapped else {"source": first, "sink": second}
    return {_role(documents[0]): documents[0]}


def _role(document: Document) -> str:
    folders = PurePath(document.file).parts
    if "data_exporters" in folders:
        return "sink"
    fields = _fields(document)
    connector = fields["connector_type"].node.text if "connector_type" in fields else ""
    if connector in _SINKS and (connector not in _SOURCES or "consumer_group" not in fields):
        return "sink"
    return "source"


def _fields(document: Document) -> dict[str, Field]:
    root = _with_references(document.root)
    return root.value if isinstance(root.value, dict) else {}


_CALL = re.compile(r"\{\{\s*(env_var|mage_secret_var)\(\s*['\"]([^'\"]+)['\"]\s*\)\s*\}\}")
_KINDS = {"env_var": "env", "mage_secret_var": "secret"}


def _with_references(node: Node) -> Node:
    """Mage's `{{ env_var('X') }}` and `{{ mage_secret_var('X') }}` in our words."""
    if isinstance(node.value, dict):
        inside = {k: Field(v.key, _with_references(v.node)) for k, v in node.value.items()}
        return Node(inside, node.span)
    if isinstance(node.value, list):
        return Node([_with_references(item) for item in node.value], node.span)
    if isinstance(node.value, str) and "{{" in node.value:
        text = _CALL.sub(lambda call: f"${{{_KINDS[call[1]]}:{call[2]}}}", node.value)
        return Node(text, node.span)
    return node


def _keys(document: Document, report: Report) -> tuple[str, Keys]:
    fields = _fields(document)
    keys = Keys(fields, document.root.span, report)
    for name, each in fields.items():
        if "{{" in each.node.text:
            report.lost(name, each.key, "has a template of Mage's in it, which stays as it is")
    return keys.take("connector_type") or "", keys


# Sources


def _source(document: Document, schema: str | None, report: Report) -> Part:
    connector, keys = _keys(document, report)
    if connector not in _SOURCES:
        _refuse(connector, "source", document, tuple(_SOURCES))
    return _SOURCES[connector](keys, document, schema)


def _kafka_source(keys: Keys, document: Document, schema: str | None) -> Part:
    keys.lose(_LOGINS, _NO_LOGIN)
    serde = keys.nested("serde_config")
    form = _format(serde) if serde is not None else {}
    known = {name for option in source_options("kafka") for name in option.names}
    fields = {key: each for key, each in _fields(document).items() if key in known}
    values = plain_values(source_options("kafka"), fields)
    keys.drop(fields)
    keys.lose_rest()
    values.pop("serde_config", None)
    if values.get("topics") is not None:
        values.pop("topic", None)
    return _read_as({"connector_type": "kafka", **values, **form}, schema, keys)


def _format(serde: Keys) -> dict[str, Plain]:
    """What a value is, by the names of ours."""
    method = serde.take("serde_config.serialization_method") or "JSON"
    classpath = serde.take("serde_config.schema_classpath")
    registry = {
        ours: serde.take(f"serde_config.schema_registry_{theirs}")
        for theirs, ours in (
            ("url", "endpoint"),
            ("username", "api_key"),
            ("password", "api_secret"),
        )
    }
    serde.lose_rest()
    if method not in METHODS:
        why = f"is {method}, which cannot be read here"
        serde.report.lost("serde_config.serialization_method", serde.span, why)
        return {}
    values: dict[str, Plain] = {} if method == "JSON" else {"format": METHODS[method]}
    if classpath is not None and method == "PROTOBUF":
        values["schema_classpath"] = classpath
    if method == "AVRO":
        values["schema_registry"] = {key: each for key, each in registry.items() if each}
    return values


def _read_as(values: dict[str, Plain], schema: str | None, keys: Keys) -> Part:
    form = values.get("format", "json")
    if schema is not None and form != "raw":
        return Part("source", {**values, "schema": schema})
    if form == "json":
        what = "the columns of the JSON records are not in the file"
        keys.report.to_add(what, keys.span, _SCHEMA)
    return Part("source", values)


def _guessed(exporter: Document | None, schema: str | None) -> Part:
    """A source for an exporter that came alone: its cluster, and a topic that nobody named."""
    fields = _fields(exporter) if exporter else {}
    server = fields["bootstrap_server"].node.text if "bootstrap_server" in fields else None
    values = {
        "connector_type": "kafka",
        "bootstrap_server": server or "localhost:9092",
        "topic": "the_topic",
        **({"schema": schema} if schema else {}),
    }
    return Part("source", values, {"topic": Remark(beside="not in the exporter's file")})


# Sinks


def _sink(document: Document, report: Report) -> Part:
    connector, keys = _keys(document, report)
    if connector not in _SINKS:
        _refuse(connector, "sink", document, tuple(_SINKS))
    values = _SINKS[connector](keys, connector)
    keys.lose_rest()
    return Part("sink", values)


def _kafka_sink(keys: Keys, _connector: str) -> dict[str, Plain]:
    keys.lose(_LOGINS, _NO_LOGIN)
    values: dict[str, Plain] = {"connector_type": "kafka"}
    for name in ("bootstrap_server", "topic"):
        values[name] = keys.take(name) or ""
    keys.pass_over(("api_version",), "is agreed on with the brokers")
    key = keys.take("key", "message_unique_key")
    if key:
        values["key"] = key
    for theirs, ours in (("timeout_ms", "linger_ms"), ("batch_size", "batch_bytes")):
        number = keys.take(theirs)
        if number is not None:
            # Mage gives them to its producer as these.
            values[ours] = int(number) if number.isdecimal() else number
    return values


def _postgres_sink(keys: Keys, _connector: str) -> dict[str, Plain]:
    host, port = keys.take("host") or "localhost", keys.take("port") or "5432"
    values: dict[str, Plain] = {
        "connector_type": "jdbc",
        "url": f"jdbc:postgresql://{host}:{port}/{keys.take('database') or 'postgres'}",
    }
    for theirs, ours in (("username", "user"), ("password", "password")):
        text = keys.take(theirs)
        if text is not None:
            values[ours] = text
    schema, table = keys.take("schema"), keys.take("table", "table_name") or ""
    values["table"] = f"{schema}.{table}" if schema else table
    unique, method = keys.listed("unique_constraints"), keys.take("unique_conflict_method")
    if unique and (method or "").upper() == "UPDATE":
        values |= {"mode": "upsert", "key": unique}
    elif unique:
        why = "keeps the first row of a key; here rows are appended, or the newest is kept"
        keys.report.lost("unique_constraints", keys.at("unique_constraints"), why)
    return values


def _storage_sink(keys: Keys, connector: str) -> dict[str, Plain]:
    bucket, prefix = keys.take("bucket") or "", (keys.take("prefix") or "").strip("/")
    form = keys.take("file_type") or "parquet"
    keys.lose(("date_partition_format",), "has no equal", "name columns in `partition_by`")
    keys.lose(
        ("buffer_size_mb", "buffer_timeout_seconds"), _BUFFER, "set `trigger` and `batch_size`"
    )
    path = f"{_STORES[connector]}://{bucket}/{prefix}".rstrip("/")
    how = (
        f"becomes a path of Spark's, which needs the jars and the login of {_STORES[connector]}://"
    )
    keys.report.differs("bucket", keys.at("bucket"), how)
    return {"connector_type": "files", "format": form, "path": path}


def _dummy_sink(keys: Keys, _connector: str) -> dict[str, Plain]:
    keys.take("print_msg")
    return {"connector_type": "console"}


def _refuse(connector: str, kind: str, document: Document, known: Sequence[str]) -> None:
    hint = f"a {kind} can be converted from {', '.join(known)}"
    message = f"{document.file}: there is no {kind} here like Mage's `{connector}`"
    raise DefinitionError(message, hint=hint)


_SOURCES: dict[str, Callable[[Keys, Document, str | None], Part]] = {"kafka": _kafka_source}
_SINKS: dict[str, Callable[[Keys, str], dict[str, Plain]]] = {
    "kafka": _kafka_sink,
    "postgres": _postgres_sink,
    "amazon_s3": _storage_sink,
    "google_cloud_storage": _storage_sink,
    "dummy": _dummy_sink,
}
