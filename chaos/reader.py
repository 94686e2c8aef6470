"""A reader of topics in a process of its own, which writes down all that it sees.

`python -m chaos.reader SERVERS ISOLATION FILE TOPIC…` reads from the beginning. When its standard
input is closed, it reads up to what is then the end, and ends.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from chaos.history import line

_MOST, _POLL_SECONDS = 5000, 0.2
_ASK_SECONDS = 30
Key = tuple[str, int]


def read(servers: str, isolation: str, file: Path, topics: Sequence[str]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "chaos.reader",  # which no one joins and no offset is stored for
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    keys = list(_partitions(consumer, topics))
    consumer.assign([TopicPartition(*key, OFFSET_BEGINNING) for key in keys])
    told = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(told,), daemon=True).start()
    reached = dict.fromkeys(keys, -1)
    ends: dict[Key, int] | None = None
    with file.open("w", buffering=1 << 16) as history:
        while ends is None or any(reached[key] < end for key, end in ends.items()):
            messages = consumer.consume(_MOST, _POLL_SECONDS)
            now = time.time()
            history.writelines(_line(now, message) for message in messages if not message.error())
            for message in messages:
                _note_end(reached, message)
            if not messages:
                history.flush()
            if told.is_set() and ends is None:
                ends = {key: _end(consumer, key) for key in keys}
    consumer.close()


def _await_end_of_input(told: threading.Event) -> None:
    sys.stdin.buffer.read()
    told.set()


def _partitions(consumer: Consumer, topics: Sequence[str]) -> Sequence[Key]:
    found = consumer.list_topics(timeout=_ASK_SECONDS).topics
    return [(topic, partition) for topic in topics for partition in found[topic].partitions]


def _end(consumer: Consumer, key: Key) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(*key), timeout=_ASK_SECONDS)
    return int(end)


def _note_end(reached: dict[Key, int], message: Message) -> None:
    """An end is told once, with its offset; it is behind what ends a transaction, too."""
    error = message.error()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        reached[message.topic() or "", message.partition() or 0] = message.offset() or 0


def _line(now: float, message: Message) -> str:
    at = message.topic() or "", message.partition() or 0, message.offset() or 0
    return line(now, at, message.key(), message.value(), message.headers())


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
