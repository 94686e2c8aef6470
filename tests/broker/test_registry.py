"""`headrace dev up --registry` and `headrace schemas`, with the real registry."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from tests.broker.folder import Answer, Folder

from headrace.cli import main
from headrace.cluster.guard import guarded

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
Unique = Callable[[str], str]


@dataclass(frozen=True)
class Home(Folder):
    """A folder with a registry at `url`, and what was said before it had one."""

    url: str
    before: Any
    missing: Answer
    taken: Answer

    def file(self, name: str, content: Any) -> Path:
        file = self.path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One broker and one registry for all tests here; each leaves both running."""
    path = tmp_path_factory.mktemp("registry")
    with guarded(path):
        made = Folder(path)
        made.up()
        before = made.status()["registry"]
        missing = made.headrace("dev", "stop", "registry")
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = made.headrace("dev", "up", "--registry-port", other.getsockname()[1])
        made.up("--registry", "--registry-port", 0)
        yield Home(path, made.status()["registry"]["url"], before, missing, taken)


@pytest.fixture
def schemas(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """`schemas("list")` runs that command in this process, in that folder."""
    monkeypatch.chdir(home.path)

    def run(*arguments: object, stdin: str = "") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main._run(["schemas", *map(str, arguments)])
        return Answer(code, *capsys.readouterr())

    return run


Schemas = Callable[..., Answer]


def fields(*more: object, **changed: object) -> dict[str, Any]:
    """The order with these fields besides its id, whose type may be another."""
    return {**ORDER, "fields": [{"name": "id", "type": changed.get("id", "long")}, *more]}


# The process


def test_up_starts_a_registry_beside_the_broker_on_the_loopback_address_only(home: Home) -> None:
    status = home.status()
    registry = status["registry"]

    assert (registry["state"], registry["url"]) == ("running", home.url)
    assert sorted(home.processes) == sorted([status["nodes"][0]["pid"], registry["pid"]])
    with socket.socket() as probe:
        probe.settimeout(2)
        assert probe.connect_ex(("127.0.0.2", urlsplit(home.url).port)) != 0
    assert "registry  running" in home.headrace("dev", "status").out
    assert "h2" in home.headrace("dev", "logs", "registry", "-n", 1000).out
    named = home.headrace("dev", "logs", "-n", 1).out.splitlines()
    assert [line.partition("|")[0] for line in named] == ["1", "registry"]


def test_a_second_up_says_that_it_runs_and_another_port_is_refused(home: Home) -> None:
    again = home.headrace("dev", "up")
    moved = home.headrace("dev", "up", "--registry-port", 1)

    assert again.code == 0
    assert f"registry was running already, at {home.url}" in again.err
    assert moved.code == 2
    assert "dev stop registry" in moved.err


def test_a_folder_has_no_registry_until_one_is_asked_for(home: Home) -> None:
    assert home.before is None
    assert (home.missing.code, "dev up --registry" in home.missing.err) == (2, True)
    assert (home.taken.code, "--registry-port" in home.taken.err) == (4, True)


def test_schemas_outlive_a_stop_a_crash_and_a_time_without_a_registry(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    first, second = unique("stopped"), unique("killed")

    stopped = schemas("register", first, home.file("a.avsc", ORDER))
    home.headrace("dev", "down")
    processes = home.processes
    unheard = schemas("list")
    home.headrace("dev", "up")
    # Killed right after its answer.
    killed = schemas("register", second, home.file("b.avsc", fields(NOTE)))
    home.headrace("dev", "kill", "registry")
    crashed = home.status()["registry"]["state"]
    database = home.path / ".headrace" / "dev" / "registry" / "data" / "registry.mv.db"
    kept = database.read_bytes()
    database.write_bytes(b"no database")
    failed = home.headrace("dev", "start", "registry")
    database.write_bytes(kept)
    started = home.headrace("dev", "start", "registry")
    home.headrace("dev", "up", "--no-registry")
    without = (home.status()["registry"], len(home.processes))
    home.headrace("dev", "up", "--registry-port", urlsplit(home.url).port)

    assert (processes, unheard.code, crashed) == ([], 3, "crashed")
    assert f"no schema registry answers at {home.url}" in unheard.err
    assert (failed.code, "the registry did not start: Failed" in failed.err) == (4, True)
    assert "The registry is running" in started.err
    assert without == (None, 1)
    ids = {row["subject"]: row["id"] for row in schemas("list", "-o", "json").value}
    assert (ids[first], ids[second]) == (int(stopped.out), int(killed.out))
    assert schemas("compatibility").out == "BACKWARD\n"


def test_columns_of_a_topic_are_those_of_this_folders_registry(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    topic = unique("sampled")
    home.headrace("topics", "create", topic)
    (home.path / "rows").write_text('{"id": 1, "seen": true}\n')
    home.headrace("produce", topic, "rows")

    sampled = home.headrace("infer", topic, "--as", "schema")
    schemas("register", f"{topic}-value", home.file("order.avsc", ORDER))
    known = home.headrace("infer", topic, "--as", "schema")
    anyway = home.headrace("infer", topic, "--as", "schema", "--sample", 5)

    assert (sampled.code, sampled.out) == (0, "id BIGINT, seen BOOLEAN\n")
    assert (known.code, known.out) == (0, "id BIGINT\n")
    assert f"from {topic}-value, version 1" in known.err
    assert anyway.out == sampled.out
    glue = home.headrace("schemas", "list", "--registry", "glue://eu-central-1")
    assert (glue.code, "which AWS Glue has not" in glue.err) == (2, True)


# The schemas


def test_a_schema_is_registered_once_and_shown(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    subject = unique("orders-value")
    file = home.file("order.avsc", ORDER)

    new = schemas("register", subject, file)
    again = schemas("register", subject, file, "-o", "json").value
    second = schemas("register", subject, home.file("b.avsc", fields(NOTE)), "-o", "json").value

    assert again == {"subject": subject, "version": 1, "id": int(new.out), "new": False}
    assert (second["version"], second["new"]) == (2, True)
    shown = schemas("show", subject, "--version", 1)
    assert json.loads(shown.out) == ORDER
    assert f"{subject} version 1, id {again['id']}, AVRO" in shown.err
    whole = schemas("show", subject, "-o", "json").value
    assert (whole["version"], json.loads(whole["schema"])) == (2, fields(NOTE))
    assert subject in schemas("show", "--id", second["id"]).err
    client = SchemaRegistryClient({"url": home.url})
    assert json.loads(client.get_schema(second["id"]).schema_str or "") == fields(NOTE)
    (row,) = schemas("list", "--prefix", subject, "-o", "json").value
    assert (row["type"], row["id"], row["versions"]) == ("AVRO", second["id"], [1, 2])


def test_each_type_is_known_by_its_file_and_may_use_others(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    money, order, person = unique("money"), unique("order-value"), unique("person-value")
    used = home.file("money.proto", 'syntax = "proto3"; message Money { int64 units = 1; }')
    uses = home.file(
        "order.proto",
        'syntax = "proto3"; import "money.proto"; message Order { Money total = 1; }',
    )
    text = json.dumps({"type": "object", "properties": {"name": {"type": "string"}}})

    assert schemas("register", money, used).code == 0
    assert schemas("register", order, uses, "--reference", f"money.proto={money}:1").code == 0
    assert schemas("register", person, "-", stdin=text).code == 0

    whole = schemas("show", order, "-o", "json").value
    assert whole["type"] == "PROTOBUF"
    assert whole["references"] == [{"name": "money.proto", "subject": money, "version": 1}]
    assert schemas("show", person, "-o", "json").value["type"] == "JSON"
    in_use = schemas("delete", money, "--yes")
    assert in_use.code == 4
    assert f"SchemaInUse {money} is not deleted, as other schemas use it: {order} version 1" in (
        in_use.err
    )


def test_a_check_says_what_a_registration_would_and_what_is_different(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    subject = unique("orders-value")
    first = schemas("check", subject, home.file("order.avsc", ORDER))
    schemas("register", subject, home.file("order.avsc", ORDER))
    good = schemas("check", subject, home.file("good.avsc", fields(NOTE)))
    bad = schemas("check", subject, home.file("bad.avsc", fields(id="string")), "-o", "json")
    refused = schemas("register", subject, home.path / "bad.avsc")
    known = schemas("check", subject, home.path / "order.avsc")

    assert (first.code, good.code, bad.code, refused.code, known.code) == (0, 0, 4, 4, 0)
    assert "it would be the first (level BACKWARD)" in first.err
    assert good.out == "+ note: null | string, default null\n"
    assert "held against version 1" in good.err
    assert bad.value["differences"] == [{"path": "id", "before": "long", "after": "string"}]
    assert (bad.value["accepted"], bad.value["against"]) == (False, [1])
    assert "IncompatibleSchema" in bad.err
    assert "STRING not compatible with writer type: LONG" in refused.err
    assert "as version 1" in known.err
    assert schemas("show", subject, "-o", "json").value["version"] == 1


def test_a_check_by_a_transitive_level_holds_against_every_version(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    """The third can be read into from the second, and not from the first."""
    subject = unique("orders-value")
    number = {"name": "n", "type": "int"}
    schemas("register", subject, home.file("a.avsc", ORDER))
    schemas("register", subject, home.file("b.avsc", fields({**number, "default": 0})))
    third = home.file("c.avsc", fields(number))

    by_newest = schemas("check", subject, third, "-o", "json").value
    level = schemas("compatibility", subject, "--set", "backward_transitive")
    by_all = schemas("check", subject, third, "-o", "json").value

    assert (by_newest["accepted"], by_newest["against"]) == (True, [2])
    assert level.out == "BACKWARD_TRANSITIVE\n"
    assert (by_all["accepted"], by_all["against"]) == (False, [1, 2])
    assert schemas("register", subject, third).code == 4


def test_levels_are_those_of_a_subject_or_of_all(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    subject = unique("orders-value")
    schemas("register", subject, home.file("a.avsc", ORDER))

    assert schemas("compatibility", subject).out == "BACKWARD\n"
    assert schemas("compatibility", subject, "--set", "FULL", "-o", "json").value == {
        "subject": subject,
        "level": "FULL",
        "own": True,
    }
    assert schemas("compatibility", subject, "--unset").out == "BACKWARD\n"
    not_kept = schemas("compatibility", subject, "--set", "NONE")
    assert not_kept.code == 4
    assert "LevelNotKept" in not_kept.err
    try:
        assert schemas("compatibility", "--set", "NONE").out == "NONE\n"
        assert schemas("compatibility", "--set", "none").out == "NONE\n"
        any_schema = schemas("check", subject, home.file("b.avsc", fields(id="string")))
        assert "any schema is (level NONE)" in any_schema.err
        assert schemas("register", subject, home.path / "b.avsc").code == 0
    finally:
        assert schemas("compatibility", "--set", "BACKWARD").out == "BACKWARD\n"


def test_what_is_deleted_is_hidden_and_then_gone(
    home: Home, schemas: Schemas, unique: Unique
) -> None:
    subject = unique("orders-value")
    schemas("register", subject, home.file("a.avsc", ORDER))
    schemas("register", subject, home.file("b.avsc", fields(NOTE)))

    unasked = schemas("delete", subject)
    one = schemas("delete", subject, "--version", 1, "--yes")
    hidden = schemas("list", "--prefix", subject, "--deleted", "-o", "json").value
    schemas("delete", subject, "--yes")
    listed = schemas("list", "--prefix", subject, "-o", "json").value
    for_good = schemas("delete", subject, "--permanent", "--yes")
    after = schemas("list", "--prefix", subject, "--deleted", "-o", "json").value

    assert (unasked.code, one.code, for_good.code) == (2, 0, 0)
    assert "add --yes" in unasked.err
    assert [(row["versions"], row["deleted"]) for row in hidden] == [([2], [1])]
    assert (listed, after) == ([], [])
    assert "deleted for good" in for_good.err
    assert "version 1, 2" in for_good.err
    missing = schemas("delete", subject, "--yes")
    assert (missing.code, "UnknownSubject" in missing.err) == (4, True)


def test_what_is_missing_or_wrong_is_told_with_what_to_do(
    home: Home, schemas: Schemas, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = unique("orders-value")
    schemas("register", subject, home.file("a.avsc", ORDER))
    broken = home.file("broken.avsc", fields({"name": "x", "type": "nosuch"}))
    root = home.url.removesuffix("/apis/ccompat/v7")

    nearest = schemas("show", subject[:-1])
    assert (nearest.code, f"did you mean `{subject}`?" in nearest.err) == (4, True)
    version = schemas("show", subject, "--version", 7)
    assert (version.code, f"version 7 of {subject} does not exist" in version.err) == (4, True)
    for verb in ("check", "register"):
        invalid = schemas(verb, subject, broken)
        assert (invalid.code, "InvalidSchema" in invalid.err) == (4, True)
    wrong_path = schemas("list", "--registry", root)
    assert (wrong_path.code, "/apis/ccompat/v7" in wrong_path.err) == (4, True)
    # A registry on this machine is not looked for behind the proxy of the environment.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    login = schemas("list", "-r", home.url.replace("//", "//ann:s3cret@"), "--prefix", subject)
    assert (login.code, subject in login.out) == (0, True)
