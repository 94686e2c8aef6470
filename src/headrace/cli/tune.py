"""`headrace tune`: what a pipeline's topics and brokers really are, and what to change for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.definitions import FileArgument, PipelineOption, find_definition
from headrace.cli.pipelines import MasterOption

if TYPE_CHECKING:
    from headrace.runtime.tuning import Finding, SourceFacts, TopicFacts, Tuning


def register(app: typer.Typer) -> None:
    app.command("tune", rich_help_panel="Pipelines", no_args_is_help=True)(tune)


def tune(
    file: FileArgument,
    pipeline: PipelineOption = None,
    sample: Annotated[
        int,
        typer.Option("--sample", min=1, help="How many of the newest records of each partition."),
    ] = 100,
    master: MasterOption = None,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Look at the real records and limits, and say what is worth setting; starts no Spark."""
    found = find_definition(file, pipeline).tune(master, sample)
    if form is output.Format.TABLE:
        for text in _lines(found):
            output.line(text)
    else:
        output.emit_value(_value(found), form)


def _lines(found: Tuning) -> Iterator[str]:
    for source in found.facts.sources:
        yield from _source(source)
    if found.facts.sources:
        yield from _memory(found)
    findings = found.findings
    for finding in findings:
        yield ""
        yield from _finding(finding)
    if not findings:
        yield ""
        yield "nothing to change"


def _source(source: SourceFacts) -> Iterator[str]:
    from headrace.admin import quantities

    yield f"source `{source.name}`"
    for topic in source.topics:
        yield from _topic(topic)
    fetch = quantities.size(source.fetch.value)
    yield f"  batches of at most {source.batch_size.value:,} records ({source.batch_size.origin})"
    yield f"  fetches of {fetch} of each partition ({source.fetch.origin})"
    if source.started:
        reads = quantities.rate(source.read) if source.read else "not being read"
        yield f"  {source.waiting:,} records wait ({reads}), by group {source.group}"
    else:
        passed = sum(topic.records for topic in source.topics) - source.waiting
        skips = f" and does not read the {passed:,} records before" if passed else ""
        yield f"  no position yet: a first run begins at {source.begins_at}{skips}"


def _topic(topic: TopicFacts) -> Iterator[str]:
    from headrace.admin import quantities, sampling

    sizes = topic.sizes
    minutes = sampling.RATE_SECONDS // 60
    yield (
        f"  topic {topic.topic}: {output.counted(topic.partitions, 'partition')}, "
        f"{output.counted(topic.records, 'record')}, {quantities.rate(topic.rate)} written in the "
        f"last {minutes} minutes, messages up to {quantities.size(topic.limit)}"
    )
    if not sizes.count:
        yield "    no record to look at"
        return
    yield (
        f"    the newest {output.counted(sizes.count, 'record')}: "
        f"{quantities.size(sizes.smallest)} to {quantities.size(sizes.largest)}, "
        f"{quantities.size(sizes.average)} on average, 95 % up to {quantities.size(sizes.p95)}"
    )


def _memory(found: Tuning) -> Iterator[str]:
    from headrace.admin import quantities
    from headrace.runtime.tuning import fetched_bytes

    facts = found.facts
    tasks = "as the cluster allows" if facts.tasks is None else f"{facts.tasks} at once"
    yield (
        f"memory: fetched records take {quantities.size(fetched_bytes(facts))} at most, of "
        f"{quantities.size(facts.memory.heap)} ({facts.memory.setting}, {facts.memory.origin})"
    )
    partitions = sum(source.partitions for source in facts.sources)
    yield f"tasks: {tasks}, for {output.counted(partitions, 'partition')}"


def _finding(finding: Finding) -> Iterator[str]:
    label = "" if finding.diagnostic.severity == "error" else " warning:"
    yield f"{finding.span} {finding.code}{label} {finding.message}"
    if finding.line is not None:
        yield f"    {finding.line}"
    elif finding.hint is not None:
        yield f"  → {finding.hint}"


def _value(found: Tuning) -> dict[str, Any]:
    from headrace.runtime.tuning import fetched_bytes

    facts = found.facts
    return {
        "pipeline": facts.pipeline,
        "sources": [_source_value(source) for source in facts.sources],
        "memory": {
            "fetched": fetched_bytes(facts),
            "heap": facts.memory.heap,
            "setting": facts.memory.setting,
            "processes": facts.memory.processes,
            "machine": facts.memory.machine,
        },
        "tasks": facts.tasks,
        "findings": [
            {
                "code": finding.code,
                "severity": str(finding.severity),
                "message": finding.message,
                "file": finding.span.file,
                "line_number": finding.span.line,
                "column": finding.span.column,
                "line": finding.line,
                "hint": finding.hint,
            }
            for finding in found.findings
        ],
    }


def _source_value(source: SourceFacts) -> dict[str, Any]:
    return {
        "name": source.name,
        "topics": [asdict(topic) for topic in source.topics],
        "partitions": source.partitions,
        "rate": source.rate,
        "batch_size": source.batch_size.value,
        "max_partition_fetch_bytes": source.fetch.value,
        "limits": asdict(source.limits),
        "started": source.started,
        "waiting": source.waiting,
        "read": source.read,
        "forecast": [asdict(each) for each in source.forecast],
    }
