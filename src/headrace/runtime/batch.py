"""Run a plan as an incremental batch.

    1. recover  a run that was cut off: finish it, or do it again exactly as it was
    2. find     where each source was left, and where its topics end now
    3. note     that range and the run's number in the journal
    4. write    each query over exactly that range, and mark it in the journal
    5. store    the new positions in the table of offsets, if it is still as it was at 2
    6. close    the journal
    7. publish  the positions to the groups

A crash before 3 leaves everything as it was. From 3 to 5 the next run does the same range again
under the same number, so that targets which know the number have nothing twice; queries that are
marked are left out. Between 5 and 7 only what is shown is late.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.admin.client import Clusters
from headrace.errors import DefinitionError, NewSchema, TransactionTooLarge
from headrace.model.offsets import Offsets, Range
from headrace.plan.promises import RATE
from headrace.plan.stages import Plan, Query
from headrace.runtime import failures, notes, old_state, range_writing, recovery, resets
from headrace.runtime.binding import Binding
from headrace.runtime.failpoints import reach
from headrace.runtime.journal import Entry, Journal
from headrace.runtime.ledgers import Ledgers, Standing
from headrace.runtime.notes import Note, Positions
from headrace.runtime.offsets_table import PositionStore
from headrace.runtime.patience import Patience
from headrace.runtime.positions import GroupPositions
from headrace.runtime.progress import BatchDone, Listener, Stopping, Warned
from headrace.runtime.recovery import Drop, Finish, Redo
from headrace.runtime.state import PipelineState
from headrace.sinks.writer import Batch, Way
from headrace.sources.reader import Access, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BatchRun:
    """One run of a batch. It cannot be stopped in the middle: it ends by itself.

    Without `commit` no position moves: sinks are written, and a later run reads the same again.
    With `reset_offsets` the `offset` of sources is followed though it has been before.
    """

    def __init__(
        self,
        binding: Binding,
        spark: SparkSession,
        state: PipelineState,
        positions: GroupPositions,
        clusters: Clusters,
        listener: Listener,
        commit: bool = True,
        reset_offsets: bool = False,
    ) -> None:
        plan = binding.plan
        self._binding = binding
        self._spark = spark
        self._state = state
        self._store = PositionStore(spark, plan, state)
        self._journal = Journal(state.folder)
        self._ledgers = Ledgers(plan, state, clusters, self._warn)
        self._entry: Entry | None = None
        self._first = self._new_here = True
        self._generation = uuid.uuid4().hex  # unless there is a journal that has one
        self._positions = positions
        self._access = Access(spark, clusters, self._warn)
        self._tell = listener
        self._commit = commit
        self._again = reset_offsets
        # A source that is read from its beginning each time has no run that could be repeated.
        self._journaled = commit and all(self._store.keeps(each.name) for each in plan.sources)

    def stop(self) -> None:
        self._warn("a batch ends by itself; it is not stopped half-way")

    @property
    def _plan(self) -> Plan:
        """Bound anew when messages have new schemas."""
        return self._binding.plan

    def run(self) -> None:
        while True:
            try:
                return self._run()
            except NewSchema as new:
                # The run is cut off, and done again as it was, with what is known now.
                if not self._binding.renew(new):
                    raise

    def _run(self) -> None:
        if not self._commit and any(query.way for query in self._plan.queries):
            raise DefinitionError(
                "with --no-commit a later run writes the same again, which is not exactly once",
                hint="use `headrace preview`, or `guarantee: at_least_once`",
            )
        stored = self._reset(self._recovered(self._store.read()))  # 1
        ranges = {  # 2
            source.name: self._find(source, stored.get(source.name, {}))
            for source in self._plan.sources
        }
        note = self._note(stored, ranges)
        done: list[BatchDone] = []
        if any(found.records for found in ranges.values()):
            entry = Entry(note, stored, self._generation)
            self._claim(entry, self._plan.queries)
            self._keep(entry)  # 3
            reach("batch.noted")
            done = self._write(entry, self._plan.queries)  # 4
        if self._commit:
            self._move(note, stored, note.positions)
        for report in done:
            self._tell(report)

    # 1. A run that was cut off

    def _recovered(self, stored: Positions) -> Positions:
        """Where to begin, after what an earlier run has left undone is done."""
        if not self._journaled:
            return stored
        kept = self._entry or self._kept_entry()
        first, self._first = self._first, False
        self._new_here = kept is None
        entry = kept or (self._remembered(stored) if first else None)
        if entry is None:
            return stored
        self._entry, self._generation = entry, entry.generation
        if entry.closed:
            return stored
        step = recovery.decide(entry, stored, self._plan.queries, self._seen(entry.note))
        self._warn(_told(entry.note, step))
        if isinstance(step, Drop):
            self._keep(entry.close())
            return stored
        done = self._redo(entry, step.queries) if isinstance(step, Redo) else []
        after = entry.note.positions if isinstance(step, Redo) else step.after
        self._move(entry.note, stored, after)
        for report in done:
            self._tell(report)
        return self._store.read()

    def _kept_entry(self) -> Entry | None:
        entry = self._journal.read()
        if entry is not None:
            folder = str(self._state.folder)
            for query in self._plan.queries:
                old_state.refuse(self._spark, query, entry.generation, entry.note.run, folder)
        return entry

    def _seen(self, note: Note) -> list[str]:
        """The Delta sinks whose newest commit is of this run."""
        found = notes.in_sinks(self._spark, self._plan)
        wanted = (note.run, note.generation)
        return [
            sink for sink, each in found.items() if (each.note.run, each.note.generation) == wanted
        ]

    def _remembered(self, stored: Positions) -> Entry | None:
        """With a new state folder, what is known elsewhere of the pipeline's last run."""
        sinks = notes.in_sinks(self._spark, self._plan)
        table = self._store.newest_note()
        known = [each.note for each in (*sinks.values(), *([table] if table else []))]
        if not known:
            return None
        sources = {source.name for source in self._plan.sources}
        missing = recovery.behind(stored, table, sinks, sources)
        if missing is not None:
            self._warn(
                f"the state of {missing.pipeline} is new here, and a sink has its run "
                f"{missing.run}, which the table of offsets lacks"
            )
            return Entry(missing, stored, self._generation)
        last = max(known, key=lambda note: note.run)
        return Entry(last, stored, self._generation, closed=True)

    # 2. Where to read

    def _reset(self, stored: Positions) -> Positions:
        """Where to begin, after the definition's `offset` has been followed if that is due."""
        if not (self._again or self._state.resets.exists() or resets.wanted(self._plan.sources)):
            return stored
        again, self._again = self._again, False
        return resets.follow_in_table(
            self._state.resets, self._plan.sources, self._access, self._store, again, self._commit
        )

    def _find(self, source: SourceReader, stored: Offsets) -> Range:
        found = source.find(self._access, stored)
        if found.lost:
            self._warn(f"lost before they were read, and passed over: {found.lost}")
            self._state.note_loss(source.name, found.lost)
        return found

    def _note(self, stored: Positions, ranges: Mapping[str, Range]) -> Note:
        return Note(
            self._plan.pipeline.name,
            self._generation,
            self._entry.note.run + 1 if self._entry else 1,
            {name: found.start for name, found in ranges.items()},
            {name: {**stored.get(name, {}), **found.end} for name, found in ranges.items()},
        )

    # 3 and 4. The ledgers, the journal, and what comes after them

    def _claim(self, entry: Entry, queries: Iterable[Query], again: bool = False) -> None:
        """Before a run is noted, so that a run which is noted has all of its entries."""
        note = entry.note
        told = resets.wanted(self._plan.sources)
        for query in queries:
            starts = _merged(note.starts, query)
            standing = Standing(
                entry.life,
                note.generation,
                starts,
                planned=note.run,
                begun=again,
                cut_off=again,
                keeps=self._new_here and not told,
                lives=None if told else self._lives(entry),
            )
            self._refuse_too_large(query, note)
            self._ledgers.claim(query, standing, starts)

    def _lives(self, entry: Entry) -> frozenset[str] | None:
        """Those of entries that this state has made; a state that is new cannot know them."""
        if self._new_here or self._entry is None:
            return None
        return frozenset({entry.life, self._entry.life})

    def _refuse_too_large(self, query: Query, note: Note) -> None:
        """How much one transaction would take is known only now."""
        if query.way is not Way.BATCH:
            return
        records = sum(note.range(source.name).records for source in query.sources)
        needed = records * 1000 // RATE
        for sink in query.kafka_sinks:
            limit = sink.transaction_ms(Way.BATCH)
            if needed > limit:
                raise TransactionTooLarge(sink.name, records, limit, needed)

    def _redo(self, entry: Entry, queries: tuple[Query, ...]) -> list[BatchDone]:
        self._claim(entry, queries, again=True)
        return self._write(entry, queries)

    def _keep(self, entry: Entry) -> None:
        if self._journaled:
            self._journal.write(entry)
            self._entry = entry

    def _write(self, entry: Entry, queries: Iterable[Query]) -> list[BatchDone]:
        note = entry.note
        number, text = (note.run, note.text()) if self._journaled else (None, None)
        done = []
        self._binding.refresh()  # after the range is noted, and before anything of it is written
        for query in (self._binding.query(each.name) for each in queries):
            starts, ends = _merged(note.starts, query), _merged(note.positions, query)
            once = self._ledgers.once(query, entry.life, note.run, starts, ends)
            batch = Batch(number, note.generation, text, once)
            done.append(self._write_query(query, note, batch))
            entry = entry.wrote(query.name)
            self._keep(entry)
            reach("batch.written")
        return done

    def _write_query(self, query: Query, note: Note, batch: Batch) -> BatchDone:
        ranges = {source.name: note.range(source.name) for source in query.sources}
        done = range_writing.write(self._spark, self._plan, query, ranges, batch)
        return replace(done, batch=note.run, lag=0, positions=_merged(note.positions, query))

    # 5 to 7. Everything is written

    def _move(self, note: Note, stored: Positions, after: Positions) -> None:
        # Also when there was nothing to read: a first run at the end of a topic has to note it.
        if after != stored:
            self._store.write(after, note.text())  # 5
            reach("batch.stored")
        if self._entry is not None and not self._entry.closed:
            self._keep(self._entry.close())  # 6
            reach("batch.closed")
        for query in self._plan.queries:  # 7
            self._positions.moved(query.name, _merged(after, query))

    def _warn(self, text: str) -> None:
        self._tell(Warned(text))


