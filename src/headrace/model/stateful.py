"""What a stream has to remember for a SELECT, and what it cannot do at all; found without Spark.

`read` follows the columns that a watermark belongs to through one query, as Spark would: a plain
column keeps it, `window`, `session_window` and `window_time` of one keep it, every other expression
loses it. Who calls it: `plan.stateful`, step by step. Where something can be told only by Spark,
nothing is refused, and a run says what Spark finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sqlglot import exp

from headrace.model.functions import AGGREGATES
from headrace.model.query import Query, function_name
from headrace.spans import Diagnostic, Span


@dataclass(frozen=True)
class Table:
    """The rows of a source or step, as far as time matters.

    `timed` are the columns, in lower case, that the watermark follows; of an `opaque` table only
    Spark knows them. `names` are all columns, where they can be told. `static` rows stand in the
    query itself. `summed` rows come out of an aggregation.
    """

    timed: frozenset[str] = frozenset()
    opaque: bool = False
    names: frozenset[str] | None = None
    static: bool = False
    summed: bool = False

    def timing(self, column: str) -> bool | None:
        """Whether the watermark follows this column; None where only Spark knows."""
        return True if column in self.timed else (None if self.opaque else False)


class Keeping(StrEnum):
    AGGREGATE = "aggregate"
    SESSIONS = "sessions"
    JOIN = "join"
    OUTER_JOIN = "outer join"
    DUPLICATES = "duplicates"


@dataclass(frozen=True)
class Kept:
    """One thing that a stream remembers from batch to batch.

    It is forgotten when `until`; None is never, and then it `grows`, unless it is one row only.
    `final`: whether there is a moment after which a row of the result does not change; None where
    only Spark knows. `chained`: it takes rows that come out of an aggregation.
    """

    kind: Keeping
    what: str
    until: str | None
    span: Span = field(compare=False)
    final: bool | None = True
    grows: bool = False
    chained: bool = False

    @property
    def words(self) -> str:
        if self.until is not None:
            return f"{self.what}, until {self.until}"
        return f"{self.what}, for ever"


@dataclass(frozen=True)
class Reading:
    """What one query makes of its tables."""

    table: Table
    kept: tuple[Kept, ...]
    faults: tuple[Diagnostic, ...]


def read(query: Query, tables: Mapping[str, Table]) -> Reading:
    """Follow the watermark through a query of a stream."""
    reader = _Reader(query)
    known = {name.lower(): table for name, table in tables.items()}
    table = reader.rows(query.tree, known)
    return Reading(table, tuple(reader.kept), tuple(reader.faults))


ADD_WATERMARK = "add `watermark: {column: …, delay: …}` to its source"
_AS_BATCH = "use `mode: batch`, where it covers the new records of each run"
_ENDLESS: dict[type[exp.Expr], str] = {
    exp.Order: "ORDER BY",
    exp.Sort: "SORT BY",
    exp.Cluster: "CLUSTER BY",
    exp.Limit: "LIMIT",
    exp.Offset: "OFFSET",
    exp.Pivot: "PIVOT",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
    exp.TableSample: "TABLESAMPLE",
}
_WINDOWS = ("window", "session_window")
_Known = Mapping[str, Table]


class _Reader:
    """One pass over one query; what is kept and what is wrong are collected on the way."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.kept: list[Kept] = []
        self.faults: list[Diagnostic] = []
        self._said: set[str] = set()
        for node in query.tree.walk():
            self._check_endless(node)

    # Rows of a query

    def rows(self, node: exp.Expr, known: _Known) -> Table:
        """Of a SELECT, a UNION or either of them in brackets."""
        known = self._with_own(node, known)
        if isinstance(node, exp.Subquery):
            return self._relation(node, known)
        if isinstance(node, exp.SetOperation):
            left, right = self.rows(node.this, known), self.rows(node.expression, known)
            # The first part decides about the columns of the whole.
            return replace(left, summed=left.summed or right.summed)
        return self._select(node, known) if isinstance(node, exp.Select) else Table(opaque=True)

    def _with_own(self, node: exp.Expr, known: _Known) -> _Known:
        clause = node.args.get("with_")
        if clause is None:
            return known
        tables = dict(known)
        for cte in clause.expressions:
            tables[cte.alias_or_name.lower()] = self.rows(cte.this, tables)
        return tables

    def _select(self, node: exp.Select, known: _Known) -> Table:
        scope = _Scope()
        source = node.args.get("from_")
        if source is not None:
            self._add(scope, source.this, node.args.get("joins") or (), known, node)
        if all(table.static for table in scope.tables.values()):
            return Table(static=True)
        self._check_subqueries(node, known)
        table = _projected(node, scope)
        if _sums(node):
            self._aggregate(node, scope)
            table = replace(table, summed=True)
        if node.args.get("distinct") is not None:
            self._distinct(node, table)
        return table

    # Tables of FROM and JOIN

    def _add(
        self,
        scope: _Scope,
        first: exp.Expr,
        joins: tuple[exp.Join, ...] | list[exp.Join],
        known: _Known,
        select: exp.Select | None = None,
    ) -> None:
        name, table = self._named(first, known)
        scope.tables[name] = table
        for join in [*(first.args.get("joins") or ()), *joins]:
            name, table = self._named(join.this, known)
            self._join(join, scope, name, table, select)
            scope.tables[name] = table

    def _named(self, node: exp.Expr, known: _Known) -> tuple[str, Table]:
        return node.alias_or_name.lower(), self._relation(node, known)

    def _relation(self, node: exp.Expr, known: _Known) -> Table:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            found = known.get(node.name.lower(), Table(opaque=True))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            inside = _Scope()
            self._add(inside, node.this, (), known)
            found = inside.merged()
        elif isinstance(node, exp.Subquery):
            found = self.rows(node.this, known)
        else:
            return Table(static=True)
        renamed = alias is not None and alias.args.get("columns")
        return replace(found, opaque=True, timed=frozenset(), names=None) if renamed else found

    # Joins

    def _join(
        self, join: exp.Join, scope: _Scope, name: str, right: Table, select: exp.Select | None
    ) -> None:
        left = scope.merged()
        how = "ANTI" if join.kind == "ANTI" else "SEMI" if join.kind == "SEMI" else join.side
        if left.static or right.static:
            self._check_static(join, how, left, right)
            return
        if how == "ANTI":
            self._fault(
                join,
                "an ANTI join of streams has no end to wait for",
                "use a LEFT JOIN with bounds on time, and keep the rows without a partner in the "
                "next step",
            )
            return
        sides = _Sides(scope, name, right)
        # What stands in WHERE counts as well where only pairs come out.
        where = select.args.get("where") if select is not None and not how else None
        conditions = [*_conditions(join.args.get("on")), *_conditions(where and where.this)]
        if not _has_equality(join, conditions, sides):
            self._fault(
                join,
                "streams are joined by equal columns, and there are none in this join",
                "add `ON a.column = b.column`",
            )
            return
        self._keep_join(join, how, sides, conditions)

    def _keep_join(
        self, join: exp.Join, how: str, sides: _Sides, conditions: list[exp.Expr]
    ) -> None:
        bounded = _bounds(join, conditions, sides)
        needed = {"LEFT": bounded[:1], "SEMI": bounded[:1], "RIGHT": bounded[1:], "FULL": bounded}
        outer = how in ("LEFT", "RIGHT", "FULL")
        if how and all(side is False for side in needed[how]):
            self._fault(
                join,
                f"a {how} join of streams must know when to stop waiting for a partner",
                "give both sources a `watermark`, and bound the time of the other side: "
                "`AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR`",
            )
            return
        grows = False in bounded
        until = None if grows else "the watermark has passed the times that can still match"
        self.kept.append(
            Kept(
                Keeping.OUTER_JOIN if outer else Keeping.JOIN,
                f"the rows of both sides of the join with `{sides.name}`",
                until,
                self.query.place_of(join),
                grows=grows,
                chained=sides.left.summed or sides.right.summed,
            )
        )

    def _check_static(self, join: exp.Join, how: str, left: Table, right: Table) -> None:
        """Rows of the query are there at once; which of them find no partner is never known."""
        waits = {"FULL": True, "LEFT": left.static, "RIGHT": right.static}
        waits |= {"SEMI": left.static, "ANTI": left.static}
        if left.static != right.static and waits.get(how, False):
            self._fault(
                join,
                f"a {how} join would have to know which of the fixed rows find no partner in a "
                "stream that has no end",
                "let the stream be the side that keeps its rows",
            )

    # Sums and duplicates

    def _aggregate(self, node: exp.Select, scope: _Scope) -> None:
        keys = list(_keys(node, scope))
        times = [_timed(key, scope) for key in keys]
        final = True if True in times else (None if None in times else False)
        several = node.args.get("group") is not None and _several_groupings(node)
        if several:
            final = False
        sessions = [key for key in keys if function_name(key) == "session_window"]
        if sessions and (final is False or len(keys) == 1):
            self._refuse_sessions(sessions[0], len(keys))
            return
        what = f"one row for each {', '.join(_shown(key) for key in keys)}" if keys else "one row"
        until = None
        if final:
            until = _until(keys[times.index(True)])
        elif final is None:
            until = "the watermark has passed its time, if there is one"
        self.kept.append(
            Kept(
                Keeping.SESSIONS if sessions else Keeping.AGGREGATE,
                what,
                until,
                self.query.place_of(node.args.get("group") or node),
                final=final,
                grows=final is False and bool(keys),
                chained=any(table.summed for table in scope.tables.values()),
            )
        )

    def _refuse_sessions(self, key: exp.Expr, keys: int) -> None:
        if keys == 1:
            message = "sessions are those of something: `session_window` cannot be the only key"
            self._fault(key, message, "add the columns whose sessions they are to GROUP BY")
        else:
            message = "a session has no end without a watermark on its time"
            self._fault(key, message, ADD_WATERMARK)

    def _distinct(self, node: exp.Select, table: Table) -> None:
        if node is not self.query.tree:
            message = "DISTINCT inside a query would write a row again and again"
            hint = "make a step of its own of it: `- sql: SELECT DISTINCT …`"
            self._fault(node, message, hint)
            return
        timed = next(iter(sorted(table.timed)), None)
        until = None if timed is None else f"the watermark has passed its `{timed}`"
        place = self.query.place_of(node)
        grows = timed is None and not table.opaque
        kept = Kept(Keeping.DUPLICATES, "every distinct row", until, place, grows=grows)
        self.kept.append(kept)

    # What cannot be done

    def _check_endless(self, node: exp.Expr) -> None:
        if node.find_ancestor(exp.Window, exp.WithinGroup):
            return
        if isinstance(node, exp.Order) and isinstance(node.parent, exp.AggFunc):
            return
        if isinstance(node, exp.Window):
            message = "a window function needs all rows at once, and a stream has no end"
            hint = "for times use GROUP BY window(…), for the first row of each key a "
            hint += "`deduplicate` step; or use `mode: batch`"
            self._fault(node, message, hint)
        elif isinstance(node, exp.Distinct) and not isinstance(node.parent, exp.Select):
            message = "DISTINCT in an aggregate would have to keep every value"
            self._fault(node, message, "use approx_count_distinct(…), or `mode: batch`")
        elif isinstance(node, exp.Union) and node.args.get("distinct") is not False:
            message = "UNION without ALL would write a row again and again"
            self._fault(node, message, "use UNION ALL, and a `deduplicate` step after it")
        elif type(node) in _ENDLESS:
            words = _ENDLESS[type(node)]
            message = f"{words} needs all rows at once, and a stream has no end"
            self._fault(node, message, _AS_BATCH)

    def _check_subqueries(self, node: exp.Select, known: _Known) -> None:
        """A query inside an expression: IN (SELECT …), EXISTS, one value."""
        parts = [*node.expressions, node.args.get("where"), node.args.get("having")]
        for part in parts:
            for inner in part.find_all(exp.Select) if part is not None else ():
                tables = {table.name.lower() for table in inner.find_all(exp.Table)}
                if any(name in tables and not table.static for name, table in known.items()):
                    message = "an expression cannot ask a stream, which has no end"
                    self._fault(inner, message, "join it, or use `mode: batch`")

    def _fault(self, node: exp.Expr, message: str, hint: str) -> None:
        """Each thing is said once, where it is met first."""
        if message not in self._said:
            self._said.add(message)
            place = self.query.place_of(node)
            self.faults.append(Diagnostic("NOT_IN_A_STREAM", message, place, hint))


