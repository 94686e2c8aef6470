"""`headrace produce --subject` and `consume --decode`, with a real registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.testing.fixtures import TopicMaker

Headrace = Callable[..., Any]
FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}


def test_records_are_written_and_shown_by_their_schema(
    headrace: Headrace, registry_url: str, topic: TopicMaker, tmp_path: Path
) -> None:
    orders, registry = topic("orders"), ("--registry", registry_url)
    subject = f"{orders}-value"
    missing = headrace("produce", orders, "--subject", subject, *registry, stdin="{}\n")
    assert (missing.code, missing.err.split()[0]) == (4, "UnknownSubject")
    assert f"headrace schemas register {subject} FILE" in missing.err
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    assert headrace("schemas", "register", subject, tmp_path / "order.avsc", *registry).code == 0

    lines = '{"id": 1, "name": "ada"}\n{"id": 2, "name": null}\n{"id": "x"}\n'
    sent = headrace("produce", orders, "--subject", subject, *registry, stdin=lines)
    assert sent.code == 4
    assert "record 3: does not fit" in sent.err
    assert f"2 written to {orders}, 1 rejected" in sent.err
    headrace("produce", orders, stdin="text\n")
    headrace("produce", orders, stdin=b"\0\x7f\x7f\x7f\x7f")

    shown = headrace("consume", orders, "--last", 4, "--decode", *registry)
    assert shown.out.splitlines()[:3] == [*lines.splitlines()[:2], "text"]
    assert (
        f"{orders}[0]@3: the value is shown as it is: by schema 2139062143: a schema with id"
        in shown.err
    )
    as_json = headrace("consume", orders, "--last", 4, "-o", "json", "--decode", *registry)
    assert json.loads(json.loads(as_json.lines[0])["value"]) == {"id": 1, "name": "ada"}
    raw = headrace("consume", orders, "--last", 4, "-o", "json")
    assert json.loads(raw.lines[0])["value"].startswith("\0\0\0\0")
