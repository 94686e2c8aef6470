"""What Kafka Connect's connectors have in common: the Kafka side, converters, bad records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.convert import connect_converters, connect_transforms
from headrace.convert.connect_transforms import Transforms
from headrace.convert.draft import Part, Plain, Remark, Values, spelled
from headrace.convert.report import Keys, Report
from headrace.model.kafka_properties import CONSUMER, PRODUCER, PRODUCER_OPTIONS
from headrace.sources.kafka_options import DATA, ENVELOPE, METADATA

BOOTSTRAP = "${env:HEADRACE_BOOTSTRAP_SERVER:-localhost:9092}"
NO_METADATA = f"* EXCEPT ({', '.join([DATA, ENVELOPE, *METADATA])})"
_WORKERS = {"bootstrap_server": Remark(beside="the worker's")}
_NEEDLESS = {
    "tasks.max": "is not needed: Spark's tasks follow partitions and cores",
    "config.action.reload": "is not needed: a pipeline is loaded when it is started",
    "key.converter": "is not needed: keys are bytes, and are made by the option `key`",
    "key.converter.schemas.enable": "is not needed: keys are made by the option `key`",
    "header.converter": "is not needed: headers are bytes",
    "errors.log.enable": "is not needed: bad records are always counted and told of",
    "errors.log.include.messages": "is not needed: dead letters hold what came",
    "errors.deadletterqueue.context.headers.enable": "is not needed: dead letters always say why",
    **dict.fromkeys(
        ("errors.retry.timeout", "errors.retry.delay.max.ms", "max.retries", "retry.backoff.ms"),
        "is not needed: a failure that may pass is tried again",
    ),
}
# Properties of Kafka's consumer that are options of a source.
_CONSUMER_OPTIONS = {
    "auto.offset.reset": "auto_offset_reset",
    "group.id": "consumer_group",
    "bootstrap.servers": "bootstrap_server",
}


@dataclass
class Connector:
    """One configuration on its way to a pipeline; the parts grow as its keys are taken."""

    name: str
    keys: Keys
    schema: str | None
    values: dict[str, Plain] = field(default_factory=dict)
    sources: list[Part] = field(default_factory=list)
    steps: list[Part] = field(default_factory=list)
    sinks: list[Part] = field(default_factory=list)

    @property
    def report(self) -> Report:
        return self.keys.report

    def leftovers(self) -> None:
        """What every connector may have and none needs here; all the rest is lost."""
        for key, why in _NEEDLESS.items():
            self.keys.pass_over((key,), why)
        self.keys.lose_rest()

    # From Kafka

    def from_kafka(self, topics: list[str], pattern: str | None) -> Transforms:
        """A Kafka source with all that a sink connector says about its records, and the steps."""
        transforms = connect_transforms.read(self.keys, from_kafka=True)
        decoding = connect_converters.reading(self.keys, self.schema, transforms.debezium)
        where: Values = {"topic_pattern": pattern}
        if pattern is None:
            where = {"topic": topics[0]} if len(topics) == 1 else {"topics": topics}
        values: dict[str, Plain] = {
            "connector_type": "kafka",
            "bootstrap_server": BOOTSTRAP,
            **where,
            "consumer_group": f"connect-{self.name}",
            "auto_offset_reset": "earliest",
            **decoding.values,
            **self._bad_records(),
            **self.overrides("consumer.override.", _CONSUMER_OPTIONS, CONSUMER),
        }
        if transforms.skip_tombstones:
            values["tombstones"] = "skip"
        steps = [*decoding.steps, *transforms.steps]
        if transforms.need_metadata:
            values["include_metadata"] = True
            steps.append(("without_metadata", f"SELECT {NO_METADATA} FROM input"))
        self.sources.append(Part("source", values, _remarks(values)))
        self.steps += [step(name, sql) for name, sql in steps]
        return transforms

    def subscribed(self) -> tuple[list[str], str | None]:
        return self.keys.listed("topics"), self.keys.take("topics.regex")

    def set_source(self, **values: Plain) -> None:
        """More options of the source that was made last."""
        source = self.sources[-1]
        self.sources[-1] = replace(source, values={**source.values, **values})

    def overrides(
        self, prefix: str, options: Mapping[str, str], properties: frozenset[str]
    ) -> dict[str, Plain]:
        """Properties of a client as options of a source or sink, or under `properties`."""
        values: dict[str, Plain] = {}
        kept: dict[str, Plain] = {}
        for name, text in self.keys.below(prefix).items():
            if name in options:
                values[options[name]] = int(text) if text.isdecimal() else text
            elif name in properties:
                kept[name] = text
            else:
                why = "is not a property that a pipeline may set"
                self.report.lost(prefix + name, self.keys.at(prefix + name), why)
        return values | ({"properties": kept} if kept else {})

    def _bad_records(self) -> dict[str, Plain]:
        tolerance = self.keys.take("errors.tolerance") or "none"
        topic = self.keys.take("errors.deadletterqueue.topic.name")
        self.keys.lose(
            ("errors.deadletterqueue.topic.replication.factor",),
            "has no equal: a topic of dead letters is made with the broker's defaults",
        )
        if tolerance != "all":
            return {"bad_data": "fail"}
        return {"bad_data": "dlq", "dlq_topic": topic} if topic else {"bad_data": "skip"}

    # To Kafka

    def to_kafka(self, topics: Mapping[str, str], transforms: Transforms) -> None:
        """A Kafka sink for each source, by the topic of each, with the transforms between."""
        created = self._created_topic()
        form = connect_converters.writing(self.keys)
        form |= connect_converters.key_format(self.keys, form) if transforms.key else {}
        own = self.overrides(
            "producer.override.",
            {theirs: ours for ours, theirs in PRODUCER_OPTIONS.items()}
            | {"bootstrap.servers": "bootstrap_server"},
            PRODUCER,
        )
        alone = len(topics) == 1
        for source, topic in topics.items():
            prefix = "" if alone else f"{source}_"
            rows = self._steps_after(source, prefix, transforms)
            values: dict[str, Plain] = {
                "connector_type": "kafka",
                **({} if alone else {"from": rows}),
                "bootstrap_server": BOOTSTRAP,
                "topic": transforms.topic(topic),
                **form,
                **({"key": transforms.key_of("key_format" in form)} if transforms.key else {}),
                **({"headers": transforms.headers} if transforms.headers else {}),
                **({"create_topic": created} if created else {}),
                **own,
            }
            name = "sink" if alone else f"{prefix}topic"
            self.sinks.append(Part(name, values, _remarks(values)))

    def _steps_after(self, source: str, prefix: str, transforms: Transforms) -> str:
        rows = source
        for name, sql in transforms.steps:
            made = step(f"{prefix}{name}", sql if not prefix else _reading(sql, rows))
            self.steps.append(made)
            rows = made.name
        return rows

    def _created_topic(self) -> dict[str, Plain]:
        created: dict[str, Plain] = {}
        for theirs in ("partitions", "replication.factor"):
            number = self.keys.take(f"topic.creation.default.{theirs}")
            if number is not None and number.isdecimal():
                created[theirs.replace(".", "_")] = int(number)
        config = self.keys.below("topic.creation.default.")
        return created | ({"config": config} if config else {})


def by_source(parts: list[Part], steps: list[Part], source: str) -> str:
    """Steps written for one source, again for another: `input` is its own rows."""
    rows = source
    for each in parts:
        made = step(f"{source}_{each.name}", _reading(str(each.values["sql"]), rows))
        steps.append(made)
        rows = made.name
    return rows


def step(name: str, sql: str) -> Part:
    return Part(identifier(name), {"sql": sql})


def identifier(text: str) -> str:
    """A name for SQL made of a topic's, a table's or a transform's."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"t_{name}"


def duration(milliseconds: str | None) -> str | None:
    """As a definition says it; None where there is none to wait for."""
    known = milliseconds is not None and milliseconds.isdecimal() and int(milliseconds) > 0
    return spelled(int(milliseconds or 0)) if known else None


def _reading(sql: str, table: str) -> str:
    return sql.replace(" FROM input", f" FROM {table}", 1)


def _remarks(values: Values) -> Mapping[str, Remark]:
    return _WORKERS if values["bootstrap_server"] == BOOTSTRAP else {}
