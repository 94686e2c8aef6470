"""`headrace dev` as a user runs it: real commands, real brokers, in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.folder import Folder

from headrace.cluster.dev import DevCluster
from headrace.cluster.guard import guarded
from headrace.cluster.process import wait_until
from headrace.errors import DiskFull
from headrace.project import Project

PATIENCE = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with guarded(tmp_path):
        yield Folder(tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A folder whose one broker runs, for tests that leave it so."""
    path = tmp_path_factory.mktemp("running")
    with guarded(path):
        made = Folder(path)
        made.up()
        yield made


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """A folder for tests that stop and start its one broker, in whatever state the last left it."""
    path = tmp_path_factory.mktemp("restarted")
    with guarded(path):
        made = Folder(path)
        # A broker that was killed is let in again only when its old session is over.
        made.up("-c", "broker.session.timeout.ms=2000", "-c", "broker.heartbeat.interval.ms=500")
        yield made


@pytest.fixture
def three(three_brokers: DevCluster, three_folder: Path) -> Folder:
    """The shared three brokers, by the commands of their folder."""
    assert three_brokers.running
    return Folder(three_folder)


def write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first `count` records of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def partition(bootstrap: str, topic: str) -> tuple[int, set[int]]:
    """Leader and in-sync replicas of partition 0."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10)
    described = found.topics[topic].partitions[0]
    return described.leader, set(described.isrs)


def test_up_makes_a_cluster_of_one_that_answers(running: Folder) -> None:
    status = running.status()

    (node,) = status["nodes"]
    metadata = AdminClient({"bootstrap.servers": status["bootstrap"]}).list_topics(timeout=10)
    assert list(metadata.brokers) == [1]
    assert metadata.cluster_id == status["cluster_id"]
    assert node["state"] == "running"
    assert node["address"] == status["bootstrap"]
    assert running.processes == [node["pid"]]


def test_a_second_up_says_that_it_runs_and_changes_nothing(running: Folder) -> None:
    before = running.status()

    answer = running.headrace("dev", "up")

    assert answer.code == 0
    assert answer.out.strip() == before["bootstrap"]
    assert "running already" in answer.err
    assert running.status() == before


def test_a_broker_is_out_of_reach_of_the_terminals_ctrl_c(running: Folder) -> None:
    (pid,) = running.processes

    assert os.getsid(pid) == pid


def test_a_broker_listens_on_one_loopback_address_only(running: Folder) -> None:
    port = int(running.status()["bootstrap"].rpartition(":")[2])

    with socket.socket() as probe:
        probe.settimeout(2)
        assert probe.connect_ex(("127.0.0.2", port)) != 0


def test_a_running_cluster_changes_neither_its_size_nor_its_port(running: Folder) -> None:
    size = running.headrace("dev", "up", "--brokers", 3)
    port = running.headrace("dev", "up", "--port", 1)

    assert (size.code, port.code) == (2, 2)
    assert "dev down --delete" in size.err
    assert "dev down" in port.err


def test_logs_are_kafkas_own_and_go_to_stdout(running: Folder) -> None:
    answer = running.headrace("dev", "logs", 1, "-n", 1000)

    assert answer.code == 0
    assert "Kafka Server started" in answer.out
    assert len(running.headrace("dev", "logs", "-n", 3).out.splitlines()) == 3


def test_a_node_that_does_not_exist_is_refused(running: Folder) -> None:
    answer = running.headrace("dev", "kill", 7)

    assert answer.code == 2
    assert "there is no node 7" in answer.err


def test_a_node_that_runs_is_not_started_twice(running: Folder) -> None:
    answer = running.headrace("dev", "start", 1)

    assert answer.code == 0
    assert "running already" in answer.err
    assert len(running.processes) == 1


def test_deleting_wants_a_yes(running: Folder) -> None:
    answer = running.headrace("dev", "down", "--delete")

    assert answer.code == 2
    assert "--yes" in answer.err
    assert running.status()["nodes"][0]["state"] == "running"


def test_data_and_cluster_id_outlive_down_and_up(restarted: Folder) -> None:
    bootstrap = restarted.up()
    before = restarted.status()
    write(bootstrap, "kept", [b"a", b"b", b"c"])

    assert restarted.headrace("dev", "down").code == 0
    assert restarted.processes == []
    assert restarted.status()["nodes"][0]["state"] == "stopped"
    # With all jars in the cache nothing is fetched: settings that do not exist go unnoticed.
    again = restarted.headrace("dev", "up", HEADRACE_IVY_SETTINGS="/nowhere/settings.xml")

    assert again.out.strip() == bootstrap
    assert restarted.status()["cluster_id"] == before["cluster_id"]
    assert read(bootstrap, "kept", 3) == [b"a", b"b", b"c"]


def test_a_killed_broker_is_seen_and_up_starts_it_again_with_its_data(restarted: Folder) -> None:
    bootstrap = restarted.up()
    write(bootstrap, "killed", [b"a"])
    (pid,) = restarted.processes

    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: restarted.processes == [], PATIENCE)

    assert restarted.status()["nodes"][0]["state"] == "crashed"
    unreachable = restarted.headrace("topics", "list")
    assert unreachable.code == 3
    assert f"no Kafka broker answers at {bootstrap}" in unreachable.err
    assert restarted.up() == bootstrap
    assert read(bootstrap, "killed", 1) == [b"a"]


def test_a_node_that_dies_while_starting_is_told_with_its_last_error(restarted: Folder) -> None:
    restarted.headrace("dev", "down")
    meta = restarted.path / ".headrace" / "dev" / "node-1" / "data" / "meta.properties"
    good = meta.read_text()
    meta.write_text(re.sub("node.id=1", "node.id=5", good))

    answer = restarted.headrace("dev", "up")
    meta.write_text(good)

    assert answer.code == 4
    assert "NodeFailed node 1 did not start" in answer.err
    assert "node.id" in answer.err or "node id" in answer.err
    assert "server.log" in answer.err
    assert restarted.processes == []


def test_a_stale_pid_file_is_not_believed(restarted: Folder) -> None:
    restarted.headrace("dev", "down")
    # The number now belongs to another program: this one.
    (restarted.path / ".headrace" / "dev" / "node-1" / "pid").write_text(f"{os.getpid()}\n")

    assert restarted.status()["nodes"][0]["pid"] is None
    assert "was not running" in restarted.headrace("dev", "kill", 1).err
    restarted.up()
    assert restarted.status()["nodes"][0]["state"] == "running"
    assert os.getpid() not in restarted.processes


def test_a_taken_port_is_told_before_anything_is_started(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = folder.headrace("dev", "up", "--port", port)

    assert answer.code == 4
    assert re.search(rf"PortTaken port {port} .*\n.*--port", answer.err)
    assert folder.processes == []
    assert folder.status() is None


def test_without_java_up_is_one_sentence(folder: Folder) -> None:
    answer = folder.headrace("dev", "up", "--port", 0, JAVA_HOME="/nowhere")

    assert answer.code == 4
    assert answer.err.startswith("JavaMissing Headrace needs Java 17 or newer")
    assert "Traceback" not in answer.err


def test_a_full_disk_is_told_before_anything_is_started(folder: Folder) -> None:
    with pytest.raises(DiskFull):
        DevCluster(Project(folder.path)).up(port=0, least_free_mb=10**12)

    assert folder.processes == []


def test_an_interrupted_up_leaves_nothing_running(folder: Folder) -> None:
    pid_file = folder.path / ".headrace" / "dev" / "node-1" / "pid"
    with subprocess.Popen(
        folder.command("dev", "up", "--port", 0), cwd=folder.path, stderr=subprocess.DEVNULL
    ) as command:
        assert wait_until(pid_file.exists, PATIENCE)
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE) == 130

    assert folder.processes == []


def test_a_killed_test_process_leaves_no_broker(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pathlib import Path; from headrace.testing.broker import kafka\n"
        f"with kafka(folder=Path({str(tmp_path)!r})) as cluster:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == -signal.SIGKILL
    assert wait_until(lambda: Folder(tmp_path).processes == [], PATIENCE)
    assert wait_until(lambda: not (tmp_path / ".headrace" / "dev").exists(), PATIENCE)


def test_without_a_cluster_every_verb_has_an_answer(folder: Folder) -> None:
    assert "dev up" in folder.headrace("dev", "status").err
    assert folder.headrace("dev", "down").code == 0
    assert folder.headrace("dev", "down", "--delete").code == 0
    assert folder.headrace("dev", "kill", 1).code == 2
    assert folder.headrace("dev", "logs").code == 2


def test_three_brokers_have_ids_ports_and_data_of_their_own(three: Folder) -> None:
    nodes = three.status()["nodes"]
    bootstrap = three.status()["bootstrap"]

    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
    assert sorted(metadata.brokers) == [1, 2, 3]
    assert len({node["address"] for node in nodes}) == 3
    assert len({node["pid"] for node in nodes}) == 3
    folders = [three.path / ".headrace" / "dev" / f"node-{number}" / "data" for number in (1, 2, 3)]
    assert all((data / "meta.properties").is_file() for data in folders)


def test_a_node_stops_and_starts_alone(three: Folder) -> None:
    assert three.headrace("dev", "stop", 2).code == 0
    assert [node["state"] for node in three.status()["nodes"]] == ["running", "stopped", "running"]

    assert three.headrace("dev", "start", 2).code == 0
    assert [node["state"] for node in three.status()["nodes"]] == ["running"] * 3


def test_killing_the_leader_moves_leadership_and_loses_nothing(three: Folder) -> None:
    bootstrap = three.status()["bootstrap"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = f"replicated-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, 1, 3)], operation_timeout=30)[topic].result()
    values = [f"record {number}".encode() for number in range(100)]
    write(bootstrap, topic, values)
    leader, in_sync = partition(bootstrap, topic)
    assert in_sync == {1, 2, 3}

    assert three.headrace("dev", "kill", leader).code == 0

    def moved() -> bool:
        new_leader, in_sync = partition(bootstrap, topic)
        return new_leader not in (leader, -1) and in_sync == {1, 2, 3} - {leader}

    assert wait_until(moved, PATIENCE)
    assert read(bootstrap, topic, 100) == values
    write(bootstrap, topic, [b"while one is down"])
    assert three.headrace("dev", "up").code == 0
    assert wait_until(lambda: partition(bootstrap, topic)[1] == {1, 2, 3}, PATIENCE)
    assert read(bootstrap, topic, 101) == [*values, b"while one is down"]


def test_down_with_delete_leaves_no_process_and_no_data(restarted: Folder) -> None:
    restarted.up()
    assert len(restarted.processes) == 1

    answer = restarted.headrace("dev", "down", "--delete", "--yes")

    assert answer.code == 0
    assert restarted.processes == []
    assert not (restarted.path / ".headrace" / "dev").exists()
    assert restarted.status() is None
