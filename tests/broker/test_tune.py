"""`headrace tune` and `check --online`: real records, real limits, and what is found about them."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from headrace.admin import groups, topic_settings, topics
from headrace.admin.client import Cluster, connect
from headrace.admin.records import Record, produce
from headrace.api import load
from headrace.cluster.dev import DevCluster
from headrace.cluster.process import wait_until
from headrace.runtime.state import Status
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
MIB = 1024 * 1024
TEXT = """\
pipeline: {name}
source:
  connector_type: kafka
  bootstrap_server: {servers}
  topic: {topic}
  auto_offset_reset: earliest
  bad_data: skip
  schema: id BIGINT
"""
CONSOLE = "sink: {connector_type: console}\n"


@pytest.fixture
def write(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A pipeline on a topic in a folder of its own, whose name is the topic's."""
    monkeypatch.chdir(tmp_path)

    def make(topic: str, *more: str) -> Path:
        file = tmp_path / "p.yaml"
        text = TEXT.format(name=topic, servers=cluster.bootstrap, topic=topic)
        file.write_text(text + "".join(more))
        return Path(file.name)

    return make


def fill(cluster: Cluster, topic: str, size: int, count: int) -> None:
    values = [Record(b"x" * (size - 4), b"key", (("h", None),)) for _ in range(count)]
    produce(cluster, topic, values).raise_if_rejected()


def codes(found: Any) -> list[str]:
    return [each["code"] for each in found["findings"]]


