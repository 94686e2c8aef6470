"""From a pipeline to its stages and promises; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, SINK, SOURCE, below, faults, kafka, planned, steps

from headrace.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE, NOTHING
from headrace.plan.stages import EnsureTopic, Plan

DELTA = "sink:\n  connector_type: delta\n  path: table\n"


def shape(plan: Plan) -> list[tuple[str, str]]:
    """Each query with its stages, in one word."""
    return [
        (query.name, " ".join(type(stage).__name__ for stage in query.stages))
        for query in plan.queries
    ]


def test_a_row_wise_pipeline_is_one_query_that_sets_bad_records_aside(tmp_path: Path) -> None:
    plan = planned(tmp_path, SOURCE, steps("SELECT id FROM source WHERE amount > 0"), SINK)
    assert shape(plan) == [("main", "Read Decode Apply Refuse SetAside Write")]
    query = plan.queries[0]
    assert query.carried
    assert query.transforms[0].carried
    assert query.aside is not None
    assert (query.aside.topic, query.aside.beside) == ("orders.dlq", "sink")


def test_bad_records_get_a_query_of_their_own_where_rows_cannot_be_traced(tmp_path: Path) -> None:
    step = "transform: {python: shop.clean}\n"
    plan = planned(tmp_path, SOURCE, step, SINK)
    assert shape(plan) == [
        ("main", "Read Decode Apply Write"),
        ("dead.source", "Read Decode SetAside"),
    ]
    assert [query.carried for query in plan.queries] == [False, True]
    aside = plan.queries[1].aside
    assert aside is not None
    assert aside.beside is None


@pytest.mark.parametrize("sink", [CONSOLE, DELTA, SINK + "  bootstrap_server: other:9092\n"])
def test_dead_letters_ride_only_with_a_kafka_sink_of_the_same_cluster(
    tmp_path: Path, sink: str
) -> None:
    aside = planned(tmp_path, SOURCE, sink).queries[0].aside
    assert aside is not None
    assert (aside.topic, aside.beside) == ("orders.dlq", None)


def test_sinks_of_the_same_rows_share_a_query(tmp_path: Path) -> None:
    sinks = (
        "sinks:\n"
        "  a: {connector_type: console}\n"
        "  b: {connector_type: delta, path: t}\n"
        "  c: {connector_type: console, from: source}\n"
    )
    plan = planned(tmp_path, SOURCE, steps("SELECT id FROM source"), sinks)
    assert shape(plan) == [
        ("main", "Read Decode Apply SetAside Write Write"),
        ("source", "Read Decode Write"),
    ]
    assert [sink.name for sink in plan.sinks] == ["a", "b", "c"]


def test_only_the_steps_that_are_needed_are_run(tmp_path: Path) -> None:
    text = steps("SELECT id FROM source", "SELECT name FROM source")
    plan = planned(tmp_path, SOURCE, text, CONSOLE)
    assert [stage.transform.name for stage in plan.queries[0].transforms] == ["step_2"]


@pytest.mark.parametrize(
    ("options", "aside"),
    [
        ({"bad_data": "skip"}, (None, None)),
        ({"bad_data": "skip", "max_errors_per_batch": 3}, (None, 3)),
        ({"bad_data": "dlq", "max_errors_per_batch": 3}, ("orders.dlq", 3)),
        ({"dlq_topic": "dead"}, ("dead", None)),
        ({"bad_data": "fail"}, None),
    ],
)
def test_what_becomes_of_bad_records_follows_the_options(
    tmp_path: Path, options: dict[str, object], aside: tuple[str | None, int | None] | None
) -> None:
    source = below("source", kafka(**options))  # type: ignore[arg-type]
    found = planned(tmp_path, source, SINK).queries[0].aside
    assert (found and (found.topic, found.limit)) == aside


def test_skipped_records_need_no_query_of_their_own(tmp_path: Path) -> None:
    source = below("source", kafka(bad_data="skip"))
    step = "transform: {python: shop.clean}\n"
    assert shape(planned(tmp_path, source, step, SINK)) == [("main", "Read Decode Apply Write")]
    limited = below("source", kafka(bad_data="skip", max_errors_per_batch=0))
    assert len(planned(tmp_path, limited, step, SINK).queries) == 2


def test_topics_are_ensured_before_anything_runs(tmp_path: Path) -> None:
    plan = planned(tmp_path, SOURCE, SINK, "  create_topic: false\n")
    assert set(plan.prepare) == {
        EnsureTopic("orders", "localhost:9092", "read by `source`", False),
        EnsureTopic("orders.dlq", "localhost:9092", "dead letters of `source`", True),
        EnsureTopic("out", "localhost:9092", "written by `sink`", False),
    }


def test_topics_to_make_have_the_shape_that_the_sink_asks_for(tmp_path: Path) -> None:
    wanted = "{partitions: 6, replication_factor: 3, config: {retention.ms: 1000}}"
    plan = planned(tmp_path, SOURCE, SINK, f"  create_topics: {wanted}\n")
    made = EnsureTopic(
        *("out", "localhost:9092", "written by `sink`", True), 6, 3, (("retention.ms", "1000"),)
    )
    assert made in plan.prepare


def test_topics_of_rows_are_ensured_as_far_as_they_have_names(tmp_path: Path) -> None:
    sink = SINK.replace("topic: out", "topic: '${name}'\n  allowed_topics: [a, b, c.*]")
    plan = planned(tmp_path, SOURCE, sink)
    written = [stage.topic for stage in plan.prepare if stage.purpose == "written by `sink`"]
    assert written == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "sink", "carried"),
    [
        ({}, "", 16384),
        ({}, "  partition: id\n", 0),
        ({"bad_data": "skip"}, "", None),
        ({"bad_data": "fail"}, "", None),
    ],
)
def test_rows_carry_their_record_only_where_it_may_become_a_letter(
    tmp_path: Path, options: dict[str, object], sink: str, carried: int | None
) -> None:
    plan = planned(tmp_path, below("source", kafka("orders", **options)), SINK, sink)
    (decode,) = plan.queries[0].decodes
    assert decode.originals == carried


def test_every_query_sets_aside_what_its_own_sink_refuses(tmp_path: Path) -> None:
    sinks = "sinks:\n" + "".join(
        f"  {name}: {{connector_type: kafka, topic: {name}, from: {table}}}\n"
        for name, table in (("a", "step_1"), ("b", "source"))
    )
    plan = planned(tmp_path, SOURCE, steps("SELECT id FROM source"), sinks)
    assert [query.aside and query.aside.beside for query in plan.queries] == ["a", "b"]
    assert [query.decodes[0].keeps_bad for query in plan.queries] == [True, False]
    letters = [promise for promise in plan.promises if "dead letters" in promise.target]
    assert len(letters) == 1


@pytest.mark.parametrize(("acks", "kept"), [("all", AT_LEAST_ONCE), ("1", NOTHING), ("0", NOTHING)])
def test_a_sink_that_does_not_wait_promises_nothing(tmp_path: Path, acks: str, kept: str) -> None:
    plan = planned(tmp_path, SOURCE, SINK, f"  acks: {acks}\n  idempotence: false\n")
    assert plan.promises[0].kept == kept


def test_several_topics_have_one_topic_of_dead_letters(tmp_path: Path) -> None:
    source = below("source", kafka()).replace("topic: orders", "topics: [a, b]")
    plan = planned(tmp_path, "pipeline: shop\n", source, SINK)
    assert plan.sources[0].dead_letter_topic == "shop.dlq"
    assert plan.sources[0].reads("a")
    assert plan.sources[0].reads("b")


@pytest.mark.parametrize(
    ("mode", "sink", "kept"),
    [
        ("stream", SINK, AT_LEAST_ONCE),
        ("stream", DELTA, EXACTLY_ONCE),
        ("batch", DELTA, EXACTLY_ONCE),
        ("stream", CONSOLE, AT_LEAST_ONCE),
    ],
)
def test_a_promise_is_what_the_sink_can_keep(
    tmp_path: Path, mode: str, sink: str, kept: str
) -> None:
    plan = planned(tmp_path, f"mode: {mode}\n", SOURCE, sink)
    assert [promise.kept for promise in plan.promises] == [kept, AT_LEAST_ONCE]


def test_a_guarantee_that_cannot_be_kept_is_refused_for_each_target(tmp_path: Path) -> None:
    asked = "guarantee: exactly_once\n"
    assert faults(tmp_path, asked, SOURCE, SINK) == []
    found = faults(tmp_path, asked, SOURCE, "sink: {connector_type: console}\n")
    assert [(f.code, f.span.line) for f in found] == [("CANNOT_KEEP", 1)]
    failing = below("source", kafka(bad_data="fail"))
    assert faults(tmp_path, asked, failing, DELTA) == []
