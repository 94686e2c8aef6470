"""Protobuf schemas: from text, a file or a class of Python to descriptors, and messages in them.

A registry keeps `.proto` text, or the bytes of a descriptor in base64, as some clients register it;
a definition names a file, beside which its imports are, or a class that `protoc` has made. All
become `Messages`: the message types of one file with everything that it imports.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

# What the text of a registry is called where it has no name of its own.
MAIN = "schema.proto"
References = tuple[tuple[str, str], ...]

# Runs in a process of its own: a class that was edited cannot be imported twice, as the library
# knows every message by its name.
_OF_CLASS = """
import importlib, json, sys
module, _, name = sys.argv[1].rpartition(".")
sys.path[:0] = json.loads(sys.argv[2])
found = importlib.import_module(module)
descriptor = getattr(found, name).DESCRIPTOR
seen, files = set(), []
def add(file):
    if file.name not in seen:
        seen.add(file.name)
        for each in file.dependencies:
            add(each)
        files.append(file.serialized_pb.hex())
add(descriptor.file)
print(json.dumps({"files": files, "message": descriptor.full_name}))
"""
_SECONDS = 60
# What the compiler notes for its own makers.
_LOG = re.compile(r"[IWE]\d{4} ")
_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"')


@dataclass(frozen=True)
class Messages:
    """A set of files in bytes, the last of them that of the messages; `own` is a message that is
    meant where none is named.
    """

    files: bytes
    own: str | None = None

    @cached_property
    def file(self) -> FileDescriptor:
        pool = DescriptorPool()
        parsed = FileDescriptorSet.FromString(self.files).file
        for each in parsed:
            pool.Add(each)
        return pool.FindFileByName(parsed[-1].name)

    def all(self) -> list[Descriptor]:
        """As they stand in the file, each followed by those inside of it."""
        found: list[Descriptor] = []

        def add(message: Descriptor) -> None:
            if not message.GetOptions().map_entry:
                found.append(message)
                for each in message.nested_types:
                    add(each)

        for each in self.file.message_types_by_name.values():
            add(each)
        return found

    def message(self, name: str | None = None) -> Descriptor:
        """By its whole name or the end of it; without one the first. Raises ValueError."""
        every = self.all()
        wanted = name or self.own
        if not every:
            raise ValueError("it has no message")
        if wanted is None:
            return every[0]
        found = [each for each in every if each.full_name == wanted]
        found = found or [each for each in every if each.full_name.endswith(f".{wanted}")]
        if len(found) != 1:
            there = ", ".join(each.full_name for each in every)
            how = "no message" if not found else "several messages"
            raise ValueError(f"it has {how} `{wanted}`; there is {there}")
        return found[0]


def index_of(message: Descriptor) -> tuple[int, ...]:
    """Where a message stands in its file, as Confluent's frame tells it."""
    above = message.containing_type
    if above is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    return (*index_of(above), [each.name for each in above.nested_types].index(message.name))


def glue_index_of(message: Descriptor) -> tuple[int, ...]:
    """Where it stands in the order of all names, as AWS Glue's frame tells it."""
    names: list[str] = []

    def add(each: Descriptor) -> None:
        names.append(each.full_name)
        for inside in each.nested_types:
            add(inside)

    for each in message.file.message_types_by_name.values():
        add(each)
    return (sorted(names).index(message.full_name),)


@lru_cache(256)
def of_text(text: str, references: References = ()) -> Messages:
    """Raises ValueError with what the compiler says."""
    with TemporaryDirectory(prefix="headrace-proto-") as folder:
        known: dict[str, FileDescriptorProto] = {}
        for name, each in (*references, (MAIN, text)):
            _put(Path(folder), name, each, known)
        # All that the main text imports is compiled with it. A main that is a descriptor already
        # needs those of its imports that are not.
        for name in [MAIN] if MAIN not in known else [name for name, _ in references]:
            if name not in known:
                given = _in_order({**known, **_included(known)})
                made = FileDescriptorSet.FromString(_protoc(name, (Path(folder),), given))
                known |= {each.name: each for each in made.file}
        main = known.pop(MAIN)
        files = _in_order({**known, **_included({**known, MAIN: main})})
        files.file.append(main)
        _refuse_missing(files)
        return Messages(files.SerializeToString())


def _refuse_missing(files: FileDescriptorSet) -> None:
    """A descriptor comes with no promise that what it imports is there."""
    there = {each.name for each in files.file}
    for each in files.file:
        for name in each.dependency:
            if name not in there:
                raise ValueError(f"it imports {name}, which is not among its references")


def of_file(path: Path) -> Messages:
    """Its imports are beside it, or named from a folder above. Raises ValueError."""
    if not path.is_file():
        raise ValueError("there is no such file")
    path = path.resolve()
    there = (path, *_imported(path).values())
    return _of_file(path, tuple((str(each), each.stat().st_mtime_ns) for each in there))


@lru_cache(64)
def _of_file(path: Path, _changed: tuple[tuple[str, int], ...]) -> Messages:
    return Messages(_protoc(path.name, _roots(path)))


