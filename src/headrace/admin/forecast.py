"""When retention will delete records that a reader has not read yet.

`time_left` is arithmetic on plain numbers. `forecasts` asks a cluster for those numbers, for the
positions of a pipeline or a group. Kafka deletes whole segments and looks only every few minutes,
so what is forecast is the earliest moment at which a record can go, never a later one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.admin import offsets as partition_offsets
from headrace.admin import quantities, sampling, topic_settings
from headrace.admin.client import Cluster
from headrace.admin.log_sizes import log_sizes
from headrace.admin.offsets import Offsets, TopicPartitionKey
from headrace.errors import HeadraceError

# A loss that is nearer than this is worth a sentence of its own.
SOON_SECONDS = 24 * 3600
# At how many moments between the oldest unread record and now a reader's progress is compared.
BACKLOG_POINTS = 4


@dataclass(frozen=True)
class Retention:
    """How long and how much a topic keeps of each partition; None is without limit."""

    seconds: float | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str | None]) -> Retention:
        """From a topic's settings; one that only compacts deletes nothing by age or size."""
        if "delete" not in (settings.get("cleanup.policy") or "delete"):
            return cls()
        limit_ms = int(settings.get("retention.ms") or -1)
        limit_bytes = int(settings.get("retention.bytes") or -1)
        return cls(
            None if limit_ms < 0 else limit_ms / 1000, None if limit_bytes < 0 else limit_bytes
        )

    @property
    def limited(self) -> bool:
        return self.seconds is not None or self.bytes is not None


@dataclass(frozen=True)
class Unread:
    """What waits in one partition, and how fast it changes.

    `age` is that of the next unread record in seconds, None where it is not known. `older` says how
    many unread records are older than some ages, as `(age, count)`. `bytes` is what the unread
    records take on disk, if known. `written` and `read` are records a second; a reader that stands
    still has 0.
    """

    lag: int
    age: float | None
    bytes: float | None = None
    older: Sequence[tuple[float, int]] = field(default=())
    written: float = 0.0
    read: float = 0.0


@dataclass(frozen=True)
class Loss:
    """`seconds` until unread records may go, 0 when it may be at any moment, and by which limit."""

    seconds: float
    setting: str


def time_left(retention: Retention, unread: Unread) -> Loss | None:
    """The earliest loss, or None when there is none to expect."""
    if unread.lag <= 0:
        return None
    found = []
    if retention.seconds is not None and unread.age is not None:
        found.append(("retention.ms", _by_age(retention.seconds, unread.age, unread)))
    if retention.bytes is not None and unread.bytes is not None:
        found.append(("retention.bytes", _by_size(retention.bytes, unread.bytes, unread)))
    losses = [Loss(max(at, 0.0), setting) for setting, at in found if at is not None]
    return min(losses, key=lambda loss: loss.seconds, default=None)


def _by_age(keep: float, age: float, unread: Unread) -> float | None:
    """When a record gets too old before the reader has come to it.

    All records that are older than some age now will be gone in `keep - age`; by then the reader
    must have passed them. Where it has not, that is when it loses some.
    """
    for each, count in sorted([(age, 1), *unread.older], reverse=True):
        left = keep - each
        if count and (left <= 0 or unread.read * left < count):
            return left
    # It keeps up with all that is there now. What comes later it may still fall behind of.
    behind = unread.written - unread.read
    if behind <= 0:
        return None
    return max(keep, (unread.written * keep - unread.lag) / behind)


def _by_size(keep: int, waiting: float, unread: Unread) -> float | None:
    """When so much has been written behind the next unread record that its segment may go."""
    room = keep - waiting
    if room <= 0:
        return 0.0
    growth = (unread.written - unread.read) * waiting / unread.lag
    return room / growth if growth > 0 else None


@dataclass(frozen=True)
class Forecast:
    """What one partition will lose; `lost` records are gone already, which a reset or a run tells.

    `seconds` is None where nothing further is to be expected.
    """

    topic: str
    partition: int
    lag: int
    lost: int
    seconds: float | None
    setting: str | None

    @property
    def soon(self) -> bool:
        return self.lost > 0 or (self.seconds is not None and self.seconds < SOON_SECONDS)

    def __str__(self) -> str:
        place = f"partition {self.partition} of {self.topic}"
        if self.lost:
            return f"{place} has lost {self.lost:,} unread records"
        if self.seconds is None:
            return f"{place} loses nothing"
        if self.seconds < 1:
            return f"{place} may lose unread data at any moment"
        return f"{place} loses unread data in {quantities.duration(self.seconds)}"


