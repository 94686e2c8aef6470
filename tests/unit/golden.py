"""Golden files: what is expected, kept as text and written anew on demand."""

from __future__ import annotations

import os
from pathlib import Path

UPDATE = "HEADRACE_UPDATE_GOLDEN"


def check(path: Path, text: str) -> None:
    """`text` must be what `path` holds; with HEADRACE_UPDATE_GOLDEN=1 the file is written."""
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing; write it with {UPDATE}=1 and look at it"
    assert text == path.read_text(encoding="utf-8")