def _roots(path: Path) -> tuple[Path, ...]:
    """Where imports of a file begin: its own folder, or one above."""
    return (path.parent, *path.parents[1:-1])


def _imported(path: Path) -> dict[str, Path]:
    """The files that one imports, by their names there, the needed ones first; none of Google's
    own, which the compiler has.
    """
    found: dict[str, Path] = {}

    def add(file: Path) -> None:
        for name in _IMPORT.findall(file.read_text(errors="replace")):
            places = (root / name for root in _roots(path))
            place = next((each for each in places if each.is_file()), None)
            if place is not None and name not in found:
                found[name] = place  # before those that it imports itself, in case of a circle
                add(place)
                found[name] = found.pop(name)

    add(path)
    return found


def text_of_file(path: Path) -> tuple[str, References]:
    """The text and those that it imports, as a registry takes them."""
    path = path.resolve()
    imported = _imported(path).items()
    return path.read_text(), tuple((name, file.read_text()) for name, file in imported)


def texts_of(messages: Messages) -> tuple[str, References]:
    """The descriptors of a class in base64, which registries take for a text."""
    *imported, main = FileDescriptorSet.FromString(messages.files).file
    own = [each for each in imported if not each.name.startswith("google/")]
    return _as_text(main), tuple((each.name, _as_text(each)) for each in own)


def _as_text(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


@lru_cache(64)
def of_class(classpath: str, folder: Path) -> Messages:
    """A class that protoc has made, in a module beside the pipeline or on Python's path; asked
    once. Raises ValueError.
    """
    if "." not in classpath:
        raise ValueError("it is no `module.Class`")
    path = json.dumps([str(folder), *(each for each in sys.path if each)])
    done = _run("-c", _OF_CLASS, classpath, path)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["Python ended"])[-1]
        raise ValueError(f"it is no class of a Protobuf message: {last}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    files = FileDescriptorSet()
    for each in told["files"]:
        files.file.append(FileDescriptorProto.FromString(bytes.fromhex(each)))
    return Messages(files.SerializeToString(), told["message"])


def _put(folder: Path, name: str, text: str, known: dict[str, FileDescriptorProto]) -> None:
    """A text as a file for the compiler, or, where it is a descriptor, among those it gets."""
    descriptor = _descriptor(text)
    if descriptor is not None:
        descriptor.name = name
        known[name] = descriptor
        return
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"it refers to a file with the name {name}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _descriptor(text: str) -> FileDescriptorProto | None:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _protoc(main: str, folders: tuple[Path, ...], known: FileDescriptorSet | None = None) -> bytes:
    """A set of the file and all that it imports, itself the last. Raises ValueError."""
    with TemporaryDirectory(prefix="headrace-protoc-") as made:
        out, given = Path(made, "out.bin"), Path(made, "known.bin")
        arguments = [f"-I{each}" for each in (*folders, *_include_roots())]
        if known is not None and known.file:
            given.write_bytes(known.SerializeToString())
            arguments.append(f"--descriptor_set_in={given}")
        arguments += [f"--descriptor_set_out={out}", "--include_imports", main]
        done = _run("-m", "grpc_tools.protoc", *arguments)
        if done.returncode:
            raise ValueError(_sentence(done.stderr, folders[0]))
        return out.read_bytes()


def _include_roots() -> tuple[Path, ...]:
    """Where google/protobuf and google/type are."""
    tools, types = find_spec("grpc_tools"), find_spec("google.type")
    found = [Path(tools.origin).parent / "_proto"] if tools is not None and tools.origin else []
    if types is not None:
        found += [Path(each).parents[1] for each in types.submodule_search_locations or ()]
    return tuple(found)


def _included(known: dict[str, FileDescriptorProto]) -> dict[str, FileDescriptorProto]:
    """What descriptors import from Protobuf itself, which nobody registers."""
    added: dict[str, FileDescriptorProto] = {}
    for name in {name for each in known.values() for name in each.dependency}:
        if name not in known and name.startswith("google/"):
            files = FileDescriptorSet.FromString(_of_library(name)).file
            added |= {each.name: each for each in files if each.name not in known}
    return added


@lru_cache(64)
def _of_library(name: str) -> bytes:
    return _protoc(name, _include_roots())


def _in_order(files: dict[str, FileDescriptorProto]) -> FileDescriptorSet:
    """What is imported before what imports it."""
    ordered: dict[str, FileDescriptorProto] = {}

    def add(file: FileDescriptorProto) -> None:
        for name in file.dependency:
            if name in files and name not in ordered:
                add(files[name])
        ordered.setdefault(file.name, file)

    for each in files.values():
        add(each)
    return FileDescriptorSet(file=ordered.values())


def _sentence(stderr: str, folder: Path) -> str:
    lines = [line.replace(f"{folder}/", "") for line in stderr.strip().splitlines()]
    errors = [line for line in lines if "warning" not in line.lower() and not _LOG.match(line)]
    return "; ".join(errors[:3]) or "the compiler of Protobuf ended without a word"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
