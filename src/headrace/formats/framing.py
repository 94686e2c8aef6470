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

from headrace.admin.stored_schemas import Framing, StoredSchema
from headrace.formats import compression
from headrace.formats.known import NEW_SCHEMA, NOT_ASKED, NOT_KNOWN, Known
from headrace.formats.options import Compression, Part, Wanted
from headrace.formats.reading import KEY, VALUE, Steps
from headrace.model.schema import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How many bytes stand before the payload.
SIZES = {Framing.CONFLUENT: 5, Framing.GLUE: 18}
MAGIC = {Framing.CONFLUENT: b"\x00", Framing.GLUE: b"\x03"}
# The second byte of Glue's frame.
PLAIN, ZLIB = b"\x00", b"\x05"
_PREFIXES = {Part.VALUE: VALUE, Part.KEY: KEY}
_UUID = "(.{8})(.{4})(.{4})(.{4})(.{12})"


@dataclass(frozen=True)
class Frames:
    """The frames of one part of the messages of a source.

    `ids` are of schemas that can be read, `refused` of those that cannot, with the reasons. A
    message with any other id ends the query if the source `asks` for it, and is bad if it does not.
    Glue's messages each say whether they are compressed; those that are go through a Python worker,
    unless `inflates` is False and they are bad records.
    """

    framing: Framing
    source: str
    part: Part
    ids: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    inflates: bool = True
    asks: bool = True

    @classmethod
    def of(
        cls, known: Known, source: str, part: Part, compression: Compression | None = None
    ) -> Frames:
        """`compression` is what the definition says of the messages, if anything."""
        ids = tuple(each.id for each in known.writers)
        inflates = compression is not Compression.NONE
        return cls(known.framing, source, part, ids, known.refused, inflates, known.asks)

    @property
    def _may_inflate(self) -> bool:
        return self.framing is Framing.GLUE and self.inflates

    def register(self, spark: SparkSession) -> None:
        if self._may_inflate:
            compression.register(spark)

    def steps(self, source: str, prefix: str) -> Steps:
        """One column, `payload`; it means nothing where there is a fault."""
        payload = f"substr({source}, {SIZES[self.framing] + 1})"
        if self._may_inflate:
            # Spark calls the function for every row: it gets NULL where there is nothing to do.
            packed = f"{compression.INFLATE}(IF({_is_zlib(source)}, {payload}, NULL))"
            payload = f"IF({_is_zlib(source)}, {packed}, {payload})"
        return ((self.payload(prefix), payload),)

    def payload(self, prefix: str) -> str:
        return f"{prefix}payload"

    def has(self, source: str, id: str) -> str:
        """SQL: whether a message was written with this schema."""
        return _any_of(source, [header(self.framing, id)], self.framing)

    def fault(self, source: str, payload: str, prefix: str | None = None) -> str:
        """SQL for the code of what is wrong, given the SQL of that for the payload of a message
        whose schema is known. `prefix` is that of `steps`, by default the one of this part.
        """
        payload = self._unless_packed(source, payload, prefix or _PREFIXES[self.part])
        unknown = self._not_known
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
        otherwise = self._stop(source) if self.asks else "'UNKNOWN_SCHEMA'"
        return f"CASE {' '.join(found)} ELSE {otherwise} END"

    def sentences(self, source: str) -> dict[str, str]:
        """SQL for a sentence about each of these codes, for `reading.cases`."""
        magic, size = MAGIC[self.framing].hex(), SIZES[self.framing]
        first = f"lower(hex(substr({source}, 1, 1)))"
        what = f"the {self.part}"
        found = {
            "UNKNOWN_SCHEMA": f"concat({literal(f'{what} was written with schema ')}, "
            f"{self.id(source)}, {self._why_unknown(source)})",
            "INCOMPATIBLE_SCHEMA": f"concat({literal(f'{what} was written with schema ')}, "
            f"{self.id(source)}, {self._reasons(source)})",
            "NOT_FRAMED": f"concat({literal(f'{what} begins with the byte ')}, {first}, "
            f"{literal(f' and not with {magic}, as one with the id of a schema does')})",
            "TRUNCATED": f"concat({literal(f'{what} ends after ')}, length({source}), "
            f"{literal(f' bytes, within the {size} that name its schema')})",
        }
        if self.framing is Framing.GLUE:
            second = f"lower(hex(substr({source}, 2, 1)))"
            unknown = literal(f"{what} is compressed in a way that is not known: ")
            found["BAD_COMPRESSION"] = (
                f"IF({_is_zlib(source)}, {literal(f'{what} {self._packed}')}, "
                f"concat({unknown}, {second}))"
            )
        return found

    @property
    def _packed(self) -> str:
        """What is wrong with one that is compressed by zlib."""
        if not self.inflates:
            return "is compressed, and `compression: none` says that none is"
        most = compression.MOST_BYTES // 2**20
        return f"is compressed, and what is packed is broken or larger than {most} MiB"

    def id(self, source: str) -> str:
        """SQL for the id as text; too dear for good records."""
        if self.framing is Framing.CONFLUENT:
            return f"conv(hex(substr({source}, 2, 4)), 16, 10)"
        digits = f"lower(hex(substr({source}, 3, 16)))"
        return f"regexp_replace({digits}, '{_UUID}', '$1-$2-$3-$4-$5')"

    def _unless_packed(self, source: str, payload: str, prefix: str) -> str:
        if self.framing is not Framing.GLUE:
            return payload
        bad = f"{self.payload(prefix)} IS NULL" if self.inflates else _is_zlib(source)
        return f"IF({bad}, 'BAD_COMPRESSION', {payload})"

    def _when(self, source: str, ids: list[str], then: str) -> list[str]:
        heads = [header(self.framing, id) for id in ids]
        return [f"WHEN {_any_of(source, heads, self.framing)} THEN {then}"] if heads else []

    @property
    def _not_known(self) -> list[str]:
        return [id for id, reason in self.refused.items() if reason == NOT_KNOWN]

    def _why_unknown(self, source: str) -> str:
        whens = self._when(source, self._not_known, literal(f": {NOT_KNOWN}"))
        rest = literal(f": {NOT_KNOWN if self.asks else NOT_ASKED}")
        return f"CASE {' '.join(whens)} ELSE {rest} END" if whens else rest

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


