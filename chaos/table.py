"""The rows of a Delta table, read from its log and its files without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as parquet

from chaos.history import OFFSET, PARTITION, Source


def sources(table: Path) -> list[Source]:
    """Which record of the source each row was made of. Only for tables that are appended to."""
    found: list[Source] = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for text in commit.read_text().splitlines():
            added = json.loads(text).get("add")
            if added is not None:
                file = parquet.read_table(
                    table / unquote(added["path"]), columns=[PARTITION, OFFSET]
                )
                pairs = file.column(PARTITION).to_pylist(), file.column(OFFSET).to_pylist()
                found += zip(*pairs, strict=True)
    return found
