"""Every exception that Headrace raises on purpose.

    HeadraceError
    ├── DefinitionError              the pipeline file or the command line is wrong      exit 2
    ├── DataError                    a record cannot be processed as the pipeline asks   exit 4
    │   ├── BadRecord
    │   ├── TooManyBadRecords
    │   ├── LettersLeft
    │   ├── NothingToInfer
    │   ├── RowRefused                        a row that a sink cannot write, by its own code
    │   ├── StepFailed
    │   ├── UnusableKey
    │   ├── DuplicateKey
    │   └── ConstraintViolated
    ├── OutsideError                 something outside is missing, down or unwilling     exit 3 or 4
    │   ├── NoBrokersAvailable                (retry)
    │   ├── BrokerTimeout                     (retry)
    │   ├── AuthenticationFailure
    │   ├── AuthorizationFailure
    │   ├── UnknownTopicOrPartition
    │   ├── TopicAlreadyExists
    │   ├── UnknownGroup
    │   ├── GroupNotEmpty
    │   ├── UnknownTransactionalId
    │   ├── NoOpenTransaction
    │   ├── TransactionNotHanging
    │   ├── TransactionEnding                 (retry)
    │   ├── CommitNotKnown
    │   ├── NotesHidden                       (retry)
    │   ├── RedriveTakenOver
    │   ├── MessageSizeTooLarge
    │   ├── RecordRejected
    │   ├── KafkaRefused                      any other answer of the broker, by its Kafka name
    │   ├── DataLoss
    │   ├── PathNotFound
    │   ├── SourceChanged
    │   ├── NoOffsetForPartition
    │   ├── PositionBeyondEnd
    │   ├── PositionsChanged
    │   ├── StateIsOld
    │   ├── StateChanged
    │   ├── StateLost
    │   ├── LedgerMissing
    │   ├── LedgerInUse
    │   ├── TakenOver
    │   ├── StateShared
    │   ├── TopicMadeAgain
    │   ├── TransactionTooLarge
    │   ├── TransactionExpired                (retry)
    │   ├── TransactionFenced                 (retry)
    │   ├── RegistryUnavailable               (retry)
    │   ├── UnknownRegistry
    │   ├── UnknownSubject
    │   ├── UnknownSchema
    │   ├── IncompatibleSchema
    │   ├── IncompatibleChange
    │   ├── NewSchema                         (retry)
    │   ├── UnreadableSchema
    │   ├── InvalidSchema
    │   ├── SchemaInUse
    │   ├── LevelNotKept
    │   ├── RegistryRefused                   any other answer of a schema registry
    │   ├── DatabaseUnavailable               (retry)
    │   ├── UnknownTable
    │   ├── SchemaMismatch
    │   ├── DatabaseRefused                   any other answer of a database, with its SQLSTATE
    │   ├── SparkFailed
    │   ├── WorkerLost                        (retry)
    │   ├── AlreadyRunning
    │   ├── WrongState
    │   ├── PipelineEnded                     by the code of what ended it
    │   ├── CatalogUnavailable
    │   ├── JavaMissing
    │   ├── PackageMissing
    │   ├── JarsUnavailable                   (retry)
    │   ├── ChecksumMismatch
    │   ├── PortTaken
    │   ├── DiskFull
    │   └── NodeFailed
    └── InternalError                a fault of Headrace itself                          exit 70

An exception takes values, not sentences. Its `code` is stable and is what tests and scripts look
at; `retry` says whether the same call may work later. `str()` is what happened, `hint` is what to
do next. Rendering and exit codes are used in one place, `headrace.cli.main`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from headrace.spans import Diagnostic

EXIT_DEFINITION = 2
EXIT_RETRY = 3
EXIT_FINAL = 4
EXIT_INTERNAL = 70


class Fault(StrEnum):
    """Whose fault an error is."""

    DEFINITION = "definition"
    DATA = "data"
    OUTSIDE = "outside"
    INTERNAL = "internal"


class HeadraceError(Exception):
    """Base of all; subclasses set `fault`, `retry`, and `code` where it is not the class name."""

    fault: ClassVar[Fault]
    retry: ClassVar[bool] = False
    code: str

    def __init_subclass__(cls) -> None:
        if "code" not in cls.__dict__:
            cls.code = cls.__name__

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def exit_code(self) -> int:
        if self.fault is Fault.DEFINITION:
            return EXIT_DEFINITION
        if self.fault is Fault.INTERNAL:
            return EXIT_INTERNAL
        return EXIT_RETRY if self.retry else EXIT_FINAL


class DefinitionError(HeadraceError):
    """A definition with faults; all of them are in `diagnostics`."""

    fault = Fault.DEFINITION

    def __init__(
        self, message: str, diagnostics: Sequence[Diagnostic] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint)
        self.diagnostics = tuple(diagnostics)


class DataError(HeadraceError):
    fault = Fault.DATA


class BadRecord(DataError):
    """A record that cannot be decoded, or that a step fails for, where that stops a pipeline."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"record {topic}[{partition}]@{offset} is bad: {reason}",
            "set `bad_data: dlq` to put such records aside, or correct the source's `schema` or "
            "the step",
        )
        self.topic, self.partition, self.offset, self.reason = topic, partition, offset, reason


