"""zlib inside of messages, as AWS Glue's frame may have it: functions over Arrow batches.

Spark's SQL has no function for zlib. What is compressed goes through a Python worker, as whole
batches; everything else is NULL on that way, and stays in the JVM.

Pickled by value: a worker needs no Headrace. Nothing here may use other parts of it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# The names of the functions in SQL, BINARY to BINARY.
INFLATE, DEFLATE = "headrace_inflate", "headrace_deflate"
# A few bytes of zlib can stand for a thousand times as many; no message is meant to be this large.
MOST_BYTES = 64 * 1024 * 1024


def register(spark: SparkSession) -> None:
    """Make both known to a session; once more does no harm."""
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    for name, function in ((INFLATE, _inflate_all), (DEFLATE, _deflate_all)):
        spark.udf.register(name, arrow_udf(function, "binary", ArrowUDFType.SCALAR))


def inflated(data: bytes) -> bytes | None:
    """What was compressed; None where it is not zlib, not all of it, or too much."""
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(data, MOST_BYTES)
    except zlib.error:
        return None
    return whole if reader.eof and not reader.unused_data else None


def _each(values: pa.Array, function: Callable[[bytes], bytes | None]) -> pa.Array:
    import pyarrow as pa

    if values.null_count == len(values):
        return values
    made = (function(each) if each is not None else None for each in values.to_pylist())
    return pa.array(made, pa.binary())


def _inflate_all(values: pa.Array) -> pa.Array:
    return _each(values, inflated)


def _deflate_all(values: pa.Array) -> pa.Array:
    return _each(values, zlib.compress)
