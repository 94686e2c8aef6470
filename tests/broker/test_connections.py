"""`test_connection` against real servers: Kafka, PostgreSQL, TLS, and some that do not answer."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from headrace.admin import groups
from headrace.admin.client import Cluster
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stores import RegistryAddress, opened
from headrace.shell import connections, kafka_checks, sockets
from headrace.shell.connections import Failed, Report
from headrace.shell.known import Connection
from headrace.testing.fixtures import TopicMaker
from headrace.testing.postgres import Database

Headrace = Callable[..., Any]
Unique = Callable[[str], str]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not answer here never will."""
    monkeypatch.setattr(kafka_checks, "ASK_SECONDS", 3.0)
    monkeypatch.setattr(sockets, "TCP_SECONDS", 1.0)


def report(connector: str, **options: str) -> Report:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return connections.examine(Connection("c", connector, named), Path("/"))


def results(found: Report) -> dict[str, str]:
    return {step.check: str(step.result) for step in found.steps}


def failure(found: Report) -> tuple[str, str, str]:
    step = found.failure
    assert step is not None, found
    return step.check, step.detail, step.cure or ""


@contextmanager
def listening(serve: Callable[[socket.socket], None] | None = None) -> Iterator[int]:
    """A port of this machine; each that connects to it is served, or left without an answer."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                held.append(client)
                if serve is not None:
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)  # a port stays open as long as someone accepts
        for client in held:
            client.close()


# Kafka


def test_a_connection_that_is_well_passes_every_check(
    headrace: Headrace,
    cluster: Cluster,
    topic: TopicMaker,
    unique: Unique,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    orders, group = topic("orders", 3), unique("readers")
    groups.commit(cluster, group, {(orders, 0): 0})
    made = (
        f"CREATE CONNECTION good TO kafka ( bootstrap_servers = '{cluster.bootstrap}', "
        f"topic = '{orders}', group_id = '{group}', type = 'source', format = 'json' )"
    )
    assert headrace("sql", "-c", made).code == 0
    answer = headrace("sql", "-o", "json", "-c", "SELECT test_connection('good')")
    assert answer.code == 0, answer.err
    assert [(row["check"], row["result"]) for row in answer.value] == [
        ("address", "ok"),
        ("port", "ok"),
        ("brokers", "ok"),
        ("topic", "ok"),
        ("permission", "ok"),
        ("group", "ok"),
    ]
    details = {row["check"]: row["detail"] for row in answer.value}
    assert details["topic"] == f"{orders} has 3 partitions"
    assert details["permission"] == "may read and write"
    assert details["group"] == f"{group} is empty, 0 members"


def test_topics_that_are_missing_matched_or_made_later(
    cluster: Cluster, topic: TopicMaker, unique: Unique
) -> None:
    servers, orders = cluster.bootstrap, topic("orders")
    missing = report("kafka", bootstrap_server=servers, topic=orders + "x", type="source")
    assert failure(missing)[0] == "topic"
    assert orders in failure(missing)[2]
    sink = report("kafka", bootstrap_server=servers, topic=unique("new"), type="sink")
    assert sink.ok
    assert "is made by the first run" in sink.steps[-2].detail
    closed = {"create_topic": "false", "type": "sink"}
    assert not report("kafka", bootstrap_server=servers, topic=unique("new"), **closed).ok
    pattern = report("kafka", bootstrap_server=servers, topic_pattern=f"{orders[:-2]}.*")
    assert "1 match" in {step.check: step.detail for step in pattern.steps}["topic"]
    nothing = report("kafka", bootstrap_server=servers, topic_pattern=unique("none"))
    assert failure(nothing)[0] == "topic"
    rows = report("kafka", bootstrap_server=servers, topic="orders.${region}", type="sink")
    assert rows.ok
    new = report("kafka", bootstrap_server=servers, consumer_group=unique("new"))
    assert new.steps[-1].detail.endswith("is new")


def test_a_registry_is_asked_for_the_subject_of_the_topic(
    cluster: Cluster, topic: TopicMaker, registry_url: str
) -> None:
    orders = topic("orders")
    options = {"bootstrap_server": cluster.bootstrap, "topic": orders, "type": "source"}
    there = {**options, "schema_registry__url": registry_url}
    check, detail, _ = failure(report("kafka", **there))
    assert check == "registry"
    assert f"{orders}-value is not among them" in detail
    store = opened(RegistryAddress("confluent", registry_url, None, None))
    store.register(f"{orders}-value", SchemaType.AVRO, '"long"')
    assert results(report("kafka", **there))["registry"] == "ok"
    nowhere = report("kafka", **options, schema_registry__endpoint="http://127.0.0.1:1")
    assert failure(nowhere)[0] == "registry"
    assert results(nowhere)["topic"] == "ok"


def test_a_server_that_is_not_there_is_told_apart_from_one_that_is_mute(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = report("kafka", bootstrap_server="nobody.invalid:9092", topic="orders")
    assert failure(unknown)[:2] == ("address", "no address is known for nobody.invalid")
    monkeypatch.setattr(kafka_checks, "ASK_SECONDS", 1.0)
    with listening() as port:
        mute = report("kafka", bootstrap_server=f"127.0.0.1:{port}", topic="orders")
        assert results(mute) | {"topic": "not tried"} == results(mute)
        assert failure(mute)[0] == "brokers"
        login = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN"}
        user = {"auth__username": "me", "auth__password": "hunter2"}
        mute = report("kafka", bootstrap_server=f"127.0.0.1:{port}", **login, **user)
        assert failure(mute)[0] == "login"
        assert "hunter2" not in str(mute)
        jdbc = f"jdbc:postgresql://127.0.0.1:{port}/shop"
        assert failure(report("jdbc", url=jdbc, user="me"))[0] == "login"
    monkeypatch.setattr(kafka_checks, "ASK_SECONDS", 5.0)
    closed = report("kafka", bootstrap_server=f"127.0.0.1:{port}")
    assert failure(closed)[0] == "port"
    assert "refused" in failure(closed)[1]
    half = report("kafka", bootstrap_server=f"127.0.0.1:{port},{cluster.bootstrap}")
    assert half.ok
    assert "refused" in half.steps[1].detail


class Unhelpful:
    """The admin client of a cluster that sends clients elsewhere, and allows them little."""

    def __init__(self, admin: Any, host: str, port: int, allowed: list[AclOperation]) -> None:
        self._admin = admin
        self._node = SimpleNamespace(id=1, host=host, port=port, rack=None)
        self._allowed = allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    def describe_cluster(self, **_settings: Any) -> Future[Any]:
        return _done(SimpleNamespace(nodes=[self._node]))

    def describe_topics(self, topics: Any, **settings: Any) -> dict[str, Future[Any]]:
        found = self._admin.describe_topics(topics, **settings)
        if not settings.get("include_authorized_operations"):
            return dict(found)
        told = SimpleNamespace(authorized_operations=self._allowed)
        return {name: _done(told) for name in found}


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_brokers_that_send_us_elsewhere_and_forbid_what_is_needed(
    cluster: Cluster, topic: TopicMaker
) -> None:
    options = {"bootstrap_server": cluster.bootstrap, "topic": topic("orders")}
    with listening() as closed:
        pass
    for role, allowed, said in (
        ("source", [AclOperation.DESCRIBE, AclOperation.WRITE], "may not be read"),
        ("sink", [AclOperation.DESCRIBE, AclOperation.READ], "may not be written"),
    ):
        test = kafka_checks._Kafka(Connection("c", "kafka", {**options, "type": role}))
        admin: Any = Unhelpful(cluster.admin, "127.0.0.1", closed, allowed)
        test._connected = replace(cluster, admin=admin)
        with pytest.raises(Failed, match=f"come to 127.0.0.1:{closed}") as elsewhere:
            test.brokers()
        assert "advertised.listeners" in (elsewhere.value.cure or "")
        with pytest.raises(Failed, match=said):
            test.permission()
    either = kafka_checks._Kafka(Connection("c", "kafka", options))
    either._connected = test._connected
    assert either.permission() == "may read"


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Signed by itself, for the name localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    file, key = folder / "certificate.pem", folder / "key.pem"
    words = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, "-out", file, "-keyout", key], check=True, capture_output=True)
    return file, key


def test_tls_fails_by_its_certificate_and_says_what_to_do(certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    def serve(client: socket.socket) -> None:
        try:
            context.wrap_socket(client, server_side=True).recv(1)
        except OSError:
            client.close()

    asked = {"security__protocol": "SSL"}
    trusted = asked | {"ssl__ca__location": str(certificate[0])}
    with listening(serve) as port:
        stranger = report("kafka", bootstrap_server=f"localhost:{port}", **asked)
        assert failure(stranger)[0] == "tls"
        assert "self-signed" in failure(stranger)[1]
        assert "'ssl.ca.location'" in failure(stranger)[2]
        named = report("kafka", bootstrap_server=f"127.0.0.1:{port}", **trusted)
        assert failure(named)[0] == "tls"
        assert failure(named)[2] == "name the servers as the certificate does"
        known = report("kafka", bootstrap_server=f"localhost:{port}", **trusted)
        assert results(known)["tls"] == "ok"  # and then it speaks no Kafka
        assert failure(known)[0] == "brokers"
        plain = report("kafka", bootstrap_server=f"localhost:{port}")
        assert failure(plain)[1] == "the port takes connections by TLS only"
    with listening(lambda client: client.close()) as port:
        none = report("kafka", bootstrap_server=f"localhost:{port}", **trusted)
        assert "is this the port for TLS?" in failure(none)[2]


# PostgreSQL


def test_a_database_is_tested_to_the_permission(database: Database, unique: Unique) -> None:
    database.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
    login = {"url": database.url, "user": database.user, "password": database.password}
    good = report("jdbc", **login, table="orders", type="source")
    assert good.ok, good
    details = {step.check: step.detail for step in good.steps}
    assert details["login"].startswith(f"logged in as {database.user}, PostgreSQL ")
    assert details["table"] == "orders has 2 columns"
    assert details["permission"] == "may SELECT and INSERT"

    wrong = report("jdbc", **{**login, "password": "hunter2"})
    assert failure(wrong)[0] == "login"
    assert failure(wrong)[2] == "correct `user` and `password`"
    assert "hunter2" not in str(wrong)
    nowhere = report("jdbc", **{**login, "url": database.url + "x"})
    assert "CREATE DATABASE" in failure(nowhere)[2]
    missing = report("jdbc", **login, table="ordres", type="source")
    assert failure(missing)[:2] == ("table", "there is no table ordres")
    made = report("jdbc", **login, table="later", type="sink")
    assert made.ok
    assert report("jdbc", **login, table="later", type="sink", create_table="false").ok is False

    reader = unique("reader").replace("-", "_")
    database.execute(f"CREATE USER {reader} PASSWORD 'word'")
    database.execute(f"GRANT SELECT ON orders TO {reader}")
    lent = {"url": database.url, "user": reader, "password": "word", "table": "orders"}
    assert report("jdbc", **lent, type="source").ok
    refused = report("jdbc", **lent, type="sink")
    assert failure(refused)[0] == "permission"
    assert f"GRANT INSERT ON orders TO {reader}" in failure(refused)[2]

    tls = report("jdbc", **{**login, "url": database.url + "?sslmode=require"})
    assert failure(tls)[0] == "login"
    assert "turn TLS on" in failure(tls)[2]


def test_a_query_is_understood_and_not_run(database: Database) -> None:
    database.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
    login = {"url": database.url, "user": database.user, "password": database.password}
    assert report("jdbc", **login, query="SELECT id FROM orders WHERE id > 3").ok
    wrong = report("jdbc", **login, query="SELECT amount FROM orders")
    assert failure(wrong)[0] == "query"
    assert "amount" in failure(wrong)[1]
    two = report("jdbc", **login, query="SELECT 1; DROP TABLE orders")
    assert failure(two)[0] == "query"
    assert database.execute("SELECT count(*) FROM orders") == [(0,)]


def test_what_is_no_database_is_told(cluster: Cluster) -> None:
    url = f"jdbc:postgresql://{cluster.bootstrap}/shop"
    assert failure(report("jdbc", url=url, user="me"))[0] == "login"

    def speak(client: socket.socket) -> None:
        client.recv(8)
        client.sendall(json.dumps({"not": "PostgreSQL"}).encode())

    with listening(speak) as port:
        other = report("jdbc", url=f"jdbc:postgresql://127.0.0.1:{port}/shop", user="me")
        assert "not PostgreSQL" in failure(other)[2]
