"""Write the jar locks anew: resolve each jar set and take its checksums.

For maintainers, as part of `make lock`; needs the network. To change a version, change it here, run
this, and read the difference before committing it.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from headrace.cluster.ivy import Module, retrieve
from headrace.cluster.lock import LOCK_FILE, Jar, render_lock
from headrace.testing.postgres import LOCK_FILE as POSTGRES_LOCK_FILE

DELTA = "4.4.0"
SPARK = "4.2.0"
KAFKA = "4.3.1"
LOG4J = "2.25.4"
POSTGRES_DRIVER = "42.7.11"
POSTGRES = "18.3.0"
APICURIO = "3.0.9"

# What PySpark's own jar folder lacks, named one by one: with all they need, these modules would
# bring a second copy of Spark. Delta's Unity Catalog client is left out.
SPARK_SET = (
    Module("io.delta", "delta-spark_4.2_2.13", DELTA),
    Module("io.delta", "delta-storage", DELTA),
    Module("io.delta", "delta-kernel-api", DELTA),
    Module("io.delta", "delta-kernel-defaults", DELTA),
    Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
    # The newest of this one that exists for Scala 2.13; it matters for delegation tokens only.
    Module("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    # The newest of this one; Avro itself is among PySpark's jars.
    Module("org.apache.spark", "spark-avro_2.13", "4.1.1"),
    Module("org.apache.kafka", "kafka-clients", "3.9.2"),
    Module("org.apache.commons", "commons-pool2", "2.13.0"),
    Module("org.postgresql", "postgresql", POSTGRES_DRIVER),
)
# One command of kafka-tools, which Headrace does not use, needs Kafka Connect and its web server.
KAFKA_SET = (
    Module("org.apache.kafka", "kafka_2.13", KAFKA, transitive=True, without="connect-.*"),
    Module("org.apache.kafka", "kafka-tools", KAFKA, transitive=True, without="connect-.*"),
    # Without a binding for SLF4J Kafka would log nothing; this is the one of Kafka's own release.
    Module("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J, transitive=True),
)
# The whole program with its own jars; fetched for `headrace dev up --registry` only.
REGISTRY_SET = (
    Module(
        "io.apicurio",
        "apicurio-registry-app",
        APICURIO,
        classifier="all",
        extension="tar.gz",
    ),
)
# A lock of its own: only tests want a server, and only where the system has none.
POSTGRES_SET = tuple(
    Module("io.zonky.test.postgres", f"embedded-postgres-binaries-{platform}", POSTGRES)
    for platform in ("linux-amd64", "linux-arm64v8", "darwin-amd64", "darwin-arm64v8")
)


def main() -> None:
    _write(LOCK_FILE, {"spark": SPARK_SET, "kafka": KAFKA_SET, "registry": REGISTRY_SET})
    _write(POSTGRES_LOCK_FILE, {"postgres": POSTGRES_SET})


def _write(file: Path, wanted: dict[str, tuple[Module, ...]]) -> None:
    sets = {name: _resolve(modules) for name, modules in wanted.items()}
    file.write_text(render_lock(sets))
    for name, jars in sets.items():
        print(f"{name}: {len(jars)} jars, {sum(jar.size for jar in jars) / 1e6:.0f} MB")


def _resolve(modules: tuple[Module, ...]) -> list[Jar]:
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch) / "files"
        log: list[str] = []
        if retrieve(modules, files, Path(scratch) / "cache", log.append) != 0:
            sys.exit("\n".join(log[-40:]))
        found = [_locked(files, module) for module in _came(log, modules)]
        assert len(found) == len(list(files.iterdir())), "every file is of a module that came"
        return found


def _came(log: list[str], asked: tuple[Module, ...]) -> list[Module]:
    """What Ivy has fetched, by its `[SUCCESSFUL ] group#module;version!artifact.jar`."""
    named = {(module.group, module.artifact): module for module in asked if module.classifier}
    came = []
    for line in log:
        if "[SUCCESSFUL ]" in line:
            group, rest = line.split("]", 1)[1].strip().split("#", 1)
            artifact, rest = rest.split(";", 1)
            plain = Module(group, artifact, rest.split("!", 1)[0])
            came.append(named.get((group, artifact), plain))
    return came


def _locked(folder: Path, module: Module) -> Jar:
    coordinate = (module.group, module.artifact, module.version)
    of_file = (module.classifier, module.extension)
    # The name of the file does not depend on what is in it.
    content = (folder / Jar(*coordinate, 0, "", *of_file).file_name).read_bytes()
    return Jar(*coordinate, len(content), hashlib.sha256(content).hexdigest(), *of_file)


if __name__ == "__main__":
    main()
