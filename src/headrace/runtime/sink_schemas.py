"""The schemas that a run's sinks write by; put into the plan before the first batch.

1. types     of the rows of each query, by Spark's analysis of it; nothing is read
2. propose   the schema that the definition gives, or the subject's newest, or one made of the rows
3. fit       can these rows be written by it? else nothing is registered, and every column is named
4. register  where the subject has it not; here on the driver, and never from tasks
5. bind      the stages that hold the sink get it with its encodings

`SinkSchemas.bound` does all of it, and may do it again when columns have changed. `verdicts` stops
after 3 and asks the registries what they would say: that is for `headrace check --online`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.admin.registry_differences import Difference, differences
from headrace.admin.registry_schemas import Schema as RegistrySchema
from headrace.admin.stored_schemas import Framing, SchemaStore, StoredSchema
from headrace.admin.stores import Stores
from headrace.errors import HeadraceError, IncompatibleSchema, SchemaMismatch, UnknownSubject
from headrace.formats.encoding import Encoding
from headrace.formats.format import Format
from headrace.formats.kinds import FORMATS
from headrace.formats.options import Part, Wanted
from headrace.model.offsets import Range
from headrace.model.schema import Schema
from headrace.plan.stages import Decode, Plan, Query, Refuse, Stage, Write
from headrace.runtime import failures, rows
from headrace.runtime.evolving import schema_words
from headrace.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "headrace"
# What stands for the id of a schema that has none yet.
_NO_ID = {Framing.CONFLUENT: "0", Framing.GLUE: "00000000-0000-0000-0000-000000000000"}


@dataclass(frozen=True)
class Proposal:
    """How the keys or the values of a sink are to be written.

    `schema` is there if a registry knows it or will; one that is `new` has yet to be registered.
    """

    sink: KafkaSink
    part: Part
    wanted: Wanted
    rows: Schema
    schema: StoredSchema | None = None
    new: bool = False

    @property
    def format(self) -> Format:
        return FORMATS[self.wanted.language]

    @property
    def encoding(self) -> Encoding:
        """Raises SchemaMismatch where the rows do not fit the schema."""
        try:
            return self.format.encoding(self.wanted, self.rows, self.schema)
        except ValueError as misfit:
            raise self.mismatch(misfit) from misfit

    def mismatch(self, reason: object) -> SchemaMismatch:
        if self.schema is not None and not self.new:
            by = schema_words(self.schema)
            hint = "cast these columns or leave them out by a step; with `register_schema: true` "
            hint += "the pipeline registers a schema of its own"
        elif self.wanted.gives_schema:
            by = "the schema of the sink"
            hint = "cast these columns or leave them out by a step, or correct the schema"
        else:
            by, hint = self.wanted.format, "cast these columns to other types by a step"
        action = f"writing `{self.sink.name}` to {self.sink.target}"
        return SchemaMismatch(action, f"the {self.part} does not fit {by}: {reason}", hint)


@dataclass(frozen=True)
class Verdict:
    """What a registry says of the schema of a sink; `reasons` are why it would not take it.

    `version` is the one that has this schema already, `differences` are those to the newest. One
    that is not `compared` with other versions may still be refused when it is registered.
    """

    sink: str
    part: Part
    subject: str
    version: int | None
    reasons: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    compared: bool = True

    @property
    def refusal(self) -> IncompatibleSchema | None:
        if not self.reasons:
            return None
        lines = "".join(f"\n  {each}" for each in self.differences)
        return IncompatibleSchema(self.subject, "; ".join(self.reasons) + lines)

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.subject} has this schema already, as version {self.version}"
        if self.reasons:
            return f"{self.subject} would not accept it: {'; '.join(self.reasons)}"
        if not self.compared:
            later = "with its older versions it is compared only when it is registered"
            return f"{self.subject} would take it as valid; {later}"
        return f"{self.subject} would accept it"


def by_registries(plan: Plan) -> bool:
    """Whether a sink of a plan writes by schemas of a registry."""
    sinks = (sink for sink in plan.sinks if isinstance(sink, KafkaSink))
    return any(wanted.registered for sink in sinks for wanted in sink.typed.values())


class SinkSchemas:
    """The schemas of one run's sinks. All of it runs on the driver.

    Where it is not to `register` any, sinks can make messages that nobody is to get: the ids of new
    schemas in them are none, and no registry need be there.
    """

    def __init__(self, stores: Stores | None = None, register: bool = True) -> None:
        self._stores = stores or Stores()
        self._register = register
        self._registered: dict[tuple[str, StoredSchema], StoredSchema] = {}

    def bound(self, plan: Plan, spark: SparkSession) -> Plan:
        """The plan with sinks that can write. Raises SchemaMismatch, IncompatibleSchema, or what
        a registry fails with; then nothing has been written.
        """
        encodings: dict[str, dict[Part, Encoding]] = {}
        for each in self._fitting(plan, spark):
            settled = replace(each, schema=self._settled(each), new=False)  # 4
            encodings.setdefault(each.sink.name, {})[each.part] = settled.encoding
        return replace(plan, queries=tuple(_writing(each, encodings) for each in plan.queries))  # 5

    def verdicts(self, plan: Plan, spark: SparkSession) -> list[Verdict]:
        """What the registries say to schemas of sinks; they are asked, and nothing is changed."""
        return [self._verdict(each) for each in self._fitting(plan, spark) if each.schema]

    def _fitting(self, plan: Plan, spark: SparkSession) -> list[Proposal]:
        """All that is proposed; that one of them does not fit is found before any is registered."""
        found = [*self._proposals(plan, spark)]
        for each in found:
            _ = each.encoding  # 3
        return found

    def _proposals(self, plan: Plan, spark: SparkSession) -> Iterator[Proposal]:
        for query in plan.queries:
            typed = [sink for sink in query.kafka_sinks if sink.typed]
            frame = _frame(plan, query, spark) if typed else None
            for sink in typed:
                assert frame is not None
                for part, types in _row_types(sink, frame).items():  # 1
                    yield self._proposal(Proposal(sink, part, sink.typed[part], types))  # 2

    def _proposal(self, bare: Proposal) -> Proposal:
        wanted, form = bare.wanted, bare.format
        if not wanted.registered or form.type is None:
            return bare
        store, subject = self._store(wanted), wanted.subjects[0]
        if not bare.sink.registers:
            return replace(bare, schema=_newest(store, subject, bare))
        given = form.given(wanted)
        newest = store.newest(subject) if given is None and self._register else None
        try:
            text, references = given or (form.made(_name(bare), bare.rows, newest), ())
        except ValueError as misfit:
            raise bare.mismatch(misfit) from misfit
        if newest is not None and newest.text == text:
            return replace(bare, schema=newest)
        schema = StoredSchema(_NO_ID[store.framing], form.type, text, references, subject)
        return replace(bare, schema=schema, new=True)

    def _settled(self, proposal: Proposal) -> StoredSchema | None:
        """The schema as its registry has it from now on."""
        schema, wanted = proposal.schema, proposal.wanted
        if schema is None or not proposal.new or not self._register:
            return schema
        store = self._store(wanted)
        place = (store.url, schema)
        if place not in self._registered:
            assert schema.subject is not None
            try:
                self._registered[place] = store.register(
                    schema.subject, schema.type, schema.text, schema.references
                )
            except IncompatibleSchema as refused:
                raise self._verdict(proposal).refusal or refused from refused
        return self._registered[place]

    def _verdict(self, proposal: Proposal) -> Verdict:
        schema, sink, part = proposal.schema, proposal.sink.name, proposal.part
        assert schema is not None
        assert schema.subject is not None
        if not proposal.new:
            return Verdict(sink, part, schema.subject, schema.version)
        store = self._store(proposal.wanted)
        reasons = store.accepts(schema.subject, schema.type, schema.text, schema.references)
        newest = store.newest(schema.subject)
        news = _differences(newest, schema)
        known = newest.version if newest is not None and not reasons and not news else None
        compared = store.compares or newest is None
        return Verdict(sink, part, schema.subject, known, tuple(reasons), news, compared)

    def _store(self, wanted: Wanted) -> SchemaStore:
        assert wanted.registry is not None  # its absence has been refused
        return self._stores.at(wanted.registry)


def _frame(plan: Plan, query: Query, spark: SparkSession) -> DataFrame:
    """The rows of a query as Spark understands them, of sources that are not read."""
    nothing = Range({}, {})
    raw = {
        source.name: source.batch(spark, nothing) if plan.in_batches else source.stream(spark)
        for source in query.sources
    }
    return rows.transformed(spark, query, raw)


def _row_types(sink: KafkaSink, frame: DataFrame) -> dict[Part, Schema]:
    action = f"writing `{sink.name}` to {sink.target}"
    try:
        return sink.row_types(frame)
    except ValueError as misfit:
        hint = "cast these columns to other types by a step"
        raise SchemaMismatch(action, str(misfit), hint) from misfit
    except HeadraceError:
        raise
    except Exception as error:
        raise failures.translate(error, action) from error


def _newest(store: SchemaStore, subject: str, proposal: Proposal) -> StoredSchema:
    newest = store.newest(subject)
    if newest is None:
        unknown = UnknownSubject(subject, store.url)
        unknown.hint = "remove `register_schema: false`, and the pipeline registers its schema"
        raise unknown
    if newest.type is not proposal.format.type:
        settled = replace(proposal, schema=newest)
        raise settled.mismatch(f"it is {newest.type}, and not {proposal.format.type}")
    return newest


def _name(proposal: Proposal) -> str:
    """What a record is called in a schema that is made for it: by its subject, which stays.

    Readers compare names, so another name for the same fields would be another schema.
    """
    (subject, *_) = proposal.wanted.subjects
    words = re.split(r"[^A-Za-z0-9]+", subject.removesuffix(f"-{proposal.part}"))
    name = "".join(word[:1].upper() + word[1:] for word in words)
    name = name if name[:1].isalpha() else f"Record{name}"
    return f"{NAMESPACE}.{name}{'Key' if proposal.part is Part.KEY else ''}"


def _differences(newest: StoredSchema | None, new: StoredSchema) -> tuple[Difference, ...]:
    if newest is None or newest.type is not new.type:
        return ()
    return differences(RegistrySchema(newest.type, newest.text), RegistrySchema(new.type, new.text))


def _writing(query: Query, encodings: dict[str, dict[Part, Encoding]]) -> Query:
    """A query whose sinks have these encodings; rows that they may refuse carry their record."""
    bound = replace(query, stages=tuple(_with(stage, encodings) for stage in query.stages))
    least = min((each.sink.least_refused for each in bound.refusals if each.letters), default=None)
    if least is None:
        return bound
    return replace(bound, stages=tuple(_keeping(stage, least) for stage in bound.stages))


def _with(stage: Stage, encodings: dict[str, dict[Part, Encoding]]) -> Stage:
    if isinstance(stage, Write | Refuse) and isinstance(stage.sink, KafkaSink):
        found = encodings.get(stage.sink.name)
        return replace(stage, sink=stage.sink.writing(found)) if found is not None else stage
    return stage


def _keeping(stage: Stage, least: int) -> Stage:
    if isinstance(stage, Decode) and stage.originals is not None:
        return replace(stage, originals=min(stage.originals, least))
    return stage