class TooManyBadRecords(DataError):
    """More bad records in a batch than `max_errors_per_batch`; nothing of it was written."""

    def __init__(self, source: str, count: int, limit: int, example: str) -> None:
        super().__init__(
            f"source `{source}`: {count} bad records in one batch, and max_errors_per_batch is "
            f"{limit}; the first: {example}",
            "nothing of this batch was written: correct the `schema` or raise the limit, run again",
        )
        self.source, self.count, self.limit = source, count, limit


class LettersLeft(DataError):
    """Dead letters that were to be moved and could not be; all others were."""

    def __init__(self, topic: str, left: int, first: str) -> None:
        super().__init__(
            f"{left} letter(s) of {topic} could not be moved; the first: {first}",
            f"they are where they were: see them with `headrace dlq show {topic}`",
        )
        self.left = left


class RowRefused(DataError):
    """A row that a sink cannot write, where that stops a pipeline; `code` says what is wrong."""

    def __init__(self, code: str, action: str, record: str, reason: str) -> None:
        super().__init__(
            f"{action}: {record}: {reason}",
            "set `bad_data: dlq` in the source to put such records aside, or leave such rows out "
            "by a step",
        )
        self.code = code


class StepFailed(DataError):
    """A function of the author's failed, and no single record can be blamed for it."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(
            f"step `{step}`: {reason}",
            "correct the function; nothing of this batch has moved the position",
        )
        self.step, self.reason = step, reason


class UnusableKey(DataError):
    """A row or a tombstone that a sink with `mode: upsert` cannot tell from others by its key."""

    def __init__(self, sink: str, place: str, reason: str) -> None:
        super().__init__(
            f"sink `{sink}`: {place}: {reason}",
            "rows: declare the column `NOT NULL` in the source's `schema`, or leave such rows out "
            "by a step; tombstones: `bad_tombstone: skip` passes over them",
        )


class DuplicateKey(DataError):
    """Two rows of a batch with one key, and nothing that says which of them is the newer."""

    def __init__(self, sink: str, key: str) -> None:
        super().__init__(
            f"sink `{sink}`: several rows of one batch have the key {key}, and none is the newest",
            "name a column that tells in `order_by`, or group the rows so that each key comes once",
        )


class ConstraintViolated(DataError):
    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: the rows break a constraint of the table: {detail}",
            "nothing of this batch is in the table: leave such rows out by a step, or change "
            "the constraint; then run it again",
        )


class NothingToInfer(DataError):
    """A sample of a topic has no record whose columns could be told.

    `framed` says that records begin as those do that name a schema.
    """

    def __init__(self, topic: str, records: int, framed: bool = False) -> None:
        what = f"its newest {records} record(s)" if records else "it, as it is empty"
        look = f"look at it with `headrace consume {topic} --last 5`"
        super().__init__(
            f"there is no JSON object in {topic} to take columns from: none among {what}",
            hint=f"they begin as records with the id of a schema do: name the registry that has it "
            f"with --registry; {look}"
            if framed
            else f"{look}; bytes need no columns: `format: raw`",
        )


class OutsideError(HeadraceError):
    fault = Fault.OUTSIDE


class NoBrokersAvailable(OutsideError):
    retry = True

    def __init__(self, servers: str, detail: str = "") -> None:
        super().__init__(
            f"no Kafka broker answers at {servers}" + (f": {detail}" if detail else ""),
            "check the address, or start a broker of your own with `headrace dev up`",
        )
        self.servers = servers


class BrokerTimeout(OutsideError):
    retry = True

    def __init__(self, action: str, detail: str = "") -> None:
        super().__init__(
            f"{action}: the cluster did not answer in time" + (f": {detail}" if detail else ""),
            "a broker may be down or electing a leader; try again",
        )


class AuthenticationFailure(OutsideError):
    def __init__(self, servers: str, detail: str) -> None:
        super().__init__(
            f"{servers} refused the login: {detail}",
            "check the user name, the password and the mechanism",
        )


class AuthorizationFailure(OutsideError):
    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: not permitted: {detail}", "ask for an ACL that allows this operation"
        )


class UnknownTopicOrPartition(OutsideError):
    def __init__(self, name: str, servers: str) -> None:
        super().__init__(
            f"topic {name} does not exist at {servers}",
            f"see `headrace topics list`, or make it: `headrace topics create {name}`",
        )
        self.name = name


class TopicAlreadyExists(OutsideError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"topic {name} exists already", f"see it with `headrace topics describe {name}`"
        )
        self.name = name


class UnknownGroup(OutsideError):
    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group} does not exist", "list the groups with `headrace groups list`"
        )
        self.group = group


class GroupNotEmpty(OutsideError):
    def __init__(self, group: str, members: int) -> None:
        super().__init__(
            f"group {group} has {members} active member(s)",
            "stop its consumers first; Kafka allows this only for a group without members",
        )
        self.group, self.members = group, members


class UnknownTransactionalId(OutsideError):
    def __init__(self, id: str) -> None:
        super().__init__(
            f"no coordinator knows the transactional id {id}",
            "see `headrace txn list`; ids that your login may not describe are not shown",
        )
        self.id = id


class NoOpenTransaction(OutsideError):
    """No transaction begins at this offset of a partition, or it has ended."""

    def __init__(self, topic: str, partition: int, offset: int, begins: Sequence[int]) -> None:
        super().__init__(
            f"no open transaction begins at {topic}[{partition}]@{offset}"
            + (f"; those that are open begin at {', '.join(map(str, begins))}" if begins else ""),
            f"see `headrace txn producers {topic} --open`",
        )


class TransactionNotHanging(OutsideError):
    """A transaction that is to be ended in one partition, though its coordinator will end it."""

    def __init__(self, place: str, id: str, state: str) -> None:
        super().__init__(
            f"the transaction at {place} does not hang: its coordinator has it as {id} ({state})",
            "to end it in one partition alone would tear it apart; end the whole of it: "
            f"`headrace txn abort {id}`",
        )
        self.id = id


class CommitNotKnown(OutsideError):
    """A hanging transaction that is to be committed, though nothing says that it was."""

    def __init__(self, place: str, said: str) -> None:
        super().__init__(
            f"nothing says that the transaction at {place} was committed: {said}",
            "see `headrace txn find-hanging`; to let readers go on without it: "
            "`headrace txn abort --topic … --partition … --start-offset …`",
        )


class TransactionEnding(OutsideError):
    """A transaction whose end is decided, so that it cannot be aborted any more."""

    retry = True

    def __init__(self, id: str, state: str, partitions: str) -> None:
        super().__init__(
            f"the transaction of {id} is about to end ({state}); its end is not written yet in "
            f"{partitions}",
            "it ends as soon as these partitions have leaders; see `headrace topics describe`",
        )
        self.id = id


class NotesHidden(OutsideError):
    """Notes of which letters were moved lie behind a transaction that is still open."""

    retry = True

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"an open transaction of someone else holds back readers of {topic}[{partition}], so "
            "it cannot be told which letters were moved",
            "wait for its timeout; only `headrace dlq redrive` should write to that topic",
        )


class RedriveTakenOver(OutsideError):
    """Another redrive of the same topic was begun, and goes on from where this one was."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"another redrive of {topic} has taken over, or this one stood still for too long; "
            "what it had in hand was not moved",
            "let the other one finish; then a redrive moves what is left, and nothing twice",
        )


