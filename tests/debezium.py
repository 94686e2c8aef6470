"""Messages as Debezium writes them, for tests: the key and the value of a change, in its JSON.

The shapes are those that its documentation shows for PostgreSQL and MySQL, with the defaults of its
connectors: days, microseconds and milliseconds as numbers, decimals as bytes with a scale.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

Row = Mapping[str, Any]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Field:
    """A column as a Connect schema describes it."""

    type: str
    name: str | None = None
    scale: int | None = None

    def described(self, field: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.type, "optional": True, "field": field}
        if self.name is not None:
            made |= {"name": self.name, "version": 1}
        if self.scale is not None:
            made["parameters"] = {"scale": str(self.scale), "connect.decimal.precision": "10"}
        return made

    def encoded(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return decimal_text(value, self.scale or 0)
        if isinstance(value, datetime.datetime):
            return self._time(value)
        if isinstance(value, datetime.date):
            return (value - _EPOCH.date()).days
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value

    def _time(self, value: datetime.datetime) -> Any:
        if self.name == "io.debezium.time.ZonedTimestamp":
            return value.isoformat().replace("+00:00", "Z")
        micros = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        return micros // 1000 if self.name == "io.debezium.time.Timestamp" else micros


def decimal_text(value: Decimal, scale: int) -> str:
    """The unscaled number as the fewest bytes that hold it, as Java has them, in base64."""
    with localcontext(prec=60):
        whole = int(value.scaleb(scale))
    size = (whole + (whole < 0)).bit_length() // 8 + 1
    return base64.b64encode(whole.to_bytes(size, "big", signed=True)).decode()


@dataclass
class Log:
    """The changes of one table, in order; each gets the next place in the database's log."""

    fields: dict[str, Field]
    keys: tuple[str, ...] = ("id",)
    connector: str = "postgresql"
    wrapped: bool = False
    whole_before: bool = False
    position: int = field(default=24_023_128)

    def change(self, op: str, before: Row | None, after: Row | None) -> tuple[bytes, bytes]:
        """Key and value of one change."""
        self.position += 16
        key = {name: (after or before or {})[name] for name in self.keys}
        if before is not None and not self.whole_before:
            # As with REPLICA IDENTITY DEFAULT: nothing of an update, the key of a deletion.
            old = dict.fromkeys(self.fields) | {name: before[name] for name in self.keys}
            before = old if op == "d" else None
        value = {
            "before": self._row(before),
            "after": self._row(after),
            "source": self._source("true" if op == "r" else "false"),
            "transaction": None,
            "op": op,
            "ts_ms": 1_772_445_600_500,
        }
        return self.encoded(self._row(key), value)

    def encoded(self, key: Any, value: Any) -> tuple[bytes, bytes]:
        if not self.wrapped:
            return _json(key), _json(value)
        described = [self.fields[name].described(name) for name in self.keys]
        outer = {"type": "struct", "fields": described, "name": "shop.public.orders.Key"}
        return (
            _json({"schema": outer, "payload": key}),
            _json({"schema": self._schema(), "payload": value}),
        )

    def insert(self, row: Row) -> Iterator[tuple[bytes, bytes | None]]:
        yield self.change("c", None, row)

    def update(self, before: Row, after: Row) -> Iterator[tuple[bytes, bytes | None]]:
        """One of the key is told as a deletion and an insertion."""
        if [before[name] for name in self.keys] == [after[name] for name in self.keys]:
            yield self.change("u", before, after)
        else:
            yield from self.delete(before)
            yield from self.insert(after)

    def delete(self, row: Row) -> Iterator[tuple[bytes, bytes | None]]:
        key, value = self.change("d", row, None)
        yield key, value
        yield key, None

    def _row(self, row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {name: self.fields[name].encoded(value) for name, value in row.items()}

    def _source(self, snapshot: str) -> dict[str, Any]:
        source: dict[str, Any] = {
            "version": "3.0.0.Final",
            "connector": self.connector,
            "name": "shop",
            "ts_ms": 1_772_445_600_000 + self.position,
            "snapshot": snapshot,
            "db": "shop",
        }
        if self.connector == "mysql":
            binlog = {"file": "mysql-bin.000003", "pos": self.position, "row": 0, "gtid": None}
            return source | {"table": "orders", "server_id": 223344, **binlog}
        sequence = json.dumps([str(self.position - 16), str(self.position)])
        place = {"txId": 556, "lsn": self.position, "xmin": None, "sequence": sequence}
        return source | {"schema": "public", "table": "orders", **place}

    def _schema(self) -> dict[str, Any]:
        row = [column.described(name) for name, column in self.fields.items()]
        images = [
            {"type": "struct", "fields": row, "optional": True, "name": "Value", "field": image}
            for image in ("before", "after")
        ]
        rest = [
            {"type": "struct", "fields": [], "optional": False, "field": "source"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ]
        name = "shop.public.orders.Envelope"
        return {"type": "struct", "fields": [*images, *rest], "optional": False, "name": name}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def envelope_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """Avro's schema of the changes of a table, as Connect makes it of Debezium's."""
    row = [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})}
        for name, kind in fields.items()
    ]
    value = {"type": "record", "name": "Value", "fields": row, "connect.name": "shop.orders.Value"}
    source = [
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["null", "string"], "default": None},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": "shop.public.orders.Envelope",
    }
