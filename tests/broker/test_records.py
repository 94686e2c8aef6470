"""`headrace produce` and `headrace consume` against a real Kafka."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.admin import groups, places, reading, topics
from headrace.admin.client import Cluster
from headrace.admin.reading import Until
from headrace.admin.records import Record, produce
from headrace.errors import HeadraceError
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
Process = Callable[..., subprocess.Popen[str]]
Unique = Callable[[str], str]

ALL = ("--from-beginning", "--until-end")


def test_producing_to_a_missing_topic_makes_it(headrace: Headrace, unique: Unique) -> None:
    """GS-04"""
    name = unique("auto")
    sent = headrace("produce", name, stdin="a\n")
    assert sent.code == 0
    assert f"topic {name} did not exist" in sent.err
    made = headrace("topics", "describe", name, "-o", "json").value[0]
    assert (len(made["partitions"]), made["replication"]) == (1, 1)


def test_lines_of_stdin_are_records(headrace_process: Process, topic: TopicMaker) -> None:
    """GS-05"""
    name = topic()
    out, err = headrace_process("produce", name).communicate("a\nb\n", timeout=30)
    assert (out, err) == ("", f"2 written to {name}, 0 rejected\n")
    read = headrace_process("consume", name, *ALL)
    assert read.communicate(timeout=30)[0] == "a\nb\n"
    assert read.returncode == 0


def test_lines_of_a_file_are_records(headrace: Headrace, topic: TopicMaker, tmp_path: Path) -> None:
    """GS-05"""
    name, file = topic(), tmp_path / "lines.txt"
    file.write_bytes(b"one\r\n\ntwo words")
    assert headrace("produce", name, file).code == 0
    assert headrace("consume", name, *ALL).lines == ["one", "", "two words"]


def test_keys_headers_and_partition_come_from_options(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """GS-05"""
    name = topic(partitions=3)
    options = ["--key-separator", ":", "--header", "a=1", "--header", "a=2", "--partition", 2]
    headrace("produce", name, *options, stdin="k:v:w\n")
    row = json.loads(headrace("consume", name, *ALL, "-o", "json").out)
    assert (row["partition"], row["key"], row["value"]) == (2, "k", "v:w")
    assert row["headers"] == [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]
    text = headrace("consume", name, *ALL, "--keys", "--headers", "--metadata").out
    assert text.startswith(f"{name}[2]@0\t")
    assert text.endswith("\ta=1,a=2\tk\tv:w\n")


def test_a_live_tail_shows_what_comes_and_moves_nobody(
    headrace: Headrace,
    headrace_process: Process,
    cluster: Cluster,
    topic: TopicMaker,
    unique: Unique,
) -> None:
    """GS-06"""
    name, group = topic(), unique("my-group")
    headrace("produce", name, stdin="a\nb\n")
    groups.commit(cluster, group, {(name, 0): 1})
    listed = groups.names(cluster)
    tail = headrace_process("consume", name, "--from-beginning")
    assert tail.stdout is not None
    assert [tail.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
    headrace("produce", name, stdin="third\n")
    assert tail.stdout.readline() == "third\n"
    tail.send_signal(signal.SIGINT)
    assert tail.wait(timeout=30) in (0, 130)
    assert tail.stderr is not None
    assert tail.stderr.read().strip() == ""
    assert groups.committed(cluster, group) == {(name, 0): 1}
    assert groups.names(cluster) == listed


def test_a_reader_that_has_enough_ends_a_live_tail_quietly(
    headrace: Headrace, headrace_process: Process, topic: TopicMaker
) -> None:
    """GS-07: as in `headrace consume … | head -1`, with nothing more to come."""
    name = topic()
    headrace("produce", name, stdin="a\nb\nc\n")
    tail = headrace_process("consume", name, "--from-beginning")
    assert tail.stdout is not None
    assert tail.stderr is not None
    assert tail.stdout.readline() == "a\n"
    tail.stdout.close()
    assert tail.wait(timeout=30) == 0
    assert tail.stderr.read() == ""


def test_only_records_go_to_stdout(headrace: Headrace, topic: TopicMaker) -> None:
    """GS-07"""
    name = topic()
    sent = headrace("produce", name, stdin="a\nb\n")
    assert sent.out == ""
    assert headrace("consume", name, *ALL).out == "a\nb\n"


def test_a_partition_keeps_the_order_of_sending(headrace: Headrace, topic: TopicMaker) -> None:
    """TP-01"""
    name = topic()
    headrace("produce", name, stdin="".join(f"{n}\n" for n in range(500)))
    rows = [json.loads(line) for line in headrace("consume", name, *ALL, "-o", "json").lines]
    assert [(row["offset"], row["value"]) for row in rows] == [(n, str(n)) for n in range(500)]


def test_what_consume_prints_can_be_sent_back(headrace: Headrace, topic: TopicMaker) -> None:
    """GS-05: bytes that are no text, tombstones, headers and times included."""
    first, second = topic("first", partitions=2), topic("second", partitions=2)
    rows = [
        {"key": "k", "value": "text é", "timestamp": int(time.time() * 1000), "partition": 1},
        {"key": "k", "value": None},
        {"value": "gP8=", "encoding": {"value": "base64"}, "headers": {"h": "1"}},
        {"key": "gA==", "encoding": {"key": "base64"}, "value": {"nested": [1, 2]}},
    ]
    headrace("produce", first, "-f", "json", stdin="\n".join(map(json.dumps, rows)))
    printed = headrace("consume", first, *ALL, "-o", "json")
    assert headrace("produce", second, "-f", "json", stdin=printed.out).code == 0
    again = headrace("consume", second, *ALL, "-o", "json")
    assert again.lines
    assert sorted(again.lines) == sorted(line.replace(first, second) for line in printed.lines)


def test_keys_land_where_the_java_client_puts_them(headrace: Headrace, topic: TopicMaker) -> None:
    """PR-13: murmur2 of the key, as seen with Kafka's own producer and 12 partitions."""
    name = topic(partitions=12)
    headrace("produce", name, "-s", ":", stdin="anna:1\nbob:2\ncarla:3\n")
    rows = [json.loads(line) for line in headrace("consume", name, *ALL, "-o", "json").lines]
    assert {row["key"]: row["partition"] for row in rows} == {
        key: _murmur2(key.encode()) % 12 for key in ("anna", "bob", "carla")
    }


