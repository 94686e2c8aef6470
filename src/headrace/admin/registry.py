"""Schemas in a registry: list, read, register, check and delete them, and set their levels.

Every function takes a `Registry` of `registry_client.connect`, and works on any registry that has
the API of Confluent's. Where registries differ (Apicurio and Confluent's own do), the answer is
asked for again, and what the registry does is told rather than what it was asked to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.admin.registry_differences import BrokenSchema, Difference, differences, outline
from headrace.admin.registry_schemas import Reference, Schema, SchemaType
from headrace.errors import (
    HeadraceError,
    InvalidSchema,
    LevelNotKept,
    RegistryRefused,
    SchemaInUse,
    UnknownSchema,
    UnknownSubject,
)

if TYPE_CHECKING:
    from headrace.admin.registry_client import Registry

LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)
_SIDE_BY_SIDE = 8

T = TypeVar("T")
Q = TypeVar("Q")


@dataclass(frozen=True)
class Subject:
    """`type` and `id` are those of the newest version; None where all versions are deleted."""

    subject: str
    type: SchemaType | None
    id: int | None
    versions: tuple[int, ...]
    deleted: tuple[int, ...]


@dataclass(frozen=True)
class Registered:
    """A schema as a version of a subject. Its id is the same in every subject that has it."""

    subject: str
    version: int
    id: int
    schema: Schema


@dataclass(frozen=True)
class Registration:
    """`new` is False where the subject had this schema already."""

    subject: str
    version: int
    id: int
    new: bool


@dataclass(frozen=True)
class Level:
    """The compatibility level that holds, and whether it is the subject's `own`."""

    level: str
    own: bool


@dataclass(frozen=True)
class Verdict:
    """Whether a subject would take a schema.

    `version` is the one that it has been already, if any; `against` are the versions that it was
    held against, and `differences` those to the newest one. `messages` are the registry's own.
    """

    subject: str
    accepted: bool
    version: int | None
    level: str
    against: tuple[int, ...]
    differences: tuple[Difference, ...]
    messages: tuple[str, ...]


# Reading


def subjects(registry: Registry, prefix: str = "", deleted: bool = False) -> list[str]:
    """The names of subjects, sorted; with the deleted ones when asked for."""
    with registry.asking("listing subjects") as client:
        found: list[str] = client.get_subjects(deleted=deleted)
    # Not every registry knows the prefix as a part of the question.
    return sorted(name for name in found if name.startswith(prefix))


def list_all(registry: Registry, prefix: str = "", deleted: bool = False) -> list[Subject]:
    """Subjects with their versions, sorted by name."""
    names = subjects(registry, prefix, deleted)
    found = _side_by_side(lambda name: _subject(registry, name, deleted), names)
    return [each for each in found if each.versions or each.deleted]


def versions(registry: Registry, subject: str, deleted: bool = False) -> list[int]:
    """The versions of a subject, with the deleted ones when asked for; `UnknownSubject`."""
    with registry.asking(f"listing versions of {subject}", subject) as client:
        return sorted(client.get_versions(subject, deleted=deleted))


def find(
    registry: Registry, subject: str, version: int | None = None, deleted: bool = False
) -> Registered:
    """A version of a subject, the newest unless it is named."""
    what = f"version {version} of {subject}" if version else None
    try:
        with registry.asking(f"reading {subject}", subject, what) as client:
            found = client.get_version(subject, version or "latest", deleted=deleted)
    except UnknownSubject as unknown:
        unknown.hint = _nearest(registry, subject) or unknown.hint
        raise
    return _registered(subject, found)


def newest(registry: Registry, subject: str) -> Registered | None:
    """The newest version, by one request; None if there is no such subject."""
    try:
        with registry.asking(f"reading {subject}", subject) as client:
            return _registered(subject, client.get_version(subject, "latest"))
    except UnknownSubject:
        return None


def all_versions(registry: Registry, subject: str) -> list[Registered]:
    """Every version of a subject with its schema, the oldest first; `UnknownSubject`."""
    numbers = versions(registry, subject)
    return _side_by_side(lambda number: find(registry, subject, number), numbers)


