"""`headrace infer`: columns for a topic that no pipeline describes yet.

They come from a schema registry, where one is known that has a schema of the topic's values, else
from a sample of JSON. What is printed can be used as it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.cli.arguments import PropertyOption, complete_topic, reach
from headrace.cli.schemas import PasswordOption, UserOption
from headrace.cli.target import BootstrapOption, registry_address
from headrace.errors import DefinitionError, NothingToInfer, RegistryUnavailable, UnknownSubject
from headrace.model.schema import Schema

if TYPE_CHECKING:
    from headrace.admin.records import Record
    from headrace.admin.stores import RegistryAddress
    from headrace.formats.registered import Registered

_USER, _PASSWORD = "HEADRACE_REGISTRY_USER", "HEADRACE_REGISTRY_PASSWORD"


class Notation(StrEnum):
    YAML = "yaml"
    SQL = "sql"
    SCHEMA = "schema"


@dataclass(frozen=True)
class Proposal:
    """A source: its options in the order and the names of YAML, and its columns, if it has some of
    its own. `note` says where they come from.
    """

    topic: str
    servers: str
    options: dict[str, str | dict[str, str]]
    columns: Schema | None
    note: str


def register(app: typer.Typer) -> None:
    app.command("infer", rich_help_panel="Pipelines", no_args_is_help=True)(infer)


def infer(
    topic: Annotated[
        str,
        typer.Argument(
            help="A topic of JSON, or one with schemas in a registry.",
            autocompletion=complete_topic,
        ),
    ],
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            "-n",
            min=1,
            help="Go by so many of the newest records. Default: by the registry if it has a "
            "schema of them, else by 1000 records.",
        ),
    ] = None,
    notation: Annotated[
        Notation, typer.Option("--as", help="A source in YAML, a table in SQL, or the columns.")
    ] = Notation.YAML,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            "-r",
            metavar="URL",
            envvar="HEADRACE_REGISTRY",
            help="The registry with the topic's schema: an address, or glue://REGION/REGISTRY. "
            "Default: this folder's, of `headrace dev up --registry`.",
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject", help="Of the values. Default: TOPIC-value, else that of the records."
        ),
    ] = None,
    user: UserOption = None,
    password: PasswordOption = None,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Propose the columns of a topic, by its schema or by its newest records; nothing is moved."""
    from headrace.admin import reading

    cluster = reach(bootstrap_server, property)
    records = reading.last(cluster, topic, sample or 1000)
    found = None if sample else _registered(topic, records, registry, subject, user, password)
    if found is not None:
        proposal = _by_registry(topic, cluster.bootstrap, found)
    else:
        proposal = _by_sample(topic, cluster.bootstrap, records)
    lines = {Notation.YAML: _yaml, Notation.SQL: _sql, Notation.SCHEMA: _schema}[notation]
    print("\n".join(lines(proposal)))
    output.note(proposal.note)


def _registered(
    topic: str,
    records: list[Record],
    registry: str | None,
    subject: str | None,
    user: str | None,
    password: str | None,
) -> Registered | None:
    """What a registry knows. One that is named must know it; this folder's own may."""
    from headrace.admin.stores import opened
    from headrace.formats import registered

    url = registry or _own_registry()
    if url is None:
        if subject is not None:
            raise DefinitionError("--subject without a registry", hint="name it with --registry")
        return None
    address = registry_address(url, user, password)
    store = opened(address)
    values = [record.value for record in records]
    try:
        found = registered.find(store, address, topic, subject, values)
    except RegistryUnavailable as unheard:
        if registry is not None:
            raise
        output.note(f"{unheard}; the columns are those of a sample")
        return None
    if found is None and registry is not None:
        unknown = UnknownSubject(f"{topic}-value", store.url)
        unknown.hint = "name another with --subject, or --sample to go by the records"
        raise unknown
    return found


def _own_registry() -> str | None:
    from headrace.cluster.dev import DevCluster
    from headrace.project import Project

    return DevCluster(Project.find()).registry


