"""The Spark session of a shell: started at the first need, warm from then on, and interruptible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import HeadraceError
from headrace.project import Project
from headrace.runtime import failures, session
from headrace.spec import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_CANCEL_SECONDS = 0.2


class WarmSpark:
    """One session for all statements of a shell; each gets a child of it, with its own views.

    A session that is `given` belongs to the caller, and is not stopped here.
    """

    def __init__(
        self,
        project: Project,
        master: str | None,
        debug: bool,
        tell: Callable[[str], None],
        given: SparkSession | None = None,
    ) -> None:
        self._project = project
        self._master = master
        self._debug = debug
        self._tell = tell
        self._given = given
        self._started: SparkSession | None = None

    def do(self, action: str, work: Callable[[SparkSession], T]) -> T:
        """What `work` makes of a session; an error of Spark's comes back as one of ours.

        It is done in a thread of its own: Ctrl-C in the middle of a call to the JVM would leave the
        answer behind, and the next call would take it for its own. On Ctrl-C the jobs are cancelled
        and KeyboardInterrupt is raised when the work has ended.
        """
        spark = self._session()
        outcome: Future[T] = Future()

        def worker() -> None:
            try:
                outcome.set_result(work(session.adopt(spark)))
            except BaseException as error:
                outcome.set_exception(error)

        thread = threading.Thread(target=worker, name="headrace-select", daemon=True)
        thread.start()
        try:
            thread.join()
        except KeyboardInterrupt:
            while thread.is_alive():  # it may still be about to begin its next job
                spark.sparkContext.cancelAllJobs()
                thread.join(_CANCEL_SECONDS)
            raise
        try:
            return outcome.result()
        except HeadraceError:
            raise
        except Exception as error:
            raise failures.translate(error, action) from error

    def close(self) -> None:
        if self._started is not None:
            self._started.stop()
            self._started = None

    def _session(self) -> SparkSession:
        if self._given is not None:
            return self._given
        if self._started is None:
            self._tell("starting Spark …")
            self._started = session.start(self._settings(), self._log, self._debug)
        return self._started

    def _settings(self) -> list[Setting]:
        chosen = self._master or session.DEFAULT_MASTER
        master = Setting("spark.master", chosen, "--master")
        return session.standard(master, Setting("spark.app.name", "headrace sql", "its name"))

    @property
    def _log(self) -> Path:
        return self._project.ensure(self._project.states) / "sql.log"
