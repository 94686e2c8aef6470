"""`headrace convert` as it is typed: what is printed, what is written, what the exit code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.convert import ours, to_yaml
from headrace.frontend.load import examine

ORDERS = """\
# Orders, which are many.
#
#   headrace run orders.yaml
pipeline: orders   # as the topic
source:
  # Where the shop writes.
  connector_type: kafka
  bootstrap_server: ${env:NOBODY_SETS_THIS}
  topic: "orders"  # one of many
  schema: "id BIGINT, `of` STRING"
  dlq_topic: yes-no
  api_version: "2.0"
  properties: {isolation.level: "read_committed", check.crcs: "true"}
transform:
  # What is paid for.
  - sql: "SELECT id, 'a: b' AS c FROM input"
  - python_rows: shop.score
    batch_size: 100
sinks:
  # For the others.
  first:
    connector_type: kafka
    topic: out
    headers: {kind: "'a # b'", no: "''", "1": "'*'"}
  second:
    connector_type: files
    format: csv
    path: "@exports: #1"
    header: false
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    code = end.value.code
    return code if isinstance(code, int) else 0


def test_yaml_becomes_sql_with_its_references_and_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS, encoding="utf-8")
    assert run("convert", str(file)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == (
        """\
-- Orders, which are many.
--
--   headrace run orders.yaml

CREATE TABLE source (
    id BIGINT,
    of STRING
) WITH (
    -- Where the shop writes.
    connector = 'kafka',
    bootstrap_server = '${env:NOBODY_SETS_THIS}',
    topic = 'orders',  -- one of many
    dlq_topic = 'yes-no',
    api_version = '2.0',
    auto_offset_reset = 'default',
    'isolation.level' = 'read_committed',
    'check.crcs' = true
);

-- What is paid for.
CREATE VIEW step_1 AS
SELECT id, 'a: b' AS c FROM source;

CREATE VIEW step_2 WITH ( python_rows = 'shop.score', batch_size = 100, from = 'step_1' );

-- For the others.
CREATE TABLE first WITH (
    connector = 'kafka',
    topic = 'out',
    headers = ( kind = '''a # b''', no = '''''', '1' = '''*''' )
);

CREATE TABLE second WITH (
    connector = 'files',
    format = 'csv',
    path = '@exports: #1',
    header = false
);

-- as the topic
CREATE PIPELINE orders AS BEGIN
    INSERT INTO first SELECT * FROM step_2;
    INSERT INTO second SELECT * FROM step_2;
END;
"""
    )


def test_yaml_has_quotes_only_where_they_are_needed() -> None:
    draft = ours.of_yaml(ORDERS, "orders.yaml")
    assert to_yaml.write(draft) == (
        """\
# Orders, which are many.
#
#   headrace run orders.yaml
pipeline: orders  # as the topic

source:
  # Where the shop writes.
  connector_type: kafka
  bootstrap_server: ${env:NOBODY_SETS_THIS}
  topic: orders  # one of many
  schema: id BIGINT, `of` STRING
  dlq_topic: yes-no
  api_version: "2.0"
  properties: {isolation.level: read_committed, check.crcs: true}

transform:
  # What is paid for.
  - sql: "SELECT id, 'a: b' AS c FROM input"
  - python_rows: shop.score
    batch_size: 100

sinks:
  # For the others.
  first:
    connector_type: kafka
    topic: out
    headers: {kind: "'a # b'", "no": "''", 1: "'*'"}
  second:
    connector_type: files
    format: csv
    path: "@exports: #1"
    header: false
"""
    )


def test_what_is_lost_is_in_the_exit_code_and_strictly_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loader = tmp_path / "loader.yaml"
    loader.write_text(
        "connector_type: kafka\nbootstrap_server: localhost:9092\ntopic: bees\n"
        "consumer_group: bees\nssl_config: {cafile: ca.pem}\n",
        encoding="utf-8",
    )
    out = tmp_path / "made.yaml"
    asked = ["convert", str(loader), "--schema", "bees INT", "-o", str(out)]
    assert run(*asked, "--strict") == 2
    assert not out.exists()
    assert "nothing is written: 1 gap" in capsys.readouterr().err

    assert run(*asked) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "loader.yaml:5:1 NOT_CONVERTED warning: `ssl_config` is a login" in told.err
    assert "# NOT_CONVERTED: `ssl_config` is a login" in out.read_text(encoding="utf-8")
    assert examine(out)[0] is not None

    assert run(*asked) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(*asked, "--force") == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "pipeline: a\nsource: {connector_type: kafak}\n", "UNKNOWN_CONNECTOR"),
        ("a.yaml", "pipeline: [\n", "YAML_SYNTAX"),
        ("a.sql", "CREATE TABEL a;", "UNKNOWN_STATEMENT"),
        ("a.sql", "CREATE CONNECTION a TO kafka ( topic = 'a' );", "no pipeline to convert"),
    ],
)
def test_a_definition_with_a_fault_is_not_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert run("convert", str(tmp_path / name)) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""


def test_a_table_that_nothing_reads_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = "  - {name: unread, sql: SELECT id FROM input}\n  - sql: SELECT id FROM source\n"
    file = tmp_path / "orders.yaml"
    file.write_text(
        "source: {connector_type: impulse, fields: {id: n}}\ntransform:\n" + step, encoding="utf-8"
    )
    assert run("convert", str(file)) == 1
    assert "NOT_CONVERTED warning: `unread` is read by nothing" in capsys.readouterr().err
