"""Delete single positions of a consumer group, by librdkafka's C interface.

The Python client has no call for this, while the library that it brings along has. Only functions
of librdkafka's public, versioned interface are used. The login is the cluster's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

from confluent_kafka import KafkaError, cimpl

from headrace.admin.client import REQUEST_SECONDS, Cluster, translate
from headrace.admin.offsets import TopicPartitionKey
from headrace.errors import BrokerTimeout, DefinitionError

_PRODUCER = 0  # rd_kafka_type_t; any client can send admin requests, and this kind joins no group


class _Partition(Structure):
    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("_private", c_void_p),
    )


class _Partitions(Structure):
    _fields_ = (("cnt", c_int), ("size", c_int), ("elems", POINTER(_Partition)))


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartitionKey]) -> None:
    """Forget where a group stands in these partitions; refused while a member reads the topic."""
    keys = list(partitions)
    action = f"deleting offsets of group {group}"
    with ExitStack() as stack:
        client = stack.enter_context(_client(cluster))
        request = stack.enter_context(_request(group, keys))
        event = stack.enter_context(_answer(client, request, action))
        for code, reason, topic in _errors(event):
            raise translate(KafkaError(code, reason), action, cluster.bootstrap, topic, group)


@contextmanager
def _client(cluster: Cluster) -> Iterator[c_void_p]:
    reason = ctypes.create_string_buffer(512)
    conf = _lib.rd_kafka_conf_new()
    for name, value in {**cluster.config, "log_level": "0"}.items():
        if _lib.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), reason, 512) != 0:
            _lib.rd_kafka_conf_destroy(conf)
            raise DefinitionError(f"client properties: {reason.value.decode()}")
    client = _lib.rd_kafka_new(_PRODUCER, conf, reason, 512)
    if not client:
        _lib.rd_kafka_conf_destroy(conf)
        raise DefinitionError(f"client properties: {reason.value.decode()}")
    try:
        yield client
    finally:
        _lib.rd_kafka_destroy(client)


@contextmanager
def _request(group: str, keys: Sequence[TopicPartitionKey]) -> Iterator[c_void_p]:
    listed = _lib.rd_kafka_topic_partition_list_new(len(keys))
    for topic, partition in keys:
        _lib.rd_kafka_topic_partition_list_add(listed, topic.encode(), partition)
    request = _lib.rd_kafka_DeleteConsumerGroupOffsets_new(group.encode(), listed)
    _lib.rd_kafka_topic_partition_list_destroy(listed)
    try:
        yield request
    finally:
        _lib.rd_kafka_DeleteConsumerGroupOffsets_destroy(request)


@contextmanager
def _answer(client: c_void_p, request: c_void_p, action: str) -> Iterator[c_void_p]:
    queue = _lib.rd_kafka_queue_new(client)
    requests = (c_void_p * 1)(request)
    _lib.rd_kafka_DeleteConsumerGroupOffsets(client, requests, 1, None, queue)
    event = _lib.rd_kafka_queue_poll(queue, int(REQUEST_SECONDS * 1000))
    try:
        if not event:
            raise BrokerTimeout(action)
        yield event
    finally:
        if event:
            _lib.rd_kafka_event_destroy(event)
        _lib.rd_kafka_queue_destroy(queue)


def _errors(event: c_void_p) -> Iterator[tuple[int, str, str | None]]:
    """What was refused: the request, the group, or single partitions."""
    if code := _lib.rd_kafka_event_error(event):
        yield code, _lib.rd_kafka_event_error_string(event).decode(), None
        return
    count = c_size_t()
    result = _lib.rd_kafka_event_DeleteConsumerGroupOffsets_result(event)
    groups = _lib.rd_kafka_DeleteConsumerGroupOffsets_result_groups(result, byref(count))
    for group in groups[: count.value]:
        if error := _lib.rd_kafka_group_result_error(group):
            yield _lib.rd_kafka_error_code(error), _lib.rd_kafka_error_string(error).decode(), None
            continue
        listed = _lib.rd_kafka_group_result_partitions(group).contents
        for each in listed.elems[: listed.cnt]:
            if each.err:
                yield each.err, _lib.rd_kafka_err2str(each.err).decode(), each.topic.decode()


def _bind() -> Any:
    # The extension module is linked to librdkafka, so its functions are found through it, whatever
    # file the library itself is in.
    lib = ctypes.CDLL(cimpl.__file__)
    for name, result, *arguments in _FUNCTIONS:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


_FUNCTIONS: tuple[tuple[Any, ...], ...] = (
    ("rd_kafka_conf_new", c_void_p),
    ("rd_kafka_conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    ("rd_kafka_conf_destroy", None, c_void_p),
    ("rd_kafka_new", c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    ("rd_kafka_destroy", None, c_void_p),
    ("rd_kafka_topic_partition_list_new", c_void_p, c_int),
    ("rd_kafka_topic_partition_list_add", c_void_p, c_void_p, c_char_p, c_int32),
    ("rd_kafka_topic_partition_list_destroy", None, c_void_p),
    ("rd_kafka_DeleteConsumerGroupOffsets_new", c_void_p, c_char_p, c_void_p),
    ("rd_kafka_DeleteConsumerGroupOffsets_destroy", None, c_void_p),
    (
        "rd_kafka_DeleteConsumerGroupOffsets",
        None,
        c_void_p,
        POINTER(c_void_p),
        c_size_t,
        c_void_p,
        c_void_p,
    ),
    ("rd_kafka_queue_new", c_void_p, c_void_p),
    ("rd_kafka_queue_poll", c_void_p, c_void_p, c_int),
    ("rd_kafka_queue_destroy", None, c_void_p),
    ("rd_kafka_event_error", c_int, c_void_p),
    ("rd_kafka_event_error_string", c_char_p, c_void_p),
    ("rd_kafka_event_destroy", None, c_void_p),
    ("rd_kafka_event_DeleteConsumerGroupOffsets_result", c_void_p, c_void_p),
    (
        "rd_kafka_DeleteConsumerGroupOffsets_result_groups",
        POINTER(c_void_p),
        c_void_p,
        POINTER(c_size_t),
    ),
    ("rd_kafka_group_result_error", c_void_p, c_void_p),
    ("rd_kafka_group_result_partitions", POINTER(_Partitions), c_void_p),
    ("rd_kafka_error_code", c_int, c_void_p),
    ("rd_kafka_error_string", c_char_p, c_void_p),
    ("rd_kafka_err2str", c_char_p, c_int),
)

_lib = _bind()
