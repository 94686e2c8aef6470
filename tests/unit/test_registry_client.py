"""What registries answer, and what becomes of it; a stand-in answers as Confluent's own does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from headrace.admin import registry as schemas
from headrace.admin.registry import Level
from headrace.admin.registry_client import Registry, connect, plain
from headrace.admin.registry_schemas import Schema, SchemaType
from headrace.cli import main
from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    DefinitionError,
    HeadraceError,
    IncompatibleSchema,
    InvalidSchema,
    RegistryRefused,
    RegistryUnavailable,
    UnknownSchema,
    UnknownSubject,
)

URL = "http://registry.example"
ORDER = Schema(SchemaType.AVRO, '{"type": "record", "name": "Order", "fields": []}')
Answer = tuple[int, Any]


def stand_in(answer: Callable[[httpx2.Request], Answer], url: str = URL, **login: Any) -> Registry:
    """A registry that answers by a function, without a socket."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        status, body = answer(request)
        return httpx2.Response(status, json=body)

    registry = connect(url, **login)
    rest = registry.client._rest_client
    rest.session = httpx2.Client(transport=httpx2.MockTransport(handle), auth=rest.auth)
    return registry


def fault(status: int, code: int | None, message: str = "so it is") -> Callable[..., Answer]:
    body = {"message": message, **({} if code is None else {"error_code": code})}
    return lambda _: (status, body)


class Confluent:
    """Two subjects with a version each; `orders-value` has a level of its own."""

    def __init__(self) -> None:
        self.levels = {"": "BACKWARD", "orders-value": "FULL_TRANSITIVE"}
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> Answer:
        raw = request.url.raw_path.decode()
        path = [unquote(part) for part in raw.partition("?")[0].strip("/").split("/")]
        self.asked.append(f"{request.method} {raw}")
        match request.method, path:
            case "GET", ["subjects", _, "versions"]:
                return 200, [1, 2]
            case "GET", ["subjects", subject, "versions", "latest"]:
                return 200, {"subject": subject, "version": 2, "id": 7, "schema": ORDER.text}
            case "POST", ["subjects", _]:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "POST", ["compatibility", *_]:
                return 200, {"is_compatible": False, "messages": ["{oldSchemaVersion: 2}"]}
            case "GET", ["config"]:
                return 200, {"compatibilityLevel": self.levels[""]}
            case "GET", ["config", subject]:
                return self._level(subject, "defaultToGlobal" in request.url.params)
            case "PUT", ["config", subject]:
                self.levels[subject] = json.loads(request.content)["compatibility"]
                return 200, {"compatibility": self.levels[subject]}
            case "DELETE", ["config", subject]:
                return 200, {"compatibilityLevel": self.levels.pop(subject)}
        raise AssertionError(self.asked[-1])

    def _level(self, subject: str, or_global: bool) -> Answer:
        if subject not in self.levels and not or_global:
            return 404, {"error_code": 40408, "message": "no subject-level compatibility"}
        return 200, {"compatibilityLevel": self.levels.get(subject, self.levels[""])}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, 40101, AuthenticationFailure),
        (401, None, AuthenticationFailure),
        (403, 40301, AuthorizationFailure),
        (404, 40401, UnknownSubject),
        (404, 40404, UnknownSubject),
        (404, 40402, UnknownSchema),
        (422, 42202, UnknownSchema),
        (409, 409, IncompatibleSchema),
        (422, 42201, InvalidSchema),
        (422, 0, InvalidSchema),
        (429, 42901, RegistryUnavailable),
        (503, None, RegistryUnavailable),
        (500, 50002, RegistryUnavailable),
        (500, 50005, RegistryRefused),
        (404, None, RegistryRefused),
        (422, 42205, RegistryRefused),
    ],
)
def test_an_answer_becomes_an_error_of_ours(
    status: int, code: int | None, error: type[HeadraceError]
) -> None:
    with pytest.raises(error) as raised:
        schemas.find(stand_in(fault(status, code)), "orders-value", 3)

    assert raised.value.hint


def test_an_answer_that_is_no_registrys_is_told_as_such() -> None:
    with pytest.raises(RegistryRefused, match="not the answer of a registry") as raised:
        schemas.level(stand_in(lambda _: (200, ["hello"])))

    assert "/apis/ccompat/v7" in str(raised.value.hint)


def test_javas_classes_are_left_out_of_reasons() -> None:
    message = (
        "io.apicurio.registry.rules.RuleViolationException: Incompatible artifact: a [AVRO], num "
        "of incompatible diffs: {1}, list of diff types: [reader type: STRING at /fields/0/type]"
    )

    assert (
        plain(message) == "Incompatible artifact: a [AVRO]: [reader type: STRING at /fields/0/type]"
    )
    assert plain("Schema not found.") == "Schema not found"


