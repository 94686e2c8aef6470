"""Whatever is typed, it ends in statements and diagnostics with places inside the text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sql_statements import STATEMENTS

from headrace.frontend.load import survey
from headrace.frontend.sql.dialect import translate
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import (
    CreatePipeline,
    CreateTable,
    CreateView,
    Fragment,
    Insert,
    Select,
    Statement,
)
from headrace.frontend.sql.tokens import Sort, is_complete, tokenize
from headrace.spans import Diagnostic, Span

TIMES = {"orders": "at", "large": "at"}
WORDS = sorted({token.text for text in STATEMENTS for token in tokenize(text)} | {"'", '"', "`"})


def fragments(statement: Statement) -> list[Fragment]:
    """The SQL inside a statement."""
    if isinstance(statement, CreateTable):
        generated = [column.generated for column in statement.columns or ()]
        return [each for each in generated if each is not None]
    if isinstance(statement, CreatePipeline | CreateView):
        inserts = statement.inserts if isinstance(statement, CreatePipeline) else ()
        return [each for each in (statement.query, *(i.query for i in inserts)) if each]
    return [statement.query] if isinstance(statement, Insert | Select) else []


def examine(text: str) -> None:
    """Parses and translates all of it; places must be of the text."""
    statements, faults = parse(text, "p.sql")
    for statement in statements:
        assert statement.text in text
        for fragment in fragments(statement):
            translated, more = translate(fragment, TIMES)
            again, _ = translate(
                Fragment(translated.sql, Span("p.sql", 1, 1, translated.sql)), TIMES
            )
            assert more or again.sql == translated.sql
            faults += more
    for fault in faults:
        assert_inside(fault, text)
    is_complete(text)


def assert_inside(fault: Diagnostic, text: str) -> None:
    lines = text.split("\n")
    assert fault.message
    assert 1 <= fault.span.line <= len(lines)
    assert 1 <= fault.span.column <= len(lines[fault.span.line - 1]) + 1


@given(st.text())
def test_any_text(text: str) -> None:
    examine(text)


@given(st.text(alphabet="()[]<>'\"`;,.:=-*/\\ \n1aASELCTFROM\x00é"))
def test_any_text_of_the_letters_that_matter(text: str) -> None:
    examine(text)


@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_in_any_order(words: list[str]) -> None:
    examine(" ".join(words))


@given(st.sampled_from(STATEMENTS), st.lists(st.sampled_from(WORDS), min_size=1, max_size=30))
def test_a_beginning_with_any_words_after_it(statement: str, words: list[str]) -> None:
    tokens = tokenize(statement)
    examine(statement[: tokens[len(words) % len(tokens)].start] + " ".join(words))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement with some words left out, doubled, exchanged or replaced."""
    tokens = [token.text for token in tokenize(draw(st.sampled_from(STATEMENTS)))]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        change = draw(st.sampled_from(("drop", "double", "exchange", "replace", "insert")))
        if change == "drop" and len(tokens) > 1:
            del tokens[at]
        elif change == "double":
            tokens.insert(at, tokens[at])
        elif change == "exchange":
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif change == "replace":
            tokens[at] = draw(st.sampled_from(WORDS))
        else:
            tokens.insert(at, draw(st.sampled_from(WORDS)))
    return " ".join(tokens)


@given(mutated(), mutated())
def test_statements_with_slips(first: str, second: str) -> None:
    examine(f"{first};\n{second}")


SHOP = """
CREATE CONNECTION shop TO kafka ( bootstrap_servers = 'localhost:9092', topic = 'orders' );
CREATE TABLE orders ( id BIGINT, name TEXT, at TIMESTAMP, meta JSON, tags TEXT[], price DOUBLE,
    WATERMARK FOR at ) WITH ( connector = 'shop' );
CREATE TABLE sink WITH ( connector = 'console' );
"""


@given(mutated(), mutated())
def test_files_with_slips_are_understood_as_far_as_they_can_be(first: str, second: str) -> None:
    text = f"{SHOP}{first};\n{second}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.sql")
        path.write_text(text, encoding="utf-8", newline="")
        for fault in survey(path).faults:
            assert_inside(fault, text)


@given(st.sampled_from(STATEMENTS), st.integers(0, 2_000), st.characters())
def test_statements_with_one_other_letter(statement: str, at: int, letter: str) -> None:
    at %= len(statement)
    examine(statement[:at] + letter + statement[at + 1 :])


@given(st.sampled_from(STATEMENTS), st.integers(0, 2_000))
def test_statements_that_are_cut_off(statement: str, at: int) -> None:
    examine(statement[: at % len(statement)])


@given(st.lists(st.sampled_from(STATEMENTS), max_size=4), st.data())
def test_what_stands_between_faults_is_read(statements: list[str], data: st.DataObject) -> None:
    """A broken statement takes none of those around it with it."""
    broken = data.draw(st.sampled_from(("CRAETE x", "SHOW TABLE", "DROP x", "CREATE VIEW v AS (")))
    text = "".join(f"{statement};\n{broken};\n" for statement in statements)
    found, faults = parse(text, "p.sql")
    read = [each.text for each in found if each.text in statements]
    assert read == statements
    assert len(faults) == len(statements)


@given(st.text())
def test_tokens_are_the_text_less_its_spaces_and_comments(text: str) -> None:
    tokens = tokenize(text)
    assert tokens[-1].sort is Sort.END
    assert all(text[token.start : token.end] == token.text for token in tokens)
    starts = [token.start for token in tokens]
    assert starts == sorted(starts)
