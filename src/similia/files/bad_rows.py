"""Rows that cannot be used: named with number and reason, counted, skipped or fatal."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from similia.exceptions import BadRowError
from similia.validation import check_parameters, one_of

#: bad rows that are remembered; all are counted
KEPT = 20


class RowError(ValueError):
    """Why one row cannot be used; `kind` is the reason without the particulars, for counting."""

    def __init__(self, kind: str, detail: str = "", place: str = "") -> None:
        super().__init__(f"{kind}{detail}{place}")
        self.kind = f"{kind}{place}"
        self.detail = detail

    def within(self, column: str) -> "RowError":
        """Give the same reason with the name of a column."""
        return RowError(self.kind, self.detail, f" in column {column}")


class BadRow(NamedTuple):
    """Where a row stands that cannot be used, and why."""

    source: str
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: row {self.number}: {self.reason}."


class BadRows:
    """What to do with rows that cannot be used, and what there has been of them.

    Parameters
    ----------
    action : {"stop", "skip"}
        "stop" raises BadRowError at the first; "skip" goes on without the row.
    tell : function of a BadRow, optional
        Called for each row that is skipped, in order: for a log.

    Attributes
    ----------
    n : int
        Rows that were skipped.
    counts : Counter
        The same by reason.
    first : list of BadRow
        The first few of them.
    """

    def __init__(self, action: str = "stop", tell: Callable[[BadRow], None] | None = None) -> None:
        check_parameters("BadRows", {"action": one_of("stop", "skip")}, {"action": action})
        self.action = action
        self.tell = tell
        self.n = 0
        self.counts: Counter[str] = Counter()
        self.first: list[BadRow] = []

    def add(self, source: str, number: int, error: RowError) -> None:
        """Note a bad row, or raise BadRowError if it is to stop everything."""
        row = BadRow(source, number, str(error))
        if self.action == "stop":
            raise BadRowError(str(row))
        self.n += 1
        self.counts[error.kind] += 1
        if len(self.first) < KEPT:
            self.first.append(row)
        if self.tell is not None:
            self.tell(row)
