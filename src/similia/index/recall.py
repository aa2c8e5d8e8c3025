"""How much of what exact search finds an index finds: measured at every build."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from similia.contract import Array
from similia.index.backends import Backend
from similia.index.exact import Implementation as Exact

#: queries that recall is measured with
SAMPLE = 200


@dataclass(frozen=True)
class BuildReport:
    """What was built, and how well it finds.

    Attributes
    ----------
    backend, geometry : str
    n_items, n_features : int
    k : int
        Number of best items that are compared.
    recall : float
        Share of the k best items by exact search that the index finds too, as the mean over the
        queries; 1 without measurement where the backend itself is exact; None if not measured.
    n_queries : int
        Queries that it was measured with.
    seconds : float
        Time of adding the vectors.
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
        return (
            f"{self.backend}: {self.n_items} items of {self.n_features} features, "
            f"{self.geometry}, in {self.seconds:.3g} s; {self._found()}."
        )

    def _found(self) -> str:
        if self.recall is None:
            return "recall not measured"
        how = f"over {self.n_queries} queries" if self.n_queries else "exact itself"
        return f"recall@{self.k} against exact search {self.recall:.4f} ({how})"

    def to_dict(self) -> dict[str, Any]:
        """Give the fields by name, ready for JSON."""
        return asdict(self)


def sampled_rows(n: int) -> Array:
    """Give the rows of at most `SAMPLE` items, spread evenly, that serve as queries."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.intp))


class Asked(NamedTuple):
    """Queries, and the row of the item that each of them is itself, if they are items."""

    queries: Array
    own: Array | None


def measured_recall(backend: Backend, geometry: str, asked: Asked, k: int) -> float:
    """Give the mean share of the k best items that `backend` finds.

    An item that is itself the query is left out, as finding it says nothing.
    """
    Q, own = asked
    items = backend.vectors()
    exact = Exact(items.shape[1], geometry, items.dtype)
    exact.add(items)
    depth = min(len(items), k + (own is not None))
    best, found = exact.search(Q, depth)[0], backend.search(Q, depth)[0]
    itself = np.full(len(Q), -2) if own is None else own
    shares = []
    for right, got, self_row in zip(best, found, itself, strict=True):
        wanted = right[right != self_row][:k]
        if len(wanted):
            shares.append(np.isin(wanted, got[got != self_row][:k]).mean())
    return float(np.mean(shares)) if shares else 1.0
