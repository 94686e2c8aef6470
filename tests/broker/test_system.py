"""System tables of real clusters, and `headrace kafka` by the names of connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from headrace.admin import groups, records
from headrace.admin.client import Cluster
from headrace.admin.letters import HEADER_PREFIX
from headrace.admin.records import Record
from headrace.cluster.process import wait_until
from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
Unique = Callable[[str], str]

CLOSED = "127.0.0.1:1"  # nobody listens there


@pytest.fixture
def orders(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A topic with five records, and a catalog with connections to it and to nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_BOOTSTRAP_SERVER")
    name = topic("orders", 2)
    records.produce(cluster, name, [Record(b"{}", partition=n % 2) for n in range(5)])
    common = "type = 'source', format = 'json'"
    made = f"""
        CREATE CONNECTION shop TO kafka ( bootstrap_servers = '{cluster.bootstrap}',
            topic = '{name}', {common} );
        CREATE CONNECTION closed TO kafka ( bootstrap_servers = '{CLOSED}', topic = 'x', {common} );
        CREATE TABLE direct ( id BIGINT ) WITH ( connector = 'kafka', topic = '{name}',
            bootstrap_servers = '{cluster.bootstrap}', dlq_topic = '{name}-aside', {common} );
    """
    answer = headrace("sql", "-c", made)
    assert answer.code == 0, answer.err
    return name


def rows(headrace: Headrace, sql: str) -> list[dict[str, Any]]:
    answer = headrace("sql", "-o", "json", "-c", sql)
    assert answer.code == 0, answer.err
    found: list[dict[str, Any]] = answer.value
    return found


def test_groups_topics_and_brokers_of_each_connection(
    headrace: Headrace, cluster: Cluster, orders: str, unique: Unique
) -> None:
    group = unique("my-application-group")
    groups.commit(cluster, group, {(orders, 0): 1, (orders, 1): 2})
    found = rows(
        headrace,
        f"SELECT * FROM system.kafka_consumer_groups WHERE group_id = '{group}' "
        "AND connection = 'shop' ORDER BY partition",
    )
    assert [tuple(row.values()) for row in found] == [
        ("shop", group, "empty", 0, orders, 0, 1, 3, 2, None, None, None),
        ("shop", group, "empty", 0, orders, 1, 2, 2, 0, None, None, None),
    ]
    lags = rows(
        headrace,
        "SELECT connection, sum(lag) AS lag FROM system.kafka_consumer_groups "
        f"WHERE topic = '{orders}' GROUP BY connection ORDER BY connection",
    )
    assert lags == [{"connection": "direct", "lag": 2}, {"connection": "shop", "lag": 2}]

    (found_topic,) = rows(
        headrace,
        f"SELECT * FROM system.kafka_topics WHERE connection = 'shop' AND topic = '{orders}'",
    )
    assert (found_topic["partitions"], found_topic["records"]) == (2, 5)
    assert (found_topic["replication"], found_topic["leaderless"]) == (1, 0)

    up = rows(headrace, "SELECT * FROM system.kafka_brokers WHERE connection = 'shop'")
    assert [(row["status"], f"{row['host']}:{row['port']}") for row in up] == [
        ("up", cluster.bootstrap)
    ]


def test_a_cluster_that_does_not_answer_is_a_row_and_a_warning(
    headrace: Headrace, orders: str
) -> None:
    answer = headrace("sql", "-o", "json", "-c", "SELECT * FROM system.kafka_brokers")
    assert answer.code == 0
    status = {row["connection"]: row["status"] for row in answer.value}
    assert status == {"shop": "up", "closed": "unreachable", "direct": "up"}
    assert "warning: closed: no Kafka broker answers" in answer.err
    others = rows(headrace, "SELECT DISTINCT connection FROM system.kafka_topics")
    assert {row["connection"] for row in others} == {"shop", "direct"}
    health = rows(headrace, "SELECT name, status, error FROM system.connections ORDER BY name")
    assert {row["name"]: row["status"] for row in health} == {"closed": "failed", "shop": "ok"}
    assert health[0]["error"].startswith("port: ")
    (one,) = rows(headrace, "SELECT * FROM system.connections WHERE name = 'shop'")
    assert (one["topic"], one["format"], one["type"]) == (orders, "json", "source")


def test_dead_letters_by_pipeline_and_reason(
    headrace: Headrace, cluster: Cluster, orders: str
) -> None:
    def letter(pipeline: str, error: str) -> Record:
        facts = {"pipeline": pipeline, "topic": orders, "partition": "0", "offset": "1"}
        headers = {**facts, "error": error}
        return Record(
            b"broken",
            headers=tuple((f"{HEADER_PREFIX}{n}", v.encode()) for n, v in headers.items()),
        )

    aside = f"{orders}-aside"  # only its table's option says that it holds letters
    assert headrace("topics", "create", aside, "-b", cluster.bootstrap).code == 0
    wrong = [letter("clean", "MALFORMED"), letter("clean", "MALFORMED"), letter("other", "MISSING")]
    records.produce(cluster, aside, wrong)
    found = rows(
        headrace,
        "SELECT pipeline, source, error, letters, redriven, oldest <= newest AS ordered "
        f"FROM system.dead_letters WHERE topic = '{aside}' AND connection = 'shop' "
        "ORDER BY letters DESC",
    )
    assert [tuple(row.values()) for row in found] == [
        ("clean", orders, "MALFORMED", 2, 0, 1),
        ("other", orders, "MISSING", 1, 0, 1),
    ]


def test_groups_are_listed_and_moved_by_a_connection(
    headrace: Headrace, cluster: Cluster, orders: str, unique: Unique, topic: TopicMaker
) -> None:
    group, other = unique("group"), topic("other")
    groups.commit(cluster, group, {(orders, 0): 2, (orders, 1): 2, (other, 0): 0})
    listed = headrace("kafka", "list-groups", "--connection", "shop", "-o", "json")
    assert group in {row["group"] for row in listed.value}

    reset = ("kafka", "reset-offset", "--connection", "shop", "--group", group)
    shown = headrace(*reset, "--to-earliest", "--dry-run", "-o", "json")
    assert [(row["topic"], row["old"], row["new"]) for row in shown.value] == [
        (orders, 2, 0),
        (orders, 2, 0),
    ]
    assert groups.committed(cluster, group)[orders, 0] == 2
    unasked = headrace(*reset, "--to-earliest")
    assert unasked.code == 2
    assert "add --yes" in unasked.err
    assert headrace(*reset, "--to-earliest", "--execute").code == 0
    # The other topic is not one of the connection's.
    assert groups.committed(cluster, group) == {(orders, 0): 0, (orders, 1): 0, (other, 0): 0}
    assert headrace(*reset, "--to-latest", "--topic", f"{orders}:1", "--yes").code == 0
    assert headrace(*reset, "--shift-by", "1", "--topic", f"{orders}:0", "--yes").code == 0
    assert groups.committed(cluster, group) == {(orders, 0): 1, (orders, 1): 2, (other, 0): 0}
    assert headrace(*reset, "--to-datetime", "1h", "--yes").code == 0
    assert groups.committed(cluster, group)[orders, 1] == 0
    server = ("--bootstrap-server", cluster.bootstrap, "--to-offset", "1", "--yes")
    assert headrace("kafka", "reset-offset", "--group", group, *server).code == 0
    assert groups.committed(cluster, group) == {(orders, 0): 1, (orders, 1): 1, (other, 0): 0}
    # A new group gets its first positions.
    first = ("kafka", "reset-offset", "--connection", "direct", "--group", unique("new"))
    assert headrace(*first, "--to-earliest", "--yes").code == 0

    both = headrace(*reset, "--to-earliest", "-b", cluster.bootstrap)
    assert "exclude each other" in both.err
    nobody = headrace("kafka", "list-groups", "--connection", "shopp")
    assert "did you mean `shop`?" in nobody.err
    assert headrace("kafka", "list-groups", "--connection", "closed").code == 3


def test_positions_with_readers_are_not_moved(
    headrace: Headrace, cluster: Cluster, orders: str, unique: Unique
) -> None:
    group = unique("busy")
    consumer = Consumer(cluster.client_config(group_id=group, client_id="reader"))
    try:
        consumer.subscribe([orders])

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        assert wait_until(joined, 30)
        reset = ("kafka", "reset-offset", "-c", "shop", "-g", group, "--to-earliest", "--yes")
        refused = headrace(*reset)
        assert refused.code == 4
        assert "GroupNotEmpty" in refused.err
        found = rows(
            headrace,
            "SELECT state, members, client_id FROM system.kafka_consumer_groups "
            f"WHERE group_id = '{group}' AND connection = 'shop'",
        )
        assert {tuple(row.values()) for row in found} == {("stable", 1, "reader")}
    finally:
        consumer.close()
