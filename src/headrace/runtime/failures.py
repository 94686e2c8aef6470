"""Spark's and Java's failures as Headrace's errors.

Spark wraps what happened in several layers, across processes and languages; what is stable is the
names of exception classes and of Spark's error conditions in the text. The first rule that matches
decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    BadRecord,
    BrokerTimeout,
    DataLoss,
    DefinitionError,
    HeadraceError,
    InternalError,
    KafkaRefused,
    LedgerInUse,
    LedgerMissing,
    MessageSizeTooLarge,
    NewSchema,
    OutsideError,
    RowRefused,
    SchemaMismatch,
    SparkFailed,
    StateChanged,
    StateShared,
    StepFailed,
    TakenOver,
    TransactionExpired,
    TransactionFenced,
    UnknownTopicOrPartition,
    WorkerLost,
)
from headrace.formats.carried import REFUSAL
from headrace.formats.encoding import ROW_REFUSED
from headrace.formats.known import NEW_SCHEMA
from headrace.runtime import databases
from headrace.sinks import changes
from headrace.sinks.kafka_producer import NOT_DELIVERED
from headrace.sinks.kafka_refusals import TOO_LARGE
from headrace.sinks.kafka_transactions import NOT_COMMITTED

# What a worker fails with when a step cannot go on; the rest of the text is JSON.
STEP_FAILED = "HEADRACE_STEP_FAILED "

Make = Callable[[re.Match[str], str, str], HeadraceError]


def translate(error: BaseException, action: str, servers: str = "") -> HeadraceError:
    """The error to show for whatever Spark raised while doing `action`."""
    if isinstance(error, HeadraceError):
        return error
    text = _text(error)
    if f"{NEW_SCHEMA}{{" in text:
        return NewSchema(**_facts(text, NEW_SCHEMA))
    if REFUSAL in text:
        return _bad_record(text)
    if STEP_FAILED in text:
        return StepFailed(**_facts(text, STEP_FAILED))
    if ROW_REFUSED in text:
        return _row_refused(_facts(text, ROW_REFUSED), action)
    if NOT_COMMITTED in text:
        return _not_committed(_facts(text, NOT_COMMITTED), action, servers)
    if NOT_DELIVERED in text:
        return _not_delivered(_facts(text, NOT_DELIVERED), action, servers)
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
    found = _facts(text, REFUSAL)
    reason = f"{found['error']}: {found.get('message') or ''}"
    return BadRecord(found["topic"], found["partition"], found["offset"], reason)


def _row_refused(found: dict[str, Any], action: str) -> HeadraceError:
    record = "a row"
    if "offset" in found:
        record = f"record {found['topic']}[{found['partition']}]@{found['offset']}"
    if found["error"] == TOO_LARGE:
        return MessageSizeTooLarge(f"{action}: {record}", found["message"])
    return RowRefused(found["error"], action, record, f"{found['error']}: {found['message']}")


def _not_delivered(found: dict[str, Any], action: str, servers: str) -> HeadraceError:
    from confluent_kafka import KafkaError

    from headrace.admin import client

    error = KafkaError(found["code"], found["reason"])
    known = client.translate(error, action, servers, found["topic"] or None)
    known.hint = _REFUSED_HINTS.get(known.code, known.hint)
    return known


def _not_committed(found: dict[str, Any], action: str, servers: str) -> HeadraceError:
    sink, group, place = found["sink"], found["group"], f"{found['topic']}[{found['partition']}]"
    match found["reason"]:
        case "missing":
            return LedgerMissing(sink, group, place)
        case "foreign":
            return LedgerInUse(sink, group, f"its entry for {place} is not Headrace's")
        case "taken_over":
            return TakenOver(sink, group)
        case "expired":
            return TransactionExpired(sink, found["timeout_ms"])
        case "fenced":
            return TransactionFenced(sink, found["detail"])
        case "disorder":
            return InternalError(f"{action}: the rows of {place} are not in its order")
    return _refused_transaction(found, action, servers)


def _refused_transaction(found: dict[str, Any], action: str, servers: str) -> HeadraceError:
    from confluent_kafka import KafkaError

    from headrace.admin import client

    error = KafkaError(found["code"], found["detail"])
    if error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
        return LedgerInUse(found["sink"], found["group"], "a consumer has joined it")
    known = client.translate(error, action, servers)
    known.hint = _REFUSED_HINTS.get(known.code, known.hint)
    return known


def _facts(text: str, mark: str) -> dict[str, Any]:
    """The JSON after a mark, which may stand before it in a line of code that Spark shows."""
    found, _ = json.JSONDecoder().raw_decode(text[text.index(mark + "{") + len(mark) :])
    return dict(found)


def _unknown_topic(match: re.Match[str], _action: str, servers: str) -> HeadraceError:
    return UnknownTopicOrPartition(match.group(1) or "of this pipeline", servers)


def _analysis(match: re.Match[str], action: str, _servers: str) -> HeadraceError:
    sentence = match.group(2).strip().split(" SQLSTATE")[0]
    return DefinitionError(f"{action}: {match.group(1)}: {sentence}")


def _fields(schema: str) -> str:
    """The names and types in a schema as Java prints it."""
    found = re.findall(r"StructField\((\w+),(\w+?)(?:Type)?\b", schema)
    return ", ".join(f"{name} {kind}" for name, kind in found)


def _not_in_a_stream(match: re.Match[str], action: str, _servers: str) -> HeadraceError:
    """What `check` cannot see, as in the DataFrames that a function of the author's makes."""
    words = match.group(0)
    sentence = re.sub(r"^\[[A-Z_.]+\]\s*", "", words).split(" SQLSTATE")[0].split("; ~")[0]
    mode = words.startswith("[STREAMING_OUTPUT_MODE")
    hint = next((hint for sign, hint in _STREAM_HINTS.items() if sign in words), None)
    if mode:
        hint = "set `output_mode: update`" if ": append." in words else "set `output_mode: append`"
    return DefinitionError(f"{action}: {_first(sentence)}", hint=hint or "use `mode: batch`")


