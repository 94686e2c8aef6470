"""Schemas in AWS Glue's registry, and the one place where its errors become Headrace's.

A subject is a schema of Glue, the id in a message the UUID of one of its versions. The client is
boto3, which is an extra and imported only here. A login comes from the definition or, without one,
from where boto3 looks: the environment, a profile, the role of the machine.

Glue judges a new version after it has taken it: it is PENDING, then AVAILABLE or a FAILURE. Nothing
tells before whether a version would be compatible.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from headrace.admin.registry_schemas import SchemaType
from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    DefinitionError,
    HeadraceError,
    IncompatibleSchema,
    InvalidSchema,
    PackageMissing,
    RegistryRefused,
    RegistryUnavailable,
    UnknownRegistry,
    UnknownSchema,
    UnknownSubject,
)

DEFAULT_REGISTRY = "default-registry"
# The level of a schema that Headrace makes; AWS's own clients choose the same.
LEVEL = "BACKWARD"
# How long Glue may take to judge a version.
JUDGED_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 0.5
_REQUEST_SECONDS = 15
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_NOT_FOUND = "EntityNotFoundException"
_EXISTS = "AlreadyExistsException"
_LOGIN = {
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "UnrecognizedClientException",
}
_FORBIDDEN = {"AccessDenied", "AccessDeniedException"}
_PASSING = {
    "ConcurrentModificationException",
    "InternalServiceException",
    "OperationTimeoutException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}


def connect(
    registry_name: str | None = None,
    region: str | None = None,
    endpoint: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> GlueStore:
    """A registry by its name; nothing is asked yet. `endpoint` is for what is not AWS's own."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as missing:
        raise PackageMissing("AWS Glue", "boto3", "glue") from missing

    settings: dict[str, Any] = {
        "connect_timeout": _REQUEST_SECONDS,
        "read_timeout": _REQUEST_SECONDS,
        "retries": {"mode": "standard", "max_attempts": 3},
    }
    if endpoint is not None and urlsplit(endpoint).hostname in _LOOPBACK:
        settings["proxies"] = {}  # a proxy of the environment is for addresses outside
    try:
        client = boto3.session.Session().client(
            "glue",
            region_name=region,
            endpoint_url=endpoint,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=Config(**settings),
        )
    except (BotoCoreError, ValueError) as failure:
        raise DefinitionError(
            f"AWS Glue: {failure}",
            hint="name the `region` in `schema_registry`, or set AWS_REGION; a profile must be "
            "one of your AWS configuration",
        ) from failure
    name = registry_name or DEFAULT_REGISTRY
    where = endpoint or client.meta.region_name
    return GlueStore(f"AWS Glue, registry {name} ({where})", name, client)


