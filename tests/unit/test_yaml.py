"""YAML text to nodes with places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.frontend import yaml
from headrace.frontend.yaml import YamlFault
from headrace.spans import Diagnostic, Node, Span


def read(text: str) -> Node:
    node, faults = yaml.read(text, "p.yaml")
    assert faults == []
    return node


def faults(text: str) -> list[Diagnostic]:
    try:
        return yaml.read(text, "p.yaml")[1]
    except YamlFault as fault:
        return [fault.diagnostic]


def value(text: str) -> Node:
    root = read(text).value
    assert isinstance(root, dict)
    return root["a"].node


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a: x", "x"),
        ("a: 1", 1),
        ("a: -1_000", -1000),
        ("a: 1.5", 1.5),
        ("a: true", True),
        ("a: False", False),
        ("a: yes", "yes"),
        ("a: ~", None),
        ("a:", None),
        ("a: ''", ""),
        ("a: '1'", "1"),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 0x1F", "0x1F"),
        ("a: [1, b]", [1, "b"]),
        ("a: {b: 1}", {"b": 1}),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: >-\n  x\n  y\n", "x y"),
        ("a: &n x", "x"),
        (f"a: {'1' * 5000}", "1" * 5000),
    ],
)
def test_plain_yaml_types_are_read(text: str, plain: object) -> None:
    assert value(text).plain() == plain


@pytest.mark.parametrize("written", ["007", "1.10", "1e3", "1_000", "0x1F", "true"])
def test_a_scalar_remembers_how_it_was_written(written: str) -> None:
    assert value(f"a: {written}").text == written


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: x", (1, 4)),
        ("a: 'x'", (1, 5)),
        ('a:   "x"', (1, 7)),
        ("a:\n  x", (2, 3)),
        ("a: |\n  x\n", (2, 3)),
        ("a: |2-\n    x\n", (2, 5)),
        ("a: > # why\n\n   x\n", (3, 4)),
        ("a: |\n", (1, 4)),
        ("a: ''", (1, 5)),
        ("# ä\nb: 😀\na: x", (3, 4)),
        ("a: {b: c}", (1, 4)),
        ("b: &n 1\na: *n", (1, 4)),
    ],
)
def test_a_value_stands_where_its_text_begins(text: str, place: tuple[int, int]) -> None:
    span = value(text).span
    assert (span.line, span.column) == place


@pytest.mark.parametrize(
    ("text", "word", "place"),
    [
        ("a: SELECT id, nme", "nme", (1, 15)),
        ("a: SELECT id,\n      nme\n  FROM x", "nme", (2, 7)),
        ("a: 'SELECT id, nme'", "nme", (1, 16)),
        ('a: "SELECT id,\n  nme"', "nme", (2, 3)),
        ("a: |\n  SELECT id,\n    nme\n", "nme", (3, 5)),
        ("a: >\n  SELECT id,\n  nme\n", "nme", (3, 3)),
        ('a: "SELECT \\"x\\", nme"', "nme", (1, 5)),
        ("a: 'it''s nme'", "nme", (1, 5)),
    ],
)
def test_a_word_inside_a_text_is_found_however_the_text_is_broken(
    text: str, word: str, place: tuple[int, int]
) -> None:
    found = value(text)
    span = found.span.within(str(found.value), str(found.value).index(word))
    assert (span.line, span.column) == place


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("", "EMPTY_FILE", (1, 1)),
        ("# only\n", "EMPTY_FILE", (1, 1)),
        ("a: 1\nb: 2\na: 3\n", "KEY_TWICE", (3, 1)),
        ("a:\n\tb: 1\n", "YAML_SYNTAX", (2, 1)),
        ("a: b: c\n", "YAML_SYNTAX", (1, 5)),
        ("a: {b: c\n", "YAML_SYNTAX", (2, 1)),
        ("a:\n  b: c\n d: e\n", "YAML_SYNTAX", (3, 2)),
        ("a: 1\n---\nb: 2\n", "YAML_SYNTAX", (2, 1)),
        ("a: *nobody\n", "YAML_SYNTAX", (1, 4)),
        ("? [a]\n: b\n", "BAD_KEY", (1, 3)),
        ("a: !!python/object/apply:os.system [x]\n", "BAD_TAG", (1, 4)),
        ("a: !mine x\n", "BAD_TAG", (1, 4)),
        ("a:\n  <<: 3\n", "BAD_KEY", (2, 7)),
        ("a: " + "[" * 60 + "]" * 60, "YAML_TOO_DEEP", (1, 44)),
        ("[" * 1500, "YAML_SYNTAX", (1, 1)),
        ("a: &a [*a]\n", "YAML_TOO_DEEP", (1, 4)),
        ("x" * (yaml.MAX_BYTES + 1), "YAML_TOO_LARGE", (1, 1)),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_place(
    text: str, code: str, place: tuple[int, int]
) -> None:
    found = faults(text)
    assert [(fault.code, fault.span) for fault in found] == [(code, Span("p.yaml", *place))]


def test_an_alias_bomb_ends_as_a_fault() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert [fault.code for fault in faults("\n".join(lines))] == ["YAML_TOO_DEEP"]


def test_merged_keys_yield_to_those_that_stand_there() -> None:
    text = "x: &x {p: 1, q: 1}\ny: &y {q: 2, r: 2}\na:\n  p: 0\n  <<: [*x, *y]\n"
    assert value(text).plain() == {"p": 0, "q": 1, "r": 2}


@settings(max_examples=300)
@given(st.text(st.sampled_from(list("ab:- \n\t{}[]|>'\"#&*!?%@`,<0.~\u2028é\x00\r")), max_size=40))
def test_any_text_is_read_or_is_a_yaml_fault(text: str) -> None:
    for fault in faults(text):
        lines = text.split("\n")
        assert 1 <= fault.span.line <= len(lines)
        assert 1 <= fault.span.column <= len(lines[fault.span.line - 1]) + 1


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_unicode_is_read_or_is_a_yaml_fault(text: str) -> None:
    faults(text)
