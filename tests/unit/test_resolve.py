"""From nodes to a pipeline: keys, names and what refers to what."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.unit.definitions import (
    CONSOLE,
    SINK,
    SOURCE,
    below,
    codes,
    faults,
    kafka,
    pipeline,
    steps,
    write,
)

from headrace.api import load
from headrace.errors import DefinitionError
from headrace.frontend.load import examine
from headrace.model.pipeline import Guarantee, Mode, PythonTransform, SqlTransform

TWO = "sources:\n" + "".join(
    "  " + line + "\n"
    for name, topic in (("orders", "orders"), ("returns", "returns"))
    for line in below(name, kafka(topic)).splitlines()
)


def test_one_source_and_one_sink_make_a_pipeline(tmp_path: Path) -> None:
    found = pipeline(tmp_path, "pipeline: shop\nmode: batch\n", SOURCE, SINK)
    assert (found.name, found.mode, found.guarantee) == (
        "shop",
        Mode.BATCH,
        Guarantee.AT_LEAST_ONCE,
    )
    assert [source.name for source in found.sources] == ["source"]
    assert [(sink.name, sink.connector, sink.input) for sink in found.sinks] == [
        ("sink", "kafka", "source")
    ]


def test_a_pipeline_without_a_name_has_its_files(tmp_path: Path) -> None:
    found, _ = examine(write(tmp_path, SOURCE + SINK, "orders_clean.yml"))
    assert found is not None
    assert found.name == "orders_clean"


def test_a_file_name_that_cannot_be_a_pipelines_is_a_fault(tmp_path: Path) -> None:
    _, found = examine(write(tmp_path, SOURCE + SINK, "my orders.yaml"))
    assert [fault.code for fault in found] == ["BAD_NAME"]
    assert examine(write(tmp_path, "pipeline: a\n" + SOURCE + SINK, "my orders.yaml"))[1] == []


def test_input_is_the_step_before_and_the_sink_gets_the_last(tmp_path: Path) -> None:
    text = steps("SELECT id FROM source", "SELECT id FROM INPUT", "SELECT id FROM step_1")
    found = pipeline(tmp_path, SOURCE, text, SINK)
    assert [step.inputs for step in found.transforms] == [("source",), ("step_1",), ("step_1",)]
    assert [step.name for step in found.transforms] == ["step_1", "step_2", "step_3"]
    assert found.sinks[0].input == "step_3"


def test_steps_and_sinks_read_by_name(tmp_path: Path) -> None:
    found = pipeline(
        tmp_path,
        TWO,
        "transform:\n"
        "  - {name: cleaned, python: shop.clean, from: orders}\n"
        "  - {name: all_rows, sql: SELECT id FROM Cleaned UNION ALL SELECT id FROM RETURNS}\n",
        "sinks:\n"
        "  raw: {connector_type: console, from: returns}\n"
        "  done: {connector_type: console}\n",
    )
    cleaned, everything = found.transforms
    assert isinstance(cleaned, PythonTransform)
    assert (cleaned.function, cleaned.inputs) == ("shop.clean", ("orders",))
    assert isinstance(everything, SqlTransform)
    assert everything.inputs == ("cleaned", "returns")
    assert [(sink.name, sink.input) for sink in found.sinks] == [
        ("raw", "returns"),
        ("done", "all_rows"),
    ]


def test_a_file_that_is_only_a_source_can_be_checked(tmp_path: Path) -> None:
    text = kafka(consumer_group="g", batch_size=100, include_metadata="true")
    found = pipeline(tmp_path, text)
    assert [source.name for source in found.sources] == ["source"]
    assert found.sinks == ()
    assert faults(tmp_path, text) == []


@pytest.mark.parametrize("spelling", ["bootstrap_server", "bootstrap_servers"])
def test_both_spellings_of_the_servers_mean_the_same(tmp_path: Path, spelling: str) -> None:
    text = SOURCE.replace("bootstrap_server", spelling)
    assert pipeline(tmp_path, text, SINK) == pipeline(tmp_path, SOURCE, SINK)


def test_pipelines_are_equal_when_they_mean_the_same(tmp_path: Path) -> None:
    shifted = "\n\n# moved\n" + SOURCE
    assert pipeline(tmp_path, SOURCE, SINK) == pipeline(tmp_path, shifted, SINK)
    assert pipeline(tmp_path, SOURCE, SINK) != pipeline(tmp_path, SOURCE, CONSOLE)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((SINK,), ["1:1 MISSING_SOURCE"]),
        (("sources: {}\n", SINK), ["1:1 MISSING_SOURCE"]),
        (("source:\n", SINK), ["2:1 NOT_A_MAPPING"]),
        (("source: kafka\n", SINK), ["1:9 NOT_A_MAPPING"]),
        (("source: [{connector_type: kafka}]\n", SINK), ["1:9 NOT_A_MAPPING"]),
        (("source: {topic: a}\n", SINK), ["1:9 MISSING_OPTION"]),
        (("source: {connector_type: {a: b}}\n", SINK), ["1:26 BAD_VALUE"]),
        (("source: {connector_type: kafak}\n", SINK), ["1:26 UNKNOWN_CONNECTOR"]),
        (("sources: [a]\n", SINK), ["1:10 NOT_A_MAPPING"]),
        ((SOURCE, "sinks:\n  - connector_type: console\n"), ["7:3 NOT_A_MAPPING"]),
        ((SOURCE, "sink:\n"), ["7:1 NOT_A_MAPPING"]),
        ((SOURCE, "snik: {}\n"), ["6:1 UNKNOWN_OPTION"]),
        ((SOURCE, SINK, "topic: out\n"), ["9:1 UNKNOWN_OPTION"]),
        ((kafka(), SINK), [f"{n}:1 UNKNOWN_OPTION" for n in (1, 2, 3, 4)]),
        ((SOURCE, "sources: {}\n", SINK), ["6:1 OPTION_TWICE"]),
        ((SOURCE, "transform:\n", SINK), []),
        ((SOURCE, "transform: []\n", SINK), []),
        ((SOURCE, "transform: SELECT 1\n", SINK), ["6:12 NOT_A_MAPPING"]),
        ((SOURCE, "transform: [{}]\n", SINK), ["6:13 BAD_STEP"]),
        ((SOURCE, "transform: [{sql: SELECT 1, python: a.b}]\n", SINK), ["6:13 BAD_STEP"]),
        ((SOURCE, "transform: [{python: clean}]\n", SINK), ["6:22 BAD_VALUE"]),
        ((SOURCE, "transform: [{python: a.b()}]\n", SINK), ["6:22 BAD_VALUE"]),
        ((SOURCE, "transform: [{python: a.b, from: c}]\n", SINK), ["6:33 UNKNOWN_TABLE"]),
        ((SOURCE, "transform: [{sql: SELECT 1 AS x, from: source}]\n", SINK), ["6:40 BAD_STEP"]),
        ((SOURCE, "transform: {sql: ''}\n", SINK), ["6:19 BAD_VALUE"]),
        ((SOURCE, "transform: {sql: }\n", SINK), ["6:17 BAD_VALUE"]),
        ((SOURCE, "transform: {python: }\n", SINK), ["6:20 BAD_VALUE"]),
        ((SOURCE, steps("SELECT id AS __Headrace FROM source"), SINK), ["7:10 CONFLICT"]),
        ((SOURCE, steps("SELECT *, upper(name) AS Name FROM source"), SINK), ["9:3 COLUMN_TWICE"]),
        ((SOURCE, steps("SELECT *, upper(name) AS Name FROM source"), CONSOLE), []),
        ((SOURCE, steps("SELECT id FROM sorce"), SINK), ["7:25 UNKNOWN_TABLE"]),
        ((SOURCE, steps("SELECT * FROM csv.`/etc/passwd`"), SINK), ["7:24 UNKNOWN_TABLE"]),
        ((SOURCE, steps("SELECT nme FROM source"), SINK), ["7:17 UNKNOWN_COLUMN"]),
        ((SOURCE, steps("SELECT id FROM step_1"), SINK), ["7:25 UNKNOWN_TABLE"]),
        ((TWO, steps("SELECT id FROM input"), SINK), ["13:25 UNKNOWN_TABLE"]),
        ((TWO, SINK), ["13:3 MISSING_OPTION"]),
        ((TWO, "sink: {connector_type: console, from: orderz}\n"), ["12:39 UNKNOWN_TABLE"]),
        ((SOURCE, "transform: {name: Source, sql: SELECT 1 AS x}\n", SINK), ["6:19 NAME_TWICE"]),
        ((SOURCE, "transform: {name: a b, sql: SELECT 1 AS x}\n", SINK), ["6:19 BAD_NAME"]),
        (
            ("sources: {left: {connector_type: x}}\n", SINK),
            ["1:11 BAD_NAME", "1:34 UNKNOWN_CONNECTOR"],
        ),
        (("- a\n",), ["1:1 NOT_A_MAPPING"]),
    ],
)
def test_what_stands_in_the_wrong_place_is_one_fault_there(
    tmp_path: Path, parts: tuple[str, ...], expected: list[str]
) -> None:
    found = codes(tmp_path, *parts)
    assert [each for each in found if not each.endswith("UNUSED")] == expected


def test_a_step_with_a_fault_raises_no_others_after_it(tmp_path: Path) -> None:
    text = steps("SELEC id", "SELECT anything FROM input")
    assert codes(tmp_path, SOURCE, text, SINK, "  key: anything\n") == ["7:10 NOT_A_QUERY"]


def test_a_source_with_a_fault_raises_no_others_after_it(tmp_path: Path) -> None:
    broken = SOURCE.replace("id BIGINT", "id BIGNT")
    found = codes(tmp_path, broken, steps("SELECT anything FROM source"), SINK)
    assert found == ["5:11 BAD_VALUE"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("id", []),
        ("upper(name) || '-' || id", []),
        ("nope", ["9:8 UNKNOWN_COLUMN"]),
        ("key", ["9:8 UNKNOWN_COLUMN"]),
        ("upper(nope)", ["9:14 UNKNOWN_COLUMN"]),
        ("id, name", ["9:12 SQL_SYNTAX"]),
        ("id AS STRING), CAST(name", ["9:8 BAD_VALUE"]),
        ("count(*)", ["9:8 BAD_VALUE"]),
        ("reflect('a')", ["9:8 FORBIDDEN_FUNCTION"]),
        ("id -- x", ["9:8 SQL_SYNTAX"]),
        ("", ["10:1 BAD_VALUE"]),
    ],
)
def test_the_key_of_a_kafka_sink_is_one_expression_of_a_row(
    tmp_path: Path, key: str, expected: list[str]
) -> None:
    assert codes(tmp_path, SOURCE, SINK, f"  key: {key}\n") == expected


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topics": "[a, b]"}, "CONFLICT"),
        ({"bad_data": "skip", "dlq_topic": "x"}, "CONFLICT"),
        ({"dlq_topic": "orders"}, "CONFLICT"),
        ({"timeout_ms": 5}, "CONFLICT"),
        ({"properties": "{group.id: x}"}, "BAD_VALUE"),
        ({"properties": "{sasl.jaas.config: x}"}, "BAD_VALUE"),
        ({"properties": "{ssl.keystore.location: /x}"}, "BAD_VALUE"),
        ({"max_errors_per_batch": -1}, "BAD_VALUE"),
        ({"format": "xml"}, "BAD_CHOICE"),
    ],
)
def test_options_of_the_kafka_source_are_checked_together(
    tmp_path: Path, options: dict[str, object], code: str
) -> None:
    found = faults(tmp_path, below("source", kafka(**options)), SINK)  # type: ignore[arg-type]
    assert [fault.code for fault in found] == [code]


@pytest.mark.parametrize("column", ["__headrace", "__CORRUPT", "_kafka_offset"])
def test_columns_that_something_else_is_called_are_refused(tmp_path: Path, column: str) -> None:
    text = SOURCE.replace("amount", column) + "  include_metadata: true\n"
    assert codes(tmp_path, text, SINK) == ["5:11 CONFLICT"]


def test_metadata_columns_can_be_read_when_they_are_asked_for(tmp_path: Path) -> None:
    step = steps("SELECT id, _kafka_offset FROM source")
    assert codes(tmp_path, SOURCE, step, SINK) == ["7:21 UNKNOWN_COLUMN"]
    assert codes(tmp_path, SOURCE, "  include_metadata: true\n", step, SINK) == []


# Files


def test_bytes_that_are_no_text_are_a_fault_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes("pipeline: a\nname: é\n".encode("latin-1"))
    _, found = examine(path)
    assert [(f.code, f.span.line, f.span.column) for f in found] == [("NOT_UTF8", 2, 7)]


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    text = SOURCE + "transform:\n  - sql: |\n      SELECT id,\n      nme FROM source\n" + SINK
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    _, found = examine(path)
    assert [(f.code, f.span.line, f.span.column) for f in found] == [("UNKNOWN_COLUMN", 9, 7)]


@pytest.mark.parametrize("name", ["p.txt", "missing.yaml", "folder.yaml"])
def test_what_is_no_pipeline_file_is_an_error_of_its_own(tmp_path: Path, name: str) -> None:
    (tmp_path / "p.txt").write_text(SOURCE)
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(DefinitionError):
        examine(tmp_path / name)


# Anything else

KEYS = st.sampled_from(
    [
        *(
            "pipeline",
            "mode",
            "guarantee",
            "trigger",
            "spark",
            "source",
            "sources",
            "sink",
            "sinks",
        ),
        *("transform", "sql", "python", "name", "from", "connector_type", "topic", "topics", "key"),
        *("bootstrap_server", "schema", "path", "properties", "bad_data", "partition_by", "rows"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(
        [
            *("kafka", "delta", "console", "orders", "source", "input", "localhost:9092", "batch"),
            *("SELECT * FROM source", "SELECT x FROM input", "SELECT (", "a.b", "id INT", "${env:"),
        ]
    ),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=25,
)


STEPS = st.dictionaries(st.sampled_from(["sql", "python", "name", "from"]), SCALARS, max_size=3)
COMPONENTS = st.dictionaries(KEYS, SCALARS, max_size=6).map(
    lambda options: {"connector_type": "kafka", **options}
)
PIPELINES = st.fixed_dictionaries(
    {"source": st.just(dict(line.split(": ", 1) for line in kafka().splitlines()))},
    optional={
        "transform": st.lists(STEPS, max_size=3),
        "sinks": st.dictionaries(st.sampled_from(["a", "b", "source"]), COMPONENTS, max_size=3),
        "mode": SCALARS,
        "trigger": SCALARS,
    },
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(PIPELINES, st.dictionaries(KEYS, st.one_of(TREES, COMPONENTS), max_size=6)))
def test_any_structure_is_examined_and_every_fault_is_inside_the_file(
    tmp_path: Path, tree: dict[str, object]
) -> None:
    path = tmp_path / "p.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(tree, file)
    lines = path.read_text(encoding="utf-8").split("\n")
    for fault in load(path).check():
        assert 1 <= fault.span.line <= len(lines)
        assert 1 <= fault.span.column <= len(lines[fault.span.line - 1]) + 1
