"""What becomes of a schema that messages have and the pipeline has not read yet.

`evolved` judges one such schema by what its source allows: the pipeline's columns grow, the ids of
its messages are refused, or the run ends with the differences (IncompatibleChange). It asks nobody
and keeps nothing: `runtime.schemas` asks the registry, and keeps what comes out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.admin.stored_schemas import StoredSchema
from headrace.errors import IncompatibleChange
from headrace.formats.format import Format
from headrace.formats.kinds import FORMATS
from headrace.formats.known import Known
from headrace.formats.options import Part
from headrace.model.evolution import Evolution, Judgement, judged
from headrace.plan.stages import Plan
from headrace.runtime.progress import Event, SchemaChanged, Warned
from headrace.sources.kafka import KafkaSource


@dataclass(frozen=True)
class Evolved:
    """What is known from now on, and what the operator is told of it."""

    known: Known
    told: Event | None = None


def evolved(
    plan: Plan,
    source: KafkaSource,
    part: Part,
    known: Known,
    new: StoredSchema,
    met: bool = False,
) -> Evolved:
    """One more schema of a source's messages; raises IncompatibleChange where that ends a run.

    Columns that are declared do not change, and none by a version that was `met` in a message and
    is older than the newest known: all that counts is whether such messages can be read into them.
    """
    older = met and _is_older(new, known.newest)
    if known.declared or older:
        found = _readable(source, part, known, new)
    else:
        found = _judged(_rule(plan, source), source, part, known, new)
    name = schema_words(new)
    if not found.refused:
        newest = known.newest if older else _newest(known, new)
        more = replace(known, columns=found.columns, newest=newest).with_writers(new)
        changed = SchemaChanged(source.name, name, found.taken)
        return Evolved(more, changed if found.taken else None)
    if source.options["on_incompatible_schema"] == "fail":
        why = _why(plan, source, known)
        remembered = _remembers(plan, source)
        raise IncompatibleChange(source.name, name, found.refused, why, remembered)
    reasons = "; ".join(found.refused)
    refused = {**known.refused, new.id: f"{name} does not fit the columns: {reasons}"}
    text = f"`{source.name}`: {name} does not fit the columns, so its messages are bad records: "
    return Evolved(replace(known, refused=refused), Warned(text + reasons))


def schema_words(schema: StoredSchema) -> str:
    """What a schema is called when something is said of it."""
    if schema.subject is None or schema.version is None:
        return f"schema {schema.id}"
    return f"schema {schema.version} of {schema.subject}"


def _readable(source: KafkaSource, part: Part, known: Known, new: StoredSchema) -> Judgement:
    """Whether its messages can be read into the columns as they are."""
    wanted = source.registered[part]
    form = FORMATS[wanted.language]
    faults = _of_another_type(form, new) or form.unreadable(new, known.columns, wanted)
    return Judgement(known.columns, refused=tuple(faults))


def _judged(
    allowed: Evolution, source: KafkaSource, part: Part, known: Known, new: StoredSchema
) -> Judgement:
    """What it makes of the columns."""
    wanted = source.registered[part]
    form = FORMATS[wanted.language]
    faults = _of_another_type(form, new)
    if faults:
        return Judgement(known.columns, refused=tuple(faults))
    try:
        columns, scalar = form.columns_of(new, wanted)
    except ValueError as error:
        return Judgement(known.columns, refused=(str(error),))
    if scalar is not known.scalar:
        kinds = {True: "one value", False: "a record"}
        change = f"it was {kinds[known.scalar]}, and is {kinds[scalar]}"
        return Judgement(known.columns, refused=(change,))
    found = judged(known.columns, columns, allowed)
    # What older messages have must fit the columns that come of it, too.
    faults = [
        f"{schema_words(each)}: {fault}" if each is not new else fault
        for each in (*known.writers, new)
        for fault in form.unreadable(each, found.columns, wanted)
    ]
    return replace(found, refused=tuple(faults)) if faults and not found.refused else found


def _of_another_type(form: Format, new: StoredSchema) -> list[str]:
    if form.type in (None, new.type):
        return []
    return [f"it is {new.type}, and not {form.type}"]


def _rule(plan: Plan, source: KafkaSource) -> Evolution:
    """What the source asks for; where rows are remembered between batches, their columns stay."""
    return Evolution.FREEZE if _remembers(plan, source) else _asked(source)


def _remembers(plan: Plan, source: KafkaSource) -> bool:
    """Whether something of its rows is kept from batch to batch."""
    return any(
        query.kept and source.name in {each.name for each in query.sources}
        for query in plan.queries
    )


def _asked(source: KafkaSource) -> Evolution:
    return Evolution(source.options["schema_evolution"])


def _why(plan: Plan, source: KafkaSource, known: Known) -> str:
    if known.declared:
        return "its `schema` is declared"
    asked = _asked(source)
    if _remembers(plan, source) and asked is not Evolution.FREEZE:
        return "columns of rows that are remembered between batches cannot change"
    return f"`schema_evolution` is {asked}"


def _is_older(new: StoredSchema, newest: StoredSchema | None) -> bool:
    if newest is None or newest.version is None or new.version is None:
        return False
    return newest.subject == new.subject and new.version < newest.version


def _newest(known: Known, new: StoredSchema) -> StoredSchema:
    """The one that gives defaults: the latest of the subject that the columns come from.

    It may have a lower number than the one before, where a subject was deleted and made again.
    """
    if known.newest is None or known.newest.subject == new.subject:
        return new
    return known.newest