def id_in(message: bytes, framing: Framing) -> str | None:
    """The id that a message names; None if it has no such frame."""
    if len(message) < SIZES[framing] or message[:1] != MAGIC[framing]:
        return None
    if framing is Framing.CONFLUENT:
        return str(int.from_bytes(message[1:5], "big"))
    return str(uuid.UUID(bytes=message[2:18])) if message[1:2] in (PLAIN, ZLIB) else None


@dataclass(frozen=True)
class Frame:
    """What messages get that are written with a schema."""

    framing: Framing
    id: str
    deflates: bool = False

    @classmethod
    def of(cls, schema: StoredSchema, wanted: Wanted) -> Frame:
        kind = wanted.registry.kind if wanted.registry is not None else Framing.CONFLUENT
        return cls(Framing(kind), schema.id, wanted.compression is Compression.ZLIB)

    def register(self, spark: SparkSession) -> None:
        if self.deflates:
            compression.register(spark)

    def around(self, payload: str) -> str:
        """SQL for a message, given SQL for its payload; NULL if that is."""
        if not self.deflates:
            return framed(self.framing, self.id, payload)
        head = _packed_as(header(self.framing, self.id), ZLIB)
        return f"concat({hexadecimal(head)}, {compression.DEFLATE}({payload}))"


def framed(framing: Framing, id: str, payload: str) -> str:
    """The same for what is never compressed."""
    return f"concat({hexadecimal(header(framing, id))}, {payload})"


def hexadecimal(some: bytes) -> str:
    """Bytes as a literal of Spark SQL."""
    return f"X'{some.hex().upper()}'"


def _any_of(source: str, heads: list[bytes], framing: Framing) -> str:
    if framing is Framing.GLUE:
        heads = [_packed_as(head, way) for head in heads for way in (PLAIN, ZLIB)]
    head = f"substr({source}, 1, {SIZES[framing]})"
    if len(heads) == 1:
        return f"{head} = {hexadecimal(heads[0])}"
    return f"{head} IN ({', '.join(map(hexadecimal, heads))})"


def _is_zlib(source: str) -> str:
    return f"substr({source}, 1, 2) = {hexadecimal(MAGIC[Framing.GLUE] + ZLIB)}"


def _packed_as(head: bytes, way: bytes) -> bytes:
    return head[:1] + way + head[2:]
