"""The project folder: where a pipeline's state and the development cluster live on disk.

Everything Headrace keeps is under `.headrace/` in one folder. That folder is found the way git
finds its own: upwards from a starting point, so that a pipeline has one state however it is named
on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATE_FOLDER = ".headrace"


@dataclass(frozen=True)
class Project:
    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The nearest folder at or above `start` that has `.headrace`, else `start`."""
        start = (start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / STATE_FOLDER).is_dir():
                return cls(folder)
        return cls(start)

    @property
    def dev(self) -> Path:
        return self.root / STATE_FOLDER / "dev"

    @property
    def states(self) -> Path:
        return self.root / STATE_FOLDER / "state"

    @property
    def catalog(self) -> Path:
        return self.root / STATE_FOLDER / "catalog.db"

    @property
    def history(self) -> Path:
        """What was typed into the shell."""
        return self.root / STATE_FOLDER / "sql_history"

    def state(self, pipeline: str) -> Path:
        return self.states / pipeline

    def ensure(self, folder: Path) -> Path:
        """Make `folder` below `.headrace`, which keeps itself out of version control."""
        folder.mkdir(parents=True, exist_ok=True)
        ignore = self.root / STATE_FOLDER / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        return folder