class _Scope:
    """The tables that a SELECT reads, by the names that its columns call them."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}

    def merged(self) -> Table:
        """All of them as one."""
        tables = self.tables.values()
        names = [table.names for table in tables]
        known = None if None in names else frozenset().union(*(each or () for each in names))
        return Table(
            timed=frozenset().union(*(table.timed for table in tables)),
            opaque=any(table.opaque for table in tables),
            names=known,
            static=all(table.static for table in tables),
            summed=any(table.summed for table in tables),
        )

    def timing(self, column: exp.Column) -> bool | None:
        """Whether the watermark follows a column; a field of a struct is not the struct."""
        parts = [part.name.lower() for part in column.parts]
        if len(parts) == 2 and parts[0] in self.tables:
            return self.tables[parts[0]].timing(parts[1])
        return self.merged().timing(parts[0]) if len(parts) == 1 else False


@dataclass(frozen=True)
class _Sides:
    """The two sides of a join: all tables so far, and the one that is added as `name`."""

    scope: _Scope
    name: str
    right: Table

    @property
    def left(self) -> Table:
        return self.scope.merged()

    def of(self, node: exp.Expr) -> set[str | None]:
        """Which sides the columns of an expression are from; None is not known."""
        return {self._of(column) for column in node.find_all(exp.Column)}

    def _of(self, column: exp.Column) -> str | None:
        parts = [part.name.lower() for part in column.parts]
        if len(parts) > 1 and parts[0] == self.name:
            return "right"
        if len(parts) > 1 and parts[0] in self.scope.tables:
            return "left"
        here, there = self.left.names, self.right.names
        if here is None or there is None or (parts[0] in here) == (parts[0] in there):
            return None
        return "left" if parts[0] in here else "right"

    def timing(self, column: exp.Column) -> bool | None:
        both = _Scope()
        both.tables = {**self.scope.tables, self.name: self.right}
        return both.timing(column)


def _conditions(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """What must all hold, one by one."""
    if isinstance(node, exp.And):
        yield from _conditions(node.left)
        yield from _conditions(node.right)
    elif isinstance(node, exp.Paren):
        yield from _conditions(node.this)
    elif node is not None:
        yield node


def _has_equality(join: exp.Join, conditions: list[exp.Expr], sides: _Sides) -> bool:
    if join.args.get("using") or join.method == "NATURAL":
        return True
    for condition in conditions:
        if isinstance(condition, exp.EQ | exp.NullSafeEQ):
            found = sides.of(condition.left), sides.of(condition.right)
            if None in found[0] | found[1] or {*map(frozenset, found)} == _APART:
                return True
    return False


_APART = {frozenset({"left"}), frozenset({"right"})}


def _bounds(
    join: exp.Join, conditions: list[exp.Expr], sides: _Sides
) -> tuple[bool | None, bool | None]:
    """Whether old rows of the left and of the right can be forgotten; None where Spark knows."""
    if any(_equal_times(condition, sides) for condition in conditions) or any(
        sides.left.timing(name) or sides.right.timing(name) for name in _using(join)
    ):
        return True, True
    doubt = None if sides.left.opaque or sides.right.opaque else False
    found: dict[str, bool | None] = {"left": doubt, "right": doubt}
    for greater, smaller in _comparisons(conditions):
        above, below = sides.of(greater), sides.of(smaller)
        if None in above | below and len(above | below) > 0:
            found = {side: found[side] or None for side in found}
        elif {frozenset(above), frozenset(below)} == _APART and _has_time(smaller, sides):
            found[str(next(iter(above)))] = True
    return found["left"], found["right"]


def _using(join: exp.Join) -> list[str]:
    return [name.name.lower() for name in join.args.get("using") or ()]


def _equal_times(condition: exp.Expr, sides: _Sides) -> bool:
    """Whether rows are joined by a column that the watermark follows."""
    if not isinstance(condition, exp.EQ):
        return False
    columns = [side for side in (condition.left, condition.right) if isinstance(side, exp.Column)]
    return any(sides.timing(column) for column in columns)


def _comparisons(conditions: list[exp.Expr]) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Pairs of which the first must not be less than the second."""
    for condition in conditions:
        if isinstance(condition, exp.GT | exp.GTE):
            yield condition.left, condition.right
        elif isinstance(condition, exp.LT | exp.LTE):
            yield condition.right, condition.left
        elif isinstance(condition, exp.Between):
            yield condition.this, condition.args["low"]
            yield condition.args["high"], condition.this


