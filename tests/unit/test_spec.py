"""Options: their types, names, defaults and faults."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.spans import Diagnostic, Field, Node, Span
from headrace.spec import HIDDEN, Expression, Option, Options, Setting, Spec, Type, unknown

HERE = Span("p.yaml", 1, 1)
AT = Span("p.yaml", 7, 3)


def node(value: Any) -> Node:
    if isinstance(value, dict):
        return Node({key: Field(HERE, node(each)) for key, each in value.items()}, AT)
    if isinstance(value, list):
        return Node([node(each) for each in value], AT)
    return Node(value, AT)


def spec(*options: Option) -> Spec:
    return Spec("source", "kafka", "For tests.", options)


def read(option: Option | Spec, values: dict[str, Any]) -> tuple[Options, list[Diagnostic]]:
    chosen = option if isinstance(option, Spec) else spec(option)
    return chosen.read({key: Field(AT, node(value)) for key, value in values.items()}, HERE)


def _named(name: str, sql: str | None) -> Expression:
    return Expression(name, sql, AT)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Type.TEXT, "orders", "orders"),
        (Type.TEXT, 2024, "2024"),
        (Type.INTEGER, 5, 5),
        (Type.INTEGER, "5", 5),
        (Type.INTEGER, " -5 ", -5),
        (Type.FLAG, True, True),
        (Type.FLAG, "False", False),
        (Type.CHOICE, "b", "b"),
        (Type.LIST, ["a", "b"], ("a", "b")),
        (Type.LIST, "a, b", ("a", "b")),
        (Type.LIST, "a", ("a",)),
        (Type.LIST, [1, "b"], ("1", "b")),
        (Type.PROPERTIES, {"a": 1, "b": True, "c": "x"}, {"a": "1", "b": "true", "c": "x"}),
        (Type.EXPRESSIONS, {"a": "b + 1", "c": 2}, (_named("a", "b + 1"), _named("c", "2"))),
        (Type.EXPRESSIONS, ["a", " b "], (_named("a", None), _named("b", None))),
        (Type.DURATION, "500ms", 500),
        (Type.DURATION, "2 s", 2000),
        (Type.DURATION, "5 minutes", 300_000),
        (Type.DURATION, "1h", 3_600_000),
    ],
)
def test_a_value_is_read_in_its_options_type(kind: Type, written: Any, value: Any) -> None:
    options, faults = read(Option("x", kind, "Help.", choices=("a", "b")), {"x": written})
    assert faults == []
    assert options["x"] == value


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Type.TEXT, None),
        (Type.TEXT, True),
        (Type.TEXT, ["a"]),
        (Type.TEXT, {"a": "b"}),
        (Type.TEXT, "  "),
        (Type.INTEGER, "five"),
        (Type.INTEGER, "²"),
        (Type.INTEGER, "--5"),
        (Type.INTEGER, 1.5),
        (Type.INTEGER, True),
        (Type.INTEGER, None),
        (Type.INTEGER, 2**63),
        (Type.INTEGER, "9" * 5000),
        (Type.FLAG, "maybe"),
        (Type.FLAG, 1),
        (Type.LIST, []),
        (Type.LIST, ""),
        (Type.LIST, "a,,b"),
        (Type.LIST, [None]),
        (Type.LIST, [["a"]]),
        (Type.LIST, {"a": "b"}),
        (Type.PROPERTIES, "a=b"),
        (Type.PROPERTIES, {"a": None}),
        (Type.PROPERTIES, {"a": ["b"]}),
        (Type.EXPRESSIONS, "a"),
        (Type.EXPRESSIONS, []),
        (Type.EXPRESSIONS, {}),
        (Type.EXPRESSIONS, [""]),
        (Type.EXPRESSIONS, [7]),
        (Type.EXPRESSIONS, ["a", "A"]),
        (Type.EXPRESSIONS, {"a": None}),
        (Type.EXPRESSIONS, {"a": ["b"]}),
        (Type.EXPRESSIONS, {"a": " "}),
        (Type.DURATION, "5"),
        (Type.DURATION, 5),
        (Type.DURATION, "5 parsecs"),
        (Type.DURATION, ["5s"]),
        (Type.DURATION, None),
        (Type.DURATION, "²s"),
    ],
)
def test_a_value_of_another_type_is_a_fault_at_its_place(kind: Type, written: Any) -> None:
    options, faults = read(Option("x", kind, "Help.", default="the default"), {"x": written})
    assert [(fault.code, fault.span) for fault in faults] == [("BAD_VALUE", AT)]
    assert options["x"] == "the default"


def test_every_type_has_a_converter() -> None:
    for kind in Type:
        _, faults = read(Option("x", kind, "Help.", choices=("a",)), {"x": {"a": ["b"]}})
        assert faults


def test_what_was_written_is_what_was_meant() -> None:
    fields = {"x": Field(AT, Node(1.1, AT, "1.10"))}
    options, _ = spec(Option("x", Type.TEXT, "Help.")).read(fields, HERE)
    assert options["x"] == "1.10"


@pytest.mark.parametrize("written", ["straem", 1, None, ["a"]])
def test_a_wrong_choice_names_the_choices(written: Any) -> None:
    option = Option("mode", Type.CHOICE, "Help.", choices=("stream", "batch"))
    _, faults = read(option, {"mode": written})
    assert [fault.code for fault in faults] == ["BAD_CHOICE"]
    assert "stream, batch" in faults[0].message
    assert ("did you mean `stream`" in faults[0].message) == (written == "straem")


def test_a_choice_may_be_a_word_that_yaml_reads_as_a_number() -> None:
    options, faults = read(Option("acks", Type.CHOICE, "Help.", choices=("0", "all")), {"acks": 0})
    assert faults == []
    assert options["acks"] == "0"


@pytest.mark.parametrize(("written", "value"), [(True, True), ("false", False), ({"n": 2}, 2)])
def test_a_mapping_with_a_flag_may_be_just_true_or_false(written: Any, value: Any) -> None:
    fields = (Option("n", Type.INTEGER, "Help."),)
    options, faults = read(
        Option("x", Type.MAPPING, "Help.", fields=fields, flag=True), {"x": written}
    )
    assert faults == []
    assert (options["x"]["n"] if isinstance(written, dict) else options["x"]) == value


def test_a_number_below_the_minimum_is_a_fault() -> None:
    _, faults = read(Option("n", Type.INTEGER, "Help.", minimum=1), {"n": 0})
    assert [fault.code for fault in faults] == ["BAD_VALUE"]


def test_an_options_own_check_sees_the_value_and_names_the_problem() -> None:
    option = Option("n", Type.INTEGER, "Help.", example="2", validate=lambda n: f"not {n}!")
    _, faults = read(option, {"n": 3})
    assert (faults[0].message, faults[0].hint) == ("`n` not 3!", "for example `n: 2`")


SERVER = Option("server", Type.TEXT, "Help.", required=True, aliases=("servers",), example="a:1")


def test_an_alias_sets_the_option() -> None:
    options, faults = read(SERVER, {"servers": "a:1"})
    assert (options["server"], faults) == ("a:1", [])


def test_an_option_and_its_alias_together_are_one_too_many() -> None:
    _, faults = read(SERVER, {"server": "a:1", "servers": "b:1"})
    assert [fault.code for fault in faults] == ["OPTION_TWICE"]


def test_a_missing_option_is_reported_where_the_component_begins() -> None:
    _, faults = read(SERVER, {})
    assert [(fault.code, fault.span) for fault in faults] == [("MISSING_OPTION", HERE)]
    assert faults[0].hint == "add `server: a:1`"


def test_a_misspelt_option_is_one_fault_and_not_also_a_missing_one() -> None:
    options, faults = read(SERVER, {"sever": "a:1"})
    assert [(fault.code, fault.span) for fault in faults] == [("UNKNOWN_OPTION", AT)]
    assert faults[0].hint == "did you mean `server`?"
    assert options.meant == {"server"}


def test_a_default_counts_as_not_set() -> None:
    options, _ = read(Option("x", Type.TEXT, "Help.", default="y"), {})
    assert options["x"] == "y"
    assert "x" not in options
    assert options.at("x") == HERE


def test_a_setting_tells_where_its_value_comes_from() -> None:
    both = spec(Option("x", Type.TEXT, "Help."), Option("y", Type.TEXT, "Help.", default="z"))
    options, _ = read(both, {"x": "1"})
    assert options.setting("kafka.x", "x") == Setting("kafka.x", "1", "x (p.yaml:7:3)")
    assert options.setting("kafka.y", "y") == Setting("kafka.y", "z", "y (default)")


def test_a_secret_is_never_shown() -> None:
    options, _ = read(Option("password", Type.TEXT, "Help.", secret=True), {"password": "hunter2"})
    assert options.setting("sasl.password", "password").value == HIDDEN
    assert options["password"] == "hunter2"
    _, faults = read(Option("pin", Type.INTEGER, "Help.", secret=True), {"pin": "hunter2"})
    assert [fault.code for fault in faults] == ["BAD_VALUE"]
    assert "hunter2" not in f"{faults[0]} {options!r}"


def test_options_are_equal_when_they_set_the_same_wherever_they_stand() -> None:
    option = spec(Option("x", Type.TEXT, "Help."))
    one, _ = option.read({"x": Field(HERE, Node("1", HERE))}, HERE)
    two, _ = option.read({"x": Field(AT, Node("1", AT))}, AT)
    assert one == two


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("topik", ["topic", "schema"], "did you mean `topic`?"),
        ("TOPIC", ["topic"], "did you mean `topic`?"),
        ("zzz", ["b", "a"], "known: a, b"),
        ("zzz", [], None),
        ("zzz", [f"option_{n}" for n in range(20)], None),
    ],
)
def test_an_unknown_name_gets_the_nearest_or_all_that_are_few(
    name: str, known: list[str], hint: str | None
) -> None:
    assert unknown("option", name, known, HERE).hint == hint


NESTED = Option(
    "registry",
    Type.MAPPING,
    "For tests.",
    aliases=("schema_registry",),
    fields=(
        Option("endpoint", Type.TEXT, "Where.", aliases=("url",)),
        Option("secret", Type.TEXT, "Who.", secret=True),
    ),
)


@pytest.mark.parametrize(
    "values",
    [
        {"registry": {"endpoint": "here", "secret": "x"}},
        {"registry.endpoint": "here", "registry.secret": "x"},
        {"schema_registry.url": "here", "registry": {"secret": "x"}},
        {"registry": {"secret": "x"}, "registry.endpoint": "here"},
    ],
)
def test_options_inside_of_an_option_may_have_dots(values: dict[str, Any]) -> None:
    options, faults = read(NESTED, values)
    assert faults == []
    found = options["registry"]
    assert (found["endpoint"], found["secret"]) == ("here", "x")
    assert list(options.secrets) == [("registry", "x")]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"registry.endpoint": "a", "registry": {"endpoint": "b"}}, "OPTION_TWICE"),
        ({"registry.endpoint": "a", "registry.url": "b"}, "OPTION_TWICE"),
        ({"registry.endpoint": "a", "schema_registry": {"endpoint": "b"}}, "OPTION_TWICE"),
        ({"registry.endpont": "a"}, "UNKNOWN_OPTION"),
        ({"registri.endpoint": "a"}, "UNKNOWN_OPTION"),
        ({"registry.": "a"}, "UNKNOWN_OPTION"),
    ],
)
def test_names_with_dots_are_checked_as_others_are(values: dict[str, Any], said: str) -> None:
    _, faults = read(NESTED, values)
    assert [fault.code for fault in faults] == [said]