_STREAM_HINTS = {
    "Redefining watermark": "remove `withWatermark` from the function, or `watermark` from the "
    "source",
    "correctness": "set `output_mode: append`, and give the source a `watermark`",
    "without watermark": "add `watermark: {column: …, delay: …}` to the source",
}


def _first(text: str) -> str:
    return text.strip().splitlines()[0][:300]


def _rule(pattern: str, make: Make) -> tuple[re.Pattern[str], Make]:
    return re.compile(pattern), make


# Java's exceptions by the names that Kafka's protocol has for them.
_KAFKA_NAMES = {
    "InvalidRecord": "INVALID_RECORD",
    "InvalidTimestamp": "INVALID_TIMESTAMP",
    "InvalidTopic": "TOPIC_EXCEPTION",
    "PolicyViolation": "POLICY_VIOLATION",
}
_REFUSED_HINTS = {
    "INVALID_TRANSACTION_TIMEOUT": "`transaction_timeout_ms` of the sink is more than the brokers' "
    "transaction.max.timeout.ms",
    "INVALID_RECORD": "a compacted topic takes no record without a key: set `key`",
    "INVALID_TIMESTAMP": "the topic's `message.timestamp.…` settings say which times it takes",
}


def _refused_batch(name: str, action: str, detail: str) -> HeadraceError:
    return KafkaRefused(name, action, _first(detail or " "), _REFUSED_HINTS.get(name))


_DELTA_HINT = (
    "the rows no longer fit the table: `merge_schema: true` adds new columns, with `widen_types: "
    "true` types become wider; for any other change, write to another table"
)
_RULES: list[tuple[re.Pattern[str], Make]] = [
    _rule(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE\][\s\S]*?"
        r"Existing \w+_schema=(.*?)\s+and new \w+_schema=(.*?)\.\s",
        lambda m, action, _s: StateChanged(
            action, f"it has ({_fields(m.group(1))}), and needs ({_fields(m.group(2))})"
        ),
    ),
    _rule(
        r"STREAMING_STATEFUL_OPERATOR_(?:NOT_MATCH_IN_STATE_METADATA|MISSING_STATE_DIRECTORY)\]"
        r"\s*([^\n]*?)(?: SQLSTATE|\n)",
        lambda m, action, _s: StateChanged(action, _first(m.group(1))),
    ),
    _rule(
        r"There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\]",
        lambda m, action, _s: StateChanged(action, f"{m.group(0)} sources of the query"),
    ),
    _rule(
        r"\[(?:STREAMING_OUTPUT_MODE|NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING)[^\n]*"
        r"|[^\n:]*not supported (?:on|with) (?:a )?streaming DataFrame[^\n]*"
        r"|[^\n:]*streaming DataFrames?/Data[sS]ets?[^\n]* (?:is|are) not supported[^\n]*"
        r"|Stream-stream [^\n]*is not supported[^\n]*"
        r"|Global aggregation with session window[^\n]*"
        r"|Redefining watermark is disallowed"
        r"|Detected pattern of possible 'correctness' issue[^\n]*",
        _not_in_a_stream,
    ),
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
    _rule(r"TimeoutException: Topic (\S+) not present in metadata", _unknown_topic),
    _rule(
        r"(Invalid(?:Record|Timestamp|Topic)|PolicyViolation)Exception: ([^\n]*)",
        lambda m, action, _s: _refused_batch(_KAFKA_NAMES[m.group(1)], action, m.group(2)),
    ),
    _rule(
        r"((?:DELTA_\w*SCHEMA\w*|DELTA_FAILED_TO_MERGE\w*|DELTA_METADATA_MISMATCH)[^\n]*"
        r"|A schema mismatch detected[^\n]*|DELTA_CAST_OVERFLOW\w*[^\n]*)",
        lambda m, action, _s: SchemaMismatch(action, _first(m.group(1)), _DELTA_HINT),
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
        r"Python worker (exited unexpectedly \(crashed\)|failed to connect back)",
        lambda m, action, _s: WorkerLost(action, m.group(1)),
    ),
    _rule(
        r"CONCURRENT_STREAM_LOG_UPDATE",
        lambda _m, action, _s: StateShared(action),
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