class PolledRun:
    """A stream made of batches, for sources that Spark cannot follow.

    `stop` may be called from any thread or signal handler; the batch in hand is finished first.
    """

    def __init__(self, plan: Plan, batch: BatchRun, listener: Listener, once: bool = False) -> None:
        self._batch = batch
        self._name = plan.pipeline.name
        self._seconds = plan.poll_ms / 1000
        self._tell = listener
        self._once = once
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Blocks until it is stopped, has read all (`once`), or fails for good."""
        patience = Patience(self._tell, self._stop)
        progressed = False
        while not self._stop.is_set():
            patience.begin()
            began = time.monotonic()
            try:
                self._batch.run()
                progressed = True
            except Exception as error:
                failure = failures.translate(error, f"running {self._name}")
                if not patience.failed(failure, progressed):
                    return
                progressed = False
                continue
            if self._once:
                return
            self._stop.wait(max(self._seconds - (time.monotonic() - began), 0))
        self._tell(Stopping())


def _told(note: Note, step: Finish | Redo | Drop) -> str:
    """What is done about a run that was cut off, and what may be twice because of it."""
    cut_off = f"run {note.run} was cut off: {recovery.covered(note)}"
    match step:
        case Finish(_, ()):
            return f"{cut_off}; all of it was written, and its positions are stored now"
        case Finish(_, left):
            kept = ", ".join(f"`{name}`" for name in left)
            return f"{cut_off}; all of it was written, but {kept} was moved since and stays there"
        case Redo(queries):
            twice = recovery.doubtful(queries, again=True)
            result = f"these may get it twice: {', '.join(twice)}" if twice else "nothing is twice"
            return f"{cut_off}; it is done again, and {result}"
        case Drop(queries):
            twice = recovery.doubtful(queries, again=False)
            return (
                f"{cut_off}; the table of offsets was changed since, and counts: "
                f"parts of it may be in {', '.join(twice)} already"
            )


def _merged(positions: Positions, query: Query) -> Offsets:
    return {
        key: offset
        for source in query.sources
        for key, offset in positions.get(source.name, {}).items()
    }
