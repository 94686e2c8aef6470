"""What the documentation shows is held against the code: YAML, commands, Python and links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.api import load
from headrace.cli.main import command_table
from headrace.frontend.load import examine
from headrace.spans import Severity

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *(page for page in ROOT.glob("docs/**/*.md")),
    *ROOT.glob("examples/*.md"),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(*languages: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for language, body in _BLOCK.findall(page.read_text()):
            if language in languages:
                yield str(page.relative_to(ROOT)), body


def _commands() -> Iterator[tuple[str, list[str]]]:
    for page, body in _blocks(""):
        for line in body.splitlines():
            for part in re.split(r"[|>]", line):
                words = shlex.split(part.strip(), comments=True)
                if words[:1] == ["headrace"]:
                    yield page, words[1:]


@pytest.mark.parametrize(("page", "text"), list(_blocks("yaml")))
def test_a_pipeline_in_the_documentation_has_no_fault(
    page: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in re.findall(r"\$\{env:(\w+)\}", text):
        monkeypatch.setenv(variable, "set")
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    _, found = examine(file)
    assert [fault for fault in found if fault.severity is Severity.ERROR] == [], page


@pytest.mark.parametrize(("page", "text"), list(_blocks("sql")))
def test_sql_in_the_documentation_has_no_fault(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.sql"
    file.write_text(text)
    found = load(file).check()
    assert [fault for fault in found if fault.severity is Severity.ERROR] == [], page


@pytest.mark.parametrize(("page", "text"), list(_blocks("python")))
def test_python_in_the_documentation_compiles(page: str, text: str) -> None:
    compile(text, page, "exec")


@pytest.mark.parametrize(("page", "words"), list(_commands()))
def test_a_command_in_the_documentation_exists_with_its_options(
    page: str, words: list[str]
) -> None:
    """Every word is parsed by the command itself; only its work is left out."""
    import typer.main

    if words[0].isupper() or "[" in " ".join(words):
        return
    command = typer.main.get_command(command_table(words))
    context = command.make_context("headrace", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        arguments = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, arguments)
        assert command is not None, (page, words)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), (page.name, target)


def test_the_readme_fits_its_length() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_decision_is_listed() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        assert f"({page.name})" in listed
