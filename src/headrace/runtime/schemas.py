"""What registries know of the messages that a run reads; put into the plan before the first batch.

1. `SourceSchemas.bound` gives every Kafka source of a plan that goes by a registry what is known of
   its keys and values (`formats.known.Known`): what the pipeline's state has and, by the registry,
   what is new since; at a first start all by the registry.
2. Before a batch is written, `refresh` asks for the newest version of each subject. A query that
   meets an id which is not known ends with NewSchema, and `learn` asks for that. Both judge what is
   new by `runtime.evolving`, and the plan is bound again.

A registry that does not answer stops only a first start: what a state knows can be read without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from headrace.admin.stored_schemas import StoredSchema
from headrace.admin.stores import Stores
from headrace.errors import (
    DefinitionError,
    IncompatibleChange,
    NewSchema,
    OutsideError,
    RegistryUnavailable,
    UnknownSchema,
)
from headrace.formats.known import NOT_KNOWN, Known
from headrace.formats.options import Part
from headrace.model.schema import Schema
from headrace.plan.stages import Decode, Plan, Read, SetAside, Stage
from headrace.runtime import failures
from headrace.runtime.evolving import evolved, schema_words
from headrace.runtime.failpoints import reach
from headrace.runtime.progress import Listener, Warned
from headrace.runtime.source_messages import Messages
from headrace.runtime.state import PipelineState
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import decoded_as

T = TypeVar("T")

# How long a registry that did not answer is left alone: each batch would wait for it.
QUIET_SECONDS = 15.0
# How many ids that a registry has not are asked for in a run.
MOST_UNKNOWN = 10


class SourceSchemas:
    """What is known of all messages that one run reads.

    `tell` gets what the operator should know. Without a `state`, or with one that is not to be
    changed (`keep`), nothing is kept. With `anew` the columns of the newest schemas replace those
    of the state. All of it runs on the driver.
    """

    def __init__(
        self,
        state: PipelineState | None,
        tell: Listener,
        stores: Stores | None = None,
        keep: bool = True,
        anew: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._tell = tell
        self._stores = stores or Stores()
        self._keep = keep
        self._anew = anew
        self._clock = clock
        self._known: dict[tuple[str, Part], Known] = {}
        # Registries that do not answer, and when each is asked again.
        self._silent: dict[str, float] = {}

    def bound(self, plan: Plan) -> Plan:
        """The plan with what is known now; asks a registry only for what it has not asked yet."""
        for messages in self._messages(plan):
            if messages.place not in self._known:
                self._begin(plan, messages)
        queries = (
            replace(query, stages=tuple(self._knowing(stage) for stage in query.stages))
            for query in plan.queries
        )
        return replace(plan, queries=tuple(queries))

    def refresh(self, plan: Plan) -> bool:
        """Take up new versions of the subjects; whether there were any, so that the plan is to be
        bound again. IncompatibleChange ends the run. A registry that does not answer is told of
        once and left alone for a while, as messages with known schemas can be read without it.
        """
        changed = [self._refreshed(plan, messages) for messages in self._messages(plan)]
        return any(changed)

    def learn(self, plan: Plan, new: NewSchema) -> None:
        """Ask for an id that a message has; one that the registry has not is refused from now on.

        Raises IncompatibleChange, or what the registry fails with: its message cannot be read.
        """
        messages = next(
            each for each in self._messages(plan) if each.place == (new.source, Part(new.part))
        )
        known = self._known[messages.place]
        try:
            schema = messages.store.by_id(new.id)
        except UnknownSchema:
            self._set(messages, self._without(messages, known, new.id))
            return
        self._set(messages, self._evolved(plan, messages, known, schema, met=True))

    def _without(self, messages: Messages, known: Known, id: str) -> Known:
        """One more id that the registry has not. Each has cost a beginning of the batch, so that
        there is an end to it: then bytes that are no frames are taken for what they are.
        """
        refused = {**known.refused, id: NOT_KNOWN}
        asks = [*refused.values()].count(NOT_KNOWN) < MOST_UNKNOWN
        if not asks:
            self._warn(
                f"`{messages.source.name}`: {messages.store.url} does not know the schemas of "
                f"{MOST_UNKNOWN} different ids; until the next start no other is asked for, and "
                "messages with such an id are bad records"
            )
        return replace(known, refused=refused, asks=asks)

    def learning(self, plan: Plan, work: Callable[[Plan], T]) -> T:
        """Work that only reads, done again as long as messages have schemas that are not known."""
        met: set[tuple[str, str, str]] = set()
        while True:
            try:
                return work(self.bound(plan))
            except Exception as error:
                new = failures.translate(error, f"reading {plan.pipeline.name}")
                # One that was asked for and comes again is a failure like others.
                if not isinstance(new, NewSchema) or (new.source, new.part, new.id) in met:
                    raise
                self.learn(plan, new)
                met.add((new.source, new.part, new.id))

    def _messages(self, plan: Plan) -> Iterator[Messages]:
        for source in plan.sources:
            if isinstance(source, KafkaSource):
                for part, wanted in source.registered.items():
                    assert wanted.registry is not None  # its absence has been refused
                    yield Messages(source, part, wanted, self._stores.at(wanted.registry))

    def _knowing(self, stage: Stage) -> Stage:
        if not isinstance(stage, Read | Decode | SetAside):
            return stage
        source = stage.source
        if not isinstance(source, KafkaSource) or not source.registered:
            return stage
        known = {part: self._known[source.name, part] for part in source.registered}
        bound = source.knowing(known)
        _refuse_clash(bound)
        return replace(stage, source=bound)

    def _begin(self, plan: Plan, messages: Messages) -> None:
        kept = self._kept(messages)
        if kept is None:
            first = messages.first(self._warn)
            if first.newest is not None:
                first = self._evolved(plan, messages, first, first.newest)
            self._set(messages, first.with_writers(*messages.recent(first)))
            return
        self._known[messages.place] = kept
        try:
            news = messages.since(kept)
            self._known[messages.place] = replace(kept, refused={})
            self._take_up(plan, messages, news)
        except RegistryUnavailable as unheard:
            known = ", ".join(schema_words(each) for each in kept.writers) or "none"
            self._warn(
                f"`{messages.source.name}`: {unheard}; it starts with what it knows: {known}"
            )

    def _refreshed(self, plan: Plan, messages: Messages) -> bool:
        url = messages.store.url
        if self._clock() < self._silent.get(url, 0):
            return False
        try:
            news = messages.news(self._known[messages.place])
        except OutsideError as unheard:
            if url not in self._silent:
                self._warn(f"{unheard}; messages with schemas that are known are read meanwhile")
            self._silent[url] = self._clock() + QUIET_SECONDS
            return False
        self._silent.pop(url, None)
        self._take_up(plan, messages, news)
        return bool(news)

    def _take_up(self, plan: Plan, messages: Messages, news: list[StoredSchema]) -> None:
        newest = {each.subject: each for each in news}
        for new in news:
            known = self._known[messages.place]
            try:
                self._set(messages, self._evolved(plan, messages, known, new))
            except IncompatibleChange:
                # An older version need not be in use; should it be, a message will tell.
                if new is newest[new.subject]:
                    raise

    def _evolved(
        self,
        plan: Plan,
        messages: Messages,
        known: Known,
        new: StoredSchema,
        met: bool = False,
    ) -> Known:
        # What was no schema may have become one since.
        refused = {id: reason for id, reason in known.refused.items() if id != new.id}
        before = replace(known, refused=refused)
        found = evolved(plan, messages.source, messages.part, before, new, met)
        reach("schema.judged")
        if found.told is not None:
            self._tell(found.told)
        return found.known

    def _kept(self, messages: Messages) -> Known | None:
        if self._state is None or self._anew:
            return None
        name, part = messages.place
        kept = self._state.schemas().get(name, {}).get(part)
        if kept is None or kept["asked"] != messages.asked:
            return None
        return Known.from_json(kept["known"])

    def _set(self, messages: Messages, known: Known) -> None:
        self._known[messages.place] = known
        if self._state is None or not self._keep:
            return
        name, part = messages.place
        # An id that the registry has not today may be one tomorrow.
        lasting = {id: reason for id, reason in known.refused.items() if reason != NOT_KNOWN}
        told = {"asked": messages.asked, "known": replace(known, refused=lasting).as_json()}
        kept = self._state.schemas()
        self._state.note_schemas({**kept, name: {**kept.get(name, {}), str(part): told}})

    def _warn(self, text: str) -> None:
        self._tell(Warned(text))


@dataclass(frozen=True)
class SourceSchema:
    """The columns of a source's keys or values, and the schema that they come from, if any."""

    source: str
    part: Part
    columns: Schema
    newest: StoredSchema | None

    def __str__(self) -> str:
        origin = schema_words(self.newest) if self.newest is not None else "its definition"
        return (
            f"the {self.part}s of `{self.source}` are read by {origin}: {decoded_as(self.columns)}"
        )


def source_schemas(plan: Plan) -> list[SourceSchema]:
    """Of all Kafka sources in a plan that is `bound`."""
    return [
        SourceSchema(source.name, part, known.columns, known.newest)
        for source in plan.sources
        if isinstance(source, KafkaSource)
        for part, known in source.schemas.items()
    ]


def _refuse_clash(source: KafkaSource) -> None:
    """A field of the value that is called as the column of the key; only now its name is known."""
    key = source.key_wanted
    names = {name.lower() for name in source.reading.schema.names}
    if key is not None and key.column.lower() in names:
        raise DefinitionError(
            f"source `{source.name}`: the value has a field `{key.column}`, as the column of the "
            "key is called",
            hint="give the key another name with `key_column`",
        )
