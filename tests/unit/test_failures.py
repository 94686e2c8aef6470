"""What Spark, Java and librdkafka say, by the names that people know from Kafka."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaError

from headrace.runtime.failures import translate
from headrace.sinks.kafka_producer import NotDelivered
from headrace.sinks.kafka_refusals import ROW_REFUSED

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
