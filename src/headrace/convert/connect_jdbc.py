"""Kafka Connect's JDBC connectors, of Confluent and of Aiven, which have the same keys."""

from __future__ import annotations

from headrace.convert import connect_transforms
from headrace.convert.connect_parts import Connector, by_source, duration, identifier, step
from headrace.convert.connect_transforms import Transforms
from headrace.convert.draft import Part, Plain
from headrace.frontend.sql.tables import bare

_TOPIC = "${topic}"
_ALL_TABLES = "all tables of the database are read there; here each is named"


def source(connector: Connector) -> None:
    """Tables or a query of a database, each to a topic of its own."""
    keys = connector.keys
    transforms = connect_transforms.read(keys, from_kafka=False)
    connection, growing = _connection(connector), _growing(connector)
    query, prefix = keys.take("query"), keys.take("topic.prefix") or ""
    tables = keys.listed("table.whitelist", "table.include.list")
    interval = duration(keys.take("poll.interval.ms"))
    if interval is not None:
        connector.values["trigger"] = interval
    keys.pass_over(
        ("batch.max.rows", "table.poll.interval.ms", "validate.non.null", "connection.attempts"),
        "is not needed: a batch reads what is new, in parts",
    )
    if query is None and not tables:
        hint = "list them in `table.whitelist` and convert again"
        connector.report.to_add(_ALL_TABLES, keys.span, hint)
        tables = ["the_table"]
    topics: dict[str, str] = {}
    read = [{"query": query}] if query is not None else [{"table": each} for each in tables]
    for what in read:
        name = "source" if len(read) == 1 else identifier(str(what["table"]))
        values = {"connector_type": "jdbc", **connection, **what, **growing}
        connector.sources.append(Part(name, values))
        topics[name] = prefix + (what.get("table") or "").rpartition(".")[2]
    connector.to_kafka(topics, transforms)


def sink(connector: Connector) -> None:
    """Records of topics, each into a table of its own unless the name says otherwise."""
    keys = connector.keys
    topics, pattern = connector.subscribed()
    template = _table(connector)
    form = keys.take("table.name.format") or _TOPIC
    kept = keys.listed("fields.whitelist", "fields.include.list")
    transforms = connector.from_kafka(topics, pattern)
    connector.set_source(tombstones="keep" if keys.flag("delete.enabled", False) else "bad")
    if kept:
        columns = ", ".join(bare(each) for each in kept)
        connector.steps.append(step("columns", f"SELECT {columns} FROM input"))
    if pattern is not None and _TOPIC in form:
        why = "names a table for each topic, which a pattern of topics cannot have here"
        connector.report.lost("table.name.format", keys.at("topics.regex"), why)
        form = "the_table"
    if len(topics) > 1 and _TOPIC in form:
        _one_of_each(connector, topics, form, template, transforms)
        return
    table = form.replace(_TOPIC, transforms.topic(topics[0]) if topics else "")
    connector.sinks.append(Part("sink", {**template, "table": table}))


def _one_of_each(
    connector: Connector,
    topics: list[str],
    form: str,
    template: dict[str, Plain],
    transforms: Transforms,
) -> None:
    """A source, steps and a sink for each topic."""
    whole, steps = connector.sources.pop(), list(connector.steps)
    connector.steps.clear()
    for topic in topics:
        name = identifier(topic)
        own = {"topic": topic, "consumer_group": f"{whole.values['consumer_group']}-{topic}"}
        values = {key: each for key, each in whole.values.items() if key != "topics"} | own
        connector.sources.append(Part(name, values, whole.remarks))
        rows = by_source(steps, connector.steps, name)
        table = form.replace(_TOPIC, transforms.topic(topic))
        into = {"connector_type": "jdbc", "from": rows, **template, "table": table}
        connector.sinks.append(Part(f"{name}_table", into))


def _connection(connector: Connector) -> dict[str, Plain]:
    keys = connector.keys
    values: dict[str, Plain] = {"url": keys.take("connection.url") or ""}
    for name in ("user", "password"):
        text = keys.take(f"connection.{name}")
        if text is not None:
            values[name] = text
    keys.pass_over(("dialect.name",), "is not needed: it follows from the address")
    return values


def _growing(connector: Connector) -> dict[str, Plain]:
    """The column by which new rows are known."""
    keys, report = connector.keys, connector.report
    mode, number = keys.take("mode") or "bulk", keys.take("incrementing.column.name")
    times = keys.listed("timestamp.column.name")
    delay = duration(keys.take("timestamp.delay.interval.ms"))
    start = keys.take("timestamp.initial", "incrementing.initial")
    values: dict[str, Plain] = {"column": number or "id"}
    if mode == "bulk":
        why = "is bulk: all rows again each time; here only what is new by a column is read"
        report.lost("mode", keys.at("mode"), why, "see that `column` is one that grows")
    elif mode.startswith("timestamp") and times:
        values["column"] = times[0]
        values |= {"delay": delay} if delay is not None else {}
        if mode != "timestamp" or len(times) > 1:
            how = f"looks at several columns; here only at {times[0]}"
            hint = "a `delay` lets rows of the same time come together"
            report.differs("mode", keys.at("mode"), how, hint)
    elif number is None:
        report.to_add("the column that grows is found there; here it is named", keys.at("mode"))
    return values | ({"start": start} if start is not None else {})


def _table(connector: Connector) -> dict[str, Plain]:
    """The options of a sink; its `table` is set for each."""
    keys, report = connector.keys, connector.report
    values: dict[str, Plain] = {"connector_type": "jdbc", **_connection(connector), "table": ""}
    mode, fields = keys.take("insert.mode") or "insert", keys.listed("pk.fields")
    key_mode = keys.take("pk.mode") or "none"
    if mode != "insert":
        values |= {"mode": "upsert", "key": fields or ["id"]}
        if key_mode != "record_value" or not fields:
            how = f"is {key_mode}; here the key must be among the columns of the value"
            report.differs("pk.mode", keys.at("pk.mode"), how, "look at `key`")
    if mode == "update":
        why = "is update, which changes only rows that are there; here they are added, too"
        report.lost("insert.mode", keys.at("insert.mode"), why)
    values["create_table"] = keys.flag("auto.create", default=False)
    if keys.flag("auto.evolve", default=False):
        why = "is on: columns would be added to the table; here a new one is an error"
        report.lost("auto.evolve", keys.at("auto.evolve"), why)
    rows = keys.take("batch.size")
    if rows is not None and rows.isdecimal() and int(rows) > 0:
        values["batch_rows"] = int(rows)
    return values
