"""The interactive shell of `headrace sql`, on prompt_toolkit.

A statement ends at its `;`, over as many lines as it takes; what begins with a backslash is a
command of the shell itself. The history is in `.headrace/sql_history`, without the values of
secrets. Ctrl-C clears what is being typed or stops what is being done, Ctrl-D leaves.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from headrace.catalog import Catalog
from headrace.cli import output, sql_screen
from headrace.cli.main import debugging
from headrace.cli.sql import Form, show
from headrace.cli.sql_screen import Layout
from headrace.errors import DefinitionError, HeadraceError, InternalError
from headrace.frontend.sql.tokens import begins_block, ends_block, is_complete, tokenize
from headrace.project import Project
from headrace.shell.completion import suggest
from headrace.shell.known import Known
from headrace.shell.names import Names
from headrace.shell.redaction import redacted
from headrace.shell.result import Result
from headrace.spec import nearest

if TYPE_CHECKING:
    from headrace.shell.session import Session

PROMPT = "headrace> "
CONTINUED = "      ... "
FILE = "sql"  # what places in typed statements have as their file


def interact(session: Session, form: Form) -> None:
    """Read statements and do them until the user leaves."""
    terminal = Terminal(session, form)
    output.note(f"catalog of {session.project.root}; \\? lists commands, \\q leaves")
    prompt = _prompt(session.project)
    while not terminal.left:
        try:
            text = prompt.prompt(PROMPT)
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            break
        terminal.do(text)
    terminal.close()


# Doing


@dataclass
class Terminal:
    """What one shell remembers between statements, and how it does them."""

    session: Session
    form: Form = Form.TABLE
    layout: Layout = Layout.AUTO
    timing: bool = False
    left: bool = False
    _file: IO[str] | None = field(default=None, repr=False)

    def do(self, text: str) -> None:
        """One command, or one statement after the other; an error is shown and ends the rest."""
        try:
            if text.lstrip().startswith("\\"):
                self._command(text.strip().rstrip(";"))
            else:
                self._statements(text)
        except KeyboardInterrupt:
            output.note("stopped")
        except HeadraceError as error:
            output.show_error(error)
        except Exception as error:  # a fault of ours ends the statement, not the shell
            if debugging():
                traceback.print_exc()
            output.show_error(InternalError(f"{type(error).__name__}: {error}"))

    def run(self, text: str, file: str = FILE) -> None:
        started = time.monotonic()
        try:
            for result in self.session.run(text, file):
                self._show(result)
        finally:
            if self.timing:
                output.note(f"time: {_duration(time.monotonic() - started)}")

    def close(self) -> None:
        self._write_to(None)

    def _show(self, result: Result) -> None:
        with contextlib.redirect_stdout(self._file or sys.stdout):
            if self.form is not Form.TABLE or not result.columns or result.text is not None:
                show(result, self.form)
                return
            for warning in result.warnings:
                output.warn(warning)
            for line in sql_screen.lines(result.columns, result.rows, _width(), self.layout):
                output.line(line)
        output.note(result.note or f"({output.counted(len(result.rows), 'row')})")

    def _statements(self, text: str) -> None:
        """Up to the first that is wrong; where it is wrong is shown in what was typed."""
        try:
            for statement in statements(text):
                self.run(statement)
        except DefinitionError as error:
            first = next((each.span for each in error.diagnostics if each.span.file == FILE), None)
            if first is not None:
                output.note("\n".join(pointed(text, first.line, first.column, _width())))
            raise

    # Commands

    def _command(self, text: str) -> None:
        name, _, rest = text[1:].partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            close = nearest(name, COMMANDS)
            hint = f"did you mean \\{close[0]}?" if close else "\\? lists all"
            raise DefinitionError(f"there is no command \\{name}", hint=hint)
        command.work(self, rest.strip())

    def help(self, _argument: str) -> None:
        rows = [(command.usage, command.help) for command in COMMANDS.values()]
        width = max(len(usage) for usage, _ in rows) + 2
        for usage, about in rows:
            output.line(f"{usage:<{width}}{about}")
        output.line("Statements end with `;`, Tab completes, Ctrl-C clears or stops, Ctrl-D leaves")

    def leave(self, _argument: str) -> None:
        self.left = True

    def describe(self, argument: str) -> None:
        if argument:
            self.run(f"DESCRIBE {_quoted(argument)}")
            return
        names = Names(Known.of(self.session.catalog)).all
        rows = tuple((name, kind) for name, kind in sorted(names.items()))
        self._show(Result(("name", "kind"), rows))

    def expand(self, argument: str) -> None:
        other = Layout.OFF if self.layout is Layout.ON else Layout.ON
        self.layout = _choice(argument, other, tuple(Layout))
        output.note(f"a line for each value: {self.layout}")

    def time(self, argument: str) -> None:
        other = Layout.OFF if self.timing else Layout.ON
        self.timing = _choice(argument, other, (Layout.ON, Layout.OFF)) is Layout.ON
        output.note(f"timing is {'on' if self.timing else 'off'}")

    def include(self, argument: str) -> None:
        if not argument:
            raise DefinitionError("\\i needs a file", hint="write \\i statements.sql")
        path = Path(argument).expanduser()
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DefinitionError(f"reading {path}: {error}", hint="check the path") from error
        self.run(text, str(path))

    def _write_to(self, path: Path | None) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None if path is None else path.open("w", encoding="utf-8")

    def direct(self, argument: str) -> None:
        try:
            self._write_to(Path(argument).expanduser() if argument else None)
        except OSError as error:
            raise DefinitionError(f"writing {argument}: {error.strerror}") from error
        output.note(f"rows go to {argument or 'the screen'}")


@dataclass(frozen=True)
class Command:
    """`usage` is how it is written, `work` what it does with the words after it."""

    usage: str
    help: str
    work: Callable[[Terminal, str], None]


def _listing(letter: str, what: str) -> tuple[str, Command]:
    def work(terminal: Terminal, _argument: str) -> None:
        terminal.run(f"SHOW {what}")

    return f"d{letter}", Command(f"\\d{letter}", f"the {what.lower()}", work)


COMMANDS: dict[str, Command] = {
    "d": Command("\\d [name]", "everything that was created, or one thing", Terminal.describe),
    **dict(
        _listing(letter, what)
        for letter, what in (
            ("c", "CONNECTIONS"),
            ("t", "TABLES"),
            ("v", "VIEWS"),
            ("p", "PIPELINES"),
            ("s", "SECRETS"),
        )
    ),
    "x": Command("\\x [on|off|auto]", "a line for each value instead of each row", Terminal.expand),
    "timing": Command("\\timing [on|off]", "how long each statement takes", Terminal.time),
    "i": Command("\\i file", "do the statements of a file", Terminal.include),
    "o": Command("\\o [file]", "write rows to a file, or to the screen again", Terminal.direct),
    "?": Command("\\?", "these commands", Terminal.help),
    "q": Command("\\q", "leave", Terminal.leave),
}


def statements(text: str) -> Iterator[str]:
    """The statements of a text one by one, each where it stood, so that places stay right."""
    words, start = tokenize(text), 0
    in_block = False
    for at, word in enumerate(words):
        in_block = (in_block or begins_block(words, at)) and not ends_block(words, at)
        if (word.key == ";" and not in_block) or at == len(words) - 1:
            part = text[start : word.end]
            if part.strip(" \t\r\n;"):
                yield _blank(text[:start]) + part
            start = word.end


def _blank(text: str) -> str:
    return "".join(letter if letter == "\n" else " " for letter in text)


def pointed(text: str, line: int, column: int, width: int) -> list[str]:
    """A line of the text, as much of it as fits, and a mark below one of its columns."""
    every = text.splitlines() or [""]
    shown = every[min(line, len(every)) - 1].replace("\t", " ")
    skipped = max(column - width // 2, 0) if len(shown) > width else 0
    return [shown[skipped : skipped + width].rstrip(), " " * (column - 1 - skipped) + "^"]


def _quoted(name: str) -> str:
    """A name as the user gave it: `a.b` and quoted ones as they are."""
    plain = name.replace("_", "").replace(".", "").isalnum() or name.startswith("`")
    return name if plain else f"`{name}`"


def _choice(text: str, default: Layout, choices: tuple[Layout, ...]) -> Layout:
    if not text:
        return default
    if text.lower() not in choices:
        hint = f"choose one of {', '.join(choices)}"
        raise DefinitionError(f"`{text}` cannot stand here", hint=hint)
    return Layout(text.lower())


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _width() -> int:
    return shutil.get_terminal_size().columns


# Typing


def _prompt(project: Project) -> PromptSession[str]:
    return PromptSession(
        history=SafeHistory(project),
        completer=CatalogCompleter(Catalog.of(project)),
        complete_while_typing=False,
        enable_history_search=True,
        multiline=True,
        prompt_continuation=lambda _width, _line, wrapped: "" if wrapped else CONTINUED,
        key_bindings=_keys(),
    )


def finished(text: str) -> bool:
    """Whether Enter does what was typed; else it begins another line."""
    typed = text.strip()
    return not typed or typed.startswith("\\") or is_complete(typed)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        menu = buffer.complete_state
        if menu is not None and menu.current_completion is not None:
            buffer.complete_state = None  # the chosen word is there already
        elif finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


class SafeHistory(FileHistory):
    """What was typed, in a file that only its owner can read.

    A CREATE SECRET with its value is not kept at all, and other secrets are hidden.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        super().__init__(str(project.history))

    def append_string(self, string: str) -> None:
        if keeps(string):
            super().append_string(redacted(string))

    def store_string(self, string: str) -> None:
        file = self._project.history
        if not file.exists():
            self._project.ensure(file.parent)
            file.touch(mode=0o600)
        super().store_string(string)


