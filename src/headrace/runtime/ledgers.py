"""The ledgers of a run that writes exactly once: claimed before its first batch, held to the state.

    lost      whether a ledger tells of work that the state knows nothing of
    claim     every entry that the run will move is taken by it: whoever held it is shut out, and
              what it says must fit what the state knows
    once      what the sinks need to know for a batch
    renew     entries that have not moved for long, as brokers forget old ones

An entry that is missing or does not fit is refused where it could hide something: whether a batch
that was cut off was written, only the entry knows. Where none was cut off nothing is in doubt, and
a missing entry is made again. Without `guarantee: exactly_once` a query has no ledgers, and nothing
is done here.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from headrace.admin import limits, topics
from headrace.admin.client import Clusters
from headrace.errors import (
    LedgerInUse,
    LedgerMissing,
    StateIsOld,
    StateLost,
    TakenOver,
    TopicMadeAgain,
)
from headrace.model.offsets import Offsets
from headrace.plan.stages import Plan, Query
from headrace.runtime import books, failpoints, failures
from headrace.runtime.books import Book
from headrace.runtime.state import Claims, PipelineState
from headrace.sinks import kafka_once, kafka_transactions
from headrace.sinks.kafka_transactions import Entry, Place, Work
from headrace.sinks.writer import Once, Way
from headrace.sources.kafka import KafkaSource

# An entry that old is written again; a quarter of the brokers' limit, if that is less.
RENEW_SECONDS = 6 * 3600.0
# Brokers are not asked for their limit about entries younger than this.
YOUNG_SECONDS = 60.0


@dataclass(frozen=True)
class Standing:
    """What the state knows of a query.

    `life` says which entries count, `generation` to which state it belongs. `stands` is where the
    source is by the batches that are done, `planned` the number of the last that was begun.
    `begun`: there have been batches. `cut_off`: one may be written and not done. `keeps`: entries
    of another life tell what is done all the same. `lives` are those that entries can have if no
    other state of the pipeline has been here; None where any is right, as this state is new.
    """

    life: str
    generation: str
    stands: Offsets = field(default_factory=dict)
    planned: int = -1
    begun: bool = False
    cut_off: bool = False
    keeps: bool = False
    lives: frozenset[str] | None = None


@dataclass
class _Held:
    """An entry that this run has taken."""

    work: Work
    place: Place
    way: Way
    bootstrap: str
    since: float


class Ledgers:
    """Those of one run, which is their owner."""

    def __init__(
        self, plan: Plan, state: PipelineState, clusters: Clusters, warn: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._pipeline = plan.pipeline.name
        self._state = state
        self._clusters = clusters
        self._warn = warn
        self._identity = uuid.uuid4().hex
        self._held: dict[tuple[str, Place], _Held] = {}
        self._renew_after: dict[str, float] = {}
        # Batches of several queries may be written at once; nothing is renewed meanwhile.
        self._moves = threading.Lock()
        self._moving = 0

    @cached_property
    def owner(self) -> str:
        """Greater than every owner before. Of two that begin at once, each greater than what it has
        seen, the one with the greater name wins.
        """
        terms = [
            int(entry.owner.split("-")[0])
            for query in self._plan.queries
            for book in books.of(query, self._pipeline)
            for entry in self._entries(book, query, self._places(book, query)).values()
        ]
        return f"{max(terms, default=0) + 1:08d}-{self._identity}"

    def _places(self, book: Book, query: Query) -> list[Place]:
        return self.partitions(query) if query.way is Way.LINEAGE else [_whole(book)]

    def lost(self, query: Query, generation: str) -> Offsets | None:
        """How far another life has come with a query whose state is new; None if there was none.

        Where its ledgers differ, the least counts: each sink passes over what it has.
        """
        found: dict[Place, int] = {}
        for book in books.of(query, self._pipeline):
            places = self._places(book, query)
            ids = self._topic_ids(book, places)
            for place, entry in self._entries(book, query, places).items():
                # An entry about a topic that is gone says nothing about its successor.
                if entry.life == generation or entry.topic_id != ids.get(place[0]):
                    continue
                if query.way is not Way.LINEAGE or len(query.kafka_sinks) < len(query.writes):
                    raise StateLost(book.ledger.sink, book.group, str(self._state.folder))
                found[place] = min(entry.offset, found.get(place, entry.offset))
        return found or None

    def partitions(self, query: Query) -> list[Place]:
        """The partitions that have entries by lineage, as there are now."""
        (source, *_) = query.sources
        if query.way is not Way.LINEAGE or not isinstance(source, KafkaSource):
            return []
        return source.partitions(self._clusters)

    def claim(self, query: Query, standing: Standing, places: Iterable[Place]) -> None:
        """Take the entries of a query; `places` are the partitions of its source, by lineage.

        What this run has taken already stays as it is.
        """
        if query.way is None:
            return
        wanted = list(places)
        claims = self._refuse_new_topics(query, standing)
        for book in books.of(query, self._pipeline):
            keys = wanted if query.way is Way.LINEAGE else [_whole(book)]
            missing = [key for key in keys if not self._has(book, key, standing.life)]
            ids = self._topic_ids(book, keys)
            work = book.work(Once(query.way, standing.life, self.owner, topic_ids=ids))
            self._take(query, book, work, standing, missing)
        if not claims.done:
            self._state.note_claims(query.name, replace(claims, done=True))
        failpoints.reach("eos.claimed")

    def once(
        self, query: Query, life: str, number: int, starts: Offsets, ends: Offsets
    ) -> Once | None:
        """What the sinks need for a batch of this range, whose entries have been claimed."""
        if query.way is None:
            return None
        dies_at, dies_with = failpoints.fuse()
        ids = {held.place[0]: held.work.topic_ids[held.place[0]] for held in self._held.values()}
        return Once(query.way, life, self.owner, number, starts, ends, ids, dies_at, dies_with)

    def unclaimed(self, query: Query, life: str, places: Iterable[Place]) -> list[Place]:
        """The partitions, by lineage, that some ledger of a query has no entry of yet."""
        if query.way is not Way.LINEAGE:
            return []
        found = list(books.of(query, self._pipeline))
        return [key for key in places if not all(self._has(book, key, life) for book in found)]

    @contextmanager
    def moving(self) -> Iterator[None]:
        """While a batch is written, nothing is renewed."""
        with self._moves:
            self._moving += 1
        try:
            yield
        finally:
            with self._moves:
                self._moving -= 1

    def renew(self) -> None:
        """Write old entries again, unless a batch is being written; cheap where none is old."""
        now = time.monotonic()
        old = [held for held in self._held.values() if now - held.since > self._patience(held, now)]
        if not old:
            return
        with self._moves:  # a batch that begins now waits for it
            if self._moving:
                return
            for held in old:
                of = held.place if held.way is Way.LINEAGE else None
                try:
                    kafka_transactions.renew(held.work, held.place, of)
                except Exception as error:
                    action = f"renewing the ledger {held.work.ledger.group}"
                    raise failures.translate(error, action, held.bootstrap) from error
                held.since = now

    def _patience(self, held: _Held, now: float) -> float:
        if now - held.since < YOUNG_SECONDS:
            return RENEW_SECONDS
        if held.bootstrap not in self._renew_after:
            kept = limits.offsets_retention_minutes(self._clusters.at(held.bootstrap)) * 60
            self._renew_after[held.bootstrap] = min(RENEW_SECONDS, kept / 4)
        return self._renew_after[held.bootstrap]

    def _has(self, book: Book, place: Place, life: str) -> bool:
        held = self._held.get((book.group, place))
        return held is not None and held.work.life == life

    def _take(
        self, query: Query, book: Book, work: Work, standing: Standing, places: list[Place]
    ) -> None:
        assert query.way is not None
        judge = Judge(book, work, standing, str(self._state.folder), self._warn)
        way = query.way

        def take(place: Place) -> None:
            of, decide = (place, judge.partition) if way is Way.LINEAGE else (None, judge.whole)
            kafka_transactions.claim(work, place, of, lambda found: decide(place, found))

        try:
            kafka_once.at_once(take, places)
        except Exception as error:
            action = f"claiming the ledger {book.group}"
            raise failures.translate(error, action, book.bootstrap) from error
        for place in places:
            held = _Held(work, place, way, book.bootstrap, time.monotonic())
            self._held[book.group, place] = held

    def _entries(self, book: Book, query: Query, places: list[Place]) -> Mapping[Place, Entry]:
        assert query.way is not None
        work = book.work(Once(query.way, "", ""))
        try:
            return kafka_transactions.entries(work, places)
        except Exception as error:
            action = f"reading the ledger {book.group}"
            raise failures.translate(error, action, book.bootstrap) from error

    def _topic_ids(self, book: Book, places: Iterable[Place]) -> dict[str, str]:
        """Of the topics that entries are about; a ledger by lineage is where its source is."""
        cluster = self._clusters.at(book.bootstrap)
        return {name: topics.describe(cluster, name).id for name in {topic for topic, _ in places}}

    def _refuse_new_topics(self, query: Query, standing: Standing) -> Claims:
        """Refuse topics that were deleted and made again since this state has seen them."""
        before = self._state.claims(query.name, standing.generation)
        now = dict(self._used_topics(query))
        for name, (identity, purpose) in now.items():
            if before.topics.get(name, identity) != identity:
                raise TopicMadeAgain(name.split(" ")[0], purpose, str(self._state.folder))
        seen = {name: identity for name, (identity, _) in now.items()}
        after = replace(before, topics={**before.topics, **seen})
        if after != before:
            self._state.note_claims(query.name, after)
        return after

    def _used_topics(self, query: Query) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each with its id and what it is for; its name here also tells the cluster."""
        used = [
            (source.bootstrap, topic, f"read by `{source.name}`")
            for source in query.sources
            if isinstance(source, KafkaSource)
            for topic in {topic for topic, _ in source.partitions(self._clusters)}
        ]
        used += [
            (sink.bootstrap, topic, f"written by `{sink.name}`")
            for sink in query.kafka_sinks
            for topic in sink.topics
        ]
        if query.aside is not None and query.aside.topic is not None:
            source = query.aside.source
            used.append((source.bootstrap or "", query.aside.topic, "of dead letters"))
        for bootstrap, topic, purpose in used:
            identity = topics.describe(self._clusters.at(bootstrap), topic).id
            yield f"{topic} at {bootstrap}", (identity, purpose)


