"""The nearest items of each query: exactly, in blocks, or approximately by a faiss index."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.exceptions import MissingExtraError
from similia.linalg.blocks import row_blocks
from similia.retrieval import top_k

NearestItems: TypeAlias = tuple[Array, NDArray[np.int64]]


class ExactSearch:
    """All distances, in blocks of bounded memory."""

    def __init__(self, items: Array) -> None:
        self.items = items

    def nearest(self, queries: Array, k: int, *, exclude_self: bool = False) -> NearestItems:
        """Squared distances and rows of the k nearest; `exclude_self` omits item i for query i."""
        rows, scores = top_k("euclidean", queries, self.items, k, exclude_self=exclude_self)
        return -scores, rows


class GraphSearch:
    """A graph index (HNSW) of faiss: fast for many items, but neighbors are missed now and then."""

    def __init__(self, items: Array) -> None:
        try:
            import faiss
        except ImportError:
            raise MissingExtraError("search='faiss'", "faiss", "faiss") from None
        self.items = items
        self.index = faiss.IndexHNSWFlat(items.shape[1], 32)
        self.index.hnsw.efConstruction = 80
        self.index.add(np.ascontiguousarray(items, dtype=np.float32))

    def nearest(self, queries: Array, k: int, *, exclude_self: bool = False) -> NearestItems:
        """Squared distances and rows of about the k nearest items, as `ExactSearch` has them."""
        squares, rows = np.empty((len(queries), k), queries.dtype), np.empty((len(queries), k), int)
        n = k + bool(exclude_self)
        self.index.hnsw.efSearch = max(128, 8 * k)
        for block in row_blocks(len(queries), 1024):
            part = queries[block]
            found = self.index.search(np.ascontiguousarray(part, dtype=np.float32), n)[1]
            lost = (found < 0).any(axis=1)
            if lost.any():  # fewer than n were found
                found[lost] = ExactSearch(self.items).nearest(part[lost], n)[1]
            if exclude_self:
                other = found != np.arange(block.start, block.stop)[:, None]
                other[other.all(axis=1), -1] = False  # its own item was not found
                found = found[other].reshape(len(found), k)
            gaps = part[:, None, :] - self.items[found]
            squares[block], rows[block] = np.vecdot(gaps, gaps), found
        order = np.argsort(squares, axis=1, kind="stable")
        return np.take_along_axis(squares, order, 1), np.take_along_axis(rows, order, 1)


NeighborSearch: TypeAlias = ExactSearch | GraphSearch
SEARCHES: dict[str, type[NeighborSearch]] = {"exact": ExactSearch, "faiss": GraphSearch}


def vote_shares(labels: Indices, n_classes: int) -> Array:
    """Share of each class among the k labels of each row."""
    shares = np.zeros((len(labels), n_classes))
    np.add.at(shares, (np.arange(len(labels))[:, None], labels), 1.0 / labels.shape[1])
    return shares


def share_of_errors(labels: Indices, y: Indices) -> float:
    """Share of rows whose k labels vote for a class other than y."""
    shares = vote_shares(labels, int(max(labels.max(), y.max())) + 1)
    return float((shares.argmax(axis=1) != y).mean())
