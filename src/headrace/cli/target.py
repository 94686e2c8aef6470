"""Which cluster a command talks to: `--bootstrap-server`, else this folder's own."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "localhost:9092"

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="HEADRACE_BOOTSTRAP_SERVER",
        help="Brokers, as host:port,host:port. Default: this folder's `headrace dev` cluster, "
        f"else {DEFAULT_BOOTSTRAP}.",
    ),
]


def bootstrap(option: str | None) -> str:
    """The address that the user named, or that of the development cluster, or Kafka's usual one."""
    if option:
        return option
    from headrace.cluster.dev import known_bootstrap
    from headrace.project import Project

    return known_bootstrap(Project.find()) or DEFAULT_BOOTSTRAP