def _whole(book: Book) -> Place:
    assert book.place is not None  # refused when the plan was made
    return book.place


@dataclass(frozen=True)
class Judge:
    """What becomes of an entry that a run takes, by what it says and what the state knows."""

    book: Book
    work: Work
    standing: Standing
    folder: str
    warn: Callable[[str], None]

    def partition(self, place: Place, found: Entry | None) -> Entry:
        stand = self.standing.stands.get(place)
        if found is None:
            self._refuse_doubt(place, stand is not None)
            return self.work.entry(place, stand or 0)
        self._refuse_others(found)
        if found.topic_id != self.work.topic_ids[place[0]]:
            return self.work.entry(place, stand or 0)  # about a topic that is gone
        if found.life != self.standing.life:
            return self.work.entry(place, self._kept(place, found, stand or 0))
        if stand is not None and self.standing.begun and 0 < found.offset < stand:
            return self.work.entry(place, self._behind(place, found, stand))
        return self.work.entry(place, found.offset)

    def _behind(self, place: Place, found: Entry, stand: int) -> int:
        """It was reset, or the pipeline has run without it: harmless unless it is needed now."""
        told = f"{place[0]}[{place[1]}] is at {found.offset}, and {stand} was committed"
        if self.standing.cut_off:
            raise LedgerInUse(self.book.ledger.sink, self.book.group, told)
        self.warn(
            f"the ledger {self.book.group} was behind: {told}; as no batch was cut off, it is set"
        )
        return stand

    def _kept(self, place: Place, found: Entry, stand: int) -> int:
        if not self.standing.keeps or found.offset <= stand:
            return stand
        self.warn(
            f"by the ledger {self.book.group}, {place[0]}[{place[1]}] is written up to "
            f"{found.offset}, though this state knows only of {stand}; the rest is passed over"
        )
        return found.offset

    def whole(self, place: Place, found: Entry | None) -> Entry:
        planned = self.standing.planned
        if found is None:
            self._refuse_doubt(place, True)
            return self.work.entry(place, planned + 1 if self.standing.begun else 0)
        self._refuse_others(found)
        if found.life != self.standing.life:
            return self.work.entry(place, 0)
        if found.offset > planned + 1:
            target = f"the ledger {self.book.group}"
            sink, newest = self.book.ledger.sink, found.offset - 1
            raise StateIsOld(sink, target, newest, planned, self.folder)
        return self.work.entry(place, found.offset)

    def _refuse_others(self, found: Entry) -> None:
        """Refuse what a later run has, or what another state of the pipeline has written."""
        if found.owner > self.work.owner:
            raise TakenOver(self.book.ledger.sink, self.book.group)
        lives = self.standing.lives
        if lives is not None and found.life not in lives:
            raise StateLost(self.book.ledger.sink, self.book.group, self.folder)

    def _refuse_doubt(self, place: Place, known: bool) -> None:
        """A missing entry is harmless unless a batch was cut off that it would tell about."""
        if not (self.standing.begun and known):
            return
        name = f"{place[0]}[{place[1]}]"
        if self.standing.cut_off:
            raise LedgerMissing(self.book.ledger.sink, self.book.group, name)
        self.warn(
            f"the ledger {self.book.group} had no entry for {name}; as no batch was cut off, it is "
            "made again"
        )
