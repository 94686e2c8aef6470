"""Modules beside a pipeline file, imported here and shipped elsewhere."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.modules import Modules


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    before = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = before[0]
    for name in set(sys.modules) - before[1]:
        del sys.modules[name]


def beside(folder: Path, **texts: str) -> Modules:
    """Modules by name; `__` in a name is a folder."""
    for name, text in texts.items():
        file = folder / (name.replace("__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Modules.beside(str(folder / "pipeline.yaml"))


def test_modules_find_each_other_and_packages(tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("from .sums import add\n")
    found = beside(
        tmp_path, kit__sums="def add(a, b): return a + b\n", hr_shop="import kit\nadd = kit.add\n"
    )
    assert found.load("hr_shop.add")(1, 2) == 3  # type: ignore[operator]
    assert {module.__name__ for module in found.loaded} == {"kit", "kit.sums", "hr_shop"}
    assert sys.modules["kit.sums"].__file__ == str(tmp_path / "kit" / "sums.py")


def test_the_files_need_not_be_there_any_more(tmp_path: Path) -> None:
    shipped = pickle.dumps(beside(tmp_path, hr_shop="NAME = 'shop'\n"))
    (tmp_path / "hr_shop.py").unlink()
    assert pickle.loads(shipped).load("hr_shop.NAME") == "shop"


def test_a_module_that_was_edited_is_read_anew(tmp_path: Path) -> None:
    assert beside(tmp_path, hr_shop="N = 1\n").load("hr_shop.N") == 1
    assert beside(tmp_path, hr_shop="N = 2\n").load("hr_shop.N") == 2


def test_a_module_that_was_not_edited_keeps_what_it_holds(tmp_path: Path) -> None:
    first = beside(tmp_path, hr_shop="held = []\n").load("hr_shop.held")
    assert beside(tmp_path).load("hr_shop.held") is first


def test_modules_of_another_folder_do_not_stand_in(tmp_path: Path) -> None:
    assert beside(tmp_path / "a", hr_shop="N = 'a'\n").load("hr_shop.N") == "a"
    assert beside(tmp_path / "b", hr_shop="N = 'b'\n").load("hr_shop.N") == "b"
    with pytest.raises(ModuleNotFoundError):
        beside(tmp_path / "c", hr_other="").load("hr_shop.N")


def test_what_is_not_beside_the_file_is_imported_as_usual(tmp_path: Path) -> None:
    found = beside(tmp_path, json="dumps = None\n")
    assert found.load("string.digits") == "0123456789"
    assert found.load("json.dumps") is not None  # imported before, and not by us


def test_a_module_that_fails_tells_its_line(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        beside(tmp_path, hr_shop="\n1 / 0\n").load("hr_shop.N")
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(tmp_path / "hr_shop.py"), 2)
