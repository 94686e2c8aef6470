"""A draft as SQL: CREATE TABLE for each source and sink, CREATE VIEW for each step, one pipeline.

Every option has its name and value in WITH; a schema becomes columns, a watermark WATERMARK FOR,
where the SQL front-end makes the same of them. Names of sinks and of the pipeline that are taken in
SQL, where all things share one set of names, are kept by the option `name`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import indent

from headrace.convert import wiring
from headrace.convert.draft import Draft, Part, Plain, Remark, Values
from headrace.frontend.sql.tables import bare
from headrace.frontend.sql.tokens import Sort, tokenize, value
from headrace.model.schema import Column, Schema, quote

_TAB = "    "
_WIDTH = 88
_FEW, _SHORT = 3, 76  # options that stand in one line
# Words that would be taken for something else where a name is expected.
_WORDS = {
    *("all", "as", "begin", "end", "exists", "from", "if", "insert", "into", "not", "or"),
    *("overwrite", "select", "set", "table", "to", "values", "with"),
}
_OPTION = re.compile(r"[a-z_][a-z0-9_]*")


def write(draft: Draft) -> str:
    """The text of a file with one pipeline."""
    whole = wiring.explicit(draft)
    taken = {part.name.lower() for part in (*whole.sources, *whole.steps)}
    sinks = {part.name: _free(part.name, "sink", taken) for part in whole.sinks}
    # A name can be a reference in an option only.
    pipeline = _free("pipeline" if "${" in whole.name else whole.name, "pipeline", taken)
    statements = [
        *(_source(part) for part in whole.sources),
        *(_view(part) for part in whole.steps),
        *(_sink(part, sinks[part.name]) for part in whole.sinks),
        _pipeline(whole, pipeline, sinks),
    ]
    heading = [_comments(draft.heading).rstrip("\n")] if draft.heading else []
    return "\n\n".join([*heading, *statements]) + "\n"


def _free(name: str, kind: str, taken: set[str]) -> str:
    """The name itself where nobody has it in SQL, else one that says what it is."""
    found, number = name, 1
    while found.lower() in taken:
        found = f"{name}_{kind}" if number == 1 else f"{name}_{kind}_{number}"
        number += 1
    taken.add(found.lower())
    return found


# Statements


def _source(part: Part) -> str:
    values = dict(part.values)
    declared = _declared(values)
    if part.connector == "kafka" and "auto_offset_reset" not in values:
        values["auto_offset_reset"] = "default"  # SQL begins with the earliest, where YAML does not
    head = f"{_comments(part.above)}CREATE TABLE {_name(part.name)}"
    if declared:
        said = _comments(part.remarks.get("schema", Remark()).above)
        head += f" (\n{indent(said + _lines(declared), _TAB)}\n)"
    return f"{head} {_with(_connector(values), part.remarks)};"


def _view(part: Part) -> str:
    head = f"{_comments(part.above)}CREATE VIEW {_name(part.name)}"
    if "sql" in part.values:
        return f"{head} AS\n{_query(str(part.values['sql']))};"
    return f"{head} {_with(part.values, part.remarks)};"


def _sink(part: Part, name: str) -> str:
    values = {key: each for key, each in part.values.items() if key != "from"}
    called = {} if name == part.name else {"name": part.name}
    head = f"{_comments(part.above)}CREATE TABLE {_name(name)}"
    return f"{head} {_with({**_connector(values), **called}, part.remarks)};"


def _pipeline(draft: Draft, name: str, sinks: Mapping[str, str]) -> str:
    called = {} if name == draft.name else {"name": draft.name}
    own = {key: each for key, each in draft.values.items() if key != "pipeline"}
    spark = own.pop("spark", {})
    options = {**called, **own, **spark}
    said = draft.remarks.get("pipeline", Remark())
    head = _comments([*said.above, *filter(None, [said.beside])])
    head += f"CREATE PIPELINE {_name(name)} "
    head += f"{_with(options, draft.remarks)} AS" if options else "AS"
    inserts = [
        f"INSERT INTO {_name(sinks[sink.name])} SELECT * FROM {_name(str(sink.values['from']))}"
        for sink in draft.sinks
    ]
    if not inserts:
        return f"{head}\nSELECT * FROM {_name(wiring.output(draft))};"
    if len(inserts) == 1:
        return f"{head}\n{inserts[0]};"
    return f"{head} BEGIN\n" + "".join(f"{_TAB}{each};\n" for each in inserts) + "END;"


def _connector(values: Values) -> dict[str, Plain]:
    """`connector` first, as it is called in SQL, and Kafka's properties by their own names."""
    rest = {key: each for key, each in values.items() if key != "connector_type"}
    properties: Plain = rest.get("properties")
    kafkas = values["connector_type"] == "kafka" and isinstance(properties, dict)
    if kafkas and all("." in name for name in properties):
        del rest["properties"]
        rest |= properties
    return {"connector": values["connector_type"], **rest}


