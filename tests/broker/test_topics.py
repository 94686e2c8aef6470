"""`headrace topics` against a real Kafka."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.admin import topics
from headrace.admin.client import Cluster, connect
from headrace.admin.records import Record, produce
from headrace.cluster.dev import DevCluster
from headrace.cluster.process import wait_until
from headrace.errors import NoBrokersAvailable
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
Unique = Callable[[str], str]


def test_a_topic_that_was_made_is_listed(headrace: Headrace, unique: Unique) -> None:
    """GS-03"""
    name = unique("made")
    made = headrace("topics", "create", name, "--partitions", 1, "--replication-factor", 1)
    assert (made.code, made.out) == (0, "")
    listed = headrace("topics", "list")
    assert name in [line.split()[0] for line in listed.lines]


def test_kafkas_own_topics_are_listed_only_when_asked_for(
    headrace: Headrace, topic: TopicMaker, unique: Unique
) -> None:
    """GS-03"""
    name = topic("read")
    headrace("produce", name, stdin="a\n")
    headrace("consume", name, "--from-beginning", "-n", 1, "--group", unique("g"))
    assert "__consumer_offsets" not in headrace("topics", "list").out
    internal = headrace("topics", "list", "--internal", "-o", "json").value
    assert "__consumer_offsets" in {row["name"] for row in internal if row["internal"]}


def test_a_group_of_commands_without_arguments_prints_its_usage(headrace: Headrace) -> None:
    """GS-07"""
    for arguments in (["topics"], ["groups"], ["topics", "create"], ["produce"], ["consume"]):
        usage = headrace(*arguments)
        assert usage.code != 70
        assert "Usage" in usage.out + usage.err
        assert "--help" in usage.out + usage.err


def test_making_a_topic_twice_fails_and_says_so_on_stderr(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """GS-07"""
    name = topic()
    again = headrace("topics", "create", name)
    assert (again.code, again.out) == (4, "")
    assert f"TopicAlreadyExists topic {name} exists already" in again.err
    assert headrace("topics", "create", name, "--if-not-exists").code == 0


def test_the_client_librarys_log_lines_stay_off_stderr(headrace: Headrace) -> None:
    """GS-07"""
    down = headrace("topics", "list", "-b", "127.0.0.1:1")
    assert (down.code, down.out) == (3, "")
    assert down.err.startswith("NoBrokersAvailable")
    assert "%3|" not in down.err


def test_an_unreachable_cluster_is_an_error_not_an_endless_wait() -> None:
    """GS-07"""
    with pytest.raises(NoBrokersAvailable):
        connect("127.0.0.1:1")


def test_three_brokers_on_one_host_have_ids_and_ports_of_their_own(
    three_brokers: DevCluster,
) -> None:
    """GS-08"""
    brokers = connect(three_brokers.bootstrap).metadata("listing brokers").brokers
    assert sorted(brokers) == [1, 2, 3]
    assert len({broker.port for broker in brokers.values()}) == 3


def test_describe_shows_a_summary_and_a_line_for_each_partition(
    headrace: Headrace, three_brokers: DevCluster, unique: Unique
) -> None:
    """GS-09: Kafka 4's eligible leader replicas must not disturb it."""
    name, server = unique("replicated"), ["-b", three_brokers.bootstrap]
    headrace("topics", "create", name, "-p", 2, "-r", 3, *server)
    shown = headrace("topics", "describe", name, *server)
    assert f"Topic: {name}" in shown.lines[0]
    assert "Partitions: 2  Replication: 3" in shown.lines[0]
    assert shown.lines[1].split() == ["ID", "LEADER", "REPLICAS", "ISR"]
    assert [line.split()[0] for line in shown.lines[2:]] == ["0", "1"]
    whole = headrace("topics", "describe", name, *server, "-o", "json").value[0]
    for partition in whole["partitions"]:
        assert partition["leader"] in (1, 2, 3)
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [1, 2, 3]


def test_old_records_go_by_time_whether_they_were_read_or_not(
    three_brokers: DevCluster, unique: Unique
) -> None:
    """TP-02"""
    cluster, name = connect(three_brokers.bootstrap), unique("short")
    topics.create(cluster, name, 1, 1, {"retention.ms": "1"})
    assert produce(cluster, name, [Record(b"a"), Record(b"b")]).written == 2
    assert wait_until(lambda: topics.offsets(cluster, name, "earliest") == {0: 2}, 30)


