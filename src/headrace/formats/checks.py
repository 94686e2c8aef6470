"""What is wrong with options of formats that are each right by themselves; for sources and sinks.

Nothing here asks a registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.formats.kinds import FORMATS
from headrace.formats.options import METHODS, REGISTERED, Part, Wanted
from headrace.spans import Diagnostic, Span
from headrace.spec import Options

_WITH_FILES = ("avro", "protobuf", "json_schema")
# Options that are only for some formats, the usual one first.
_ABOUT: dict[Part, dict[str, tuple[str, ...]]] = {
    Part.VALUE: {
        "schema_file": _WITH_FILES,
        "avro_schema": ("avro",),
        "schema_classpath": ("protobuf",),
        "message": ("protobuf",),
        "delimiter": ("csv",),
    },
    Part.KEY: {
        "key_schema_file": _WITH_FILES,
        "key_schema": ("json", *_WITH_FILES),
    },
}
# Options that give a schema in the language of its format.
_SCHEMAS = {
    Part.VALUE: ("schema_file", "avro_schema", "schema_classpath"),
    Part.KEY: ("key_schema_file",),
}
_SUFFIXES = {".avsc": "avro", ".proto": "protobuf", ".jsonschema": "json_schema"}


def faults(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    """Of a value or of a key, whichever is `wanted`."""
    name = "format" if wanted.part is Part.VALUE else "key_format"
    if wanted.part is Part.VALUE:
        yield from _said_twice(options)
        yield from _rules_of_changes(options, wanted)
        yield from _registry_faults(options["schema_registry"], options.at("schema_registry"))
    if wanted.format.startswith("confluent_") and _is_glue(wanted):
        message = f"`{name}: {wanted.format}` is not how AWS Glue has it"
        yield Diagnostic("CONFLICT", message, options.at(name), f"write `{wanted.language}`")
    # One that is wrong, or misspelt, has been reported.
    said = "schema_registry" in {*options.values, *options.meant}
    if wanted.format in REGISTERED and wanted.registry is None and not said:
        message = f"`{name}: {wanted.format}` needs a `schema_registry`"
        hint = "add `schema_registry: {endpoint: 'http://localhost:8081'}`"
        yield Diagnostic("MISSING_OPTION", message, options.at(name), hint)
    yield from _written(options, wanted)
    unused = [*_without_effect(options, wanted), *_schemas_of_sources(options, wanted)]
    yield from unused
    if wanted.language in FORMATS and not unused:
        for sentence in FORMATS[wanted.language].faults(wanted):
            yield Diagnostic("BAD_SCHEMA", sentence, _place(options, wanted.part))


def _written(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    """Whether it is said which schema messages of plain Avro are written with."""
    said = {*options.values, *options.meant} & {"schema_registry", "schema_file", "key_schema_file"}
    if wanted.format != "avro" or wanted.registered or wanted.gives_schema or said:
        return
    name, ways = "format", "`schema_registry`, `schema_file` or `avro_schema`"
    if wanted.part is Part.KEY:
        name, ways = "key_format", "`schema_registry` or `key_schema_file`"
    message = f"`{name}: avro` needs the schema that messages are written with"
    yield Diagnostic("MISSING_OPTION", message, options.at(name), f"add {ways}")


def _without_effect(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    """Options that are about another format than the one of the messages."""
    name = "format" if wanted.part is Part.VALUE else "key_format"
    for option, languages in _ABOUT[wanted.part].items():
        if option in options and wanted.language not in languages and name not in options.meant:
            message = f"`{option}` has no effect, as the `{name}` is {wanted.format}"
            hint = f"remove it, or set `{name}: {languages[0]}`"
            yield Diagnostic("CONFLICT", message, options.at(option), hint)
    file = wanted.schema_file or ""
    other = _SUFFIXES.get(Path(file).suffix)
    if other is not None and other != wanted.language and wanted.language in _SUFFIXES.values():
        message = f"`{file}` is a schema of {other}, and the `{name}` is {wanted.format}"
        yield Diagnostic(
            "CONFLICT", message, _place(options, wanted.part), f"set `{name}: {other}`"
        )


def _schemas_of_sources(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    """Schemas that a definition gives twice; and once, where each message names its own."""
    names = [each for each in _SCHEMAS[wanted.part] if each in options]
    if len(names) > 1:
        both = " and ".join(f"`{name}`" for name in names)
        message = f"{both} each give the schema of the {wanted.part}s"
        yield Diagnostic("CONFLICT", message, options.at(names[1]), "keep one of them")
    is_source = "serde_config" in options.spec.names
    for name in names if is_source and wanted.registered else ():
        message = f"`{name}` has no effect, as each message names its schema in the registry"
        columns = "schema" if wanted.part is Part.VALUE else "key_schema"
        hint = f"remove it; to read only some of the fields, declare them with `{columns}`"
        yield Diagnostic("CONFLICT", message, options.at(name), hint)


def _place(options: Options, part: Part) -> Span:
    """Where the schema of messages is named, or else their format."""
    names = ["key_schema_file", "key_format"]
    if part is Part.VALUE:
        names = ["schema_file", "avro_schema", "schema_classpath", "serde_config", "format"]
    return options.at(next((name for name in names if name in options), names[-1]))


def _is_glue(wanted: Wanted) -> bool:
    return wanted.registry is not None and wanted.registry.kind == "glue"


def _registry_faults(registry: Options | None, place: Span) -> Iterator[Diagnostic]:
    if registry is None or registry["type"] == "glue":
        return
    if registry["endpoint"] is None and "endpoint" not in registry:
        hint = "add `endpoint: 'http://localhost:8081'`; for AWS Glue `type: glue`"
        yield Diagnostic("MISSING_OPTION", "`schema_registry` has no `endpoint`", place, hint)
    if registry["api_secret"] is not None and registry["api_key"] is None:
        message = "`schema_registry` has an `api_secret` and no `api_key`"
        yield Diagnostic("MISSING_OPTION", message, place, "name the user with `api_key`")
    for name in ("region", "registry_name", "compression"):
        if name in registry:
            message = f"`{name}` is for AWS Glue, and this is another registry"
            yield Diagnostic(
                "CONFLICT", message, registry.at(name), "add `type: glue`, or leave it out"
            )


def _rules_of_changes(options: Options, wanted: Wanted) -> Iterator[Diagnostic]:
    if "debezium" in options and wanted.format != "debezium":
        message = f"`debezium` has no effect, as records are {wanted.format}"
        yield Diagnostic("CONFLICT", message, options.at("debezium"), "add `format: debezium`")


def _said_twice(options: Options) -> Iterator[Diagnostic]:
    serde = options["serde_config"] if "serde_config" in options.spec.names else None
    method = serde["serialization_method"] if serde is not None else None
    if method is not None and "format" in options and options["format"] != METHODS[method]:
        message = f"`format: {options['format']}` and `serialization_method: {method}` disagree"
        yield Diagnostic("CONFLICT", message, options.at("serde_config"), "keep one of them")
