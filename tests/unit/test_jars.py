"""The jar lock and the cache, with a stand-in for the JVM that runs Ivy."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

from headrace.cluster import ivy, jars
from headrace.cluster.jars import Progress, cache_folder, ensure_jars
from headrace.cluster.lock import (
    LOCK_FILE,
    Jar,
    jar_set,
    parse_lock,
    read_lock,
    render_lock,
    usual_sets,
)
from headrace.errors import ChecksumMismatch, InternalError, JarsUnavailable

# Does what Ivy does with what it is given: copies wanted jars from a "repository" folder.
STAND_IN = """#!{python}
import re, shutil, sys
from pathlib import Path
if "-version" in sys.argv:
    sys.exit(print('openjdk version "17.0.1"', file=sys.stderr))
option = lambda name: sys.argv[sys.argv.index(name) + 1]
repository = Path({repository!r})
with (repository / "calls").open("a") as calls:
    print(Path(option("-ivy")).read_text(), file=calls)
dependency = (
    r'org="(.*?)" name="(.*?)" rev="(.*?)" transitive="false" conf=".*?"'
    r'(?:><artifact name=".*?" type=".*?" ext="(.*?)" m:classifier="(.*?)"/>)?'
)
missing = 0
for group, artifact, version, ext, kind in re.findall(
    dependency, Path(option("-ivy")).read_text()
):
    suffix = f"-{{kind}}.{{ext}}" if kind else ".jar"
    jar = repository / f"{{group}}_{{artifact}}-{{version}}{{suffix}}"
    place = Path(option("-retrieve")).parent / jar.name
    if jar.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(jar, place)
        print(f"\\t[SUCCESSFUL ] {{group}}#{{artifact}};{{version}}!{{artifact}}.jar (1ms)")
    else:
        missing = 1
        print(f"\\t\\tmodule not found: {{group}}#{{artifact}};{{version}}")
if missing:
    print("\\tServer access error at url somewhere (Connection refused)")
sys.exit(missing)
"""


class Repository:
    """A folder of jars that the stand-in serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def publish(self, artifact: str, content: bytes, *of_file: str) -> Jar:
        checksum = hashlib.sha256(content).hexdigest()
        jar = Jar("org.example", artifact, "1.0", len(content), checksum, *of_file)
        (self.folder / jar.file_name).write_bytes(content)
        return jar

    def withdraw(self, jar: Jar) -> None:
        (self.folder / jar.file_name).unlink()

    @property
    def requests(self) -> list[str]:
        """The artifacts asked for, in all calls together."""
        calls = self.folder / "calls"
        return re.findall(r' name="(.*?)" rev', calls.read_text()) if calls.is_file() else []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    repository = Repository(tmp_path / "repository")
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(STAND_IN.format(python=sys.executable, repository=str(repository.folder)))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_missing_jars_are_fetched_with_progress(repository: Repository, cache: Path) -> None:
    wanted = [repository.publish("a", b"first"), repository.publish("b", b"second")]
    seen: list[Progress] = []

    paths = ensure_jars(wanted, cache, seen.append)

    assert [path.read_bytes() for path in paths] == [b"first", b"second"]
    assert [(each.jar.artifact, each.count, each.total) for each in seen] == [
        ("a", 1, 2),
        ("b", 2, 2),
    ]
    assert (seen[-1].bytes_done, seen[-1].bytes_total) == (11, 11)


def test_a_file_that_is_no_jar_is_fetched_by_its_classifier(
    repository: Repository, cache: Path
) -> None:
    wanted = [repository.publish("a", b"a program", "all", "tar.gz"), repository.publish("b", b"")]

    paths = ensure_jars(wanted, cache)

    assert [path.name for path in paths] == [
        "org.example_a-1.0-all.tar.gz",
        "org.example_b-1.0.jar",
    ]
    assert paths[0].read_bytes() == b"a program"


def test_jars_that_are_there_are_not_asked_for_again(repository: Repository, cache: Path) -> None:
    wanted = [repository.publish("a", b"first")]
    ensure_jars(wanted, cache)
    repository.withdraw(wanted[0])

    assert ensure_jars(wanted, cache)[0].read_bytes() == b"first"
    assert repository.requests == ["a"]


def test_only_what_is_missing_is_fetched_after_an_interruption(
    repository: Repository, cache: Path
) -> None:
    kept, late = repository.publish("kept", b"1"), repository.publish("late", b"2")
    repository.withdraw(late)
    with pytest.raises(JarsUnavailable):
        ensure_jars([kept, late], cache)
    repository.publish("late", b"2")
    before = len(repository.requests)

    ensure_jars([kept, late], cache)

    assert repository.requests[before:] == ["late"]


def test_a_jar_that_cannot_be_had_is_named_with_the_reason(
    repository: Repository, cache: Path
) -> None:
    lost = repository.publish("lost", b"")
    repository.withdraw(lost)

    with pytest.raises(JarsUnavailable) as failure:
        ensure_jars([lost], cache)

    assert failure.value.missing == ("org.example:lost:1.0",)
    assert "Connection refused" in str(failure.value)
    assert failure.value.retry


def test_a_fetched_jar_with_another_checksum_never_reaches_the_cache(
    repository: Repository, cache: Path
) -> None:
    wanted = repository.publish("a", b"what was locked")
    repository.publish("a", b"something else")

    with pytest.raises(ChecksumMismatch):
        ensure_jars([wanted], cache)

    assert not (cache / wanted.file_name).exists()


def test_a_jar_changed_in_the_cache_is_deleted_and_fetched_by_the_next_call(
    repository: Repository, cache: Path
) -> None:
    wanted = repository.publish("a", b"right")
    (path,) = ensure_jars([wanted], cache)
    path.write_bytes(b"wrong")

    with pytest.raises(ChecksumMismatch):
        ensure_jars([wanted], cache)
    assert not path.exists()

    assert ensure_jars([wanted], cache)[0].read_bytes() == b"right"


def test_a_lock_reads_back_as_it_was_written() -> None:
    one, two = Jar("g", "a", "1", 3, "f" * 64), Jar("g", "b", "2", 4, "0" * 64)
    archive = Jar("g", "a", "1", 5, "1" * 64, "all", "tar.gz")

    assert archive.coordinate == "g:a:1:all@tar.gz"
    assert parse_lock(render_lock({"x": [two, one], "y": [two, archive]})) == {
        "x": (one, two),
        "y": (archive, two),
    }


def test_the_shipped_lock_pins_every_jar_and_names_no_address() -> None:
    text = LOCK_FILE.read_text()

    assert set(read_lock()) == {"spark", "kafka", "registry"}
    assert set(usual_sets()) == {"spark", "kafka"}
    assert "//" not in text
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jar_set("kafka"))
    for name in read_lock():
        files = [jar.file_name for jar in jar_set(name)]
        assert len(files) == len(set(files))


def test_kafkas_own_client_stays_out_of_sparks_set() -> None:
    versions = {
        name: {jar.version for jar in jar_set(name) if jar.artifact == "kafka-clients"}
        for name in usual_sets()
    }

    assert versions == {"spark": {"3.9.2"}, "kafka": {"4.3.1"}}


def test_a_set_that_the_lock_does_not_have_is_a_fault_of_ours() -> None:
    with pytest.raises(InternalError, match="nonesuch"):
        jars.ensure("nonesuch")


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "mine"))

    assert cache_folder() == tmp_path / "mine"


def test_java_is_told_of_the_proxy_that_the_environment_names() -> None:
    assert ivy.proxy_options({"HTTPS_PROXY": "http://proxy.example:3128"}) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
    assert ivy.proxy_options({}) == []
