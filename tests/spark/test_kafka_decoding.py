"""Records to rows beyond plain JSON: with their metadata, and as bytes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.testing import Message, outcome

SOURCE = """
source:
  connector_type: kafka
  bootstrap_server: localhost:9092
  topic: census
"""
SINK = """
sink:
  connector_type: console
"""


def test_a_record_and_its_metadata_are_two_values(tmp_path: Path, spark: SparkSession) -> None:
    """As Mage has them, beside the columns; of a bad record there is no data."""
    file = tmp_path / "p.yaml"
    schema = '  schema: "place STRING, count INT"\n  include_metadata: true\n'
    file.write_text(SOURCE + schema + SINK)
    messages = [
        Message({"place": "klamath", "count": 23}, key="bees", partition=3),
        Message({"place": "ashland"}, key=b"\xff\x00", headers=(("trace", b"7"),)),
        Message("no", key="bad"),
        Message(None, key="gone"),
    ]
    found = outcome(file, messages, spark)
    bees, other = found.rows["sink"]
    assert bees["data"] == {"place": "klamath", "count": 23}
    time = bees["metadata"].pop("time")
    assert bees["metadata"] == {"key": "bees", "partition": 3, "offset": 0, "topic": "census"}
    assert isinstance(time, int)
    assert time > 1_700_000_000_000
    assert (bees["place"], bees["_kafka_partition"], bees["_kafka_offset"]) == ("klamath", 3, 0)
    assert other["metadata"]["key"] is None  # as it is no text
    assert other["_kafka_key"] == bytearray(b"\xff\x00")
    assert [header["key"] for header in other["_kafka_headers"]] == ["trace"]
    assert [bad["error"] for bad in found.bad["source"]] == ["NOT_JSON"]


def test_a_column_of_the_schema_stays_what_it_is(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "p.yaml"
    schema = '  schema: "data STRING, Metadata INT"\n  include_metadata: true\n'
    file.write_text(SOURCE + schema + SINK)
    (row,) = outcome(file, [{"data": "own", "Metadata": 5}], spark).rows["sink"]
    assert (row["data"], row["Metadata"]) == ("own", 5)
    assert row["_kafka_topic"] == "census"


def test_no_bytes_are_bad(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(SOURCE + "  format: raw\n  include_metadata: true\n" + SINK)
    values = [Message(b"\xff\xfe"), Message(b""), Message("{")]
    messages = [*values, Message(None, key="gone"), Message(None)]
    found = outcome(file, messages, spark)
    rows = found.rows["sink"]
    assert [row["value"] for row in rows] == [b"\xff\xfe", b"", b"{", None, None]
    assert [row["data"] for row in rows] == [row["value"] for row in rows]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[3]["metadata"]["key"] == "gone"
    assert list(rows[0])[:7] == [
        *("key", "value", "timestamp", "partition", "offset", "topic", "headers"),
    ]
    assert found.bad["source"] == []
    file.write_text(SOURCE + "  format: raw\n  tombstones: skip\n" + SINK)
    assert len(outcome(file, messages, spark).rows["sink"]) == 4
