"""Spark's classes as the JVM has them in memory, kept in a file so that a start reads no jars.

Most of the time until a first batch is the JVM reading and checking some ten thousand classes. It
can write them to an archive when it ends and map that into memory when it starts the next time
(class data sharing). The archive is made once, by `headrace jars fetch`, from a session that does a
little of everything. It belongs to one Java and one set of jars; a JVM that finds another one
starts without it, as it does where there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cluster import jars, java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECONDS = 300
_MOST = 3  # of some 200 MB each
_NOWHERE = "127.0.0.1:1"


def place() -> Path:
    """Where the archive for this Java, this PySpark and these jars is or would be."""
    import pyspark

    home = java.find_java().resolve().parent.parent
    spark = Path(pyspark.__file__).parent
    parts = [str(home), str(spark), pyspark.__version__, *map(str, jars.cached("spark").values())]
    release = home / "release"
    if release.exists():
        parts.append(release.read_text())
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return jars.cache_folder() / "classes" / f"spark-{key}.jsa"


def option() -> str:
    """What the JVM is started with: the archive, if there is one."""
    file = place()
    return f'-XX:SharedArchiveFile="{file}" -Xshare:auto' if file.exists() else ""


def make() -> Path | None:
    """Make the archive unless it is there; None if this JVM cannot. Takes about 20 seconds."""
    file = place()
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        new = Path(folder) / file.name
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", __name__, str(new)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                cwd=folder,
            )
        if new.exists():
            new.replace(file)
    _forget_old(file.parent)
    return file if file.exists() else None


def _forget_old(folder: Path) -> None:
    """Archives of other Pythons and versions; a JVM that has mapped one keeps it."""
    files = sorted(folder.glob("spark-*.jsa"), key=lambda each: each.stat().st_mtime, reverse=True)
    for file in files[_MOST:]:
        file.unlink(missing_ok=True)


def _exercise(spark: SparkSession, folder: Path) -> None:
    """A little of what pipelines do, so that their classes are loaded."""
    from pyspark.sql.functions import expr

    rows = spark.range(1000).selectExpr("id", "to_json(struct(id, 'a' AS name)) AS value")
    rows.write.format("delta").save(str(folder / "table"))
    read = spark.readStream.format("delta").load(str(folder / "table"))
    decoded = read.selectExpr("id", "from_json(value, 'id BIGINT, name STRING') AS o")
    decoded = decoded.observe("counts", expr("count(1) AS records"))
    kept = decoded.where("o.id % 2 = 0").selectExpr("o.*", "array(struct('k' AS key)) AS headers")

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("delta").mode("append").save(str(folder / "copy"))
        batch.groupBy("name").count().collect()

    stream = kept.writeStream.foreachBatch(write).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    _load_kafka(spark)


def _load_kafka(spark: SparkSession) -> None:
    """There is no broker; clients can be made all the same, and a producer fails after a second."""
    jvm = spark._jvm
    assert jvm is not None
    config = jvm.java.util.Properties()
    bytes_reader = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    for name, value in {
        "bootstrap.servers": _NOWHERE,
        "key.deserializer": bytes_reader,
        "value.deserializer": bytes_reader,
    }.items():
        config.put(name, value)
    clients = jvm.org.apache.kafka.clients
    clients.consumer.KafkaConsumer(config).close()
    clients.admin.Admin.create(config).close()
    asked = {"kafka.bootstrap.servers": _NOWHERE, "subscribe": "t"}
    spark.readStream.format("kafka").options(**asked).load().selectExpr(
        "value"
    ).schema.simpleString()
    rows = spark.range(10).selectExpr("'t' AS topic", "CAST(CAST(id AS STRING) AS BINARY) AS value")
    told = {"kafka.bootstrap.servers": _NOWHERE, "kafka.max.block.ms": "1000"}
    with contextlib.suppress(Exception):
        rows.write.format("kafka").options(**told).save()


def _main(file: str) -> None:
    from headrace.runtime import session
    from headrace.spec import Setting

    folder = Path(file).parent
    master = Setting("spark.master", "local[2]", "")
    settings = session.standard(master, Setting("spark.app.name", "headrace classes", ""))
    option = f'-XX:ArchiveClassesAtExit="{file}"'
    spark = session.start(settings, folder / "spark.log", java_option=option)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    _exercise(spark, folder)
    spark.stop()
    # The JVM ends with its input, and writes the archive when it does.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS)


if __name__ == "__main__":
    _main(sys.argv[1])
