"""What is wrong with what a Kafka source says about the bytes of its records; nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.formats import checks
from headrace.formats.options import (
    MAY_REGISTER,
    REGISTERED,
    Part,
    Wanted,
    key_wanted,
    value_wanted,
)
from headrace.model.schema import Schema
from headrace.model.subscription import Subscription
from headrace.sources import json_records
from headrace.spans import Diagnostic
from headrace.spec import Options

# Options that only a key of a format of its own has, and those of the registry's schemas.
_OF_KEYS = ("key_schema", "key_schema_file", "key_subject", "key_column")
_OF_SCHEMAS = ("schema_evolution", "on_incompatible_schema")
_KNOWN = ", ".join((*MAY_REGISTER, *REGISTERED))
TOPICS = ("topic", "topics", "topic_pattern")


def faults(options: Options) -> Iterator[Diagnostic]:
    folder, topics = Path(options.span.file).parent, Subscription.of(options).topics
    value, key = value_wanted(options, folder, topics), key_wanted(options, folder, topics)
    yield from checks.faults(options, value)
    yield from json_records.faults(options, value.format)
    yield from _columns(options, value)
    if value.format == "raw":
        yield from _raw(options)
    yield from _key(options, value, key)
    yield from _registry(options, value, key)
    for wanted in (value, key) if key is not None else (value,):
        yield from _subject(options, wanted)
    yield from _schemas(options, value, key)


def _columns(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    declared = {"json": "JSON", "csv": "CSV"}
    if wanted.registry is None:
        declared["debezium"] = "changes in JSON"
    # A `serde_config` that is wrong has been reported, and may have said something else.
    known = {*options.values, *options.meant} & {"schema", "json_unstructured"}
    broken = "serde_config" in options and options["serde_config"] is None
    if wanted.format in declared and not known and not broken:
        message = f"the kafka source needs `schema`, as its records are {declared[wanted.format]}"
        hint = 'add `schema: "id BIGINT NOT NULL, customer STRING, amount DOUBLE"`, or read bytes '
        yield Diagnostic("MISSING_OPTION", message, options.span, hint + "with `format: raw`")


def _raw(options: Options) -> Iterator[Diagnostic]:
    agreed = "format" not in options or options["format"] == "raw"
    if "schema" in options and agreed:
        message = "bytes that are passed on as they are have no `schema`"
        hint = "remove it, or set `format: json`"
        yield Diagnostic("CONFLICT", message, options.at("schema"), hint)
    if options["tombstones"] == "bad":
        message = "`tombstones: bad` is not for raw bytes, of which none are bad"
        yield Diagnostic("CONFLICT", message, options.at("tombstones"), "remove it")


def _key(options: Options, value: Wanted, wanted: Wanted | None) -> Iterator[Diagnostic]:
    if wanted is None:
        for name in _OF_KEYS:
            if name in options and "key_format" not in {*options.values, *options.meant}:
                message = f"`{name}` has no effect without `key_format`"
                hint = "add `key_format: json`, or remove it"
                yield Diagnostic("CONFLICT", message, options.at(name), hint)
        return
    yield from checks.faults(options, wanted)
    if value.format == "raw":
        message = "`key_format` reads a key, and with raw bytes the column `key` is what came"
        yield Diagnostic("CONFLICT", message, options.at("key_format"), "remove one of them")
    if wanted.format == "json" and not {*options.values, *options.meant} & {"key_schema"}:
        message = "`key_format: json` needs the columns of a key: `key_schema`"
        hint = 'add `key_schema: "id BIGINT NOT NULL"`'
        yield Diagnostic("MISSING_OPTION", message, options.at("key_format"), hint)
    if options["schema"] is not None:
        names = {name.lower() for name in Schema.parse(options["schema"]).names}
        if wanted.column.lower() in names:
            message = f"the key is read into `{wanted.column}`, which the schema declares too"
            place = options.at("key_column" if "key_column" in options else "key_format")
            yield Diagnostic("CONFLICT", message, place, "name another with `key_column`")


def _registry(options: Options, value: Wanted, key: Wanted | None) -> Iterator[Diagnostic]:
    """A registry that nothing goes by, and subjects of none."""
    registered = {each.part for each in (value, key) if each is not None and each.registered}
    if options["schema_registry"] is not None and not registered:
        place = options.at("schema_registry")
        if "format" in options:
            message = f"`schema_registry` has no effect, as the format is {value.format}"
            yield Diagnostic("CONFLICT", message, place, f"it knows the schemas of {_KNOWN}")
        elif "format" not in options.meant:
            message = "there is a `schema_registry`, and no `format` that goes by it"
            yield Diagnostic("MISSING_OPTION", message, place, f"add one of {_KNOWN}")
    if {*options.values, *options.meant} & {"schema_registry", "serde_config"}:
        return
    parts = [each.part for each in (value, key) if each is not None]
    for part in parts:
        name = f"{part}_subject"
        if name in options and part not in registered:
            message = f"`{name}` is a subject of a registry, and there is no `schema_registry`"
            hint = "add `schema_registry: {endpoint: 'http://localhost:8081'}`"
            yield Diagnostic("MISSING_OPTION", message, options.at(name), hint)


def _subject(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    """Whose columns they have: several topics are several subjects."""
    given = [name for name in TOPICS if name in options]
    if not given or not wanted.registered or wanted.schema is not None or len(wanted.subjects) == 1:
        return
    subject, schema, what = (
        ("value_subject", "schema", "values")
        if wanted.part is Part.VALUE
        else ("key_subject", "key_schema", "keys")
    )
    message = f"which columns the {what} have is not clear, as each topic has a subject of its own"
    hint = f"name the subject of all with `{subject}`, or declare the columns with `{schema}`"
    yield Diagnostic("MISSING_OPTION", message, options.at(given[0]), hint)


def _schemas(options: Options, value: Wanted, key: Wanted | None) -> Iterator[Diagnostic]:
    """What becomes of new schemas, where there are none, or where none brings new columns."""
    registered = [each for each in (value, key) if each is not None and each.registered]
    for name in _OF_SCHEMAS:
        if name in options and not registered:
            message = f"`{name}` is about schemas of a registry, and there is no `schema_registry`"
            yield Diagnostic("CONFLICT", message, options.at(name), "remove it")
    if "schema_evolution" in options and registered and all(each.schema for each in registered):
        message = "`schema_evolution` has no effect, as the columns are declared by `schema`"
        hint = "remove one of them"
        yield Diagnostic("CONFLICT", message, options.at("schema_evolution"), hint)
    if registered and options["on_incompatible_schema"] == "dlq" and options["bad_data"] == "fail":
        message = "messages that do not fit are bad records, and `bad_data: fail` stops at these"
        hint = "remove one of `on_incompatible_schema: dlq` and `bad_data: fail`"
        yield Diagnostic("CONFLICT", message, options.at("on_incompatible_schema"), hint)
