"""SQL text to statements, each with its place.

`parse` reads a file or what was typed into the shell. What cannot be read is a diagnostic, and
reading goes on after the next semicolon; nothing is passed over in silence. The SQL inside (a
SELECT, an expression) stays text here: `dialect` translates it and `model.query` understands it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.frontend.sql import elsewhere
from headrace.frontend.sql.columns import read_columns
from headrace.frontend.sql.cursor import Cursor, Reported, SqlFault
from headrace.frontend.sql.fields import read_fields
from headrace.frontend.sql.statements import (
    SHOWN,
    Broken,
    Control,
    CreateConnection,
    CreatePipeline,
    CreateSecret,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Fields,
    Fragment,
    Insert,
    Kind,
    Name,
    Select,
    Set,
    Show,
    Statement,
    Verb,
)
from headrace.frontend.sql.tokens import Sort, Token, ends_block, name, value, words
from headrace.spans import Diagnostic, Span
from headrace.spec import nearest

_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_KINDS = {kind.value.upper(): kind for kind in Kind}
# What begins a statement where it stands first on its line: a word, and those that follow it.
_BEGINNINGS = {"CREATE": (*_KINDS, "OR"), "INSERT": ("INTO", "OVERWRITE"), "DROP": tuple(_KINDS)}
# After these a query goes on.
_GO_ON = words(
    """
    SELECT DISTINCT ALL FROM JOIN WHERE ON BY HAVING AND OR NOT IN IS LIKE BETWEEN WHEN THEN ELSE
    CASE AS OVER UNION EXCEPT INTERSECT WITH LIMIT INTERVAL
    """
)


def parse(text: str, file: str = "sql") -> tuple[list[Statement], list[Diagnostic]]:
    """Every statement that could be read, and every fault, in order of their places."""
    parser = _Parser(Cursor(text, file))
    while parser.cursor.token.sort is not Sort.END:
        parser.next_statement()
    return parser.statements, sorted(parser.cursor.faults, key=lambda fault: fault.span)


@dataclass(frozen=True)
class _Head:
    """`CREATE [OR REPLACE] kind [IF NOT EXISTS] name`, as far as it has been read."""

    kind: Kind
    name: Name
    or_replace: bool
    if_not_exists: bool


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.statements: list[Statement] = []
        self.head: _Head | None = None
        self.in_block = False

    def next_statement(self) -> None:
        cursor = self.cursor
        if cursor.accept(";"):
            return
        first, before = cursor.at, len(cursor.faults)
        self.head, self.in_block = None, False
        statement: Statement | None = None
        try:
            statement = self._statement(first)
            whole = len(cursor.faults) == before
            self._expect_end()
        except (SqlFault, Reported) as fault:
            whole = False
            if isinstance(fault, SqlFault):
                cursor.faults.append(fault.diagnostic)
            self._go_on(first)
        kept = statement if whole else self._broken(first)
        if kept is not None:
            self.statements.append(kept)

    def _statement(self, first: int) -> Statement:
        token = self.cursor.token
        if token.key in _QUERIES:
            query = self._query()
            return Select(*self._whole(first), query)
        read = _READ.get(token.key)
        if read is None:
            raise self._unknown_statement(token)
        self.cursor.take()
        return read(self, first)

    def _unknown_statement(self, token: Token) -> SqlFault:
        cursor = self.cursor
        if token.sort is not Sort.WORD:
            raise cursor.expected([], "a statement, such as CREATE, INSERT INTO or SELECT")
        close = nearest(token.text, [word.lower() for word in (*_READ, *_QUERIES)])
        hint = elsewhere.STATEMENTS.get(token.key)
        if hint is None and close:
            hint = f"did you mean `{close[0].upper()}`?"
        if hint is None:
            hint = f"known: {', '.join(sorted({'SELECT', *_READ}))}"
        message = f"{token} does not begin a statement"
        return cursor.fault(message, token, hint, code="UNKNOWN_STATEMENT")

    # Where statements begin and end.

    def _whole(self, first: int) -> tuple[str, Span]:
        """Text and place of the statement from its first word to the last one read."""
        fragment = self.cursor.fragment(first, self.cursor.at)
        return fragment.sql, fragment.span

    def _expect_end(self) -> None:
        """A semicolon; where the next line begins a statement, only that is missing."""
        cursor = self.cursor
        if cursor.ended:
            cursor.accept(";")
        elif cursor.token.key in (*_READ, *_QUERIES) and self._first_on_line(cursor.at):
            self._miss_semicolon()
        else:
            hint = "remove it, or end the statement: `;`"
            raise cursor.expected([], "the end of the statement", hint)

    def _miss_semicolon(self) -> None:
        hint = "one statement ends with `;` before the next begins"
        message = f"a `;` is missing before {self.cursor.token}"
        self.cursor.faults.append(self.cursor.fault(message, hint=hint).diagnostic)

    def _go_on(self, first: int) -> None:
        """Past the next semicolon; a line that begins with CREATE is a new statement, too."""
        cursor = self.cursor
        cursor.at = max(cursor.at, first)
        if self.in_block:
            self._leave_block()
        while not cursor.ended:
            if cursor.at > first and cursor.looking("CREATE") and self._first_on_line(cursor.at):
                return
            cursor.take()
        cursor.accept(";")

    def _leave_block(self) -> None:
        cursor = self.cursor
        ends = (at for at in range(cursor.at, len(cursor.tokens)) if ends_block(cursor.tokens, at))
        starts = (at for at in range(cursor.at, len(cursor.tokens)) if self._is_create(at))
        end = next(ends, None)
        if end is not None and end < next(starts, len(cursor.tokens)):
            cursor.at = end

    def _is_create(self, at: int) -> bool:
        return self.cursor.tokens[at].key == "CREATE" and self._first_on_line(at)

    def _first_on_line(self, at: int) -> bool:
        if at == 0:
            return True
        between = slice(self.cursor.tokens[at - 1].end, self.cursor.tokens[at].start)
        return "\n" in self.cursor.text[between]

    def _broken(self, first: int) -> Statement | None:
        head = self.head
        if head is None or self.cursor.tokens[first].key != "CREATE":
            return None
        semicolon = self.cursor.tokens[self.cursor.at - 1].key == ";"
        fragment = self.cursor.fragment(first, self.cursor.at - semicolon)
        made = fragment.sql, fragment.span, head.name, head.or_replace, head.if_not_exists
        return Broken(*made, head.kind)

    # The SQL inside.

    def _query(self) -> Fragment:
        """A SELECT up to the end of the statement, or to the END of a block."""
        cursor = self.cursor
        if cursor.token.key not in _QUERIES:
            raise cursor.expected(["SELECT"], hint="write a query here: `SELECT … FROM table`")
        first = cursor.at
        opened: list[Token] = []
        cases = 0
        while not cursor.ended:
            token = cursor.token
            if token.sort is Sort.OPEN:
                raise cursor.not_closed(token)
            if cursor.at > first and self._begins_another():
                break
            ends = token.key == "END" and cursor.tokens[cursor.at - 1].key not in (".", "AS")
            if ends and self.in_block and not cases and cursor.ahead().key in (";", ""):
                break
            cases = max(cases + (token.key == "CASE") - ends, 0)
            self._match(token, opened)
            cursor.take()
        if opened:
            raise cursor.not_closed(opened[-1])
        return cursor.fragment(first, cursor.at)

    def _match(self, token: Token, opened: list[Token]) -> None:
        if token.key in ("(", "["):
            opened.append(token)
        elif token.key in (")", "]"):
            partner = "(" if token.key == ")" else "["
            if not opened:
                message = f"this `{token.key}` has no `{partner}`"
                raise self.cursor.fault(message, token, "remove it")
            if opened[-1].key != partner:
                raise self.cursor.not_closed(opened[-1])
            opened.pop()

    def _begins_another(self) -> bool:
        """Whether a line begins like a statement, where a query could have ended before it."""
        cursor = self.cursor
        following = _BEGINNINGS.get(cursor.token.key)
        if following is None or cursor.ahead().key not in following:
            return False
        before = cursor.tokens[cursor.at - 1]
        goes_on = before.key in _GO_ON or (before.sort is Sort.SYMBOL and before.key not in ")]*")
        return not goes_on and self._first_on_line(cursor.at)

    # CREATE.

    def _create(self, first: int) -> Statement:
        cursor = self.cursor
        or_replace = cursor.accept("OR")
        if or_replace:
            cursor.expect("REPLACE", "after CREATE OR")
        kind = self._kind("CREATE")
        if_not_exists = cursor.accept("IF")
        if if_not_exists:
            cursor.expect("NOT", "after IF", "write IF NOT EXISTS")
            cursor.expect("EXISTS", "after IF NOT", "write IF NOT EXISTS")
        name = cursor.expect_new_name(f"the {kind}", _CREATES[kind][1])
        self.head = head = _Head(kind, name, or_replace, if_not_exists)
        if or_replace and if_not_exists:
            message = "OR REPLACE and IF NOT EXISTS say the opposite of each other"
            fault = Diagnostic("SQL_SYNTAX", message, name.span, "leave one of them out")
            cursor.faults.append(fault)
        return _CREATES[kind][0](self, head, first)

    def _kind(self, verb: str) -> Kind:
        cursor = self.cursor
        token = cursor.token
        if token.key in _KINDS:
            cursor.take()
            return _KINDS[token.key]
        if token.sort is not Sort.WORD:
            raise cursor.expected([*_KINDS], f"after {verb}")
        close = nearest(token.text, [kind.lower() for kind in _KINDS])
        hint = elsewhere.KINDS.get(token.key) if verb == "CREATE" else None
        if hint is None and close:
            hint = f"did you mean `{verb} {close[0].upper()}`?"
        if hint is None:
            hint = f"after {verb} stands {', '.join(_KINDS)}"
        message = f"`{verb} {token.text}` is not a statement"
        raise cursor.fault(message, token, hint, code="UNKNOWN_STATEMENT")

    def _secret(self, head: _Head, first: int) -> Statement:
        cursor = self.cursor
        secret = variable = None
        if cursor.accept("FROM"):
            cursor.expect("ENV", "after FROM", _CREATES[Kind.SECRET][1])
            if cursor.token.sort is not Sort.TEXT:
                hint = f"write `CREATE SECRET {head.name} FROM ENV 'VARIABLE'`"
                raise cursor.expected([], "an environment variable, in quotes", hint)
            variable = value(cursor.take())[0]
        else:
            if not cursor.accept("AS"):
                raise cursor.expected(["AS", "FROM ENV"], hint=_CREATES[Kind.SECRET][1])
            if cursor.token.sort is not Sort.TEXT:
                raise cursor.fault("the secret must stand in quotes", hint=_CREATES[head.kind][1])
            secret = value(cursor.take())[0]
        return CreateSecret(*self._created(head, first), secret, variable)

    def _connection(self, head: _Head, first: int) -> Statement:
        cursor = self.cursor
        cursor.expect("TO", f"after the connection's name `{head.name}`", _CREATES[head.kind][1])
        bare = cursor.token.sort is Sort.WORD
        connector = cursor.expect_name("a connector, such as kafka", _CREATES[head.kind][1])
        if bare:
            connector = replace(connector, text=connector.text.lower())
        options = read_fields(cursor)
        return CreateConnection(*self._created(head, first), connector, options)

    def _table(self, head: _Head, first: int) -> Statement:
        cursor = self.cursor
        columns = watermark = None
        if cursor.looking("("):
            columns, watermark = read_columns(cursor)
        if cursor.looking("AS"):
            hint = "a SELECT with a name is a view: `CREATE VIEW name AS SELECT …`"
            raise cursor.fault("a table is not made by a SELECT", hint=hint)
        hint = "say where its rows are: `WITH ( connector = '…' )`"
        cursor.expect("WITH", f"after the table `{head.name}`", hint)
        options = read_fields(cursor)
        return CreateTable(*self._created(head, first), columns, watermark, options)

    def _view(self, head: _Head, first: int) -> Statement:
        cursor = self.cursor
        if cursor.looking("("):
            hint = "name the columns in the SELECT: `SELECT id AS order_id …`"
            raise cursor.fault("a view has no list of columns", hint=hint)
        options: Fields = read_fields(cursor) if cursor.accept("WITH") else {}
        query = None
        if not options or cursor.looking("AS"):
            cursor.expect("AS", f"after the view `{head.name}`", _CREATES[head.kind][1])
            query = self._query()
        return CreateView(*self._created(head, first), query, options)

    def _pipeline(self, head: _Head, first: int) -> Statement:
        cursor = self.cursor
        options: Fields = read_fields(cursor) if cursor.accept("WITH") else {}
        cursor.expect("AS", f"after the pipeline `{head.name}`", _CREATES[head.kind][1])
        query: Fragment | None = None
        inserts: tuple[Insert, ...] = ()
        if cursor.looking("BEGIN"):
            inserts = self._block()
        elif cursor.looking("INSERT"):
            inserts = (self._inserted(),)
        else:
            query = self._query()
        return CreatePipeline(*self._created(head, first), options, query, inserts)

    def _block(self) -> tuple[Insert, ...]:
        cursor = self.cursor
        begin = cursor.take()
        self.in_block = True
        inserts = []
        while not cursor.accept("END"):
            if cursor.token.sort is Sort.END:
                raise cursor.fault("this BEGIN has no END", begin, "write `END;` after its INSERTs")
            if not cursor.looking("INSERT"):
                raise cursor.expected(["INSERT", "END"], "in the block of a pipeline")
            inserts.append(self._inserted())
            if not cursor.looking("END"):
                cursor.expect(";", "after an INSERT in a block")
        self.in_block = False
        if not inserts:
            hint = "write `INSERT INTO table SELECT …;` between BEGIN and END"
            raise cursor.fault("there is nothing in this block", begin, hint)
        return tuple(inserts)

    def _created(self, head: _Head, first: int) -> tuple[str, Span, Name, bool, bool]:
        return (*self._whole(first), head.name, head.or_replace, head.if_not_exists)

    # The other statements.

    def _inserted(self) -> Insert:
        first = self.cursor.at
        self.cursor.take()
        return self._insert(first)

    def _insert(self, first: int) -> Insert:
        cursor = self.cursor
        if cursor.looking("OVERWRITE"):
            raise cursor.fault("a sink is never overwritten", hint="write INSERT INTO")
        cursor.expect("INTO", "after INSERT", "write `INSERT INTO table SELECT …`")
        if cursor.looking("TABLE") and cursor.ahead().key not in (*_QUERIES, ""):
            cursor.take()
        hint = "write `INSERT INTO table SELECT …`"
        table = cursor.expect_new_name("the table to write to", hint)
        columns = self._named_columns() if self._at_columns() else ()
        query = self._query()
        return Insert(*self._whole(first), table, columns, query)

    def _at_columns(self) -> bool:
        return self.cursor.looking("(") and self.cursor.ahead().key not in _QUERIES

    def _named_columns(self) -> tuple[Name, ...]:
        cursor = self.cursor
        cursor.expect("(")
        columns = [cursor.expect_name("a column")]
        while cursor.accept(","):
            columns.append(cursor.expect_name("a column"))
        cursor.expect(")", "after the columns")
        return tuple(columns)

    def _drop(self, first: int) -> Statement:
        cursor = self.cursor
        kind = self._kind("DROP")
        if_exists = cursor.accept("IF")
        if if_exists:
            cursor.expect("EXISTS", "after IF")
        name = cursor.expect_name(f"the {kind}")
        found: set[str] = set()
        while cursor.token.key in ("CASCADE", "PURGE"):
            found.add(cursor.take().key)
        if cursor.token.sort is Sort.WORD:
            raise cursor.expected(["CASCADE", "PURGE"], "or the end of the statement")
        whole = self._whole(first)
        return Drop(*whole, kind, name, if_exists, "CASCADE" in found, "PURGE" in found)

    def _show(self, first: int) -> Statement:
        cursor = self.cursor
        if cursor.accept("CREATE"):
            kind = self._kind_before_name()
            name = cursor.expect_dotted_name("what is to be shown")
            return Show(*self._whole(first), "create", name, kind)
        token = cursor.token
        what = token.text.lower()
        if cursor.accept("DEAD", "LETTERS"):
            what = "dead_letters"
        elif token.sort is Sort.WORD and what in SHOWN:
            cursor.take()
        else:
            known = [*(word.upper() for word in SHOWN), "CREATE"]
            raise cursor.expected([], "what to show", cursor.misspelt(known) or _SHOW)
        return Show(*self._whole(first), what)

    def _kind_before_name(self) -> Kind | None:
        """A kind, unless the word is the name itself."""
        named = self.cursor.ahead().sort in (Sort.WORD, Sort.QUOTED, Sort.TEXT)
        if named and self.cursor.token.key in _KINDS:
            return _KINDS[self.cursor.take().key]
        return None

    def _describe(self, first: int) -> Statement:
        kind = self._kind_before_name()
        name = self.cursor.expect_dotted_name("what is to be described")
        return Describe(*self._whole(first), name, kind)

    def _explain(self, first: int) -> Statement:
        cursor = self.cursor
        code = cursor.looking("CODE") and cursor.ahead().key not in (";", "")
        if code:
            cursor.take()
        token, inner = cursor.token, cursor.at
        name: Name | None = None
        statement: Statement | None = None
        if token.key in _QUERIES or token.key in ("INSERT", "CREATE"):
            statement = self._statement(inner)
            if not isinstance(statement, Select | Insert | CreatePipeline):
                hint = "EXPLAIN takes a pipeline's name, a SELECT, an INSERT or a CREATE PIPELINE"
                raise cursor.fault("this cannot be explained", token, hint)
        else:
            if cursor.looking("PIPELINE") and cursor.ahead().key not in (";", ""):
                cursor.take()
            name = cursor.expect_name("a pipeline")
        return Explain(*self._whole(first), code, name, statement)

    def _control(self, first: int) -> Statement:
        cursor = self.cursor
        verb = Verb(cursor.tokens[first].text.lower())
        cursor.expect("PIPELINE", f"after {verb.upper()}", f"write `{verb.upper()} PIPELINE name`")
        name = cursor.expect_name("the pipeline")
        options: Fields = read_fields(cursor) if cursor.accept("WITH") else {}
        return Control(*self._whole(first), verb, name, options)

    def _set(self, first: int) -> Statement:
        cursor = self.cursor
        if cursor.ended:
            return Set(*self._whole(first), None, None)
        setting = cursor.expect_dotted_name("a setting", "write `SET name = value`")
        if cursor.ended:
            return Set(*self._whole(first), setting, None)
        if not cursor.accept("=") and not cursor.accept("TO"):
            raise cursor.expected(["="], f"after the setting `{setting}`")
        token = cursor.token
        if token.sort not in (Sort.WORD, Sort.TEXT, Sort.NUMBER):
            raise cursor.expected([], f"a value for the setting `{setting}`")
        cursor.take()
        return Set(*self._whole(first), setting, name(token))


_SHOW = f"write SHOW {', '.join(word.upper() for word in SHOWN)} or CREATE name"
_READ: dict[str, Callable[[_Parser, int], Statement]] = {
    "CREATE": _Parser._create,
    "INSERT": _Parser._insert,
    "DROP": _Parser._drop,
    "SHOW": _Parser._show,
    "DESCRIBE": _Parser._describe,
    "DESC": _Parser._describe,
    "EXPLAIN": _Parser._explain,
    "START": _Parser._control,
    "STOP": _Parser._control,
    "PAUSE": _Parser._control,
    "RESUME": _Parser._control,
    "SET": _Parser._set,
}
# How each kind is read after its name, and how it is written.
_CREATES: dict[Kind, tuple[Callable[[_Parser, _Head, int], Statement], str]] = {
    Kind.SECRET: (_Parser._secret, "write `CREATE SECRET name AS 'value'` or `… FROM ENV 'X'`"),
    Kind.CONNECTION: (
        _Parser._connection,
        "write `CREATE CONNECTION name TO kafka ( bootstrap_servers = '…', … )`",
    ),
    Kind.TABLE: (
        _Parser._table,
        "write `CREATE TABLE name ( id BIGINT, … ) WITH ( connector = '…' )`",
    ),
    Kind.VIEW: (_Parser._view, "write `CREATE VIEW name AS SELECT …`"),
    Kind.PIPELINE: (
        _Parser._pipeline,
        "write `CREATE PIPELINE name WITH ( sink = '…' ) AS SELECT …`",
    ),
}
