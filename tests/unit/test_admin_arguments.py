"""How the arguments of the Kafka commands are read, and that completion never fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.cli import arguments
from headrace.errors import DefinitionError


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert arguments.pairs(["a=1", "b==x", "c=", "a=2"], "--config") == {
        "a": "2",
        "b": "=x",
        "c": "",
    }
    assert arguments.pairs(None, "--config") == {}


@pytest.mark.parametrize("text", ["a", "=1", " =1", ""])
def test_what_is_no_pair_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(DefinitionError, match="--config"):
        arguments.pairs([text], "--config")


def test_options_that_exclude_each_other_are_named() -> None:
    arguments.at_most_one(to_earliest=True, to_latest=None)
    with pytest.raises(DefinitionError, match="--to-earliest and --to-latest"):
        arguments.at_most_one(to_earliest=True, to_latest=True)


def test_one_option_of_several_must_be_given_and_zero_counts() -> None:
    arguments.exactly_one(by=0, to_offset=None)
    with pytest.raises(DefinitionError) as raised:
        arguments.exactly_one(by=None, to_offset=None)
    assert "--by, --to-offset" in (raised.value.hint or "")


def test_completion_that_goes_wrong_offers_nothing() -> None:
    context = cast(Any, SimpleNamespace(params=None))
    assert arguments.complete_topic(context, "o") == []
    assert arguments.complete_group(context, "o") == []
