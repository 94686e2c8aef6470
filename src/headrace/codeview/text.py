"""A script as it grows: imports, constants, lines; and the parts of it that are always the same."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.codeview.embedding import Embedding
from headrace.codeview.recording import Code, Recorded, render, secret_code
from headrace.spec import Setting

# What `python script.py` and spark-submit decide.
_NOT_SET = ("spark.master", "spark.app.name")
_TAKEN = {"as_json", "batch", "batch_id", "builder", "expr", "find", "generation", "json", "os"}
_TAKEN |= {"spark", "start", "store", "stored", "sys", "uuid"}
_INDENT = "    "
_WIDTH = 98

STREAM_ABOUT = (
    "Made by `headrace explain --code`; it needs pyspark and delta-spark.",
    "",
    "    python script.py            until it is stopped",
    "    python script.py --once     what is there now, and end",
    "",
    "Spark fetches its jars, or takes the files that SPARK_JARS lists. Checkpoints are kept in the",
    "folder that CHECKPOINTS names, or else in checkpoints/ here. Topics must exist.",
)
BATCH_ABOUT = (
    "Made by `headrace explain --code`; it needs pyspark, delta-spark and confluent-kafka.",
    "",
    "    python script.py            reads what is new, and ends",
    "",
    "Spark fetches its jars, or takes the files that SPARK_JARS lists. Positions are kept in the",
    "Delta table that OFFSETS names, or else in offsets/ here; a crash before they are stored has",
    "the range written again. Topics must exist.",
)

GENERATION = """
# Tables know a batch again by its number and by this name of the checkpoints' life.
CHECKPOINTS.mkdir(parents=True, exist_ok=True)
generation_file = CHECKPOINTS / "generation"
if not generation_file.exists():
    generation_file.write_text(uuid.uuid4().hex)
generation = generation_file.read_text()
"""

START = '''

def start(
    rows: DataFrame, write: Callable[[DataFrame, int], None], name: str, mode: str = "append"
) -> None:
    """Follow `rows`, and give each batch of them to `write`."""
    stream = rows.writeStream.foreachBatch(write).queryName(name).outputMode(mode)
    stream = stream.option("checkpointLocation", str(CHECKPOINTS / name))
    if "--once" in sys.argv:
        stream = stream.trigger(availableNow=True)
'''

RANGES = '''

Offsets = dict[tuple[str, int], int]


def stored(source: str) -> Offsets:
    """The next offset to read of each partition; empty before the first run."""
    if not DeltaTable.isDeltaTable(spark, str(OFFSETS)):
        return {}
    rows = spark.read.format("delta").load(str(OFFSETS)).collect()
    return {(r.topic, r.partition): r.max_offset + 1 for r in rows if r.source == source}


def find(source: str, servers: str, topics: list[str], first: str) -> tuple[Offsets, Offsets]:
    """Where each partition is read from, and up to where; `first` is where a first run begins."""
    admin = AdminClient({"bootstrap.servers": servers})
    keys = [
        (topic, partition)
        for topic in topics
        for partition in admin.list_topics(topic, timeout=30).topics[topic].partitions
    ]
    lows, end = (
        _ask(admin, keys, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    known = stored(source)
    fresh = end if first == "latest" and not known else lows
    return {key: max(known.get(key, fresh[key]), lows[key]) for key in keys}, end


def _ask(admin: AdminClient, keys: list[tuple[str, int]], spec: OffsetSpec) -> Offsets:
    asked = admin.list_offsets(
        {TopicPartition(*key): spec for key in keys},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=30,
    )
    return {(at.topic, at.partition): future.result().offset for at, future in asked.items()}


def as_json(offsets: Offsets, positions: bool = True) -> str:
    """As Spark's reader wants them: with their positions, or only the partitions."""
    found: dict = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    if positions:
        return json.dumps(found)
    return json.dumps({topic: [int(each) for each in parts] for topic, parts in found.items()})


def store(ends: dict[str, Offsets]) -> None:
    """That everything before `ends` is done."""
    rows = [
        (topic, partition, offset - 1, source)
        for source, offsets in ends.items()
        for (topic, partition), offset in offsets.items()
    ]
    schema = "topic STRING, partition INT, max_offset BIGINT, source STRING"
    table = spark.createDataFrame(rows, schema).coalesce(1)
    table.write.format("delta").mode("overwrite").save(str(OFFSETS))
