"""The words of `headrace convert`: whose file it is, and what it becomes."""

from __future__ import annotations

from enum import StrEnum


class Origin(StrEnum):
    """Whose file it is."""

    AUTO = "auto"
    HEADRACE = "headrace"
    MAGE = "mage"
    LAMINAR = "laminar"
    CONNECT = "connect"


class Notation(StrEnum):
    AUTO = "auto"
    YAML = "yaml"
    SQL = "sql"
