"""What is asked of a registry about the messages of a source, and what its answers mean.

`Messages` are the keys or the values of one source. They ask their store for the newest schema, for
the versions that there are and for those that are new; `runtime.schemas` keeps what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from headrace.admin.stored_schemas import SchemaStore, StoredSchema
from headrace.errors import HeadraceError, UnknownSchema, UnknownSubject, UnreadableSchema
from headrace.formats.format import Format
from headrace.formats.kinds import FORMATS
from headrace.formats.known import NOT_KNOWN, Known
from headrace.formats.options import Part, Wanted
from headrace.model.schema import Schema
from headrace.runtime.evolving import schema_words
from headrace.sources.kafka import KafkaSource

# How many versions of a subject are known from the beginning. Each costs a little for every
# message; older ones are learned when a message has them.
_VERSIONS = 16
_SUBJECTS_NAMED = 5


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
        declared = wanted.schema.columns if wanted.schema is not None else ()
        return {
            "format": wanted.format,
            "registry": wanted.registry.words if wanted.registry is not None else None,
            "subjects": list(wanted.subjects),
            "message": wanted.message,
            "columns": [[each.name, each.type, each.nullable] for each in declared],
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

    def _columns(self, newest: StoredSchema) -> tuple[Schema, bool]:
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


def _listed(store: SchemaStore) -> list[str]:
    try:
        return store.subjects()
    except HeadraceError:
        # Who may not list subjects is told that this one is missing, and no more.
        return []