def test_a_fetch_that_is_too_small_is_found_with_the_line_that_mends_it(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name = topic("large")
    fill(cluster, name, 5 * 1024, 600)
    file = write(name, "  batch_size: 500\n", CONSOLE)

    found = headrace("tune", file, "-o", "json").value

    (source,) = found["sources"]
    assert source["topics"] == [
        {
            "topic": name,
            "partitions": 1,
            "replication": 1,
            "records": 600,
            "rate": 1.0,
            "sizes": {
                "count": 100,
                "smallest": 5120,
                "average": 5120.0,
                "p95": 5120,
                "largest": 5120,
            },
            "limit": 1048588,
        }
    ]
    assert (source["batch_size"], source["max_partition_fetch_bytes"]) == (500, MIB)
    assert (source["started"], source["waiting"]) == (False, 600)
    assert source["limits"] == {"message": 1048588, "replica_fetch": MIB, "fetch": 55 * MIB}
    assert found["memory"]["fetched"] == 1.5 * MIB
    assert codes(found) == ["FETCH_TOO_SMALL"]
    (finding,) = found["findings"]
    assert finding["line"] == "max_partition_fetch_bytes: 5242880"
    assert "holds about 204 records of 5 KiB" in finding["message"]

    shown = headrace("tune", file)
    assert shown.code == 0
    assert "100 records: 5 KiB to 5 KiB, 5 KiB on average" in shown.out
    assert "    max_partition_fetch_bytes: 5242880" in shown.lines
    assert "no position yet: a first run begins at earliest" in shown.out

    checked = headrace("check", file, "--online")
    assert checked.code == 0
    assert checked.out.startswith("p.yaml:3:3 FETCH_TOO_SMALL warning: a fetch of 1 MiB")
    assert "(write `max_partition_fetch_bytes: 5242880`)" in checked.out
    offline = headrace("check", file)
    assert (offline.out, offline.err) == ("", "p.yaml: ok\n")

    write(name, "  batch_size: 500\n  max_partition_fetch_bytes: 5242880\n", CONSOLE)
    assert headrace("tune", file).lines[-1] == "nothing to change"
    again = headrace("check", file, "--online")
    assert (again.code, again.out, again.err) == (0, "", "p.yaml: ok\n")


def test_a_topic_that_is_missing_is_a_fault_that_names_the_nearest(
    headrace: Headrace, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name = topic("orders")
    file = write(name, CONSOLE)
    file.write_text(file.read_text().replace(f"topic: {name}", f"topic: {name}x"))
    checked = headrace("check", file, "--online")
    assert checked.code == 2
    assert checked.out.startswith(f"p.yaml:5:10 UNKNOWN_TOPIC topic {name}x does not exist at")
    assert f"did you mean `{name}`" in checked.out
    assert headrace("check", file).code == 0


def test_brokers_that_do_not_answer_are_an_error_of_their_own(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    file = write(topic(), CONSOLE)
    file.write_text(file.read_text().replace(cluster.bootstrap, "127.0.0.1:1"))
    for command in (("check", file, "--online"), ("tune", file)):
        asked = headrace(*command)
        assert (asked.code, asked.out) == (3, "")
        assert "NoBrokersAvailable no Kafka broker answers at 127.0.0.1:1" in asked.err


def test_partitions_bound_the_tasks(
    headrace: Headrace, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    file = write(topic("wide", partitions=3), "executor_count: 5\n", CONSOLE)
    found = headrace("tune", file, "-o", "json").value
    assert (found["tasks"], codes(found)) == (5, ["MORE_TASKS_THAN_PARTITIONS"])
    assert found["findings"][0]["line"] == "executor_count: 3"
    story = headrace("explain", file, "--online", "-o", "json").value
    assert story["side_by_side"][1] == "`source`: 3 partitions, each read by one task at a time"


def test_limits_of_topics_and_producers_are_compared(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name, out = topic("big"), topic("out")
    topic_settings.change(cluster, name, {"max.message.bytes": str(5 * MIB)})
    topic_settings.change(cluster, out, {"max.message.bytes": str(2 * MIB)})
    large = connect_large(cluster)
    produce(large, name, [Record(b"x" * (3 * MIB))]).raise_if_rejected()
    sink = f"sink:\n  connector_type: kafka\n  topic: {out}\n"
    file = write(name, "  dlq_topic: letters\n".replace("letters", f"{name}.dlq"), sink)
    file.write_text(file.read_text().replace("bad_data: skip", "bad_data: dlq"))

    found = headrace("tune", file, "-o", "json").value["findings"]

    by_line = {(each["line_number"], each["code"]): each for each in found}
    assert set(by_line) == {(3, "FETCH_TOO_SMALL"), (9, "LIMITS_DISAGREE"), (12, "LIMITS_DISAGREE")}
    assert by_line[3, "FETCH_TOO_SMALL"]["line"] == f"max_partition_fetch_bytes: {50 * MIB}"
    messages = [each["message"] for each in found if each["line_number"] == 12]
    assert any("3 MiB, and 1 MiB is sent to topic" in each for each in messages)
    assert any("takes 2 MiB (max.message.bytes)" in each for each in messages)
    letters = [each for each in found if each["line_number"] == 9]
    assert all("a bad record may be 5 MiB" in each["message"] for each in letters)


def connect_large(cluster: Cluster) -> Cluster:
    return connect(cluster.bootstrap, {"message.max.bytes": str(8 * MIB)})


def test_what_will_be_lost_soon_is_found_by_the_position_of_the_group(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name = topic("kept", partitions=2)
    topic_settings.change(cluster, name, {"retention.ms": str(4 * 3600 * 1000)})
    old = int((time.time() - 3600) * 1000)
    produce(cluster, name, [Record(b"1", partition=1, timestamp=old)]).raise_if_rejected()
    groups.commit(cluster, name, {(name, 0): 0, (name, 1): 0})
    file = write(name, CONSOLE)
    found = headrace("tune", file, "-o", "json").value
    assert (found["sources"][0]["started"], found["sources"][0]["waiting"]) == (True, 1)
    assert codes(found) == ["LOSES_DATA_SOON"]
    checked = headrace("check", file, "--online")
    assert f"LOSES_DATA_SOON warning: partition 1 of {name} loses unread data in " in checked.out
    groups.commit(cluster, name, {(name, 1): 1})
    assert headrace("tune", file).lines[-1] == "nothing to change"


def test_a_run_that_falls_behind_or_has_an_older_file_is_told(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name = topic("busy", partitions=4)
    fill(cluster, name, 100, 6000)
    file = write(name, CONSOLE)
    state = load(file).state
    state.folder.mkdir(parents=True)
    ends = topics.offsets(cluster, name, "earliest")
    place = {"bootstrap": cluster.bootstrap, "group": name, "topic": name}
    now = datetime.datetime.now(datetime.UTC)
    status = Status(
        name,
        "stream",
        str(file),
        "running",
        pid=os.getpid(),
        started=(now - datetime.timedelta(hours=1)).isoformat(),
        last_batch={"at": now.isoformat(), "records": 4, "seconds": 2.0},
        positions=[{**place, "partition": key, "offset": at} for key, at in ends.items()],
    )
    state.write_status(status)
    with state.lock(name):
        found = headrace("tune", file, "--master", "local[2]", "-o", "json").value
        assert codes(found) == ["CHANGED_SINCE_START", "LAG_GROWS"]
        assert found["findings"][1]["line"] == "executor_count: 4"
        assert found["sources"][0]["read"] == 2.0
        assert found["sources"][0]["rate"] == pytest.approx(10.0)
    assert headrace("tune", file, "-o", "json").value["findings"] == []


def test_a_group_that_somebody_has_joined_is_told(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, write: Callable[..., Path]
) -> None:
    name = topic("joined")
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
    try:
        member.subscribe([name])
        assert wait_until(lambda: bool(member.poll(0.1) or member.assignment()), 60)
        found = headrace("tune", write(name, CONSOLE), "-o", "json").value
    finally:
        member.close()
    assert codes(found) == ["GROUP_IN_USE"]


def test_a_source_alone_can_be_tuned(
    headrace: Headrace, cluster: Cluster, topic: TopicMaker, tmp_path: Path
) -> None:
    file = tmp_path / "source.yaml"
    name = topic("alone")
    file.write_text(
        f"connector_type: kafka\nbootstrap_server: {cluster.bootstrap}\ntopic: {name}\n"
        "schema: id BIGINT\n"
    )
    found = headrace("tune", file)
    assert "no record to look at" in found.out
    assert found.lines[-1] == "nothing to change"


def test_tuning_starts_no_spark(topic: TopicMaker, write: Callable[..., Path]) -> None:
    program = (
        "import sys; from headrace.cli.main import _run; code = _run(['tune', sys.argv[1]])\n"
        "sys.exit(code if not {'pyspark', 'pandas', 'pyarrow'} & sys.modules.keys() else 99)"
    )
    command = [sys.executable, "-c", program, str(write(topic(), CONSOLE))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_three_brokers_copy_what_is_larger_than_their_fetch_one_at_a_time(
    three_brokers: DevCluster, write: Callable[..., Path], headrace: Headrace
) -> None:
    cluster = connect(three_brokers.bootstrap)
    config = {"max.message.bytes": str(5 * MIB)}
    topics.create(cluster, "copied", partitions=1, replication=3, config=config)
    file = write("copied", CONSOLE)
    text = file.read_text().splitlines()
    text[3] = f"  bootstrap_server: {cluster.bootstrap}"
    file.write_text("\n".join(text))
    answer = headrace("tune", file, "-o", "json")
    assert answer.code == 0, answer.err
    found = answer.value["findings"]
    hints = [each["hint"] for each in found if "replica.fetch.max.bytes" in each["message"]]
    assert hints == [f"set replica.fetch.max.bytes={5 * MIB} on the brokers"]
