"""A step that is a function of messages, as a definition and in the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, SINK, SOURCE, below, faults, kafka, pipeline, planned

from headrace.formats import raw
from headrace.formats.messages import returned_columns
from headrace.model.pipeline import PythonRowsTransform
from headrace.plan.explain import words
from headrace.plan.stages import Apply, Call, OnFailure, Plan

KAFKA = ("_kafka_topic", "_kafka_offset", "data", "metadata")


@pytest.mark.parametrize(
    ("columns", "returned"),
    [
        (("id", "name"), ("id", "name")),
        (("id", "data", "metadata"), ("id", "data", "metadata")),
        (("id", "name", *KAFKA), ("id", "name")),
        (raw.COLUMNS, ("value",)),
        ((*raw.COLUMNS, *KAFKA), ("value",)),
        (("key", "value"), ("key", "value")),
    ],
)
def test_what_comes_back_has_the_columns_that_went_in_without_metadata(
    columns: tuple[str, ...], returned: tuple[str, ...]
) -> None:
    assert returned_columns(columns) == returned


def test_the_options_of_a_step_are_those_of_the_model(tmp_path: Path) -> None:
    step = "transform: {python_rows: shop.score, schema: id BIGINT, batch_size: 5, name: a}\n"
    assert pipeline(tmp_path, SOURCE, step, SINK).transforms == (
        PythonRowsTransform("a", "shop.score", ("source",), "id BIGINT", 5),
    )
    told = words(call(planned(tmp_path, SOURCE, step, SINK)))
    assert told == (
        "`a`: shop.score(lists of at most 5 messages of source) into id BIGINT; "
        "where it fails for one, it is a bad record"
    )


ROWS = "transform:\n  - {name: scored, python_rows: shop.score}\n"


def call(plan: Plan, query: int = 0) -> Call:
    (found,) = plan.queries[query].calls
    return found


def test_a_function_of_messages_keeps_rows_traceable_and_its_failures_are_bad_records(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path, SOURCE, ROWS, "  - sql: SELECT id FROM scored WHERE id > 0\n", SINK)
    (query,) = plan.queries
    assert query.carried
    assert [type(stage) for stage in query.transforms] == [Call, Apply]
    assert call(plan) == Call(call(plan).transform, True, 1000, OnFailure.KEPT)
    assert query.decodes[0].originals == 0
    assert query.aside is not None


@pytest.mark.parametrize(
    ("options", "on_failure", "originals"),
    [
        ({"bad_data": "skip"}, OnFailure.KEPT, None),
        ({"bad_data": "dlq"}, OnFailure.KEPT, 0),
        ({"bad_data": "fail"}, OnFailure.STOPS, None),
    ],
)
def test_what_a_function_fails_for_follows_the_source(
    tmp_path: Path, options: dict[str, object], on_failure: OnFailure, originals: int | None
) -> None:
    source = below("source", kafka(**options))  # type: ignore[arg-type]
    plan = planned(tmp_path, source, ROWS, CONSOLE)
    assert call(plan).on_failure is on_failure
    assert plan.queries[0].decodes[0].originals == originals


def test_a_bad_record_is_set_aside_by_the_first_query_that_finds_it(tmp_path: Path) -> None:
    sinks = (
        "sinks:\n"
        "  all: {connector_type: console, from: source}\n"
        "  a: {connector_type: console, from: scored}\n"
        "  b: {connector_type: console, from: last}\n"
    )
    last = "  - {name: last, sql: SELECT id FROM scored}\n"
    plan = planned(tmp_path, SOURCE, ROWS, last, sinks)
    assert [query.aside is not None for query in plan.queries] == [True, True, False]
    assert [query.decodes[0].keeps_bad for query in plan.queries] == [True, False, False]
    assert [call(plan, number).on_failure for number in (1, 2)] == [OnFailure.KEPT, OnFailure.LEFT]


@pytest.mark.parametrize(
    ("bad_data", "on_failure"),
    [("dlq", OnFailure.STOPS), ("skip", OnFailure.KEPT), ("fail", OnFailure.STOPS)],
)
def test_before_a_step_that_is_not_row_wise_a_failure_stops_or_is_dropped(
    tmp_path: Path, bad_data: str, on_failure: OnFailure
) -> None:
    source = below("source", kafka(bad_data=bad_data))
    text = "mode: batch\n", source, ROWS, "  - sql: SELECT sum(amount) AS s FROM scored\n", CONSOLE
    query = planned(tmp_path, *text).queries[0]
    assert not query.carried
    assert [stage.carried for stage in query.transforms] == [True, False]
    assert query.calls[0].on_failure is on_failure
    warned = bad_data == "dlq"
    assert [fault.code for fault in faults(tmp_path, *text)] == ["FAILURE_STOPS"] * warned


def test_after_a_function_of_data_frames_no_record_is_known(tmp_path: Path) -> None:
    source = below("source", kafka(bad_data="skip"))
    steps = "transform: [{python: shop.clean}, {python_rows: shop.score}]\n"
    plan = planned(tmp_path, source, steps, CONSOLE)
    assert (call(plan).carried, call(plan).on_failure) == (False, OnFailure.STOPS)


@pytest.mark.parametrize(
    ("source", "step", "size"),
    [
        ("", "", 1000),
        ("50", "", 50),
        ("50", "7", 7),
        ("5000000", "", 10_000),
        ("", "20000", 20_000),
    ],
)
def test_a_list_is_as_long_as_the_step_or_else_the_source_says(
    tmp_path: Path, source: str, step: str, size: int
) -> None:
    reading = SOURCE + (f"  batch_size: {source}\n" if source else "")
    steps = "transform:\n  - python_rows: shop.score\n" + (
        f"    batch_size: {step}\n" if step else ""
    )
    text = "mode: batch\n", reading, steps, CONSOLE
    assert call(planned(tmp_path, *text)).batch_size == size
    unused = ["NO_EFFECT"] if source and step else []
    assert [fault.code for fault in faults(tmp_path, *text)] == unused
