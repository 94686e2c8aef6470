"""Set up a clone of Headrace: `make setup`. Runs on any Python, to say so when it is too old.

The work is in `install.py`, which needs a new enough one; nothing here may use newer syntax.
"""
# ruff: noqa: UP031, RUF005, PTH100, PTH120

import os
import sys

OLDEST = (3, 11)


def main():
    if sys.version_info < OLDEST:
        sys.exit(
            "Headrace needs Python %d.%d or newer, and %s is %d.%d; name a newer one: "
            "make setup PYTHON=python3.12" % (OLDEST + (sys.executable,) + sys.version_info[:2])
        )
    import install

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(install.main(folder))


if __name__ == "__main__":
    main()
