"""What is suggested at a place of a statement that is being typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import Catalog
from headrace.project import Project
from headrace.shell.completion import suggest
from headrace.shell.known import Known
from headrace.shell.names import Names

STATEMENTS = {
    ("connection", "events_in"): "CREATE CONNECTION events_in TO kafka ( bootstrap_servers = "
    "'localhost:9092', topic = 'events', type = 'source', format = 'json' )",
    ("table", "orders"): "CREATE TABLE orders ( id BIGINT NOT NULL, customer TEXT, at TIMESTAMP, "
    "WATERMARK FOR at ) WITH ( connector = 'events_in' )",
    ("table", "clean"): "CREATE TABLE clean WITH ( connector = 'console', type = 'sink' )",
    ("view", "buyers"): "CREATE VIEW buyers AS SELECT id, customer AS who FROM orders",
    ("view", "all_buyers"): "CREATE VIEW all_buyers AS SELECT * FROM buyers",
    ("view", "round"): "CREATE VIEW round AS SELECT * FROM round",
    ("pipeline", "daily"): "CREATE PIPELINE daily WITH ( sink = 'clean' ) AS SELECT id FROM orders",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Names:
    catalog = Catalog.of(Project(tmp_path_factory.mktemp("catalog")))
    for (kind, name), text in STATEMENTS.items():
        catalog.put(kind, name, text)
    return Names(Known.of(catalog), ["kafka_password"])


def suggested(text: str, names: Names) -> list[str]:
    """`|` is the cursor."""
    before, _, after = text.partition("|")
    return [each.text for each in suggest(before + after, len(before), names)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("cr|", "create"),
        ("CR|", "CREATE"),
        ("SELECT 1; sh|", "show"),
        ("CREATE OR |", "REPLACE"),
        ("CREATE |", "SECRET"),
        ("CREATE OR REPLACE VI|", "VIEW"),
        ("CREATE CONNECTION c |", "TO"),
        ("CREATE CONNECTION c TO |", "kafka"),
        ("CREATE CONNECTION c TO kafka ( |", "type = "),
        ("CREATE CONNECTION c TO kafka ( boot|", "bootstrap_servers = "),
        ("CREATE CONNECTION c TO kafka ( format = |", "'json'"),
        ("CREATE CONNECTION c TO kafka ( format = 'r|", "raw'"),
        ("CREATE CONNECTION c TO kafka ( include_metadata = |", "true"),
        ("CREATE CONNECTION c TO kafka ( 'auth.pass|", "auth.password' = "),
        ("CREATE CONNECTION c TO kafka ( auth|", "'auth.type' = "),
        ("CREATE CONNECTION c TO kafka ( format = 'confluent_a|", "confluent_avro'"),
        ("CREATE CONNECTION c TO kafka ( 'schema_registry.e|", "schema_registry.endpoint' = "),
        ("CREATE CONNECTION c TO kafka ( 'schema_registry.type' = |", "'confluent'"),
        (
            "CREATE CONNECTION c TO kafka ( 'schema_registry.api_secret' = |",
            "'${secret:kafka_password}'",
        ),
        ("CREATE CONNECTION c TO kafka ( 'auth.password' = |", "'${secret:kafka_password}'"),
        ("CREATE CONNECTION c TO jdbc ( password = |", "'${secret:kafka_password}'"),
        ("CREATE CONNECTION c TO jdbc ( url = 'x${secret:|", "x${secret:kafka_password}"),
        ("CREATE TABLE t ( |", "WATERMARK FOR"),
        ("CREATE TABLE t ( id INT, name TE|", "TEXT"),
        ("CREATE TABLE t ( id INT |", "NOT NULL"),
        ("CREATE TABLE t ( id INT ) |", "WITH"),
        ("CREATE TABLE t ( id INT ) WITH ( |", "connector = "),
        ("CREATE TABLE t ( id INT ) WITH ( connector = |", "'events_in'"),
        ("CREATE TABLE t WITH ( connector = 'events_in', dl|", "dlq_topic = "),
        ("CREATE VIEW v AS |", "SELECT"),
        ("CREATE PIPELINE p WITH ( |", "sink = "),
        ("CREATE PIPELINE p WITH ( sink = '|", "orders'"),
        ("CREATE PIPELINE p WITH ( guarantee = |", "'at_least_once'"),
        ("CREATE PIPELINE p AS BEGIN INSERT INTO |", "orders"),
        ("INSERT |", "INTO"),
        ("INSERT INTO cl|", "clean"),
        ("INSERT INTO clean |", "SELECT"),
        ("INSERT INTO clean SELECT * FROM b|", "buyers"),
        ("SELECT | FROM orders", "id"),
        ("SELECT cust| FROM orders", "customer"),
        ("SELECT o.| FROM orders AS o JOIN buyers b ON o.id = b.id", "id"),
        ("SELECT b.w| FROM orders AS o JOIN buyers b ON o.id = b.id", "who"),
        ("SELECT * FROM all_buyers WHERE w|", "who"),
        ("SELECT * FROM system.|", "connections"),
        ("SELECT * FROM system.kafka_con|", "kafka_consumer_groups"),
        ("SELECT la| FROM system.kafka_consumer_groups", "lag"),
        ("SELECT coun| FROM orders", "count("),
        ("SELECT test_connection('|", "events_in'"),
        ("DROP TABLE |", "orders"),
        ("DROP TABLE IF EXISTS |", "orders"),
        ("DROP PIPELINE daily P|", "PURGE"),
        ("SHOW GR|", "GROUPS"),
        ("SHOW CREATE |", "events_in"),
        ("DESCRIBE or|", "orders"),
        ("DESCRIBE VIEW |", "buyers"),
        ("EXPLAIN CO|", "CODE"),
        ("EXPLAIN PIPELINE |", "daily"),
        ("START |", "PIPELINE"),
        ("START PIPELINE |", "daily"),
        ("START PIPELINE daily WITH ( |", "once = "),
        ("SET |", "scan"),
    ],
)
def test_the_first_suggestion_fits_its_place(text: str, first: str, names: Names) -> None:
    assert suggested(text, names)[0] == first


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'some te|",  # a text is the user's own
        "-- create |",
        "CREATE CONNECTION |x",
        "SELECT `|",
        "CREATE SECRET s AS '|",
        "SELECT * FROM round r WHERE r.|",  # a view of itself
    ],
)
def test_nothing_is_suggested_where_nothing_is_known(text: str, names: Names) -> None:
    found = suggested(text, names)
    assert found in ([], ["IF NOT EXISTS"])


def test_options_are_those_of_the_role_and_each_is_offered_once(names: Names) -> None:
    sink = suggested("CREATE CONNECTION c TO kafka ( type = 'sink', topic = 'a', |", names)
    assert "acks = " in sink
    assert "topic = " not in sink  # set already
    assert "dlq_topic = " not in sink  # a source's
    both = suggested("CREATE CONNECTION c TO kafka ( |", names)
    assert {"acks = ", "dlq_topic = "} <= set(both)
    assert len(both) == len(set(both))


def test_a_suggestion_replaces_what_was_typed_of_it(names: Names) -> None:
    (found,) = suggest("SELECT * FROM orde", 18, names)
    assert (found.text, found.typed, found.help) == ("orders", 4, "table")


SOUP = """
    CREATE OR REPLACE TABLE VIEW CONNECTION SECRET PIPELINE TO kafka WITH AS SELECT FROM JOIN BEGIN
    END INSERT INTO DROP SHOW SET EXPLAIN START connector type 'sink' orders o buyers system
    . ( ) , = ; ' " ` -- /* */ ${secret: * 1 :: -> é
"""
WORDS = st.sampled_from(SOUP.split())


@given(words=st.lists(WORDS, max_size=25), cursor=st.integers(0, 200), glue=st.sampled_from(" \n"))
def test_no_text_is_too_strange(words: list[str], cursor: int, glue: str, names: Names) -> None:
    text = glue.join(words)
    at = min(cursor, len(text))
    for found in suggest(text, at, names):
        assert 0 <= found.typed <= at
        typed = text[at - found.typed : at]
        assert found.text.lower().lstrip("'").startswith(typed.lower().lstrip("'"))


def test_every_place_of_a_statement_has_an_answer(names: Names) -> None:
    for text in STATEMENTS.values():
        for at in range(len(text) + 1):
            suggest(text, at, names)
