"""Which columns of a query a watermark follows, as Spark would have it.

A plain column keeps it; `window`, `session_window` and `window_time` of such a column keep it;
every other expression loses it. For `model.stateful`, which asks what a stream must remember.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.model.functions import AGGREGATES, TIME_WINDOWS
from headrace.model.query import function_name


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


class Scope:
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


def sums(node: exp.Select) -> bool:
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


def group_keys(node: exp.Select, scope: Scope) -> Iterator[exp.Expr]:
    """What is grouped by, with numbers and aliases replaced by what they stand for."""
    group = node.args.get("group")
    if group is None:
        return
    if group.args.get("all"):
        yield from (each.unalias() for each in node.expressions if not _has_aggregate(each))
        return
    for key in group.expressions:
        yield from _key(key, node, scope)


def _key(key: exp.Expr, node: exp.Select, scope: Scope) -> Iterator[exp.Expr]:
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


def _behind_alias(key: exp.Expr, node: exp.Select, scope: Scope) -> exp.Expr:
    names = scope.merged().names
    if not isinstance(key, exp.Column) or key.table or (names and key.name.lower() in names):
        return key
    for each in node.expressions:
        if isinstance(each, exp.Alias) and each.alias.lower() == key.name.lower():
            return each.unalias()
    return key


def several_groupings(node: exp.Select) -> bool:
    """Whether it has ROLLUP or its like, which make rows without a time, too."""
    group = node.args.get("group")
    return group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None


def follows(node: exp.Expr, scope: Scope) -> bool | None:
    """Whether the watermark follows the value of an expression."""
    if isinstance(node, exp.Paren | exp.Alias):
        return follows(node.this, scope)
    if isinstance(node, exp.Column):
        return scope.timing(node)
    if function_name(node) in TIME_WINDOWS | {"window_time"} and node.expressions:
        return follows(node.expressions[0], scope)
    return False


def final_after(key: exp.Expr) -> str:
    name = function_name(key)
    if name == "session_window":
        return "the watermark has passed the end of the session"
    return f"the watermark has passed {'its end' if name == 'window' else f'`{shown(key)}`'}"


def shown(key: exp.Expr) -> str:
    # The dialect that has paths of a VARIANT, `a:b`, as they are written.
    return key.sql("databricks", comments=False, normalize_functions=False)


def projected(node: exp.Select, scope: Scope) -> Table:
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
        if follows(_grouped(node, projection) or projection, scope):
            timed.add(name)
    opaque = any(table.opaque for table in scope.tables.values())
    known = frozenset(names) if names is not None else None
    return Table(frozenset(timed), opaque, known, summed=scope.merged().summed)


def _grouped(node: exp.Select, projection: exp.Expr) -> exp.Expr | None:
    """The call in GROUP BY that the column `window` or `session_window` comes from."""
    group = node.args.get("group")
    if group is None or not isinstance(projection, exp.Column) or projection.table:
        return None
    calls = group.find_all(exp.Anonymous)
    name = projection.name.lower()
    named = (call for call in calls if function_name(call) == name)
    return next(named, None) if name in TIME_WINDOWS else None


def _starred(star: exp.Expr, scope: Scope) -> Table:
    table = scope.merged()
    if isinstance(star, exp.Column) and star.table:
        table = scope.tables.get(star.table.lower(), Table())
    inner = star.this if isinstance(star, exp.Column) else star
    left_out = {column.name.lower() for column in inner.args.get("except_") or ()}
    names = None if table.names is None else table.names - left_out
    return replace(table, timed=table.timed - left_out, names=names)
