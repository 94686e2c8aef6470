"""A stand-in for AWS Glue's schema registry in tests: moto's server, on loopback, and gone after.

>>> from headrace.testing.glue import glue
>>> with glue() as server:                       # doctest: +SKIP
...     server.store().newest("orders")

It needs moto and flask. Nothing outside is asked, and no login of the environment is used. It holds
schemas and their versions as AWS does; it judges none of them, so that every schema is compatible.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.admin import glue_store
from headrace.admin.glue_store import GlueStore
from headrace.cluster.ports import HOST


@dataclass(frozen=True)
class GlueServer:
    """Where it is, and a login as good as any."""

    endpoint: str
    region: str = "eu-central-1"
    api_key: str = "not-a-key"
    api_secret: str = "not-a-secret"

    def store(self, registry_name: str | None = None) -> GlueStore:
        return glue_store.connect(
            registry_name, self.region, self.endpoint, self.api_key, self.api_secret
        )

    def yaml(self) -> str:
        """It as the value of a definition's `schema_registry`."""
        return (
            f"{{type: glue, endpoint: '{self.endpoint}', region: {self.region}, "
            f"api_key: {self.api_key}, api_secret: {self.api_secret}}}"
        )


@contextmanager
def glue() -> Iterator[GlueServer]:
    """A server that answers, for the length of the block."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # it tells of every request
    server = ThreadedMotoServer(HOST, 0, verbose=False)
    server.start()
    try:
        yield GlueServer(f"http://{HOST}:{server.get_host_and_port()[1]}")
    finally:
        server.stop()
