"""Topics that rows name themselves: `topic: orders.${region}`, and which of them are allowed."""

from __future__ import annotations

import re

from headrace.admin import topic_names
from headrace.model import names
from headrace.model.schema import literal
from headrace.spans import short

_EXPRESSION = re.compile(r"\$\{([^{}]*)\}")
_LETTERS = r"[a-zA-Z0-9._-]"
_WHOLE = r"\A{}\z"  # `$` would let a line break pass


def is_per_row(topic: str) -> bool:
    return "${" in topic


def topic_fault(topic: str) -> str | None:
    """What is wrong with a topic's name, or with one that holds expressions."""
    if not is_per_row(topic):
        fault = names.topic_fault(topic)
        several = "; a sink writes one topic, so use `sinks:` for several" if "," in topic else ""
        return fault and fault + several
    fixed = _EXPRESSION.sub("", topic)
    if "${" in fixed or not all(text.strip() for text in expressions(topic)):
        return f"`{short(topic)}` must have a column or an expression between `${{` and `}}`"
    fault = topic_names.fault(fixed) if fixed.strip(".") else None
    return fault and f"`{short(topic)}` cannot make names of Kafka topics: {fault}"


def expressions(topic: str) -> list[str]:
    """The expressions in it, in order."""
    return _EXPRESSION.findall(topic)


def sql(topic: str) -> str:
    """SQL for the topic of a row; NULL where one of its expressions is."""
    if not is_per_row(topic):
        return literal(topic)
    # Text and expressions take turns, beginning with text.
    parts = [
        f"CAST({part} AS STRING)" if number % 2 else literal(part)
        for number, part in enumerate(_EXPRESSION.split(topic))
        if part
    ]
    return f"concat({', '.join(parts)})"


def allowed_fault(patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        fault = topic_names.fault(pattern.replace("*", "x"))
        if fault:
            return f"`{short(pattern)}` is not the name of a topic, with or without `*`: {fault}"
    return None


def is_pattern(name: str) -> bool:
    return "*" in name


def allows(patterns: tuple[str, ...], topic: str) -> bool:
    """Whether a topic is one of these; Kafka's own are never."""
    return re.fullmatch(_regex(patterns), topic) is not None


def allowed_sql(patterns: tuple[str, ...], topic: str) -> str:
    """SQL for the same, given SQL for a topic."""
    return f"({topic} RLIKE {literal(_WHOLE.format(_regex(patterns)))})"


def valid_sql(topic: str) -> str:
    """SQL for whether Kafka takes a name."""
    form = _WHOLE.format(f"{_LETTERS}{{1,{topic_names.MAX_LENGTH}}}")
    return f"({topic} RLIKE {literal(form)} AND {topic} NOT IN ('.', '..'))"


def _regex(patterns: tuple[str, ...]) -> str:
    # Names are letters, digits and these three, of which only the dot means something here.
    choices = (pattern.replace(".", "\\.").replace("*", f"{_LETTERS}*") for pattern in patterns)
    return f"(?!__)(?:{'|'.join(choices)})"
