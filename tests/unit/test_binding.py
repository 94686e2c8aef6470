"""The plan of a run while the schemas of its messages change; a store in memory has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.definitions import CONSOLE, planned
from tests.unit.test_source_schemas import NOTE, SOURCE, Memory, OneStore, known, record

from headrace.errors import (
    BrokerTimeout,
    IncompatibleChange,
    NewSchema,
    RegistryUnavailable,
)
from headrace.formats.options import Part
from headrace.model.schema import Schema
from headrace.plan.stages import Plan
from headrace.project import Project
from headrace.runtime.binding import Binding, HeldBack
from headrace.runtime.progress import Event, SchemaChanged, Warned
from headrace.runtime.schemas import SourceSchemas
from headrace.runtime.state import PipelineState
from headrace.testing import Crash, crash_at

Begin = Callable[..., Binding]
INT = {"name": "amount", "type": "int"}
TEXT = {"name": "amount", "type": "string"}
COUNTING = "transform:\n  - sql: SELECT amount, count(*) AS n FROM source GROUP BY amount\n"


@pytest.fixture
def store() -> Memory:
    made = Memory()
    made.add("orders-value", record("id", INT))
    return made


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def begin(tmp_path: Path, store: Memory, told: list[Event]) -> Begin:
    """A run begins, with the state that earlier ones have left."""
    folder = Project(tmp_path).state("shop")
    folder.mkdir(parents=True)

    def begin(*options: str, steps: str = "", anew: bool = False) -> Binding:
        more = "".join(f"  {option}\n" for option in options)
        schemas = SourceSchemas(PipelineState(folder), told.append, OneStore(store), anew=anew)
        return Binding(planned(tmp_path, SOURCE, more, steps, CONSOLE), schemas)

    return begin


def columns(binding: Binding) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in known(binding.plan).columns.columns)


def test_a_batch_is_held_back_until_the_plan_has_the_new_version(
    begin: Begin, store: Memory, told: list[Event]
) -> None:
    binding = begin()
    binding.hold_back()
    assert not binding.renew(None)
    store.add("orders-value", record("id", INT, NOTE))
    for _ in range(2):  # whichever query asks: the frames of all are of the old plan
        with pytest.raises(HeldBack):
            binding.hold_back()
    assert binding.renew(None)
    binding.hold_back()
    assert columns(binding) == "id BIGINT, amount INT, note STRING"
    assert told == [SchemaChanged("source", "schema 2 of orders-value", ("+ note STRING",))]


@pytest.mark.parametrize("point", ["schema.judged", "schema.kept"])
def test_a_crash_between_judging_and_the_next_start_changes_nothing(
    begin: Begin, store: Memory, point: str
) -> None:
    binding = begin()
    store.add("orders-value", record("id", INT, NOTE))
    with crash_at(point), pytest.raises(Crash):
        binding.refresh()
    again = begin()
    assert columns(again) == "id BIGINT, amount INT, note STRING"
    again.hold_back()


def test_an_id_of_another_subject_is_asked_for_once(begin: Begin, store: Memory) -> None:
    binding = begin()
    other = store.add("others", record("id", INT, "currency"))
    met = NewSchema("source", "value", other.id)
    store.silent = RegistryUnavailable("http://registry.example", "refused")
    with pytest.raises(RegistryUnavailable):
        binding.renew(met)
    store.silent = None
    assert binding.renew(met)
    assert columns(binding) == "id BIGINT, amount INT, currency BIGINT"
    # Should it come again all the same, it is a failure like others.
    assert not binding.renew(met)
    assert not binding.renew(BrokerTimeout("reading"))


def test_sinks_follow_the_columns_and_are_bound_again_after_a_failure(
    begin: Begin, store: Memory
) -> None:
    binding = begin()
    seen: list[int] = []

    def with_sinks(plan: Plan) -> Plan:
        seen.append(len(known(plan).columns.columns))
        if len(seen) == 2:
            raise RegistryUnavailable("http://registry.example", "refused")
        return plan

    binding.write_by(with_sinks)
    store.add("orders-value", record("id", INT, NOTE))
    with pytest.raises(RegistryUnavailable):
        binding.refresh()
    binding.refresh()
    assert seen == [2, 3, 3]


def test_wider_types_are_taken_up_where_the_source_says_so(begin: Begin, store: Memory) -> None:
    begin()
    store.add("orders-value", record("id", "amount"))
    with pytest.raises(IncompatibleChange) as refused:
        begin()
    assert str(refused.value) == (
        "source `source`: schema 2 of orders-value does not fit the columns of the pipeline, and "
        "`schema_evolution` is additive:\n"
        "  ~ amount INT → BIGINT\n"
        "nothing that was written with it has been read"
    )
    assert refused.value.exit_code == 4
    assert "--accept-schema" in str(refused.value.hint)
    assert columns(begin("schema_evolution: widen")) == "id BIGINT, amount BIGINT"


def test_what_was_set_aside_is_judged_again_when_the_next_run_begins(
    begin: Begin, store: Memory, told: list[Event]
) -> None:
    begin()
    store.add("orders-value", record("id", "amount"))
    store.add("orders-value", record("id", TEXT))
    dlq = "on_incompatible_schema: dlq"
    binding = begin(dlq)
    assert set(known(binding.plan).refused) == {"2", "3"}
    assert [type(each) for each in told] == [Warned, Warned]
    widened = begin("schema_evolution: widen", dlq)
    assert columns(widened) == "id BIGINT, amount BIGINT"
    assert set(known(widened.plan).refused) == {"3"}
    with pytest.raises(IncompatibleChange, match=r"~ amount BIGINT → STRING"):
        begin("schema_evolution: widen")
    taken = begin("schema_evolution: widen", anew=True)
    assert columns(taken) == "id BIGINT, amount STRING"


def test_columns_stay_where_rows_are_remembered_or_columns_declared(
    begin: Begin, store: Memory
) -> None:
    begin(steps=COUNTING)
    store.add("orders-value", record("id", INT, NOTE))
    with pytest.raises(IncompatibleChange, match="remembered between batches"):
        begin(steps=COUNTING)
    declared = begin("schema: id BIGINT, amount INT", steps=COUNTING)
    store.add("orders-value", record("id", TEXT))
    with pytest.raises(IncompatibleChange, match="its `schema` is declared"):
        declared.refresh()


def test_an_older_version_is_read_though_nothing_may_change(begin: Begin, store: Memory) -> None:
    for number in range(20):
        store.add("orders-value", record("id", INT, *(f"n{each}" for each in range(number))))
    binding = begin("schema_evolution: freeze")
    before = columns(binding)
    assert binding.renew(NewSchema("source", "value", "1"))
    assert columns(binding) == before


def test_a_subject_that_was_made_again_counts_its_versions_anew(
    begin: Begin, store: Memory
) -> None:
    store.add("orders-value", record("id", INT, NOTE))
    binding = begin()
    del store.kept["orders-value"][:]
    store.kept["gone"] = [store.add("gone", record("id"))] * 5  # ids are never given twice
    store.add("orders-value", record("id", INT, NOTE, "currency"))
    binding.refresh()
    assert columns(binding) == "id BIGINT, amount INT, note STRING, currency BIGINT"


def test_keys_change_by_the_same_rule(begin: Begin, store: Memory) -> None:
    store.add("orders-key", '"int"')
    keyed = ("key_format: confluent_avro", "schema_evolution: widen")
    binding = begin(*keyed)
    store.add("orders-key", '"long"')
    binding.refresh()
    assert known(binding.plan, Part.KEY).columns == Schema.parse("key BIGINT")
    store.add("orders-key", record("id"))
    with pytest.raises(IncompatibleChange, match="it was one value, and is a record"):
        binding.refresh()
