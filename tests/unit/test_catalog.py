"""The catalog: kept between processes, changed as a whole, its owner's alone."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from headrace.catalog import Catalog
from headrace.errors import CatalogUnavailable
from headrace.project import Project


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.of(Project(tmp_path))


def names(catalog: Catalog) -> list[str]:
    return [entry.name for entry in catalog.entries()]


def test_to_look_makes_no_file(catalog: Catalog) -> None:
    assert catalog.entries() == []
    assert catalog.secret("s") is None
    assert not catalog.file.parent.exists()


def test_what_is_put_is_there_for_the_next_one(catalog: Catalog, tmp_path: Path) -> None:
    catalog.put("table", "Orders", "CREATE TABLE Orders …")
    catalog.put_secret("pw", "hunter2", None)
    other = Catalog.of(Project(tmp_path))
    assert names(other) == ["Orders"]
    assert other.secret("PW") == "hunter2"
    assert stat.S_IMODE(catalog.file.stat().st_mode) == 0o600


def test_a_new_text_keeps_the_state_and_the_place(catalog: Catalog) -> None:
    catalog.put("pipeline", "one", "first")
    catalog.put("pipeline", "two", "…")
    catalog.set_state("one", "paused")
    catalog.put("pipeline", "ONE", "second")
    entry = catalog.entry("one")
    assert entry is not None
    assert (entry.name, entry.text, entry.state) == ("ONE", "second", "paused")
    assert names(catalog) == ["ONE", "two"]


def test_a_change_that_fails_leaves_nothing(catalog: Catalog) -> None:
    catalog.put("table", "kept", "…")
    change = catalog.changing()
    inside = change.__enter__()
    inside.put("table", "lost", "…")
    inside.put_secret("s", "v", None)
    assert names(inside) == ["kept", "lost"]
    assert not change.__exit__(KeyError, KeyError(), None)
    assert names(catalog) == ["kept"]
    assert catalog.secrets() == []


def test_others_read_while_one_changes(catalog: Catalog) -> None:
    """Also while the very first change makes the file."""
    with catalog.changing() as inside:
        inside.put("table", "t", "…")
        assert names(Catalog(catalog.file)) == []
    assert names(Catalog(catalog.file)) == ["t"]


def test_changes_of_several_shells_come_one_after_the_other(catalog: Catalog) -> None:
    """Each reads the number of entries and puts the next: none is lost, none comes twice."""

    def work() -> None:
        mine = Catalog(catalog.file)
        for _ in range(10):
            with mine.changing() as inside:
                inside.put("table", f"t{len(inside.entries())}", "…")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert names(catalog) == [f"t{number}" for number in range(40)]


def test_a_file_that_is_no_catalog_is_one_sentence(catalog: Catalog) -> None:
    catalog.file.parent.mkdir()
    catalog.file.write_text("something else entirely, and long enough to be looked at")
    with pytest.raises(CatalogUnavailable, match="file is not a database"):
        catalog.entries()
    with pytest.raises(CatalogUnavailable), catalog.changing():
        pass


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".headrace").write_text("in the way")
    with pytest.raises(CatalogUnavailable, match="exists"):
        Catalog.of(Project(tmp_path)).put("table", "t", "…")


def test_a_secret_may_be_in_the_environment(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.put_secret("pw", None, "KAFKA_PW")
    assert catalog.secret("pw") is None
    monkeypatch.setenv("KAFKA_PW", "from outside")
    assert catalog.secret("pw") == "from outside"
    catalog.remove_secret("PW")
    assert catalog.secret("pw") is None
