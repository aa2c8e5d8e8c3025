"""Recall of an index against exact search, measured at every build."""

from dataclasses import asdict, dataclass
from numbers import Real

import numpy as np

from similia.contract import Geometry, Indices, Matrix
from similia.index.backends import Backend, Space
from similia.index.exact import exact_search
from similia.validation import (
    Rule,
    check_parameters,
    non_negative,
    non_negative_integer,
    none,
    positive_integer,
)

share = Rule("a number between 0 and 1", lambda v: 0 <= v <= 1, kind=Real)
#: number of queries that recall is measured with
RECALL_QUERIES = 200


@dataclass(frozen=True)
class BuildReport:
    """Size of an index, and how many of the best items it finds.

    `recall` is the share of the k best items by exact search that the index finds, averaged over
    `n_queries` queries; 1 without measurement if the backend is exact, and None if not measured.
    `seconds` is the time taken to add the vectors.
    """

    backend: str
    geometry: str
    n_items: int
    n_features: int
    k: int
    recall: float | None
    n_queries: int
    seconds: float

    def __str__(self) -> str:
        recall = "recall not measured"
        if self.recall is not None:
            how = f"over {self.n_queries} queries" if self.n_queries else "exact itself"
            recall = f"recall@{self.k} against exact search {self.recall:.4f} ({how})"
        return (
            f"{self.backend}: {self.n_items} items of {self.n_features} features, "
            f"{self.geometry}, in {self.seconds:.3g} s; {recall}."
        )

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Fields by name, ready for JSON."""
        return asdict(self)


def check_report(report: BuildReport, expected: tuple[str, str, int, int]) -> None:
    """Refuse a report from a file that describes another index."""
    found = (report.backend, report.geometry, report.n_items, report.n_features)
    if found != expected:
        raise ValueError("the report is that of another index")
    rules = {"k": positive_integer, "recall": none | share, "n_queries": non_negative_integer}
    check_parameters("report", {**rules, "seconds": non_negative}, vars(report))


def sampled_rows(n: int) -> Indices:
    """At most `RECALL_QUERIES` rows of n items, evenly spread, to serve as queries."""
    return np.unique(np.linspace(0, n - 1, min(n, RECALL_QUERIES)).astype(np.intp))


def measured_recall(
    backend: Backend, geometry: Geometry, Q: Matrix, own: Indices | None, k: int
) -> float:
    """Mean share of the k best items that `backend` finds.

    If the queries are items, of rows `own`, finding themselves is trivial and does not count.
    """
    items = backend.vectors()
    exact = exact_search(items, Space(items.shape[1], geometry, items.dtype))
    depth = min(items.shape[0], k + (own is not None))
    return share_found(exact.search(Q, depth)[0], backend.search(Q, depth)[0], own, k)


def share_found(best: Indices, found: Indices, own: Indices | None, k: int) -> float:
    """Mean share of the k best rows among those found; rows of the queries `own` do not count."""
    itself = np.full(len(best), -2) if own is None else own
    shares = []
    for right, got, self_row in zip(best, found, itself, strict=True):
        wanted = right[right != self_row][:k]
        if len(wanted):
            shares.append(np.isin(wanted, got[got != self_row][:k]).mean())
    return float(np.mean(shares)) if shares else 1.0
