"""How the code view writes calls and SQL: nothing changes but white space, and lines are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.codeview.recording import Code, Recorded, render, secret_code
from headrace.codeview.sql_text import pretty

WORDS = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]|[^\s'`(),]+")


def words(sql: str) -> list[str]:
    return WORDS.findall(sql)


class Said:
    """Notes of what is finished, with one secret."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def act(self, statement: Recorded) -> None:
        self.statements.append(render(statement))

    def embed(self, function: Callable[..., Any]) -> str:
        return function.__name__

    def hide(self, value: Any) -> Any:
        return secret_code(value, {"hunter2": "PASSWORD"}) if isinstance(value, str) else value


def spark(said: Said | None = None) -> Recorded:
    return Recorded(("spark",), said or Said())


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "`b c`", "'it''s, (so)'", "'}\\\\n{'", "x.y", "1.5", "NULL"]),
    lambda inner: st.one_of(
        st.builds(lambda args: f"f({', '.join(args)})", st.lists(inner, max_size=4)),
        st.builds(lambda a, b: f"{a} AND {b}", inner, inner),
        st.builds(lambda a, b, c: f"{a} BETWEEN {b} AND {c}", inner, inner, inner),
        st.builds(lambda a, b: f"CASE WHEN {a} THEN {b} ELSE {a} END", inner, inner),
        st.builds(lambda a: f"NOT ({a}) AS `end`", inner),
    ),
    max_leaves=30,
)


@given(EXPRESSIONS, st.integers(20, 90))
def test_sql_over_several_lines_has_the_same_words(sql: str, width: int) -> None:
    assert words("\n".join(pretty(sql, width))) == words(sql)


def test_a_long_condition_is_broken_before_and_and_or() -> None:
    assert pretty("first_one = 1 OR (second = 2 AND third = 3) OR fourth_one = 4", 30) == [
        "first_one = 1",
        "  OR (",
        "    second = 2 AND third = 3",
        "  )",
        "  OR fourth_one = 4",
    ]


def test_names_and_values_of_a_struct_stay_side_by_side() -> None:
    assert pretty("named_struct('topic', topic, 'offset', offset) AS origin", 30) == [
        "named_struct(",
        "  'topic', topic,",
        "  'offset', offset",
        ") AS origin",
    ]


def test_calls_come_back_as_code() -> None:
    frame = spark().read.format("kafka").options(a="1", b=True).load()
    assert render(frame) == 'spark.read.format("kafka").option("a", "1").option("b", True).load()'


def test_what_acts_is_a_statement_and_what_describes_is_none() -> None:
    said = Said()
    kept = spark(said).table("t").persist()
    kept.where("a > 1").write.format("delta").save("path")
    kept.unpersist()
    assert said.statements == [
        'spark.table("t").persist()',
        'spark.table("t").where("a > 1").write.format("delta").save("path")',
        'spark.table("t").unpersist()',
    ]


def test_a_secret_is_read_from_the_environment() -> None:
    reader = spark().read.options(password="hunter2", url="db://me:hunter2@db")
    assert render(reader).splitlines()[1:3] == [
        """    spark.read.option("password", os.environ['PASSWORD'])""",
        """    .option("url", f"db://me:{os.environ['PASSWORD']}@db")""",
    ]


def test_code_in_text_becomes_an_expression() -> None:
    assert render(str(Code("batch_id"))) == "str(batch_id)"
    assert render(f"app.{Code('generation')}.{{x}}") == 'f"app.{generation}.{{x}}"'


@given(st.text(st.characters(exclude_characters="⟦⟧", exclude_categories=["Cs"])))
def test_a_text_is_itself_again(text: str) -> None:
    if "\n" not in text and len(text) < 60:
        assert ast.literal_eval(render(text)) == text


def test_a_long_chain_has_a_call_a_line() -> None:
    frame = spark().readStream.format("kafka").options(one="x" * 40, two="y" * 40).load()
    assert render(frame, "", 6) == "\n".join(
        [
            "(",
            '    spark.readStream.format("kafka")',
            f'    .option("one", "{"x" * 40}")',
            f'    .option("two", "{"y" * 40}")',
            "    .load()",
            ")",
        ]
    )
