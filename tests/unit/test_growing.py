"""Files that grow: which file it is, where its lines end, and the lines themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import growing

LINES = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8)


@given(LINES, st.binary(max_size=5).filter(lambda rest: b"\n" not in rest))
def test_a_block_is_split_into_its_complete_lines(lines: list[bytes], rest: bytes) -> None:
    block = b"".join(line + b"\n" for line in lines) + rest
    values, starts = growing.split(block)
    assert values.to_pylist() == [line.removesuffix(b"\r") for line in lines]
    assert list(starts) == [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]


@given(lines=LINES, task=st.integers(1, 20), block=st.integers(1, 9))
def test_pieces_of_a_file_have_each_line_once(
    lines: list[bytes], task: int, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However a file is cut for tasks, and however much each holds in memory."""
    path = tmp_path_factory.mktemp("log") / "a.log"
    lines = [b"first", *lines]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    number = growing.identity(str(path))
    assert number is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "TASK_BYTES", task)
        patch.setattr(growing, "BLOCK_BYTES", block)
        end = growing.complete(str(path))
        assert end == path.stat().st_size
        batches = [
            batch
            for piece in growing.pieces(str(path), number, 0, end)
            for batch in growing.read(piece)
        ]
    read = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert read == [line.removesuffix(b"\r") for line in lines]
    offsets = [value for batch in batches for value in batch.column("offset").to_pylist()]
    assert offsets == [sum(len(line) + 1 for line in lines[:i]) for i in range(len(lines))]
    assert {value for batch in batches for value in batch.column("partition").to_pylist()} == {
        number
    }


def test_a_file_is_known_by_its_first_line_and_keeps_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    assert growing.identity(str(path)) is None
    path.write_bytes(b"beg")
    assert growing.identity(str(path)) is None
    path.write_bytes(b"begin\n")
    number = growing.identity(str(path))
    assert number is not None
    with path.open("ab") as file:
        file.write(b"more\n" * 1000)
    assert growing.identity(str(path)) == number
    path.rename(tmp_path / "app.log.1")
    path.write_bytes(b"begin\n")
    assert growing.identity(str(path)) != number
    assert growing.locate(str(path), number) == str(tmp_path / "app.log.1")
    (tmp_path / "app.log.1").write_bytes(b"another\n")
    assert growing.locate(str(path), number) is None
    assert growing.locate(str(tmp_path / "gone" / "app.log"), number) is None


def test_a_file_that_was_replaced_is_not_read_as_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    number = growing.identity(str(path))
    assert number is not None
    path.write_bytes(b"new\n")
    with pytest.raises(FileNotFoundError, match="replaced"):
        list(growing.read(growing.Piece(str(path), number, 0, 4)))


def test_where_the_last_complete_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "BLOCK_BYTES", 3)
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntwo\nincomplete")
    assert growing.complete(str(path)) == 8
    assert growing.complete(str(path), 4) == 8
    assert growing.complete(str(path), 8) == 8
    assert growing.complete(str(path), 10) == 10
    assert growing.line_after(str(path), -5) == 0
    assert growing.line_after(str(path), 1) == 4
    assert growing.line_after(str(path), 4) == 4


def test_files_made_in_a_row_whose_first_lines_count_up_are_all_told_apart(tmp_path: Path) -> None:
    """A checksum of inode and line gave many of them the same number."""
    numbers = set()
    for count in range(256):
        file = tmp_path / f"{count}.log"
        file.write_text(f"{count}\n")
        numbers.add(growing.identity(str(file)))
    assert len(numbers) == 256