class MessageSizeTooLarge(OutsideError):
    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            f"{where}: a message is larger than is allowed: {detail}",
            "raise `max_request_bytes` of the sink and `max.message.bytes` of the topic",
        )


class RecordRejected(OutsideError):
    """Some records of a `produce` were not accepted; the others were."""

    def __init__(self, rejected: int, sent: int, first: str) -> None:
        super().__init__(
            f"{rejected} of {sent} records were rejected; the first: {first}",
            "the others were written; correct these and send them again",
        )
        self.rejected, self.sent = rejected, sent


class KafkaRefused(OutsideError):
    """An answer of the broker that has no class of its own; `code` is Kafka's name for it."""

    def __init__(self, kafka_code: str, action: str, detail: str, hint: str | None = None) -> None:
        super().__init__(f"{action}: {detail}", hint)
        self.code = kafka_code


class DataLoss(OutsideError):
    """Records between the stored position and the oldest one still in the topic are gone."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"records that were not read yet are gone from the topic: {detail}",
            "raise the topic's retention; to go on from what is left, "
            "set `on_data_loss: reset` in the source",
        )


class PositionBeyondEnd(OutsideError):
    """A stored position that its topic has never reached."""

    def __init__(self, source: str, detail: str) -> None:
        super().__init__(
            f"source `{source}`: the position is beyond the end: {detail}",
            "the topic was deleted and made again, or the position was edited: "
            "move it with `headrace offsets edit FILE --to-earliest`, or a stream by `offset:`",
        )


class PositionsChanged(OutsideError):
    """The table of offsets no longer holds what the run began from; its end was not stored."""

    def __init__(self, pipeline: str, table: str) -> None:
        super().__init__(
            f"the positions of {pipeline} in {table} were changed while it ran, so the end of this "
            "run was not stored",
            "another run or an edit moved them: see `headrace offsets show FILE`, then run again; "
            "what this run wrote may be written once more",
        )


class NoOffsetForPartition(OutsideError):
    """Partitions without a stored position, met by a source with `auto_offset_reset: none`."""

    def __init__(self, source: str, partitions: str) -> None:
        super().__init__(
            f"source `{source}`: no position is stored for {partitions}, and auto_offset_reset is "
            "none",
            "name them under `offset:`, or set `auto_offset_reset: earliest` or `latest`",
        )


class PathNotFound(OutsideError):
    """What a source is to read is not there."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__(f"{what} {path} does not exist", "correct `path`, or make it first")
        self.path = path


