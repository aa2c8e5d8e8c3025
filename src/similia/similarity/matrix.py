"""W: the part of a blend that learns from thousands of judgements and changes all queries."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array, Matrix
from similia.similarity.weights import CLUSTERS, design_effect
from similia.updates.blend_matrix import (
    PARTS_OF_W,
    RESTARTS,
    W_CLUSTERED,
    W_EVIDENCE,
    W_ORDERS,
    W_SQUARES,
    W_TRUST,
    count_evidence,
    matrix_pass,
)

#: prior variance of the change to a typical gap, in typical gaps
SCALE = 64.0
#: belief that W generalises; each start anew is another test, at half of it
BELIEF = 0.1
#: part of W that ranks in any case: it orders what the base cannot tell apart
LEAST = 2.0**-10
#: one query in so many is held out: once met it is scored, and no longer learnt from
HELD_OUT = 8
#: queries met before are known by so many bits of their keys
BITS = 16
#: log-likelihood lost against doing without W after which W starts anew
ALARM = float(np.log(1e8))


@dataclass
class MatrixPart:
    """A Gaussian over W with covariance Λ ⊗ Ω, and how much of W counts."""

    W: Array
    Lambda: Array
    Omega: Array
    #: log weights of the parts of W, and their sums of log-likelihood against doing without W
    logs: NDArray[np.float64]
    sums: NDArray[np.float64]
    #: log-likelihood ratio against doing without W on queries that W has not learnt from, the
    #: number of judgements in it, how far W has fallen behind lately, sums of squares, trust in W
    #: and in the orders that it turns, and how often W started anew
    totals: NDArray[np.float64]
    #: evidence by cluster of queries, and which of them were heard since W last drew level
    cluster: NDArray[np.float64]
    heard: NDArray[np.bool_]
    #: queries met before
    met: NDArray[np.bool_]

    @classmethod
    def start(cls, m: int, n: int, dtype: DTypeLike, *, restarts: float = 0.0) -> Self:
        """W before any feedback: zero."""
        K, root, totals = len(PARTS_OF_W), np.sqrt(SCALE), np.zeros(8)
        totals[[W_TRUST, W_ORDERS]], totals[RESTARTS] = BELIEF / 2**restarts, restarts
        return cls(
            np.zeros((m, n), dtype),
            (root * np.eye(m)).astype(dtype),
            (root * np.eye(n)).astype(dtype),
            np.full(K, -np.log(K)),
            np.zeros(K),
            totals,
            np.zeros(CLUSTERS),
            np.zeros(CLUSTERS, bool),
            np.zeros(2**BITS, bool),
        )

    @property
    def trust(self) -> float:
        """Probability that W ranks better than doing without it."""
        return float(self.totals[W_TRUST])

    @property
    def evidence(self) -> float:
        """Log-likelihood ratio for W, with repeats of a query counted once."""
        effect = design_effect(self.totals[W_CLUSTERED], self.totals[W_SQUARES])
        return float(self.totals[W_EVIDENCE] / effect)

    @property
    def _belief(self) -> float:
        return float(BELIEF / 2 ** self.totals[RESTARTS])

    def learn(
        self,
        Q: Matrix,
        P: Matrix,
        offsets: Array,
        others: Array,
        weights: Array,
        keys: NDArray[np.uint64],
    ) -> bool:
        """Learn a block of pairs, in order; return whether W started anew."""
        clusters = (keys % np.uint64(CLUSTERS)).astype(np.intp)
        begin = 0
        while begin < len(keys):
            rest = slice(begin, None)
            new, held = self._first_met(keys[rest]), keys[rest] % np.uint64(HELD_OUT) == 0
            learnt = np.where(held & ~new, 0.0, weights[rest])
            margins, state = (offsets[rest], others[rest]), (self.W, self.Lambda, self.Omega)
            scores = matrix_pass(*state, Q[rest], P[rest], *margins, learnt)
            sums, tallies = (self.logs, self.sums, self.totals), (self.cluster, self.heard)
            given, limits = (new | held, clusters[rest]), (self._belief, ALARM)
            alarm = count_evidence(scores, *margins, *given, *sums, tallies, limits)
            if alarm < 0:
                return begin > 0
            # W has become worse than nothing: taste has changed. Start anew behind the judgement
            # that showed it, so that the outcome does not depend on how blocks are cut.
            (m, n), restarts = self.W.shape, self.totals[RESTARTS] + 1
            anew = type(self).start(m, n, self.W.dtype, restarts=restarts)
            vars(self).update(vars(anew))
            begin += alarm + 1
        return begin > 0

    def _first_met(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        places = (keys >> np.uint64(64 - BITS)).astype(np.intp)
        first = np.zeros(len(keys), bool)
        first[np.unique(places, return_index=True)[1]] = True
        new = first & ~self.met[places]
        self.met[places] = True
        return new

    @property
    def share(self) -> float:
        """Part of W to rank with: what suits, as far as trust in W and in its orders has risen.

        That in its orders need only be twice as large as at first.
        """
        raised = max(self.trust - self._belief, 0.0) / (1 - self._belief)
        orders = min(max(self.totals[W_ORDERS] / self._belief - 1, 0.0), 1.0)
        return max(float(raised * orders * self._suits), LEAST)

    @property
    def _suits(self) -> float:
        """Part of W that suits, on average."""
        return float(np.exp(self.logs) @ PARTS_OF_W)

    def mean(self) -> Array:
        """W to rank with."""
        found: Array = self.W * self.W.dtype.type(self.share)
        return found

    def variances(self, Q: Array, P: Array) -> Array:
        """Posterior variances of what W would add for corresponding rows, as far as trusted."""
        part = (self.trust * self._suits) ** 2
        found: Array = part * np.vecdot(Q @ self.Lambda, Q) * np.vecdot(P @ self.Omega, P)
        return found