def _murmur2(data: bytes) -> int:
    """The hash of the Java client, made positive as it does."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_record_without_key_in_a_compacted_topic_fails_the_command(
    headrace: Headrace, headrace_process: Process, unique: Unique
) -> None:
    """PR-13: the good records of the same batch are written."""
    name = unique("compacted")
    headrace("topics", "create", name, "-c", "cleanup.policy=compact")
    rows = [{"key": "a", "value": "1"}, {"value": "no key"}, {"key": "b", "value": "2"}]
    process = headrace_process("produce", name, "-f", "json")
    out, err = process.communicate("\n".join(map(json.dumps, rows)), timeout=60)
    assert (process.returncode, out) == (4, "")
    assert "record 2: INVALID_RECORD" in err
    assert "2 written" in err
    assert "RecordRejected 1 of 3 records were rejected" in err
    assert headrace("consume", name, *ALL).lines == ["1", "2"]


def test_an_oversize_record_fails_the_command(headrace: Headrace, unique: Unique) -> None:
    """PR-13: refused by the broker, or by the client before that; the small ones are written."""
    name = unique("small")
    headrace("topics", "create", name, "-c", "max.message.bytes=2000")
    for size in (5_000, 2_000_000):
        sent = headrace("produce", name, stdin=f"small\n{'x' * size}\nsmall\n")
        assert sent.code == 4
        assert "record 2: MSG_SIZE_TOO_LARGE" in sent.err
        assert "1 of 3 records were rejected" in sent.err
    assert headrace("consume", name, *ALL).lines == ["small"] * 4


def test_many_records_go_to_a_topic_that_takes_only_small_batches(
    headrace: Headrace, cluster: Cluster, unique: Unique
) -> None:
    """PR-13"""
    name = unique("small")
    headrace("topics", "create", name, "-c", "max.message.bytes=2000")
    sent = headrace("produce", name, stdin="".join(f"record {n}\n" for n in range(2000)))
    assert sent.code == 0
    assert topics.offsets(cluster, name) == {0: 2000}


def test_lines_that_are_no_records_and_partitions_that_are_not_there_are_rejected(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """PR-13"""
    name = topic()
    lines = '{"value": 1}\nnonsense\n{"value": 2, "partition": 7}\n{"value": 3}\n'
    sent = headrace("produce", name, "-f", "json", stdin=lines)
    assert sent.code == 4
    assert "record 2: not JSON" in sent.err
    assert "record 3: _UNKNOWN_PARTITION" in sent.err
    assert headrace("consume", name, *ALL).lines == ["1", "3"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--key", "a", "--key-separator", ":"], "--key and --key-separator"),
        (["--header", "novalue"], "`novalue` is not name=value"),
        (["--property", "acsk=all"], "did you mean `acks`"),
        (["--property", "plugin.library.paths=x"], "not permitted"),
        (["--property", "compression.type=x"], "compression"),
        (["--format", "xml"], "xml"),
    ],
)
def test_a_wrong_option_of_produce_is_the_command_lines_fault(
    headrace: Headrace, topic: TopicMaker, arguments: list[str], said: str
) -> None:
    """PR-13"""
    refused = headrace("produce", topic(), *arguments, stdin="a\n")
    assert refused.code == 2
    assert said in refused.err


def test_fetch_settings_pass_through_and_a_large_record_does_not_wedge_the_reader(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """CO-18"""
    name = topic()
    headrace("produce", name, stdin=f"{'x' * 500_000}\nsmall\n")
    settings = ["max.partition.fetch.bytes=1000", "fetch.min.bytes=1", "check.crcs=true"]
    options = [option for setting in settings for option in ("--property", setting)]
    read = headrace("consume", name, *ALL, *options, "--property", "fetch.max.wait.ms=200")
    assert [len(line) for line in read.lines] == [500_000, 5]


def test_reading_stops_after_so_many_records(headrace: Headrace, topic: TopicMaker) -> None:
    """CO-19"""
    name = topic()
    headrace("produce", name, stdin="".join(f"{n}\n" for n in range(20)))
    read = headrace("consume", name, "--from-beginning", "--max-messages", 12)
    assert read.lines == [str(n) for n in range(12)]


def test_reading_stops_when_nothing_comes(headrace: Headrace, topic: TopicMaker) -> None:
    """CO-19"""
    name = topic()
    headrace("produce", name, stdin="a\nb\n")
    for option in (["--timeout-ms", 1000], ["--until-idle", 1]):
        read = headrace("consume", name, "--from-beginning", *option)
        assert (read.code, read.lines) == (0, ["a", "b"])


def test_reading_to_the_end_leaves_out_what_comes_later(
    cluster: Cluster, topic: TopicMaker
) -> None:
    """CO-19"""
    name = topic(partitions=2)
    produce(cluster, name, [Record(b"a", partition=0), Record(b"b", partition=0)])
    found = reading.consume(cluster, name, places.Earliest(), Until(end=True))
    first = next(found)
    produce(cluster, name, [Record(b"late", partition=n) for n in (0, 1)])
    assert [record.value for record in (first, *found)] == [b"a", b"b"]


def test_reading_starts_where_it_is_told(headrace: Headrace, topic: TopicMaker) -> None:
    """CO-19"""
    name = topic(partitions=2)
    start = int(time.time() * 1000)
    rows = [
        {"value": f"{partition}{n}", "partition": partition, "timestamp": start + n}
        for n in range(5)
        for partition in (0, 1)
    ]
    headrace("produce", name, "-f", "json", stdin="\n".join(map(json.dumps, rows)))
    for options, expected in (
        (["--offset", 3, "--partition", 1], ["13", "14"]),
        (["--offset", 4], ["04", "14"]),
        (["--from-time", start + 4], ["04", "14"]),
        (["--from-time", "2020-01-01", "-p", 0], ["00", "01", "02", "03", "04"]),
    ):
        read = headrace("consume", name, *options, "--until-end")
        assert sorted(read.lines) == expected
    assert headrace("consume", name, "--last", 4).lines in (
        ["03", "13", "04", "14"],
        ["13", "03", "14", "04"],
        ["03", "13", "14", "04"],
        ["13", "03", "04", "14"],
    )
    assert headrace("consume", name, "--last", 2, "-p", 1).lines == ["13", "14"]
    assert headrace("consume", name, "-p", 9).code == 4


def test_only_committed_records_are_read_unless_asked(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, unique: Unique
) -> None:
    """CO-19: markers of transactions at the end do not keep the reader waiting."""
    name = topic()
    producer = Producer(cluster.client_config(transactional_id=unique("tx")))
    producer.init_transactions()
    for value, finish in (
        ("kept", producer.commit_transaction),
        ("dropped", producer.abort_transaction),
        ("kept too", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush()
        finish()
    assert headrace("consume", name, *ALL).lines == ["kept", "kept too"]
    assert headrace("consume", name, *ALL, "--uncommitted").lines == ["kept", "dropped", "kept too"]
    assert headrace("consume", name, "--last", 2).lines == ["kept", "kept too"]


def test_a_member_of_a_group_goes_on_where_the_group_stopped(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, unique: Unique
) -> None:
    """CO-19"""
    name, group = topic(), unique("g")
    headrace("produce", name, stdin="a\nb\nc\n")
    options = ["--group", group, "--from-beginning"]
    assert headrace("consume", name, *options, "-n", 2).lines == ["a", "b"]
    assert groups.committed(cluster, group) == {(name, 0): 2}
    assert headrace("consume", name, *options, "--until-idle", 1).lines == ["c"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from-beginning", "--offset", "3"],
        ["--offset", "0", "--last", "3"],
        ["--until-idle", "1", "--timeout-ms", "1000"],
        ["--group", "g", "--offset", "0"],
        ["--group", "g", "--last", "3"],
        ["--group", "g", "--partition", "0"],
        ["--from-time", "noon"],
        ["--until-idle", "1000"],
        ["--offset", "-1"],
        ["-n", "0"],
    ],
)
def test_a_wrong_option_of_consume_is_the_command_lines_fault(
    headrace: Headrace, topic: TopicMaker, arguments: list[str]
) -> None:
    """CO-19"""
    assert headrace("consume", topic(), *arguments).code == 2


def test_an_unknown_topic_is_refused_and_not_made_by_reading(
    headrace: Headrace, unique: Unique
) -> None:
    """GS-06"""
    name = unique("missing")
    for arguments in ([name], [name, "--group", "g"], [name, "--last", 3]):
        refused = headrace("consume", *arguments)
        assert refused.code == 4
        assert "UnknownTopicOrPartition" in refused.err
    assert name not in headrace("topics", "list").out


def test_a_live_reader_finds_partitions_that_appear_later(
    cluster: Cluster, topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GS-06"""
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.1)
    name = topic()
    produce(cluster, name, [Record(b"old")])
    found = reading.consume(cluster, name, places.Earliest(), Until(count=2))
    assert next(found).value == b"old"
    topics.grow(cluster, name, 2)
    produce(cluster, name, [Record(b"new", partition=1)])
    assert next(found).value == b"new"


def test_a_live_reader_ends_when_its_topic_is_deleted(
    cluster: Cluster, topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GS-06"""
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.1)
    name = topic()
    produce(cluster, name, [Record(b"old")])
    found = reading.consume(cluster, name, places.Earliest())
    assert next(found).value == b"old"
    topics.delete(cluster, [name])
    with pytest.raises(HeadraceError) as raised:
        next(found)
    assert raised.value.code == "UnknownTopicOrPartition"