def forecasts(
    cluster: Cluster, positions: Mapping[TopicPartitionKey, int], read: float = 0.0
) -> list[Forecast]:
    """Of each partition that has lost or will lose unread records, the nearest loss first.

    `positions` are the next offsets to read; `read` is how many records a second the reader makes
    over all of them, 0 for one that does not run.
    """
    look = _Look(cluster, positions)
    lags = {key: look.ends[key] - at for key, at in look.starts.items()}
    waiting = sum(lags.values())
    found = []
    for key, lag in lags.items():
        # Spark gives each partition a share of a batch by how much waits there.
        share = read * lag / waiting if waiting else 0.0
        loss = time_left(look.retention(key[0]), look.unread(key, lag, share))
        lost = look.starts[key] - positions[key]
        if loss is not None or lost:
            at, setting = (round(loss.seconds, 1), loss.setting) if loss else (None, None)
            found.append(Forecast(*key, lag, lost, at, setting))
    return sorted(found, key=_urgency)


def _urgency(forecast: Forecast) -> tuple[bool, float, str, int]:
    later = float("inf") if forecast.seconds is None else forecast.seconds
    return (not forecast.lost, later, forecast.topic, forecast.partition)


class _Look:
    """What a cluster says about some positions, asked for as it is needed."""

    def __init__(self, cluster: Cluster, positions: Mapping[TopicPartitionKey, int]) -> None:
        self._cluster = cluster
        self._now_ms = int(time.time() * 1000)
        low = partition_offsets.earliest(cluster, positions)
        self.ends = partition_offsets.latest(cluster, low, stable=True)
        known = [key for key in positions if key in low and key in self.ends]
        # Where the reader would go on: not before the oldest record that is left.
        self.starts = {key: max(positions[key], low[key]) for key in known}
        self._low = low
        self._retention: dict[str, Retention] = {}
        limited = [
            key
            for key, at in self.starts.items()
            if at < self.ends[key] and self.retention(key[0]).limited
        ]
        next_unread = {key: self.starts[key] for key in limited}
        self._times = sampling.timestamps(cluster, next_unread)
        self._rates = sampling.write_rates(cluster, limited, self._now_ms)
        self._sizes = self._log_sizes(
            key for key in limited if self.retention(key[0]).bytes is not None
        )
        self._points: list[tuple[float, Offsets]] | None = None

    def retention(self, topic: str) -> Retention:
        if topic not in self._retention:
            settings = {each.name: each.value for each in topic_settings.read(self._cluster, topic)}
            self._retention[topic] = Retention.of(settings)
        return self._retention[topic]

    def unread(self, key: TopicPartitionKey, lag: int, read: float) -> Unread:
        age = self._age(key)
        older = self._older(key) if read > 0 else ()
        rate = self._rates.get(key, 0.0)
        return Unread(lag, age, self._bytes(key, lag), older, rate, read)

    def _age(self, key: TopicPartitionKey) -> float | None:
        at = self._times.get(key)
        return None if at is None else (self._now_ms - at) / 1000

    def _older(self, key: TopicPartitionKey) -> list[tuple[float, int]]:
        """How the unread records of a partition are spread over the time since the oldest of all.

        Asked only for a reader that runs: one that stands still loses its next record first.
        """
        if self._points is None:
            self._points = list(self._spread())
        start = self.starts[key]
        return [(age, max(at[key] - start, 0)) for age, at in self._points if key in at]

    def _spread(self) -> Iterator[tuple[float, Offsets]]:
        oldest = max((self._now_ms - at for at in self._times.values()), default=0)
        for number in range(BACKLOG_POINTS):
            age_ms = oldest * number // BACKLOG_POINTS
            moment = self._now_ms - age_ms
            yield age_ms / 1000, partition_offsets.at_time(self._cluster, self._times, moment)

    def _bytes(self, key: TopicPartitionKey, lag: int) -> float | None:
        """What the unread records take, as their share of the whole partition."""
        held = self.ends[key] - self._low[key]
        return self._sizes[key] * lag / held if key in self._sizes and held else None

    def _log_sizes(self, keys: Iterable[TopicPartitionKey]) -> dict[TopicPartitionKey, int]:
        try:
            return log_sizes(self._cluster, keys)
        except HeadraceError:
            # Not everybody may ask for them; the age of the records is forecast all the same.
            return {}
