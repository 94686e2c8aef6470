"""What holds for every source, sink, option, error and public name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import headrace
from headrace import errors
from headrace.errors import (
    EXIT_DEFINITION,
    EXIT_FINAL,
    EXIT_INTERNAL,
    EXIT_RETRY,
    Fault,
    HeadraceError,
)
from headrace.frontend import yaml
from headrace.frontend.options import PIPELINE, SINK, SOURCE, STEP
from headrace.sinks import SINKS
from headrace.sinks.writer import SinkKind, SinkWriter
from headrace.sources import SOURCES
from headrace.spans import Field, Span
from headrace.spec import Option, Spec, Type

SPECS = [
    PIPELINE,
    STEP,
    SOURCE,
    SINK,
    *(source.SPEC for source in SOURCES.values()),
    *(sink.SPEC for sink in SINKS.values()),
]
OPTIONS = [(spec, option) for spec in SPECS for option in spec.options]
HERE = Span("p.yaml", 1, 1)


def name_of(value: object) -> str | None:
    if isinstance(value, Spec):
        return f"{value.name}-{value.kind}"
    return value.name if isinstance(value, Option) else None


# Options


@pytest.mark.parametrize("spec", SPECS, ids=name_of)
def test_no_name_of_an_option_is_used_twice(spec: Spec) -> None:
    names = [name for option in spec.options for name in option.names]
    assert len(names) == len(set(names))
    assert spec.names == set(names)


@pytest.mark.parametrize(("spec", "option"), OPTIONS, ids=name_of)
def test_an_option_is_described_in_sentences(spec: Spec, option: Option) -> None:
    assert option.help.endswith(".")
    assert re.fullmatch(r"[a-z][a-z_]*", option.name)
    assert spec.summary.endswith(".")


@pytest.mark.parametrize(("spec", "option"), OPTIONS, ids=name_of)
def test_an_example_passes_the_check_that_it_explains(spec: Spec, option: Option) -> None:
    if option.example is None:
        return
    tree, _ = yaml.read(f"{option.name}: {option.example}", "p.yaml")
    assert isinstance(tree.value, dict)
    fields: dict[str, Field] = tree.value
    _, faults = Spec(spec.kind, spec.name, spec.summary, (option,)).read(fields, HERE)
    assert faults == []


@pytest.mark.parametrize(("spec", "option"), OPTIONS, ids=name_of)
def test_an_option_is_a_choice_or_has_a_default_or_an_example(spec: Spec, option: Option) -> None:
    assert bool(option.choices) == (option.type is Type.CHOICE), spec.name
    if option.choices:
        assert option.default is None or option.default in option.choices
    if option.required:
        assert option.example
        assert option.default is None


# Sources and sinks


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_known_by_the_name_of_its_spec(name: str) -> None:
    assert (SOURCES[name].SPEC.kind, SOURCES[name].SPEC.name) == ("source", name)


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_keeps_its_protocols(name: str) -> None:
    sink = SINKS[name]
    assert (sink.SPEC.kind, sink.SPEC.name) == ("sink", name)
    for member in members(SinkKind) | members(SinkWriter):
        assert hasattr(sink, member), member


def members(protocol: type) -> set[str]:
    names = {*protocol.__annotations__, *vars(protocol)}
    return {name for name in names if not name.startswith("_")}


# Errors


def descendants(kind: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from descendants(child)


ERRORS = list(descendants(HeadraceError))
TREE = {
    match.group(2): (len(match.group(1)), match.group(0))
    for match in re.finditer(r"^ {4}([ │]*)[├└]── (\w+).*$", errors.__doc__ or "", re.MULTILINE)
}


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert set(TREE) == {error.__name__ for error in ERRORS}
    for error in ERRORS:
        depth = len(error.__mro__) - len(HeadraceError.__mro__)
        assert TREE[error.__name__][0] == 4 * (depth - 1)
        assert ("(retry)" in TREE[error.__name__][1]) == error.retry


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_has_a_code_a_fault_and_the_exit_code_of_both(error: type[HeadraceError]) -> None:
    raised = error.__new__(error)
    expected = {
        Fault.DEFINITION: EXIT_DEFINITION,
        Fault.INTERNAL: EXIT_INTERNAL,
        Fault.DATA: EXIT_FINAL,
        Fault.OUTSIDE: EXIT_RETRY if error.retry else EXIT_FINAL,
    }
    assert raised.exit_code == expected[error.fault]
    assert error.code == error.__name__


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_takes_values_and_says_what_and_what_next(error: type[HeadraceError]) -> None:
    parameters = inspect.signature(error).parameters.values()
    values = {
        p.name: {"int": 3, "Sequence[str]": ["a"]}.get(str(p.annotation), "value")
        for p in parameters
        if p.default is inspect.Parameter.empty
    }
    raised = error(**values)  # type: ignore[arg-type]
    assert str(raised)
    assert raised.hint or error.__name__ in (
        "DefinitionError",
        "DataError",
        "OutsideError",
        "KafkaRefused",
    )


# Public names


def test_the_public_names_are_these() -> None:
    assert sorted(headrace.__all__) == ["Definition", "HeadraceError", "Run", "load"]
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    with pytest.raises(AttributeError):
        _ = headrace.nothing
