"""`headrace infer`: columns for a topic that nobody has described yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.arguments import PropertyOption, complete_topic, reach
from headrace.cli.target import BootstrapOption
from headrace.errors import NothingToInfer


class Notation(StrEnum):
    YAML = "yaml"
    SQL = "sql"
    SCHEMA = "schema"


def register(app: typer.Typer) -> None:
    app.command("infer", rich_help_panel="Pipelines", no_args_is_help=True)(infer)


def infer(
    topic: Annotated[str, typer.Argument(help="A topic of JSON.", autocompletion=complete_topic)],
    sample: Annotated[
        int, typer.Option("--sample", "-n", min=1, help="How many of the newest records.")
    ] = 1000,
    notation: Annotated[
        Notation, typer.Option("--as", help="A source in YAML, a table in SQL, or the columns.")
    ] = Notation.YAML,
    bootstrap_server: BootstrapOption = None,
    property: PropertyOption = None,
) -> None:
    """Propose the columns of a topic from its newest records; nothing is moved."""
    from headrace.admin import reading
    from headrace.formats.inference import infer as columns

    cluster = reach(bootstrap_server, property)
    records = reading.last(cluster, topic, sample)
    found = columns(record.value for record in records)
    if not found.schema:
        raise NothingToInfer(topic, len(records))
    lines = {Notation.YAML: _yaml, Notation.SQL: _sql, Notation.SCHEMA: _schema}[notation]
    print("\n".join(lines(cluster.bootstrap, topic, found.schema)))
    output.note(
        f"from the newest {found.records:,} records"
        + (f"; {found.others:,} that are no JSON objects were left out" if found.others else "")
    )


def _schema(_servers: str, _topic: str, schema: str) -> Iterator[str]:
    yield schema


def _yaml(servers: str, topic: str, schema: str) -> Iterator[str]:
    yield "source:"
    yield "  connector_type: kafka"
    yield f"  bootstrap_server: {servers}"
    yield f"  topic: {topic}"
    yield f"  schema: {_quoted(schema)}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _table(topic: str) -> str:
    """A name for the table: the topic's, with what SQL takes for a name."""
    name = re.sub(r"\W", "_", topic, flags=re.ASCII)
    return f"t_{name}" if name[0].isdigit() else name


def _sql(servers: str, topic: str, schema: str) -> Iterator[str]:
    from headrace.frontend.sql.tables import bare
    from headrace.model.schema import Schema, literal

    columns = Schema.parse(schema).columns
    yield f"CREATE TABLE {_table(topic)} ("
    yield ",\n".join(f"    {bare(each.name)} {each.type}" for each in columns)
    yield ") WITH ("
    yield "    connector = 'kafka',"
    yield f"    bootstrap_servers = {literal(servers)},"
    yield f"    topic = {literal(topic)}"
    yield ");"
