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
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from headrace.admin.stored_schemas import SchemaStore, StoredSchema
from headrace.admin.stores import Stores
from headrace.errors import (
    DefinitionError,
    HeadraceError,
    IncompatibleChange,
    NewSchema,
    OutsideError,
    RegistryUnavailable,
    UnknownSchema,
    UnknownSubject,
    UnreadableSchema,
)
from headrace.formats.format import Format
from headrace.formats.kinds import FORMATS
from headrace.formats.known import NOT_KNOWN, Known
from headrace.formats.options import Part, Wanted
from headrace.model.schema import Schema
from headrace.plan.stages import Decode, Plan, Read, SetAside, Stage
from headrace.runtime import failures
from headrace.runtime.evolving import evolved, schema_words
from headrace.runtime.failpoints import reach
from headrace.runtime.progress import Listener, Warned
from headrace.runtime.state import PipelineState
from headrace.sources.kafka import KafkaSource
from headrace.sources.reader import decoded_as

T = TypeVar("T")

# How many versions of a subject are known from the beginning. Each costs a little for every
# message; older ones are learned when a message has them.
_VERSIONS = 16
_SUBJECTS_NAMED = 5
# How long a registry that did not answer is left alone: each batch would wait for it.
QUIET_SECONDS = 15.0


@dataclass(frozen=True)
class Messages:
    """The keys or the values of a source, and the store that knows their schemas."""

    source: KafkaSource
    part: Part
    wanted: Wanted
    store: SchemaStore

    @property
    def place(self) -> tuple[str, Part]:
        return self.source.name, self.part

    @property
    def format(self) -> Format:
        return FORMATS[self.wanted.language]

    @property
    def asked(self) -> dict[str, Any]:
        """What of the definition decides which schemas are theirs; a state for another is none."""
        wanted = self.wanted
        return {
            "format": wanted.format,
            "registry": wanted.registry.words if wanted.registry is not None else None,
            "subjects": list(wanted.subjects),
            "message": wanted.message,
            "columns": wanted.schema.ddl() if wanted.schema is not None else None,
        }

    def first(self, warn: Callable[[str], None]) -> Known:
        """What the registry knows of them, where nothing is known yet: the columns of the newest
        schema, and no writer.
        """
        newest = self._newest_of_all()
        columns, scalar = self.wanted.schema, False
        if newest is None and columns is None:
            raise self._unknown()
        if columns is None:
            assert newest is not None
            columns, scalar = self._columns(newest)
        elif newest is None and self.wanted.subjects:
            warn(
                f"`{self.source.name}`: {self.store.url} has no subject "
                f"{' or '.join(self.wanted.subjects)} yet; the schemas of messages are asked for "
                "as they come"
            )
        declared = self.wanted.schema is not None
        return Known(self.store.framing, columns, (), newest, scalar=scalar, declared=declared)

    def recent(self, known: Known) -> Iterator[StoredSchema]:
        """Versions that are there already and can be read; those that cannot need not be in use."""
        for subject in self.wanted.subjects:
            for each in self._versions(subject)[-_VERSIONS:]:
                if not self._refusals(each, known):
                    yield each

    def news(self, known: Known) -> list[StoredSchema]:
        """Versions that are not known, the oldest first; for none, one request a subject."""
        return [new for subject in self.wanted.subjects for new in self._news_of(subject, known)]

    def since(self, kept: Known) -> list[StoredSchema]:
        """What is to be judged when a run begins with what another has kept: versions that are new,
        and all that was refused then, as other rules may hold now.
        """
        news = self.news(replace(kept, refused={}))
        again = [id for id in kept.refused if id not in {each.id for each in news}]
        return [*self._there(again), *news]

    def _there(self, ids: list[str]) -> Iterator[StoredSchema]:
        for id in ids:
            with suppress(UnknownSchema):
                yield self.store.by_id(id)

    def _news_of(self, subject: str, known: Known) -> list[StoredSchema]:
        newest = self.store.newest(subject)
        read = {each.id for each in known.writers}
        refused = {id for id, reason in known.refused.items() if reason != NOT_KNOWN}
        if newest is None or newest.id in read | refused:
            return []
        last = max(
            (each.version or 0 for each in known.writers if each.subject == subject), default=0
        )
        later = [each for each in self._versions(subject) if (each.version or 0) > last]
        return [each for each in later if each.id not in read | refused] or [newest]

    def _newest_of_all(self) -> StoredSchema | None:
        """Of the first subject that there is."""
        found = (self.store.newest(subject) for subject in self.wanted.subjects)
        return next((each for each in found if each is not None), None)

    def _versions(self, subject: str) -> list[StoredSchema]:
        try:
            return self.store.versions(subject)
        except UnknownSubject:
            return []

    def _columns(self, newest: StoredSchema) -> tuple[Any, bool]:
        name = schema_words(newest)
        if self.format.type not in (None, newest.type):
            reads = f"`format: {self.wanted.format}` reads {self.format.type}"
            raise UnreadableSchema(self.source.name, name, f"it is {newest.type}, and {reads}")
        try:
            return self.format.columns_of(newest, self.wanted)
        except ValueError as error:
            raise UnreadableSchema(self.source.name, name, str(error)) from error

    def _refusals(self, schema: StoredSchema, known: Known) -> list[str]:
        if self.format.type not in (None, schema.type):
            return [f"it is {schema.type}"]
        return self.format.unreadable(schema, known.columns, self.wanted)

    def _unknown(self) -> UnknownSubject:
        """The subject that is missing, with those that there are and how to name one."""
        wanted = self.wanted.subjects[0]
        option = f"`{self.part}_subject`"
        there = _listed(self.store)
        near = get_close_matches(wanted, there, _SUBJECTS_NAMED, 0.5) or there[:_SUBJECTS_NAMED]
        if near:
            others = f" of {len(there)}" if len(there) > len(near) else ""
            hint = f"there is {', '.join(near)}{others}: name the right one with {option}"
        else:
            hint = f"a producer registers it with its first message; another is named by {option}"
        error = UnknownSubject(wanted, self.store.url)
        error.hint = hint
        return error


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
            self._set(messages, replace(known, refused={**known.refused, new.id: NOT_KNOWN}))
            return
        self._set(messages, self._evolved(plan, messages, known, schema, met=True))

    def learning(self, plan: Plan, work: Callable[[Plan], T]) -> T:
        """Work that only reads, done again as long as messages have schemas that are not known."""
        while True:
            try:
                return work(self.bound(plan))
            except Exception as error:
                new = failures.translate(error, f"reading {plan.pipeline.name}")
                if not isinstance(new, NewSchema):
                    raise
                self.learn(plan, new)

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


def _listed(store: SchemaStore) -> list[str]:
    try:
        return store.subjects()
    except HeadraceError:
        # Who may not list subjects is told that this one is missing, and no more.
        return []