def _has_time(node: exp.Expr, sides: _Sides) -> bool:
    return any(sides.timing(column) for column in node.find_all(exp.Column))


def _sums(node: exp.Select) -> bool:
    if node.args.get("group") is not None:
        return True
    parts = [*node.expressions, node.args.get("having")]
    return any(_has_aggregate(part) for part in parts if part is not None)


def _has_aggregate(node: exp.Expr) -> bool:
    return any(
        is_aggregate(part) and not part.find_ancestor(exp.Window)
        for part in node.walk(prune=lambda each: isinstance(each, exp.Query))
    )


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Binary)  # any(x), but not: LIKE ANY (…)
    return isinstance(node, exp.AggFunc) or function_name(node) in AGGREGATES


def _keys(node: exp.Select, scope: _Scope) -> Iterator[exp.Expr]:
    """What is grouped by, with numbers and aliases replaced by what they stand for."""
    group = node.args.get("group")
    if group is None:
        return
    if group.args.get("all"):
        yield from (each.unalias() for each in node.expressions if not _has_aggregate(each))
        return
    for key in group.expressions:
        yield from _key(key, node, scope)


def _key(key: exp.Expr, node: exp.Select, scope: _Scope) -> Iterator[exp.Expr]:
    if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
        for inner in key.expressions:
            yield from _key(inner, node, scope)
    elif isinstance(key, exp.Paren):
        yield from _key(key.this, node, scope)
    elif isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        number = int(key.name)
        if 0 < number <= len(node.expressions):
            yield node.expressions[number - 1].unalias()
    else:
        yield _behind_alias(key, node, scope)


