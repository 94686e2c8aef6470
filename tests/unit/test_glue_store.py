"""What AWS Glue answers, as Headrace's errors; no server is asked."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from headrace.admin import glue_store
from headrace.admin.registry_schemas import SchemaType
from headrace.errors import (
    AuthenticationFailure,
    DefinitionError,
    HeadraceError,
    IncompatibleSchema,
    InvalidSchema,
    PackageMissing,
    RegistryUnavailable,
    UnknownRegistry,
)

URL = "AWS Glue, registry orders (eu-central-1)"
ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own AWS is used."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")


def answer(code: str, message: str = "because", status: int = 400) -> dict[str, Any]:
    error = {"Code": code, "Message": message}
    return {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("response", "code", "retry", "words"),
    [
        (answer("ExpiredTokenException"), "AuthenticationFailure", False, "aws sso login"),
        (answer("UnrecognizedClientException"), "AuthenticationFailure", False, "aws sso login"),
        (answer("AccessDeniedException"), "AuthorizationFailure", False, "glue:GetSchema*"),
        (answer("ThrottlingException"), "RegistryUnavailable", True, "quotas"),
        (answer("InternalServiceException", status=500), "RegistryUnavailable", True, "try again"),
        (answer("503", status=503), "RegistryUnavailable", True, "try again"),
        (
            answer("InvalidInputException", "Schema definition of AVRO data format is invalid"),
            "InvalidSchema",
            False,
            "correct it",
        ),
        (answer("ResourceNumberLimitExceededException"), "RegistryRefused", False, "AWS's"),
        (answer("EntityNotFoundException"), "RegistryRefused", False, ""),
    ],
)
def test_answers_of_glue_are_errors_of_headrace(
    response: dict[str, Any], code: str, retry: bool, words: str
) -> None:
    error = glue_store.translate(response, "registering orders", URL)
    assert (error.code, error.retry) == (code, retry)
    assert words in (error.hint or "")


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(PackageMissing) as missing:
        glue_store.connect(region="eu-central-1")
    assert missing.value.hint == "install it: pip install 'headrace[glue]'"


def test_a_region_must_be_known() -> None:
    with pytest.raises(DefinitionError, match="region") as unknown:
        glue_store.connect(access_key="a", secret_key="b")
    assert "AWS_REGION" in (unknown.value.hint or "")
    assert "eu-west-1" in glue_store.connect(region="eu-west-1").url


class Client:
    """A Glue whose versions are judged as told; each answer of `statuses` is given once."""

    def __init__(self, *statuses: str, level: str = "BACKWARD", there: bool = True) -> None:
        self.statuses = list(statuses)
        self.level = level
        self.there = there

    def _missing(self) -> Exception:
        from botocore.exceptions import ClientError

        failure: Exception = ClientError(answer("EntityNotFoundException"), "GetSchema")
        return failure

    def get_registry(self, **_: Any) -> dict[str, Any]:
        raise self._missing()

    def get_schema_by_definition(self, **_: Any) -> dict[str, Any]:
        raise self._missing()

    def get_schema(self, **_: Any) -> dict[str, Any]:
        if not self.there:
            raise self._missing()
        return {"DataFormat": "AVRO", "Compatibility": self.level, "LatestSchemaVersion": 1}

    def create_schema(self, **_: Any) -> dict[str, Any]:
        raise self._missing()

    def register_schema_version(self, **_: Any) -> dict[str, Any]:
        return {"SchemaVersionId": ID}

    def check_schema_version_validity(self, **_: Any) -> dict[str, Any]:
        return {"Valid": False, "Error": "no fields"}

    def get_schema_version(self, **_: Any) -> dict[str, Any]:
        return {
            "SchemaVersionId": ID,
            "SchemaDefinition": '"string"',
            "DataFormat": "AVRO",
            "SchemaArn": "arn:aws:glue:eu-central-1:123456789012:schema/orders/shop.orders",
            "VersionNumber": 2,
            "Status": self.statuses.pop(0) if self.statuses else "AVAILABLE",
        }


def store(client: Client) -> glue_store.GlueStore:
    return glue_store.GlueStore(URL, "orders", client)


def test_a_version_is_used_when_glue_has_judged_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue_store, "_ASK_AGAIN_SECONDS", 0)
    made = store(Client("PENDING", "PENDING")).register("orders", SchemaType.AVRO, '"string"')
    assert (made.id, made.version, made.subject) == (ID, 2, "shop.orders")

    with pytest.raises(IncompatibleSchema, match="not compatible by BACKWARD"):
        store(Client("PENDING", "FAILURE")).register("orders", SchemaType.AVRO, '"string"')
    monkeypatch.setattr(glue_store, "JUDGED_SECONDS", -1)
    with pytest.raises(RegistryUnavailable, match="not judged"):
        store(Client("PENDING")).register("orders", SchemaType.AVRO, '"string"')


def test_the_newest_version_is_one_that_messages_may_have() -> None:
    found = store(Client("FAILURE")).newest("orders")
    assert found is not None
    assert found.id == ID


def refusal(client: Client, type: SchemaType = SchemaType.AVRO) -> HeadraceError:
    with pytest.raises(HeadraceError) as refused:
        store(client).register("orders", type, '"string"')
    return refused.value


def test_what_glue_does_not_take_is_told_before_it_is_sent() -> None:
    assert "one of AVRO" in str(refusal(Client(), SchemaType.JSON))
    assert "DISABLED" in str(refusal(Client(level="DISABLED")))
    assert isinstance(refusal(Client(there=False)), UnknownRegistry)
    reference = (("money.avsc", "{}"),)
    with pytest.raises(InvalidSchema, match="cannot refer"):
        store(Client()).register("orders", SchemaType.AVRO, "{}", reference)

    def reasons(client: Client, *more: Any) -> list[str]:
        return store(client).accepts("orders", SchemaType.AVRO, '"string"', *more)

    assert reasons(Client()) == ["the schema is not valid: no fields"]
    assert "DISABLED" in reasons(Client(level="DISABLED"))[0]
    assert "cannot refer" in reasons(Client(), reference)[0]
    with pytest.raises(UnknownRegistry):
        store(Client(there=False)).versions("orders")


class Unreached(Client):
    """One whose every answer is a failure of boto3's own."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    def get_schema(self, **_: Any) -> dict[str, Any]:
        raise self.failure


def test_what_keeps_boto3_from_asking_is_told() -> None:
    from botocore import exceptions

    with pytest.raises(AuthenticationFailure, match="Unable to locate credentials"):
        store(Unreached(exceptions.NoCredentialsError())).versions("orders")
    for failure in (
        exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
        exceptions.ReadTimeoutError(endpoint_url="http://127.0.0.1:1"),
    ):
        with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1:1"):
            store(Unreached(failure)).versions("orders")
    with pytest.raises(DefinitionError, match="nobody"):
        store(Unreached(exceptions.ProfileNotFound(profile="nobody"))).versions("orders")


def test_subjects_are_the_names_of_all_pages() -> None:
    class Paged(Client):
        def get_paginator(self, operation: str) -> Paged:
            assert operation == "list_schemas"
            return self

        def paginate(self, **_: Any) -> list[dict[str, Any]]:
            return [{"Schemas": [{"SchemaName": name}]} for name in ("orders", "customers")]

    assert store(Paged()).subjects() == ["customers", "orders"]
