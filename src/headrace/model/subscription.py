"""Which topics a Kafka source reads, and where its dead letters go; said by its options alone.

Lint, the planner and the source itself ask here, so that they cannot disagree.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from headrace.spec import Options


@dataclass(frozen=True)
class Subscription:
    """Topics by their names or, with a `pattern`, all whose whole name matches it."""

    topics: tuple[str, ...]
    pattern: str | None = None

    @classmethod
    def of(cls, options: Options) -> Subscription:
        named = options["topics"] or split(options["topic"] or "")
        return cls(tuple(dict.fromkeys(named)), options["topic_pattern"])

    def reads(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None

    def overlaps(self, other: Subscription) -> str | None:
        """A topic, or a pattern, that both read. Two different patterns are not compared."""
        if self.pattern is not None and self.pattern == other.pattern:
            return self.pattern
        named = (*self.topics, *other.topics)
        return next((topic for topic in named if self.reads(topic) and other.reads(topic)), None)

    @property
    def java_pattern(self) -> str:
        """For Spark, whose driver looks for a match anywhere in a name, unlike Kafka's consumer."""
        return f"^(?:{self.pattern})$"

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics that match {self.pattern}"
        return ", ".join(self.topics)


def split(topics: str) -> tuple[str, ...]:
    """No name of a topic has a comma, so text with commas is several of them."""
    return tuple(part.strip() for part in topics.split(",")) if topics else ()


def pattern_fault(pattern: str) -> str | None:
    """Spark reads a pattern with Java, and lint and batches with Python: it must suit both."""
    try:
        with warnings.catch_warnings():
            # Python warns of what means something else in Java, as `[a-z&&[^b]]`.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        return f"is not a regular expression that Java and Python read alike: {error}"
    if "(?P" in pattern:
        return "has `(?P`, which Java does not know; write `(?:…)`"
    return None


def dead_letter_topic(options: Options, pipeline: str) -> str | None:
    """Where bad records go; None where they are not kept."""
    if options["bad_data"] != "dlq":
        return None
    read = Subscription.of(options)
    base = read.topics[0] if len(read.topics) == 1 and read.pattern is None else pipeline
    return options["dlq_topic"] or f"{base}.dlq"