def _behind_alias(key: exp.Expr, node: exp.Select, scope: _Scope) -> exp.Expr:
    names = scope.merged().names
    if not isinstance(key, exp.Column) or key.table or (names and key.name.lower() in names):
        return key
    for each in node.expressions:
        if isinstance(each, exp.Alias) and each.alias.lower() == key.name.lower():
            return each.unalias()
    return key


def _several_groupings(node: exp.Select) -> bool:
    """ROLLUP and its like make rows that have no time, too."""
    group = node.args["group"]
    return group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None


def _timed(node: exp.Expr, scope: _Scope) -> bool | None:
    """Whether the watermark follows the value of an expression."""
    if isinstance(node, exp.Paren | exp.Alias):
        return _timed(node.this, scope)
    if isinstance(node, exp.Column):
        return scope.timing(node)
    if function_name(node) in (*_WINDOWS, "window_time") and node.expressions:
        return _timed(node.expressions[0], scope)
    return False


def _until(key: exp.Expr) -> str:
    name = function_name(key)
    if name == "session_window":
        return "the watermark has passed the end of the session"
    return f"the watermark has passed {'its end' if name == 'window' else f'`{_shown(key)}`'}"


def _shown(key: exp.Expr) -> str:
    return key.sql("spark", comments=False, normalize_functions=False)


