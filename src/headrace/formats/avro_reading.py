"""Messages of Avro as columns: plain by one schema, or framed by many, all read into the same.

For each schema that messages may have been written with there is one `from_avro`, chosen by the
frame. Its two schemas are made by `avro_resolution`, so that all of them give one type. A message
that cannot be decoded, or does not end where its schema says, is bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.formats.avro_resolution import MARK, MARK_BYTES, MARK_NUMBER, VALUE, Resolution
from headrace.formats.framing import Frames, hexadecimal
from headrace.formats.options import Part
from headrace.formats.reading import Steps, cases
from headrace.model.schema import Schema, literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As messages are read: what cannot be is NULL, days and times are those of today's calendar, and
# the branches of a union are called as their types are.
_OPTIONS = {
    "mode": "PERMISSIVE",
    "datetimeRebaseMode": "CORRECTED",
    "enableStableIdentifiersForUnionType": "true",
    "stableIdentifierPrefixForUnionType": "",
}


@dataclass(frozen=True)
class Writer:
    """A schema that messages were written with: its id in frames, words for it, and how it is read.

    Plain messages have one, without an id.
    """

    id: str | None
    words: str
    resolution: Resolution


@dataclass(frozen=True)
class AvroReading:
    """`kind` is the type of all that is read, in Spark's words."""

    schema: Schema
    kind: str
    writers: tuple[Writer, ...]
    part: Part = Part.VALUE
    frames: Frames | None = None
    scalar: bool = False
    name: str = "Avro"

    def register(self, spark: SparkSession) -> None:
        if self.frames is not None:
            self.frames.register(spark)

    def steps(self, source: str, prefix: str) -> Steps:
        if self.frames is None:
            return ((_decoded(prefix), self._read(source, source)),)
        before = self.frames.steps(source, prefix)
        return (*before, (_decoded(prefix), self._read(source, self.frames.payload(prefix))))

    def fault(self, source: str, prefix: str) -> str:
        avro = _decoded(prefix)
        found = [f"WHEN NOT {avro}.{MARK} <=> {MARK_NUMBER} THEN 'NOT_AVRO'"]
        missing = " OR ".join(
            f"{self._column(avro, name)} IS NULL" for name in self.schema.required
        )
        if missing:
            found.append(f"WHEN {missing} THEN 'MISSING_FIELD'")
        own = f"CASE {' '.join(found)} END"
        return own if self.frames is None else self.frames.fault(source, own, prefix)

    def row(self, prefix: str) -> str:
        value = f"{_decoded(prefix)}.{VALUE}"
        return f"named_struct({literal(self.schema.names[0])}, {value})" if self.scalar else value

    def reason(self, code: str, source: str) -> str:
        sentences = {
            **(self.frames.sentences(source) if self.frames is not None else {}),
            "NOT_AVRO": self._not_avro(source),
            "MISSING_FIELD": self._missing(source),
        }
        return cases(code, sentences)

    def _column(self, avro: str, name: str) -> str:
        return f"{avro}.{VALUE}" if self.scalar else f"{avro}.{VALUE}.{quote(name)}"

    def _read(self, source: str, payload: str) -> str:
        """SQL for what is read of a payload, by the schema that the frame around it names."""
        marked = f"concat({payload}, {hexadecimal(MARK_BYTES)})"
        return self._by_writer(
            source, [_from_avro(marked, each.resolution) for each in self.writers], self.kind
        )

    def _by_writer(self, source: str, sql: list[str], kind: str) -> str:
        if self.frames is None:
            (only,) = sql
            return only
        whens = " ".join(
            f"WHEN {self.frames.has(source, writer.id or '')} THEN {each}"
            for writer, each in zip(self.writers, sql, strict=True)
        )
        return f"CASE {whens} END" if whens else f"CAST(NULL AS {kind})"

    def _not_avro(self, source: str) -> str:
        words = [
            literal(f"the {self.part} is not one message of Avro by {each.words}")
            for each in self.writers
        ]
        return self._by_writer(source, words, "STRING")

    def _missing(self, source: str) -> str:
        """It is read once more, which is done for bad messages only."""
        if not self.schema.required:
            return "'a field is missing'"
        payload = source
        if self.frames is not None:
            ((_, payload),) = self.frames.steps(source, "")
        names = ", ".join(
            f"IF({self._column('found', name)} IS NULL, {literal(name)}, NULL)"
            for name in self.schema.required
        )
        # An array of one, as a name for what is read once and looked at several times.
        return (
            f"concat('without a value for: ', transform(array({self._read(source, payload)}), "
            f"found -> concat_ws(', ', {names}))[0])"
        )


def _decoded(prefix: str) -> str:
    return f"{prefix}avro"


def _from_avro(payload: str, resolution: Resolution) -> str:
    options = {"avroSchema": resolution.reader, **_OPTIONS}
    pairs = ", ".join(f"'{name}', {literal(value)}" for name, value in options.items())
    read = f"from_avro({payload}, {literal(resolution.writer)}, map({pairs}))"
    if resolution.found == resolution.target:
        return read
    return f"CAST({read} AS {resolution.target.ddl})"
