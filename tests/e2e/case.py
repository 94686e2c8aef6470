"""One accepted case: a folder with a pipeline, its input, and what must come out.

pipeline.yaml            reads and writes topics that begin with ${env:CASE}
input.jsonl              records, in the order they are produced
output.SINK.jsonl        what each sink must hold, in any order
dead.TOPIC.jsonl         the dead letters in that topic; without a file there must be none
case.yaml                optional: `schedules`, where not all of them fit
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from ruamel.yaml import YAML

import headrace
from headrace.admin import places, reading, records, topics
from headrace.admin.client import Cluster
from headrace.formats.deadletter import HEADER_PREFIX
from headrace.plan.promises import EXACTLY_ONCE
from headrace.project import Project
from headrace.sinks.delta import DeltaSink
from headrace.sinks.files import FilesSink
from headrace.sinks.jdbc import JdbcSink
from headrace.sinks.kafka import KafkaSink
from headrace.testing.postgres import Database

CASES = Path(__file__).parent.parent / "cases" / "accepted"


@dataclass(frozen=True)
class Case:
    name: str

    @property
    def folder(self) -> Path:
        return CASES / self.name

    @property
    def schedules(self) -> list[str]:
        file = self.folder / "case.yaml"
        told = YAML(typ="safe").load(file.read_text()) if file.exists() else {}
        return list(told.get("schedules", ["slices", "crash"]))

    @property
    def needs_database(self) -> bool:
        return "CASE_DATABASE" in (self.folder / "pipeline.yaml").read_text()

    @property
    def input(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "input.jsonl")

    def expected(self, kind: str) -> dict[str, list[Any]]:
        """By sink (`output`) or by topic (`dead`)."""
        return {
            file.name.removeprefix(f"{kind}.").removesuffix(".jsonl"): _lines(file)
            for file in sorted(self.folder.glob(f"{kind}.*.jsonl"))
        }


@dataclass
class CaseRun:
    """A case with topics and a folder of its own, which the environment already names."""

    case: Case
    prefix: str
    folder: Path
    cluster: Cluster
    spark: SparkSession
    database: Database | None = None

    def __post_init__(self) -> None:
        self.definition = headrace.api.Definition(
            self.case.folder / "pipeline.yaml", Project(self.folder)
        )
        for topic in {record["topic"] for record in self.case.input}:
            topics.ensure(self.cluster, f"{self.prefix}.{topic}", partitions=2)

    def produce(self, lines: list[dict[str, Any]]) -> None:
        by_topic: dict[str, list[records.Record]] = {}
        for line in lines:
            record = records.Record(
                value=_bytes(line["value"]),
                key=_bytes(line.get("key")),
                partition=line.get("partition", 0),
            )
            by_topic.setdefault(f"{self.prefix}.{line['topic']}", []).append(record)
        for topic, batch in by_topic.items():
            records.produce(self.cluster, topic, batch).raise_if_rejected()

    def run(self) -> None:
        self.definition.run(spark=self.spark, once=True)

    def found(self) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """What the sinks and the dead-letter topics hold now."""
        plan = self.definition.plan
        output: dict[str, list[Any]] = {}
        for sink in plan.sinks:
            if isinstance(sink, KafkaSink):
                output[sink.name] = [
                    _message(each) for topic in sink.topics for each in self._read(topic)
                ]
            elif isinstance(sink, DeltaSink):
                output[sink.name] = self._rows("delta", sink.path)
            elif isinstance(sink, FilesSink):
                output[sink.name] = self._rows(sink.format, sink.path)
            elif isinstance(sink, JdbcSink) and self.database is not None:
                table = sink.sink.options["table"]
                found = self.database.execute(f'SELECT to_jsonb(t) FROM "{table}" AS t')
                output[sink.name] = [row for (row,) in found]
        dead = {}
        for source in plan.sources:
            topic = source.dead_letter_topic
            if topic:
                letters = [_letter(each) for each in self._read(topic)]
                if letters:
                    dead[topic.removeprefix(f"{self.prefix}.")] = letters
        return output, dead

    @property
    def exact(self) -> set[str]:
        """The sinks to which each record is promised exactly once."""
        plan = self.definition.plan
        kept = {promise.target: promise.kept for promise in plan.promises}
        return {sink.name for sink in plan.sinks if kept[sink.target] == EXACTLY_ONCE}

    @property
    def points(self) -> list[str]:
        """The failpoints that a run of this case passes."""
        plan = self.definition.plan
        alone = any(query.aside and not query.aside.beside for query in plan.queries)
        aside = alone and any(query.aside and query.aside.topic for query in plan.queries)
        steps = ["batch.noted", "batch.written", "batch.stored", "batch.closed"]
        batch = steps if plan.in_batches else []
        return [*(["write.aside"] if aside else []), "write.sink", "write.done", *batch]

    def _read(self, topic: str) -> list[records.Record]:
        if not topics.exists(self.cluster, topic):
            return []
        until = reading.Until(end=True)
        return list(reading.consume(self.cluster, topic, places.Earliest(), until))

    def _rows(self, form: str, path: str) -> list[Any]:
        options = {"header": "true", "inferSchema": "true"}
        rows = self.spark.read.format(form).options(**options).load(path)
        return [json.loads(line) for line in rows.selectExpr(_ALL).toPandas()["row"]]


_ALL = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"


def multiset(lines: list[Any]) -> Counter[str]:
    return Counter(json.dumps(line, sort_keys=True) for line in lines)


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _message(record: records.Record) -> dict[str, Any]:
    return {"key": _text(record.key), "value": json.loads(record.value or b"null")}


def _letter(record: records.Record) -> dict[str, Any]:
    headers = {name: _text(value) for name, value in record.headers}
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "partition": int(headers[f"{HEADER_PREFIX}partition"] or -1),
        "offset": int(headers[f"{HEADER_PREFIX}offset"] or -1),
        "error": headers[f"{HEADER_PREFIX}error"],
    }
