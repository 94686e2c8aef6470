"""The Kafka sink: each row as a record of a topic, by Spark's Kafka writer or by our own.

The parts: `kafka_options` what can be asked for, `kafka_checks` what can be wrong with it,
`kafka_messages` the SQL that makes messages of rows, `kafka_refusals` which rows cannot be written,
`kafka_producer` the writer of our own. Here is what holds them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from headrace.errors import InternalError
from headrace.formats.carried import COLUMN
from headrace.formats.encoding import WHOLE, Encoding, Fields, JsonEncoding
from headrace.formats.options import Part, Wanted, key_wanted, value_wanted
from headrace.formats.row_types import column_of, schema_of
from headrace.formats.text import TextEncoding
from headrace.model import pipeline as model
from headrace.model.kafka_properties import (
    DEFAULT_MAX_REQUEST,
    DEFAULT_REQUEST_TIMEOUT_MS,
    PRODUCER_OPTIONS,
    for_librdkafka,
)
from headrace.model.schema import Schema, quote
from headrace.sinks import (
    kafka_checks,
    kafka_messages,
    kafka_once,
    kafka_producer,
    kafka_refusals,
    kafka_topics,
)
from headrace.sinks.kafka_messages import Messages
from headrace.sinks.kafka_options import SPEC
from headrace.sinks.kafka_refusals import Limits, TopicFacts
from headrace.sinks.kafka_transactions import Ledger, Place, Work
from headrace.sinks.writer import Batch, Once, SinkContext, Way
from headrace.spans import Diagnostic
from headrace.spec import Options, Setting, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.admin.client import Cluster

SERVERS = "kafka.bootstrap.servers"
MAX_REQUEST = "kafka.max.request.size"
LARGE_RECORD = 16 * 1024


@dataclass(frozen=True)
class NewTopic:
    """How a topic is made; a count that is None is the brokers' own default."""

    partitions: int | None = None
    replication: int | None = None
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class KafkaSink:
    """A sink of the model with its decisions made.

    `cluster` and what it says of its topics, the `facts`, are known when a run begins; so are the
    `encodings` of formats that go by a schema.
    """

    sink: model.Sink
    context: SinkContext
    encodings: Mapping[Part, Encoding] = field(default_factory=dict)
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    cluster: Cluster | None = field(default=None, compare=False, repr=False)

    CARRIED: ClassVar[bool] = False
    REPLAY_SAFE: ClassVar[bool] = False
    SPEC: ClassVar[Spec] = SPEC

    @staticmethod
    def check(options: Options, columns: tuple[str, ...] | None) -> Iterator[Diagnostic]:
        yield from kafka_checks.faults(options, columns)

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def options(self) -> Options:
        return self.sink.options

    @property
    def topic(self) -> str:
        """Its name, or what makes the name for each row."""
        return str(self.options["topic"])

    @property
    def per_row(self) -> bool:
        """Whether rows name their topic."""
        return kafka_topics.is_per_row(self.topic)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it may write to, as far as they have names."""
        allowed: tuple[str, ...] = self.options["allowed_topics"] if self.per_row else (self.topic,)
        return tuple(name for name in allowed if not kafka_topics.is_pattern(name))

    @property
    def open_ended(self) -> bool:
        """Whether a row may name a topic that is not among `topics`."""
        return self.per_row and any(map(kafka_topics.is_pattern, self.options["allowed_topics"]))

    @property
    def new_topic(self) -> NewTopic | None:
        """How a missing topic is made; None if it is not."""
        wanted = self.options["create_topic"]
        if not isinstance(wanted, Options):
            return NewTopic() if wanted else None
        config = tuple(sorted(wanted["config"].items()))
        return NewTopic(wanted["partitions"], wanted["replication_factor"], config)

    @property
    def bootstrap(self) -> str:
        # That there is one of both has been checked.
        return str(self.options["bootstrap_server"] or self.context.bootstrap)

    @property
    def target(self) -> str:
        each = " of each row" if self.per_row else ""
        return f"Kafka topic {self.topic}{each} at {self.bootstrap}"

    @property
    def writer(self) -> str:
        """`spark`, `arrow` or, exactly once, `transactions`."""
        if self.context.exactly_once:
            return "transactions"
        return self.options["writer"] or ("arrow" if self.options["timestamp"] else "spark")

    @property
    def by(self) -> str:
        """Which writer, and why, in words."""
        if self.writer == "spark":
            return "by Spark's writer"
        if self.writer == "transactions":
            return "by Headrace's writer, in transactions"
        return "by Headrace's writer" + ("" if "writer" in self.options else ", which sets times")

    @property
    def may_lose(self) -> str | None:
        """Why a record that counts as written may be gone."""
        acks = self.producer.get("acks", "all")
        if acks == "0":
            return "with `acks: 0` nobody confirms that a record has arrived"
        return "with `acks: 1` a record is lost with its leader" if acks == "1" else None

    @property
    def refused_for(self) -> str:
        """What may be wrong with a row, in words."""
        options = self.options
        reasons = [
            *(["its topic is not allowed"] if self.per_row else []),
            *(["its partition does not exist"] if options["partition"] else []),
            *(["its time is none"] if options["timestamp"] else []),
            *(["its envelope has no id"] if options["envelope"] else []),
            *(["a field has no value that the schema wants"] if self.holds_to_schema else []),
            f"its message is larger than {self.max_request} bytes or than the topic takes",
        ]
        return ", ".join(reasons)

    @property
    def least_refused(self) -> int:
        """How large a record is at least whose row may be refused; smaller ones need not be kept.

        A small record can become a message that is too large, too. That is the definition's fault
        rather than the record's, and stops the pipeline.
        """
        options = self.options
        parts = (options["partition"], options["timestamp"], options["envelope"])
        required = any(encoding.required for encoding in self.encodings.values())
        any_row = self.per_row or required or any(part is not None for part in parts)
        return 0 if any_row else LARGE_RECORD

    @property
    def needs_record(self) -> bool:
        """Whether its messages tell of the source's record, so that rows must carry it."""
        return kafka_messages.needs_record(self.options)

    @property
    def max_request(self) -> int:
        """The largest message that its producer sends."""
        return int(self.producer.get("max.request.size", DEFAULT_MAX_REQUEST))

    @property
    def producer(self) -> dict[str, str]:
        """Properties of the producer that the definition sets, in the Java client's names."""
        return {each.name.removeprefix("kafka."): each.value for each in self._properties()}

    def settings(self) -> tuple[Setting, ...]:
        options = self.options
        servers = options.setting(SERVERS, "bootstrap_server", self.bootstrap)
        if "bootstrap_server" not in options:
            servers = replace(servers, origin="the first bootstrap_server of the pipeline")
        return (servers, *self._properties())

    def _properties(self) -> Iterator[Setting]:
        options = self.options
        own: Mapping[str, str] = options["properties"]
        for option, name in PRODUCER_OPTIONS.items():
            if options[option] is not None and name not in own:
                value = options[option]
                shown = str(value).lower() if isinstance(value, bool) else value
                yield options.setting(f"kafka.{name}", option, shown)
        limit = options["delivery_timeout_ms"]
        rest = limit and limit - int(options["linger_ms"] or own.get("linger.ms", 0))
        # The client refuses to give a record less time than it gives a single request.
        if rest and rest < DEFAULT_REQUEST_TIMEOUT_MS and "request.timeout.ms" not in own:
            yield options.setting("kafka.request.timeout.ms", "delivery_timeout_ms", max(rest, 1))
        where = f"properties ({options.at('properties')})"
        yield from (Setting(f"kafka.{name}", own[name], where) for name in own)

    # SQL for its messages; needs no Spark.

    def messages(self, columns: list[str]) -> Messages:
        if self.unbound:
            raise InternalError(f"sink `{self.name}` writes before it has a schema for its rows")
        value = self.encodings.get(Part.VALUE, JsonEncoding())
        key = self.encodings.get(Part.KEY, TextEncoding())
        return replace(self._of_columns(columns), encoding=value, key_encoding=key)

    def fields(self, columns: list[str]) -> Fields:
        """The fields of its values, over rows with these columns."""
        return self._of_columns(columns).body

    def _of_columns(self, columns: list[str]) -> Messages:
        own = tuple(column for column in columns if column != COLUMN)
        return Messages(self.options, self.context.pipeline, self.name, own)

    @property
    def wanted(self) -> dict[Part, Wanted]:
        """What its values are, where they are made of the columns; and its keys, where they are
        more than text.
        """
        folder, topics = self.context.folder, () if self.per_row else (self.topic,)
        found: dict[Part, Wanted] = {}
        if not self.options["value"]:
            found[Part.VALUE] = value_wanted(self.options, folder, topics)
        key = key_wanted(self.options, folder, topics)
        return found | ({Part.KEY: key} if key is not None and self.options["key"] else {})

    @property
    def typed(self) -> dict[Part, Wanted]:
        """What of its messages is written by the types of its rows."""
        plain = {Part.VALUE: ("json", "raw"), Part.KEY: ("text",)}
        return {
            part: wanted for part, wanted in self.wanted.items() if wanted.format not in plain[part]
        }

    @property
    def unbound(self) -> set[Part]:
        """What it cannot write before the types of its rows are known."""
        return self.typed.keys() - self.encodings.keys()

    @property
    def registers(self) -> bool:
        """Whether schemas of its rows are made known to the registry."""
        return bool(self.options["register_schema"])

    @property
    def holds_to_schema(self) -> bool:
        """Whether a schema that is not made for its rows says which of its fields may be NULL."""
        return any(
            wanted.gives_schema or (wanted.registered and not self.registers)
            for wanted in self.typed.values()
        )

    def writing(self, encodings: Mapping[Part, Encoding]) -> KafkaSink:
        """The same sink with how its messages are written."""
        return replace(self, encodings=encodings)

    def expressions(self, columns: list[str]) -> dict[str, str]:
        """The writer's columns, as SQL over rows with these columns."""
        return self.messages(columns).expressions()

    def tombstone(self, columns: list[str]) -> dict[str, str]:
        """The same for a tombstone, which keeps the key of its record unless its row has one."""
        return kafka_messages.tombstone(self.topic, self.messages(columns).key)

    # From here on a cluster or Spark is needed; all of it runs on the driver.

    def row_types(self, rows: DataFrame) -> dict[Part, Schema]:
        """The columns of its values, or the one value of its keys, over rows like these.

        Raises ValueError with every column whose type no message can have.
        """
        from pyspark.sql.types import StructType

        found: dict[Part, Schema] = {}
        if Part.VALUE in self.typed:
            fields = (f"{sql} AS {quote(name)}" for name, sql in self.fields(rows.columns))
            found[Part.VALUE] = schema_of(rows.selectExpr(*fields).schema)
        if Part.KEY in self.typed:
            (key,) = rows.selectExpr(f"{self.options['key']} AS key").schema.fields
            if isinstance(key.dataType, StructType):
                found[Part.KEY] = schema_of(key.dataType)
            else:
                found[Part.KEY] = Schema((replace(column_of(key), name=WHOLE),))
        return found

    def refusing(self, rows: DataFrame, letters: bool) -> DataFrame:
        """Rows with the hidden column, of which those that it cannot write are bad records now."""
        messages, limits = self._messages_of(rows), self._limits
        found = kafka_refusals.find(messages, limits, kafka_refusals.MEASURED)
        judged = kafka_refusals.measured(rows, messages, limits, letters)
        return kafka_refusals.refusing(judged, found, self.per_row, letters)

    def guarded(self, rows: DataFrame) -> tuple[DataFrame, dict[str, str]]:
        """The rows, and `expressions` over them that end the query at one it cannot write."""
        messages, written = self._messages_of(rows), kafka_refusals.WRITTEN
        found = kafka_refusals.find(messages, self._limits, kafka_refusals.WRITTEN_SIZES)
        value = kafka_refusals.guarded(written["value"], found, COLUMN in rows.columns)
        made = {**messages.expressions(), "key": written["key"], "value": value}
        return kafka_refusals.encoded(rows, messages), made

    def _messages_of(self, rows: DataFrame) -> Messages:
        for encoding in self.encodings.values():
            encoding.register(rows.sparkSession)
        return self.messages(rows.columns)

    @property
    def _limits(self) -> Limits:
        compressed = self.producer.get("compression.type", "none") != "none"
        return Limits(self.max_request, compressed, self.facts)

    def at(self, cluster: Cluster) -> KafkaSink:
        """The same sink with what the cluster says of its topics."""
        from headrace.admin import topic_settings, topics

        facts = {}
        for name in self.topics:
            limit = topic_settings.value(cluster, name, "max.message.bytes")
            partitions = len(topics.describe(cluster, name).partitions)
            facts[name] = TopicFacts(partitions, int(limit or DEFAULT_MAX_REQUEST))
        return replace(self, facts=facts, cluster=cluster)

    def ensure_topics(self, rows: DataFrame) -> None:
        """Make the topics that these good rows name, before any of them is written."""
        from headrace.admin import topics

        cluster = self.cluster
        assert cluster is not None  # a run has begun
        named = rows.selectExpr(f"{kafka_topics.sql(self.topic)} AS topic").distinct().collect()
        existing = set(topics.names(cluster))
        allowed = self.options["allowed_topics"]
        for name in sorted(row["topic"] for row in named if row["topic"] is not None):
            if name not in existing and kafka_topics.allows(allowed, name):
                self._make(cluster, name)

    def _make(self, cluster: Cluster, name: str) -> None:
        from headrace.admin import topics

        new = self.new_topic
        if new is None:
            raise topics.unknown(cluster, name)
        topics.ensure(cluster, name, new.partitions, new.replication, dict(new.config))

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.send(*self.guarded(rows), batch)

    def send(
        self, rows: DataFrame, expressions: Mapping[str, str], batch: Batch, largest: int = 0
    ) -> None:
        """As the function of that name, to this sink's cluster, and by its writer.

        `largest` is how large a message must be allowed, where some are not the sink's own.
        """
        if batch.once is not None:
            work = self.work(batch.once, largest)
            kafka_once.send(rows, expressions, work, batch.once, self.entry_place)
        elif self.writer == "spark":
            send(rows, expressions, self._settings(largest))
        else:
            kafka_producer.send(rows, expressions, self._for_librdkafka(largest))

    # Exactly once

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.context.pipeline, self.name)

    @property
    def entry_place(self) -> Place | None:
        """Where the ledger notes whole batches; None if no topic of the sink has a name."""
        return next(((topic, 0) for topic in self.topics), None)

    def work(self, once: Once, largest: int = 0) -> Work:
        """What tasks need to know to write for this sink."""
        config = self._for_librdkafka(largest)
        return kafka_once.work(config, self.ledger, self.transaction_ms(once.way), once)

    def transaction_ms(self, way: Way) -> int:
        """How long a transaction may be open."""
        return int(self.options["transaction_timeout_ms"] or kafka_once.TIMEOUT_MS[way])

    def _settings(self, largest: int) -> dict[str, str]:
        settings = {setting.name: setting.value for setting in self.settings()}
        if largest > self.max_request:
            settings[MAX_REQUEST] = str(largest)
        return settings

    def _for_librdkafka(self, largest: int) -> dict[str, str]:
        named = {
            for_librdkafka(name.removeprefix("kafka.")): value
            for name, value in self._settings(largest).items()
        }
        found = {name: value for name, value in named.items() if name is not None}
        # A batch that is too large for its topic would be refused with all that is in it.
        room = min((facts.max_bytes for facts in self.facts.values()), default=None)
        if room is not None and "batch.size" not in found:
            found["batch.size"] = str(min(room, DEFAULT_MAX_REQUEST))
        return found


def send(rows: DataFrame, expressions: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Write what `expressions` make of `rows` to Kafka; returns when all are acknowledged."""
    messages = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in expressions.items()))
    messages.write.format("kafka").mode("append").options(**settings).save()
