"""Where pipelines stand, shown to Kafka's tools as group offsets.

A group is only ever written, never read back: the checkpoint of a stream and the table of a batch
are the truth, and somebody who resets the group must not move a pipeline by accident. The positions
of pipelines that share a group are the exception, so nobody else writes over them here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.admin import groups
from headrace.admin.client import Clusters
from headrace.admin.group_positions import GroupWriter
from headrace.errors import HeadraceError
from headrace.model.offsets import Offsets
from headrace.plan.stages import Plan
from headrace.sources.reader import SourceReader

# How long a batch waits for its position to be shown, and the end of a run for the last one.
SHOW_SECONDS = 1.0
LAST_SECONDS = 10.0
RETRY_SECONDS = 1.0


class _Publisher:
    """Writes the newest position of one source to its group, in a thread of its own.

    Brokers that do not answer must not hold up the run, so positions that were overtaken while one
    was on its way are never sent.
    """

    def __init__(
        self, clusters: Clusters, bootstrap: str, group: str, warn: Callable[[str], None]
    ) -> None:
        self._clusters = clusters
        self._bootstrap = bootstrap
        self._group = group
        self._warn = warn
        self._changed = threading.Condition()
        self._wanted: Offsets = {}
        self._written: Offsets = {}
        self._closed = False
        self._trouble = self._asked = False
        self._thread = threading.Thread(target=self._work, name="headrace-positions", daemon=True)
        self._thread.start()

    def publish(self, positions: Offsets) -> None:
        with self._changed:
            self._wanted = dict(positions)
            self._changed.notify_all()
            self._changed.wait_for(self._settled, 0 if self._trouble else SHOW_SECONDS)

    def close(self) -> None:
        with self._changed:
            self._changed.wait_for(self._settled, LAST_SECONDS)
            self._closed = True
            self._changed.notify_all()
        self._thread.join(1)

    def _settled(self) -> bool:
        return self._closed or self._written == self._wanted

    def _work(self) -> None:
        writer: GroupWriter | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or not self._settled())
                if self._closed:
                    break
                wanted = self._wanted
            try:
                writer = writer or self._writer()
                sharer = None if self._asked else writer.sharer(wanted)
                self._asked = True
                if sharer is not None:
                    self._yield_to(sharer)
                    break
                writer.write(wanted)
                self._note(wanted)
            except HeadraceError as error:
                self._complain(error)
        if writer is not None:
            writer.close()

    def _yield_to(self, sharer: str) -> None:
        """The group belongs to pipelines whose position it is."""
        self._warn(
            f"the position is not shown in group {self._group}, which is that of pipelines that "
            f"share partitions, as {sharer}; give this one another `consumer_group`"
        )
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _writer(self) -> GroupWriter:
        return GroupWriter(self._clusters.at(self._bootstrap), self._group)

    def _note(self, written: Offsets) -> None:
        with self._changed:
            self._written, self._trouble = written, False
            self._changed.notify_all()

    def _complain(self, error: HeadraceError) -> None:
        if not self._trouble:
            self._warn(f"the position is not shown in group {self._group} now: {error}")
        self._trouble = True
        time.sleep(RETRY_SECONDS)


class GroupPositions:
    """Shows how far a run has come. Never stops it: a group that cannot be written is a warning."""

    def __init__(self, plan: Plan, clusters: Clusters, warn: Callable[[str], None]) -> None:
        self._sources = plan.sources
        self._queries = {
            source.name: [
                query.name
                for query in plan.queries
                if source.name in {reader.name for reader in query.sources}
            ]
            for source in plan.sources
        }
        self._clusters = clusters
        self._warn = warn
        self._by_query: dict[str, dict[tuple[str, int], int]] = {}
        self._publishers = {
            source.name: _Publisher(clusters, source.bootstrap, source.group, warn)
            for source in plan.sources
            # Where partitions are shared, the group is the position, and not shown but kept.
            if source.bootstrap is not None and source.group is not None and plan.shared is None
        }

    def close(self) -> None:
        """The end of a run: the last position is waited for, for a while."""
        for publisher in self._publishers.values():
            publisher.close()

    def moved(self, query: str, positions: Offsets) -> None:
        """A query has finished a batch that ends at `positions`."""
        self._by_query.setdefault(query, {}).update(positions)
        for source in self._sources:
            stands = self.of(source)
            if stands and source.name in self._publishers:
                self._publishers[source.name].publish(stands)

    def holds(self, positions: Offsets) -> None:
        """Where a run stands that shares partitions, which may be others than a moment ago."""
        for readers in self._queries.values():
            self._by_query.update((query, dict(positions)) for query in readers)

    def resume(self, query: str, positions: Offsets, start: str) -> None:
        """A query begins at `positions`: show them, in case a crash came before that.

        Without any it has never run here, and begins at `start`.
        """
        if positions:
            self.moved(query, positions)
            return
        for source in self._sources:
            if query in self._queries[source.name][:1]:
                self._warn_of_other_life(source, start)

    def _warn_of_other_life(self, source: SourceReader, start: str) -> None:
        if source.bootstrap is None or source.group is None:
            return
        try:
            known = groups.committed(self._clusters.at(source.bootstrap), source.group)
        except HeadraceError:
            return
        if any(source.reads(topic) for topic, _ in known):
            self._warn(
                f"group {source.group} has a position, but this folder has none for the pipeline: "
                f"`{source.name}` begins at {start}"
            )

    def of(self, source: SourceReader) -> Offsets:
        """A source's position: where the slowest of the queries that read it stands."""
        readers = self._queries[source.name]
        known = [self._by_query[name] for name in readers if name in self._by_query]
        if len(known) < len(readers):
            return {}
        keys = {key for each in known for key in each if source.reads(key[0])}
        return {key: min(each[key] for each in known if key in each) for key in keys}
