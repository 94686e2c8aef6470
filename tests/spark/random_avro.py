"""Random schemas of Avro, with values as fastavro takes them and as Spark should give them."""

from __future__ import annotations

import datetime
import io
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import fastavro

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NAMES = ("id", "Name", "select", "from", "order", "amount_1", "_x", "type", "data", "value", "mark")


@dataclass(frozen=True)
class Made:
    """A schema, and what makes a value of it: what fastavro takes, and what Spark should give."""

    schema: Any
    value: Callable[[], tuple[Any, Any]]


@dataclass(frozen=True)
class Sample:
    """Messages of one schema: their bytes, and the rows that they are."""

    schema: str
    messages: list[bytes]
    rows: list[dict[str, Any]]


def sample(seed: int, fields: int, records: int) -> Sample:
    made = Maker(Random(seed)).record(depth=3, size=fields)
    parsed = fastavro.parse_schema(json.loads(json.dumps(made.schema)))
    values = [made.value() for _ in range(records)]
    messages = [encoded(parsed, value) for value, _ in values]
    return Sample(json.dumps(made.schema), messages, [row for _, row in values])


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


class Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"Named{self.count}"

    def record(self, depth: int, size: int | None = None) -> Made:
        count = size or self.random.randint(1, 4)
        names = [*self.random.sample(NAMES, min(count, len(NAMES)))]
        names += [f"field_{number}" for number in range(count - len(names))]
        fields = {name: self.any(depth - 1) for name in names}
        schema = {
            "type": "record",
            "name": self.name(),
            "namespace": self.random.choice(("", "shop", "shop.orders")),
            "fields": [{"name": name, "type": made.schema} for name, made in fields.items()],
        }

        def value() -> tuple[Any, Any]:
            values = {name: made.value() for name, made in fields.items()}
            theirs = {name: both[0] for name, both in values.items()}
            return theirs, {name: both[1] for name, both in values.items()}

        return Made(schema, value)

    def any(self, depth: int) -> Made:
        nested = [self.array, self.map, self.record, self.nullable, self.several] if depth else []
        if nested and self.random.random() < 0.45:
            return self.random.choice(nested)(depth)
        return self.leaf()

    def leaf(self) -> Made:
        return self.random.choice(
            (
                self.plain,
                self.text,
                self.decimal,
                self.fixed,
                self.enum,
                self.time,
                self.stored,
            )
        )()

    def plain(self) -> Made:
        random = self.random
        name, value = random.choice(
            [
                ("boolean", lambda: random.random() < 0.5),
                ("int", lambda: self.whole(31)),
                ("long", lambda: self.whole(63)),
                ("float", lambda: _single(random.uniform(-1e30, 1e30))),
                ("double", lambda: random.choice((0.0, -0.0, 5e-324, random.uniform(-1e9, 1e9)))),
                ("bytes", lambda: random.randbytes(random.randint(0, 9))),
            ]
        )
        return _same(name, value)

    def whole(self, bits: int) -> int:
        shift = self.random.randint(0, bits)
        return self.random.choice((-1, 0)) ^ (self.random.getrandbits(bits) >> shift)

    def text(self) -> Made:
        random = self.random
        if random.random() < 0.2:
            schema = {"type": "string", "logicalType": "uuid"}
            return Made(schema, lambda: (both := str(uuid.UUID(int=random.getrandbits(128))), both))
        letters = "aZ0 é€🦊\n\"'\\"
        return _same("string", lambda: "".join(random.choices(letters, k=random.randint(0, 8))))

    def decimal(self) -> Made:
        precision = self.random.randint(1, 38)
        scale = self.random.randint(0, precision)
        kind = {"logicalType": "decimal", "precision": precision, "scale": scale}
        schema = {"type": "bytes", **kind}
        if self.random.random() < 0.5:
            schema = {"type": "fixed", "name": self.name(), "size": 16, **kind}

        def value() -> Decimal:
            digits = self.random.randint(0, 10 ** self.random.randint(0, precision) - 1)
            # fastavro writes -128 in two bytes, Java in one; both are right.
            negative = self.random.random() < 0.5 and digits.bit_count() != 1
            return Decimal(-digits if negative else digits).scaleb(-scale)

        return _same(schema, value)

    def fixed(self) -> Made:
        size = self.random.choice((0, 1, 12, 16))
        schema = {"type": "fixed", "name": self.name(), "size": size}
        if size == 12:
            schema["logicalType"] = "duration"
        return _same(schema, lambda: self.random.randbytes(size))

    def enum(self) -> Made:
        symbols = [f"S{number}" for number in range(self.random.randint(1, 5))]
        schema = {"type": "enum", "name": f"enums.{self.name()}", "symbols": symbols}
        return _same(schema, lambda: self.random.choice(symbols))

    def time(self) -> Made:
        unit, per_second = self.random.choice((("millis", 1000), ("micros", 1_000_000)))
        local = self.random.random() < 0.5
        if self.random.random() < 0.3:
            days = {"type": "int", "logicalType": "date"}
            first = datetime.date(1970, 1, 1)

            def date() -> tuple[Any, Any]:
                number = self.random.randint(-700_000, 2_900_000)
                return number, first + datetime.timedelta(days=number)

            return Made(days, date)
        schema = {"type": "long", "logicalType": f"{'local-' if local else ''}timestamp-{unit}"}

        def moment() -> tuple[Any, Any]:
            number = self.random.randint(-2_000_000_000, 4_000_000_000) * per_second
            number += self.random.randrange(per_second)
            micros = number * (1_000_000 // per_second)
            at = EPOCH + datetime.timedelta(microseconds=micros)
            return number, at.replace(tzinfo=None) if local else _as_collected(at)

        return Made(schema, moment)

    def stored(self) -> Made:
        """Logical types that stay what they are stored as."""
        name, logical, most = self.random.choice(
            (
                ("int", "time-millis", 86_400_000),
                ("long", "time-micros", 86_400_000_000),
                ("long", "timestamp-nanos", 10**18),
                ("int", "of-our-own", 100),
            )
        )
        schema = {"type": name, "logicalType": logical}
        return _same(schema, lambda: self.random.randrange(most))

    def array(self, depth: int) -> Made:
        made = self.any(depth - 1)

        def value() -> tuple[Any, Any]:
            values = [made.value() for _ in range(self.random.randint(0, 3))]
            return [one for one, _ in values], [other for _, other in values]

        return Made({"type": "array", "items": made.schema}, value)

    def map(self, depth: int) -> Made:
        """Of at most one entry, as the order of more is not given."""
        made = self.any(depth - 1)

        def value() -> tuple[Any, Any]:
            if self.random.random() < 0.3:
                return {}, {}
            theirs, row = made.value()
            return {"k é": theirs}, {"k é": row}

        return Made({"type": "map", "values": made.schema}, value)

    def nullable(self, depth: int) -> Made:
        named = self.random.random() < 0.5
        made = self.record(depth - 1) if named else self.leaf()
        schema = ["null", made.schema] if self.random.random() < 0.7 else [made.schema, "null"]

        def value() -> tuple[Any, Any]:
            if self.random.random() < 0.3:
                return None, None
            theirs, row = made.value()
            return (_full(made.schema), theirs) if named else theirs, row

        return Made(schema, value)

    def several(self, depth: int) -> Made:
        """A union of several types, whose values fastavro takes with their names."""
        record, enum = self.record(max(depth - 1, 1)), self.enum()
        text = _same("string", lambda: self.random.choice(("", "text")))
        number = _same("long", lambda: self.whole(63))
        branches = {
            _full(record.schema): record,
            _full(enum.schema): enum,
            "string": text,
            "long": number,
        }
        chosen = self.random.sample(list(branches), self.random.randint(2, 4))
        empty = self.random.random() < 0.5
        schema = [*(["null"] if empty else []), *(branches[name].schema for name in chosen)]

        def value() -> tuple[Any, Any]:
            if empty and self.random.random() < 0.3:
                return None, None
            name = self.random.choice(chosen)
            theirs, row = branches[name].value()
            nothing = {each.rpartition(".")[2]: None for each in chosen}
            return (name, theirs), {**nothing, name.rpartition(".")[2]: row}

        return Made(schema, value)


def _same(schema: Any, value: Callable[[], Any]) -> Made:
    return Made(schema, lambda: (both := value(), both))


def _full(schema: dict[str, Any]) -> str:
    return ".".join(part for part in (schema.get("namespace"), schema["name"]) if part)


def _single(number: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def _as_collected(moment: datetime.datetime) -> datetime.datetime:
    """A time as PySpark gives it to Python: on the clock of this machine."""
    return moment.astimezone().replace(tzinfo=None)
