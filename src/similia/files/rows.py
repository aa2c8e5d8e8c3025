"""Unusable rows: why, where, and whether to go on."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from similia.exceptions import BadRowError
from similia.files import limits

#: beginnings of texts that spreadsheets compute instead of showing
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class RowError(ValueError):
    """Reason why a row is unusable; `kind` omits the details, for counting."""

    def __init__(self, kind: str, detail: str = "", place: str = "") -> None:
        super().__init__(f"{kind}{detail}{place}")
        self.kind = f"{kind}{place}"
        self.detail = detail

    def within(self, column: str) -> "RowError":
        """The same reason, naming the column."""
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

    "stop" raises BadRowError at the first one; "skip" continues without it. `tell` is called for
    each skipped row, in order. `n` counts them, `counts` does so by reason, `first` keeps a few.
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
        self.take([row], {error.kind: 1})

    def take(self, rows: Iterable[BadRow], counts: Mapping[str, int]) -> None:
        """Record rows that were skipped, here or in another process, and counts by reason."""
        self.counts.update(counts)
        for row in rows:
            self.n += 1
            if len(self.first) < limits.BAD_ROWS_KEPT:
                self.first.append(row)
            if self.tell is not None:
                self.tell(row)

    def to_dict(self) -> dict[str, Any]:
        """Counts as plain values, ready for JSON."""
        return {"n": self.n, "by_reason": dict(self.counts)}


def csv_text(value: str) -> str:
    """A text for CSV, quoted if a spreadsheet would take it for a formula.

    `Ids` reads it with and without that quote.
    """
    return f"'{value}" if value.startswith(FORMULA_STARTS) else value
