"""Functions for Spark's workers are copied with all that they need, and nothing of Headrace."""

from __future__ import annotations

from headrace.codeview.embedding import Embedding
from headrace.formats.carried import COLUMN
from headrace.runtime.message_function import MessageFunction, Target
from headrace.runtime.modules import Modules
from headrace.sinks import kafka_producer


def _run(embedding: Embedding) -> dict[str, object]:
    lines = ["from __future__ import annotations", *sorted(embedding.imports), *embedding.lines]
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile("\n".join(lines), "script", "exec", dont_inherit=True), names)
    return names


def test_a_class_stands_by_itself() -> None:
    embedding = Embedding()
    embedding.add(kafka_producer, "Outbox")
    names = _run(embedding)
    assert {"Outbox", "NotDelivered"} <= names.keys()
    assert "headrace" not in "\n".join([*embedding.imports, *embedding.lines]).lower().replace(
        kafka_producer.NOT_DELIVERED.lower(), ""
    )


def test_what_is_not_used_is_left_out() -> None:
    embedding = Embedding()
    embedding.add(kafka_producer, "NotDelivered")
    assert {"NotDelivered", "NOT_DELIVERED"} <= _run(embedding).keys()
    assert "Outbox" not in _run(embedding)


def test_a_closure_comes_with_the_values_that_it_closes_over() -> None:
    function = MessageFunction("step", "module.name", Modules({}), 10, Target(None, {}))
    embedding = Embedding()
    text, values = embedding.closure(function.task())
    assert text.startswith("def run(")
    assert values == {"self": function}
    names = _run(embedding)
    assert callable(names["lists"])
    assert names["COLUMN"] == COLUMN
