"""Headrace: Kafka pipelines on Spark, described in YAML.

import headrace

orders = headrace.load("orders.yaml")
print(orders.check())
orders.run()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Definition", "HeadraceError", "Run", "load"]

if TYPE_CHECKING:
    from headrace.api import Definition, Run, load
    from headrace.errors import HeadraceError


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that `headrace --help` does not wait for SQL and Kafka libraries.
    if name == "HeadraceError":
        from headrace.errors import HeadraceError

        return HeadraceError
    if name in __all__:
        from headrace import api

        return getattr(api, name)
    raise AttributeError(name)
