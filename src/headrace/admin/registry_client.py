"""A connection to a schema registry, and the one place where its errors become Headrace's.

The client is confluent-kafka's, which needs more packages than its Kafka part: only a command that
talks to a registry imports this module. Nothing is asked before the first call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx2
from confluent_kafka.schema_registry import Schema as WireSchema
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    DefinitionError,
    HeadraceError,
    IncompatibleSchema,
    InvalidSchema,
    RegistryRefused,
    RegistryUnavailable,
    SchemaInUse,
    UnknownSchema,
    UnknownSubject,
)

REQUEST_SECONDS = 15.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Client(SchemaRegistryClient):
    """Confluent's, with the two calls of which it gives only a part of the answer."""

    def __init__(self, config: dict[str, Any], loopback: bool) -> None:
        super().__init__(config)
        if loopback:
            # A proxy of the environment is for addresses outside.
            rest = self._rest_client
            rest.session = httpx2.Client(
                verify=rest.verify, auth=rest.auth, timeout=rest.timeout, trust_env=False
            )

    def effective_level(self, subject: str) -> str:
        """The level that holds for a subject, its own or that of all."""
        query = {"defaultToGlobal": "true"}
        answer = self._rest_client.get(f"config/{_quoted(subject)}", query)
        return str(answer["compatibilityLevel"])

    def compatible(
        self, subject: str, version: int | None, schema: WireSchema
    ) -> tuple[bool, list[str]]:
        """Whether one version, or all of them, go together with a schema; and why not."""
        which = "" if version is None else f"/{version}"
        path = f"compatibility/subjects/{_quoted(subject)}/versions{which}?verbose=true"
        answer = self._rest_client.post(path, body=schema.to_dict())
        return bool(answer["is_compatible"]), list(answer.get("messages") or ())


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


@dataclass(frozen=True)
class Registry:
    """`url` is shown, and holds no password."""

    url: str
    client: Client = field(repr=False)

    @contextmanager
    def asking(
        self, action: str, subject: str | None = None, what: str | None = None
    ) -> Iterator[Client]:
        """The client, for one or more calls; their failures are Headrace's errors.

        `subject` and `what` (a version, an id) say what was asked for, should it not be there.
        """
        try:
            yield self.client
        except SchemaRegistryError as failure:
            raise translate(failure, action, self.url, subject, what) from failure
        except httpx2.TransportError as failure:
            raise RegistryUnavailable(self.url, str(failure) or type(failure).__name__) from failure
        except (ValueError, TypeError, KeyError) as failure:
            # The client fails like this at an answer that is not JSON, or has not what it must.
            raise RegistryRefused(action, f"not the answer of a registry: {failure}", 200) from (
                failure
            )


def connect(
    url: str,
    user: str | None = None,
    password: str | None = None,
    seconds: float = REQUEST_SECONDS,
) -> Registry:
    """A registry by its address; several addresses of one, with commas between, are tried in turn.

    A user and password inside the address are taken out of it.
    """
    parts = [_split(each.strip()) for each in url.split(",")]
    shown = ",".join(address for address, _, _ in parts)
    logins = [(name, secret) for _, name, secret in parts if name]
    if user is None and logins:
        user, password = logins[0]
    config: dict[str, Any] = {"url": shown, "timeout": seconds, "max.retries": 1}
    config["retries.wait.ms"] = 200
    if user is not None:
        if ":" in user:
            raise DefinitionError("a user name of a registry holds no colon")
        config["basic.auth.user.info"] = f"{user}:{password or ''}"
    elif password is not None:
        raise DefinitionError("a password without a user", hint="name the user with --user")
    hosts = {urlsplit(address).hostname for address, _, _ in parts}
    return Registry(shown, Client(config, loopback=hosts <= set(_LOOPBACK)))


def _split(url: str) -> tuple[str, str, str]:
    """An address without its login, and that login."""
    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        # As it may hold a password, it is not shown.
        raise DefinitionError(
            "the address of the registry does not begin with http:// or https:// and a host",
            hint="as in --registry http://localhost:8081",
        )
    bare = found._replace(netloc=found.netloc.rpartition("@")[2])
    address = urlunsplit(bare).rstrip("/")
    return address, unquote(found.username or ""), unquote(found.password or "")


_SUBJECT_UNKNOWN = {40401, 40404, 40408}
_SCHEMA_UNKNOWN = {40402, 40403, 40406, 42202}
_IN_USE = 42206
_INVALID = {42201, 422}
_PASSING = {429, 502, 503, 504}
_PASSING_CODES = {50001, 50002, 50003}


def translate(
    failure: SchemaRegistryError,
    action: str,
    url: str,
    subject: str | None = None,
    what: str | None = None,
) -> HeadraceError:
    """The exception for what a registry answered to `action` ("registering orders-value")."""
    status, code = failure.http_status_code, failure.error_code
    detail = plain(failure.error_message or "")
    if status == 401:
        return AuthenticationFailure(url, detail or "the user or the password is wrong or missing")
    if status == 403:
        return AuthorizationFailure(action, detail or "the registry gave no reason")
    if subject and code in _SUBJECT_UNKNOWN:
        return UnknownSubject(subject, url)
    if what and code in _SCHEMA_UNKNOWN:
        return UnknownSchema(what, url)
    if code == _IN_USE:
        return SchemaInUse(subject or action, detail)
    if subject and status == 409 and code in (0, 409):
        return IncompatibleSchema(subject, detail)
    if status == 422 and (code in _INVALID or not code):
        return InvalidSchema(action, detail)
    if status in _PASSING or code in _PASSING_CODES:
        return RegistryUnavailable(url, detail or f"HTTP status {status}")
    return RegistryRefused(action, detail or "the registry gave no reason", status)


# What the client says of an answer that is not JSON, before the whole of it.
_NO_ANSWER = re.compile(r"Unknown Schema Registry Error: b(['\"])(.*)\1", re.DOTALL)
_SHOWN_ANSWER = 60


def plain(message: str) -> str:
    """A registry's sentence without the Java classes in front of it."""
    page = _NO_ANSWER.fullmatch(message)
    if page:
        return f"not the answer of a registry: {page[2][:_SHOWN_ANSWER]}"
    text = re.sub(r"^(?:\w+\.)+[A-Z]\w*(?:Exception|Error): ", "", message.strip())
    text = re.sub(r", num of incompatible diffs: \{\d+\}, list of diff types:", ":", text)
    return text.removesuffix(".")