def _query(sql: str) -> str:
    """The author's SELECT without its semicolon; a comment that ends it keeps its line."""
    words = [token for token in tokenize(sql) if token.sort is not Sort.END]
    ends = [token for token in words if token.key == ";"]
    last = next((token.end for token in reversed(words) if token.key != ";"), len(sql))
    for token in reversed(ends):
        sql = sql[: token.start] + sql[token.end :]
    comment = sql[last:].strip()
    return f"{sql[:last]}  {comment}\n" if comment else sql[:last]


# Columns


def _declared(values: dict[str, Plain]) -> list[str]:
    """The columns of a source and its watermark, taken out of its options where SQL has them."""
    lines: dict[str, str] = {}
    text = values.get("schema")
    if isinstance(text, str) and "${" not in text:
        del values["schema"]
        columns = Schema.parse(text).columns
        lines = {each.name: _column(each) for each in columns}
        lines |= _generated(values, [each.name for each in columns])
    return [*lines.values(), *_watermark(values, list(lines))]


def _column(column: Column) -> str:
    return f"{bare(column.name)} {column.type}" + ("" if column.nullable else " NOT NULL")


def _generated(values: dict[str, Plain], names: list[str]) -> dict[str, str]:
    """What `columns` adds to all of the schema's own; any other choice stays an option."""
    shown = values.get("columns")
    if not isinstance(shown, dict):
        return {}
    added = {name: each for name, each in shown.items() if name not in names}
    is_whole = list(shown) == [*names, *added] and all(shown[name] == bare(name) for name in names)
    if not is_whole or not added or any("${" in each for each in added.values()):
        return {}
    del values["columns"]
    return {name: f"{bare(name)} AS ({each})" for name, each in added.items()}


def _watermark(values: dict[str, Plain], names: list[str]) -> list[str]:
    """WATERMARK FOR, where its column is declared or no column is."""
    asked = values.get("watermark")
    if not isinstance(asked, dict):
        return []
    column, delay = str(asked["column"]), str(asked["delay"])
    known = not names or column.lower() in (name.lower() for name in names)
    if not known or "${" in column + delay:
        return []
    del values["watermark"]
    return [f"WATERMARK FOR {bare(column)} AS {bare(column)} - INTERVAL '{delay}'"]


# Options


def _lines(items: Sequence[str]) -> str:
    return ",\n".join(items)


def _with(values: Values, remarks: Mapping[str, Remark]) -> str:
    short = f"WITH {_options(values)}"
    if len(values) <= _FEW and len(short) <= _SHORT and not any(key in remarks for key in values):
        return short
    lines: list[str] = []
    for number, (name, each) in enumerate(values.items(), start=1):
        remark = remarks.get("connector_type" if name == "connector" else name, Remark())
        lines += [f"{_TAB}-- {line}" for line in remark.above]
        comma = "," if number < len(values) else ""
        beside = f"  -- {remark.beside}" if remark.beside else ""
        lines.append(f"{_option(name, each, _TAB)}{comma}{beside}")
    return "WITH (\n" + "\n".join(lines) + "\n)"


def _option(name: str, each: Plain, lead: str) -> str:
    """One option; a mapping that is too long for a line has one for each of its own."""
    line = f"{lead}{_option_name(name)} = {_value(each)}"
    if len(line) <= _WIDTH or not isinstance(each, dict):
        return line
    inside = _lines([_option(key, value, lead + _TAB) for key, value in each.items()])
    return f"{lead}{_option_name(name)} = (\n{inside}\n{lead})"


def _option_name(name: str) -> str:
    return name if _OPTION.fullmatch(name) else _text(name)


def _value(each: Plain) -> str:
    if isinstance(each, bool):
        return "true" if each else "false"
    if isinstance(each, int):
        return str(each)
    if isinstance(each, dict):
        return _options(each)
    if isinstance(each, list):
        inside = ", ".join(_value(item) for item in each)
        # `()` would be no options at all.
        return f"[{inside}]" if not each or isinstance(each[0], dict) else f"({inside})"
    return _text(str(each))


def _options(values: Values) -> str:
    inside = ", ".join(f"{_option_name(name)} = {_value(each)}" for name, each in values.items())
    return f"( {inside} )" if inside else "()"


def _text(text: str) -> str:
    """In quotes; a backslash is doubled only where it would be taken for an escape."""
    plain = "'" + text.replace("'", "''") + "'"
    tokens = tokenize(plain)
    if len(tokens) == 2 and tokens[0].sort is Sort.TEXT and value(tokens[0])[0] == text:
        return plain
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _name(name: str) -> str:
    return quote(name) if name.lower() in _WORDS else bare(name)


def _comments(lines: Sequence[str]) -> str:
    return "".join(f"-- {line}".rstrip() + "\n" for line in lines)