def schema_of(registry: Registry, id: int) -> Schema:
    """The schema of this id."""
    with registry.asking(f"reading schema {id}", what=f"a schema with id {id}") as client:
        return _ours(client.get_schema(id))


def by_id(registry: Registry, id: int) -> list[Registered]:
    """The versions of subjects that have the schema of this id."""
    schema = schema_of(registry, id)
    with registry.asking(f"reading schema {id}", what=f"a schema with id {id}") as client:
        places: list[Any] = client.get_schema_versions(id)
    return [Registered(place.subject, place.version, id, schema) for place in places]


def registration(
    registry: Registry, subject: str, schema: Schema, normalize: bool = False
) -> Registration | None:
    """Where a subject has this schema already."""
    try:
        with registry.asking(f"looking up {subject}", subject, "this schema") as client:
            found: Any = client.lookup_schema(subject, _wire(schema), normalize)
    except (UnknownSubject, UnknownSchema):
        return None
    return Registration(subject, found.version, found.schema_id, new=False)


# Writing


def register(
    registry: Registry, subject: str, schema: Schema, normalize: bool = False
) -> Registration:
    """Make a schema the newest version of a subject, unless it is one of its versions already.

    `IncompatibleSchema` and `InvalidSchema` say why a registry does not take it.
    """
    known = registration(registry, subject, schema, normalize)
    if known is not None:
        return known
    with registry.asking(f"registering {subject}", subject) as client:
        client.register_schema(subject, _wire(schema), normalize_schemas=normalize)
    made = registration(registry, subject, schema, normalize)
    if made is None:
        raise RegistryRefused(f"registering {subject}", "it is not there afterwards", 200)
    return Registration(made.subject, made.version, made.id, new=True)


def delete(
    registry: Registry, subject: str, version: int | None = None, permanent: bool = False
) -> list[int]:
    """Delete a version, or all of a subject; the versions that are gone.

    What is deleted is hidden and keeps its id. What is deleted `permanent`ly is hidden first, as
    registries want it, and then gone.
    """
    there = versions(registry, subject, deleted=permanent)
    gone = there if version is None else [version]
    if version is not None and version not in there:
        raise UnknownSchema(f"version {version} of {subject}", registry.url)
    try:
        if not permanent or set(gone) & set(_live_versions(registry, subject)):
            _delete(registry, subject, version, permanent=False)
        if permanent:
            _delete(registry, subject, version, permanent=True)
    except SchemaInUse as used:
        raise SchemaInUse(subject, _users(registry, subject, gone)) from used
    return gone


def _delete(registry: Registry, subject: str, version: int | None, permanent: bool) -> None:
    with registry.asking(f"deleting {subject}", subject) as client:
        if version is None:
            client.delete_subject(subject, permanent)
        else:
            client.delete_version(subject, version, permanent)


def _users(registry: Registry, subject: str, which: Sequence[int]) -> str:
    """The versions of subjects that refer to these, in words."""
    with registry.asking(f"asking who refers to {subject}", subject) as client:
        ids = {id for version in which for id in client.get_referenced_by(subject, version)}
    found = [each for id in sorted(ids) for each in by_id(registry, id)]
    return ", ".join(f"{each.subject} version {each.version}" for each in found)


# Levels


def level(registry: Registry, subject: str | None = None) -> Level:
    """The level of a subject or, without one, of all that have none of their own."""
    with registry.asking("reading the compatibility level", subject) as client:
        if subject is None:
            return Level(client.get_compatibility(), own=True)
        holds = client.effective_level(subject)
    return Level(holds, own=_own_level(registry, subject) == holds)


def _own_level(registry: Registry, subject: str) -> str | None:
    """Confluent's registry knows of none; Apicurio says NONE, which may be another than holds."""
    try:
        with registry.asking("reading the compatibility level", subject) as client:
            return str(client.get_compatibility(subject))
    except UnknownSubject:
        return None


def set_level(registry: Registry, level_: str, subject: str | None = None) -> Level:
    """Set the level of a subject or of all; `LevelNotKept` if another one holds afterwards."""
    try:
        before = level(registry, subject)
    except UnknownSubject:
        # A level may be set before the first schema is there.
        before = None
    if before == Level(level_, own=True):
        return before
    with registry.asking(f"setting the compatibility level {level_}", subject) as client:
        client.set_compatibility(subject, level_)
    after = level(registry, subject)
    if after.level != level_:
        raise LevelNotKept(subject or "all subjects", level_, after.level)
    return after


