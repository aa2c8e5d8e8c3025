"""W: the part of a blend that learns from thousands of judgements and changes all queries."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array
from similia.similarity.weights import CLUSTERS, design_effect
from similia.updates.blend_matrix import (
    NEW,
    PARTS_OF_W,
    RESTARTS,
    W_CLUSTERED,
    W_EVIDENCE,
    W_ORDERS,
    W_SQUARES,
    W_TRUST,
    count_evidence,
    matrix_pass,
    meet,
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


class Standing(NamedTuple):
    """W as it stood before some judgement."""

    W: Array
    #: parts of it to rank new queries with, and those that it has learnt from
    parts: NDArray[np.float64]


@dataclass
class MatrixPart:
    """A Gaussian over W with covariance Λ ⊗ Ω, and how much of W counts."""

    W: Array
    Lambda: Array
    Omega: Array
    #: log weights of the parts of W for new queries and for any, and the parts' sums of
    #: log-likelihood against doing without W, on new ones
    logs: NDArray[np.float64]
    sums: NDArray[np.float64]
    #: for new queries and for any: log-likelihood ratio against doing without W, the number of
    #: judgements in it, sums of squares, and trust in W
    tallies: NDArray[np.float64]
    #: how far W has fallen behind lately, trust in the orders that it turns, the number of
    #: judgements and of clusters they were about, and how often W started anew
    totals: NDArray[np.float64]
    #: evidence by cluster of queries, the number of its judgements, and which clusters were heard
    #: since W last drew level
    cluster: NDArray[np.float64]
    told: NDArray[np.int64]
    heard: NDArray[np.bool_]
    #: queries met before
    met: NDArray[np.bool_]

    @classmethod
    def start(cls, m: int, n: int, dtype: DTypeLike, *, restarts: float = 0.0) -> Self:
        """W before any feedback: zero."""
        K, root, tallies, totals = len(PARTS_OF_W), np.sqrt(SCALE), np.zeros((2, 5)), np.zeros(5)
        tallies[:, W_TRUST] = totals[W_ORDERS] = BELIEF / 2**restarts
        totals[RESTARTS] = restarts
        return cls(
            np.zeros((m, n), dtype),
            (root * np.eye(m)).astype(dtype),
            (root * np.eye(n)).astype(dtype),
            np.full((2, K), -np.log(K)),
            np.zeros(K),
            tallies,
            totals,
            np.zeros((2, CLUSTERS)),
            np.zeros(CLUSTERS, np.int64),
            np.zeros(CLUSTERS, bool),
            np.zeros(2**BITS, bool),
        )

    @property
    def trust(self) -> float:
        """Probability that W ranks new queries better than doing without it."""
        return float(self.tallies[NEW, W_TRUST])

    @property
    def evidence(self) -> float:
        """Log-likelihood ratio for W on new queries, with repeats of a query counted once."""
        tally = self.tallies[NEW]
        return float(tally[W_EVIDENCE] / design_effect(tally[W_CLUSTERED], tally[W_SQUARES]))

    @property
    def _belief(self) -> float:
        return float(BELIEF / 2 ** self.totals[RESTARTS])

    def learn(
        self,
        Q: Array,
        P: Array,
        offsets: Array,
        others: Array,
        weights: Array,
        keys: NDArray[np.uint64],
        stop: int | None = None,
    ) -> tuple[int, Standing | None]:
        """Learn a block of pairs, in order.

        Returns the first pair at which W started anew, or -1. If there is none, also how W stood
        before the pair `stop`, unless that is None.
        """
        first, standing, begin = -1, None, 0
        while True:
            rest = slice(begin, None)
            given = Q[rest], P[rest], offsets[rest], others[rest], weights[rest], keys[rest]
            alarm, W = self._learn_until_alarm(given, None if begin else stop)
            if not begin:
                first, standing = alarm, W
            if alarm < 0:
                return first, standing
            # W has become worse than nothing: taste has changed. Start anew behind the judgement
            # that showed it, so that the outcome does not depend on how blocks are cut.
            (m, n), restarts = self.W.shape, self.totals[RESTARTS] + 1
            anew = type(self).start(m, n, self.W.dtype, restarts=restarts)
            vars(self).update(vars(anew))
            begin += alarm + 1

    def _learn_until_alarm(
        self, given: tuple[Array, ...], stop: int | None
    ) -> tuple[int, Standing | None]:
        """Learn pairs, and count until W is worse than nothing; where that was, or -1."""
        Q, P, offsets, others, weights, keys = given
        if not len(keys):
            return -1, None if stop is None else self.standing()
        new, held = self._first_met(keys), held_out(keys)
        learnt, state = np.where(held & ~new, 0.0, weights), (self.W, self.Lambda, self.Omega)
        scores, W = matrix_pass(*state, Q, P, offsets, others, learnt, stop)
        clusters = (keys % np.uint64(CLUSTERS)).astype(np.intp)
        pairs = scores, offsets, others, new | held, clusters
        begin, parts = 0, np.zeros(2)
        if stop is not None:
            alarm = self._count(array[:stop] for array in pairs)
            if alarm >= 0:
                return alarm, None
            begin, parts = stop, self.shares if W.any() else parts
        alarm = self._count(array[begin:] for array in pairs)
        if alarm >= 0:
            return begin + alarm, None
        return -1, None if stop is None else Standing(W, parts)

    def _count(self, pairs: Iterable[Array]) -> int:
        """Count the evidence of pairs; return where W became worse than nothing, or -1."""
        sums, by_query = (self.logs, self.sums), (self.cluster, self.told, self.heard)
        counts = *sums, self.tallies, self.totals, *by_query
        return int(count_evidence(*pairs, counts, (self._belief, ALARM)))

    def standing(self) -> Standing:
        """W as it stands."""
        return Standing(self.W.copy(), self.shares if self.W.any() else np.zeros(2))

    def _first_met(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        new: NDArray[np.bool_] = meet(self.met, (keys >> np.uint64(64 - BITS)).astype(np.intp))
        return new

    @property
    def shares(self) -> NDArray[np.float64]:
        """Parts of W to rank new queries with, and those that W has learnt from.

        What suits, as far as trust in W and in its orders has risen. That in its orders need only
        be twice as large as at first.
        """
        trust, belief = self.tallies[:, W_TRUST], self._belief
        raised = np.maximum(trust - belief, 0.0) / (1 - belief)
        orders = min(max(self.totals[W_ORDERS] / belief - 1, 0.0), 1.0)
        found: NDArray[np.float64] = np.maximum(raised * orders * self._suits, LEAST)
        return found

    @property
    def _suits(self) -> NDArray[np.float64]:
        """Parts of W that suit, on average: as they are powers of two, by the geometric mean."""
        found: NDArray[np.float64] = np.exp(np.exp(self.logs) @ np.log(PARTS_OF_W))
        return found

    def variances(self, Q: Array, P: Array) -> Array:
        """Posterior variances of what W would add for corresponding rows, as far as trusted."""
        part = (self.trust * self._suits[NEW]) ** 2
        found: Array = part * np.vecdot(Q @ self.Lambda, Q) * np.vecdot(P @ self.Omega, P)
        return found


def held_out(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which queries W learns from once at most."""
    found: NDArray[np.bool_] = keys % np.uint64(HELD_OUT) == 0
    return found
