"""What is remembered of positions that were moved, and what a checkpoint tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.errors import DefinitionError
from headrace.runtime.checkpoints import Checkpoint, lowest
from headrace.runtime.resets import Begun, Resets, due

LARGE = 3_000_000_000


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "resets.json"
    assert Resets.read(file) == Resets()
    noted = Resets(
        {"source": "wish"},
        {"main": Begun({"source": {("orders", 0): LARGE, ("orders", 1): 0}})},
        {"other": {("returns", 3): 7}},
    )
    noted.write(file)
    assert Resets.read(file) == noted
    assert [path.name for path in tmp_path.iterdir()] == ["resets.json"]


def test_a_wish_is_due_once_until_it_changes() -> None:
    followed = Resets({"a": "beginning", "b": "end"})
    asked = {"a": "beginning", "b": "int", "c": "end"}
    assert due(asked, followed, again=False) == {"b", "c"}
    assert due(asked, followed, again=True) == {"a", "b", "c"}
    with pytest.raises(DefinitionError, match="offset"):
        due({}, followed, again=True)


def _checkpoint(folder: Path, batches: list[dict[str, dict[str, int]]], done: int) -> Checkpoint:
    for name in ("offsets", "commits", "sources/0", "sources/1"):
        (folder / name).mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_text('\0v1\n{"a":{"0":5}}')
    (folder / "sources" / "1" / "0").write_text('{"sourceVersion":1,"reservoirId":"x"}')
    for number, offsets in enumerate(batches):
        lines = ["v1", '{"batchWatermarkMs":0}', json.dumps(offsets), '{"sourceVersion":1}', "-"]
        (folder / "offsets" / str(number)).write_text("\n".join(lines))
        if number < done:
            (folder / "commits" / str(number)).write_text("v1\n{}")
            (folder / "commits" / f".{number}.crc").write_text("")
    return Checkpoint(folder)


def test_a_checkpoint_stands_where_its_last_finished_batch_ends(tmp_path: Path) -> None:
    batches = [{"a": {"0": 8}}, {"a": {"0": LARGE, "1": 4}}, {"a": {"0": LARGE + 9}}]
    checkpoint = _checkpoint(tmp_path, batches, done=2)
    assert lowest(checkpoint.stands()) == {("a", 0): LARGE, ("a", 1): 4}
    assert lowest(checkpoint.before(1)) == {("a", 0): 8}
    assert checkpoint.begun
    assert checkpoint.cut_off
    assert not checkpoint.stateful


def test_before_its_first_batch_a_checkpoint_stands_where_it_began(tmp_path: Path) -> None:
    checkpoint = _checkpoint(tmp_path, [{"a": {"0": 8}}], done=0)
    assert lowest(checkpoint.stands()) == {("a", 0): 5}
    assert checkpoint.cut_off
    nothing = Checkpoint(tmp_path / "none")
    assert lowest(nothing.stands()) == {}
    assert not nothing.begun


def test_of_two_readers_of_a_partition_the_slower_one_counts() -> None:
    assert lowest(({("a", 0): 7, ("a", 1): 2}, {("a", 0): 4})) == {("a", 0): 4, ("a", 1): 2}
