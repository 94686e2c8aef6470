"""`headrace schemas`: the schemas of a registry, with their versions and compatibility levels."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.admin import registry as schemas
from headrace.admin import registry_schemas
from headrace.admin.registry import LEVELS, Registered, Verdict
from headrace.admin.registry_schemas import Schema, SchemaType
from headrace.cli import output
from headrace.cli.arguments import COMPLETION_SECONDS, YesOption, at_most_one
from headrace.cli.output import Format, FormatOption, counted
from headrace.cli.target import RegistryOption, registry_url
from headrace.errors import DefinitionError, IncompatibleSchema

if TYPE_CHECKING:
    from headrace.admin.registry_client import Registry

app = typer.Typer(
    name="schemas", help="See, register and check schemas in a registry.", no_args_is_help=True
)


class _Type(StrEnum):
    """The types as one writes them."""

    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON = "json"


UserOption = Annotated[
    str | None,
    typer.Option("--user", "-u", envvar="HEADRACE_REGISTRY_USER", help="The user to log in as."),
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="HEADRACE_REGISTRY_PASSWORD",
        help="The user's. Better by the variable, as others may see a command line; with --user "
        "and without it, a terminal is asked.",
    ),
]


def _complete_subject(ctx: typer.Context, incomplete: str) -> list[str]:
    try:
        registry = _reach(ctx.params.get("registry"), None, None, COMPLETION_SECONDS)
        return schemas.subjects(registry, incomplete)
    except Exception:
        # A shell that completes must never show an error or hang.
        return []


SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="The subject; for the values of topic orders it is orders-value by custom.",
        autocompletion=_complete_subject,
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The schema: a file, or - for standard input.")
]
TypeOption = Annotated[
    _Type | None,
    typer.Option(
        "--type",
        "-t",
        case_sensitive=False,
        help="Default: told by the file's suffix (.avsc, .proto, .jsonschema) or by its content.",
    ),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that this one uses, such as money.proto=money:1. Repeatable.",
    ),
]
NormalizeOption = Annotated[
    bool,
    typer.Option("--normalize", help="Let spelling that means nothing make no new version."),
]
VersionOption = Annotated[
    int | None, typer.Option("--version", "-v", min=1, help="One version. Default: the newest.")
]


def register(root: typer.Typer) -> None:
    root.add_typer(app, rich_help_panel="Kafka")


@app.command("list")
def list_subjects(
    prefix: Annotated[
        str, typer.Option("--prefix", help="Only subjects whose names begin so.")
    ] = "",
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also what is deleted, and not gone for good.")
    ] = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List subjects with their versions, and type and id of the newest."""
    found = schemas.list_all(_reach(registry, user, password), prefix, deleted)
    columns = ["subject", "type", "id", "versions", *(["deleted"] if deleted else [])]
    output.emit_rows([asdict(each) for each in found], columns, form)
    if not found:
        output.note("there are no subjects; make one with `headrace schemas register`")


@app.command(no_args_is_help=True)
def show(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[SUBJECT]", help="Or --id.", autocompletion=_complete_subject),
    ] = None,
    version: VersionOption = None,
    id: Annotated[
        int | None, typer.Option("--id", min=0, help="The schema that messages name by this id.")
    ] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also if it is deleted, and not gone for good.")
    ] = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Print a schema by subject and version, or by its id; what it is goes to the screen."""
    if (subject is None) == (id is None) or (id is not None and version is not None):
        raise DefinitionError("a schema is named by a subject or by --id", hint="name one of them")
    reached = _reach(registry, user, password)
    if id is not None:
        found = schemas.by_id(reached, id)
    else:
        found = [schemas.find(reached, str(subject), version, deleted)]
    if form is not Format.TABLE:
        output.emit_value(
            [_whole(each) for each in found] if subject is None else _whole(found[0]), form
        )
        return
    for each in found:
        output.note(_title(each))
    output.line(_pretty(found[0].schema))


@app.command("register", no_args_is_help=True)
def register_schema(
    subject: SubjectArgument,
    file: FileArgument,
    type: TypeOption = None,
    reference: ReferenceOption = None,
    normalize: NormalizeOption = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Make a schema the newest version of a subject; prints its id."""
    schema = _read(file, type, reference)
    done = schemas.register(_reach(registry, user, password), subject, schema, normalize)
    if form is not Format.TABLE:
        output.emit_value(asdict(done), form)
        return
    how = "registered" if done.new else "was there already"
    output.note(f"{subject}: version {done.version} ({schema.type}) {how}, its id is")
    output.line(str(done.id))