def unset_level(registry: Registry, subject: str) -> Level:
    """Let the level of all hold for a subject."""
    if level(registry, subject).own:
        with registry.asking(f"removing the level of {subject}", subject) as client:
            client.delete_config(subject)
    return level(registry, subject)


# Checking


def check(registry: Registry, subject: str, schema: Schema, normalize: bool = False) -> Verdict:
    """Whether `register` would be accepted, and what is new; nothing is changed.

    Asked of the registry by the level that holds: the newest version alone, or all of them.
    """
    try:
        outline(schema)
    except BrokenSchema as broken:
        raise InvalidSchema(f"checking a schema for {subject}", str(broken)) from broken
    try:
        newest = find(registry, subject)
    except UnknownSubject:
        return Verdict(subject, True, None, level(registry).level, (), (), ())
    holds = level(registry, subject).level
    news = differences(newest.schema, schema)
    known = registration(registry, subject, schema, normalize)
    if known is not None:
        return Verdict(subject, True, known.version, holds, (), news, ())
    against = _held_against(registry, newest, holds)
    accepted, messages = _judge(registry, newest, schema, holds)
    return Verdict(subject, accepted, None, holds, against, news, tuple(messages))


def _held_against(registry: Registry, newest: Registered, holds: str) -> tuple[int, ...]:
    if holds == "NONE":
        return ()
    if holds.endswith("_TRANSITIVE"):
        return tuple(versions(registry, newest.subject))
    return (newest.version,)


def _judge(
    registry: Registry, newest: Registered, schema: Schema, holds: str
) -> tuple[bool, Iterable[str]]:
    if holds == "NONE":
        return True, ()
    if schema.type != newest.schema.type:
        return False, [f"the subject holds {newest.schema.type}, and this is {schema.type}"]
    version = None if holds.endswith("_TRANSITIVE") else newest.version
    with registry.asking(f"checking a schema for {newest.subject}", newest.subject) as client:
        return client.compatible(newest.subject, version, _wire(schema))


# Between the client's values and ours


def _wire(schema: Schema) -> Any:
    from confluent_kafka.schema_registry import Schema as WireSchema
    from confluent_kafka.schema_registry import SchemaReference

    references = [SchemaReference(r.name, r.subject, r.version) for r in schema.references]
    return WireSchema(schema.text, str(schema.type), references)


def _registered(subject: str, found: Any) -> Registered:
    return Registered(subject, found.version, found.schema_id, _ours(found.schema))


def _ours(schema: Any) -> Schema:
    references = tuple(Reference(r.name, r.subject, r.version) for r in schema.references or ())
    return Schema(SchemaType(schema.schema_type or "AVRO"), schema.schema_str, references)


def _subject(registry: Registry, name: str, deleted: bool) -> Subject:
    live = _live_versions(registry, name)
    newest = find(registry, name) if live else None
    hidden = set(_all_versions(registry, name)) - set(live) if deleted else set()
    return Subject(
        name,
        newest.schema.type if newest else None,
        newest.id if newest else None,
        tuple(live),
        tuple(sorted(hidden)),
    )


def _live_versions(registry: Registry, name: str) -> list[int]:
    try:
        return versions(registry, name)
    except UnknownSubject:
        return []


def _all_versions(registry: Registry, name: str) -> list[int]:
    """Also of a subject of which nothing is left but its name, as Apicurio has them."""
    try:
        return versions(registry, name, deleted=True)
    except UnknownSubject:
        return []


def _side_by_side(work: Callable[[Q], T], names: list[Q]) -> list[T]:
    """Of a registry's answers, the way takes longer than the work."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(pool.map(work, names))


def _nearest(registry: Registry, subject: str) -> str | None:
    try:
        near = get_close_matches(subject, subjects(registry), n=1)
    except HeadraceError:
        # Who may not list subjects is told that this one is missing, and no more.
        return None
    return f"did you mean `{near[0]}`?" if near else None
