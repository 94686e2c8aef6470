"""The log of a Delta table, by Delta's own classes in the JVM. Runs on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def log_of(spark: SparkSession, path: str) -> Any:
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
    return log.forTable(spark._jsparkSession, path)


def snapshot_of(spark: SparkSession, log: Any) -> Any:
    """The table as it is now; its version is -1 where there is none."""
    option: Any = spark._jvm.scala.Option  # type: ignore[union-attr]
    return log.update(False, option.empty(), option.empty())


def transaction(spark: SparkSession, path: str, application: str) -> int | None:
    """The newest version that an application has committed, as `txnVersion` names it."""
    found = snapshot_of(spark, log_of(spark, path)).transactions().get(application)
    return int(found.get()) if found.isDefined() else None
