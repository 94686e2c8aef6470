"""Spark's start from an archive of classes, which `make setup` makes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.runtime import class_archive


def test_a_session_maps_the_archive_that_setup_has_made(spark: SparkSession) -> None:
    file = class_archive.place()
    assert file.exists()
    assert class_archive.make() == file
    jvm = spark._jvm
    assert jvm is not None
    flags = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert f"-XX:SharedArchiveFile={file}" in list(flags)
    # Kafka's classes come from it, too: they are where the JVM itself looks.
    loader = jvm.java.lang.Class.forName(
        "org.apache.kafka.clients.producer.KafkaProducer"
    ).getClassLoader()
    assert loader.equals(jvm.java.lang.ClassLoader.getSystemClassLoader())
