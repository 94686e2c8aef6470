"""The development cluster of a project folder: a real Kafka of one or more nodes.

Beside them a schema registry runs where one was asked for.

`DevCluster` is what the `headrace dev` commands and `headrace.testing` hold. Its methods may be
called from any process, at any time: all there is to know is under `.headrace/dev` and in the
process table. All of it runs on after the process that started it has ended.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headrace.cluster import jars
from headrace.cluster.daemon import Daemon, State
from headrace.cluster.java import find_java
from headrace.cluster.layout import (
    Layout,
    NodeAddress,
    load_layout,
    plan_layout,
    save_layout,
    with_registry,
)
from headrace.cluster.node import Node
from headrace.cluster.ports import is_free
from headrace.cluster.process import wait_until
from headrace.cluster.readiness import Caller
from headrace.cluster.registry import Registry
from headrace.errors import DefinitionError, DiskFull, NodeFailed, PortTaken
from headrace.project import Project

READY_SECONDS = 120.0
LEAST_FREE_MB = 200

OnStep = Callable[[str], None]
# What can be started, stopped and killed alone: a node by its number, or the registry.
Which = int | Literal["registry"]


@dataclass(frozen=True)
class Up:
    """What `up` did: which nodes it started. None means that all of them were running.

    Nodes that are `outdated` run on with the settings that they were started with. `registry` is
    the address of the schema registry, if there is one.
    """

    bootstrap: str
    started: tuple[int, ...]
    outdated: tuple[int, ...]
    registry: str | None
    registry_started: bool


@dataclass(frozen=True)
class NodeStatus:
    """A node that is `outdated` runs with other settings than the cluster has by now."""

    node: int
    state: State
    address: str
    pid: int | None
    outdated: bool
    log: str


@dataclass(frozen=True)
class RegistryStatus:
    state: State
    url: str
    pid: int | None
    log: str


@dataclass(frozen=True)
class ClusterStatus:
    """`config` are the broker settings of the user's own."""

    cluster_id: str
    bootstrap: str
    config: Mapping[str, str]
    nodes: tuple[NodeStatus, ...]
    registry: RegistryStatus | None


