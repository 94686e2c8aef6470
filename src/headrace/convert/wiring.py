"""Which rows a step or a sink gets: said each time, as SQL needs it, or only where it must be.

In YAML `input` is the step before, and a sink without `from` writes the last step's rows. In SQL
every table is named. `explicit` and `implicit` turn one into the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headrace.convert.draft import Draft, Part
from headrace.frontend.resolve import INPUT
from headrace.frontend.sql.tables import bare
from headrace.model.query import Query
from headrace.spans import Edit, Span, edited

_NOWHERE = Span("", 1, 1)


def explicit(draft: Draft) -> Draft:
    """With a name for every table that is read."""
    steps = tuple(_explicit_step(step, before) for step, before in _with_previous(draft))
    return replace(
        draft, steps=steps, sinks=tuple(_from(sink, _last(draft)) for sink in draft.sinks)
    )


def implicit(draft: Draft) -> Draft:
    """Without `from` where it says what holds anyway."""
    steps = tuple(_without_from(step, before) for step, before in _with_previous(draft))
    sinks = tuple(_without_from(sink, _last(draft)) for sink in draft.sinks)
    return replace(draft, steps=steps, sinks=sinks)


def unread(draft: Draft) -> list[str]:
    """Sources and steps that nothing reads on the way to a sink, or to the last step."""
    whole = explicit(draft)
    wanted = {str(sink.values["from"]).lower() for sink in whole.sinks}
    if not whole.sinks:
        wanted = {output(whole).lower()}
    for step in reversed(whole.steps):
        if step.name.lower() in wanted:
            wanted |= {name.lower() for name in reads(step)}
    names = [part.name for part in (*whole.sources, *whole.steps)]
    return [name for name in names if name.lower() not in wanted]


def output(draft: Draft) -> str:
    """The rows that a pipeline without sinks is about."""
    return (*draft.sources, *draft.steps)[-1].name


def reads(step: Part) -> list[str]:
    """The tables that an explicit step reads."""
    if "sql" not in step.values:
        return [str(step.values["from"])]
    query, _ = Query.parse(str(step.values["sql"]), _NOWHERE)
    return list(query.tables) if query else []


def without_input(sql: str, name: str) -> str:
    """The author's SELECT with `name` where it reads `input`."""
    query, _ = Query.parse(sql, _NOWHERE)
    if query is None:
        return sql
    qualified = any(column.table.lower() == INPUT for column in query.tree.find_all(exp.Column))
    edits: list[Edit] = []
    for table in query.tree.find_all(exp.Table):
        own = isinstance(table.this, exp.Identifier) and not table.db
        if own and table.name.lower() == INPUT and "start" in table.this.meta:
            keep = f" AS {INPUT}" if qualified and not table.alias else ""
            place = table.this.meta
            edits.append(Edit(place["start"], place["end"] + 1, f"{bare(name)}{keep}"))
    return edited(sql, tuple(sorted(edits)))


def _with_previous(draft: Draft) -> Iterator[tuple[Part, str | None]]:
    before = draft.sources[0].name if len(draft.sources) == 1 else None
    for step in draft.steps:
        yield step, before
        before = step.name


def _last(draft: Draft) -> str | None:
    if draft.steps:
        return draft.steps[-1].name
    return draft.sources[0].name if len(draft.sources) == 1 else None


def _explicit_step(step: Part, before: str | None) -> Part:
    if "sql" not in step.values:
        return _from(step, before)
    sql = str(step.values["sql"])
    return replace(
        step, values={**step.values, "sql": without_input(sql, before) if before else sql}
    )


def _from(part: Part, default: str | None) -> Part:
    return replace(part, values={**part.values, "from": part.values.get("from", default)})


def _without_from(part: Part, default: str | None) -> Part:
    named = part.values.get("from")
    if named is None or default is None or str(named).lower() != default.lower():
        return part
    return replace(part, values={key: v for key, v in part.values.items() if key != "from"})