def test_old_records_go_by_size_whole_segments_at_a_time(
    three_brokers: DevCluster, unique: Unique
) -> None:
    """TP-02: a partition keeps as many segments as hold at least its size; one MiB is the least."""
    cluster, name = connect(three_brokers.bootstrap), unique("small")
    mebibyte = 1024 * 1024
    sizes = {"segment.bytes": str(mebibyte), "retention.bytes": str(2 * mebibyte)}
    topics.create(cluster, name, 1, 1, sizes)
    assert produce(cluster, name, [Record(bytes(100_000)) for _ in range(60)]).written == 60
    assert wait_until(lambda: topics.offsets(cluster, name, "earliest")[0] > 0, 30)
    kept = topics.offsets(cluster, name)[0] - topics.offsets(cluster, name, "earliest")[0]
    assert 2 * mebibyte <= kept * 100_000 <= 3.5 * mebibyte


def test_a_topic_is_made_with_counts_and_settings(
    headrace: Headrace, three_brokers: DevCluster, unique: Unique
) -> None:
    """TP-03"""
    name, server = unique("set"), ["-b", three_brokers.bootstrap]
    settings = ["--config", "max.message.bytes=64000", "--config", "flush.messages=1"]
    made = headrace(
        "topics", "create", name, "--partitions", 20, "--replication-factor", 3, *settings, *server
    )
    assert made.code == 0
    whole = headrace("topics", "describe", name, *server, "-o", "json").value[0]
    assert len(whole["partitions"]) == 20
    assert whole["replication"] == 3
    own = {key: each["value"] for key, each in whole["configs"].items()}
    assert {"max.message.bytes": "64000", "flush.messages": "1"}.items() <= own.items()


def test_a_setting_is_changed_later_and_taken_back(headrace: Headrace, topic: TopicMaker) -> None:
    """TP-04"""
    name = topic()
    headrace("topics", "alter", name, "--config", "retention.ms=5000")
    assert headrace("topics", "alter", name, "--config", "max.message.bytes=128000").code == 0
    own = headrace("topics", "describe", name, "-o", "json").value[0]["configs"]
    assert (own["max.message.bytes"]["value"], own["retention.ms"]["value"]) == ("128000", "5000")
    headrace("topics", "alter", name, "--delete-config", "max.message.bytes")
    own = headrace("topics", "describe", name, "-o", "json").value[0]["configs"]
    assert "max.message.bytes" not in own
    assert "retention.ms" in own


