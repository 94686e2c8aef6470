"""What is worth changing about a pipeline, given what its topics and brokers really are.

`Facts` are plain numbers, gathered by `runtime.measuring`; `findings` judges them and needs nothing
else. Each finding gives its reason in numbers and, where a line of the definition mends it, that
line. `headrace tune` prints facts and findings, `headrace check --online` the findings.

Two things are not as with other consumers. A fetch does not bound a batch: Spark fetches until the
batch is full, so a small fetch costs time and no records. And records larger than a fetch are still
read, one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from headrace.admin import quantities
from headrace.admin.forecast import Forecast
from headrace.admin.limits import BrokerLimits
from headrace.admin.sampling import Sizes
from headrace.model.pipeline import Mode
from headrace.sources.kafka_settings import DEFAULT_BATCH_SIZE
from headrace.spans import Diagnostic, Severity, Span

KIB, MIB = 1024, 1024 * 1024
# Kafka's own defaults of its clients.
DEFAULT_FETCH_BYTES = MIB
DEFAULT_FETCH_MAX_BYTES = 50 * MIB
DEFAULT_REQUEST_BYTES = MIB
# A limit on messages counts the frame around them, of which a limit on fetches knows nothing.
FRAME_BYTES = 12

# What fetched records take beside their own bytes, and how much of a heap they may take.
OVERHEAD = 1.5
HEAP_SHARE = 0.5
# About how long the shortest batches of a stream take, and how large a batch should be.
BATCH_SECONDS = 0.5
TARGET_BATCH_BYTES = 256 * MIB
LARGE_BATCH_BYTES = 1024 * MIB
# More records than this in a fetch make it no faster.
FETCH_RECORDS = 1000


@dataclass(frozen=True)
class Class:
    """What suits records up to some size: the least in a batch, and the range of a fetch."""

    below: float
    batch: int
    fetch_least: int
    fetch_most: int


CLASSES = (
    Class(KIB, 500, MIB, 5 * MIB),
    Class(10 * KIB, 200, 5 * MIB, 10 * MIB),
    Class(100 * KIB, 50, 10 * MIB, 50 * MIB),
    Class(math.inf, 10, 50 * MIB, 100 * MIB),
)


@dataclass(frozen=True)
class Chosen:
    """A value in force: why it is what it is, and where it is, or could be, set."""

    value: int
    origin: str
    span: Span


@dataclass(frozen=True)
class TopicFacts:
    """`rate` is what is written, in records a second; `limit` its `max.message.bytes`."""

    topic: str
    partitions: int
    replication: int
    records: int
    rate: float
    sizes: Sizes
    limit: int


@dataclass(frozen=True)
class SourceFacts:
    """A Kafka source with its topics.

    `waiting` records are read next: behind the position or, where there is none yet (`started` is
    False), what a first run begins with. `read` is how many a second it reads now, 0 if it does not
    run. `members` have joined its group, which a pipeline never does.
    """

    name: str
    span: Span
    topics: tuple[TopicFacts, ...]
    batch_size: Chosen
    fetch: Chosen
    fetch_max: int
    limits: BrokerLimits
    started: bool
    begins_at: str
    waiting: int
    read: float
    group: str
    members: int
    forecast: tuple[Forecast, ...]

    @property
    def partitions(self) -> int:
        return sum(topic.partitions for topic in self.topics)

    @property
    def rate(self) -> float:
        return sum(topic.rate for topic in self.topics)

    @property
    def average(self) -> float:
        """Bytes of a record, over all topics by how many were looked at."""
        count = sum(topic.sizes.count for topic in self.topics)
        total = sum(topic.sizes.average * topic.sizes.count for topic in self.topics)
        return total / count if count else 0.0

    @property
    def largest(self) -> int:
        return max((topic.sizes.largest for topic in self.topics), default=0)


@dataclass(frozen=True)
class TargetFacts:
    """A topic that is written: by a sink, or with the dead letters of a source.

    `request` is the most that the producer sends at once, `limit` what the topic takes, or will
    take when it is made.
    """

    topic: str
    purpose: str
    span: Span
    request: int
    limit: int
    exists: bool = True
    dead_letters_of: str | None = None


@dataclass(frozen=True)
class Memory:
    """Of one process that runs tasks; there are `processes` of them. `setting` is Spark's name.

    `machine` is None where the processes run elsewhere.
    """

    heap: int
    setting: str
    origin: str
    processes: int
    machine: int | None
    span: Span


@dataclass(frozen=True)
class Missing:
    """A topic that a run would not find and not make; `hint` names near ones."""

    topic: str
    bootstrap: str
    purpose: str
    span: Span
    hint: str | None


@dataclass(frozen=True)
class Facts:
    """`changed` says when a run was started that has not seen the file as it is now."""

    pipeline: str
    mode: Mode
    sources: tuple[SourceFacts, ...]
    targets: tuple[TargetFacts, ...]
    missing: tuple[Missing, ...]
    memory: Memory
    tasks: int | None
    executor_count: Chosen | None
    span: Span
    trigger_seconds: float = 0.0
    changed: str | None = None


@dataclass(frozen=True)
class Tuning:
    """Facts with what was found about them."""

    facts: Facts

    @property
    def findings(self) -> list[Finding]:
        return findings(self.facts)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return [finding.diagnostic for finding in self.findings]


@dataclass(frozen=True)
class Finding:
    """`line` is what to write in the definition; where nothing there mends it, `hint` says what."""

    code: str
    message: str
    span: Span
    line: str | None = None
    hint: str | None = None
    severity: Severity = field(default=Severity.WARNING)

    @property
    def diagnostic(self) -> Diagnostic:
        advice = f"write `{self.line}`" if self.line else self.hint
        return Diagnostic(self.code, self.message, self.span, advice, self.severity)


def findings(facts: Facts) -> list[Finding]:
    """All of them, in order of place."""
    found = [*_of_pipeline(facts)]
    for source in facts.sources:
        found += _of_source(source, facts)
    return sorted(found, key=lambda finding: (finding.span, finding.code))


def _of_pipeline(facts: Facts) -> Iterator[Finding]:
    for topic in facts.missing:
        yield Finding(
            "UNKNOWN_TOPIC",
            f"topic {topic.topic} does not exist at {topic.bootstrap} ({topic.purpose})",
            topic.span,
            hint=topic.hint,
            severity=Severity.ERROR,
        )
    yield from _changed(facts)
    yield from _idle_tasks(facts)
    yield from _memory(facts)
    for target in facts.targets:
        yield from _target(target, facts)


def _of_source(source: SourceFacts, facts: Facts) -> Iterator[Finding]:
    yield from _losses(source)
    yield from _group(source)
    yield from _lag(source, facts)
    if facts.mode is Mode.STREAM:
        yield from _batches(source, facts)
    yield from _fetches(source, facts)
    yield from _fetch_limits(source, facts)
    yield from _replication(source)


def _changed(facts: Facts) -> Iterator[Finding]:
    if facts.changed is not None:
        message = f"the file was changed after its run began ({facts.changed})"
        hint = "stop it and run it again: a run reads its definition once, at its start"
        yield Finding("CHANGED_SINCE_START", message, facts.span, hint=hint)


# Tasks and memory


def _idle_tasks(facts: Facts) -> Iterator[Finding]:
    partitions = sum(source.partitions for source in facts.sources)
    chosen = facts.executor_count
    if chosen is None or not partitions or chosen.value <= partitions:
        return
    message = (
        f"executor_count is {chosen.value}, and there are {partitions} partitions to read, each by "
        f"one task at a time: {chosen.value - partitions} find nothing to do"
    )
    yield Finding(
        "MORE_TASKS_THAN_PARTITIONS", message, chosen.span, f"executor_count: {partitions}"
    )


def fetched_bytes(facts: Facts) -> int:
    """The most that fetched records take in one process, as if all its partitions came at once."""
    return math.ceil(
        sum(
            source.fetch.value * math.ceil(source.partitions / facts.memory.processes) * OVERHEAD
            for source in facts.sources
        )
    )


def _memory(facts: Facts) -> Iterator[Finding]:
    memory, needed = facts.memory, fetched_bytes(facts)
    if memory.machine is not None and memory.heap > memory.machine:
        message = (
            f"{memory.setting} is {quantities.size(memory.heap)} ({memory.origin}), and this "
            f"machine has {quantities.size(memory.machine)}"
        )
        half = max(memory.machine // 2 // MIB, 1)
        yield Finding("MEMORY_SHORT", message, memory.span, _heap_line(memory, half * MIB))
    elif needed > memory.heap * HEAP_SHARE:
        each = ", ".join(
            f"{quantities.size(source.fetch.value)} × {source.partitions} partitions"
            for source in facts.sources
        )
        shared = f" ÷ {memory.processes} executors" if memory.processes > 1 else ""
        message = (
            f"fetched records may take {quantities.size(needed)} ({each}{shared} × {OVERHEAD}), "
            f"and half of {memory.setting} ({memory.origin}) is "
            f"{quantities.size(memory.heap * HEAP_SHARE)}"
        )
        greedy = max(facts.sources, key=lambda each: each.fetch.value * each.partitions)
        wanted = _wanted_fetch(greedy)
        if wanted <= min(_fetch_room(greedy, facts), greedy.fetch.value):
            span, line = greedy.fetch.span, f"max_partition_fetch_bytes: {wanted}"
        else:
            span, line = memory.span, _heap_line(memory, math.ceil(needed / HEAP_SHARE))
        yield Finding("MEMORY_SHORT", message, span, line)


def _heap_line(memory: Memory, enough: int) -> str:
    whole = enough / (1024 * MIB)
    text = f"{math.ceil(whole)}g" if whole >= 1 else f"{enough // MIB}m"
    return f"spark: {{{memory.setting}: {text}}}"


def _fetch_room(source: SourceFacts, facts: Facts) -> int:
    """The largest fetch, in whole MiB, for which the memory is enough; one MiB at the least."""
    others = fetched_bytes(facts) - fetched_bytes(_only(facts, source))
    left = facts.memory.heap * HEAP_SHARE - others
    each = math.ceil(source.partitions / facts.memory.processes) * OVERHEAD
    return max(math.floor(left / each / MIB), 1) * MIB if each else DEFAULT_FETCH_BYTES


def _only(facts: Facts, source: SourceFacts) -> Facts:
    return replace(facts, sources=(source,))


# Batches


def _batches(source: SourceFacts, facts: Facts) -> Iterator[Finding]:
    size, average = source.batch_size.value, source.average
    seconds = max(BATCH_SECONDS, facts.trigger_seconds)
    wanted = wanted_batch(average, source.rate * seconds)
    if size < source.rate * seconds and size < wanted:
        message = (
            f"a batch of {size:,} records every {seconds:g} s is {quantities.rate(size / seconds)},"
            f" and {quantities.rate(source.rate)} are written: the lag grows"
        )
        line = f"batch_size: {wanted}"
        yield Finding("BATCH_TOO_SMALL", message, source.batch_size.span, line)
    coming = min(size, source.waiting) * average
    if coming > LARGE_BATCH_BYTES and size > wanted:
        message = (
            f"the next batch may be {min(size, source.waiting):,} records of "
            f"{quantities.size(average)}, {quantities.size(coming)} in all: nothing of it counts "
            "before all is written, and a crash writes it again"
        )
        line = f"batch_size: {wanted}"
        yield Finding("BATCH_TOO_LARGE", message, source.batch_size.span, line)


def wanted_batch(average: float, least: float) -> int:
    """Records that come to the target size; twice what is written meanwhile, so that it catches up.

    As a round number, and never more than a batch has by default.
    """
    if not average:
        return DEFAULT_BATCH_SIZE
    size = max(TARGET_BATCH_BYTES / average, class_of(average).batch)
    return min(_rounded(max(size, 2 * least)), DEFAULT_BATCH_SIZE)


def class_of(average: float) -> Class:
    return next(each for each in CLASSES if average < each.below)


def _rounded(number: float) -> int:
    """Up to the next of 1, 2, 5, 10, 20, 50 and so on."""
    power = int(10 ** math.floor(math.log10(max(number, 1))))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= number)


# Fetches and limits


def _fetches(source: SourceFacts, facts: Facts) -> Iterator[Finding]:
    fetch, average = source.fetch.value, source.average
    if not average:
        return
    share = _share(source)
    wanted = min(_wanted_fetch(source), _fetch_ceiling(source, facts))
    held = int(fetch // average)
    if source.largest > fetch:
        message = (
            f"the largest record seen is {quantities.size(source.largest)}, and a fetch is "
            f"{quantities.size(fetch)} ({source.fetch.origin}): such records come one at a time"
        )
    elif held < min(share, FETCH_RECORDS) and fetch < wanted:
        message = (
            f"a fetch of {quantities.size(fetch)} ({source.fetch.origin}) holds about {held:,} "
            f"records of {quantities.size(average)}, so a partition's share of a batch, "
            f"{share:,} records, takes {math.ceil(share / max(held, 1)):,} fetches"
        )
    else:
        return
    if wanted > fetch:
        line, hint = f"max_partition_fetch_bytes: {wanted}", None
    else:
        line, hint = None, "they are read all the same; no larger fetch fits memory and limits"
    yield Finding("FETCH_TOO_SMALL", message, source.fetch.span, line, hint)


def _share(source: SourceFacts) -> int:
    """How many records of a full batch come from one partition."""
    return math.ceil(source.batch_size.value / max(source.partitions, 1))


def _wanted_fetch(source: SourceFacts) -> int:
    return wanted_fetch(source.average, source.largest, _share(source))


def wanted_fetch(average: float, largest: int, share: int) -> int:
    """Whole MiB for the records of a batch, within what suits their size; never below a record."""
    kind = class_of(average)
    worth = min(share, FETCH_RECORDS) * average
    wanted = max(min(max(worth, kind.fetch_least), kind.fetch_most), largest)
    return math.ceil(wanted / MIB) * MIB


def _fetch_limits(source: SourceFacts, facts: Facts) -> Iterator[Finding]:
    fetch = source.fetch
    for topic in source.topics:
        small = topic.sizes.largest <= fetch.value < topic.limit - FRAME_BYTES
        if small and topic.limit <= _fetch_ceiling(source, facts):
            message = (
                f"topic {topic.topic} takes messages of {quantities.size(topic.limit)} "
                f"(max.message.bytes), and a fetch is {quantities.size(fetch.value)} "
                f"({fetch.origin}): larger ones will come one at a time"
            )
            line = f"max_partition_fetch_bytes: {math.ceil(topic.limit / MIB) * MIB}"
            yield Finding("LIMITS_DISAGREE", message, fetch.span, line)
    name, cap = min(_fetch_caps(source).items(), key=lambda item: item[1])
    if fetch.value > cap:
        message = (
            f"max_partition_fetch_bytes is {quantities.size(fetch.value)}, and {name} is "
            f"{quantities.size(cap)}, which wins"
        )
        line = f"max_partition_fetch_bytes: {cap}"
        yield Finding("LIMITS_DISAGREE", message, fetch.span, line)


def _fetch_ceiling(source: SourceFacts, facts: Facts) -> int:
    """The largest fetch that memory and limits allow."""
    return min(_fetch_room(source, facts), *_fetch_caps(source).values())


def _fetch_caps(source: SourceFacts) -> dict[str, int]:
    """What else bounds a fetch, by name."""
    return {
        "fetch.max.bytes of the consumer": source.fetch_max,
        "fetch.max.bytes of the brokers": source.limits.fetch,
    }


def _replication(source: SourceFacts) -> Iterator[Finding]:
    """Followers still get a batch that is larger than their fetch, one at a time."""
    follower = source.limits.replica_fetch
    for topic in source.topics:
        if topic.replication > 1 and topic.limit > follower + FRAME_BYTES:
            message = (
                f"topic {topic.topic} takes messages of {quantities.size(topic.limit)} "
                f"(max.message.bytes), and replicas fetch {quantities.size(follower)} "
                "(replica.fetch.max.bytes): larger ones are copied one at a time"
            )
            hint = f"set replica.fetch.max.bytes={topic.limit} on the brokers"
            yield Finding("LIMITS_DISAGREE", message, source.span, hint=hint)


def _target(target: TargetFacts, facts: Facts) -> Iterator[Finding]:
    """A topic, or its producer, that takes less than may come."""
    where = f"topic {target.topic} ({target.purpose})"
    if target.dead_letters_of is None:
        coming = max((source.largest for source in facts.sources), default=0)
        what = f"the largest record read is {quantities.size(coming)}"
    else:
        origins = [source for source in facts.sources if source.name == target.dead_letters_of]
        topics = [topic for source in origins for topic in source.topics]
        coming = max((topic.limit for topic in topics), default=0) - FRAME_BYTES
        what = f"a bad record may be {quantities.size(coming)} (max.message.bytes of what is read)"
    enough = math.ceil(coming / MIB + 1) * MIB
    if coming > target.request:
        message = f"{what}, and {quantities.size(target.request)} is sent to {where} at most"
        line = f"properties: {{max.request.size: {enough}}}"
        yield Finding("LIMITS_DISAGREE", message, target.span, line)
    if coming > target.limit:
        message = f"{what}, and {where} takes {quantities.size(target.limit)} (max.message.bytes)"
        yield Finding("LIMITS_DISAGREE", message, target.span, hint=_raise(target, enough))
    elif target.dead_letters_of is None and target.request > target.limit + FRAME_BYTES:
        message = (
            f"up to {quantities.size(target.request)} (max.request.size) is sent to {where}, which "
            f"takes {quantities.size(target.limit)} (max.message.bytes): it refuses what is between"
        )
        hint = _raise(target, target.request)
        yield Finding("LIMITS_DISAGREE", message, target.span, hint=hint)


def _raise(target: TargetFacts, limit: int) -> str:
    verb = "alter" if target.exists else "create"
    return f"`headrace topics {verb} {target.topic} --config max.message.bytes={limit}`"


# Positions


def _losses(source: SourceFacts) -> Iterator[Finding]:
    soon = [each for each in source.forecast if each.soon]
    if not soon:
        return
    more = f", and {len(soon) - 1} more partition(s) soon" if len(soon) > 1 else ""
    message = f"{soon[0]}{more}: {soon[0].lag:,} records wait there"
    if soon[0].lost:
        hint = "`on_data_loss` says whether a run goes on from what is left"
    else:
        keep = f"headrace topics alter {soon[0].topic} --config {soon[0].setting}=…"
        hint = f"run it, make it faster, or keep more: `{keep}`"
    yield Finding("LOSES_DATA_SOON", message, source.span, hint=hint)


def _group(source: SourceFacts) -> Iterator[Finding]:
    if source.members:
        message = (
            f"group {source.group} has {source.members} active member(s) that are not this "
            "pipeline: its position cannot be shown there"
        )
        line = f"consumer_group: {source.group}.headrace"
        yield Finding("GROUP_IN_USE", message, source.span, line)


def _lag(source: SourceFacts, facts: Facts) -> Iterator[Finding]:
    if not 0 < source.read < source.rate or not source.waiting:
        return
    message = (
        f"it reads {quantities.rate(source.read)} and {quantities.rate(source.rate)} are written, "
        f"with {source.waiting:,} records waiting: the lag grows"
    )
    line = None
    if facts.tasks is not None and facts.tasks < source.partitions:
        line = f"executor_count: {source.partitions}"
    yield Finding("LAG_GROWS", message, source.span, line, _faster(source.topics))


def _faster(topics: Sequence[TopicFacts]) -> str:
    names = ", ".join(topic.topic for topic in topics)
    return f"give {names} more partitions and Spark as many cores, or make the steps cheaper"
