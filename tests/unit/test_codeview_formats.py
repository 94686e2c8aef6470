"""Formats of which there is no script, as they take more than Spark alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.unit.definitions import CONSOLE, planned

from headrace.codeview.view import script
from headrace.sinks.writer import NotScripted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
SOURCE = "source: {connector_type: kafka, bootstrap_server: 'localhost:9092', topic: orders, %s}\n"
SINK = "sink: {connector_type: kafka, topic: clean, %s}\n"
REGISTRY = "schema_registry: {endpoint: 'http://localhost:8081'}"
GLUE = "schema_registry: {type: glue, region: eu-central-1}"


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        (f"format: protobuf, {REGISTRY}", CONSOLE, "source `source`: only Headrace reads Protobuf"),
        (
            f"schema: id INT, key_format: confluent_protobuf, {REGISTRY}",
            CONSOLE,
            "source `source`: only Headrace reads Protobuf",
        ),
        (f"format: avro, {GLUE}", CONSOLE, "source `source`: its messages may be compressed"),
        ("schema: id INT", f"format: avro, {REGISTRY}", "the schema of its values is registered"),
    ],
)
def test_what_takes_functions_of_headrace_has_no_script(
    tmp_path: Path, source: str, sink: str, words: str
) -> None:
    plan = planned(tmp_path, SOURCE % source, CONSOLE if sink == CONSOLE else SINK % sink)
    with pytest.raises(NotScripted, match="there is no script") as caught:
        script(plan, NO_SPARK, (), ())
    assert words in str(caught.value)
