"""The Spark session that pipelines run in: started by us, or brought by the caller.

`settings` needs no Spark, so `explain` can show what a session will be started with. The JVM's own
output goes to a file from its first line on; nothing of it reaches the terminal.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cluster import jars, java
from headrace.errors import SparkFailed
from headrace.model.pipeline import Pipeline
from headrace.plan.tasks import cores, is_local, local_tasks
from headrace.runtime import class_archive
from headrace.spec import Setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
FEW_CORES = 2
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# What a pipeline relies on, in a session of the caller's own too.
_RELIED_ON = (
    # Spark's older interface writes to Kafka where no counter of rows can see it.
    Setting(
        "spark.sql.sources.useV1SourceList",
        "avro,csv,json,orc,parquet,text",
        "Kafka by Spark's newer interface, which counts rows",
    ),
    # `${…}` in the SQL of a step would be replaced by settings and properties of the JVM.
    Setting("spark.sql.variable.substitute", "false", "SQL is taken as it is written"),
    # A checkpoint keeps the kind of store that it was begun with.
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "what a stream remembers is kept outside the heap",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "a batch writes what it has changed of it",
    ),
)


def settings(pipeline: Pipeline, master: str | None = None) -> tuple[Setting, ...]:
    """What Spark is started with, the pipeline's own properties last.

    A `master` of None was not asked for, so that `executor_count` may decide it.
    """
    chosen = _master(pipeline, master)
    ours = standard(chosen, Setting("spark.app.name", f"headrace {pipeline.name}", "its name"))
    if not is_local(chosen.value):
        ours += _executors(pipeline, chosen.value)
    own = pipeline.options["spark"] or {}
    where = f"spark ({pipeline.options.at('spark')})"
    kept = [setting for setting in ours if setting.name not in own]
    return (*kept, *(Setting(name, value, where) for name, value in own.items()))


def standard(master: Setting, name: Setting) -> list[Setting]:
    """What every session is started with at this master."""
    ours = [
        master,
        name,
        Setting("spark.sql.session.timeZone", "UTC", "times mean the same on every machine"),
        Setting("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension", "Delta"),
        Setting(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "Delta",
        ),
        *_RELIED_ON,
        Setting("spark.speculation", "false", "a record must not be written by two tasks at once"),
        Setting("spark.ui.enabled", "false", "no open port that nobody asked for"),
    ]
    if is_local(master.value):
        tasks = str(local_tasks(master.value))
        if cores() <= FEW_CORES:
            why = "local master with few cores: the least CPU and memory"
            ours.append(Setting(_JAVA_OPTIONS, "-XX:+UseSerialGC", why))
        ours += [
            Setting("spark.driver.bindAddress", "127.0.0.1", "local master"),
            Setting("spark.driver.host", "127.0.0.1", "local master"),
            Setting("spark.sql.shuffle.partitions", tasks, "local master: one a core"),
            Setting("spark.databricks.delta.snapshotPartitions", tasks, "local master: one a core"),
        ]
    return ours


def _master(pipeline: Pipeline, asked: str | None) -> Setting:
    options = pipeline.options
    count = options["executor_count"]
    if asked is None:
        if count is None:
            return Setting("spark.master", DEFAULT_MASTER, "--master (default)")
        return options.setting("spark.master", "executor_count", f"local[{count}]")
    wins = is_local(asked) and count is not None
    over = f", which wins over executor_count ({options.at('executor_count')})" if wins else ""
    return Setting("spark.master", asked, f"--master{over}")


def _executors(pipeline: Pipeline, master: str) -> Iterator[Setting]:
    """As many executors as make `executor_count` tasks at once, in the terms of the master."""
    count = pipeline.options["executor_count"]
    if count is None:
        return
    if master.startswith("spark://"):
        yield pipeline.options.setting("spark.cores.max", "executor_count")
        return
    each = (pipeline.options["spark"] or {}).get("spark.executor.cores", "1")
    instances = math.ceil(count / int(each)) if each.isdecimal() else count
    yield pipeline.options.setting("spark.executor.instances", "executor_count", instances)


def start(
    settings: Sequence[Setting], log: Path, debug: bool = False, java_option: str | None = None
) -> SparkSession:
    """A new session on a new JVM. `log` gets what the JVM writes, unless `debug` shows it.

    The JVM maps the archive of classes, where there is one, unless another `java_option` is given.
    """
    java_home = java.find_java().parent.parent
    paths = jars.ensure("spark")
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("JAVA_HOME", str(java_home))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for setting in settings:
        builder = builder.config(setting.name, setting.value)
    local = any(each.name == "spark.master" and is_local(each.value) for each in settings)
    if local:
        builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, paths)))
    else:
        builder = builder.config("spark.jars", ",".join(map(str, paths)))
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    chosen = next((each.value for each in settings if each.name == _JAVA_OPTIONS), "")
    archived = class_archive.option() if java_option is None else java_option
    options = (chosen, archived, _java_options(log))
    builder = builder.config(_JAVA_OPTIONS, " ".join(filter(None, options)))
    if not debug:
        _quiet_python()
    try:
        with contextlib.nullcontext() if debug else _output_to(log), _own_interrupt():
            session = builder.getOrCreate()
    except Exception as error:
        raise SparkFailed("starting Spark", f"{_last_line(error)}; its log: {log}") from error
    if debug:
        session.sparkContext.setLogLevel("INFO")
    return session


def adopt(spark: SparkSession) -> SparkSession:
    """A session of the caller's own: a child with its own views, if it has what pipelines need."""
    for name, class_name in _NEEDED.items():
        if not _has_class(spark, class_name):
            jar_list = ",".join(str(path) for path in jars.ensure("spark"))
            raise SparkFailed(
                "using the given SparkSession",
                f"it has no {name} on its class path; start it with spark.jars={jar_list}",
            )
    child = spark.newSession()
    for setting in _RELIED_ON:
        child.conf.set(setting.name, setting.value)
    return child


_NEEDED = {
    "Kafka connector": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "Delta": "io.delta.sql.DeltaSparkSessionExtension",
}


def _has_class(spark: SparkSession, name: str) -> bool:
    # `spark.jars` are loaded by Spark's own loader, which py4j's plain look-up does not see.
    return bool(spark._jvm.org.apache.spark.util.Utils.classIsLoadable(name))  # type: ignore[union-attr]


def _java_options(log: Path) -> str:
    config = resources.files("headrace.runtime") / "log4j2.properties"
    return f'-Dlog4j2.configurationFile="{config}" -Dheadrace.log="{log}"'


def _quiet_python() -> None:
    """PySpark logs each error of a query to stderr, stack and all, besides raising it."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Children started inside write to the file; this process's own output comes back."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in enumerate(saved, start=1):
            os.dup2(copy, number)
            os.close(copy)


@contextlib.contextmanager
def _own_interrupt() -> Iterator[None]:
    """Spark takes Ctrl-C for itself, to cancel its jobs; we need it to finish the batch in hand.

    One that comes while Spark starts counts when it has: in the middle it would leave a JVM behind,
    which cannot tell its address to anyone and runs on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
