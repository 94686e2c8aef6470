"""`headrace dlq` on a real broker: letters are seen, and moved once each, whatever is killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace import load
from headrace.admin import letters_moved, records, topics
from headrace.admin.letters import ATTEMPTS, HEADER_PREFIX, Letter
from headrace.admin.records import Record
from headrace.cli import main

from .conftest import Bench

WAIT_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)

    @property
    def moved(self) -> int:
        return sum(row["letters"] for row in self.value if row["outcome"] == "moved")

    @property
    def left(self) -> dict[str, int]:
        return {row["detail"]: row["letters"] for row in self.value if row["outcome"] == "left"}


@dataclass
class Letters:
    """A topic with dead letters of `bench.topic`, and the command line about it."""

    bench: Bench
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    @property
    def topic(self) -> str:
        return f"{self.bench.topic}.dlq"

    def write(self, values: Iterable[bytes], **facts: object) -> None:
        """Letters as `formats.deadletter` makes them; each value is its own key."""
        first = {"topic": self.bench.topic, "partition": 1, "error": "MALFORMED_RECORD"}
        made = [
            Record(value, value, _headers({**first, "offset": offset, **facts}))
            for offset, value in enumerate(values)
        ]
        records.produce(self.bench.cluster, self.topic, made).raise_if_rejected()

    def headrace(self, *arguments: object) -> Answer:
        """`dlq` and a verb on this topic, in this process; not where it would start Spark."""
        verb, *rest = arguments
        self.monkeypatch.setattr(sys, "stdin", io.StringIO())
        self.capsys.readouterr()
        code = main._run(["dlq", *map(str, (verb, self.topic, *rest, *self._server))])
        return Answer(code, *self.capsys.readouterr())

    def list_all(self) -> list[dict[str, Any]]:
        """`dlq list` without a name."""
        self.capsys.readouterr()
        assert main._run(["dlq", "list", "-o", "json", *self._server]) == 0
        return list(json.loads(self.capsys.readouterr().out))

    def redrive(self, *arguments: object) -> Answer:
        return self.headrace("redrive", "--yes", "-o", "json", *arguments)

    def process(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        words = ["dlq", "redrive", self.topic, "--yes", *arguments, *self._server]
        return subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.bench.folder,
            env={**os.environ, **environment},
        )

    def arrived(self, topic: str | None = None) -> Counter[bytes | None]:
        """How often each value has come back."""
        return Counter(record.value for record in self.bench.read(topic or self.bench.topic))

    def await_arrival(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.arrived():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    @property
    def _server(self) -> tuple[str, str]:
        return "--bootstrap-server", self.bench.cluster.bootstrap


def _headers(facts: dict[str, object]) -> records.Headers:
    ours = ((HEADER_PREFIX + name, str(value).encode()) for name, value in facts.items())
    return (("trace", b"\xff\x00"), *ours)


def _values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def _once(values: Iterable[bytes]) -> Counter[bytes | None]:
    return Counter(list(values))


@pytest.fixture
def letters(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Letters:
    topics.create(bench.cluster, f"{bench.topic}.dlq", partitions=2)
    return Letters(bench, capsys, monkeypatch)


def test_letters_are_listed_and_shown_with_what_is_known_of_them(letters: Letters) -> None:
    letters.write(_values(3), message="not JSON", pipeline="clean", timestamp=1772366400000)
    letters.write([b"\xff\x1b[31m", b"{}"], error="MISSING", attempts=2, message="no `id`")
    records.produce(letters.bench.cluster, letters.topic, [Record(b"stranger")])

    listed = letters.headrace("list", "-o", "json").value
    assert [(row["error"], row["source"], row["letters"], row["redriven"]) for row in listed] == [
        ("MALFORMED_RECORD", letters.bench.topic, 3, 0),
        ("MISSING", letters.bench.topic, 2, 0),
        (None, None, 1, 0),
    ]
    assert letters.topic in {row["topic"] for row in letters.list_all()}

    (first,) = letters.headrace(
        "show", "--offsets", "1-1", "-e", "MALFORMED_RECORD", "-o", "json"
    ).value
    assert (first["key"], first["value"]) == ("1", "1")
    assert first["source"] == {
        "topic": letters.bench.topic,
        "partition": 1,
        "offset": 1,
        "timestamp": 1772366400000,
    }
    assert (first["message"], first["pipeline"], first["attempts"]) == ("not JSON", "clean", 0)
    assert first["headers"] == [{"key": "trace", "value": "/wA=", "encoding": "base64"}]

    text = letters.headrace("show", "--contains", "no `id`")
    assert "\x1b" not in text.out
    assert "value    \\xff\\x1b[31m" in text.out
    assert f"{letters.bench.topic}[1]@0" in text.out
    assert "attempts 2" in text.out
    assert "no `id`" in text.out
    assert "2 letters" in text.err
    newest = letters.headrace("show", "-n", 1, "--newest", "--error", "MISSING", "-o", "json").value
    assert len(newest) == 1
    some = letters.headrace("show", "-n", 2)
    assert "there are more" in some.err
    place = f"{first['partition']}@{first['offset']}"
    assert letters.headrace("show", "--letter", place, "-o", "json").value == [first]
    assert letters.headrace("show", "--since", "2999-01-01", "-o", "json").value == []
    assert len(letters.headrace("show", "--until", "2999-01-01", "-o", "json").value) == 6
    assert letters.headrace("show", "-p", 0, "-o", "json").value == []


def test_a_letter_goes_back_as_it_came_and_only_once(letters: Letters) -> None:
    now = int(time.time() * 1000) - 5000
    letters.write(_values(40), timestamp=now, message="why")
    planned = letters.headrace("redrive", "--dry-run", "-o", "json")
    assert (planned.moved, planned.code) == (40, 0)
    refused = letters.headrace("redrive")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert letters.arrived() == {}

    # Out of the middle first, then the rest, then what is new.
    assert letters.redrive("--offsets", "10-19").moved == 10
    assert letters.arrived() == _once(_values(10, 10))
    answer = letters.redrive()
    assert (answer.moved, answer.code) == (30, 0)
    assert {"outcome": "moved earlier", "letters": 10, "detail": None} in answer.value
    assert letters.redrive().moved == 0
    letters.write(_values(2, 40))
    assert letters.redrive().moved == 2
    assert letters.arrived() == _once(_values(42))

    record = next(each for each in letters.bench.read(letters.bench.topic) if each.value == b"7")
    assert (record.key, record.partition, record.timestamp) == (b"7", 1, now)
    assert record.headers == (("trace", b"\xff\x00"), (ATTEMPTS, b"1"))
    assert letters.headrace("show", "-o", "json").value == []
    assert len(letters.headrace("show", "--redriven", "-n", 99, "-o", "json").value) == 42
    (listed,) = letters.headrace("list", "-o", "json").value
    assert (listed["letters"], listed["redriven"]) == (42, 42)


@pytest.mark.parametrize("point", ["begun", "produced:2", "noted:2", "committed:2"])
def test_a_redrive_that_is_killed_moves_each_letter_once(letters: Letters, point: str) -> None:
    letters.write(_values(300))
    victim = letters.process("--rate", "100/s", HEADRACE_FAILPOINT=f"redrive.{point}")
    assert victim.wait(WAIT_SECONDS) == -signal.SIGKILL
    before = letters.redrive("--dry-run").moved
    assert before == {"begun": 300, "committed:2": 100}.get(point, 200)
    assert letters.redrive().moved == before
    assert letters.redrive().moved == 0
    assert letters.arrived() == _once(_values(300))


def test_of_two_redrives_the_later_one_wins_and_the_other_says_so(letters: Letters) -> None:
    letters.write(_values(300))
    first = letters.process("--rate", "20/s")
    letters.await_arrival()
    second = letters.redrive()
    _, told = first.communicate(timeout=WAIT_SECONDS)
    assert first.returncode == 4, told
    assert "RedriveTakenOver" in told
    assert 0 < second.moved < 300
    assert letters.redrive().moved == 0
    assert letters.arrived() == _once(_values(300))


def test_letters_that_cannot_go_stay_and_are_counted(
    letters: Letters, topic: Callable[..., str]
) -> None:
    bench = letters.bench
    other = topic("parked")
    compacted = f"{bench.topic}.compacted"
    topics.create(bench.cluster, compacted, partitions=1, config={"cleanup.policy": "compact"})
    letters.write([b"gone"], topic="no-such-topic")
    letters.write([b"tired"], attempts=3)
    letters.write([b"old"], timestamp=1000)
    letters.write([b"good"])
    keyless = Record(b"keyless", None, _headers({"topic": compacted, "partition": 0}))
    keyed = Record(b"keyed", b"k", _headers({"topic": compacted, "partition": 0}))
    records.produce(bench.cluster, letters.topic, [keyless, keyed, Record(b"stranger")])

    answer = letters.redrive()
    assert answer.code == 4
    assert "LettersLeft" in answer.err
    assert answer.moved == 2
    assert answer.left == {
        "NO_TOPIC": 1,
        "TOO_MANY_ATTEMPTS": 1,
        "TOO_OLD": 1,
        "NOT_A_LETTER": 1,
        "REJECTED": 1,
    }
    assert letters.arrived() == _once([b"good"])
    assert letters.arrived(compacted) == _once([b"keyed"])
    assert not topics.exists(bench.cluster, "no-such-topic")

    assert letters.redrive("--to", other, "--timestamp", "now", "--max-attempts", 9).moved == 4
    assert letters.arrived(other) == _once([b"gone", b"tired", b"old", b"keyless"])
    tired = next(each for each in bench.read(other) if each.value == b"tired")
    assert dict(tired.headers)[ATTEMPTS] == b"4"
    assert letters.redrive("--to", letters.topic).code == 2
    assert letters.redrive("--to", "nowhere").code == 4
    assert letters.redrive("--property", "isolation.level=read_uncommitted").code == 2


def test_notes_are_about_one_life_of_a_topic_and_go_with_its_letters(
    letters: Letters, delete_records: Callable[[str, dict[int, int]], None]
) -> None:
    cluster, notes = letters.bench.cluster, letters_moved.notes_topic(letters.topic)
    letters.write(_values(10))
    assert letters.redrive().moved == 10
    topics.delete(cluster, [letters.topic])
    topics.create(cluster, letters.topic, partitions=1)
    letters.write(_values(1200))
    assert letters.redrive("--to", letters.bench.topic).moved == 1200
    delete_records(letters.topic, {0: 1100})
    letters.write([b"last"])
    assert letters.redrive().moved == 1
    newest = {record.key: record.value for record in letters.bench.read(notes)}
    kept = [json.loads(key or b"") for key, value in newest.items() if value is not None]
    assert [key["from"] for key in kept] == [1000]

    stranger = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": notes})
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(notes, b"{}", b"{}")
    stranger.flush(30)
    refused = letters.redrive()
    assert (refused.code, "NotesHidden" in refused.err) == (3, True)
    stranger.abort_transaction(30)
    assert letters.redrive().moved == 0


PIPELINE = """
pipeline: NAME
mode: stream
source:
  connector_type: kafka
  bootstrap_server: SERVERS
  topic: TOPIC
  auto_offset_reset: earliest
  schema: "id BIGINT NOT NULL, amount DOUBLE"
