"""Where a definition's batches keep their positions, and what follows from it; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import SOURCE, below, faults, kafka, planned, write

from headrace.api import load
from headrace.errors import DefinitionError
from headrace.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE
from headrace.plan.stages import Plan, Read
from headrace.spec import Setting

BATCH = "mode: batch\nguarantee: exactly_once\n"
DELTA = "sink:\n  connector_type: delta\n  path: table\n"
LOG = below("source", "connector_type: log\npath: app.log\nbad_data: skip\n")


def source(**options: str) -> str:
    return below("source", kafka("orders", bad_data="skip", **options))


def position(folder: Path, *parts: str) -> list[str]:
    """What `explain` says about positions."""
    return list(load(write(folder, "".join(parts))).explain()["position"])


def _reading(plan: Plan) -> list[Setting]:
    stages = [stage for query in plan.queries for stage in query.stages]
    return [setting for stage in stages if isinstance(stage, Read) for setting in stage.settings]


def test_exactly_once_is_accepted_for_batches_into_targets_that_know_a_batch(
    tmp_path: Path,
) -> None:
    assert faults(tmp_path, BATCH, source(), DELTA) == []
    assert position(tmp_path, BATCH, source(), DELTA)[0] == (
        "`source`: kept in a Delta table in the state folder, "
        "written after every sink has acknowledged"
    )
    named = position(tmp_path, BATCH, source(metadata_table="a.b"), DELTA)
    assert named[0].startswith("`source`: kept in a.b, ")


def test_without_stored_offsets_nothing_is_exactly_once(tmp_path: Path) -> None:
    text = source(store_offsets="false")
    (fault,) = faults(tmp_path, BATCH, text, DELTA)
    assert (fault.code, "stores no offsets" in fault.message) == ("CANNOT_KEEP", True)
    assert "not stored" in position(tmp_path, "mode: batch\n", text, DELTA)[0]


@pytest.mark.parametrize("option", [{"metadata_table": "a.b"}, {"store_offsets": "false"}])
def test_a_stream_of_spark_has_no_table(tmp_path: Path, option: dict[str, str]) -> None:
    (fault,) = faults(tmp_path, source(**option), DELTA)
    assert fault.code == "NO_EFFECT"
    assert "Spark's checkpoint" in fault.message
    assert faults(tmp_path, "mode: batch\n", source(**option), DELTA) == []


def test_a_stream_with_a_source_that_cannot_be_followed_is_made_of_batches(tmp_path: Path) -> None:
    plan = planned(tmp_path, "trigger: 2s\n", LOG, DELTA)
    assert plan.polled
    assert plan.in_batches
    assert [promise.kept for promise in plan.promises] == [EXACTLY_ONCE]
    told = position(tmp_path, "trigger: 2s\n", LOG, DELTA)
    assert told[0].endswith("a batch begins every 2000 ms")
    assert "Delta table in the state folder" in told[1]
    batch = planned(tmp_path, "mode: batch\n", LOG, DELTA)
    assert (batch.polled, batch.in_batches) == (False, True)
    stream = planned(tmp_path, SOURCE, DELTA)
    assert (stream.polled, stream.in_batches) == (False, False)


def test_all_sources_of_a_polled_stream_are_read_as_batches(tmp_path: Path) -> None:
    sources = below("sources", below("lines", LOG.partition("\n")[2]) + below("orders", kafka()))
    step = "transform:\n  - sql: SELECT id FROM orders\n"
    sink = DELTA + "  from: step_1\n"
    both = "transform:\n  - sql: SELECT id FROM orders CROSS JOIN lines\n"
    plan = planned(tmp_path, sources, both, sink)
    assert plan.polled
    orders = next(each for each in plan.sources if each.name == "orders")
    assert orders.first(plan.reads_as).value == "earliest"
    assert [promise.kept for promise in plan.promises][-1] == AT_LEAST_ONCE
    # What nothing reads does not make batches of the rest.
    followed = planned(tmp_path, sources, step, sink)
    assert not followed.polled
    assert "maxOffsetsPerTrigger" in {setting.name for setting in _reading(followed)}
    assert "maxOffsetsPerTrigger" not in {setting.name for setting in _reading(plan)}


def test_only_a_batch_can_run_without_moving_its_position(tmp_path: Path) -> None:
    definition = load(write(tmp_path, SOURCE + DELTA))
    with pytest.raises(DefinitionError, match="is a stream") as refused:
        definition.prepare(commit=False)
    assert "preview" in (refused.value.hint or "")
