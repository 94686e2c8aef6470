"""Columns of tables that only a schema registry knows; asked for without Spark, for DESCRIBE."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api import Definition
from headrace.formats.options import Part
from headrace.model.schema import Column
from headrace.plan.planner import preview_query
from headrace.plan.stages import Plan
from headrace.runtime.schemas import SourceSchemas
from headrace.sources.kafka import KafkaSource


@dataclass(frozen=True)
class Found:
    """`origin` says which schemas they are of."""

    columns: tuple[Column, ...]
    origin: str


def columns(definition: Definition) -> Found | None:
    """Those of the one source of a definition; None if no registry knows its values.

    Raises what the registry fails with.
    """
    plan = Plan(definition.pipeline, (), (preview_query(definition.pipeline),), ())
    (source,) = plan.sources
    if not isinstance(source, KafkaSource) or Part.VALUE not in source.registered:
        return None
    (bound,) = SourceSchemas(None, lambda _event: None, keep=False).bound(plan).sources
    assert isinstance(bound, KafkaSource)
    found = list(bound.reading.schema.columns)
    key = bound.key_reading
    if key is not None:
        schema = key.reading.schema
        type = schema.columns[0].type if key.reading.scalar else f"STRUCT<{schema.ddl()}>"
        found.append(Column(key.column, type))
    newest = bound.schemas[Part.VALUE].newest
    origin = f"{newest.subject}, version {newest.version}" if newest is not None else "the table"
    return Found(tuple(found), origin)