class SourceChanged(OutsideError):
    """What was read before has been altered, so that reading on would give wrong rows."""

    def __init__(self, source: str, detail: str, hint: str) -> None:
        super().__init__(f"{source}: {detail}", hint)


class StateIsOld(OutsideError):
    """A target has batches that the pipeline's state does not know of."""

    def __init__(self, sink: str, target: str, known: int, newest: int, folder: str) -> None:
        super().__init__(
            f"sink `{sink}`: {target} has batch {known} of this pipeline, and the state in "
            f"{folder} knows of none after {newest}: it is an older copy, or the sink was moved "
            "to another query; what would be written now, the sink would skip",
            "bring back the newest state, or remove that folder to begin anew; "
            "what is read again is then written again",
        )


class StateChanged(OutsideError):
    """A stream remembers something else than its definition now asks for."""

    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: what the stream remembers does not fit its steps any more: {detail}",
            "undo the change of its steps; or begin anew, with another `pipeline:` name or with "
            "its folder in .headrace/state removed: state cannot be carried over",
        )


class StateLost(OutsideError):
    """A ledger tells of work that the pipeline's state knows nothing of."""

    def __init__(self, sink: str, group: str, folder: str) -> None:
        super().__init__(
            f"sink `{sink}`: the ledger {group} tells of batches that the state in {folder} does "
            "not know: it is not the state that wrote them",
            "bring that state back; or say where to begin by `offset:` in the source, and what is "
            "read again is then written again",
        )


