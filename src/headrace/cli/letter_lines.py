"""How dead letters, and what became of them, are printed: as lines for people, or as values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.admin import times
from headrace.admin.letters import Letter
from headrace.admin.letters_moved import Moved
from headrace.cli import output, record_lines
from headrace.cli.output import Format, counted

if TYPE_CHECKING:
    from headrace.runtime.redrive import Outcome

SHOWN_VALUE = 2_000
PROGRESS_SECONDS = 1.0


def when(time_ms: int | None) -> str | None:
    return None if time_ms is None else times.show(time_ms)


def emit(found: Sequence[Letter], moved: Moved, form: Format) -> None:
    if form is not Format.TABLE:
        output.emit_value([_fields(each, each.at in moved) for each in found], form)
        return
    for each in found:
        for line in _lines(each, each.at in moved):
            output.line(line)


def _fields(letter: Letter, redriven: bool) -> dict[str, Any]:
    record = record_lines.to_fields(replace(letter.record, headers=letter.headers))
    return {
        "error": letter.error,
        "message": letter.message,
        "pipeline": letter.pipeline,
        "source": None
        if letter.topic is None
        else {
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
        },
        "attempts": letter.attempts,
        "redriven": redriven,
        **record,
    }


def _lines(letter: Letter, redriven: bool) -> Iterator[str]:
    facts = [
        letter.place,
        letter.error or "no letter of ours",
        f"from {letter.source_place}" if letter.topic else "",
        when(letter.record.timestamp) or "",
        f"attempts {letter.attempts}",
        "redriven" if redriven else "",
    ]
    yield "  ".join(output.printable(fact) for fact in facts if fact)
    if letter.message:
        yield f"  reason   {output.printable(letter.message)}"
    yield f"  key      {text_of(letter.record.key)}"
    for name, value in letter.headers:
        yield f"  header   {output.printable(name)}={text_of(value)}"
    yield f"  value    {text_of(letter.record.value)}"


def text_of(data: bytes | None) -> str:
    """Bytes in one line; those that are no text as `\\xff`, and not more than fit a screen."""
    if data is None:
        return "null"
    text = output.printable(data[:SHOWN_VALUE].decode(errors="backslashreplace"))
    return text if len(data) <= SHOWN_VALUE else f"{text}… ({len(data):,} bytes; whole: -o json)"


def emit_outcome(outcome: Outcome, form: Format) -> None:
    rows: list[dict[str, Any]] = [
        {"outcome": "moved", "letters": count, "detail": topic}
        for topic, count in outcome.moved.items()
    ]
    rows += [
        {"outcome": "left", "letters": count, "detail": str(reason)}
        for reason, count in outcome.left.items()
    ]
    if outcome.before:
        rows.append({"outcome": "moved earlier", "letters": outcome.before, "detail": None})
    output.emit_rows(rows, ["outcome", "letters", "detail"], form)
    note_left(outcome)


def note_left(outcome: Outcome) -> None:
    for stay in outcome.examples:
        output.note(f"left: {stay}")
    rest = outcome.left.total() - len(outcome.examples)
    if rest > 0:
        output.note(f"left: and {counted(rest, 'more letter')}")


@contextmanager
def progress() -> Iterator[Callable[[Outcome], None]]:
    """A line a second at most, drawn over the last one on a terminal."""
    began = last = time.monotonic()
    with output.stderr.status("moving letters …") as status:

        def listen(outcome: Outcome) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < PROGRESS_SECONDS:
                return
            last = now
            moved, left = outcome.moved.total(), outcome.left.total()
            text = f"moved {moved:,}  left {left:,}  {moved / (now - began):,.0f}/s"
            status.update(text) if output.stderr.is_terminal else output.note(text)

        yield listen