def keeps(text: str) -> bool:
    """Whether a text may be remembered: it is something, and creates no secret by its value."""
    words = tokenize(text)
    for at, word in enumerate(words):
        if word.key == "SECRET" and "CREATE" in (each.key for each in words[max(at - 3, 0) : at]):
            after = [each.key for each in words[at:]]
            end = after.index(";") if ";" in after else len(after)
            if "ENV" not in after[:end]:
                return False
    return bool(text.strip())


class CatalogCompleter(Completer):
    """Completion by the catalog, which is read again when it has changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._read: tuple[int, Names] | None = None

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        text, cursor = document.text, document.cursor_position
        if text.lstrip().startswith("\\"):
            yield from self._commands(text.lstrip()[1:cursor])
            return
        try:
            found = suggest(text, cursor, self._names())
        except HeadraceError:
            return  # a catalog that cannot be read is told by the next statement
        for each in found:
            yield Completion(each.text, -each.typed, display_meta=each.help)

    def _commands(self, typed: str) -> Iterator[Completion]:
        name, space, word = typed.partition(" ")
        if space and name == "d":
            names = self._names().all
            yield from (Completion(n, -len(word)) for n in names if n.startswith(word))
        elif not space:
            for known, command in COMMANDS.items():
                if known.startswith(name):
                    yield Completion(known, -len(name), display_meta=command.help)

    def _names(self) -> Names:
        file = self._catalog.file
        changed = file.stat().st_mtime_ns if file.exists() else 0
        if self._read is None or self._read[0] != changed:
            secrets = [secret.name for secret in self._catalog.secrets()]
            self._read = changed, Names(Known.of(self._catalog), secrets)
        return self._read[1]
