"""Where the queries of a stream begin, decided before any of them is started.

1. look      where each query stands by its checkpoint, and what is in its topics
2. refuse    records that are gone, a topic that was made anew, a partition without a position
3. begin     a checkpoint anew where `offset` is to be followed, or where Spark would take another
             choice of topics for a loss
4. note      all of that in `resets.json` at once; from then on it holds, whenever a crash comes

A checkpoint that is begun anew is another folder and another generation: ids of batches count from
0 again, and a target that knows them from before must not take the new ones for old.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.admin.client import Clusters
from headrace.errors import DataLoss, DefinitionError
from headrace.model.offsets import Offsets
from headrace.model.pipeline import Mode
from headrace.plan.stages import Plan, Query
from headrace.runtime.checkpoints import Checkpoint, lowest
from headrace.runtime.failpoints import reach
from headrace.runtime.ledgers import Ledgers, Standing
from headrace.runtime.resets import Begun, Resets, due, wanted
from headrace.runtime.state import PipelineState
from headrace.sources.kafka import KafkaSource
from headrace.sources.kafka_offsets import Extent, place

Warn = Callable[[str], None]


@dataclass(frozen=True)
class _Look:
    """One source of one query: where it stands (nowhere yet, if empty), and what there is."""

    source: KafkaSource
    stands: Offsets
    extent: Extent


class Starts:
    """The beginnings of one run of a stream; `settle` comes before everything else."""

    def __init__(
        self, plan: Plan, state: PipelineState, clusters: Clusters, warn: Warn, again: bool = False
    ) -> None:
        self._plan = plan
        self._state = state
        self._clusters = clusters
        self._warn = warn
        self._again = again
        self._resets = Resets.read(state.resets)
        # The oldest record of a partition up to which a loss has been told.
        self._told: dict[tuple[str, str, int], int] = {}

    def settle(self, ledgers: Ledgers) -> None:
        """Decide for all queries. Called at every attempt; what has been followed is not again."""
        asked = wanted(self._plan.sources)
        now = due(asked, self._resets, self._again)
        begun = dict(self._resets.begun)
        for query in self._plan.queries:
            looks = list(self._looks(query))  # 1
            self._refuse(query, looks, now)  # 2
            anew = self._begin(query, looks, now, ledgers)  # 3
            if anew is not None:
                begun[query.name] = anew
        after = Resets(asked, begun)
        if after != self._resets:
            after.write(self._state.resets)  # 4
            reach("reset.noted")
        self._resets, self._again = after, False
        for query in self._plan.queries:
            self._clear(query)

    def checkpoint(self, query: Query) -> Path:
        begun = self._resets.begun.get(query.name)
        return self._state.checkpoint(f"{query.name}@{begun.id}" if begun else query.name)

    def generation(self, query: Query) -> str:
        begun = self._resets.begun.get(query.name)
        return begun.id if begun else self._state.generation

    def standing(self, query: Query) -> Standing:
        """What is known of the query's batches, to hold its ledgers against."""
        checkpoint, begun = Checkpoint(self.checkpoint(query)), self._resets.begun.get(query.name)
        life = self.generation(query)
        claimed = self._state.claims(query.name, life).done
        return Standing(
            life,
            life,
            self.stands(query),
            checkpoint.planned,
            checkpoint.begun,
            checkpoint.cut_off,
            keeps=begun is not None and begun.resumed,
            lives=frozenset({life}) if claimed else None,
        )

    def offsets(self, query: Query) -> Mapping[str, Offsets]:
        """For each source, where Spark is to begin; nothing where its checkpoint knows."""
        begun = self._resets.begun.get(query.name)
        if begun is None or Checkpoint(self.checkpoint(query)).begun:
            return {}
        return {
            look.source.name: look.source.known(look.stands, look.extent)
            for look in self._looks(query)
        }

    def stands(self, query: Query) -> Offsets:
        """How far the query has come with all of its sources."""
        return lowest(tuple(self._stands(query, source) for source in _kafka(query)))

    def lost(self) -> str | None:
        """Which records are gone that some query has not read, in words."""
        losses = (
            look.source.lost(look.stands, look.extent)
            for query in self._plan.queries
            for look in self._looks(query)
        )
        return ", ".join(dict.fromkeys(loss for loss in losses if loss)) or None

    def pass_by(self, query: Query, batch: int) -> None:
        """Tell what a batch that is written may not have found any more.

        Spark says nothing of it where it may go on, and may have had the records in memory.
        """
        for source in _kafka(query):
            if source.passes_losses:
                parts = Checkpoint(self.checkpoint(query)).before(batch)
                begins = self._of(source, parts, len(_kafka(query)) == 1)
                extent = source.extent(self._clusters)
                self._tell_loss(source, begins, extent, "maybe lost before they were read")

    def _looks(self, query: Query) -> Iterator[_Look]:
        for source in _kafka(query):
            yield _Look(source, self._stands(query, source), source.extent(self._clusters))

    def _stands(self, query: Query, source: KafkaSource) -> Offsets:
        checkpoint = Checkpoint(self.checkpoint(query))
        begun = self._resets.begun.get(query.name)
        if begun is not None and not checkpoint.begun:
            return begun.starts.get(source.name, {})
        return self._of(source, checkpoint.stands(), len(_kafka(query)) == 1)

    @staticmethod
    def _of(source: KafkaSource, parts: tuple[Offsets, ...], alone: bool) -> Offsets:
        """The lines of a checkpoint do not say whose they are, so their topics must."""
        if alone:
            return lowest(parts)
        return lowest(tuple(part for part in parts if any(source.reads(t) for t, _ in part)))

    def _refuse(self, query: Query, looks: list[_Look], now: set[str]) -> None:
        for look in looks:
            source, stands = look.source, self._kept(look, now)
            read = {key: at for key, at in stands.items() if source.reads(key[0])}
            source.refuse_beyond(read, look.extent)
            lost = source.lost(read, look.extent)
            if lost and not source.passes_losses:
                raise DataLoss(lost)
            if lost:
                self._tell_loss(source, read, look.extent, "lost before they were read")
            if source.name not in now:
                source.require_positions(look.stands, look.extent)
        if now.intersection(look.source.name for look in looks):
            self._refuse_others(query)

    @staticmethod
    def _kept(look: _Look, now: set[str]) -> Offsets:
        """The positions that count: those that `offset` moves do not."""
        if look.source.name not in now:
            return look.stands
        return {key: at for key, at in look.stands.items() if not look.source.moves(key)}

    def _refuse_others(self, query: Query) -> None:
        others = [s.name for s in query.sources if not isinstance(s, KafkaSource)]
        if others and Checkpoint(self.checkpoint(query)).begun:
            raise DefinitionError(
                f"`offset` cannot be followed in query {query.name}, whose checkpoint also holds "
                f"the position of `{others[0]}`",
                hint="give that source a pipeline of its own, or another name to this pipeline",
            )

    def _begin(
        self, query: Query, looks: list[_Look], now: set[str], ledgers: Ledgers
    ) -> Begun | None:
        """Where to begin anew, of every source of the query; None to go on."""
        if now.intersection(look.source.name for look in looks):
            return Begun({look.source.name: self._start(look, now) for look in looks})
        if query.name not in self._resets.begun and not Checkpoint(self.checkpoint(query)).begun:
            return self._resume(query, ledgers)
        checkpoint = Checkpoint(self.checkpoint(query))
        kafka_only = len(looks) == len(query.sources) == 1
        # A batch that was cut off must be finished under the id that it has.
        if not kafka_only or not checkpoint.begun or checkpoint.cut_off or checkpoint.stateful:
            return None
        (look,) = looks
        changed = list(_changed_topics(look))
        if not changed:
            return None
        self._warn(f"`{look.source.name}` reads other topics now: {', '.join(changed)}")
        return Begun({look.source.name: look.source.known(look.stands, look.extent)})

    def _resume(self, query: Query, ledgers: Ledgers) -> Begun | None:
        """With a state that is new, go on where its ledgers are; None if there are none."""
        done = ledgers.lost(query, self.generation(query))
        if done is None:
            return None
        self._warn(
            f"the state of this pipeline is new here; by its ledgers query {query.name} goes on at "
            + ", ".join(f"{topic}[{number}]@{at}" for (topic, number), at in sorted(done.items()))
        )
        return Begun({query.sources[0].name: done}, resumed=True)

    def _start(self, look: _Look, now: set[str]) -> Offsets:
        if look.source.name not in now:
            return look.source.known(look.stands, look.extent)
        return look.source.starts(self._clusters, Mode.STREAM, look.stands, look.extent, self._warn)

    def _tell_loss(self, source: KafkaSource, stands: Offsets, extent: Extent, how: str) -> None:
        news = {
            key: at
            for key, at in stands.items()
            if at < extent.begins.get(key, 0)
            and extent.begins[key] > self._told.get((source.name, *key), 0)
        }
        lost = source.lost(news, extent)
        if lost is None:
            return
        for key in news:
            self._told[(source.name, *key)] = extent.begins[key]
        self._warn(f"{how}, and passed over: {lost}")
        self._state.note_loss(source.name, lost)

    def _clear(self, query: Query) -> None:
        """Remove checkpoints that the query has left; nothing reads them any more."""
        kept = self.checkpoint(query)
        folder = self._state.checkpoint(query.name)
        for old in (folder, *folder.parent.glob(f"{query.name}@*")):
            if old != kept:
                shutil.rmtree(old, ignore_errors=True)


def _kafka(query: Query) -> list[KafkaSource]:
    return [source for source in query.sources if isinstance(source, KafkaSource)]


def _changed_topics(look: _Look) -> Iterator[str]:
    """Topics that Spark would miss, as the definition no longer has them, or would find incomplete.

    It takes a topic that is new to it and does not begin at offset 0 for one that has lost records.
    """
    for topic in sorted({topic for topic, _ in look.stands if not look.source.reads(topic)}):
        yield f"{topic} is left"
    new = sorted(key for key in look.extent.begins if key not in look.stands)
    for key in new:
        if look.extent.begins[key] > 0:
            yield f"{place(key)} joins at {look.extent.begins[key]}"
