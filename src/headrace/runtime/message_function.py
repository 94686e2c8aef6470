"""What a Spark task does for a `python_rows` step: Arrow batches in, Arrow batches out.

Rows come as the column `data` (a struct of the row's columns, or the bytes of a raw record), with
`metadata` where the source includes it and with the hidden column where it is carried. Lists of
messages are made of them, the author's function is called, and what it returns becomes `data` and
the hidden column again. A list holds messages of one topic and partition, in their order. A VARIANT
comes and goes as the text of its JSON, and is a plain value to the function.

Runs in Python workers, which may be on other machines: it is pickled by value, so that a worker
needs no Headrace. Nothing here may call other parts of it, except what is pickled in the same way.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.formats.carried import COLUMN, DELETES, PYTHON_ERROR
from headrace.runtime.failures import STEP_FAILED
from headrace.runtime.modules import Modules

if TYPE_CHECKING:
    import pyarrow as pa

DATA = "data"
METADATA = "metadata"
VARIANT = "variant"
_LONGEST = 300  # characters of a value or a reason that are told

Messages = list[Any]


class StepStopped(Exception):
    """The function is at fault and no record is; its text is what the driver looks for."""


class Misfit(Exception):
    """A message that came back and is no row of the declared columns."""


class NotAList(Exception):
    """The function returned something else than messages."""


@dataclass(frozen=True)
class Target:
    """What must come back. `columns` have their types as SQL names them; the `required` ones must
    have a value.
    """

    type: pa.StructType
    columns: dict[str, str]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class MessageFunction:
    """A step as a worker needs it. `path` is `module.name`; `size` the most messages of a list.

    The columns `variants` are JSON when they come.
    """

    step: str
    path: str
    modules: Modules
    size: int
    target: Target
    variants: frozenset[str] = frozenset()

    def task(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """For `mapInArrow`, which wants a plain function."""

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            call = _Call(self, _callable(self.modules, self.path))
            for kind, rows in lists(batches, self.size):
                yield call.passed_by(rows) if kind is None else call.made_of(rows)

        return run


def _callable(modules: Modules, path: str) -> Callable[[Messages], object]:
    """The function; of a class, an object that lives as long as the task."""
    found: Any = modules.load(path)
    return found() if isinstance(found, type) else found  # type: ignore[no-any-return]


# Lists


Place = tuple[str | None, int | None]


def lists(
    batches: Iterator[pa.RecordBatch], size: int
) -> Iterator[tuple[Place | None, pa.RecordBatch]]:
    """Rows in lists of at most `size` of one place; rows that are no values come with None.

    A tombstone ends a list: put before or after values of its key, it would delete other ones.
    """
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    place: Place = (None, None)

    def whole() -> Iterator[tuple[Place, pa.RecordBatch]]:
        if waiting:
            yield place, pa.concat_batches(waiting)
            waiting.clear()

    for batch in batches:
        for (error, at), rows in _runs(batch):
            if at != place or error in DELETES:
                yield from whole()
            if error is not None:
                yield None, rows
                continue
            place = at
            while rows.num_rows:
                room = size - sum(part.num_rows for part in waiting)
                waiting.append(rows.slice(0, room))
                rows = rows.slice(room)
                if waiting[-1].num_rows == room:
                    yield from whole()
    yield from whole()


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str | None, Place], pa.RecordBatch]]:
    """Rows that follow each other with the same error and from the same place."""
    if COLUMN not in batch.schema.names:
        yield (None, (None, None)), batch
        return
    hidden = batch.column(COLUMN)
    facts = zip(*(_field(hidden, name).to_pylist() for name in _PLACE), strict=True)
    start = 0
    for (error, *place), run in itertools.groupby(facts):
        count = sum(1 for _ in run)
        yield (error, (place[0], place[1])), batch.slice(start, count)
        start += count


_PLACE = ("error", "topic", "partition")


def _field(struct: pa.StructArray, name: str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.struct_field(struct, name)


# Calls


@dataclass(frozen=True)
class _Call:
    """One task's calls of the function."""

    step: MessageFunction
    function: Callable[[Messages], object]

    def passed_by(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        return _batch(pa.nulls(rows.num_rows, self.step.target.type), rows.column(COLUMN))

    def made_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the function makes of a list. It is tried whole, and only when that fails
        message by message, to find those that it fails for.
        """
        try:
            made = self._make(rows)
        except NotAList as error:
            raise self._stopped(f"{self.step.path} {error}") from error
        except Exception as error:
            return self._one_by_one(rows, error)
        return _batch(made, _origins(rows, len(made)))

    def _make(self, rows: pa.RecordBatch) -> pa.StructArray:
        # Made anew from Arrow each time: the function may change the messages that it gets.
        given = messages(rows, self.step.variants)
        return fitted(_listed(self.function(given)), self.step.target)

    def _one_by_one(self, rows: pa.RecordBatch, whole: Exception) -> pa.RecordBatch:
        import pyarrow as pa

        made = []
        failed = 0
        for row in (rows.slice(number, 1) for number in range(rows.num_rows)):
            try:
                # A list of one has failed already; trying it again might end otherwise.
                alone = self._make(row) if rows.num_rows > 1 else _raise(whole)
            except Exception as error:
                failed += 1
                made.append(self._bad(row, self._reason(error)))
            else:
                made.append(_batch(alone, _repeated(row, len(alone))))
        if not failed:
            raise self._stopped(
                f"{self._reason(whole)}, with a list of {rows.num_rows} messages{_where(rows)}, "
                "and not with any of them alone"
            ) from whole
        return pa.concat_batches(made)

    def _bad(self, row: pa.RecordBatch, reason: str) -> pa.RecordBatch:
        """The row as a bad record; without a hidden column there is no way to put it aside."""
        import pyarrow as pa

        if COLUMN not in row.schema.names:
            shown = _short(_told(row))
            raise self._stopped(f"{reason}, with the message {shown}")
        found = row.column(COLUMN)[0].as_py()
        found |= {"error": PYTHON_ERROR, "message": reason}
        if found["offset"] is None and found["value"] is None:
            # Which record it came from is not known, so the message itself is what can be kept.
            found["value"] = _told(row).encode()
        hidden = pa.array([found], type=row.schema.field(COLUMN).type)
        return _batch(pa.nulls(1, self.step.target.type), hidden)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, Misfit | NotAList):
            return f"{self.step.path} {error}"
        line = next(iter(str(error).strip().splitlines()), "")
        said = f": {_short(line)}" if line else ""
        return f"{self.step.path} raised {type(error).__name__}{said}"

    def _stopped(self, reason: str) -> StepStopped:
        facts = {"step": self.step.step, "reason": reason}
        return StepStopped(STEP_FAILED + json.dumps(facts))


def _raise(error: Exception) -> pa.StructArray:
    raise error


def _batch(data: pa.Array, hidden: pa.Array | None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = {DATA: data} if hidden is None else {DATA: data, COLUMN: hidden}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _origins(rows: pa.RecordBatch, count: int) -> pa.Array | None:
    """Where what came back is from: as many as went in are taken as one for one; of others only
    the topic and partition are known.
    """
    import pyarrow as pa

    if COLUMN not in rows.schema.names:
        return None
    hidden = rows.column(COLUMN)
    if count == rows.num_rows:
        return hidden
    first = hidden[0].as_py()
    known = {name: first[name] if name in _PLACE else None for name in first}
    return pa.array([known] * count, type=hidden.type)


def _repeated(row: pa.RecordBatch, count: int) -> pa.Array | None:
    if COLUMN not in row.schema.names:
        return None
    return row.column(COLUMN).take([0] * count)


def _where(rows: pa.RecordBatch) -> str:
    if COLUMN not in rows.schema.names:
        return ""
    first, last = (rows.column(COLUMN)[at].as_py() for at in (0, -1))
    return f" ({first['topic']}[{first['partition']}]@{first['offset']} to {last['offset']})"


def _told(row: pa.RecordBatch) -> str:
    return json.dumps(messages(row)[0], default=str, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# Messages


def messages(rows: pa.RecordBatch, variants: frozenset[str] = frozenset()) -> Messages:
    """Plain Python values of the rows, with their metadata where there is some."""
    data = _values(rows.column(DATA), variants)
    if METADATA not in rows.schema.names:
        return data
    metadata = rows.column(METADATA).to_pylist()
    return [{DATA: row, METADATA: facts} for row, facts in zip(data, metadata, strict=True)]


def _values(data: pa.Array, variants: frozenset[str]) -> Messages:
    """Column by column, which takes a fraction of the time that structs take."""
    import pyarrow.types as types

    if not types.is_struct(data.type):
        return data.to_pylist()  # type: ignore[no-any-return]
    names = [field.name for field in data.type]
    columns = (
        [None if text is None else json.loads(text) for text in column.to_pylist()]
        if name in variants
        else _plain(column)
        for name, column in zip(names, data.flatten(), strict=True)
    )
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(column: pa.Array) -> list[Any]:
    # To ask for dicts costs something also where there are no maps.
    maps = "strict" if "map<" in str(column.type) else None
    return column.to_pylist(maps_as_pydicts=maps)  # type: ignore[no-any-return]


def _listed(returned: object) -> Messages:
    if isinstance(returned, Iterator | list | tuple):
        return list(returned)
    raise NotAList(f"returned {type(returned).__name__}, and must return a list of messages")


def fitted(returned: Messages, target: Target) -> pa.StructArray:
    """The messages as rows of the target; a Misfit names the first that is none, and its field."""
    import pyarrow as pa

    rows = [_row(each, target) for each in returned]
    columns = [
        _column(field, [row.get(field.name) for row in rows], target) for field in target.type
    ]
    return pa.StructArray.from_arrays(columns, fields=list(target.type))


_WRAPPED = {DATA, METADATA}


def _row(message: object, target: Target) -> dict[str, Any]:
    names = target.columns.keys()
    if isinstance(message, dict) and message.keys() == _WRAPPED and METADATA not in names:
        message = message[DATA]
    if isinstance(message, bytes | bytearray):
        message = {"value": message}
    if not isinstance(message, dict):
        raise Misfit(f"returned a message that is {type(message).__name__}, and must be a dict")
    if not message.keys() <= names:
        unknown = next(name for name in message if name not in names)
        columns = ", ".join(names)
        raise Misfit(f"returned the field `{unknown}`, which is not one of the columns {columns}")
    missing = next((name for name in target.required if message.get(name) is None), None)
    if missing is not None:
        raise Misfit(f"returned a message without a value for `{missing}`")
    return message


def _column(field: pa.Field, values: list[Any], target: Target) -> pa.Array:
    try:
        return _array(field, values, target)
    except _ARROW_REFUSES:
        for value in values:
            _refuse(field, value, target)
        raise


def _refuse(field: pa.Field, value: object, target: Target) -> None:
    try:
        _array(field, [value], target)
    except _ARROW_REFUSES as error:
        shown, kind = _short(repr(value)), target.columns[field.name]
        raise Misfit(f"returned `{field.name}` = {shown}, which is no {kind}") from error


# Arrow's own errors are of these, too.
_ARROW_REFUSES = (ValueError, TypeError, OverflowError, AttributeError)


def _array(field: pa.Field, values: list[Any], target: Target) -> pa.Array:
    import pyarrow as pa

    strict = _json if target.columns[field.name] == VARIANT else _strict(field.type)
    return pa.array([strict(value) for value in values] if strict else values, type=field.type)


Check = Callable[[Any], Any]


def _strict(kind: pa.DataType) -> Check | None:
    """What to ask of a value before Arrow gets it, which would take some that lose something:
    1.5 as a whole number, a number as microseconds, a dict with more fields than there are.
    """
    import pyarrow.types as types

    if types.is_integer(kind):
        return _whole
    if types.is_timestamp(kind) or types.is_date(kind):
        return _time
    if types.is_struct(kind):
        inside = {field.name: _strict(field.type) for field in kind}
        return lambda value: _checked_struct(value, inside)
    if types.is_list(kind):
        return _each(_strict(kind.value_type), lambda check, items: [check(item) for item in items])
    if types.is_map(kind):
        return _each(
            _strict(kind.item_type),
            lambda check, items: {name: check(item) for name, item in dict(items).items()},
        )
    return None


def _each(check: Check | None, inside: Callable[[Check, Any], Any]) -> Check | None:
    if check is None:
        return None
    return lambda value: None if value is None else inside(check, value)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, allow_nan=False)


def _whole(value: Any) -> Any:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return value


def _time(value: Any) -> Any:
    if value is not None and not isinstance(value, datetime.date):
        raise TypeError(value)
    return value


def _checked_struct(value: Any, inside: dict[str, Check | None]) -> Any:
    if value is None:
        return None
    unknown = set(value) - inside.keys()
    if unknown:
        raise ValueError(unknown)
    return {
        name: check(value.get(name)) if check else value.get(name) for name, check in inside.items()
    }