class LedgerMissing(OutsideError):
    """A batch was cut off, and what tells whether it was written is gone."""

    def __init__(self, sink: str, group: str, place: str) -> None:
        super().__init__(
            f"sink `{sink}`: a batch was cut off, and the ledger {group} has no entry for {place} "
            "any more, so nobody knows whether it was written",
            "look into the sink's topic, then say where to go on by `offset:` in the source; "
            "ledgers expire when a pipeline rests longer than the brokers' "
            "offsets.retention.minutes",
        )


class LedgerInUse(OutsideError):
    """Somebody else uses the group that is a ledger."""

    def __init__(self, sink: str, group: str, detail: str) -> None:
        super().__init__(
            f"sink `{sink}`: the group {group} is its ledger, and somebody else has used it: "
            f"{detail}",
            "let no consumer join that group and reset nothing in it; then say where to go on by "
            "`offset:` in the source",
        )


class TakenOver(OutsideError):
    """Another run of the same pipeline has taken the ledger; it goes on, and this one must stop."""

    def __init__(self, sink: str, group: str) -> None:
        super().__init__(
            f"sink `{sink}`: another run of this pipeline has taken over its ledger {group}, so "
            "this one stops; nothing is lost or doubled",
            "run a pipeline once; if both are meant, give one of them another name",
        )


class StateShared(OutsideError):
    """Another run writes to the same checkpoint, on a disk that knows no locks."""

    def __init__(self, action: str) -> None:
        super().__init__(
            f"{action}: another run of this pipeline writes to the same state folder, so this one "
            "stops; no record is lost",
            "run a pipeline once; if none runs any more, start it again",
        )


class TopicMadeAgain(OutsideError):
    """A topic was deleted and made again since the pipeline used it last."""

    def __init__(self, topic: str, purpose: str, folder: str) -> None:
        super().__init__(
            f"topic {topic}, {purpose}, is not the one that it was: it was deleted and made again, "
            "so positions and what was written no longer mean anything",
            f"to begin anew, remove {folder} and say by `offset:` in the source where",
        )


class TransactionTooLarge(OutsideError):
    """What must be one transaction would take longer than one may."""

    def __init__(self, sink: str, records: int, limit_ms: int, needed_ms: int) -> None:
        super().__init__(
            f"sink `{sink}`: {records} records are one transaction, which may take longer than "
            f"its {limit_ms} ms; nothing was written",
            f"set `transaction_timeout_ms: {needed_ms}` and, if that is more than the brokers' "
            "transaction.max.timeout.ms, raise that too",
        )


class TransactionExpired(OutsideError):
    """A transaction was open for longer than it may be, and the broker has ended it."""

    retry = True

    def __init__(self, sink: str, limit_ms: int) -> None:
        super().__init__(
            f"sink `{sink}`: a transaction was open for longer than {limit_ms} ms and the broker "
            "has ended it; nothing of it was written",
            "set `transaction_timeout_ms` higher, or `batch_size` lower",
        )


class TransactionFenced(OutsideError):
    """A task was shut out by another one of the same run, which did its work."""

    retry = True

    def __init__(self, sink: str, detail: str) -> None:
        super().__init__(
            f"sink `{sink}`: a transaction was ended by a newer task: {detail}",
            "nothing of it was written; the batch is done again",
        )


class RegistryUnavailable(OutsideError):
    retry = True

    def __init__(self, url: str, detail: str) -> None:
        super().__init__(
            f"no schema registry answers at {url}: {detail}",
            "check the address, or start one of your own with `headrace dev up --registry`",
        )
        self.url = url


class UnknownRegistry(OutsideError):
    """One of AWS Glue, which has several."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(
            f"there is no registry {name}: {url}",
            f"correct `registry_name`, or make it: `aws glue create-registry --registry-name "
            f"{name}`",
        )
        self.name = name


class UnknownSubject(OutsideError):
    def __init__(self, subject: str, url: str) -> None:
        super().__init__(
            f"subject {subject} does not exist at {url}",
            "see `headrace schemas list`; with --deleted it shows deleted ones too",
        )
        self.subject = subject


class UnknownSchema(OutsideError):
    """A version of a subject, or an id, that a registry does not have."""

    def __init__(self, what: str, url: str) -> None:
        super().__init__(
            f"{what} does not exist at {url}",
            "see the versions and ids with `headrace schemas list`",
        )


class IncompatibleSchema(OutsideError):
    """A schema that does not go together with those before it, by the level of its subject."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(
            f"{subject} does not take this schema: {reason}",
            "give new fields a default and leave the types of old ones; `headrace schemas check` "
            f"shows what is different, `headrace schemas compatibility {subject}` the level",
        )
        self.subject = subject


