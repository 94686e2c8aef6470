"""The options that belong to no connector: of the pipeline itself, of a step, of every sink."""

from __future__ import annotations

import re

from headrace.model.schema import schema_fault
from headrace.spans import short
from headrace.spec import Option, Spec, Type

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}")

# Spark properties that a definition may set. Nothing that names a class, a file or a credential.
SPARK_PROPERTIES = (
    "spark.driver.memory",
    "spark.driver.maxResultSize",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
)


def name_fault(name: str) -> str | None:
    # The name becomes a folder and a group, so it is checked before it reaches either.
    if _NAME.fullmatch(name):
        return None
    form = "at most 100 letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
    return f"`{short(name)}` must be {form}"


def _spark_fault(properties: dict[str, str]) -> str | None:
    for name in properties:
        if name not in SPARK_PROPERTIES:
            return f"`{name}` is not a Spark property that a pipeline may set; these are: " + (
                ", ".join(SPARK_PROPERTIES)
            )
    return None


def _function_fault(path: str) -> str | None:
    names = path.split(".")
    if len(names) > 1 and all(name.isidentifier() for name in names):
        return None
    return f"`{short(path)}` must be `module.function`"


def _table_fault(table: str) -> str | None:
    if "/" in table or _TABLE.fullmatch(table):
        return None
    return f"`{short(table)}` must be a path with a slash, or a name of letters, digits, _ and dots"


PIPELINE = Spec(
    "pipeline",
    "pipeline",
    "The pipeline as a whole.",
    (
        Option(
            "pipeline",
            Type.TEXT,
            "Its name: of its state folder and, unless another is given, of its consumer group. "
            "Default: the file's name.",
            example="orders_clean",
            validate=name_fault,
        ),
        Option(
            "mode",
            Type.CHOICE,
            "`stream` runs until it is stopped; `batch` reads what is new and ends.",
            default="stream",
            choices=("stream", "batch"),
        ),
        Option(
            "guarantee",
            Type.CHOICE,
            "What must be kept when something fails.",
            default="at_least_once",
            choices=("at_least_once", "exactly_once"),
        ),
        Option(
            "output_mode",
            Type.CHOICE,
            "Stream only: when rows that are summed up are written. `append` writes each once, "
            "when the watermark says that it is final; `update` writes it whenever it has changed. "
            "Default: `append` where everything becomes final, otherwise `update`.",
            choices=("append", "update"),
        ),
        Option(
            "trigger",
            Type.DURATION,
            "Stream only: the least time between the starts of two batches. "
            "Default: each begins as soon as the one before has ended; where a source cannot be "
            "followed by Spark, one a second.",
            example="2s",
        ),
        Option(
            "executor_count",
            Type.INTEGER,
            "How many tasks work side by side. Each partition of a Kafka topic is one task, so "
            "more than there are partitions do not read faster. Default: all cores of the machine, "
            "or what a cluster gives.",
            minimum=1,
            example="4",
        ),
        Option(
            "spark",
            Type.PROPERTIES,
            "Spark properties for this pipeline.",
            example='{"spark.sql.shuffle.partitions": 4}',
            validate=_spark_fault,
        ),
    ),
)

# Exactly one of these says what a step does.
STEP_KINDS = ("sql", "python", "python_rows", "deduplicate")

STEP = Spec(
    "step",
    "step",
    "One transformation.",
    (
        Option(
            "sql",
            Type.TEXT,
            "One SELECT; `input` is the step before.",
            example="SELECT id FROM input",
        ),
        Option(
            "python",
            Type.TEXT,
            "`module.function`, from a DataFrame to a DataFrame.",
            example="shop.clean",
            validate=_function_fault,
        ),
        Option(
            "python_rows",
            Type.TEXT,
            "`module.function`, from a list of messages to a list of messages.",
            example="shop.score",
            validate=_function_fault,
        ),
        Option(
            "deduplicate",
            Type.MAPPING,
            "Keeps the first row of those that are alike in some columns. A stream remembers what "
            "it has seen; a batch looks at its own rows only.",
            example="{by: [id]}",
            fields=(
                Option(
                    "by",
                    Type.LIST,
                    "The columns that are compared.",
                    required=True,
                    example="[id]",
                ),
                Option(
                    "remember",
                    Type.CHOICE,
                    "Stream only: `watermark` forgets a row when the watermark has passed its time "
                    "by the delay; `forever` never does. Default: `watermark` where the rows have "
                    "one.",
                    choices=("watermark", "forever"),
                ),
            ),
        ),
        Option(
            "schema",
            Type.TEXT,
            "With `python_rows`: the columns of what comes back, as in CREATE TABLE. "
            "Default: those that go in, without Kafka's metadata.",
            example='"id BIGINT NOT NULL, score DOUBLE"',
            validate=schema_fault,
        ),
        Option(
            "batch_size",
            Type.INTEGER,
            "With `python_rows`: the most messages of a list. Default: the `batch_size` of the "
            "source where it is set, up to 10000; otherwise 1000.",
            minimum=1,
            example="100",
        ),
        Option(
            "name",
            Type.TEXT,
            "The table name of its rows. Default: `step_1`, `step_2` and so on.",
            example="paid",
        ),
        Option(
            "from",
            Type.TEXT,
            "All but `sql`: the rows it gets. Default: the step before.",
        ),
    ),
)

SOURCE = Spec(
    "source",
    "source",
    "What a source takes beside the options of its own.",
    (
        Option(
            "metadata_table",
            Type.TEXT,
            "In a batch: the Delta table that keeps how far it has read, in the columns `topic`, "
            "`partition` and `max_offset`. With a slash it is a path, and a relative one is beside "
            "the pipeline file; without one it is a name. Default: a table in the state folder.",
            example="metadata.kafka_offsets",
            validate=_table_fault,
        ),
        Option(
            "store_offsets",
            Type.FLAG,
            "In a batch: whether how far it has read is stored. With `false` every run begins "
            "where a first one would.",
            default=True,
        ),
        Option(
            "columns",
            Type.EXPRESSIONS,
            "The columns that SQL and sinks see, in this order: each a name and an SQL expression "
            "over the source's own columns, for one row; a list of names takes these as they are. "
            "A watermark may be on one of them. Default: the source's own columns.",
            example="{id: id, at: timestamp_millis(ts)}",
        ),
        Option(
            "watermark",
            Type.MAPPING,
            "In a stream: how late rows may come, so that windows, joins and `deduplicate` can be "
            "done with a time and forget it. Rows that come later are dropped there, and counted.",
            example="{column: at, delay: 10 minutes}",
            fields=(
                Option(
                    "column",
                    Type.TEXT,
                    "The TIMESTAMP that says when a row happened.",
                    required=True,
                    example="at",
                ),
                Option(
                    "delay",
                    Type.DURATION,
                    "How far a row may be behind the newest one that was read before.",
                    required=True,
                    example="10 minutes",
                ),
            ),
        ),
    ),
)

SINK = Spec(
    "sink",
    "sink",
    "What a sink takes beside the options of its own.",
    (Option("from", Type.TEXT, "The rows it writes. Default: the last step's."),),
)
