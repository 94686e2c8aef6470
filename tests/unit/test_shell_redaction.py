"""Secrets in statements are hidden, whatever the statement is like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.shell.redaction import redacted, shown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("CREATE SECRET s AS 'hunter2'", "CREATE SECRET s AS '(hidden)'"),
        ("create or replace secret s as 'hunter2';", "create or replace secret s as '(hidden)';"),
        ("CREATE SECRET IF NOT EXISTS s AS 'a''b'", "CREATE SECRET IF NOT EXISTS s AS '(hidden)'"),
        ("CREATE /* a ' */ SECRET s AS 'x' 'y'", None),
        ("CREATE SECRET s AS 'never closed", "CREATE SECRET s AS '(hidden)'"),
        ("CREATE SECRET s 'hunter2'", "CREATE SECRET s '(hidden)'"),
        ("CREATE SECRET s FROM ENV 'KAFKA'", "CREATE SECRET s FROM ENV 'KAFKA'"),
        ("( user = 'a', password = 'b' )", "( user = 'a', password = '(hidden)' )"),
        ("( 'auth.password' = 'b' )", "( 'auth.password' = '(hidden)' )"),
        ("( `ssl.key.password` = 5 )", "( `ssl.key.password` = '(hidden)' )"),
        ("( password = '${secret:k}' )", "( password = '${secret:k}' )"),
        ("( password = 'x${secret:k}' )", "( password = '(hidden)' )"),
        ("( 'schema_registry.api_key' = \"k\" )", "( 'schema_registry.api_key' = '(hidden)' )"),
        ("( 'schema_registry.username' = 'u' )", "( 'schema_registry.username' = '(hidden)' )"),
        (
            "( schema_registry = ( endpoint = 'http://a', api_secret = 'x' ) )",
            "( schema_registry = ( endpoint = 'http://a', api_secret = '(hidden)' ) )",
        ),
        (
            "( serde_config = ( schema_registry_password = 'x', schema_classpath = 'B' ) )",
            "( serde_config = ( schema_registry_password = '(hidden)', schema_classpath = 'B' ) )",
        ),
        ("SELECT 'hunter2' AS a -- password = 'b'", "SELECT 'hunter2' AS a -- password = 'b'"),
        ("SHOW SECRETS; SELECT 'CREATE SECRET'", "SHOW SECRETS; SELECT 'CREATE SECRET'"),
    ],
)
def test_values_of_secrets_are_hidden_and_nothing_else(text: str, safe: str | None) -> None:
    if safe is None:
        assert "'x'" not in redacted(text)
        assert "'y'" not in redacted(text)
    else:
        assert redacted(text) == safe


@given(st.text(alphabet="'\"`=();-/*abs \n\\$") | st.text())
def test_any_text_can_be_redacted_again(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@given(st.text(alphabet="abcxyz0123 _!%&=();\n", min_size=1))
def test_a_value_is_never_in_what_is_shown(value: str) -> None:
    marked = f"KEEP{value}OUT"
    text = f"CREATE SECRET s AS '{marked}'; CREATE CONNECTION c TO kafka ( password = '{marked}' )"
    assert "KEEP" not in redacted(text)


def test_options_are_shown_unless_their_name_says_otherwise() -> None:
    assert shown("topic", "orders") == "orders"
    assert shown("auth.password", "x") == "(hidden)"
    assert shown("auth.password", "${secret:x}") == "${secret:x}"