class IncompatibleChange(OutsideError):
    """Messages of a source have a schema that its columns do not go together with.

    `differences` are lines, as `model.evolution` makes them; nothing of the batch was written.
    """

    def __init__(
        self,
        source: str,
        schema: str,
        differences: Sequence[str],
        rule: str,
        remembered: bool = False,
    ) -> None:
        take = "take the newest schema for the columns with `headrace run --accept-schema`"
        if remembered:
            take = "name the columns that are needed in `schema`, which then stay"
        lines = "".join(f"\n  {line}" for line in differences)
        super().__init__(
            f"source `{source}`: {schema} does not fit the columns of the pipeline, and {rule}:"
            f"{lines}\nnothing that was written with it has been read",
            f"correct the producer, or {take}, or set such messages aside with "
            "`on_incompatible_schema: dlq`",
        )
        self.source, self.differences = source, tuple(differences)


class UnreadableSchema(OutsideError):
    """The schema that the columns of a source would come from cannot be read by its format."""

    def __init__(self, source: str, schema: str, detail: str) -> None:
        super().__init__(
            f"source `{source}` cannot be read by {schema}: {detail}",
            "correct `format` or the subject (`value_subject`, `key_subject`); "
            "`headrace schemas show` shows what a subject holds",
        )
        self.source = source


class NewSchema(OutsideError):
    """Messages have a schema that a run has not known; it begins the batch again with it.

    `id` is what messages carry, `part` says whether it is their key or their value.
    """

    retry = True

    def __init__(self, source: str, part: str, id: str) -> None:
        super().__init__(
            f"source `{source}`: a {part} was written with schema {id}, which was not known when "
            "the run began",
            "the registry is asked for it, and the batch is read again",
        )
        self.source, self.part, self.id = source, part, id


class InvalidSchema(OutsideError):
    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: the schema is not valid: {detail}",
            "correct it; if its type was told wrong, name it with --type; schemas that it uses "
            "are named with --reference",
        )


class SchemaInUse(OutsideError):
    def __init__(self, what: str, users: str) -> None:
        super().__init__(
            f"{what} is not deleted, as other schemas use it: {users}",
            "delete those that refer to it first",
        )


class LevelNotKept(OutsideError):
    """A registry that took a compatibility level, and holds to another."""

    def __init__(self, what: str, wanted: str, kept: str) -> None:
        super().__init__(
            f"the registry took the level {wanted} for {what}, and {kept} holds all the same",
            "Apicurio takes NONE of a subject as no level of its own: set NONE for all with "
            "`headrace schemas compatibility --set NONE`, and levels for the subjects that need "
            "one",
        )


class RegistryRefused(OutsideError):
    """An answer of a schema registry that has no class of its own."""

    def __init__(self, action: str, detail: str, status: int) -> None:
        super().__init__(
            f"{action}: {detail} (HTTP status {status})",
            "check that the address leads to the API of Confluent's registry; Apicurio's ends with "
            "/apis/ccompat/v7",
        )
        self.status = status


class DatabaseUnavailable(OutsideError):
    retry = True

    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: the database cannot be reached, or broke off: {detail}",
            "check the address and whether the database runs; try again",
        )


class UnknownTable(OutsideError):
    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: {detail}", "make the table, or set `create_table: true` in the sink"
        )


class SchemaMismatch(OutsideError):
    """Rows that do not fit the table that is there."""

    def __init__(self, action: str, detail: str, hint: str | None = None) -> None:
        super().__init__(
            f"{action}: {detail}",
            hint
            or "the rows no longer fit the table: name the columns as they are there, or write to "
            "another one",
        )


