"""Spark's and Java's failures as Headrace's errors.

Spark wraps what happened in several layers, across processes and languages; what is stable is the
names of exception classes and of Spark's error conditions in the text. The first rule that matches
decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    BadRecord,
    BrokerTimeout,
    DataLoss,
    DefinitionError,
    HeadraceError,
    MessageSizeTooLarge,
    OutsideError,
    SchemaMismatch,
    SparkFailed,
    UnknownTopicOrPartition,
)
from headrace.formats.carried import REFUSAL
from headrace.runtime import databases
from headrace.sinks import changes

Make = Callable[[re.Match[str], str, str], HeadraceError]


def translate(error: BaseException, action: str, servers: str = "") -> HeadraceError:
    """The error to show for whatever Spark raised while doing `action`."""
    if isinstance(error, HeadraceError):
        return error
    text = _text(error)
    if REFUSAL in text:
        return _bad_record(text)
    refused = changes.refusal(text) or databases.translate(error, action)
    if refused is not None:
        return refused
    for pattern, make in _RULES:
        match = pattern.search(text)
        if match:
            return make(match, action, servers)
    return SparkFailed(action, _sentence(error), _condition(error))


def _text(error: BaseException) -> str:
    """All layers of an error: its own words, Java's stack and causes, and Python's."""
    parts = []
    seen: set[int] = set()
    layer: BaseException | None = error
    while layer is not None and id(layer) not in seen:
        seen.add(id(layer))
        parts.append(str(layer))
        parts.append(str(getattr(layer, "_stackTrace", "") or ""))
        parts.append(_java_stack(layer))
        layer = getattr(layer, "_cause", None) or layer.__cause__
    return "\n".join(parts)


def _java_stack(error: BaseException) -> str:
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if origin is None:
        return ""
    try:
        return str(origin.toString()) + "\n" + _causes(origin)
    except Exception:
        # The JVM may be gone; then its words are, too.
        return ""


def _causes(origin: object) -> str:
    lines: list[str] = []
    cause = origin.getCause()  # type: ignore[attr-defined]
    while cause is not None and len(lines) < 20:
        lines.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(lines)


def _bad_record(text: str) -> HeadraceError:
    found, _ = json.JSONDecoder().raw_decode(text[text.index(REFUSAL) + len(REFUSAL) :])
    reason = f"{found['error']}: {found.get('message') or ''}"
    return BadRecord(found["topic"], found["partition"], found["offset"], reason)


def _unknown_topic(match: re.Match[str], _action: str, servers: str) -> HeadraceError:
    return UnknownTopicOrPartition(match.group(1) or "of this pipeline", servers)


def _analysis(match: re.Match[str], action: str, _servers: str) -> HeadraceError:
    sentence = match.group(2).strip().split(" SQLSTATE")[0]
    return DefinitionError(f"{action}: {match.group(1)}: {sentence}")


def _first(text: str) -> str:
    return text.strip().splitlines()[0][:300]


def _rule(pattern: str, make: Make) -> tuple[re.Pattern[str], Make]:
    return re.compile(pattern), make


_RULES: list[tuple[re.Pattern[str], Make]] = [
    _rule(
        r"(?:Sasl|Ssl)?AuthenticationException: ([^\n]*)",
        lambda m, _a, servers: AuthenticationFailure(servers, _first(m.group(1))),
    ),
    _rule(
        r"(?:Topic|Group|Cluster|TransactionalId)AuthorizationException: ([^\n]*)",
        lambda m, action, _s: AuthorizationFailure(action, _first(m.group(1))),
    ),
    _rule(
        r"RecordTooLargeException: ([^\n]*)",
        lambda m, action, _s: MessageSizeTooLarge(action, _first(m.group(1))),
    ),
    _rule(
        r"(KAFKA_DATA_LOSS[^\n]*|OffsetOutOfRangeException[^\n]*|[^\n]*may have been lost[^\n]*)",
        lambda m, _a, _s: DataLoss(_first(m.group(1))),
    ),
    _rule(r"UnknownTopicOrPartitionException: [^\n]*?(?:[Tt]opic (\S+))?", _unknown_topic),
    _rule(
        r"((?:DELTA_\w*SCHEMA\w*|DELTA_FAILED_TO_MERGE\w*)[^\n]*|A schema mismatch detected[^\n]*)",
        lambda m, action, _s: SchemaMismatch(action, _first(m.group(1))),
    ),
    _rule(
        r"kafka\.common\.errors\.\w*(?:Timeout|Disconnect|Network|NotEnoughReplicas|"
        r"LeaderNotAvailable|NotLeaderOrFollower|CoordinatorNotAvailable|BrokerNotAvailable)"
        r"\w*Exception(?:: ([^\n]*))?",
        lambda m, action, _s: BrokerTimeout(action, _first(m.group(1) or " ")),
    ),
    _rule(
        r"\[((?:UNRESOLVED_|DATATYPE_MISMATCH|PARSE_SYNTAX_ERROR|TABLE_OR_VIEW_NOT_FOUND|"
        r"AMBIGUOUS_|INVALID_|MISSING_|WRONG_NUM_ARGS|UNSUPPORTED_)[A-Z_.]*)\]\s*([^\n]*)",
        _analysis,
    ),
    _rule(
        r"No space left on device",
        lambda _m, action, _s: _disk_full(action),
    ),
]


def _disk_full(action: str) -> HeadraceError:
    error = OutsideError(f"{action}: the disk is full", "free some space and run it again")
    error.code = "DiskFull"
    return error


def _sentence(error: BaseException) -> str:
    """The first line that says something to a person."""
    for line in str(error).splitlines():
        words = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", line.strip())
        if words and not words.startswith(("at ", "JVM stacktrace", "===")):
            return words[:500]
    return type(error).__name__


def _condition(error: BaseException) -> str | None:
    try:
        return error.getCondition()  # type: ignore[attr-defined, no-any-return]
    except Exception:
        return None
