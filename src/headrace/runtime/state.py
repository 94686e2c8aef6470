"""A pipeline's folder under `.headrace/state/`: its lock, its checkpoints and its last report.

generation         a random name, made with the folder; ids of an earlier life do not count
lock               held while a process runs the pipeline, and holds that process's id
checkpoint/NAME    Spark's checkpoint of one query of a stream; begun anew, NAME@ID
resets.json        which `offset` options have been followed, and what has begun anew by them
claims.json        which ledgers have been claimed, and the ids of the topics then
schemas.json       what is known of the schemas of messages, by source and by key or value
losses.jsonl       records that were gone before they were read, and passed over
offsets            the Delta table of a batch pipeline's positions, unless it names another
journal.json       the latest run of a batch, kept before it writes anything
status.json        the latest report, for `headrace status`; replaced whole, never half-written
logs/spark.log     what the JVM says
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from headrace.errors import AlreadyRunning


@dataclass
class Status:
    """The latest report of a pipeline. `positions` are the next offsets to read, by group.

    A run that shares partitions has those that it `shares` in that group, and none after its end.
    """

    pipeline: str
    mode: str
    file: str
    state: str = "starting"
    pid: int = 0
    started: str | None = None
    ended: str | None = None
    batches: int = 0
    records: int = 0
    written: int = 0
    dead_letters: int = 0
    late: int = 0
    last_batch: dict[str, Any] | None = None
    positions: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    shares: str | None = None


@dataclass(frozen=True)
class Claims:
    """Of one query: the ids of its topics by their names, and whether all entries were claimed."""

    generation: str
    topics: Mapping[str, str] = field(default_factory=dict)
    done: bool = False


# One who asks whether a pipeline runs holds its lock for an instant.
_INSTANTS = (0.01, 0.05, 0.2)


def _take(file: IO[str]) -> None:
    for pause in _INSTANTS:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(pause)
    return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@dataclass(frozen=True)
class PipelineState:
    folder: Path

    @property
    def generation(self) -> str:
        file = self.folder / "generation"
        if not file.exists():
            file.write_text(uuid.uuid4().hex)
        return file.read_text().strip()

    def checkpoint(self, query: str) -> Path:
        return self.folder / "checkpoint" / query

    @property
    def offsets(self) -> Path:
        return self.folder / "offsets"

    @property
    def tables(self) -> Path:
        """Where tables are that have a name and no place of their own; all pipelines share it."""
        return self.folder.parent.parent / "tables"

    @property
    def resets(self) -> Path:
        return self.folder / "resets.json"

    def claims(self, query: str, generation: str) -> Claims:
        """What a query of this generation knows of its ledgers."""
        told = self._claims().get(query)
        return Claims(**told) if told and told["generation"] == generation else Claims(generation)

    def note_claims(self, query: str, claims: Claims) -> None:
        told = {**self._claims(), query: asdict(claims)}
        new = self.folder / "claims.json.new"
        new.write_text(json.dumps(told, indent=2))
        new.replace(self.folder / "claims.json")

    def _claims(self) -> dict[str, Any]:
        file = self.folder / "claims.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def schemas(self) -> dict[str, Any]:
        """What is known of the schemas of messages, as `note_schemas` was told it."""
        file = self.folder / "schemas.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def note_schemas(self, told: Mapping[str, Any]) -> None:
        new = self.folder / "schemas.json.new"
        new.write_text(json.dumps(told, indent=2))
        new.replace(self.folder / "schemas.json")

    def note_loss(self, source: str, lost: str) -> None:
        """Keep for later what was lost, as the run goes on without it."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with (self.folder / "losses.jsonl").open("a") as file:
            file.write(json.dumps({"at": now, "source": source, "lost": lost}) + "\n")

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "spark.log"

    @contextlib.contextmanager
    def lock(self, pipeline: str) -> Iterator[None]:
        """Held for a whole run; the kernel frees it however the process ends."""
        with (self.folder / "lock").open("a+") as file:
            try:
                _take(file)
            except OSError:
                file.seek(0)
                holder = file.read().strip()
                raise AlreadyRunning(pipeline, int(holder) if holder.isdigit() else 0) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def running(self) -> bool:
        """Whether a process holds the lock now."""
        try:
            with (self.folder / "lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def holder(self) -> int | None:
        """The process that runs the pipeline now, if it is known."""
        if not self.running():
            return None
        told = (self.folder / "lock").read_text().strip()
        return int(told) if told.isdigit() else None

    def read_status(self) -> Status | None:
        try:
            return Status(**json.loads((self.folder / "status.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write_status(self, status: Status) -> None:
        new = self.folder / "status.json.new"
        new.write_text(json.dumps(asdict(status), indent=2))
        new.replace(self.folder / "status.json")
