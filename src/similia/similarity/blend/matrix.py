"""W: what thousands of comparisons say of all queries."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array
from similia.linalg.gaussian import mean_precision
from similia.updates.blend import BEST, WORST, trust
from similia.updates.blend_matrix import (
    BEHIND,
    COUNT,
    PRECISION,
    RANKS,
    TURNED,
    WEIGHT,
    learn_weight,
    matrix_pass,
)

#: prior variance of the change to a typical gap, in typical gaps: wide, so that W learns fast; its
#: weight makes up for that
SCALE = 64.0
#: deviation of the weight of W, which is 0 until W has predicted comparisons
DEVIATION = 0.25
#: comparisons that are learnt at once
COMPARISONS_A_BLOCK = 64


@dataclass
class MatrixPart:
    """A Gaussian over W with covariance Λ ⊗ Ω, and the weight of W beside the views."""

    W: Array
    Lambda: Array
    Omega: Array
    #: weight of W, its precision, how far W has fallen behind doing without, evidence of the
    #: comparisons that it turns, the weight that ranks, and how many comparisons are waiting
    numbers: NDArray[np.float64]
    #: comparisons that wait for their block: queries, differences, margins and weights
    queries: Array
    gaps: Array
    margins: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def start(cls, m: int, n: int, dtype: DTypeLike) -> Self:
        """W before any feedback: zero."""
        root, block = np.sqrt(SCALE), COMPARISONS_A_BLOCK if m else 0
        return cls(
            np.zeros((m, n), dtype),
            (root * np.eye(m)).astype(dtype),
            (root * np.eye(n)).astype(dtype),
            np.array([0.0, DEVIATION**-2.0, 0.0, 0.0, 0.0, 0.0]),
            np.zeros((block, m), dtype),
            np.zeros((block, n), dtype),
            np.zeros(block),
            np.zeros(block),
        )

    @property
    def weight(self) -> float:
        """Weight of W when ranking, as far as it turns comparisons rightly."""
        return float(self.numbers[RANKS])

    def learn(self, Q: Array, P: Array, margins: Array, counts: Array) -> None:
        """Learn comparisons, each with what the views make of it, block by block.

        A block is learnt when the next comparison comes, so no single one changes other queries.
        """
        begin = 0
        while begin < len(Q):
            if self.numbers[COUNT] == COMPARISONS_A_BLOCK:
                self._learn_block()
            n = int(self.numbers[COUNT])
            end = min(begin + COMPARISONS_A_BLOCK - n, len(Q))
            place, part = slice(n, n + end - begin), slice(begin, end)
            self.queries[place], self.gaps[place] = Q[part], P[part]
            self.margins[place], self.counts[place] = margins[part], counts[part]
            self.numbers[COUNT] = place.stop
            begin = end

    def merged(self, parts: Sequence["MatrixPart"]) -> "MatrixPart":
        """Mean of the parts, each by its comparisons since this one; evidence adds up."""
        parts = [copy.deepcopy(part) for part in parts]
        for part in parts:
            part._learn_block()
        numbers = np.array([part.numbers for part in parts]) - self.numbers
        learnt = np.maximum(numbers[:, PRECISION], 0.0)
        shares = learnt / learnt.sum() if learnt.any() else np.full(len(parts), 1 / len(parts))
        m, n = self.W.shape
        found = type(self).start(m, n, self.W.dtype)
        found.W[:] = sum(share * part.W for share, part in zip(shares, parts, strict=True))
        if self.W.size:
            found.Lambda = mean_precision([part.Lambda for part in parts])
            found.Omega = mean_precision([part.Omega for part in parts])
        found.numbers[:] = self.numbers + numbers.sum(axis=0)
        weights = np.array([part.numbers[WEIGHT] for part in parts])
        found.numbers[WEIGHT] = shares @ weights
        found.numbers[BEHIND] = max(part.numbers[BEHIND] for part in parts)
        found.numbers[TURNED] = min(max(found.numbers[TURNED], WORST), BEST)
        found.numbers[RANKS] = found.numbers[WEIGHT] * trust(found.numbers[TURNED])
        found.numbers[COUNT] = 0.0
        return found

    def _learn_block(self) -> None:
        n = int(self.numbers[COUNT])
        state, given = (self.W, self.Lambda, self.Omega), (self.margins[:n], self.counts[:n])
        scores = matrix_pass(*state, self.queries[:n], self.gaps[:n], *given)
        failed = learn_weight(scores, *given, self.numbers)
        self.numbers[COUNT] = 0.0
        if failed:  # worse than nothing with what was right so far: taste has changed
            m, n = self.W.shape
            anew = type(self).start(m, n, self.W.dtype)
            vars(self).update(vars(anew))

    def variances(self, Q: Array, P: Array) -> Array:
        """Posterior variances of what W adds for corresponding rows."""
        doubt = self.weight**2 * np.vecdot(Q @ self.Lambda, Q) * np.vecdot(P @ self.Omega, P)
        return doubt + np.vecdot(Q @ self.W, P) ** 2 * (self.weight > 0) / self.numbers[PRECISION]
