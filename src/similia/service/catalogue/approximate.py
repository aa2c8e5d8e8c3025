"""Approximate search among changing items: an index of most rows, and the newest scored exactly.

Rows are written once, so an index of the first n of them stays valid. Later rows are scored
exactly, until there are so many that a new index is built in the background. The index only
proposes; scores and order are exact.
"""

import logging
import threading
from typing import NamedTuple

import numpy as np

from similia.contract import Array, Indices
from similia.index.backends import Backend, Space, backend_class
from similia.service.catalogue.items import ItemSnapshot

logger = logging.getLogger("similia.service")

#: rows below which exact search is used
MIN_ROWS = 10_000
#: share of rows outside the index that triggers a rebuild
REBUILD_ABOVE = 0.2
#: candidates for each requested item, and at least in all
CANDIDATES_EACH, MIN_CANDIDATES = 10, 200


class _Index(NamedTuple):
    rows: object
    n: int
    backend: Backend


class Approximate:
    """Candidates from a library for vector search."""

    def __init__(self, library: str) -> None:
        self._implementation = backend_class("Settings", library)
        self._built: _Index | None = None
        self._building = threading.Lock()

    def candidates(self, snapshot: ItemSnapshot, vector: Array, k: int) -> Indices | None:
        """Rows to score; None for all, if there are few or no index is ready."""
        n = len(snapshot.matrix)
        if n < MIN_ROWS:
            return None
        built = self._built
        fits = built is not None and built.rows is snapshot.rows and built.n <= n
        if not fits or (built is not None and n - built.n > REBUILD_ABOVE * built.n):
            self._build_beside(snapshot)
        if not fits or built is None:
            return None
        wanted = min(built.n, max(MIN_CANDIDATES, CANDIDATES_EACH * k))
        found, _ = built.backend.search(vector[None], wanted)
        proposed = found[0][found[0] >= 0]
        rows = np.concatenate([np.sort(proposed), np.arange(built.n, n)]).astype(np.intp)
        alive = rows[~np.isin(rows, snapshot.dead)]
        return alive if len(alive) >= min(k, len(snapshot)) else None

    def _build_beside(self, snapshot: ItemSnapshot) -> None:
        if not self._building.acquire(blocking=False):
            return

        def build() -> None:
            try:
                self.build(snapshot)
            except Exception:  # searches stay exact
                logger.exception("No index was built.")
            finally:
                self._building.release()

        threading.Thread(target=build, name="index", daemon=True).start()

    def build(self, snapshot: ItemSnapshot) -> None:
        """Build an index of all rows of a snapshot, and use it."""
        space = Space(snapshot.matrix.shape[1], "inner_product", np.dtype(np.float32))
        backend = self._implementation(space)
        backend.add(snapshot.matrix)
        self._built = _Index(snapshot.rows, len(snapshot.matrix), backend)
