"""What a database answers, as Headrace's errors.

JDBC exceptions carry an SQLSTATE, five characters of which the first two are a class that all
databases share. It is looked for in every layer of what Spark or Java raised, for sources and sinks
alike.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import (
    AuthenticationFailure,
    AuthorizationFailure,
    ConstraintViolated,
    DatabaseRefused,
    DatabaseUnavailable,
    HeadraceError,
    SchemaMismatch,
    UnknownTable,
)

_LAYERS = 20
# Connections, resources, deadlocks, locks, and an administrator's orders: all may pass.
_PASSING = ("08", "53", "40", "55P03", "57P")


def translate(error: BaseException, action: str) -> HeadraceError | None:
    """The error for an answer of a database, if one is behind `error`."""
    found = _answer(error)
    return None if found is None else from_state(action, *found)


def from_state(action: str, state: str, message: str) -> HeadraceError:
    # What follows the first line names the values of a row.
    detail = (message.strip().splitlines() or [""])[0]
    if state.startswith(_PASSING):
        return DatabaseUnavailable(action, detail)
    if state.startswith("28"):
        return AuthenticationFailure(f"{action}: the database", detail)
    if state == "42501":
        return AuthorizationFailure(action, detail)
    if state in ("42P01", "3F000"):
        return UnknownTable(action, detail)
    if state == "42P10":
        hint = "the table needs a unique index on the columns of `key`"
        return SchemaMismatch(action, detail, hint)
    if state in ("42703", "42804", "42701"):
        return SchemaMismatch(action, detail)
    if state.startswith(("22", "23")):
        return ConstraintViolated(action, detail)
    return DatabaseRefused(action, state, detail)


def _answer(error: BaseException) -> tuple[str, str] | None:
    """SQLSTATE and message of the first layer that has one."""
    layer: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_LAYERS):
        if layer is None:
            return None
        try:
            if layer.getClass().getName().endswith(("SQLException", "BatchUpdateException")):
                return str(layer.getSQLState()), str(layer.getMessage())
            layer = layer.getCause()
        except Exception:
            # The JVM may be gone, and its words with it.
            return None
    return None
