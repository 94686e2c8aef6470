"""Rules for topic names: what Kafka takes, and which two names cannot live side by side.

Kafka's metrics write `.` as `_`, so two topics that differ only there would share their metrics,
and the brokers refuse the second. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_LENGTH = 249


def fault(name: str) -> str | None:
    """What is wrong with a name, or None."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return "`.` and `..` are not names"
    if len(name) > MAX_LENGTH:
        return f"it has {len(name)} characters, and {MAX_LENGTH} are allowed"
    bad = sorted(set(re.findall(r"[^a-zA-Z0-9._-]", name)))
    if bad:
        listed = " ".join(bad)
        return f"it has {listed!r}, and only letters, digits and `.`, `_`, `-` are allowed"
    return None


def clash(name: str, existing: Iterable[str]) -> str | None:
    """The existing topic whose metrics `name` would share, or None."""
    folded = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            return other
    return None


def risk(name: str, existing: Iterable[str]) -> str | None:
    """A warning when `.` and `_` get mixed, in one name or among names: the next one may clash."""
    if "." in name and "_" in name:
        return f"{name} has both `.` and `_`; a name that differs only there will be refused"
    if "." not in name and "_" not in name:
        return None
    mine, other = (".", "_") if "." in name else ("_", ".")
    mixed = next(
        (topic for topic in existing if other in topic and not topic.startswith("_")), None
    )
    if mixed is None:
        return None
    return (
        f"{name} has `{mine}` where other topics such as {mixed} have `{other}`; names that differ "
        "only there clash, so better keep to one"
    )
