"""W: the part of a blend that learns from thousands of judgements and changes all queries."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array, Matrix
from similia.similarity.weights import CLUSTERS, design_effect, trust
from similia.updates.blend_matrix import (
    OUT,
    RESTARTS,
    STAKES,
    W_CLUSTERED,
    W_EVIDENCE,
    W_PROVED,
    W_SQUARES,
    W_evidence,
    count_evidence,
    matrix_pass,
)

#: prior variances of the change to a typical gap, in typical gaps: candidates side by side
SCALES = (1.0, 8.0, 64.0)
#: W ranks once doing without it is so many times less likely (wrongly one time in so many, ever)
#: and for as long as anything is left of that evidence
DOUBT = 100.0
#: one query in so many is held out: once met it is scored, and no longer learnt from
HELD_OUT = 8
#: queries met before are known by so many bits of their keys
BITS = 16
#: log-likelihood by which a scale must trail a larger one to drop out of the running
HOPELESS = float(np.log(1e4))
#: log-likelihood lost against doing without W after which W starts anew
ALARM = float(np.log(1e4))


@dataclass
class MatrixPart:
    """Gaussians over W with covariance Λ ⊗ Ω, one for each prior scale."""

    W: Array
    Lambda: Array
    Omega: Array
    #: log weights of the scales, and their sums of log-likelihood against doing without W
    logs: NDArray[np.float64]
    sums: NDArray[np.float64]
    #: winnings of each scale's bets
    bets: NDArray[np.float64]
    #: log-likelihood ratio against doing without W on queries that W has not learnt from, the
    #: number of judgements in it, how far W has fallen behind lately, sums of squares, and whether
    #: W has proved itself; at last how often W started anew
    totals: NDArray[np.float64]
    #: evidence by cluster of queries, and which of them were heard since W last drew level
    cluster: NDArray[np.float64]
    heard: NDArray[np.bool_]
    #: queries met before
    met: NDArray[np.bool_]

    @classmethod
    def start(cls, m: int, n: int, dtype: DTypeLike) -> Self:
        """W before any feedback: zero."""
        K = len(SCALES)
        roots = np.sqrt(np.array(SCALES, dtype=dtype))[:, None, None]
        return cls(
            np.zeros((K, m, n), dtype),
            roots * np.eye(m, dtype=dtype),
            roots * np.eye(n, dtype=dtype),
            np.full(K, -np.log(K)),
            np.zeros(K),
            np.zeros((K, len(STAKES))),
            np.zeros(7),
            np.zeros(CLUSTERS),
            np.zeros(CLUSTERS, bool),
            np.zeros(2**BITS, bool),
        )

    @property
    def trust(self) -> float:
        """Probability that W ranks better than doing without it."""
        return trust(self._evidence, 1 / (1 + np.exp(self._proof)))

    @property
    def _evidence(self) -> float:
        effect = self._design_effect
        return float(W_evidence(self.totals[W_EVIDENCE] / effect, self.bets / effect))

    @property
    def _design_effect(self) -> float:
        return design_effect(self.totals[W_CLUSTERED], self.totals[W_SQUARES])

    @property
    def _proof(self) -> float:
        """Evidence from which on W ranks: each start anew is another test, at half the level."""
        return float(np.log(DOUBT) + self.totals[RESTARTS] * np.log(2))

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
            gained, running = np.zeros((len(SCALES), 2, len(learnt))), self.logs > OUT
            states = [(self.W[c], self.Lambda[c], self.Omega[c]) for c in np.flatnonzero(running)]
            found = np.empty((len(states), 2, len(learnt)))
            given = Q[rest], P[rest], offsets[rest], others[rest], learnt
            matrix_pass(states, *given, found)
            gained[running] = found
            tallies = self.logs, self.sums, self.bets, self.totals, self.cluster, self.heard
            limits = self._proof, HOPELESS, ALARM
            counted = new | held
            alarm = count_evidence(gained, counted, clusters[rest], *tallies, limits)
            for array in (self.W, self.Lambda, self.Omega):
                array[running & (self.logs <= OUT)] = 0.0
            if alarm < 0:
                return begin > 0
            # W has become worse than nothing: taste has changed. Start anew behind the judgement
            # that showed it, so that the outcome does not depend on how blocks are cut.
            (_, m, n), restarts = self.W.shape, self.totals[RESTARTS] + 1
            vars(self).update(vars(type(self).start(m, n, self.W.dtype)))
            self.totals[RESTARTS] = restarts
            begin += alarm + 1
        return begin > 0

    def _first_met(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        places = (keys >> np.uint64(64 - BITS)).astype(np.intp)
        first = np.zeros(len(keys), bool)
        first[np.unique(places, return_index=True)[1]] = True
        new = first & ~self.met[places]
        self.met[places] = True
        return new

    def mean(self) -> Array:
        """W to rank with: zero until it has proved itself, then the mean over the scales."""
        if not self.totals[W_PROVED]:
            return np.zeros_like(self.W[0])
        found: Array = np.tensordot(self.shares().astype(self.W.dtype), self.W, 1)
        return found

    def shares(self) -> Array:
        """Shares of the scales in the evidence for W."""
        effect = self._design_effect
        won = np.logaddexp.reduce(self.bets / effect, axis=1) - np.log(self.bets.size)
        logs = np.logaddexp(self.logs + self.totals[W_EVIDENCE] / effect, won)
        logs[self.logs <= OUT] = -np.inf
        found: Array = np.exp(logs - np.logaddexp.reduce(logs))
        return found

    def variances(self, Q: Array, P: Array) -> Array:
        """Posterior variances of qᵀWp for corresponding rows."""
        shares = self.shares()
        total: Array = np.zeros(len(Q))
        for share, Lambda, Omega in zip(shares, self.Lambda, self.Omega, strict=True):
            total += share * np.vecdot(Q @ Lambda, Q) * np.vecdot(P @ Omega, P)
        return total
