"""The plan of a run with what registries know, bound anew while it runs.

Before a batch is written its registries are asked for new versions. A producer registers a schema
before it sends a message with it, and the end of a batch is noted before the registry is asked: so
every version that the batch can hold is known then. A stream holds the batch back
(`hold_back`) and begins it again with the new plan, from the same offsets; other runs bind their
plan first (`refresh`) and write then. A schema of another subject is met by a task: the batch
fails with NewSchema, `renew` asks for it, and the batch is done again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.errors import HeadraceError, NewSchema
from headrace.plan.stages import Plan, Query
from headrace.runtime.failpoints import reach
from headrace.runtime.schemas import SourceSchemas


class HeldBack(Exception):
    """A batch whose query was begun with schemas that are not the newest; nothing is written."""


class Binding:
    """One for each run. `hold_back` may be called by several queries at once."""

    def __init__(self, plan: Plan, schemas: SourceSchemas) -> None:
        self._schemas = schemas
        self._lock = threading.Lock()
        self._outdated = False
        self._met: set[tuple[str, str, str]] = set()
        self._with_sinks: Callable[[Plan], Plan] | None = None
        self.plan = schemas.bound(plan)

    def write_by(self, with_sinks: Callable[[Plan], Plan]) -> None:
        """From now on the plan also has the schemas of its sinks, which follow its columns.

        They need Spark, and so come after those of the sources.
        """
        self._with_sinks = with_sinks
        self.plan = with_sinks(self.plan)

    def query(self, name: str) -> Query:
        """A query as it is now."""
        return next(query for query in self.plan.queries if query.name == name)

    def hold_back(self) -> None:
        """Raises HeldBack where the plan is outdated, and IncompatibleChange where that ends a run.

        What is found by one query holds for all: their frames were built with the same plan.
        """
        with self._lock:
            self._look()
            if self._outdated:
                raise HeldBack

    def refresh(self) -> None:
        """Take up what is new, for runs that build their frames afterwards."""
        self._look()
        if self._outdated:
            self._bind()

    def renew(self, failure: HeadraceError | None) -> bool:
        """Whether the plan is another one now, so that what ended is to be begun again at once.

        An id that was asked for and comes again is a failure like others.
        """
        if isinstance(failure, NewSchema):
            met = (failure.source, failure.part, failure.id)
            if met in self._met:
                return False
            self._schemas.learn(self.plan, failure)
            self._met.add(met)
            self._outdated = True
        if self._outdated:
            self._bind()
            return True
        return False

    def _look(self) -> None:
        # A plan that could not be bound stays outdated, though nothing is new any more.
        self._outdated = self._schemas.refresh(self.plan) or self._outdated

    def _bind(self) -> None:
        reach("schema.kept")
        plan = self._schemas.bound(self.plan)
        self.plan = self._with_sinks(plan) if self._with_sinks is not None else plan
        self._outdated = False
