"""Rows of a log, and the hash chain over them."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from similia.service.errors import Damaged

#: hash before the first row
GENESIS = bytes(32)


class Entry(NamedTuple):
    """A row to append. Only judgements have ids; the same id and body is a duplicate."""

    kind: str
    body: bytes
    id: str | None = None
    #: a judgement's query key and judge
    query: str | None = None
    judge: str | None = None
    #: row that this one retracts or sets aside
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


ROW_COLUMNS = ", ".join(Row._fields)


class LearnerRow(msgspec.Struct, frozen=True, gc=False):
    """The part of a row that a learner needs."""

    seq: int
    body: bytes
    query: str | None
    target: int | None


class Appended(NamedTuple):
    """Row number of an entry, and whether it was there before."""

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
    """Hash of rows written before version 3 of the schema."""
    digest = hashlib.blake2b(previous, digest_size=32)
    parts = (entry.kind, entry.id, entry.query, entry.judge, entry.target, len(entry.body))
    digest.update(repr((seq, time, *parts)).encode())
    digest.update(entry.body)
    return digest.digest()


def is_linked(previous: bytes, row: Row) -> bool:
    """Whether a row matches its hash, given the hash of the row before."""
    entry = Entry(row.kind, row.body, row.id, row.query, row.judge, row.target)
    given = (previous, row.seq, row.time, entry)
    return row.hash in (link(*given), first_link(*given))


def checked(name: str, rows: Iterable[Row]) -> Checked:
    """Verify the hash chain; raises Damaged."""
    previous, seq = GENESIS, 0
    time = 0
    for row in rows:
        seq += 1
        if row.seq != seq:
            raise Damaged(f"log: row {seq} of {name} is missing; restore the log from a backup.")
        if row.time < time or not is_linked(previous, row):
            raise Damaged(
                f"log: row {row.seq} of {name} is not what was written; restore the log from a "
                "backup."
            )
        previous, time = row.hash, row.time
    return Checked(seq, previous.hex())
