"""What a development cluster consists of: its id, nodes, ports and settings, in `cluster.json`.

The number of nodes and the cluster id are fixed when the cluster is made; ports may change whenever
no node runs, because Kafka stores none. Settings may change at any time: a node reads them when it
starts. A schema registry may be added and taken away at any time.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from headrace.cluster import broker_settings
from headrace.cluster.ports import HOST, free_ports, is_free
from headrace.errors import DefinitionError

FILE_NAME = "cluster.json"
MOST_CONTROLLERS = 3
MOST_BROKERS = 9
DEFAULT_PORT = 9092
DEFAULT_REGISTRY_PORT = 8081


@dataclass(frozen=True)
class NodeAddress:
    """A node: its permanent number, its port for clients, and its controller's, if it has one."""

    id: int
    port: int
    controller_port: int | None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True)
class Layout:
    """`config` holds the broker settings of the user's own, the same for all nodes.

    `registry_port` is None where the cluster has no schema registry.
    """

    cluster_id: str
    nodes: tuple[NodeAddress, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    registry_port: int | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def voters(self) -> str:
        """The controllers, as Kafka's `controller.quorum.voters` wants them."""
        return ",".join(
            f"{node.id}@{HOST}:{node.controller_port}"
            for node in self.nodes
            if node.controller_port is not None
        )

    @property
    def controllers(self) -> frozenset[int]:
        return frozenset(node.id for node in self.nodes if node.controller_port is not None)


def controller_count(brokers: int) -> int:
    """One controller, or three where their majority can outlive one: two are worse than one."""
    return MOST_CONTROLLERS if brokers >= MOST_CONTROLLERS else 1


def plan_layout(
    old: Layout | None,
    brokers: int | None,
    port: int | None,
    config: Mapping[str, str] | None = None,
) -> Layout:
    """The layout to start with while no node runs; unset values are those of `old`, or defaults.

    Brokers take consecutive ports from `port` on; 0 means any that are free. Controllers' ports are
    no one's concern and are always free ones. Settings in `config` are added to those of `old`, and
    an empty one is taken back.
    """
    settings = broker_settings.merged(old.config if old else {}, config or {})
    count = _broker_count(old, brokers)
    ports = _broker_ports(old, count, port)
    controllers = _controller_ports(old, controller_count(count), taken=ports)
    nodes = tuple(
        NodeAddress(number, ports[number - 1], controllers.get(number))
        for number in range(1, count + 1)
    )
    return Layout(
        old.cluster_id if old else new_cluster_id(),
        nodes,
        settings,
        old.registry_port if old else None,
    )


def with_registry(layout: Layout, wanted: bool | None, port: int | None) -> Layout:
    """The same with or without a registry; None leaves that, or its port, as it is.

    Its port is the one named, else the one it had, else the default; 0 means any that is free.
    """
    if wanted is False:
        return replace(layout, registry_port=None)
    if wanted is None and port is None:
        return layout
    known = layout.registry_port
    if port == 0:
        brokers = {node.port for node in layout.nodes}
        fresh = next(each for each in free_ports(len(brokers) + 1) if each not in brokers)
        return replace(layout, registry_port=known if known and is_free(known) else fresh)
    return replace(layout, registry_port=port or known or DEFAULT_REGISTRY_PORT)


def _broker_count(old: Layout | None, brokers: int | None) -> int:
    count = brokers if brokers is not None else len(old.nodes) if old else 1
    if not 1 <= count <= MOST_BROKERS:
        raise DefinitionError(f"{count} brokers: a cluster has 1 to {MOST_BROKERS}")
    if old and count != len(old.nodes):
        raise DefinitionError(
            f"this folder's cluster was made with {len(old.nodes)} broker(s), not {count}",
            hint="`headrace dev down --delete` removes it and its data; then a new one can be made",
        )
    return count


def _broker_ports(old: Layout | None, count: int, port: int | None) -> list[int]:
    known = [node.port for node in old.nodes] if old else []
    if port == 0:
        return known if known and all(map(is_free, known)) else free_ports(count)
    if port is None and known:
        return known
    first = DEFAULT_PORT if port is None else port
    return list(range(first, first + count))


def _controller_ports(old: Layout | None, count: int, taken: list[int]) -> dict[int, int]:
    """Node number → port; a port that served before is kept while it is free."""
    known = {node.id: node.controller_port for node in old.nodes} if old else {}
    fresh = iter(port for port in free_ports(count + len(taken)) if port not in taken)
    ports = {}
    for number in range(1, count + 1):
        before = known.get(number)
        usable = before is not None and before not in taken and is_free(before)
        ports[number] = before if before is not None and usable else next(fresh)
    return ports


def new_cluster_id() -> str:
    """A random id in Kafka's form: 16 bytes in URL-safe base64, not starting like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def load_layout(folder: Path) -> Layout | None:
    """The layout kept in `folder`, or None where no cluster was made yet."""
    file = folder / FILE_NAME
    if not file.is_file():
        return None
    content = json.loads(file.read_text())
    nodes = tuple(NodeAddress(**node) for node in content["nodes"])
    config, registry_port = content.get("config", {}), content.get("registry_port")
    return Layout(content["cluster_id"], nodes, config, registry_port)


def save_layout(folder: Path, layout: Layout) -> None:
    """Replace `cluster.json` in one step, so that no reader sees half of it."""
    fresh = folder / f"{FILE_NAME}.new"
    fresh.write_text(json.dumps(asdict(layout), indent=2) + "\n")
    fresh.replace(folder / FILE_NAME)
