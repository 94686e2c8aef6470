"""What is generated is not stale, and the JSON Schema agrees with the checks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from headrace.api import load
from headrace.cli.main import main
from headrace.frontend.json_schema import pipeline_schema
from headrace.spans import Severity

ROOT = Path(__file__).parents[2]
ACCEPTED = sorted(
    [
        *(ROOT / "examples").glob("*.yaml"),
        *(ROOT / "tests" / "cases" / "accepted").glob("*/pipeline.yaml"),
        ROOT / "src" / "headrace" / "cli" / "template.yaml",
    ]
)
# Faults that a schema can see: of shape and spelling, not of meaning.
REFUSED = ["misspelt_option", "missing_options", "source_as_text", "sinks_as_list", "no_source"]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def fits(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    """Whether a value is what a schema says, for the words that ours uses."""
    rules: dict[str, Callable[[Any], bool]] = {
        "$ref": lambda to: fits(value, root["$defs"][to.rpartition("/")[2]], root),
        "type": lambda names: any(
            is_a(value, name) for name in ([names] if isinstance(names, str) else names)
        ),
        "enum": lambda values: value in values,
        "const": lambda only: value == only,
        "pattern": lambda text: not isinstance(value, str) or re.search(text, value) is not None,
        "minimum": lambda least: not is_a(value, "number") or value >= least,
        "minItems": lambda least: not isinstance(value, list) or len(value) >= least,
        "items": lambda each: (
            not isinstance(value, list) or all(fits(item, each, root) for item in value)
        ),
        "required": lambda names: not isinstance(value, dict) or set(names) <= value.keys(),
        "properties": lambda known: (
            not isinstance(value, dict)
            or all(fits(value[name], each, root) for name, each in known.items() if name in value)
        ),
        "additionalProperties": lambda rest: (
            not isinstance(value, dict)
            or all(
                rest and fits(each, rest, root)
                for name, each in value.items()
                if name not in schema.get("properties", {})
                and not any(re.search(like, name) for like in schema.get("patternProperties", {}))
            )
        ),
        "anyOf": lambda each: any(fits(value, one, root) for one in each),
        "oneOf": lambda each: sum(fits(value, one, root) for one in each) == 1,
        "allOf": lambda each: all(fits(value, one, root) for one in each),
        "if": lambda test: fits(
            value, schema.get("then" if fits(value, test, root) else "else", {}), root
        ),
    }
    return all(rules[word](part) for word, part in schema.items() if word in rules)


def is_a(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def parsed(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def test_the_reference_is_what_the_code_says() -> None:
    command = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["schema"])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(pipeline_schema()))


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_schema_takes_what_the_checks_take(path: Path) -> None:
    schema = pipeline_schema()
    assert fits(parsed(path), schema, schema)
    faults = [f for f in load(path).check() if f.severity is Severity.ERROR]
    assert {fault.code for fault in faults} <= {"UNDEFINED_VARIABLE"}


@pytest.mark.parametrize("case", REFUSED)
def test_the_schema_refuses_wrong_shapes_and_names(case: str) -> None:
    schema = pipeline_schema()
    assert not fits(
        parsed(ROOT / "tests" / "cases" / "refused" / case / "pipeline.yaml"), schema, schema
    )


AVRO = {"connector_type": "kafka", "bootstrap_server": "a:1", "format": "confluent_avro"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"connector_type": "kafka", "bootstrap_servers": "a:1", "schema": "id INT"}, True),
        ({"connector_type": "kafka", "schema": "id INT"}, False),
        ({"connector_type": "mysql"}, False),
        (AVRO | {"schema_registry": {"endpoint": "http://a"}}, True),
        (AVRO | {"schema_registry.endpoint": "http://a", "json.unstructured": False}, True),
        (AVRO | {"schema_registry": {"endpont": "http://a"}}, False),
        (AVRO | {"schema_registry.endpont": "http://a"}, False),
    ],
)
def test_a_source_alone_is_a_file_of_its_own(value: dict[str, Any], expected: bool) -> None:
    schema = pipeline_schema()
    assert fits(value, schema, schema) is expected