def _by_registry(topic: str, servers: str, found: Registered) -> Proposal:
    try:
        columns, scalar = found.columns()
    except ValueError as unreadable:
        raise DefinitionError(
            f"{found.subject}: {unreadable}", hint="bytes need no columns: `format: raw`"
        ) from unreadable
    options: dict[str, str | dict[str, str]] = {"format": found.format}
    options["schema_registry"] = _registry_options(found.address)
    if not found.usual:
        options["value_subject"] = found.subject
    note = f"from {found.subject}, version {found.schema.version}"
    if not scalar:
        note += "; without columns of its own, a source takes those of the registry as they change"
    return Proposal(topic, servers, options, None if scalar else columns, note)


def _registry_options(address: RegistryAddress) -> dict[str, str]:
    """As a definition has it; a login by its variables."""
    from headrace.admin.stores import without_login

    if address.kind == "glue":
        found = {"type": "glue", "region": address.region, "registry_name": address.registry_name}
        return {name: value for name, value in found.items() if value is not None}
    endpoint = address.endpoint or ""
    login = {}
    if address.api_key or without_login(endpoint) != endpoint:
        login = {"api_key": f"${{env:{_USER}}}", "api_secret": f"${{env:{_PASSWORD}}}"}
        missing = [name for name in (_USER, _PASSWORD) if name not in os.environ]
        if missing:
            output.note(f"the login is not shown: set {' and '.join(missing)}")
    return {"endpoint": without_login(endpoint), **login}


def _by_sample(topic: str, servers: str, records: list[Record]) -> Proposal:
    from headrace.formats.inference import infer as columns
    from headrace.formats.registered import framings

    values = [record.value for record in records]
    found = columns(values)
    if not found.schema:
        raise NothingToInfer(topic, len(records), bool(framings(values)))
    note = f"from the newest {found.records:,} records"
    if found.others:
        note += f"; {found.others:,} that are no JSON objects were left out"
    return Proposal(topic, servers, {}, Schema.parse(found.schema), note)


def _schema(proposal: Proposal) -> Iterator[str]:
    yield _listed(proposal.columns)


def _listed(columns: Schema | None) -> str:
    from headrace.formats.inference import named

    if columns is None:
        raise DefinitionError("a message is one value, and has no columns")
    return ", ".join(f"{named(each.name)} {each.type}" for each in columns.columns)


def _yaml(proposal: Proposal) -> Iterator[str]:
    yield "source:"
    yield "  connector_type: kafka"
    yield f"  bootstrap_server: {proposal.servers}"
    yield f"  topic: {proposal.topic}"
    for name, value in proposal.options.items():
        if isinstance(value, str):
            yield f"  {name}: {value}"
            continue
        yield f"  {name}:"
        yield from (f"    {inner}: {_quoted(text)}" for inner, text in value.items())
    if proposal.columns is not None:
        yield f"  schema: {_quoted(_listed(proposal.columns))}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _table(topic: str) -> str:
    """A name for the table: the topic's, with what SQL takes for a name."""
    name = re.sub(r"\W", "_", topic, flags=re.ASCII)
    return f"t_{name}" if name[0].isdigit() else name


def _sql(proposal: Proposal) -> Iterator[str]:
    from headrace.formats.inference import named
    from headrace.model.schema import literal

    columns = proposal.columns.columns if proposal.columns is not None else ()
    yield f"CREATE TABLE {_table(proposal.topic)}" + (" (" if columns else " WITH (")
    if columns:
        yield ",\n".join(f"    {named(each.name)} {each.type}" for each in columns)
        yield ") WITH ("
    options = {
        "connector": "kafka",
        "bootstrap_servers": proposal.servers,
        "topic": proposal.topic,
        **dict(_dotted(proposal.options)),
    }
    yield ",\n".join(f"    {name} = {literal(value)}" for name, value in options.items())
    yield ");"


def _dotted(options: dict[str, str | dict[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, str):
            yield name, value
            continue
        yield from ((f"'{name}.{inner}'", text) for inner, text in value.items())
