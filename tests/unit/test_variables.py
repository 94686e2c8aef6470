"""References to environment variables."""

from __future__ import annotations

import pytest

from headrace.frontend import yaml
from headrace.frontend.variables import substitute
from headrace.spans import Diagnostic

ENVIRON = {"HOST": "kafka", "EMPTY": ""}


def replaced(text: str) -> tuple[object, list[Diagnostic]]:
    tree, _ = yaml.read(text, "p.yaml")
    node, faults = substitute(tree, ENVIRON)
    return node.plain(), faults


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a: ${env:HOST}", {"a": "kafka"}),
        ("a: ${env:HOST}:${env:PORT:-9092}", {"a": "kafka:9092"}),
        ("a: [x, {b: '${env:HOST}'}]", {"a": ["x", {"b": "kafka"}]}),
        ("a: x${env:EMPTY}y", {"a": "xy"}),
        ("a: ${env:NOPE:-}", {"a": ""}),
        ("a: ${HOST} $HOST ${other:x}", {"a": "${HOST} $HOST ${other:x}"}),
        ("${env:HOST}: a", {"${env:HOST}": "a"}),
        ("a: 1", {"a": 1}),
    ],
)
def test_references_in_values_are_replaced(text: str, plain: object) -> None:
    assert replaced(text) == (plain, [])


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("a: ${env:NOPE}", "UNDEFINED_VARIABLE", 4),
        ("a: host-${env:NOPE}", "UNDEFINED_VARIABLE", 9),
        ("a: ${env:}", "BAD_VARIABLE", 4),
        ("a: ${env:1X}", "BAD_VARIABLE", 4),
        ("a: ${env:HOST", "BAD_VARIABLE", 4),
        ("a: ${secret:kafka}", "UNDEFINED_SECRET", 4),
        ("a: ${secret:}", "BAD_VARIABLE", 4),
        ("a: ${file:x}", "BAD_VARIABLE", 4),
    ],
)
def test_what_cannot_be_replaced_is_a_fault_at_its_place(text: str, code: str, column: int) -> None:
    _, faults = replaced(text)
    assert [(fault.code, fault.span.column) for fault in faults] == [(code, column)]
