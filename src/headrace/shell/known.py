"""What the catalog knows, as those need it who look at what is there.

`Known.of` reads the statements of the catalog and replaces their references; nothing is compiled
and nobody is asked, so that it also answers for a connection whose cluster is down. The system
tables, `test_connection`, completion and `headrace kafka` are built on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.admin import properties as client_properties
from headrace.admin.stores import RegistryAddress
from headrace.catalog import Catalog, Entry
from headrace.errors import DefinitionError
from headrace.formats.options import REGISTRY, REGISTRY_FIELDS
from headrace.frontend import variables
from headrace.frontend.sql.definitions import Definitions
from headrace.frontend.sql.options import CONNECTOR, merged, roles
from headrace.frontend.sql.statements import (
    CreateConnection,
    CreatePipeline,
    CreateTable,
    CreateView,
    Fields,
)
from headrace.model.subscription import Subscription, split
from headrace.spans import Node
from headrace.spec import HIDDEN, Spec, nearest

if TYPE_CHECKING:
    from headrace.admin.client import Cluster

# What the options of a login are called in SQL, and by librdkafka.
LOGIN = {
    "auth.protocol": "security.protocol",
    "auth.mechanism": "sasl.mechanism",
    "auth.username": "sasl.username",
    "auth.password": "sasl.password",
}


@dataclass(frozen=True)
class Connection:
    """A connection, or a table with its own options over those of its connection.

    `options` are text under the names of the option reference; a name that it has not is as it was
    written. `over` is the connection that a table names. `secrets` are values that came from
    secrets.
    """

    name: str
    connector: str
    options: Mapping[str, str] = field(repr=False)
    over: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def hide(self, text: str) -> str:
        """A text that may hold one of its values, as anyone may see it."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    @property
    def role(self) -> str | None:
        """`source`, `sink`, or None where only its use decides."""
        possible = roles(self.connector)
        only = str(possible[0]) if len(possible) == 1 else None
        return self.options.get("type", only)

    @property
    def servers(self) -> str | None:
        return self.options.get("bootstrap_server")

    @property
    def subscription(self) -> Subscription:
        named = split(self.options.get("topics") or self.options.get("topic") or "")
        return Subscription(named, self.options.get("topic_pattern"))

    @property
    def group(self) -> str | None:
        return self.options.get("consumer_group")

    @property
    def login(self) -> dict[str, str]:
        """The properties by which a Kafka client logs in and speaks TLS."""
        named = {LOGIN.get(name, name): value for name, value in self.options.items()}
        return {name: named[name] for name in named if name in client_properties.LOGIN}

    @property
    def registry(self) -> RegistryAddress | None:
        """The schema registry that it names."""
        known, prefix = REGISTRY.inside, f"{REGISTRY.name}."
        named = {
            known.option(name.removeprefix(prefix)).name: value
            for name, value in self.options.items()
            if name.startswith(prefix) and name.removeprefix(prefix) in known.names
        }
        kind, *others = (named.get(name) for name in REGISTRY_FIELDS)
        return RegistryAddress(kind or "confluent", *others) if named else None

    @property
    def address(self) -> str | None:
        """Where it leads, in a word."""
        return self.servers or self.options.get("url") or self.options.get("path")

    def cluster(
        self, seconds: float | None = None, properties: Mapping[str, str] | None = None
    ) -> Cluster:
        """Its Kafka cluster, connected; raises what keeps it from answering.

        `properties` of a client are added to its login.
        """
        from headrace.admin import client

        if self.connector != "kafka" or self.servers is None:
            hint = "see `SELECT name, connector FROM system.connections`"
            raise DefinitionError(f"`{self.name}` names no Kafka cluster", hint=hint)
        patience = client.CONNECT_SECONDS if seconds is None else seconds
        return client.connect(self.servers, {**self.login, **(properties or {})}, patience)


