"""What a run tells while it runs. Values only: the command line and notebooks decide how to show
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.model.offsets import Offsets


@dataclass(frozen=True)
class Started:
    """The queries run, or a batch run has found where to begin."""

    pipeline: str
    seconds: float


@dataclass(frozen=True)
class BatchDone:
    """A batch is written and its position stored.

    `records` came in, `written` rows went out (of one table, to however many sinks), `bad` records
    were set aside, `late` rows came after the watermark; what is missing was filtered out, or is
    remembered. `lag` is what waits in the topics. Where several queries read one source, its
    records count in the first of them only.
    """

    query: str
    batch: int
    records: int
    written: int
    bad: int
    seconds: float
    lag: int | None
    positions: Offsets = field(default_factory=dict)
    late: int = 0


@dataclass(frozen=True)
class Shared:
    """The partitions that the group has given to this run now; others have the rest."""

    group: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Waiting:
    """What waits in the topics between two batches, from whoever looks there meanwhile."""

    lag: int


@dataclass(frozen=True)
class Retrying:
    """A failure that may pass; the run goes on from its checkpoint after a pause."""

    reason: str
    attempt: int
    pause: float


@dataclass(frozen=True)
class SchemaChanged:
    """Messages of a source have a newer schema, and the pipeline has taken it up.

    `changes` are lines, as `model.evolution` makes them.
    """

    source: str
    schema: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Stopping:
    """Asked to end; the batch in hand is finished first."""


@dataclass(frozen=True)
class Warned:
    text: str


@dataclass(frozen=True)
class Summary:
    """A run that has ended in order."""

    pipeline: str
    batches: int
    records: int
    written: int
    bad: int
    seconds: float
    late: int = 0


Event = (
    Started | BatchDone | Shared | Waiting | Retrying | SchemaChanged | Stopping | Warned | Summary
)
Listener = Callable[[Event], None]
