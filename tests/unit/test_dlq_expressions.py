"""Expressions about dead letters, as far as they are understood without Spark."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.runtime.letter_expressions import parse_patches, parse_where


def fault(text: str) -> str:
    with pytest.raises(DefinitionError) as raised:
        parse_where(text)
    return "\n".join(map(str, raised.value.diagnostics))


def test_an_expression_about_a_letter_is_taken_as_it_is() -> None:
    for text in (
        "error = 'MALFORMED_RECORD' AND attempts = 0",
        "json:customer.id::bigint IN (1, 2)",
        "headers['trace'] IS NOT NULL -- a comment",
        "time > current_timestamp() - INTERVAL 1 HOUR",
        "value LIKE '%NaN%'",
    ):
        assert parse_where(text).text == text


def test_a_bad_expression_is_told_with_its_place() -> None:
    misspelt = "--where:1:1 UNKNOWN_COLUMN `errror` is not a column of a letter"
    assert fault("errror = 'X'") == f"{misspelt} (did you mean `error`?)"
    assert fault("attempts > 0 AND valeu = ''").startswith("--where:1:18 UNKNOWN_COLUMN")
    assert fault("attempts >").startswith("--where:1:")
    assert "FORBIDDEN_FUNCTION" in fault("java_method('java.lang.System', 'exit', 0)")
    for text in ("", "*", "value, key", "count(value) > 1", "(SELECT 1) = 1", "explode(headers)"):
        assert "SQL_SYNTAX" in fault(text), text


def test_a_patch_says_what_it_sets() -> None:
    patches = parse_patches(["key = upper(key)", "json:amount=0", "json:`a b` = NULL"])
    assert [(patch.part, patch.field) for patch in patches] == [
        ("key", None),
        ("value", "amount"),
        ("value", "a b"),
    ]
    assert patches[0].expression.text == "upper(key)"


@pytest.mark.parametrize(
    "texts",
    [
        ["upper(value)"],
        ["topic = 'x'"],
        ["value == 'x'"],
        ["value = ''", "value = 'x'"],
        ["value = ''", "json:id = 1"],
        ["value = "],
    ],
)
def test_a_patch_that_sets_nothing_or_too_much_is_refused(texts: list[str]) -> None:
    with pytest.raises(DefinitionError):
        parse_patches(texts)


def test_a_fault_in_a_patch_is_placed_after_what_it_sets() -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_patches(["value = concat(vlaue, '')"])
    (found,) = raised.value.diagnostics
    assert str(found.span) == "--patch:1:16"