# The login


def test_user_and_password_are_sent_and_never_shown() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> Answer:
        seen.append(base64.b64decode(request.headers["authorization"].split()[1]).decode())
        return 401, {"error_code": 40101}

    for registry in (
        stand_in(answer, user="ann", password="s3:cret"),
        stand_in(answer, "http://ann:s3%3Acret@registry.example"),
    ):
        with pytest.raises(AuthenticationFailure) as raised:
            schemas.subjects(registry)
        told = f"{registry!r} {raised.value} {raised.value.hint}"
        assert "s3" not in told
        assert URL in told
    assert seen == ["ann:s3:cret"] * 2


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("registry.example:8081", {}),
        ("ftp://ann:s3cret@registry.example", {}),
        (URL, {"password": "s3cret"}),
        (URL, {"user": "a:b", "password": "s3cret"}),
    ],
)
def test_an_address_or_login_that_cannot_be_is_refused_without_showing_it(
    url: str, login: dict[str, Any]
) -> None:
    with pytest.raises(DefinitionError) as raised:
        connect(url, **login)

    assert "s3cret" not in str(raised.value)


def test_several_addresses_are_those_of_one_registry() -> None:
    registry = connect("http://ann:s3cret@a.example:1/, http://b.example:2/x/")

    assert registry.url == "http://a.example:1,http://b.example:2/x"


# As Confluent's own answers


def test_a_level_is_a_subjects_own_or_that_of_all() -> None:
    registry = stand_in(Confluent())

    assert schemas.level(registry) == Level("BACKWARD", own=True)
    assert schemas.level(registry, "orders-value") == Level("FULL_TRANSITIVE", own=True)
    assert schemas.level(registry, "a/b-value") == Level("BACKWARD", own=False)


def test_a_level_is_set_and_taken_back() -> None:
    server = Confluent()
    registry = stand_in(server)

    assert schemas.set_level(registry, "NONE", "a/b-value") == Level("NONE", own=True)
    before = len(server.asked)
    assert schemas.set_level(registry, "NONE", "a/b-value") == Level("NONE", own=True)
    assert not any(call.startswith("PUT") for call in server.asked[before:])
    assert schemas.unset_level(registry, "a/b-value") == Level("BACKWARD", own=False)
    assert schemas.unset_level(registry, "a/b-value") == Level("BACKWARD", own=False)
    assert sum(call.startswith("DELETE") for call in server.asked) == 1


def test_a_check_asks_by_the_level_that_holds_and_passes_on_the_reasons() -> None:
    server = Confluent()
    registry = stand_in(server)
    wider = Schema(SchemaType.AVRO, ORDER.text.replace("[]", '[{"name": "id", "type": "int"}]'))

    every = schemas.check(registry, "orders-value", wider)
    newest = schemas.check(registry, "bills-value", wider)

    asked = [call for call in server.asked if "/compatibility/" in call]
    assert asked == [
        "POST /compatibility/subjects/orders-value/versions?verbose=true",
        "POST /compatibility/subjects/bills-value/versions/2?verbose=true",
    ]
    assert (every.against, newest.against) == ((1, 2), (2,))
    assert (every.accepted, every.messages) == (False, ("{oldSchemaVersion: 2}",))
    assert [(each.path, each.after) for each in every.differences] == [("id", "int")]


def test_a_schema_of_another_type_is_refused_without_asking() -> None:
    server = Confluent()

    verdict = schemas.check(
        stand_in(server), "bills-value", Schema(SchemaType.JSON, '{"type": "object"}')
    )

    assert not verdict.accepted
    assert verdict.messages == ("the subject holds AVRO, and this is JSON",)
    assert not any("/compatibility/" in call for call in server.asked)


def test_a_broken_schema_is_refused_before_anything_is_asked() -> None:
    server = Confluent()

    with pytest.raises(InvalidSchema, match="no list of fields"):
        schemas.check(
            stand_in(server),
            "orders-value",
            Schema(SchemaType.AVRO, '{"type": "record", "name": "A"}'),
        )

    assert server.asked == []


# The command line


def test_a_level_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main._run(["schemas", "compatibility", "--set", "BACKWARDS"]) == 2
    assert "BACKWARD_TRANSITIVE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        "schemas compatibility --unset",
        "schemas compatibility a --unset --set FULL",
        "schemas show a --id 3",
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run(arguments.split()) == 2
    assert "→" in capsys.readouterr().err
