"""Unusable rows: reported with number and reason, counted, then skipped or fatal."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from similia.exceptions import BadRowError

#: bad rows kept in full; all are counted
KEPT = 20


class RowError(ValueError):
    """Why a row is unusable; `kind` is the reason without particulars, for counting."""

    def __init__(self, kind: str, detail: str = "", place: str = "") -> None:
        super().__init__(f"{kind}{detail}{place}")
        self.kind = f"{kind}{place}"
        self.detail = detail

    def within(self, column: str) -> "RowError":
        """Same reason, with the name of the column at fault."""
        return RowError(self.kind, self.detail, f" in column {column}")


class BadRow(NamedTuple):
    """Position of an unusable row, and the reason."""

    source: str
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: row {self.number}: {self.reason}."


class BadRows:
    """Policy for unusable rows, and a record of those met so far.

    Parameters
    ----------
    action : {"stop", "skip"}
        "stop" raises BadRowError at the first one; "skip" continues without it.
    tell : function of a BadRow, optional
        Called for each skipped row, in order; useful for a log.

    Attributes
    ----------
    n : int
        Number of skipped rows.
    counts : Counter
        The same, by reason.
    first : list of BadRow
        The first few of them.
    """

    def __init__(self, action: str = "stop", tell: Callable[[BadRow], None] | None = None) -> None:
        if action not in ("stop", "skip"):
            raise ValueError(f"BadRows: action must be one of 'stop', 'skip', got {action!r}.")
        self.action = action
        self.tell = tell
        self.n = 0
        self.counts: Counter[str] = Counter()
        self.first: list[BadRow] = []

    def add(self, source: str, number: int, error: RowError) -> None:
        """Record a bad row, or raise BadRowError if the action is "stop"."""
        row = BadRow(source, number, str(error))
        if self.action == "stop":
            raise BadRowError(str(row))
        self.n += 1
        self.counts[error.kind] += 1
        if len(self.first) < KEPT:
            self.first.append(row)
        if self.tell is not None:
            self.tell(row)

    def to_dict(self) -> dict[str, Any]:
        """Counts as plain values, ready for JSON."""
        return {"n": self.n, "by_reason": dict(self.counts)}
