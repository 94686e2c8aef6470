"""Frames: what stands before the payload of a message and names the schema it was written with.

Confluent's is a zero byte and the id in four; AWS Glue's the byte 3, one for the compression and
the sixteen of a UUID. `Frames` gives the SQL that readings share: which schema a message has, what
is wrong with its frame, and the payload. An id is told by comparing bytes, which costs next to
nothing; it is put into digits only where there is something to say about it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.admin.stored_schemas import Framing
from headrace.formats.known import NEW_SCHEMA, NOT_KNOWN, Known
from headrace.formats.options import Part
from headrace.formats.reading import Steps
from headrace.model.schema import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How many bytes stand before the payload.
SIZES = {Framing.CONFLUENT: 5, Framing.GLUE: 18}
MAGIC = {Framing.CONFLUENT: b"\x00", Framing.GLUE: b"\x03"}
# The second byte of Glue's frame.
PLAIN, ZLIB = b"\x00", b"\x05"
_UUID = "(.{8})(.{4})(.{4})(.{4})(.{12})"


@dataclass(frozen=True)
class Frames:
    """The frames of one part of the messages of a source.

    `ids` are of schemas that can be read, `refused` of those that cannot, with the reasons. A
    message with any other id ends the query.
    """

    framing: Framing
    source: str
    part: Part
    ids: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Known, source: str, part: Part) -> Frames:
        ids = tuple(each.id for each in known.writers)
        return cls(known.framing, source, part, ids, known.refused)

    def register(self, spark: SparkSession) -> None:
        """All of it is SQL."""

    def steps(self, source: str, prefix: str) -> Steps:
        """One column, `payload`; it means nothing where there is a fault."""
        return ((self.payload(prefix), f"substr({source}, {SIZES[self.framing] + 1})"),)

    def payload(self, prefix: str) -> str:
        return f"{prefix}payload"

    def has(self, source: str, id: str) -> str:
        """SQL: whether a message was written with this schema."""
        return _any_of(source, [header(self.framing, id)], self.framing)

    def fault(self, source: str, payload: str) -> str:
        """SQL for the code of what is wrong, given the SQL of that for the payload of a message
        whose schema is known.
        """
        unknown = [id for id, reason in self.refused.items() if reason == NOT_KNOWN]
        others = [id for id in self.refused if id not in unknown]
        found = [
            *self._when(source, unknown, "'UNKNOWN_SCHEMA'"),
            *self._when(source, others, "'INCOMPATIBLE_SCHEMA'"),
            *self._when(source, list(self.ids), payload),
            f"WHEN length({source}) > 0 AND substr({source}, 1, 1) <> "
            f"{hexadecimal(MAGIC[self.framing])} THEN 'NOT_FRAMED'",
            f"WHEN length({source}) < {SIZES[self.framing]} THEN 'TRUNCATED'",
        ]
        if self.framing is Framing.GLUE:
            known = f"{hexadecimal(PLAIN)}, {hexadecimal(ZLIB)}"
            found.append(f"WHEN substr({source}, 2, 1) NOT IN ({known}) THEN 'BAD_COMPRESSION'")
        return f"CASE {' '.join(found)} ELSE {self._stop(source)} END"

    def sentences(self, source: str) -> dict[str, str]:
        """SQL for a sentence about each of these codes, for `reading.cases`."""
        magic, size = MAGIC[self.framing].hex(), SIZES[self.framing]
        first = f"lower(hex(substr({source}, 1, 1)))"
        what = f"the {self.part}"
        found = {
            "UNKNOWN_SCHEMA": f"concat({literal(f'{what} was written with schema ')}, "
            f"{self.id(source)}, {literal(f': {NOT_KNOWN}')})",
            "INCOMPATIBLE_SCHEMA": f"concat({literal(f'{what} was written with schema ')}, "
            f"{self.id(source)}, {self._reasons(source)})",
            "NOT_FRAMED": f"concat({literal(f'{what} begins with the byte ')}, {first}, "
            f"{literal(f' and not with {magic}, as one with the id of a schema does')})",
            "TRUNCATED": f"concat({literal(f'{what} ends after ')}, length({source}), "
            f"{literal(f' bytes, within the {size} that name its schema')})",
        }
        if self.framing is Framing.GLUE:
            second = f"lower(hex(substr({source}, 2, 1)))"
            found["BAD_COMPRESSION"] = (
                f"concat({literal(f'{what} is compressed in a way that is not known: ')}, {second})"
            )
        return found

    def id(self, source: str) -> str:
        """SQL for the id as text; too dear for good records."""
        if self.framing is Framing.CONFLUENT:
            return f"conv(hex(substr({source}, 2, 4)), 16, 10)"
        digits = f"lower(hex(substr({source}, 3, 16)))"
        return f"regexp_replace({digits}, '{_UUID}', '$1-$2-$3-$4-$5')"

    def _when(self, source: str, ids: list[str], then: str) -> list[str]:
        heads = [header(self.framing, id) for id in ids]
        return [f"WHEN {_any_of(source, heads, self.framing)} THEN {then}"] if heads else []

    def _stop(self, source: str) -> str:
        place = f"'source', {literal(self.source)}, 'part', '{self.part}'"
        facts = f"to_json(named_struct({place}, 'id', {self.id(source)}))"
        return f"raise_error(concat('{NEW_SCHEMA}', {facts}))"

    def _reasons(self, source: str) -> str:
        whens = " ".join(
            f"WHEN {self.has(source, id)} THEN {literal(f': {reason}')}"
            for id, reason in self.refused.items()
        )
        return f"CASE {whens} ELSE '' END" if whens else "''"


def header(framing: Framing, id: str) -> bytes:
    """The frame of messages with a schema, uncompressed."""
    if framing is Framing.CONFLUENT:
        return MAGIC[framing] + int(id).to_bytes(4, "big")
    return MAGIC[framing] + PLAIN + uuid.UUID(id).bytes


def framed(framing: Framing, id: str, payload: str) -> str:
    """SQL for a message with this frame, given SQL for its payload; NULL if that is."""
    return f"concat({hexadecimal(header(framing, id))}, {payload})"


def hexadecimal(some: bytes) -> str:
    """Bytes as a literal of Spark SQL."""
    return f"X'{some.hex().upper()}'"


def _any_of(source: str, heads: list[bytes], framing: Framing) -> str:
    if framing is Framing.GLUE:
        heads = [head[:1] + way + head[2:] for head in heads for way in (PLAIN, ZLIB)]
    head = f"substr({source}, 1, {SIZES[framing]})"
    if len(heads) == 1:
        return f"{head} = {hexadecimal(heads[0])}"
    return f"{head} IN ({', '.join(map(hexadecimal, heads))})"
