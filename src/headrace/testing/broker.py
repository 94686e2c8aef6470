"""A real Kafka for tests: started on free ports in a folder of its own, and gone afterwards.

>>> from headrace.testing.broker import kafka
>>> with kafka() as cluster:                     # doctest: +SKIP
...     run_something_against(cluster.bootstrap)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from headrace.cluster.dev import DevCluster
from headrace.cluster.guard import guarded
from headrace.project import Project


@contextmanager
def kafka(
    brokers: int = 1,
    folder: Path | None = None,
    config: Mapping[str, str] | None = None,
    registry: bool = False,
) -> Iterator[DevCluster]:
    """A cluster that answers, for the length of the block; `folder` is a temporary one by default.

    `config` are broker settings, the same for all nodes: `{"num.partitions": "8"}`. With `registry`
    a schema registry runs beside it, at `cluster.registry`.

    No process and no data is left when the block ends, when the test process is killed, or when it
    does not come up. Nodes can be stopped, killed and started again through what is yielded.
    """
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="headrace-")
    with place as root, guarded(Path(root).resolve()):
        cluster = DevCluster(Project(Path(root).resolve()))
        try:
            port = 0 if registry else None
            cluster.up(brokers, port=0, config=config, registry=registry, registry_port=port)
            yield cluster
        finally:
            cluster.delete()
