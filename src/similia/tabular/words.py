"""Words of texts as short dense vectors, for whoever has no embedder."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from similia.safety.whole import replacing
from similia.text import BM25

#: numbers in a vector, at most
WIDTH = 512


class WordVectors:
    """Vectors of texts whose inner products come near to BM25.

    The matrix of the items' words is cut to its leading singular vectors, U S Vᵀ: an item has its
    row of U S, a query the product of its counts with V. The scale makes items of unit length on
    average.
    """

    def __init__(self, bm25: BM25, directions: NDArray[np.float32]) -> None:
        self.bm25, self.directions = bm25, directions

    @classmethod
    def fit(cls, texts: Sequence[str]) -> Self:
        """Learn the words and the directions of some texts."""
        bm25 = BM25().fit(texts)
        weights = bm25.items(texts)
        width = min(WIDTH, *(side - 1 for side in weights.shape))
        if width < 1:
            raise ValueError("texts must have several words, got too few; give vectors.")
        _, lengths, directions = randomized_svd(weights, width, random_state=0)
        scale = np.sqrt(len(texts)) / np.linalg.norm(lengths)
        return cls(bm25, (directions.T * scale).astype(np.float32))

    def items(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of what is found."""
        found: NDArray[np.float32] = self.bm25.items(texts) @ self.directions
        return found

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of what is asked."""
        found: NDArray[np.float32] = self.bm25.queries(texts) @ self.directions
        return found

    def unknown(self, texts: Sequence[str]) -> list[str]:
        """Words of texts for which there is no direction."""
        counter = self.bm25.counter_
        words = set(chain.from_iterable(map(counter.build_analyzer(), texts)))
        return sorted(words.difference(counter.get_feature_names_out()))

    def save(self, path: Path) -> None:
        """Write them to a .npz file."""
        state = self.bm25.state()
        with replacing(path) as temporary, open(temporary, "wb") as file:
            arrays = {name: state[name] for name in ("words", "rarity", "mean_length")}
            np.savez(file, directions=self.directions, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path) as file:
                state = {name: file[name] for name in ("words", "rarity")}
                length, directions = float(file["mean_length"]), file["directions"]
            found = BM25.restored({**BM25().get_params(), **state, "mean_length": length})
            if directions.shape != (len(found.rarity_), directions.shape[1]):
                raise ValueError("sizes differ")
        except Exception as error:  # whatever the contents cause, the file is at fault
            raise ValueError(f"{path}: words kept could not be read; delete it.") from error
        return cls(found, directions)