class DevCluster:
    """One folder's cluster. `on_step` hears, in a few words, what a long call is doing."""

    def __init__(self, project: Project, on_step: OnStep = lambda _: None) -> None:
        self._project = project
        self._folder = project.dev
        self._say = on_step
        self._nodes: dict[int, Node] = {}
        self._registries: dict[int, Registry] = {}

    @property
    def bootstrap(self) -> str:
        return self._layout().bootstrap

    @property
    def exists(self) -> bool:
        """Whether a cluster was made in this folder, running or not."""
        return load_layout(self._folder) is not None

    @property
    def registry(self) -> str | None:
        """The address of the schema registry, running or not; None if there is none."""
        layout = load_layout(self._folder)
        registry = self._registry(layout) if layout else None
        return registry.url if registry else None

    @property
    def running(self) -> bool:
        """Whether at least one node's process lives."""
        layout = load_layout(self._folder)
        return layout is not None and any(node.pid for node in self._members(layout))

    def up(
        self,
        brokers: int | None = None,
        port: int | None = None,
        config: Mapping[str, str] | None = None,
        least_free_mb: int = LEAST_FREE_MB,
        *,
        registry: bool | None = None,
        registry_port: int | None = None,
    ) -> Up:
        """Start every node that does not run, and return when all of them answer.

        The same for the schema registry, if the cluster has one; `registry` adds or removes it.

        1. Decide the layout: the one on disk, with the settings of `config` added to its own; its
           ports can change only while nothing runs.
        2. Refuse what cannot work, before anything is touched: ports taken, disk full, no Java.
        3. Format the storage of nodes that have none. Never one that has: its data would be lost.
        4. Start and wait. When this fails, what was started here is ended again, and the settings
           are what they were.
        """
        with self._alone():
            old = load_layout(self._folder)
            layout, idle = self._decide(old, brokers, port, config)
            layout = self._decide_registry(layout, registry, registry_port)
            present = self._registry(layout)
            resting = present if present and present.pid is None else None
            if idle or resting:
                self._refuse_what_cannot_work(layout, idle, resting, least_free_mb)
            save_layout(self._folder, layout)
            try:
                self._launch(layout, idle, everyone(layout), present)
            except BaseException:
                # Else settings that no broker takes would stop every later start as well.
                config, port = (old.config, old.registry_port) if old else ({}, None)
                save_layout(self._folder, replace(layout, config=config, registry_port=port))
                raise
            started = tuple(node.id for node in idle)
            outdated = self._outdated(layout)
            return Up(layout.bootstrap, started, outdated, self.registry, bool(resting))

    def start(self, which: Which) -> bool:
        """Start one node, or the registry, that does not run; False if it did.

        Waits until it answers, unless too few controllers run for any node to answer.
        """
        with self._alone():
            layout = self._layout()
            member = self._member(layout, which)
            if member.pid is not None:
                return False
            nodes = [member] if isinstance(member, Node) else []
            registry = member if isinstance(member, Registry) else None
            self._refuse_what_cannot_work(layout, nodes, registry, LEAST_FREE_MB)
            self._launch(layout, nodes, self._able_to_answer(layout, nodes), registry)
            return True

    def _able_to_answer(self, layout: Layout, starting: Sequence[Node]) -> set[int]:
        """Of the nodes to be started: all, or none if then too few controllers run."""
        numbers = {node.id for node in starting}
        alive = {member.id for member in self._members(layout) if member.pid} | numbers
        quorum = len(alive & layout.controllers) * 2 > len(layout.controllers)
        return numbers if quorum else set()

    def stop(self, which: Which) -> bool:
        """Stop one node, or the registry, as an operator would, and wait for its end.

        False if it did not run.
        """
        with self._alone():
            return self._stop([self._member(self._layout(), which)])

    def kill(self, which: Which) -> bool:
        """End one node, or the registry, as a power cut would (SIGKILL); False if it did not run"""
        with self._alone():
            member = self._member(self._layout(), which)
            ran = member.pid is not None
            member.kill()
            return ran

    def down(self) -> bool:
        """Stop everything and keep the data; False if nothing ran."""
        layout = load_layout(self._folder)
        if layout is None:
            return False
        with self._alone():
            return self._stop(self._everything(layout))

    def delete(self) -> None:
        """End everything and remove the cluster with its data; nothing happens if there is none."""
        if not self._folder.is_dir():
            return
        with self._alone():
            layout = load_layout(self._folder)
            for member in self._everything(layout) if layout else ():
                member.kill()
            shutil.rmtree(self._folder)
            self._nodes.clear()
            self._registries.clear()

    def status(self) -> ClusterStatus | None:
        """The cluster as it is now; None if there is none. Nothing is started or waited for."""
        layout = load_layout(self._folder)
        if layout is None:
            return None
        old = self._outdated(layout)
        statuses = tuple(
            NodeStatus(
                node.id,
                _state(node, place),
                place.address,
                node.pid,
                node.id in old,
                str(node.log),
            )
            for node, place in zip(self._members(layout), layout.nodes, strict=True)
        )
        return ClusterStatus(
            layout.cluster_id,
            layout.bootstrap,
            layout.config,
            statuses,
            _registry_status(self._registry(layout)),
        )

    def log(self, which: Which) -> Path:
        """Where a node, or the registry, logs."""
        return self._member(self._layout(), which).log

    def members(self) -> list[Which]:
        """The nodes of this cluster and, behind them, its registry."""
        layout = self._layout()
        last: list[Which] = ["registry"] if layout.registry_port is not None else []
        return [*sorted(everyone(layout)), *last]

    def _layout(self) -> Layout:
        layout = load_layout(self._folder)
        if layout is None:
            raise DefinitionError(
                f"there is no development cluster in {self._project.root}",
                hint="make one with `headrace dev up`",
            )
        return layout

    def _everything(self, layout: Layout) -> list[Daemon]:
        registry = self._registry(layout)
        return [*self._members(layout), *([registry] if registry else [])]

    def _member(self, layout: Layout, which: Which) -> Daemon:
        if which != "registry":
            return self._node(layout, which)
        registry = self._registry(layout)
        if registry is None:
            raise DefinitionError(
                "this cluster has no schema registry", hint="add one: `headrace dev up --registry`"
            )
        return registry

    def _registry(self, layout: Layout) -> Registry | None:
        port = layout.registry_port
        if port is None:
            return None
        return self._registries.setdefault(port, Registry(self._folder / "registry", port))

    def _members(self, layout: Layout) -> list[Node]:
        return [self._node(layout, number) for number in sorted(everyone(layout))]

    def _node(self, layout: Layout, number: int) -> Node:
        if number not in everyone(layout):
            known = ", ".join(map(str, sorted(everyone(layout))))
            raise DefinitionError(f"there is no node {number}", hint=f"this cluster has: {known}")
        return self._nodes.setdefault(number, Node(self._folder / f"node-{number}", number))

    def _outdated(self, layout: Layout) -> tuple[int, ...]:
        pairs = zip(self._members(layout), layout.nodes, strict=True)
        return tuple(node.id for node, place in pairs if node.outdated(layout, place))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time, over all processes. The file is outside what `delete` removes."""
        self._project.ensure(self._folder)
        with self._folder.with_suffix(".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _decide(
        self,
        old: Layout | None,
        brokers: int | None,
        port: int | None,
        config: Mapping[str, str] | None,
    ) -> tuple[Layout, list[Node]]:
        """The layout to have, and the nodes of it that do not run."""
        wanted = plan_layout(old, brokers, port, config)
        if old is None or not self.running:
            return wanted, self._members(wanted)
        if port and port != old.nodes[0].port:
            raise DefinitionError(
                f"this folder's cluster is running at {old.bootstrap}, not from port {port} on",
                hint="stop it first: `headrace dev down`",
            )
        idle = [node for node in self._members(old) if node.pid is None]
        return replace(old, config=wanted.config), idle

    def _decide_registry(self, layout: Layout, wanted: bool | None, port: int | None) -> Layout:
        """The layout with the registry to have; one that is no longer wanted is stopped."""
        running = self._registry(layout)
        if running is None or running.pid is None:
            return with_registry(layout, wanted, port)
        if wanted is False:
            self._stop([running])
            return with_registry(layout, wanted, port)
        if port and port != running.port:
            raise DefinitionError(
                f"this folder's registry is running at {running.url}, not on port {port}",
                hint="stop it first: `headrace dev stop registry`",
            )
        return layout

    def _refuse_what_cannot_work(
        self, layout: Layout, idle: Sequence[Node], registry: Registry | None, least_free_mb: int
    ) -> None:
        numbers = {node.id for node in idle}
        for place in layout.nodes:
            if place.id in numbers and not _soon_free(place.port):
                raise PortTaken(place.port)
        if registry and not _soon_free(registry.port):
            raise PortTaken(registry.port, "--registry-port")
        free_mb = shutil.disk_usage(self._folder).free // 1_000_000
        if free_mb < least_free_mb:
            raise DiskFull(str(self._folder), free_mb)
        find_java()

    def _launch(
        self,
        layout: Layout,
        idle: Sequence[Node],
        awaited: set[int],
        registry: Registry | None,
    ) -> None:
        """Steps 3 and 4 of `up`. The registry needs no broker, so that both start side by side."""
        resting = registry if registry and registry.pid is None else None
        try:
            if resting:
                self._say(f"starting the registry at {resting.url}")
                resting.start(find_java())
            self._launch_nodes(layout, idle, awaited)
            if registry:
                self._await_registry(registry)
        except BaseException:
            for member in [*idle, *([resting] if resting else [])]:
                member.discard()
            raise

    def _launch_nodes(self, layout: Layout, idle: Sequence[Node], awaited: set[int]) -> None:
        if not idle:
            return
        java, class_path = find_java(), jars.ensure("kafka")
        places = {place.id: place for place in layout.nodes}
        for node in idle:
            node.configure(layout, places[node.id])
        self._format([node for node in idle if not node.formatted], java, class_path, layout)
        for node in idle:
            self._say(f"starting {node.name} at {places[node.id].address}")
            node.start(java, class_path)
        self._await(layout, idle, awaited)

    def _format(
        self, blank: Sequence[Node], java: Path, class_path: list[Path], layout: Layout
    ) -> None:
        if blank:
            self._say("preparing the storage")
        for node in blank:
            node.begin_format(java, class_path, layout.cluster_id)
        for node in blank:
            node.finish_format()

    def _await(self, layout: Layout, started: Sequence[Node], awaited: set[int]) -> None:
        """Ask the `awaited` nodes until all of them answer; a node that dies ends the wait."""
        callers = {place.id: Caller(place) for place in layout.nodes if place.id in awaited}
        deadline = time.monotonic() + READY_SECONDS
        while callers:
            missing = {number for number, caller in callers.items() if not caller.answers()}
            callers = {number: callers[number] for number in missing}
            self._say(f"waiting for {', '.join(f'node {number}' for number in sorted(missing))}")
            for node in started:
                if node.pid is None:
                    raise NodeFailed(node.name, node.last_words(), str(node.log))
            if missing and time.monotonic() > deadline:
                late = self._node(layout, min(missing))
                detail = f"no answer after {READY_SECONDS:.0f} s; {late.last_words()}"
                raise NodeFailed(late.name, detail, str(late.log))

    def _await_registry(self, registry: Registry) -> None:
        self._say("waiting for the registry")
        here = wait_until(lambda: registry.pid is None or registry.answers(), READY_SECONDS)
        if registry.pid is None:
            raise NodeFailed(registry.name, registry.last_words(), str(registry.log))
        if not here:
            detail = f"no answer after {READY_SECONDS:.0f} s; {registry.last_words()}"
            raise NodeFailed(registry.name, detail, str(registry.log))
        registry.settle()

    def _stop(self, members: Sequence[Daemon]) -> bool:
        ran = [member for member in members if member.pid is not None]
        for member in ran:
            self._say(f"stopping {member.name}")
            member.ask_to_stop()
        for member in members:
            member.wait_stopped()
        return bool(ran)


def everyone(layout: Layout) -> set[int]:
    return {place.id for place in layout.nodes}


def _soon_free(port: int) -> bool:
    """A node that was killed a moment ago may hold its port a little longer."""
    return wait_until(lambda: is_free(port), seconds=1)


def _state(node: Node, place: NodeAddress) -> State:
    return node.state(node.pid is not None and Caller(place).answers(1))


def _registry_status(registry: Registry | None) -> RegistryStatus | None:
    if registry is None:
        return None
    state = registry.state(registry.pid is not None and registry.answers())
    return RegistryStatus(state, registry.url, registry.pid, str(registry.log))