class GlueStore:
    """A `SchemaStore` by a client of boto3; `url` is how it is shown."""

    framing: Framing = Framing.GLUE
    compares: bool = False

    def __init__(self, url: str, registry: str, client: Any) -> None:
        self.url = url
        self.registry = registry
        self.client = client
        # Versions do not change any more, and so are asked for once.
        self._available: dict[tuple[str, int], StoredSchema] = {}

    def by_id(self, id: str) -> StoredSchema:
        action = f"reading schema {id}"
        try:
            with self._asking(action):
                found = self.client.get_schema_version(SchemaVersionId=id)
        except _Missing as missing:
            raise UnknownSchema(f"a schema version {id}", self.url) from missing
        return _stored(found)

    def versions(self, subject: str) -> list[StoredSchema]:
        action = f"reading {subject}"
        schema = self._schema(subject)
        if schema is None:
            raise self._unknown(subject)
        for number in range(1, int(schema["LatestSchemaVersion"]) + 1):
            if (subject, number) in self._available:
                continue
            one = self._version(action, subject, {"VersionNumber": number})
            if one is not None and one["Status"] == "AVAILABLE":
                self._available[subject, number] = _stored(one)
        return [each for (name, _), each in sorted(self._available.items()) if name == subject]

    def newest(self, subject: str) -> StoredSchema | None:
        found = self._version(f"reading {subject}", subject, {"LatestVersion": True})
        if found is None:
            self._check_registry()
            return None
        if found["Status"] == "AVAILABLE":
            return _stored(found)
        # It is being judged, or was found to be incompatible: messages have an older one.
        older = self.versions(subject)
        return older[-1] if older else None

    def subjects(self) -> list[str]:
        pages = self.client.get_paginator("list_schemas")
        wanted = {"RegistryName": self.registry}
        try:
            with self._asking(f"listing schemas of {self.registry}"):
                found = [
                    one for page in pages.paginate(RegistryId=wanted) for one in page["Schemas"]
                ]
        except _Missing as missing:
            raise UnknownRegistry(self.registry, self.url) from missing
        return sorted(str(one["SchemaName"]) for one in found)

    def register(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> StoredSchema:
        action = f"registering {subject}"
        if references:
            raise InvalidSchema(action, _NO_REFERENCES)
        known = self._by_definition(action, subject, text)
        if known is not None:
            return self.by_id(known)
        schema = self._schema(subject)
        if schema is None:
            id = self._create(action, subject, type, text)
        else:
            _check_open(subject, schema, type)
            id = self._add(action, subject, text)
        return self._judged(subject, id)

    def accepts(
        self,
        subject: str,
        type: SchemaType,
        text: str,
        references: tuple[tuple[str, str], ...] = (),
    ) -> list[str]:
        """What Glue can say before it has the schema: whether it is valid, and whether the subject
        takes new versions of this type. It compares versions only when it has them.
        """
        action = f"checking {subject}"
        if references:
            return [_NO_REFERENCES]
        if self._by_definition(action, subject, text) is not None:
            return []
        schema = self._schema(subject)
        if schema is None:
            self._check_registry()
        else:
            try:
                _check_open(subject, schema, type)
            except IncompatibleSchema as closed:
                return [str(closed)]
        return self._invalid(action, type, text)

    # One call each

    def _schema(self, subject: str) -> dict[str, Any] | None:
        try:
            with self._asking(f"reading {subject}"):
                return dict(self.client.get_schema(SchemaId=self._id(subject)))
        except _Missing:
            return None

    def _version(self, action: str, subject: str, which: dict[str, Any]) -> dict[str, Any] | None:
        try:
            with self._asking(action):
                found = self.client.get_schema_version(
                    SchemaId=self._id(subject), SchemaVersionNumber=which
                )
        except _Missing:
            return None
        return dict(found)

    def _by_definition(self, action: str, subject: str, text: str) -> str | None:
        """The id of the version with this schema, if it may be used."""
        try:
            with self._asking(action):
                found = self.client.get_schema_by_definition(
                    SchemaId=self._id(subject), SchemaDefinition=text
                )
        except _Missing:
            return None
        return str(found["SchemaVersionId"]) if found["Status"] == "AVAILABLE" else None

    def _create(self, action: str, subject: str, type: SchemaType, text: str) -> str:
        try:
            with self._asking(action):
                made = self.client.create_schema(
                    RegistryId={"RegistryName": self.registry},
                    SchemaName=subject,
                    DataFormat=type.value,
                    Compatibility=LEVEL,
                    SchemaDefinition=text,
                )
        except _Missing as missing:
            raise UnknownRegistry(self.registry, self.url) from missing
        except _Exists:  # somebody was faster
            return self._add(action, subject, text)
        return str(made["SchemaVersionId"])

    def _add(self, action: str, subject: str, text: str) -> str:
        try:
            with self._asking(action):
                made = self.client.register_schema_version(
                    SchemaId=self._id(subject), SchemaDefinition=text
                )
        except _Missing as missing:
            raise self._unknown(subject) from missing
        return str(made["SchemaVersionId"])

    def _judged(self, subject: str, id: str) -> StoredSchema:
        """A version that Glue has taken, as soon as it says that messages may have it."""
        end = time.monotonic() + JUDGED_SECONDS
        while True:
            with self._asking(f"registering {subject}"):
                found = dict(self.client.get_schema_version(SchemaVersionId=id))
            if found["Status"] == "AVAILABLE":
                return _stored(found)
            if found["Status"] != "PENDING":
                schema = self._schema(subject) or {}
                level = schema.get("Compatibility", "its level")
                raise IncompatibleSchema(subject, f"it is not compatible by {level}")
            if time.monotonic() > end:
                seconds = int(JUDGED_SECONDS)
                detail = f"version {id} of {subject} is not judged after {seconds} s"
                raise RegistryUnavailable(self.url, detail)
            time.sleep(_ASK_AGAIN_SECONDS)

    def _invalid(self, action: str, type: SchemaType, text: str) -> list[str]:
        try:
            with self._asking(action):
                found = self.client.check_schema_version_validity(
                    DataFormat=type.value, SchemaDefinition=text
                )
        except _NotSaid:
            return []
        return [] if found["Valid"] else [f"the schema is not valid: {found.get('Error')}"]

    def _unknown(self, subject: str) -> HeadraceError:
        self._check_registry()
        error = UnknownSubject(subject, self.url)
        error.hint = (
            "for AWS Glue a subject is the name of a schema, by default that of the topic: name "
            "it by `value_subject`, or see `aws glue list-schemas`"
        )
        return error

    def _check_registry(self) -> None:
        """Raises UnknownRegistry. AWS makes the default one with its first schema."""
        if self.registry == DEFAULT_REGISTRY:
            return
        try:
            with self._asking(f"reading registry {self.registry}"):
                self.client.get_registry(RegistryId={"RegistryName": self.registry})
        except _Missing as missing:
            raise UnknownRegistry(self.registry, self.url) from missing
        except AuthorizationFailure:
            return  # who may read schemas need not be allowed to read this

    def _id(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self.registry, "SchemaName": subject}

    @contextmanager
    def _asking(self, action: str) -> Iterator[None]:
        """For one call; its failures are Headrace's errors."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as failure:
            raise translate(failure.response, action, self.url) from failure
        except BotoCoreError as failure:
            raise _without_answer(failure, self.url) from failure


class _Missing(RegistryRefused):
    """What was asked for is not there; the caller knows what that was."""

    code = RegistryRefused.code


class _Exists(RegistryRefused):
    """What was to be made is there already."""

    code = RegistryRefused.code


class _NotSaid(RegistryUnavailable):
    """An answer without Glue's form: so do stand-ins answer a question that they do not know."""

    code = RegistryUnavailable.code


_NO_REFERENCES = "schemas in AWS Glue cannot refer to others; put all of it into one"


def _stored(found: dict[str, Any]) -> StoredSchema:
    # arn:aws:glue:REGION:ACCOUNT:schema/REGISTRY/NAME
    subject = str(found["SchemaArn"]).rpartition("/")[2]
    return StoredSchema(
        str(found["SchemaVersionId"]),
        SchemaType(found["DataFormat"]),
        str(found["SchemaDefinition"]),
        (),
        subject,
        int(found["VersionNumber"]),
    )


def _check_open(subject: str, schema: dict[str, Any], type: SchemaType) -> None:
    """Raises IncompatibleSchema where a schema of Glue takes no version of a type."""
    there = schema["DataFormat"]
    if there != type.value:
        raise IncompatibleSchema(subject, f"it is one of {there}, and this is {type.value}")
    if schema["Compatibility"] == "DISABLED":
        raise IncompatibleSchema(subject, "its compatibility is DISABLED: no version may be added")


def translate(response: Mapping[str, Any], action: str, url: str) -> HeadraceError:
    """The exception for what Glue answered to `action` ("registering orders")."""
    error = response.get("Error", {})
    code, detail = str(error.get("Code", "")), str(error.get("Message", "")).removesuffix(".")
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code == _NOT_FOUND:
        return _Missing(action, detail, status)
    if code == _EXISTS:
        return _Exists(action, detail, status)
    if code in _LOGIN:
        return _login_refused(url, detail)
    if code in _FORBIDDEN:
        refused = AuthorizationFailure(action, detail)
        refused.hint = (
            "allow this identity the actions glue:GetSchema* and, to register schemas, "
            "glue:CreateSchema and glue:RegisterSchemaVersion"
        )
        return refused
    if code == "InvalidInputException" and "definition" in detail.lower():
        return InvalidSchema(action, detail)
    if code == "500":
        return _NotSaid(url, "HTTP status 500")
    if code in _PASSING or status in (429, 500, 502, 503, 504):
        return _passing(url, f"{code}: {detail}")
    other = RegistryRefused(action, f"{code}: {detail}", status)
    other.hint = "AWS's documentation of Glue has its error codes"
    return other


def _without_answer(failure: Exception, url: str) -> HeadraceError:
    from botocore import exceptions

    logins = (
        exceptions.CredentialRetrievalError,
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.SSOError,
        exceptions.TokenRetrievalError,
    )
    if isinstance(failure, logins):
        return _login_refused(url, str(failure))
    if isinstance(failure, exceptions.ConnectionError | exceptions.HTTPClientError):
        return _passing(url, str(failure))
    return DefinitionError(f"{url}: {failure}", hint="check the settings of AWS that are used")


def _login_refused(url: str, detail: str) -> AuthenticationFailure:
    error = AuthenticationFailure(url, detail)
    error.hint = (
        "renew the login of AWS (`aws sso login`, new keys), or set `api_key` and `api_secret` in "
        "`schema_registry`"
    )
    return error


def _passing(url: str, detail: str) -> RegistryUnavailable:
    error = RegistryUnavailable(url, detail)
    error.hint = "try again; where it stays, check `endpoint`, `region` and the quotas of AWS Glue"
    return error
