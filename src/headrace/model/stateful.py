"""What a stream has to remember for a SELECT, and what it cannot do at all; found without Spark.

`read` goes through one query with the tables that it reads. Who calls it: `plan.stateful`, step by
step. Where something can be told only by Spark, nothing is refused, and a run says what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sqlglot import exp

from headrace.model.query import Query, function_name
from headrace.model.stream_joins import Sides, bounds, conjuncts, has_equality
from headrace.model.timing import (
    Scope,
    Table,
    final_after,
    follows,
    group_keys,
    projected,
    several_groupings,
    shown,
    sums,
)
from headrace.spans import Diagnostic, Span


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
        scope = Scope()
        source = node.args.get("from_")
        if source is not None:
            self._add(scope, source.this, node.args.get("joins") or (), known, node)
        if all(table.static for table in scope.tables.values()):
            return Table(static=True)
        self._check_subqueries(node, known)
        table = projected(node, scope)
        if sums(node):
            self._aggregate(node, scope)
            table = replace(table, summed=True)
        if node.args.get("distinct") is not None:
            self._distinct(node, table)
        return table

    # Tables of FROM and JOIN

    def _add(
        self,
        scope: Scope,
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
            inside = Scope()
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
        self, join: exp.Join, scope: Scope, name: str, right: Table, select: exp.Select | None
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
        sides = Sides(scope, name, right)
        # What stands in WHERE counts as well where only pairs come out.
        where = select.args.get("where") if select is not None and not how else None
        conditions = [*conjuncts(join.args.get("on")), *conjuncts(where and where.this)]
        if not has_equality(join, conditions, sides):
            self._fault(
                join,
                "streams are joined by equal columns, and there are none in this join",
                "add `ON a.column = b.column`",
            )
            return
        self._keep_join(join, how, sides, conditions)

    def _keep_join(
        self, join: exp.Join, how: str, sides: Sides, conditions: list[exp.Expr]
    ) -> None:
        bounded = bounds(join, conditions, sides)
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

    def _aggregate(self, node: exp.Select, scope: Scope) -> None:
        keys = list(group_keys(node, scope))
        times = [follows(key, scope) for key in keys]
        final = True if True in times else (None if None in times else False)
        if several_groupings(node):
            final = False
        sessions = [key for key in keys if function_name(key) == "session_window"]
        if sessions and (final is False or len(keys) == 1):
            self._refuse_sessions(sessions[0], len(keys))
            return
        what = f"one row for each {', '.join(shown(key) for key in keys)}" if keys else "one row"
        until = None
        if final:
            until = final_after(keys[times.index(True)])
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
