"""When a join of two streams can forget a row: by the times that its condition lets match.

Spark keeps the rows of both sides until the watermark has passed every time that could still
match. `bounds` says which sides that ever happens for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from headrace.model.timing import Scope, Table


@dataclass(frozen=True)
class Sides:
    """The two sides of a join: all tables so far, and the one that is added as `name`."""

    scope: Scope
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
        both = Scope()
        both.tables = {**self.scope.tables, self.name: self.right}
        return both.timing(column)


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """What must all hold, one by one."""
    if isinstance(node, exp.And):
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    elif isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif node is not None:
        yield node


def has_equality(join: exp.Join, conditions: list[exp.Expr], sides: Sides) -> bool:
    if join.args.get("using") or join.method == "NATURAL":
        return True
    for condition in conditions:
        if isinstance(condition, exp.EQ | exp.NullSafeEQ):
            found = sides.of(condition.left), sides.of(condition.right)
            if None in found[0] | found[1] or {*map(frozenset, found)} == _APART:
                return True
    return False


_APART = {frozenset({"left"}), frozenset({"right"})}


def bounds(
    join: exp.Join, conditions: list[exp.Expr], sides: Sides
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


def _equal_times(condition: exp.Expr, sides: Sides) -> bool:
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


def _has_time(node: exp.Expr, sides: Sides) -> bool:
    return any(sides.timing(column) for column in node.find_all(exp.Column))
