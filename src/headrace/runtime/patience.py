"""How long a run goes on after failures that may pass: with growing pauses, and not for ever."""

from __future__ import annotations

import threading
import time

from headrace.errors import HeadraceError
from headrace.runtime.progress import Listener, Retrying

# How long a run that makes no progress goes on trying before it gives up.
PATIENCE_SECONDS = 600
# A run that has lasted this long was well, even where there was nothing to read.
HEALTHY_SECONDS = 120
LONGEST_PAUSE = 30.0


class Patience:
    """One for each run; a pause ends early when `stop` is set."""

    def __init__(self, listener: Listener, stop: threading.Event) -> None:
        self._tell = listener
        self._stop = stop
        self._attempt = 0
        self._failing_since = time.monotonic()
        self._began = time.monotonic()

    def begin(self) -> None:
        """An attempt begins."""
        self._began = time.monotonic()

    def failed(self, failure: HeadraceError, progressed: bool) -> bool:
        """Pauses; whether to go on afterwards. A failure that will not pass is raised."""
        now = time.monotonic()
        if progressed or now - self._began > HEALTHY_SECONDS or self._attempt == 0:
            self._attempt, self._failing_since = 0, now
        if not failure.retry or now - self._failing_since > PATIENCE_SECONDS:
            raise failure
        self._attempt += 1
        pause = min(2.0 ** (self._attempt - 1), LONGEST_PAUSE)
        self._tell(Retrying(f"{failure.code} {failure}", self._attempt, pause))
        return not self._stop.wait(pause)
