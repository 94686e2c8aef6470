"""What is said of a sink's schema before it is registered."""

from __future__ import annotations

from headrace.formats.options import Part
from headrace.runtime.sink_schemas import Verdict


def test_a_verdict_claims_no_more_than_its_registry_can_say() -> None:
    asked = Verdict("out", Part.VALUE, "orders-value", None)
    assert str(asked) == "orders-value would accept it"
    valid = Verdict("out", Part.VALUE, "orders", None, compared=False)
    assert "only when it is registered" in str(valid)
    known = Verdict("out", Part.VALUE, "orders", 2, compared=False)
    assert str(known) == "orders has this schema already, as version 2"
