"""What a run learns of the schemas of its messages, and keeps; a store in memory has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.definitions import CONSOLE, planned, write

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress, Stores
from headrace.api import load
from headrace.errors import (
    AuthenticationFailure,
    HeadraceError,
    IncompatibleChange,
    NewSchema,
    RegistryUnavailable,
    UnknownSchema,
    UnknownSubject,
    UnreadableSchema,
)
from headrace.formats.known import NOT_KNOWN, Known
from headrace.formats.options import Part
from headrace.plan.stages import Decode, Plan, SetAside
from headrace.project import Project
from headrace.runtime.progress import Event, SchemaChanged, Warned
from headrace.runtime.schemas import MOST_UNKNOWN, QUIET_SECONDS, SourceSchemas
from headrace.runtime.state import PipelineState, Status
from headrace.runtime.status import reports
from headrace.sources.kafka import KafkaSource

URL = "http://registry.example"
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
SOURCE = """\
pipeline: shop
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: orders
  format: confluent_avro
  schema_registry:
    endpoint: http://registry.example
    api_key: ann
    api_secret: t0psecret
"""


def record(*fields: dict[str, Any] | str) -> str:
    """An Avro record; a field that is only a name is a `long`."""
    told = [{"name": each, "type": "long"} if isinstance(each, str) else each for each in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": told})


class Memory:
    """A store that can be `silent`, with a clock beside it; what it was asked for is counted."""

    framing = Framing.CONFLUENT
    compares = True
    url = URL

    def __init__(self) -> None:
        self.kept: dict[str, list[StoredSchema]] = {}
        self.silent: HeadraceError | None = None
        self.asked: list[str] = []
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def add(self, subject: str, text: str, type: SchemaType = SchemaType.AVRO) -> StoredSchema:
        there = self.kept.setdefault(subject, [])
        id = str(sum(map(len, self.kept.values())) + 1)
        there.append(StoredSchema(id, type, text, (), subject, len(there) + 1))
        return there[-1]

    def by_id(self, id: str) -> StoredSchema:
        self._ask(f"id {id}")
        found = [each for all in self.kept.values() for each in all if each.id == id]
        if not found:
            raise UnknownSchema(f"a schema with id {id}", URL)
        return found[0]

    def versions(self, subject: str) -> list[StoredSchema]:
        self._ask(f"versions of {subject}")
        if subject not in self.kept:
            raise UnknownSubject(subject, URL)
        return list(self.kept[subject])

    def newest(self, subject: str) -> StoredSchema | None:
        self._ask(f"newest of {subject}")
        return self.kept[subject][-1] if subject in self.kept else None

    def subjects(self) -> list[str]:
        self._ask("subjects")
        return sorted(self.kept)

    def register(self, *_: Any) -> StoredSchema:
        raise AssertionError("a source registers nothing")

    def accepts(self, *_: Any) -> list[str]:
        raise AssertionError("a source registers nothing")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.silent is not None:
            raise self.silent


class OneStore(Stores):
    def __init__(self, store: Memory) -> None:
        super().__init__()
        self._store = store

    def at(self, address: RegistryAddress) -> Memory:
        assert (address.api_key, address.api_secret) == ("ann", "t0psecret")
        return self._store


@pytest.fixture
def store() -> Memory:
    made = Memory()
    made.add("orders-value", record("id", "amount"))
    made.add("orders-value", record("id", "amount", NOTE))
    return made


@pytest.fixture
def state(tmp_path: Path) -> PipelineState:
    folder = Project(tmp_path).state("shop")
    folder.mkdir(parents=True)
    return PipelineState(folder)


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def run(
    tmp_path: Path, store: Memory, state: PipelineState, told: list[Event]
) -> Callable[..., tuple[SourceSchemas, Plan]]:
    """A run begins: what it knows of schemas, and its plan with that."""

    def begin(*options: str, keep: bool = True, anew: bool = False) -> tuple[SourceSchemas, Plan]:
        more = "".join(f"  {option}\n" for option in options)
        schemas = SourceSchemas(state, told.append, OneStore(store), keep, anew, store.clock)
        return schemas, schemas.bound(planned(tmp_path, SOURCE, more, CONSOLE))

    return begin


Begin = Callable[..., tuple[SourceSchemas, Plan]]


def known(plan: Plan, part: Part = Part.VALUE) -> Known:
    (source,) = plan.sources
    assert isinstance(source, KafkaSource)
    return source.schemas[part]


def ids(plan: Plan) -> list[str]:
    return sorted(each.id for each in known(plan).writers)


# At the start


def test_a_first_start_reads_into_the_columns_of_the_newest_version(
    run: Begin, state: PipelineState
) -> None:
    _, plan = run()

    assert known(plan).columns.names == ("id", "amount", "note")
    assert ids(plan) == ["1", "2"]
    # All stages that look at the source have it.
    sources = [
        stage.source
        for query in plan.queries
        for stage in query.stages
        if isinstance(stage, Decode | SetAside)
    ]
    assert sources
    assert all(isinstance(each, KafkaSource) and not each.unbound for each in sources)
    assert Known.from_json(state.schemas()["source"]["value"]["known"]) == known(plan)


def test_a_restart_keeps_its_columns_and_takes_up_what_is_new(
    run: Begin, store: Memory, told: list[Event]
) -> None:
    run()
    store.add("orders-value", record("id", "currency", NOTE))
    _, plan = run()

    # What is gone stays, and what is new comes last.
    assert known(plan).columns.names == ("id", "amount", "note", "currency")
    assert [type(each) for each in told] == [SchemaChanged]
    _, fresh = run(anew=True)
    assert known(fresh).columns.names == ("id", "currency", "note")


def test_what_is_only_looked_at_is_not_kept(run: Begin, state: PipelineState) -> None:
    run(keep=False)

    assert state.schemas() == {}


def test_another_definition_begins_with_the_newest_schema(run: Begin, store: Memory) -> None:
    run()
    store.add("others", record("name"))
    _, plan = run("value_subject: others")

    assert known(plan).columns.names == ("name",)
    _, declared = run("schema: amount BIGINT")
    assert known(declared).columns.names == ("amount",)
    assert known(declared).declared
    _, required = run("schema: amount BIGINT NOT NULL")
    assert known(required).columns.required == ("amount",)


def test_keys_have_schemas_of_their_own(run: Begin, store: Memory) -> None:
    store.add("orders-key", '"string"')
    _, plan = run("key_format: confluent_avro", "key_column: code")

    assert known(plan, Part.KEY).scalar
    assert known(plan, Part.KEY).columns.names == ("code",)
    assert known(plan).columns.names == ("id", "amount", "note")


def test_of_many_versions_the_newest_are_known_from_the_beginning(
    run: Begin, store: Memory
) -> None:
    for number in range(40):
        store.add("orders-value", record("id", {**NOTE, "name": f"note_{number}"}))
    schemas, plan = run()

    assert ids(plan) == sorted(str(number) for number in range(27, 43))
    schemas.learn(plan, NewSchema("source", "value", "1"))
    assert "1" in ids(schemas.bound(plan))
    # Those that were passed over are no news.
    assert not schemas.refresh(plan)


# When something is wrong


def test_without_a_registry_it_starts_with_what_it_knows(
    run: Begin, store: Memory, told: list[Event]
) -> None:
    store.silent = RegistryUnavailable(URL, "connection refused")
    with pytest.raises(RegistryUnavailable):
        run()
    store.silent = None
    _, before = run()
    store.silent = RegistryUnavailable(URL, "connection refused")
    _, plan = run()

    assert known(plan) == known(before)
    (warning,) = told
    assert isinstance(warning, Warned)
    assert "connection refused" in warning.text
    assert "schema 2 of orders-value" in warning.text


def test_a_wrong_password_is_told_though_there_is_a_state(run: Begin, store: Memory) -> None:
    run()
    store.silent = AuthenticationFailure(URL, "unauthorized")

    with pytest.raises(AuthenticationFailure):
        run()


def test_a_subject_that_is_missing_is_told_with_those_that_there_are(
    run: Begin, store: Memory
) -> None:
    with pytest.raises(UnknownSubject, match="subject order-value does not exist") as raised:
        run("value_subject: order-value")
    assert raised.value.hint == "there is orders-value: name the right one with `value_subject`"
    with pytest.raises(UnknownSubject, match="subject orders-key") as raised:
        run("key_format: confluent_avro")
    assert "`key_subject`" in str(raised.value.hint)
    store.kept.clear()
    with pytest.raises(UnknownSubject) as raised:
        run("value_subject: order-value")
    assert "a producer registers it" in str(raised.value.hint)


def test_a_subject_of_another_type_is_told_with_both(run: Begin, store: Memory) -> None:
    store.add("others", 'syntax = "proto3"; message Other {}', SchemaType.PROTOBUF)

    with pytest.raises(UnreadableSchema) as raised:
        run("value_subject: others")

    assert "schema 1 of others: it is PROTOBUF" in str(raised.value)
    assert "`format: confluent_avro` reads AVRO" in str(raised.value)


def test_declared_columns_need_no_subject_and_learn_ids_as_they_come(
    run: Begin, told: list[Event]
) -> None:
    schemas, plan = run("schema: id BIGINT", "value_subject: order-value")

    assert (known(plan).columns.names, ids(plan)) == (("id",), [])
    assert "no subject order-value yet" in str(told)
    schemas.learn(plan, NewSchema("source", "value", "1"))
    assert ids(schemas.bound(plan)) == ["1"]


# While it runs


def test_nothing_new_is_one_request_for_each_subject(run: Begin, store: Memory) -> None:
    schemas, plan = run()
    store.asked.clear()

    assert not schemas.refresh(plan)
    assert store.asked == ["newest of orders-value"]


def test_a_new_version_is_taken_up_and_kept(
    run: Begin, store: Memory, state: PipelineState, told: list[Event]
) -> None:
    schemas, plan = run()
    store.add("orders-value", record("id", "amount", NOTE, "currency"))

    assert schemas.refresh(plan)
    assert not schemas.refresh(plan)
    after = schemas.bound(plan)
    assert known(after).columns.names == ("id", "amount", "note", "currency")
    assert ids(after) == ["1", "2", "3"]
    assert Known.from_json(state.schemas()["source"]["value"]["known"]) == known(after)
    assert [each for each in told if isinstance(each, SchemaChanged)]


def test_a_version_that_does_not_fit_ends_the_run_unless_a_newer_one_does(
    run: Begin, store: Memory
) -> None:
    schemas, plan = run()
    amount = {"name": "amount", "type": "string"}
    store.add("orders-value", record("id", amount, NOTE))
    with pytest.raises(IncompatibleChange, match="schema 3 of orders-value"):
        schemas.refresh(plan)
    with pytest.raises(IncompatibleChange):
        run()
    store.add("orders-value", record("id", "amount", NOTE, "currency"))

    assert schemas.refresh(plan)
    assert ids(schemas.bound(plan)) == ["1", "2", "4"]
    assert ids(run()[1]) == ["1", "2", "4"]
    # But a message that was written with it.
    with pytest.raises(IncompatibleChange):
        schemas.learn(plan, NewSchema("source", "value", "3"))


def test_messages_that_do_not_fit_can_be_set_aside(run: Begin, store: Memory) -> None:
    schemas, plan = run("on_incompatible_schema: dlq")
    store.add("orders-value", record("id", {"name": "amount", "type": "string"}))

    assert schemas.refresh(plan)
    assert not schemas.refresh(plan)
    assert list(known(schemas.bound(plan)).refused) == ["3"]
    # Also after a restart.
    assert list(known(run("on_incompatible_schema: dlq")[1]).refused) == ["3"]


def test_an_id_that_no_registry_has_is_refused_until_it_has_it(run: Begin, store: Memory) -> None:
    schemas, plan = run()
    schemas.learn(plan, NewSchema("source", "value", "3"))

    assert known(schemas.bound(plan)).refused == {"3": NOT_KNOWN}
    assert known(run()[1]).refused == {}
    store.add("orders-value", record("id", "amount", NOTE, "currency"))
    assert schemas.refresh(plan)
    assert (known(schemas.bound(plan)).refused, ids(schemas.bound(plan))) == ({}, ["1", "2", "3"])


def test_there_is_an_end_to_asking_for_ids_that_no_registry_has(
    run: Begin, store: Memory, told: list[Event]
) -> None:
    schemas, plan = run()
    for number in range(MOST_UNKNOWN):
        assert known(schemas.bound(plan)).asks
        schemas.learn(plan, NewSchema("source", "value", str(100 + number)))
    assert not known(schemas.bound(plan)).asks
    assert "no other is asked for" in str(told[-1])
    # A new version of the subject is taken up all the same, and another run asks again.
    store.add("orders-value", record("id", "amount", NOTE, "currency"))
    assert schemas.refresh(plan)
    assert "3" in ids(schemas.bound(plan))
    assert known(run()[1]).asks


def test_a_registry_that_falls_silent_is_told_once_each_time(
    run: Begin, store: Memory, told: list[Event]
) -> None:
    schemas, plan = run()
    for silent in (True, True, False, True):
        store.silent = AuthenticationFailure(URL, "the password has expired") if silent else None
        assert not schemas.refresh(plan)
        store.now += 100

    assert len(told) == 2
    # Without its answer a message cannot be read.
    with pytest.raises(AuthenticationFailure):
        schemas.learn(plan, NewSchema("source", "value", "9"))


def test_a_registry_that_hangs_is_not_asked_before_every_batch(run: Begin, store: Memory) -> None:
    schemas, plan = run()
    store.silent = RegistryUnavailable(URL, "timed out")
    store.asked.clear()
    for _ in range(3 * int(QUIET_SECONDS)):
        schemas.refresh(plan)
        store.now += 1

    assert len(store.asked) == 3


def test_what_only_reads_is_done_again_with_what_was_learned(run: Begin, store: Memory) -> None:
    schemas, plan = run()
    store.add("others", record("id", "amount"))
    seen: list[list[str]] = []

    def look(bound: Plan) -> str:
        seen.append(ids(bound))
        if "3" not in seen[-1]:
            raise NewSchema("source", "value", "3")
        return "rows"

    def stuck(_: Plan) -> None:
        raise NewSchema("source", "value", "4")

    assert schemas.learning(plan, look) == "rows"
    assert seen == [["1", "2"], ["1", "2", "3"]]
    with pytest.raises(NewSchema):
        schemas.learning(plan, stuck)


# What is shown


def test_secrets_are_in_nothing_that_is_shown_or_kept(
    run: Begin, tmp_path: Path, state: PipelineState, told: list[Event], store: Memory
) -> None:
    _, plan = run()
    definition = load(write(tmp_path, SOURCE + CONSOLE))
    store.silent = RegistryUnavailable(URL, "connection refused")
    run()
    shown = [
        repr(plan),
        str(told),
        json.dumps(definition.explain()),
        (state.folder / "schemas.json").read_text(),
        *(stage.source.shape for query in plan.queries for stage in query.decodes),
    ]

    assert not [text for text in shown if "t0psecret" in text]


def test_status_shows_the_schema_and_the_columns(
    run: Begin, tmp_path: Path, state: PipelineState
) -> None:
    _, plan = run()
    state.write_status(Status("shop", "stream", "p.yaml"))
    (report,) = reports(Project(tmp_path))

    assert [str(each) for each in report.schemas] == [
        f"value of `source` by schema 2 of orders-value at {URL}: "
        "id BIGINT, amount BIGINT, note STRING"
    ]
    # What it reads into is what is said.
    assert replace(known(plan), writers=()).columns.names == ("id", "amount", "note")
