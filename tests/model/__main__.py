"""Prints, for a variant by name, the shortest schedule found that breaks the promise."""

from __future__ import annotations

import sys

from tests.model.schedules import play, search, shorten
from tests.model.variants import WRONG


def main(name: str) -> None:
    for variant in WRONG:
        if variant.name.split("-")[0] != name:
            continue
        assert variant.harm is not None
        violation, setting = search(variant)
        found = play(setting, shorten(setting, violation.history, variant.harm))
        print(variant.name, *getattr(found, "__notes__", ()), found, sep="\n", end="\n\n")


if __name__ == "__main__":
    main(sys.argv[1])
