"""Which store of schemas an address means: each kind of registry is one line here.

`RegistryAddress` is what a definition says, `opened` makes the store for it. Stores import the
clients that they need when they are made, so that a definition can be read without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headrace.admin.stored_schemas import SchemaStore
from headrace.errors import DefinitionError


@dataclass(frozen=True)
class RegistryAddress:
    """Where a registry is, and who asks. What is secret is never shown."""

    kind: str
    endpoint: str | None
    api_key: str | None = field(repr=False)
    api_secret: str | None = field(repr=False)
    region: str | None = None
    registry_name: str | None = None

    def __repr__(self) -> str:
        return f"RegistryAddress({self.kind}, {self.words})"

    @property
    def words(self) -> str:
        if self.kind == "glue":
            return f"AWS Glue, registry {self.registry_name or 'default-registry'}"
        return without_login(self.endpoint or "")


def without_login(endpoint: str) -> str:
    """An address as it may be shown: what stands before an @ in it is a login."""
    return re.sub(r"//[^/]*@", "//", endpoint)


def endpoint_fault(endpoint: str) -> str | None:
    """What is wrong with an address, without a word of what may be a password in it."""
    for each in endpoint.split(","):
        found = urlsplit(each.strip())
        if found.scheme not in ("http", "https") or not found.hostname:
            return "is not an address that begins with http:// or https://"
        if "@" in found.netloc:
            return "must not hold a user or a password, which are options of their own"
    return None


class Stores:
    """The stores of one run: each is made once, and so what it has answered is remembered."""

    def __init__(self) -> None:
        self._made: dict[RegistryAddress, SchemaStore] = {}

    def at(self, address: RegistryAddress) -> SchemaStore:
        if address not in self._made:
            self._made[address] = opened(address)
        return self._made[address]


def opened(address: RegistryAddress) -> SchemaStore:
    """Nothing is asked yet."""
    return _KINDS[address.kind](address)


def _confluent(address: RegistryAddress) -> SchemaStore:
    if not address.endpoint:
        raise DefinitionError(
            "`schema_registry` has no address",
            hint="add `endpoint`, as in `schema_registry: {endpoint: 'http://localhost:8081'}`",
        )
    if address.api_secret and not address.api_key:
        raise DefinitionError(
            f"the schema registry at {address.words} has an `api_secret` and no `api_key`",
            hint="name the user with `api_key`",
        )
    from headrace.admin.confluent_store import ConfluentStore
    from headrace.admin.registry_client import connect

    return ConfluentStore(connect(address.endpoint, address.api_key, address.api_secret))


def _glue(address: RegistryAddress) -> SchemaStore:
    from headrace.admin import glue_store

    return glue_store.connect(
        address.registry_name,
        address.region,
        address.endpoint,
        address.api_key,
        address.api_secret,
    )


_KINDS: dict[str, Callable[[RegistryAddress], SchemaStore]] = {
    "confluent": _confluent,
    "glue": _glue,
}
