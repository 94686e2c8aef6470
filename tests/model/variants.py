"""The protocol with one step changed. Those in `WRONG` break a promise; those in `RIGHT` do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tests.model.actors import Way
from tests.model.invariants import Harm
from tests.model.kafka import Entry, Fenced, Kafka, Producer, Row, WithoutEpochsForOffsets
from tests.model.rules import (
    Call,
    Displaced,
    LedgerGone,
    OtherState,
    Rules,
    Start,
    Steps,
    TimedOut,
    UnknownOutcome,
    Work,
)
from tests.model.world import Setting


class LedgerBeforeInit(Rules):
    def begin(self, work: Work) -> Steps:
        entry = yield from self.read(work)
        producer = yield from self.init(work)
        return producer, entry


class UnstableReads(Rules):
    stable = False


class IdBySparkTask(Rules):
    """Each attempt has a number of its own in Spark."""

    def transactional_id(self, work: Work) -> str:
        return f"sink{work.sink}.task{work.task}"


class LedgerByBatchId(Rules):
    """By lineage, but an entry says up to which batch all is done."""

    def position(self, work: Work, entry: Entry | None) -> int:
        as_batch = replace(work, start=work.batch)
        return work.end if super().position(as_batch, entry) > work.batch else work.start

    def transact(self, producer: Producer, work: Work, position: int, _until: int) -> Steps:
        yield from self.produce(producer, work, position, work.end)
        yield from self.move(producer, work, work.batch + 1)
        yield from self.commit(producer)


class RetryAfterFenced(Rules):
    """A new epoch for the same rows, without a look at what has happened meanwhile."""

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        while True:
            try:
                yield from super().transact(producer, work, position, until)
            except Fenced:
                producer = yield from self.init(work)
            else:
                return


class UnknownOutcomeIsDone(Rules):
    def write(self, work: Work) -> Steps:
        producer, entry = yield from self.begin(work)
        position = self.position(work, entry)
        try:
            if position < work.end:
                yield from self.transact(producer, work, position, work.end)
        except UnknownOutcome:
            return
        except Fenced:
            yield from self.fenced(work)


class UnknownOutcomeIsRepeated(Rules):
    """The same rows again under a new epoch, as if nothing had been committed."""

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        while True:
            try:
                yield from super().transact(producer, work, position, until)
            except UnknownOutcome:
                producer = yield from self.init(work)
            else:
                return


class TwoTransactions(Rules):
    """The output in one, the ledger in the next."""

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        if any(position <= row.at < until for row in work.rows):
            yield from self.produce(producer, work, position, until)
            yield from self.commit(producer)
        yield from self.move(producer, work, until)
        yield from self.commit(producer)


class LedgerOutsideTransaction(Rules):
    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        if any(position <= row.at < until for row in work.rows):
            yield from self.produce(producer, work, position, until)
            yield from self.commit(producer)
        entry = work.entry(until)
        put = partial(self.kafka.commit_offset, work.group, work.key, entry)
        yield Call(f"write {work.group}.{work.key}", put)


class ClaimOutsideTransaction(Rules):
    """Read and written back without fencing whoever is at work."""

    def claim(self, work: Work, start: Start) -> Steps:
        while True:
            try:
                term = work.term or (yield from self.new_term())
                found = yield from self.read(work)
                offset, era = self.claimed(work, found, start)
                mine = Entry(offset, work.life, work.owner, self.term(work, found, term), era)
                put = partial(self.kafka.commit_offset, work.group, work.key, mine)
                yield Call(f"write {work.group}.{work.key}", put)
            except TimedOut:
                continue
            return mine


class ClaimKeepsOffset(Rules):
    """Whatever the life, the offset is written back as it was found."""

    def claimed(self, work: Work, found: Entry | None, start: Start) -> tuple[int, int]:
        offset, era = super().claimed(work, found, start)
        return (offset if found is None else found.offset), era


class ClaimTakesStart(Rules):
    """Whatever the life, the entry is set to where the state stands."""

    def claimed(self, work: Work, found: Entry | None, start: Start) -> tuple[int, int]:
        _, era = super().claimed(work, found, start)
        return start.stands, era


class OldStateCounts(Rules):
    """A state that comes back after another has gone on sets the ledger to where it stands."""

    def claimed(self, work: Work, found: Entry | None, start: Start) -> tuple[int, int]:
        try:
            return super().claimed(work, found, start)
        except OtherState:
            assert found is not None
            return start.stands, found.era


class OtherLifeSkipsNothing(Rules):
    """A task that finds an entry of another life takes it for one that says nothing."""

    def position(self, work: Work, entry: Entry | None) -> int:
        if entry is None:
            raise LedgerGone
        if entry.owner != work.owner:
            raise Displaced(entry.owner)
        return max(entry.offset, work.start) if entry.life == work.life else work.start


class LedgerGoesBack(Rules):
    """The end of the range is written even where the entry is beyond it."""

    def write(self, work: Work) -> Steps:
        producer, entry = yield from self.begin(work)
        position = self.position(work, entry)
        try:
            yield from self.transact(producer, work, position, work.end)
        except UnknownOutcome:
            yield from super().write(work)
        except Fenced:
            yield from self.fenced(work)


class OwnerNotChecked(Rules):
    checks_owner = False


class ClaimsWithoutTerms(Rules):
    """Whoever claims an entry last has it."""

    def term(self, _work: Work, _found: Entry | None, term: int) -> int:
        return term


class ClaimsAreNotNoted(Rules):
    """Beside a batch that was cut off, an entry that is missing is always taken for a loss."""

    def expects_entry(self, cut_off: bool, noted: bool) -> bool:
        del noted
        return cut_off


class KnownBatchIsNotRun(Rules):
    runs_known_batches = False


class CutInsideRecord(Rules):
    """A piece ends after the first row of the record at its end."""

    def produce(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        def is_in(row: Row) -> bool:
            return position <= row.at < until or (row.at == until < work.end and row.part == 0)

        rows: Sequence[Row] = [row for row in work.rows if is_in(row)]
        yield from self.send(producer, rows)


class PieceMovesToEnd(Rules):
    """A piece of a range writes the end of the range into the ledger."""

    def move(self, producer: Producer, work: Work, offset: int) -> Steps:
        del offset
        yield from super().move(producer, work, work.end)


class OneProducer(Rules):
    """All pieces of a range by one producer: 1 and 2 are done once."""

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        yield from super().transact(producer, work, position, until)
        while until < work.end:
            position, until = until, work.until(until)
            yield from super().transact(producer, work, position, until)


class WarmProducers(Rules):
    """A producer whose commit was answered is kept, with the entry, for the next range."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__(kafka)
        self.kept: dict[str, tuple[Producer, Entry]] = {}

    def begin(self, work: Work) -> Steps:
        kept = self.kept.pop(self.transactional_id(work), None)
        return kept or (yield from super().begin(work))

    def transact(self, producer: Producer, work: Work, position: int, until: int) -> Steps:
        yield from super().transact(producer, work, position, until)
        self.kept[self.transactional_id(work)] = producer, work.entry(until)


