"""The log of a tenant: rows in one order, each on the disk before anybody is told so."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from similia.service.errors import Damaged

if TYPE_CHECKING:
    from similia.service.log.writer import Request

#: hash before the first row
GENESIS = bytes(32)


class Entry(NamedTuple):
    """What is to be appended. Only judgements have ids; the same id and body is a duplicate."""

    kind: str
    body: bytes
    id: str | None = None
    #: key of the query, and the judge, of a judgement
    query: str | None = None
    judge: str | None = None
    #: row that a retraction takes back
    target: int | None = None


class Row(NamedTuple):
    """A row of the log. Order is `seq`; `time`, in microseconds, never decreases."""

    seq: int
    time: int
    kind: str
    body: bytes
    id: str | None
    query: str | None
    judge: str | None
    target: int | None
    hash: bytes

    @property
    def moment(self) -> datetime:
        """When the row was written."""
        return datetime.fromtimestamp(self.time / 1e6, UTC)


class LearnerRow(msgspec.Struct, frozen=True, gc=False):
    """What a row of the log tells a learner."""

    seq: int
    body: bytes
    query: str | None
    target: int | None


class Appended(NamedTuple):
    """Where an entry is, and if it was there before."""

    seq: int
    duplicate: bool


class Checked(NamedTuple):
    """What a check of the whole log found."""

    rows: int
    #: hash of the last row: two logs with the same one are equal
    head: str


_encode = msgspec.msgpack.Encoder().encode


def link(previous: bytes, seq: int, time: int, entry: Entry) -> bytes:
    """Hash of a row, which covers all rows before it."""
    return hashlib.blake2b(_encode((previous, seq, time, entry)), digest_size=32).digest()


def first_link(previous: bytes, seq: int, time: int, entry: Entry) -> bytes:
    """The same for rows that were written before version 3 of the schema."""
    digest = hashlib.blake2b(previous, digest_size=32)
    parts = (entry.kind, entry.id, entry.query, entry.judge, entry.target, len(entry.body))
    digest.update(repr((seq, time, *parts)).encode())
    digest.update(entry.body)
    return digest.digest()


def checked(name: str, rows: Iterator[Row]) -> Checked:
    """Follow the chain of hashes; raises Damaged."""
    previous, seq = GENESIS, 0
    time = 0
    for row in rows:
        seq += 1
        entry = Entry(row.kind, row.body, row.id, row.query, row.judge, row.target)
        if row.seq != seq:
            raise Damaged(f"log: row {seq} of {name} is missing; restore the log from a backup.")
        given = (previous, row.seq, row.time, entry)
        if row.time < time or (row.hash != link(*given) and row.hash != first_link(*given)):
            raise Damaged(
                f"log: row {row.seq} of {name} is not what was written; restore the log from a "
                "backup."
            )
        previous, time = row.hash, row.time
    return Checked(seq, previous.hex())


class Log(Protocol):
    """One totally ordered log, one writer."""

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Append all of a batch or nothing; return once it is on the disk.

        Raises Conflict if an id is taken by another body, Full or Unavailable if nothing could be
        written.
        """

    def send(self, *requests: "Request") -> None:
        """The same for batches whose clients do not wait here."""

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows, in order, after each commit."""

    def rows(
        self, after: int = 0, up_to: int | None = None, *, others: bool = False
    ) -> Iterator[Row]:
        """Rows with after < seq <= up_to; with `others` those that are no judgements."""

    def learner_rows(self, after: int = 0, up_to: int | None = None) -> Iterator[LearnerRow]:
        """The same rows for a learner, with less work for each."""

    def find(self, id: str) -> Row | None:
        """The judgement with this id."""

    def row(self, seq: int) -> Row | None:
        """The row with this number."""

    def search(
        self, after: int, limit: int, *, query: str | None = None, judge: str | None = None
    ) -> list[tuple[Row, bool]]:
        """Judgements of a query or a judge, and whether each was retracted."""

    def retracted(self) -> dict[int, int]:
        """Rows that were retracted or set aside, and the rows that first say so."""

    def set_aside(self) -> set[int]:
        """Rows that cannot be learnt."""

    def at(self, time: int) -> int:
        """Last row written by that time, in microseconds."""

    def counts(self) -> tuple[int, int]:
        """Number of judgements, and of the queries that they are about."""

    def days(self) -> dict[str, int]:
        """Number of judgements by day (UTC)."""

    @property
    def last(self) -> int:
        """Number of the last row; 0 if there is none."""

    def check(self) -> Checked:
        """Verify the chain of hashes; raises Damaged."""

    def backup(self, path: Path) -> None:
        """Write a copy while the log is in use."""

    def stop(self) -> None:
        """Write what waits, and take no more."""

    def close(self) -> None:
        """Stop, and disconnect."""
