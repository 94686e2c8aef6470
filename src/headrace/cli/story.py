"""What `explain` tells, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def story_lines(story: Mapping[str, Any]) -> Iterator[str]:
    """Stages with their settings, in the order in which they are done."""
    yield f"{story['pipeline']} ({story['mode']})"
    yield from _section("before the first batch", story["before"])
    for query in story["queries"]:
        yield ""
        yield f"query {query['name']}"
        for stage in query["stages"]:
            yield f"  {stage['stage']:<9} {stage['does']}"
            yield from _settings(stage["settings"], " " * 12)
        yield from (f"  {line}" for line in query["state"])
    yield from _section("side by side", story["side_by_side"])
    yield from _section("position", story["position"])
    promises = [f"{p['delivered']}: {p['target']} ({p['because']})" for p in story["promise"]]
    yield from _section("promise", promises)
    yield ""
    yield "Spark"
    yield from _settings(story["spark"], "  ")


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"  {line}" for line in lines)


def _settings(settings: list[dict[str, str]], indent: str) -> Iterator[str]:
    width = max((len(s["name"]) + len(s["value"]) for s in settings), default=0) + 3
    for setting in settings:
        yield f"{indent}{setting['name'] + ' = ' + setting['value']:<{width}}  {setting['origin']}"