class DatabaseRefused(OutsideError):
    """An answer of a database that has no class of its own; `state` is its SQLSTATE."""

    def __init__(self, action: str, state: str, detail: str) -> None:
        super().__init__(
            f"{action}: {detail} (SQLSTATE {state})",
            "the database's own documentation has its error codes",
        )
        self.state = state


class SparkFailed(OutsideError):
    """Spark refused or failed something that no other error describes; `condition` is its name."""

    def __init__(self, action: str, detail: str, condition: str | None = None) -> None:
        super().__init__(f"{action}: {detail}", "run with --debug to see Spark's own report")
        self.condition = condition


class WorkerLost(OutsideError):
    """A Python worker of Spark's ended in the middle of its task."""

    retry = True

    def __init__(self, action: str, detail: str) -> None:
        super().__init__(
            f"{action}: a Python worker ended before its task: {detail}",
            "it was killed, most often because the machine has too little memory; the batch is "
            "done again",
        )


class AlreadyRunning(OutsideError):
    def __init__(self, pipeline: str, pid: int) -> None:
        super().__init__(
            f"pipeline {pipeline} is running already (process {pid})",
            "stop that one first, or give this pipeline another name",
        )
        self.pid = pid


class WrongState(OutsideError):
    """A pipeline that is to be stopped, paused or resumed, and is not in a state for that."""

    def __init__(self, pipeline: str, state: str, hint: str) -> None:
        super().__init__(f"pipeline {pipeline} {state}", hint)


class PipelineEnded(OutsideError):
    """The process of a pipeline ended with an error; `code` is what it told, or its signal."""

    exit_code = EXIT_FINAL  # or that of the process, so that a script sees whether to try again

    def __init__(
        self, pipeline: str, code: str, reason: str, hint: str, exit_code: int = EXIT_FINAL
    ) -> None:
        super().__init__(f"pipeline {pipeline} has ended: {reason}", hint)
        self.code = code
        self.exit_code = exit_code


class CatalogUnavailable(OutsideError):
    def __init__(self, file: str, detail: str) -> None:
        super().__init__(
            f"the catalog {file} cannot be used: {detail}",
            "a shell may hold it for longer than usual: try again; a file that is no catalog must "
            "be moved away, or come back from a backup",
        )


class JavaMissing(OutsideError):
    def __init__(self, found: str, command: str) -> None:
        super().__init__(f"Headrace needs Java 17 or newer, and {found}", f"install it: {command}")


class PackageMissing(OutsideError):
    """A Python package that only some uses need; `extra` of Headrace brings it."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs the Python package {package}, which is not installed",
            f"install it: pip install 'headrace[{extra}]'",
        )
        self.package = package


class JarsUnavailable(OutsideError):
    retry = True

    def __init__(self, missing: Sequence[str], detail: str) -> None:
        super().__init__(
            f"{len(missing)} jar(s) could not be fetched, {missing[0]} among them: {detail}",
            "check the network and run it again; what has been fetched is kept. Behind a company "
            "mirror, name its Ivy settings file in HEADRACE_IVY_SETTINGS",
        )
        self.missing = tuple(missing)


class ChecksumMismatch(OutsideError):
    def __init__(self, file: str, expected: str, actual: str) -> None:
        super().__init__(
            f"{file} has checksum {actual[:16]}…, and the lock says {expected[:16]}…",
            "the file was deleted and nothing was started; fetch again, and if this stays, "
            "your mirror serves another file",
        )


class PortTaken(OutsideError):
    def __init__(self, port: int, option: str = "--port") -> None:
        super().__init__(
            f"port {port} is in use by another program",
            f"name another with {option}, or end that program",
        )
        self.port = port


class DiskFull(OutsideError):
    def __init__(self, path: str, free_mb: int) -> None:
        super().__init__(
            f"{path} has only {free_mb} MB left, too little for a broker",
            "free some space, or run in a folder on another disk",
        )


class NodeFailed(OutsideError):
    """An embedded broker that did not come up; `detail` is the last thing its log says."""

    def __init__(self, node: str, detail: str, log: str) -> None:
        super().__init__(f"{node} did not start: {detail}", f"its whole log: {log}")


class InternalError(HeadraceError):
    fault = Fault.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(
            message, "this is a fault of Headrace; please report it with the output of --debug"
        )
