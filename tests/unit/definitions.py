"""Definitions for tests, written as text."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from headrace.api import load
from headrace.frontend.load import examine
from headrace.model.pipeline import Pipeline
from headrace.plan.planner import plan
from headrace.plan.stages import Plan
from headrace.spans import Diagnostic

OPTIONS = """\
connector_type: kafka
bootstrap_server: localhost:9092
topic: {topic}
schema: id BIGINT NOT NULL, name STRING, amount DOUBLE
"""


def kafka(topic: str = "orders", **options: object) -> str:
    """The options of a Kafka source."""
    lines = [f"{name}: {value}" for name, value in options.items()]
    return OPTIONS.format(topic=topic) + "".join(f"{line}\n" for line in lines)


def below(key: str, text: str) -> str:
    """`text` as the value of `key`."""
    return f"{key}:\n{indent(dedent(text), '  ')}"


SOURCE = below("source", kafka())
SINK = "sink:\n  connector_type: kafka\n  topic: out\n"
CONSOLE = "sink:\n  connector_type: console\n"


def steps(*sql: str) -> str:
    """Steps of one line each."""
    return "transform:\n" + "".join(f"  - sql: {each}\n" for each in sql)


def write(folder: Path, text: str, name: str = "p.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def pipeline(folder: Path, *parts: str) -> Pipeline:
    found, faults = examine(write(folder, "".join(parts)))
    assert found is not None, faults
    return found


def faults(folder: Path, *parts: str) -> list[Diagnostic]:
    return load(write(folder, "".join(parts))).check()


def codes(folder: Path, *parts: str) -> list[str]:
    """`line:column CODE` of every fault."""
    return [
        f"{fault.span.line}:{fault.span.column} {fault.code}" for fault in faults(folder, *parts)
    ]


def planned(folder: Path, *parts: str) -> Plan:
    return plan(pipeline(folder, *parts))
