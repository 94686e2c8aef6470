"""What a database answers by its SQLSTATE is one of our errors, and never a value of a row."""

from __future__ import annotations

import pytest

from headrace import errors
from headrace.runtime.databases import from_state, translate

ANSWERS = {
    "08001": errors.DatabaseUnavailable,
    "08006": errors.DatabaseUnavailable,
    "40001": errors.DatabaseUnavailable,
    "40P01": errors.DatabaseUnavailable,
    "53300": errors.DatabaseUnavailable,
    "57P01": errors.DatabaseUnavailable,
    "28P01": errors.AuthenticationFailure,
    "28000": errors.AuthenticationFailure,
    "42501": errors.AuthorizationFailure,
    "42P01": errors.UnknownTable,
    "3F000": errors.UnknownTable,
    "42P10": errors.SchemaMismatch,
    "42703": errors.SchemaMismatch,
    "42804": errors.SchemaMismatch,
    "22001": errors.ConstraintViolated,
    "23505": errors.ConstraintViolated,
    "3D000": errors.DatabaseRefused,
    "None": errors.DatabaseRefused,
}


@pytest.mark.parametrize(("state", "kind"), ANSWERS.items())
def test_an_answer_is_an_error_by_its_state(state: str, kind: type[errors.HeadraceError]) -> None:
    error = from_state("writing", state, "ERROR: it is so\n  Detail: Key (id)=(7) exists.")
    assert type(error) is kind
    assert "it is so" in str(error)
    assert "(7)" not in str(error)
    assert error.retry == (kind is errors.DatabaseUnavailable)


def test_what_no_database_said_is_left_to_others() -> None:
    assert translate(ValueError("x"), "writing") is None
