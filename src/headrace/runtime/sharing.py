"""Run a stream that shares the partitions of its topics with the others of its consumer group.

1. follow  which partitions the group gives to this run, and where it stands in them
2. find    what is there to read in them, at most `batch_size` records
3. write   each query over exactly that range
4. commit  the new positions, as this member of the group

From 1 to 4 the partitions are held: the group gets them back after that, and not in between, so
that another run begins where this one has stopped. If the group does not wait, or this process dies
before 4, the next owner reads the range again. A position never says more than what is written:
nothing is lost, however the steps of two runs fall.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.admin.client import Clusters
from headrace.admin.membership import Held, Membership, strangers
from headrace.errors import HeadraceError, NewSchema, NoOffsetForPartition, PositionBeyondEnd
from headrace.model.offsets import Range, at_most
from headrace.plan.stages import Plan
from headrace.runtime import failures, range_writing
from headrace.runtime.binding import Binding
from headrace.runtime.failpoints import reach
from headrace.runtime.patience import Patience
from headrace.runtime.positions import GroupPositions
from headrace.runtime.progress import BatchDone, Listener, Shared, Stopping, Warned
from headrace.runtime.sharing_positions import Key, SharedPositions
from headrace.runtime.state import PipelineState
from headrace.sinks.writer import Batch
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_offsets import Extent, place
from headrace.sources.kafka_settings import DEFAULT_BATCH_SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often to look for records when there were none.
LOOK_SECONDS = 0.3
# How long a run that is to end by itself waits for a first partition.
ONCE_SECONDS = 20.0


class SharedRun:
    """One run. `stop` may be called from any thread or signal handler."""

    def __init__(
        self,
        source: KafkaSource,
        binding: Binding,
        spark: SparkSession,
        state: PipelineState,
        positions: GroupPositions,
        clusters: Clusters,
        listener: Listener,
        once: bool = False,
    ) -> None:
        self._binding = binding
        self._source = source
        self._spark = spark
        self._state = state
        self._shown = positions
        self._clusters = clusters
        self._tell = listener
        self._once = once
        self._positions = SharedPositions(source, self._look, self._warn)
        self._topics = _Topics(source, clusters)
        self._stop = threading.Event()
        self._number = 0
        self._unreported: list[BatchDone] = []
        self._told: Shared | None = None
        self._goals: dict[Key, int] = {}
        self._began = self._waiting_since = time.monotonic()

    @property
    def _plan(self) -> Plan:
        """Bound anew when messages have new schemas."""
        return self._binding.plan

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Blocks until it is stopped, has read all (`once`), or fails for good."""
        patience = Patience(self._tell, self._stop)
        self._began = time.monotonic()
        with ExitStack() as membership:
            member: Membership | None = None
            progressed = False
            while not self._stop.is_set():
                patience.begin()
                try:
                    if member is None or member.ended:
                        member = self._begin(membership)
                    if self._round(member):
                        return
                    progressed = True
                except Exception as error:
                    failure = self._failure(error)
                    if not patience.failed(failure, progressed):
                        break
                    progressed = False
            self._tell(Stopping())

    def _failure(self, error: Exception) -> HeadraceError:
        failure = failures.translate(error, f"running {self._plan.pipeline.name}")
        if isinstance(failure, PositionBeyondEnd | NoOffsetForPartition):
            move = f"headrace groups reset {self._source.group} --to-earliest --topic …"
            failure.hint = f"end the pipelines that share the group, and move it: `{move}`"
        return failure

    def _begin(self, stack: ExitStack) -> Membership:
        """Once a run, and again after a membership that has ended."""
        stack.close()
        member = stack.enter_context(self._member())
        self._positions.begin(member, self._source.partitions(self._clusters))
        for client in strangers(self._clusters.at(self._source.bootstrap), self._source.group):
            self._warn(
                f"group {self._source.group} has the member {client}, which is no pipeline: the "
                "records of its partitions do not come here"
            )
        return member

    def _look(self, keys: Iterable[Key]) -> Extent:
        return Extent.of(self._clusters.at(self._source.bootstrap), keys)

    def _member(self) -> Membership:
        settings = {setting.name: setting.value for setting in self._source.membership}
        cluster = self._clusters.at(self._source.bootstrap)
        return Membership(cluster, self._source.group, self._plan.pipeline.name, settings)

    def _round(self, member: Membership) -> bool:
        """All steps once; whether there is nothing left to do."""
        began = time.monotonic()
        member.subscribe(self._topics.now())
        with member.holding() as held:
            self._follow(member, held)  # 1
            self._store(member, held)
            found = self._find()  # 2
            part = at_most(found, self._most)
            full = part.records >= self._most or self._waited_enough(found)
            if part.records and full:
                self._read(member, held, part, found.records - part.records)  # 3, 4
        if self._once and self._finished():
            return True
        self._pause(began, more=full and found.records > part.records)
        return False

    # 1

    def _follow(self, member: Membership, held: Held) -> None:
        self._positions.follow(member, held)
        now = Shared(self._source.group, tuple(sorted(self._positions.stands)))
        if member.assigned and now != self._told:
            self._told = now
            self._shown.holds(self._positions.stands)
            self._tell(now)

    # 2

    @property
    def _most(self) -> int:
        return int(self._source.options["batch_size"] or DEFAULT_BATCH_SIZE)

    def _find(self) -> Range:
        if not self._positions.stands:
            return Range({}, {})
        extent = self._positions.extent()
        # A topic that is deleted goes with the next assignment; there is nothing to read in it.
        stands = {key: at for key, at in self._positions.stands.items() if key in extent.begins}
        found = self._source.between(stands, extent)
        if found.lost:
            self._warn(f"lost before they were read, and passed over: {found.lost}")
            self._state.note_loss(self._source.name, found.lost)
            self._positions.stands.update(found.start)
        return self._up_to_goals(found) if self._once else found

    def _up_to_goals(self, found: Range) -> Range:
        """What was there when the partition came; it must end however much is added meanwhile."""
        for key, at in found.end.items():
            self._goals.setdefault(key, at)
        ends = {
            key: max(min(at, self._goals[key]), found.start[key]) for key, at in found.end.items()
        }
        return replace(found, end=ends)

    def _waited_enough(self, found: Range) -> bool:
        """Whether a batch that is not full is read: with `timeout_ms`, after that time."""
        if not found.records:
            self._waiting_since = time.monotonic()
        wait = self._source.options["timeout_ms"] or 0
        return self._once or time.monotonic() - self._waiting_since >= wait / 1000

    # 3 and 4

    def _read(self, member: Membership, held: Held, part: Range, left: int) -> None:
        self._binding.refresh()  # after the range is found, and before anything of it is written
        batch = Batch(None, self._state.generation)
        try:
            done = [
                range_writing.write(
                    self._spark, self._plan, query, {self._source.name: part}, batch
                )
                for query in self._plan.queries
            ]
        except NewSchema as new:
            if not self._binding.renew(new):
                raise
            return  # the next round reads it again, with what is known now
        self._number += 1
        self._waiting_since = time.monotonic()
        self._unreported += [replace(each, batch=self._number, lag=left) for each in done]
        # From here on the run stands there: if it cannot be committed now, it is before the next.
        self._positions.move(part.end)
        self._store(member, held)
        reach("share.committed")

    def _store(self, member: Membership, held: Held) -> None:
        lost = self._positions.store(member, held)
        if lost:
            named = ", ".join(place(key) for key in sorted(lost))
            self._warn(
                f"group {self._source.group} has taken back {named} before a batch was committed; "
                "who has them now writes its records again"
            )
        self._shown.holds(self._positions.stands)
        while self._unreported:
            self._tell(self._unreported.pop(0))

    # Between the rounds

    def _finished(self) -> bool:
        """With `once`: whether all is read that was there."""
        stands = self._positions.stands
        if not stands:
            return time.monotonic() - self._began > ONCE_SECONDS and self._nothing_came()
        return all(at >= self._goals.get(key, at) for key, at in stands.items())

    def _nothing_came(self) -> bool:
        self._warn(f"group {self._source.group} has given no partition to this run")
        return True

    def _pause(self, began: float, more: bool) -> None:
        """Until the next round is due: by `trigger`, or at once where more is waiting."""
        trigger: int | None = self._plan.pipeline.options["trigger"]
        if trigger is not None:
            self._stop.wait(max(trigger / 1000 - (time.monotonic() - began), 0))
        elif not more:
            self._stop.wait(LOOK_SECONDS)

    def _warn(self, text: str) -> None:
        self._tell(Warned(text))


class _Topics:
    """The topics of a source that there are, looked for again from time to time."""

    def __init__(self, source: KafkaSource, clusters: Clusters) -> None:
        self._source = source
        self._clusters = clusters
        settings = {setting.name: setting.value for setting in source.membership}
        self._seconds = int(settings["topic.metadata.refresh.interval.ms"]) / 1000
        self._known: tuple[str, ...] = ()
        self._looked_at: float | None = None

    def now(self) -> tuple[str, ...]:
        """Raises when a topic that the source names is gone."""
        if self._looked_at is None or time.monotonic() - self._looked_at > self._seconds:
            found = self._source.partitions(self._clusters)
            self._known = tuple(sorted({topic for topic, _ in found}))
            self._looked_at = time.monotonic()
        return self._known