sink:
  connector_type: kafka
  topic: TOPIC.out
"""


def test_a_record_that_always_fails_is_counted_and_stopped(
    bench: Bench,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = Letters(bench, capsys, monkeypatch)
    file = bench.write(PIPELINE)
    record = Record(b'{"id": 1, "am', b"k", (("trace", b"t"),))
    records.produce(bench.cluster, bench.topic, [record, Record(b'{"id": 2}')])
    for _ in range(2):
        load(file).run(spark, once=True)
        assert letters.redrive("--max-attempts", 2).moved == 1
    load(file).run(spark, once=True)
    found = [Letter.of(each) for each in bench.read(letters.topic)]
    assert [letter.attempts for letter in found] == [0, 1, 2]
    assert all(letter.headers == (("trace", b"t"),) for letter in found)
    names = Counter(name for name, _ in found[-1].record.headers)
    assert set(names.values()) == {1}
    guarded = letters.redrive("--max-attempts", 2)
    assert (guarded.code, guarded.moved, guarded.left) == (0, 0, {"TOO_MANY_ATTEMPTS": 1})
    assert [value["id"] for value in bench.values(f"{bench.topic}.out")] == [2]
    capsys.readouterr()
    assert main._run(["dlq", "show", str(file), "-o", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["attempts"], shown["pipeline"], shown["source"]["topic"]) == (
        *(2, bench.name),
        bench.topic,
    )