@dataclass(frozen=True)
class Known:
    """All of a catalog, each by its name as it was written, in the order of creation.

    Only connections and tables have the values that references stand for.
    """

    connections: Mapping[str, Connection]
    tables: Mapping[str, Connection]
    definitions: Definitions = field(repr=False)
    entries: Mapping[str, Entry] = field(repr=False)

    @classmethod
    def of(cls, catalog: Catalog) -> Known:
        written, _ = Definitions.of_catalog(catalog)
        replaced, _ = written.replaced(variables.Secrets(catalog))
        connections = {c.name.text: _connection(c) for c in replaced.each(CreateConnection)}
        tables = {each.name.text: table(each, replaced) for each in replaced.each(CreateTable)}
        entries = {entry.name: entry for entry in catalog.entries()}
        return cls(connections, tables, written, entries)

    def connection(self, name: str) -> Connection:
        """A connection or a table by its name; DefinitionError with the nearest where none is."""
        everything = {**self.connections, **self.tables}
        for known, connection in everything.items():
            if known.lower() == name.lower():
                return connection
        close = nearest(name, everything)
        hint = f"did you mean `{close[0]}`?" if close else "see `SHOW CONNECTIONS`"
        raise DefinitionError(f"there is no connection `{name}`", hint=hint)

    @property
    def kafka(self) -> dict[str, Connection]:
        """Connections to Kafka, and tables that name a cluster without one."""
        direct = {name: table for name, table in self.tables.items() if table.over is None}
        return {
            name: each
            for name, each in {**self.connections, **direct}.items()
            if each.connector == "kafka" and each.servers
        }

    @property
    def views(self) -> list[CreateView]:
        return self.definitions.each(CreateView)

    @property
    def pipelines(self) -> dict[str, CreatePipeline]:
        return self.definitions.pipelines


def specs(connector: str) -> Iterator[Spec]:
    """The options of a connector, as a source and as a sink, and those that all have."""
    for role in roles(connector):
        yield role.spec(connector)
        yield role.common


def _connection(made: CreateConnection) -> Connection:
    connector = made.connector.text.lower()
    options = _options(connector, made.options)
    return Connection(made.name.text, connector, options, None, _secrets(made.options))


def table(made: CreateTable, definitions: Definitions) -> Connection:
    """A table with the options of its connection; references are replaced already."""
    named = made.options[CONNECTOR].node.text if CONNECTOR in made.options else ""
    over = definitions.connection(named)
    connector = over.connector.text.lower() if over else named.lower()
    own = {name: each for name, each in made.options.items() if name != CONNECTOR}
    fields = merged(over.options, own) if over else own
    name = over.name.text if over else None
    options = _options(connector, fields)
    return Connection(made.name.text, connector, options, name, _secrets(fields))


def _options(connector: str, fields: Fields) -> dict[str, str]:
    named = {_canonical(connector, name): each.node for name, each in fields.items()}
    return {name: _text(node) for outer, each in named.items() for name, node in _flat(outer, each)}


def _flat(name: str, node: Node) -> Iterator[tuple[str, Node]]:
    """The options inside of an option, each by its name with dots."""
    if not isinstance(node.value, dict):
        yield name, node
        return
    for key, each in node.value.items():
        yield from _flat(f"{name}.{key}", each.node)


def _secrets(fields: Fields) -> frozenset[str]:
    """Values that came from secrets, and the parts of a list, each with and without its port."""
    found: set[str] = set()
    values = [node for name, each in fields.items() for _, node in _flat(name, each.node)]
    for node in values:
        if node.has_secret:
            text = _text(node)
            parts = [part.strip() for part in text.split(",")]
            found |= {text, *parts, *(part.rpartition(":")[0] for part in parts)}
    return frozenset(found - {""})


def _canonical(connector: str, name: str) -> str:
    """The name that the reference has for an option; one that it does not know, as it is."""
    known = (spec.option(name).name for spec in specs(connector) if name in spec.names)
    return next(known, name)


def _text(node: Node) -> str:
    if isinstance(node.value, list):
        return ",".join(item.text for item in node.value)
    return str(node.value).lower() if isinstance(node.value, bool) else node.text
