"""Windows in few words: `tumble(size)`, `hop(slide, size)`, `session(gap)`, as Spark's `window`.

The time that they leave out is the column of the watermark of the table that is read.
"""

from __future__ import annotations

from headrace.frontend.sql.editor import Editor
from headrace.frontend.sql.intervals import whole_duration
from headrace.frontend.sql.tokens import Sort, value
from headrace.model.schema import literal
from headrace.spec import nearest

_LENGTHS = {"TUMBLE": 1, "HOP": 2, "SESSION": 1}
_FORMS = {
    "TUMBLE": "write `tumble(INTERVAL '1 minute')`",
    "HOP": "write `hop(INTERVAL '10 seconds', INTERVAL '1 minute')`, the slide first",
    "SESSION": "write `session(INTERVAL '5 minutes')`",
}
# What each of them is called elsewhere, and by itself.
_NAMES = {
    **dict.fromkeys(("tumble", "tumbling", "tumble_window", "tumbling_window"), "tumble"),
    **dict.fromkeys(("hop", "hopping", "hop_window", "hopping_window"), "hop"),
    **dict.fromkeys(("slide", "sliding", "sliding_window"), "hop"),
    **dict.fromkeys(("session", "sessions"), "session"),
}


def spark_window(editor: Editor, at: int) -> None:
    """Spark's own windows take texts, and no intervals."""
    if not editor.is_call(at):
        return
    for argument in editor.arguments(at + 1)[1:]:
        if editor.key(argument.start) == "INTERVAL":
            editor.replace(argument.start, argument[-1], literal(_length(editor, argument)))


def short_window(editor: Editor, at: int) -> None:
    """`tumble(…)` and its like, with or without a time before the lengths."""
    if not editor.is_call(at):
        return
    token = editor.tokens[at]
    arguments = editor.arguments(at + 1)
    _refuse_in_from(editor, at, arguments)
    lengths = [argument for argument in arguments if _is_length(editor, argument)]
    timed = arguments[: len(arguments) - _LENGTHS[token.key]]
    if len(timed) > 1 or [*timed, *lengths] != arguments or len(lengths) != _LENGTHS[token.key]:
        message = f"`{token.text}` does not take these arguments"
        raise editor.cursor.fault(message, token, _FORMS[token.key], code="BAD_WINDOW")
    texts = [literal(_length(editor, length)) for length in lengths]
    if token.key == "HOP":
        texts.reverse()
    written = ", ".join(texts if timed else [_time(editor, at), *texts])
    editor.replace(at, at, "session_window" if token.key == "SESSION" else "window")
    editor.replace(lengths[0].start, lengths[-1][-1], written)


def other_window(editor: Editor, at: int) -> None:
    """A call with nothing but intervals, of a function whose name is nearly that of a window."""
    token = editor.tokens[at]
    arguments = editor.arguments(at + 1)
    if not arguments or any(editor.key(each.start) != "INTERVAL" for each in arguments):
        return
    close = nearest(token.text, _NAMES)
    if close:
        right = _NAMES[close[0]]
        message = f"`{token.text}` is not a function of windows"
        hint = f"did you mean `{right}`? {_FORMS[right.upper()]}"
        raise editor.cursor.fault(message, token, hint, code="UNKNOWN_FUNCTION")


def _is_length(editor: Editor, argument: range) -> bool:
    is_text = len(argument) == 1 and editor.sort(argument.start) is Sort.TEXT
    return is_text or editor.key(argument.start) == "INTERVAL"


def _length(editor: Editor, argument: range) -> str:
    """The duration that an argument is, as a text for Spark."""
    first = editor.tokens[argument.start]
    if first.sort is Sort.TEXT:
        return value(first)[0]
    interval = editor.interval(argument.start)
    if editor.cursor.at != argument.stop:
        raise editor.cursor.expected([",", ")"], "after the length of a window")
    whole_duration(interval, editor.cursor, first, "the length of a window")
    if not interval.micros:
        message, hint = "a window cannot be empty", "for example INTERVAL '1 minute'"
        raise editor.cursor.fault(message, first, hint, code="BAD_INTERVAL")
    return interval.spark


def _refuse_in_from(editor: Editor, at: int, arguments: list[range]) -> None:
    """Flink's `TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), …))`."""
    is_table = any(editor.key(each.start) in ("TABLE", "DESCRIPTOR") for each in arguments)
    if is_table or editor.scopes.clauses[at] == "FROM":
        token = editor.tokens[at]
        message = f"`{token.text}` stands in GROUP BY, and not in FROM"
        raise editor.cursor.fault(message, token, _FORMS[token.key], code="BAD_WINDOW")


def _time(editor: Editor, at: int) -> str:
    """The column of the watermark of what is read here."""
    token = editor.tokens[at]
    found = editor.scopes.times_at(at, editor.times)
    if len(found) == 1:
        return found[0]
    form = f"`{token.text}({found[0] if found else 'at'}, …)`"
    if found:
        message = f"`{token.text}` may be of {' or '.join(f'`{each}`' for each in found)}"
        raise editor.cursor.fault(message, token, f"name the time: {form}", code="BAD_WINDOW")
    tables = editor.scopes.tables_at(at)
    what, hint = "what it reads passes none on", "select the column of the watermark there, too"
    if tables:
        what = f"{' and '.join(f'`{each}`' for each in tables)} has no watermark"
        hint = "add `WATERMARK FOR column` to the columns of the table"
    message, hint = f"`{token.text}` needs a time, and {what}", f"{hint}; or name the time: {form}"
    raise editor.cursor.fault(message, token, hint, code="NO_WATERMARK")
