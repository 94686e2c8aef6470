"""What Spark, Java and librdkafka say, by the names that people know from Kafka."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError

from headrace.errors import NewSchema
from headrace.formats.encoding import ROW_REFUSED
from headrace.formats.known import NEW_SCHEMA
from headrace.runtime.failures import translate
from headrace.sinks.kafka_producer import NotDelivered

ACTION = "writing `sink` to Kafka topic out"
JAVA = "org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("text", "code", "retry"),
    [
        ("TopicAuthorizationException: Not authorized: [out]", "AuthorizationFailure", False),
        ("SaslAuthenticationException: no", "AuthenticationFailure", False),
        ("RecordTooLargeException: The message is 9 bytes", "MessageSizeTooLarge", False),
        (
            "TimeoutException: Topic out not present in metadata after 60000 ms.",
            "UnknownTopicOrPartition",
            False,
        ),
        ("InvalidRecordException: This record has failed", "INVALID_RECORD", False),
        ("InvalidTimestampException: One or more", "INVALID_TIMESTAMP", False),
        ("NotEnoughReplicasException: Messages are rejected", "BrokerTimeout", True),
        ("TimeoutException: Expiring 3 record(s)", "BrokerTimeout", True),
    ],
)
def test_an_answer_of_kafka_by_java_has_kafkas_name(text: str, code: str, retry: bool) -> None:
    found = translate(RuntimeError(f"Job aborted\nCaused by: {JAVA}{text}"), ACTION, "h:9092")
    assert (found.code, found.retry) == (code, retry)


@pytest.mark.parametrize(
    ("number", "code", "retry"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "AuthorizationFailure", False),
        (KafkaError.MSG_SIZE_TOO_LARGE, "MessageSizeTooLarge", False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "UnknownTopicOrPartition", False),
        (KafkaError.INVALID_RECORD, "INVALID_RECORD", False),
        (KafkaError._MSG_TIMED_OUT, "BrokerTimeout", True),
        (KafkaError._AUTHENTICATION, "AuthenticationFailure", False),
    ],
)
def test_a_message_that_was_not_delivered_has_the_same_names(
    number: int, code: str, retry: bool
) -> None:
    """The text of a worker's exception reaches the driver inside Spark's."""
    refused = NotDelivered("out", KafkaError(number, "because"))
    found = translate(RuntimeError(f"Traceback\n{refused}\n\n at Java"), ACTION, "h:9092")
    assert (found.code, found.retry) == (code, retry)


def test_a_row_that_is_refused_names_its_record_where_it_has_one() -> None:
    facts = {"error": "TOPIC_NOT_ALLOWED", "message": "x is not in allowed_topics"}
    place = {"topic": "orders", "partition": 1, "offset": 7}
    found = translate(RuntimeError(ROW_REFUSED + json.dumps({**facts, **place})), ACTION)
    assert found.code == "TOPIC_NOT_ALLOWED"
    assert "orders[1]@7" in str(found)
    found = translate(RuntimeError(ROW_REFUSED + json.dumps(facts)), ACTION)
    assert "a row" in str(found)
    large = {**facts, "error": "MessageSizeTooLarge"}
    found = translate(RuntimeError(ROW_REFUSED + json.dumps(large)), ACTION)
    assert found.code == "MessageSizeTooLarge"
    assert "max_request_bytes" in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing "
            "state key schema.\nPlease check number and type of fields.\nExisting key_schema="
            "StructType(StructField(k,StringType,true)) and new key_schema="
            "StructType(StructField(id,LongType,true)).\nIf you want to force",
            "it has (k String), and needs (id Long)",
        ),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator "
            "name does not match with the operator in state metadata. SQLSTATE: 42K03",
            "operator name does not match",
        ),
        (
            "There are [1] sources in the checkpoint offsets and now there are [2] sources "
            "requested by the query. Cannot continue.",
            "[2] sources",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_told_apart(text: str, words: str) -> None:
    found = translate(RuntimeError(f"[STREAM_FAILED] terminated with exception: {text}"), ACTION)
    assert found.code == "StateChanged"
    assert words in str(found)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. "
            "This output mode is not supported for streaming aggregations without watermark",
            "output_mode: update",
        ),
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: update. "
            "This output mode is not supported for session window streaming aggregations",
            "output_mode: append",
        ),
        ("Redefining watermark is disallowed. You can set the config", "withWatermark"),
        (
            "dropDuplicatesWithinWatermark is not supported on streaming DataFrames/DataSets "
            "without watermark; ~DeduplicateWithinWatermark [id#96L]",
            "add `watermark:",
        ),
        (
            "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated "
            "DataFrame/Dataset in Complete output mode; ~Sort [id#554L ASC NULLS FIRST], true",
            "mode: batch",
        ),
        (
            "Intersect of streaming DataFrames/Datasets is not supported; ~Intersect false",
            "mode: batch",
        ),
        ("Stream-stream join without equality predicate is not supported.; ~Join", "mode: batch"),
    ],
)
def test_what_spark_refuses_of_a_stream_has_a_cure(text: str, hint: str) -> None:
    found = translate(RuntimeError(text), ACTION)
    assert found.code == "DefinitionError"
    assert "~" not in str(found)
    assert hint in (found.hint or "")


def test_an_id_that_a_query_does_not_know_is_a_new_schema() -> None:
    facts = json.dumps({"source": "orders", "part": "value", "id": "7"})
    text = f"raise_error(concat('{NEW_SCHEMA}', to_json(…)))\n{NEW_SCHEMA}{facts} at Java"
    found = translate(RuntimeError(f"[USER_RAISED_EXCEPTION] {text}"), ACTION)
    assert isinstance(found, NewSchema)
    assert (found.source, found.part, found.id, found.retry) == ("orders", "value", "7", True)