class TailsStay(Rules):
    """A partition of a batch without output keeps its entry."""

    moves_tails = False


@dataclass(frozen=True)
class Variant:
    """Rules, what they do to the promise, and the world that shows it."""

    rules: type[Rules]
    harm: Harm | None
    way: Way = Way.LINEAGE
    kafka: type[Kafka] = Kafka
    epoch_per_transaction: bool = False
    seed: int = 0  # from which a search finds the harm soon

    def setting(self, seed: int) -> Setting:
        """The world for a seed, which also says whether there are one or two sinks."""
        return Setting(
            self.way, self.rules, self.kafka, self.epoch_per_transaction, 1 + seed % 2, seed
        )

    @property
    def name(self) -> str:
        rules = self.rules.__name__ if self.rules is not Rules else self.kafka.__name__
        harm = self.harm.name.lower() if self.harm is not None else "harmless"
        return f"{rules}-{self.way.name.lower()}-{harm}"


WRONG = [
    Variant(LedgerBeforeInit, Harm.TWICE),
    Variant(LedgerBeforeInit, Harm.TWICE, Way.BATCH, seed=76),
    Variant(UnstableReads, Harm.TWICE),
    Variant(UnstableReads, Harm.TWICE, Way.BATCH),
    Variant(IdBySparkTask, Harm.TWICE),
    Variant(LedgerByBatchId, Harm.LOST),
    Variant(LedgerByBatchId, Harm.TWICE, seed=98),
    Variant(RetryAfterFenced, Harm.TWICE),
    Variant(RetryAfterFenced, Harm.TWICE, Way.BATCH, seed=463),
    Variant(UnknownOutcomeIsDone, Harm.LOST, seed=38),
    Variant(UnknownOutcomeIsRepeated, Harm.TWICE, seed=98),
    Variant(TwoTransactions, Harm.TWICE),
    Variant(TwoTransactions, Harm.TWICE, Way.BATCH),
    Variant(LedgerOutsideTransaction, Harm.TWICE),
    Variant(ClaimOutsideTransaction, Harm.TWICE),
    Variant(ClaimKeepsOffset, Harm.LOST),
    Variant(ClaimKeepsOffset, Harm.LOST, Way.BATCH),
    Variant(ClaimTakesStart, Harm.TWICE),
    Variant(OldStateCounts, Harm.TWICE, seed=60),
    Variant(OtherLifeSkipsNothing, Harm.TWICE, Way.RUNS, seed=326),
    Variant(LedgerGoesBack, Harm.TWICE, seed=82),
    Variant(OwnerNotChecked, Harm.DISPLACED),
    Variant(ClaimsWithoutTerms, Harm.BOTH_STOPPED, seed=46),
    Variant(ClaimsAreNotNoted, Harm.REFUSED),
    Variant(KnownBatchIsNotRun, Harm.COUNT, Way.BATCH),
    Variant(CutInsideRecord, Harm.TWICE),
    Variant(PieceMovesToEnd, Harm.LOST),
    Variant(OneProducer, Harm.TWICE, seed=232),
    Variant(WarmProducers, Harm.TWICE, seed=232),
    Variant(Rules, Harm.TWICE, kafka=WithoutEpochsForOffsets, seed=22),
]

RIGHT = [
    Variant(OneProducer, None, epoch_per_transaction=True),
    Variant(WarmProducers, None, epoch_per_transaction=True),
    Variant(WarmProducers, None, Way.BATCH, epoch_per_transaction=True),
    Variant(TailsStay, None),
    Variant(OtherLifeSkipsNothing, None),
]