def _projected(node: exp.Select, scope: _Scope) -> Table:
    """The columns that come out, and which of them the watermark still follows."""
    timed: set[str] = set()
    names: set[str] | None = set()
    for projection in node.expressions:
        if projection.is_star:
            inside = _starred(projection, scope)
            timed |= inside.timed
            names = None if names is None or inside.names is None else names | inside.names
            continue
        name = projection.alias_or_name.lower()
        names = names if names is None else names | {name}
        window = isinstance(projection, exp.Column) and name in _WINDOWS and _grouped(node, name)
        if _timed(window or projection, scope):
            timed.add(name)
    opaque = any(table.opaque for table in scope.tables.values())
    known = frozenset(names) if names is not None else None
    return Table(frozenset(timed), opaque, known, summed=scope.merged().summed)


def _grouped(node: exp.Select, name: str) -> exp.Expr | None:
    """The call in GROUP BY that the column `window` or `session_window` comes from."""
    group = node.args.get("group")
    calls = group.find_all(exp.Anonymous) if group is not None else ()
    return next((call for call in calls if function_name(call) == name), None)


def _starred(star: exp.Expr, scope: _Scope) -> Table:
    table = scope.merged()
    if isinstance(star, exp.Column) and star.table:
        table = scope.tables.get(star.table.lower(), Table())
    inner = star.this if isinstance(star, exp.Column) else star
    left_out = {column.name.lower() for column in inner.args.get("except_") or ()}
    names = None if table.names is None else table.names - left_out
    return replace(table, timed=table.timed - left_out, names=names)
