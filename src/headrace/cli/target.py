"""Which cluster or schema registry a command talks to: the one named, else this folder's own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from headrace.errors import DefinitionError

if TYPE_CHECKING:
    from headrace.admin.stores import RegistryAddress

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_REGISTRY = "http://localhost:8081"

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

RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        "-r",
        metavar="URL",
        envvar="HEADRACE_REGISTRY",
        help="A registry with the API of Confluent's. Default: this folder's, of `headrace dev up "
        f"--registry`, else {DEFAULT_REGISTRY}.",
    ),
]


def registry_address(url: str, user: str | None, password: str | None) -> RegistryAddress:
    """A registry by what `--registry` says: an address, or `glue://REGION/REGISTRY`.

    AWS takes the login from its own environment; a region that is empty, too.
    """
    from headrace.admin.stores import RegistryAddress

    parts = urlsplit(url)
    if parts.scheme != "glue":
        if user is not None and password is None and sys.stdin.isatty():
            password = typer.prompt(f"Password of {user}", hide_input=True, err=True)
        return RegistryAddress("confluent", url, user, password)
    if user is not None:
        raise DefinitionError("--user is not for AWS Glue", hint="log in as AWS has it")
    return RegistryAddress(
        "glue", None, None, None, parts.netloc or None, parts.path.strip("/") or None
    )


def bootstrap(option: str | None) -> str:
    """The address that the user named, or that of the development cluster, or Kafka's usual one.

    A development cluster that is down is named all the same: a command that is meant for it must
    not reach another one by accident.
    """
    if option:
        return option
    from headrace.cluster.dev import DevCluster
    from headrace.project import Project

    cluster = DevCluster(Project.find())
    return cluster.bootstrap if cluster.exists else DEFAULT_BOOTSTRAP


def registry_url(option: str | None) -> str:
    """The same for the schema registry."""
    if option:
        return option
    from headrace.cluster.dev import DevCluster
    from headrace.project import Project

    return DevCluster(Project.find()).registry or DEFAULT_REGISTRY