'''


def folder(environment: str, default: str) -> str:
    """Code for a folder that the environment may name."""
    return f"Path(os.environ.get({render(environment)}, {render(default)})) / NAME"


def variable(name: str) -> str:
    """A name for a table that Python takes and that the script has no other use for."""
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


class Script:
    """Lines as they grow. `secrets` are the variables of the environment that hold a value."""

    def __init__(self, pipeline: str, secrets: Mapping[str, str]) -> None:
        self.pipeline = pipeline
        self.secrets = secrets
        self.imports = {
            "import os",
            "from pathlib import Path",
            "from pyspark.sql import DataFrame, SparkSession",
            "from pyspark.sql.functions import expr",
        }
        self.embedding = Embedding()
        self._data_sources: dict[str, str] = {}
        self._constants: list[str] = []
        self._lines: list[str] = []
        self._margin = ""

    # Writing

    def add(self, *lines: str) -> None:
        self._lines.extend(f"{self._margin}{line}" if line else "" for line in lines)

    def gap(self) -> None:
        self._lines.extend(["", ""] if self._lines else [])

    def comment(self, words: str) -> None:
        line = "#"
        for word in words.split():
            if len(line) + 1 + len(word) > _WIDTH - len(self._margin):
                self.add(line)
                line = "#"
            line += f" {word}"
        self.add(line)

    def constant(self, name: str, code: str) -> None:
        self._constants.append(f"{name} = {code}")

    def assign(self, name: str, value: Recorded) -> Recorded:
        self.add(f"{name} = {render(value, self._margin, len(name) + 3)}")
        return self.name(name, real=value.real)

    def name(self, name: str, real: Any = None) -> Recorded:
        """A Spark object that the script has a name for."""
        return Recorded((name,), self, real)

    def act(self, statement: Recorded) -> None:
        self.add(render(statement, self._margin))

    def hide(self, value: Any) -> Any:
        """Secrets come from the environment, and data sources have the names of their classes."""
        if not isinstance(value, str):
            return value
        if value in self._data_sources:
            return Code(render(self._data_sources[value]), value)
        return secret_code(value, self.secrets)

    def embed(self, function: Callable[..., Any]) -> str:
        """Code for a function for Spark's workers, which is copied into the script."""
        if isinstance(function, type):
            return self._embed_class(function)
        code, values = self.embedding.closure(function)
        maker = function.__qualname__.partition(".<locals>")[0]
        if "self" in values:
            # A method made it, so the script has the method make it again.
            cls, _, method = maker.partition(".")
            self.embedding.add(sys.modules[function.__module__], cls)
            self.embedding.imports |= {"import pyarrow as pa"}
            self.imports.add("from pyspark.sql.types import StructType")
            return f"{render(values['self'])}.{method}()"
        for name, value in values.items():
            self.add(f"{name} = {render(value, self._margin, len(name) + 3)}")
        self.add("", *code.splitlines(), "")
        return function.__name__

    def _embed_class(self, registered: Any) -> str:
        """A data source, which Headrace registers by a name of its own."""
        kind = registered.__mro__[1]
        self._data_sources[registered.name()] = kind.__name__
        if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
            self.embedding.add(sys.modules[kind.__module__], kind.__name__)
        else:
            self.imports.add(f"from {kind.__module__} import {kind.__name__}")
        return str(kind.__name__)

    @contextmanager
    def indented(self) -> Iterator[None]:
        before, self._margin = self._margin, self._margin + _INDENT
        yield
        self._margin = before

    def session(self, settings: tuple[Setting, ...]) -> None:
        """Spark, with the settings that a run would have."""
        self.add("builder = SparkSession.builder.appName(NAME)")
        origin = ""
        for setting in settings:
            if setting.name in _NOT_SET:
                continue
            if setting.origin != origin:
                self.comment(setting.origin)
            origin = setting.origin
            self.assign("builder", self.name("builder").config(setting.name, setting.value))
        self.add(
            'if "SPARK_JARS" in os.environ:',
            '    builder = builder.config("spark.jars", os.environ["SPARK_JARS"])',
            "else:",
            '    builder = builder.config("spark.jars.packages", ",".join(PACKAGES))',
            "spark = builder.getOrCreate()",
        )

    # All of it

    def whole(self, about: list[str], packages: tuple[str, ...]) -> str:
        imports = self.imports | self.embedding.imports
        return "\n".join(
            [
                *_docstring(about),
                "",
                "from __future__ import annotations",
                "",
                *_imports(imports),
                "",
                f"NAME = {render(self.pipeline)}",
                f"PACKAGES = {render(packages, '', 11)}",
                *self._constants,
                *self.embedding.lines,
                *(["", ""] if self.embedding.lines else [""]),
                *self._lines,
                "",
            ]
        )


def _docstring(about: list[str]) -> Iterator[str]:
    first, *rest = about
    line = '"""'
    for word in first.split():
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = ""
        line += word if line in ("", '"""') else f" {word}"
    yield line
    yield from rest
    yield '"""'


def _imports(lines: set[str]) -> Iterator[str]:
    """Python's own first, then those of packages."""
    by_group: dict[bool, list[str]] = {True: [], False: []}
    for line in lines:
        by_group[line.split()[1].partition(".")[0] in sys.stdlib_module_names].append(line)
    yield from sorted(by_group[True], key=lambda line: (line.startswith("from"), line))
    yield ""
    yield from sorted(by_group[False], key=lambda line: (line.startswith("from"), line))
