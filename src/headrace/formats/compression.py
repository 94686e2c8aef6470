"""zlib inside of messages, as AWS Glue's frame may have it, as functions of SQL.

Spark's SQL has none for zlib. What is compressed goes through a Python worker, in whole batches;
everything else is NULL on that way, and stays in the JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The names of the functions, BINARY to BINARY.
INFLATE, DEFLATE = "headrace_inflate", "headrace_deflate"
# A few bytes of zlib can stand for a thousand times as many; no message is meant to be this large.
MOST_BYTES = 64 * 1024 * 1024


def register(spark: SparkSession) -> None:
    """Make both known to a session; once more does no harm."""
    from pyspark import cloudpickle
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    from headrace.formats import zlib_batches

    cloudpickle.register_pickle_by_value(zlib_batches)  # type: ignore[no-untyped-call]
    spark.udf.register(INFLATE, arrow_udf(zlib_batches.unpacker(MOST_BYTES), "binary"))
    spark.udf.register(DEFLATE, arrow_udf(zlib_batches.pack, "binary"))


def inflated(data: bytes) -> bytes | None:
    """The same for a single message."""
    from headrace.formats.zlib_batches import unpacked

    return unpacked(data, MOST_BYTES)
