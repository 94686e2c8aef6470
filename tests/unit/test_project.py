"""The project folder and what is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.project import STATE_FOLDER, Project


def test_a_project_is_found_upwards_from_where_one_stands(tmp_path: Path) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (tmp_path / STATE_FOLDER).mkdir()
    assert Project.find(inside).root == tmp_path.resolve()


def test_without_a_state_folder_the_project_is_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Project.find().root == tmp_path.resolve()


def test_a_file_of_that_name_makes_no_project(tmp_path: Path) -> None:
    inside = tmp_path / "a"
    inside.mkdir()
    (tmp_path / STATE_FOLDER).write_text("")
    assert Project.find(inside).root == inside.resolve()


def test_the_state_folder_keeps_itself_out_of_version_control(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.ensure(project.state("orders")) == tmp_path / STATE_FOLDER / "state" / "orders"
    assert project.state("orders").is_dir()
    assert (tmp_path / STATE_FOLDER / ".gitignore").read_text() == "*\n"
