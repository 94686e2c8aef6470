"""What is said about a pipeline as a whole."""

from __future__ import annotations

from pathlib import Path

from tests.unit.definitions import CONSOLE, SINK, SOURCE, below, codes, faults, kafka, steps

from headrace.spans import Severity


def test_a_sink_that_writes_what_is_read_is_a_loop(tmp_path: Path) -> None:
    assert codes(tmp_path, SOURCE, SINK.replace("out", "orders")) == ["8:10 LOOP"]
    elsewhere = SINK.replace("out", "orders") + "  bootstrap_server: other:9092\n"
    assert codes(tmp_path, SOURCE, elsewhere) == []


def test_a_step_that_nothing_reads_is_a_warning(tmp_path: Path) -> None:
    text = steps("SELECT id FROM source", "SELECT name FROM source")
    assert codes(tmp_path, SOURCE, text, CONSOLE) == ["7:10 UNUSED"]


def test_two_sources_may_not_share_a_group_on_a_topic(tmp_path: Path) -> None:
    sources = "sources: {a: &a {%s}, b: {<<: *a%s}}\n"
    options = ", ".join(kafka().strip().replace("schema: ", "schema: '").splitlines()) + "'"
    text = steps("SELECT id FROM a UNION ALL SELECT id FROM b")
    shared = sources % (options, "")
    assert [f.code for f in faults(tmp_path, shared, text, CONSOLE)] == ["GROUP_SHARED"]
    apart = sources % (options, ", consumer_group: other")
    assert faults(tmp_path, apart, text, CONSOLE) == []


def test_options_of_a_stream_have_no_effect_in_a_batch(tmp_path: Path) -> None:
    source = below("source", kafka(batch_size=10, timeout_ms=5))
    assert faults(tmp_path, "trigger: 2s\n", source, SINK) == []
    found = faults(tmp_path, "mode: batch\ntrigger: 2s\n", source, SINK)
    assert [(f.code, f.severity) for f in found] == 3 * [("NO_EFFECT", Severity.WARNING)]
