"""A process that ends a cluster when the program that uses it dies, however it dies.

`python -m headrace.cluster.guard FOLDER` waits until its standard input is closed, which the system
does when the owner of the other end is gone, killed or not; then it deletes the cluster of FOLDER.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """As long as this block, and this process, last, so does the cluster of `folder`."""
    with outlived_by([sys.executable, "-m", "headrace.cluster.guard", str(folder)]):
        yield


@contextmanager
def outlived_by(command: Sequence[str], cwd: Path | None = None) -> Iterator[None]:
    """Run a guard beside this block; its input is closed when the block ends or this process dies,
    and the block waits for what it then does.
    """
    guard = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        if guard.stdin:
            guard.stdin.close()
        guard.wait()


def main(folder: str) -> None:
    sys.stdin.buffer.read()
    # Only now: until it is needed, the guard shall cost next to nothing.
    from headrace.cluster.dev import DevCluster
    from headrace.project import Project

    DevCluster(Project(Path(folder))).delete()


if __name__ == "__main__":
    main(sys.argv[1])