@app.command(no_args_is_help=True)
def check(
    subject: SubjectArgument,
    file: FileArgument,
    type: TypeOption = None,
    reference: ReferenceOption = None,
    normalize: NormalizeOption = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Say whether a schema would be accepted, and what is different; nothing is registered."""
    schema = _read(file, type, reference)
    verdict = schemas.check(_reach(registry, user, password), subject, schema, normalize)
    if form is Format.TABLE:
        for difference in verdict.differences:
            output.line(str(difference))
    else:
        output.emit_value(asdict(verdict), form)
    if not verdict.accepted:
        raise IncompatibleSchema(subject, _refusal(verdict))
    output.note(_acceptance(verdict))


@app.command(no_args_is_help=True)
def delete(
    subject: SubjectArgument,
    version: Annotated[
        int | None, typer.Option("--version", "-v", min=1, help="One version. Default: all.")
    ] = None,
    permanent: Annotated[
        bool,
        typer.Option("--permanent", help="Gone for good: messages with its id can't be read."),
    ] = False,
    yes: YesOption = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
) -> None:
    """Delete a subject or a version: it is hidden, and kept for readers of its id."""
    reached = _reach(registry, user, password)
    listed = schemas.versions(reached, subject, deleted=permanent)
    what = f"version {version}" if version else counted(len(listed), "version")
    how = " for good" if permanent else ""
    output.confirm(f"Delete {what} of {subject}{how} at {reached.url}?", yes)
    gone = schemas.delete(reached, subject, version, permanent)
    output.note(f"deleted{how}: {subject}, version {', '.join(map(str, gone))}")


@app.command()
def compatibility(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUBJECT]",
            help="Default: the level of all subjects that have none of their own.",
            autocompletion=_complete_subject,
        ),
    ] = None,
    set: Annotated[
        str | None, typer.Option("--set", metavar="LEVEL", help=f"One of {', '.join(LEVELS)}.")
    ] = None,
    unset: Annotated[
        bool, typer.Option("--unset", help="Let the level of all subjects hold for this one.")
    ] = False,
    registry: RegistryOption = None,
    user: UserOption = None,
    password: PasswordOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show or set the compatibility level: of one subject, or of all."""
    at_most_one(set=set, unset=unset)
    wanted = _level(set)
    reached = _reach(registry, user, password)
    if wanted is not None:
        holds = schemas.set_level(reached, wanted, subject)
    elif unset:
        if subject is None:
            raise DefinitionError("--unset is for one subject", hint="name it, or use --set")
        holds = schemas.unset_level(reached, subject)
    else:
        holds = schemas.level(reached, subject)
    if form is not Format.TABLE:
        output.emit_value({"subject": subject, **asdict(holds)}, form)
        return
    if subject is not None and not holds.own:
        output.note(f"{subject} has no level of its own; that of all subjects holds:")
    output.line(holds.level)


def _level(text: str | None) -> str | None:
    if text is None or text.upper() in LEVELS:
        return text and text.upper()
    raise DefinitionError(
        f"there is no compatibility level {text}", hint=f"there are {', '.join(LEVELS)}"
    )


def _reach(
    registry: str | None, user: str | None, password: str | None, seconds: float | None = None
) -> Registry:
    from headrace.admin.registry_client import REQUEST_SECONDS, connect

    url = registry_url(registry)
    if url.startswith("glue:"):
        raise DefinitionError(
            "these commands speak the API of Confluent's registry, which AWS Glue has not",
            hint="see `aws glue list-schemas` and `aws glue get-schema-version`; pipelines, "
            "`headrace infer` and `headrace consume --decode` work with it",
        )
    if user is not None and password is None and seconds is None and sys.stdin.isatty():
        password = typer.prompt(f"Password of {user}", hide_input=True, err=True)
    return connect(url, user, password, seconds or REQUEST_SECONDS)


def _read(file: Path, type: _Type | None, references: Sequence[str] | None) -> Schema:
    named = SchemaType(type.upper()) if type else None
    used = [registry_schemas.reference(text) for text in references or ()]
    if str(file) == "-":
        return registry_schemas.parse(sys.stdin.read(), "standard input", named, used)
    return registry_schemas.read(file, named, used)


def _whole(found: Registered) -> dict[str, Any]:
    schema = asdict(found.schema)
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "type": schema["type"],
        "references": schema["references"],
        "schema": schema["text"],
    }


def _title(found: Registered) -> str:
    used = [f"{each.name} ({each.subject} {each.version})" for each in found.schema.references]
    return f"{found.subject} version {found.version}, id {found.id}, {found.schema.type}" + (
        f", uses {', '.join(used)}" if used else ""
    )


def _pretty(schema: Schema) -> str:
    """A registry may keep JSON in one line; nobody can read that."""
    if schema.type is SchemaType.PROTOBUF:
        return schema.text.rstrip("\n")
    return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)


def _acceptance(verdict: Verdict) -> str:
    if verdict.version is not None:
        return f"{verdict.subject} has this schema already, as version {verdict.version}"
    if not verdict.against:
        why = "any schema is" if verdict.level == "NONE" else "it would be the first"
        return f"{verdict.subject} would accept it: {why} (level {verdict.level})"
    return f"{verdict.subject} would accept it: {_held(verdict)}"


def _refusal(verdict: Verdict) -> str:
    reasons = "; ".join(verdict.messages)
    return f"refused {_held(verdict)}" + (f": {reasons}" if reasons else "")


def _held(verdict: Verdict) -> str:
    numbers = ", ".join(map(str, verdict.against))
    return f"by level {verdict.level}, held against version {numbers}"