def test_every_setting_is_shown_with_its_value_and_where_it_comes_from(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-05"""
    name = topic()
    headrace("topics", "alter", name, "--config", "retention.ms=5000")
    every = headrace("topics", "describe", name, "--all-configs", "-o", "json").value[0]["configs"]
    assert every["retention.ms"] == {"value": "5000", "source": "topic"}
    assert every["cleanup.policy"] == {"value": "delete", "source": "default"}
    assert every["min.insync.replicas"]["source"] in ("static", "cluster")
    table = headrace("topics", "describe", name, "--all-configs").lines
    assert ["retention.ms", "5000", "topic"] in [line.split() for line in table]


def test_the_partition_count_is_raised_with_a_warning_about_keys(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-06, TP-08"""
    name = topic(partitions=3)
    before = _partition_of_each_key(headrace, name)
    raised = headrace("topics", "alter", name, "--partitions", 6)
    assert raised.code == 0
    assert "from 3 to 6 partitions" in raised.err
    assert "another partition" in raised.err
    whole = headrace("topics", "describe", name, "-o", "json").value[0]
    assert len(whole["partitions"]) == 6
    after = _partition_of_each_key(headrace, name)
    assert any(after[key] != before[key] for key in before)


def _partition_of_each_key(headrace: Headrace, name: str) -> dict[str, int]:
    headrace("produce", name, "-s", ":", stdin="".join(f"k{n}:v\n" for n in range(20)))
    found = headrace("consume", name, "--last", 20, "-o", "json")
    return {row["key"]: row["partition"] for row in map(json.loads, found.lines)}


def test_lowering_the_partition_count_is_refused_with_the_present_one(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-07"""
    name = topic(partitions=3)
    refused = headrace("topics", "alter", name, "--partitions", 2)
    assert refused.code == 4
    assert "INVALID_PARTITIONS" in refused.err
    assert "it has 3" in refused.err


def test_an_alteration_with_one_fault_changes_nothing(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-11"""
    name = topic(partitions=3)
    refused = headrace("topics", "alter", name, "-p", 2, "-c", "retention.ms=5000")
    assert refused.code == 4
    refused = headrace("topics", "alter", name, "-p", 4, "-c", "retention.ms=x")
    assert refused.code == 4
    whole = headrace("topics", "describe", name, "-o", "json").value[0]
    assert (len(whole["partitions"]), whole["configs"]) == (3, {})


def test_a_deleted_topic_is_gone(headrace: Headrace, topic: TopicMaker) -> None:
    """TP-09"""
    name = topic()
    headrace("produce", name, stdin="a\nb\n")
    deleted = headrace("topics", "delete", name, "--yes")
    assert deleted.code == 0
    assert "1 partition, at most 2 records" in deleted.err
    assert name not in headrace("topics", "list").out


def test_deleting_asks_first_and_without_a_terminal_wants_a_yes(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-09"""
    name = topic()
    asked = headrace("topics", "delete", name)
    assert asked.code == 2
    assert "--yes" in asked.err
    assert name in headrace("topics", "list").out


def test_when_one_of_the_topics_is_unknown_none_is_deleted(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-09"""
    name = topic("kept")
    refused = headrace("topics", "delete", name, name + "x", "--yes")
    assert refused.code == 4
    assert f"did you mean `{name}`" in refused.err
    assert name in headrace("topics", "list").out


def test_names_that_differ_only_in_dot_and_underscore_are_refused(
    headrace: Headrace, unique: Unique
) -> None:
    """TP-10"""
    name = unique("a.b")
    headrace("topics", "create", name)
    refused = headrace("topics", "create", name.replace(".", "_"))
    assert refused.code == 4
    assert f"collides with the existing topic {name}" in refused.err
    risky = headrace("topics", "create", unique("c_d"))
    assert risky.code == 0
    assert "warning" in risky.err


def test_bad_requests_fail_each_with_its_own_message_and_make_nothing(
    headrace: Headrace, topic: TopicMaker, unique: Unique
) -> None:
    """TP-11"""
    topic()
    before = headrace("topics", "list").out
    name = unique("bad")
    for arguments, code, said in (
        ([name, "-r", 3], "INVALID_REPLICATION_FACTOR", "with 1 broker(s)"),
        ([name, "-c", "retention.sm=1"], "INVALID_CONFIG", "did you mean `retention.ms`?"),
        ([name, "-c", "retention.ms=-7"], "INVALID_CONFIG", "Invalid value -7"),
        ([f"{name}!"], "INVALID_TOPIC_EXCEPTION", "'!'"),
    ):
        refused = headrace("topics", "create", *arguments)
        assert refused.code == 4
        assert code in refused.err
        assert said in refused.err
    assert headrace("topics", "list").out == before


def test_wrong_options_are_the_command_lines_fault(headrace: Headrace, unique: Unique) -> None:
    """TP-11"""
    name = unique("wrong")
    for options in (["-p", 0], ["-p", -3], ["-r", 0], ["-c", "retention.ms"], ["--partitons", 3]):
        refused = headrace("topics", "create", name, *options)
        assert refused.code == 2, refused.err
    assert headrace("topics", "alter", name).code == 2
    assert name not in headrace("topics", "list").out


def test_an_unknown_topic_is_answered_with_the_nearest_names(
    headrace: Headrace, unique: Unique
) -> None:
    """TP-11"""
    name = unique("customer-orders")
    headrace("topics", "create", name)
    unknown = headrace("topics", "describe", name.replace("orders", "order"))
    assert unknown.code == 4
    assert "UnknownTopicOrPartition" in unknown.err
    assert f"did you mean `{name}`" in unknown.err


def test_leaders_are_spread_evenly_over_the_brokers(
    three_brokers: DevCluster, unique: Unique
) -> None:
    """TP-12"""
    made = topics.create(connect(three_brokers.bootstrap), unique("even"), 12, 3)
    leaders = Counter(partition.leader for partition in made.partitions)
    assert leaders == {1: 4, 2: 4, 3: 4}


def test_a_topic_that_the_brokers_make_has_their_defaults(
    headrace: Headrace, three_brokers: DevCluster, unique: Unique
) -> None:
    """TP-12, GS-04"""
    name, server = unique("auto"), ["-b", three_brokers.bootstrap]
    sent = headrace("produce", name, *server, stdin="a\n")
    assert sent.code == 0
    assert "did not exist" in sent.err
    whole = headrace("topics", "describe", name, *server, "-o", "json").value[0]
    assert (len(whole["partitions"]), whole["replication"]) == (8, 2)


def test_ensuring_a_topic_twice_makes_it_once(cluster: Cluster, unique: Unique) -> None:
    """TP-03"""
    name = unique("ensured")
    assert topics.ensure(cluster, name, partitions=2) is True
    assert topics.ensure(cluster, name, partitions=5) is False
    assert len(topics.describe(cluster, name).partitions) == 2


def test_offsets_are_shown_at_both_ends_and_at_a_time(
    headrace: Headrace, topic: TopicMaker
) -> None:
    """TP-01"""
    name = topic()
    start = int(time.time() * 1000) - 60_000
    lines = [f'{{"value": "{n}", "timestamp": {start + n}}}\n' for n in range(5)]
    headrace("produce", name, "-f", "json", stdin="".join(lines))
    shown = headrace("topics", "offsets", name, "--at-time", start + 3, "-o", "json").value
    assert shown == [{"partition": 0, "earliest": 0, "latest": 5, "at_time": 3}]
    later = headrace("topics", "offsets", name, "--at-time", "now", "-o", "json").value
    assert later[0]["at_time"] == 5
