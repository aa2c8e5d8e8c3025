"""Typed queries without an embedder: the texts of the items, ranked by BM25."""

import threading
import time
from typing import NamedTuple

import numpy as np
from scipy import sparse

from similia.service.catalogue.items import Items
from similia.service.errors import Invalid
from similia.text import BM25

#: texts are used for at least so many times the time it took to fit them
REREAD_RATIO = 10


class _Read(NamedTuple):
    version: int
    ids: list[str]
    #: None if no text has a word in it
    bm25: BM25 | None
    matrix: sparse.csr_array
    #: when reading ended, and how long it took
    at: float
    seconds: float


class ItemTexts:
    """BM25 over the texts of items, refitted when items change."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._read: _Read | None = None

    def best(self, items: Items, text: str, k: int) -> list[tuple[str, float]]:
        """Ids and scores of the best items that share a word with a text."""
        read = self._current(items)
        if not read.ids:
            raise Invalid(
                "query: there must be vectors or an item, got only a text, and items have none; "
                "set up an embedder."
            )
        if read.bm25 is None:
            return []
        scores = (read.matrix @ read.bm25.queries([text]).T).toarray()[:, 0]
        order = np.argsort(-scores, kind="stable")[:k]
        return [(read.ids[i], float(scores[i])) for i in order if scores[i] > 0]

    def _current(self, items: Items) -> _Read:
        """The texts as they are now, or were a moment ago."""
        with self._reading:
            read, now = self._read, time.monotonic()
            if read is not None:
                recent = now - read.at < REREAD_RATIO * read.seconds
                if read.version == items.version or recent:
                    return read
            version, texts = items.version, items.texts()
            ids, words = list(texts), list(texts.values())
            try:
                bm25 = BM25().fit(words) if words else None
            except ValueError:  # only stop words
                bm25 = None
            matrix = sparse.csr_array((0, 0)) if bm25 is None else bm25.items(words)
            done = time.monotonic()
            self._read = _Read(version, ids, bm25, matrix, done, done - now)
            return self._read
