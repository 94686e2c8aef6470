"""START, STOP, PAUSE and RESUME PIPELINE, and what is asked of a pipeline while it is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.catalog import Catalog
from headrace.errors import WrongState
from headrace.project import Project
from headrace.runtime.state import PipelineState
from headrace.shell import processes
from headrace.shell.processes import Launched
from headrace.shell.result import Result
from headrace.spec import Option, Options, Spec, Type

START = Spec(
    "statement",
    "START PIPELINE",
    "What START and RESUME PIPELINE take after WITH.",
    (
        Option(
            "once",
            Type.FLAG,
            "A stream: read all that is there now, and end. The statement waits for it.",
            default=False,
        ),
        Option(
            "reset_offsets",
            Type.FLAG,
            "Follow `offset` of the sources once more.",
            default=False,
        ),
        Option(
            "accept_schema",
            Type.FLAG,
            "Take the columns of sources that go by a registry from its newest schema, though "
            "`schema_evolution` does not allow it.",
            default=False,
        ),
        Option("master", Type.TEXT, "Spark master, as `--master` of `headrace run`."),
    ),
)

STARTED, STOPPED, PAUSED = "started", "stopped", "paused"


@dataclass
class Controls:
    """Starts and ends the processes of one project's pipelines, and notes in the catalog what was
    last asked of each.
    """

    project: Project
    catalog: Catalog
    master: str | None
    debug: bool
    tell: Callable[[str], None]
    # Kept, so that the end of each is noticed as long as this shell lives.
    _launched: list[Launched] = field(default_factory=list)

    def state(self, name: str) -> PipelineState:
        return PipelineState(self.project.state(name))

    def start(self, name: str, options: Options) -> Result:
        master = options["master"] or self.master
        words = [
            *(["--once"] if options["once"] else []),
            *(["--reset-offsets"] if options["reset_offsets"] else []),
            *(["--accept-schema"] if options["accept_schema"] else []),
            *(["--master", master] if master else []),
        ]
        launched = processes.launch(self.project, name, *words, debug=self.debug)
        self._launched.append(launched)
        self.tell(f"{name}: starting as process {launched.pid} …")
        if options["once"]:
            return self._to_its_end(launched)
        self.catalog.set_state(name, STARTED)
        if self._runs(launched):
            note = f"{name} runs as process {launched.pid}; STOP PIPELINE {name} ends it"
            return Result(note=f"{note}. Its log: {launched.log}")
        return self._to_its_end(launched)

    def resume(self, name: str, options: Options) -> Result:
        entry = self.catalog.entry(name)
        if entry is None or entry.state != PAUSED:
            hint = f"only a paused pipeline is resumed; START PIPELINE {name}"
            raise WrongState(name, "is not paused", hint)
        return self.start(name, options)

    def stop(self, name: str) -> Result:
        pid = self._end(name)
        self.catalog.set_state(name, STOPPED)
        if pid is None:
            return Result(note=f"{name} was not running")
        return Result(note=f"{name} has stopped (process {pid}); START goes on where it was")

    def pause(self, name: str) -> Result:
        pid = self._end(name)
        if pid is None:
            raise WrongState(name, "does not run", f"START PIPELINE {name}")
        self.catalog.set_state(name, PAUSED)
        return Result(note=f"{name} is paused (process {pid} has ended); RESUME goes on with it")

    def _end(self, name: str) -> int | None:
        if self.state(name).running():
            self.tell(f"{name}: finishing the batch in hand …")
        return processes.stop(name, self.state(name))

    def _runs(self, launched: Launched) -> bool:
        try:
            return launched.await_start()
        except KeyboardInterrupt:
            name = launched.pipeline
            self.tell(f"{name}: goes on as process {launched.pid}; STOP PIPELINE {name} ends it")
            raise

    def _to_its_end(self, launched: Launched) -> Result:
        """Ctrl-C stops the run in order, too, and waits for it; a second one waits no longer."""
        try:
            summary = launched.await_end()
        except KeyboardInterrupt:
            launched.stop()
            summary = launched.await_end()
        self.catalog.set_state(launched.pipeline, STOPPED)
        return Result(note=f"{launched.pipeline} has ended: {_sums(summary)}")


def _sums(summary: dict[str, int]) -> str:
    records, written, bad = (summary.get(name, 0) for name in ("records", "written", "bad"))
    return f"{records:,} records in, {written:,} rows out, {bad:,} bad records"
