"""One Kafka node of the development cluster: its folder, its storage and its process.

A node's folder has `server.properties`, `log4j2.properties` and `data/` beside what a `Daemon` has.
Called by `cluster.dev` only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.cluster import server_config
from headrace.cluster.daemon import Daemon
from headrace.cluster.layout import Layout, NodeAddress
from headrace.errors import NodeFailed


class Node(Daemon):
    def __init__(self, folder: Path, number: int) -> None:
        self.id = number
        self._properties = folder / "server.properties"
        self._log4j = folder / "log4j2.properties"
        super().__init__(folder, f"node {number}", str(self._properties))

    @property
    def formatted(self) -> bool:
        # Kafka writes this file last, so that half a format counts as none.
        return (self.folder / "data" / "meta.properties").is_file()

    def configure(self, layout: Layout, address: NodeAddress) -> None:
        """Write the files it starts from; they are made anew at each start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self._text(layout, address))
        self._log4j.write_text(server_config.log4j_properties(self.log))

    def outdated(self, layout: Layout, address: NodeAddress) -> bool:
        """Whether it runs with other settings than it would be started with now."""
        return self.pid is not None and self._properties.read_text() != self._text(layout, address)

    def _text(self, layout: Layout, address: NodeAddress) -> str:
        return server_config.server_properties(layout, address, self.folder / "data")

    def begin_format(self, java: Path, jars: Sequence[Path], cluster_id: str) -> None:
        """Prepare empty storage; `finish_format` waits for it. Never for a formatted node."""
        arguments = ["format", "--cluster-id", cluster_id, "--config", str(self._properties)]
        command = self._command(java, server_config.FORMAT_CLASS, *arguments)
        self._child = self.spawn(command, _environment(jars))

    def finish_format(self) -> None:
        if self._child is not None and self._child.wait() != 0:
            raise NodeFailed(self.name, self.last_words(), str(self.console))
        self._child = None

    def start(self, java: Path, jars: Sequence[Path]) -> None:
        """Start the process and return; it answers later."""
        command = self._command(java, server_config.MAIN_CLASS, str(self._properties))
        self.launch(command, _environment(jars))

    def _command(self, java: Path, main: str, *arguments: str) -> list[str | Path]:
        return [java, *server_config.jvm_options(self._log4j), main, *arguments]


def _environment(jars: Sequence[Path]) -> dict[str, str]:
    """With the class path in it, so that the command line stays readable in `ps`."""
    return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars))}
