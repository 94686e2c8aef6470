"""The words of the glossary are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from headrace.frontend.options import PIPELINE
from headrace.plan.stages import Stage

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| ")]
WORDS = [row[0].strip() for row in ROWS]


def test_a_word_is_explained_once() -> None:
    assert len(set(WORDS) - {"word"}) == len([word for word in WORDS if word != "word"])


def test_the_glossary_names_files_that_exist() -> None:
    source = ROOT / "src" / "headrace"
    for name in re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)`", TEXT):
        assert (source / name).exists(), name


def test_parts_of_a_pipeline_and_stages_of_a_plan_are_in_the_glossary() -> None:
    assert {"pipeline", "source", "transform", "step", "sink", "mode", "guarantee"} <= set(WORDS)
    assert {option.name for option in PIPELINE.options} - {"trigger", "spark"} <= set(WORDS)
    for stage in get_args(Stage):
        assert f"`{stage.__name__}`" in TEXT
