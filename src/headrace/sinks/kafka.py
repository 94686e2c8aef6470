"""The Kafka sink: each row as a JSON record, by Spark's own Kafka writer.

`expressions` gives the columns of that writer as SQL, so that dead letters can travel in the same
job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from headrace.formats.carried import COLUMN
from headrace.model import pipeline as model
from headrace.model.kafka_properties import producer_fault
from headrace.model.names import servers_fault, topic_fault
from headrace.model.query import Query
from headrace.model.schema import literal, quote
from headrace.sinks.writer import Batch, SinkContext, column_twice
from headrace.spans import Diagnostic
from headrace.spec import Option, Options, Setting, Spec, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(frozen=True)
class KafkaSink:
    sink: model.Sink
    context: SinkContext

    CARRIED: ClassVar[bool] = False
    REPLAY_SAFE: ClassVar[bool] = False
    SPEC: ClassVar[Spec] = Spec(
        "sink",
        "kafka",
        "Rows as JSON records of a Kafka topic.",
        (
            Option(
                "bootstrap_server",
                Type.TEXT,
                "Where to find the cluster. Default: the first that the pipeline names.",
                aliases=("bootstrap_servers",),
                example="localhost:9092",
                validate=servers_fault,
            ),
            Option(
                "topic",
                Type.TEXT,
                "The topic to write.",
                required=True,
                example="orders.clean",
                validate=topic_fault,
            ),
            Option(
                "key",
                Type.TEXT,
                "The record's key: a column or an expression, written as text. Rows with the same "
                "key stay in order. Default: no key.",
                example="customer",
            ),
            Option(
                "create_topic",
                Type.FLAG,
                "Make the topic, with the broker's defaults, when it does not exist.",
                default=True,
            ),
            Option(
                "properties",
                Type.PROPERTIES,
                "Properties of Kafka's producer.",
                default={},
                example='{"compression.type": "zstd"}',
                validate=producer_fault,
            ),
        ),
    )

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        yield from column_twice(options, columns)
        if "key" not in options or options["key"] is None:
            return
        # Checked as it will be used, in a query of its own.
        lead = "SELECT CAST("
        text = f"{lead}{options['key']} AS STRING) FROM input"
        query, faults = Query.parse(text, options.at("key"), len(lead), len(options["key"]))
        yield from faults
        if query is None:
            return
        if not query.rowwise or len(query.tree.selects) != 1:
            message = "`key` must be one column, or an expression of a row"
            yield Diagnostic("BAD_VALUE", message, options.at("key"))
        elif columns is not None:
            yield from query.unknown_columns({"input": columns}, "of the rows of this sink")

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def topic(self) -> str:
        return str(self.sink.options["topic"])

    @property
    def bootstrap(self) -> str:
        # That there is one of both has been checked.
        return str(self.sink.options["bootstrap_server"] or self.context.bootstrap)

    @property
    def target(self) -> str:
        return f"Kafka topic {self.topic} at {self.bootstrap}"

    def settings(self) -> tuple[Setting, ...]:
        options = self.sink.options
        servers = options.setting("kafka.bootstrap.servers", "bootstrap_server", self.bootstrap)
        if "bootstrap_server" not in options:
            servers = replace(servers, origin="the first bootstrap_server of the pipeline")
        own: Mapping[str, str] = options["properties"]
        where = f"properties ({options.at('properties')})"
        return (servers, *(Setting(f"kafka.{name}", own[name], where) for name in own))

    def expressions(self, columns: list[str]) -> dict[str, str]:
        """The writer's columns, as SQL over rows with these columns."""
        body = ", ".join(quote(column) for column in columns)
        key = self.sink.options["key"]
        return {
            "topic": literal(self.topic),
            "key": f"CAST(CAST({key} AS STRING) AS BINARY)" if key else "CAST(NULL AS BINARY)",
            "value": f"CAST(to_json(struct({body}), map('ignoreNullFields', 'false')) AS BINARY)",
            "headers": f"CAST(NULL AS {HEADERS})",
        }

    def tombstone(self) -> dict[str, str]:
        """The same for a tombstone, which keeps the key of its record."""
        return {
            "topic": literal(self.topic),
            "key": f"{COLUMN}.key",
            "value": "CAST(NULL AS BINARY)",
            "headers": f"{COLUMN}.headers",
        }

    def write(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        self.send(rows, self.expressions(rows.columns))

    def send(self, rows: DataFrame, expressions: Mapping[str, str]) -> None:
        """As the function of that name, to this sink's cluster."""
        send(rows, expressions, {setting.name: setting.value for setting in self.settings()})


def send(rows: DataFrame, expressions: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Write what `expressions` make of `rows` to Kafka; returns when all are acknowledged."""
    messages = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in expressions.items()))
    messages.write.format("kafka").mode("append").options(**settings).save()
