"""Schemas as messages name them, of a registry that answers as Confluent's own does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from tests.unit.test_registry_client import Answer, stand_in

from headrace.admin.confluent_store import ConfluentStore
from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.admin.stores import RegistryAddress, Stores
from headrace.errors import (
    AuthenticationFailure,
    DefinitionError,
    RegistryRefused,
    RegistryUnavailable,
    UnknownSchema,
    UnknownSubject,
)

PROTOBUF = SchemaType.PROTOBUF
ORDER = 'syntax = "proto3"; import "money.proto"; message Order { Money price = 1; }'
MONEY = 'syntax = "proto3"; import "unit.proto"; message Money { Unit unit = 1; }'
UNIT = 'syntax = "proto3"; message Unit { string name = 1; }'


class Registry:
    """Keeps what is registered in lists, and what it was asked for."""

    def __init__(self) -> None:
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []

    def add(self, subject: str, **schema: Any) -> int:
        there = self.kept.setdefault(subject, [])
        same = [each["id"] for each in self.all() if each["schema"] == schema["schema"]]
        id = same[0] if same else len({each["id"] for each in self.all()}) + 1
        there.append({"subject": subject, "version": len(there) + 1, "id": id, **schema})
        return id

    def all(self) -> Iterator[dict[str, Any]]:
        for versions in self.kept.values():
            yield from versions

    def __call__(self, request: httpx2.Request) -> Answer:
        path = request.url.raw_path.decode().partition("?")[0].strip("/")
        self.asked.append(f"{request.method} {path}")
        match request.method, [unquote(part) for part in path.split("/")]:
            case "GET", ["subjects"]:
                return 200, list(self.kept)
            case "GET", ["schemas", "ids", id]:
                found = [each for each in self.all() if each["id"] == int(id)]
                return (200, found[0]) if found else (404, {"error_code": 40403, "message": ""})
            case "GET", ["schemas", "ids", id, "versions"]:
                return 200, [each for each in self.all() if each["id"] == int(id)]
            case _, ["subjects", subject, *_] if (
                subject not in self.kept and request.method == "GET"
            ):
                return 404, {"error_code": 40401, "message": "Subject not found"}
            case "GET", ["subjects", subject, "versions"]:
                return 200, [each["version"] for each in self.kept[subject]]
            case "GET", ["subjects", subject, "versions", version]:
                return 200, self.kept[subject][-1 if version == "latest" else int(version) - 1]
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self.add(subject, **json.loads(request.content))}
            case "POST", ["subjects", subject]:
                text = json.loads(request.content)["schema"]
                same = [each for each in self.kept.get(subject, []) if each["schema"] == text]
                return (200, same[0]) if same else (404, {"error_code": 40403, "message": ""})
            case "GET", ["config", *_]:
                return 200, {"compatibilityLevel": "BACKWARD"}
            case "POST", ["compatibility", *_]:
                return 200, {"is_compatible": False, "messages": ["field 1 is gone"]}
        raise AssertionError(self.asked[-1])


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def store(registry: Registry) -> ConfluentStore:
    return ConfluentStore(stand_in(registry))


def test_a_schema_comes_with_everything_it_refers_to_what_is_needed_first_first(
    registry: Registry, store: ConfluentStore
) -> None:
    made = store.register(
        "orders-value", PROTOBUF, ORDER, (("unit.proto", UNIT), ("money.proto", MONEY))
    )

    assert made == StoredSchema(
        "3",
        PROTOBUF,
        ORDER,
        (("unit.proto", UNIT), ("money.proto", MONEY)),
        "orders-value",
        1,
    )
    # Under subjects of their own, each with those that its text names.
    kept = {each["subject"]: each.get("references") for each in registry.all()}
    assert kept == {
        "unit.proto": [],
        "money.proto": [{"name": "unit.proto", "subject": "unit.proto", "version": 1}],
        "orders-value": [{"name": "money.proto", "subject": "money.proto", "version": 1}],
    }
    again = ConfluentStore(stand_in(registry))
    assert again.by_id("3") == again.newest("orders-value") == made
    assert again.versions("orders-value") == [made]
    assert again.framing is Framing.CONFLUENT


def test_what_cannot_change_is_asked_for_once_and_the_newest_version_by_one_request(
    registry: Registry, store: ConfluentStore
) -> None:
    store.register("orders-value", PROTOBUF, ORDER, (("money.proto", MONEY),))
    store.by_id("2")
    store.newest("orders-value")
    registry.asked.clear()

    store.by_id("2")
    assert registry.asked == []
    store.newest("orders-value")
    assert registry.asked == ["GET subjects/orders-value/versions/latest"]


def test_a_schema_that_is_there_is_not_registered_again(
    registry: Registry, store: ConfluentStore
) -> None:
    first = store.register("units", PROTOBUF, UNIT)
    again = ConfluentStore(stand_in(registry)).register("units", PROTOBUF, UNIT)

    assert first == again
    assert len(registry.kept["units"]) == 1
    assert store.subjects() == ["units"]


def test_why_a_schema_would_not_be_taken_is_told_and_nothing_is_changed(
    registry: Registry, store: ConfluentStore
) -> None:
    registry.add(
        "orders-value", schema='syntax = "proto3"; message Order {}', schemaType="PROTOBUF"
    )
    before = list(registry.all())

    assert store.accepts("orders-value", PROTOBUF, UNIT) == ["field 1 is gone"]
    assert store.accepts("units-value", PROTOBUF, UNIT) == []
    # Its reference is not there yet: only whether that would be taken can be told.
    assert store.accepts("orders-value", PROTOBUF, MONEY, (("unit.proto", UNIT),)) == []
    assert "not valid" in store.accepts("units-value", SchemaType.AVRO, '"no type"')[0]
    assert list(registry.all()) == before


def test_what_there_is_not_is_told(store: ConfluentStore) -> None:
    assert store.newest("orders-value") is None
    with pytest.raises(UnknownSubject):
        store.versions("orders-value")
    for id in ("7", "4294967295"):
        with pytest.raises(UnknownSchema, match=f"id {id} does not exist"):
            store.by_id(id)


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, AuthenticationFailure), (404, RegistryRefused), (503, RegistryUnavailable)],
)
def test_a_page_in_place_of_an_answer_is_told_in_a_line(
    status: int, error: type[Exception]
) -> None:
    page = f"<html>{'<p>nginx</p>' * 1000}</html>"
    registry = stand_in(lambda _: (200, {}))
    rest = registry.client._rest_client
    answer = httpx2.MockTransport(lambda _: httpx2.Response(status, text=page))
    rest.session, rest.max_retries = httpx2.Client(transport=answer), 0

    with pytest.raises(error, match="not the answer of a registry: <html><p>nginx") as raised:
        ConfluentStore(registry).newest("orders-value")

    assert len(str(raised.value)) < 300


# Which store an address means


def address(**more: str | None) -> RegistryAddress:
    told: dict[str, Any] = {"endpoint": "http://registry.example", "api_key": None, **more}
    return RegistryAddress("confluent", told["endpoint"], told["api_key"], told.get("api_secret"))


def test_a_run_has_one_store_for_each_address_and_who_asks() -> None:
    stores = Stores()

    assert stores.at(address()) is stores.at(address())
    assert stores.at(address()) is not stores.at(address(api_key="ann", api_secret="s3cret"))


def test_a_login_is_not_shown() -> None:
    one = address(endpoint="https://ann:s3cret@registry.example/api", api_key="s3cret")

    assert "s3cret" not in repr(one) + one.words
    assert one.words == "https://registry.example/api"
    assert Stores().at(one).url == "https://registry.example/api"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"endpoint": None}, "has no address"),
        ({"api_secret": "s3cret"}, "`api_secret` and no `api_key`"),
        ({"endpoint": "registry.example"}, "does not begin with http"),
    ],
)
def test_an_address_that_cannot_be_is_refused(told: dict[str, str | None], words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as raised:
        Stores().at(address(**told))

    assert "s3cret" not in str(raised.value)
