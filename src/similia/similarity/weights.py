"""One weight for each view: the part of a blend that learns from tens of judgements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import exp
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.updates.blend import log_sum
from similia.updates.blend_weights import (
    BASE,
    CLUSTERED,
    EVIDENCE,
    GRID,
    LEARNT,
    LISTS,
    LOG_BELIEFS,
    NUISANCE,
    OF_START,
    SPREAD,
    SQUARES,
    STARTED,
    weigh_lists,
)

#: how uncertain the starts of all weights are as a whole
AS_A_WHOLE = 0.25
#: least strength of the base beside what W and memory add: among the few items of a list it
#: explains less than among all, and of noise nothing
WEAKEST = 1.0
#: queries are counted in so many clusters, by their keys
CLUSTERS = 4096


def trust(evidence: float, belief: float) -> float:
    """Probability that a part ranks better than doing without it.

    `evidence` is a log-likelihood ratio on what was not learnt yet. If the part is worthless its
    exponential is at most 1 on average, however long one looks, and trust at most `belief`.
    """
    return 1 / (1 + (1 - belief) / belief * exp(-min(max(float(evidence), -50.0), 50.0)))


def raised(evidence: float, belief: float) -> float:
    """Share with which a part ranks: how far evidence has raised trust in it above `belief`.

    Nothing without evidence or against it; of a worthless part at most `belief` on average.
    """
    return max(0.0, (trust(evidence, belief) - belief) / (1 - belief))


def design_effect(clustered: float, squares: float) -> float:
    """Factor by which judgements of the same queries count less than independent ones.

    Σ_q S_q² / Σ_t d_t² for evidence d_t with the sum S_q for query q; 1 if they are independent.
    """
    return max(1.0, clustered / max(squares, 1e-12))


def pieces(starts: Indices, stops: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Lists from one stop to the next, with the places of the covariances of their scores."""
    ends = [0, *np.cumsum(np.diff(starts) ** 2).tolist()]
    for begin, end in pairwise([0, *stops, len(starts) - 1]):
        yield slice(begin, end), slice(ends[begin], ends[end])


@lru_cache(maxsize=64)
def _prior_of(*numbers: bytes) -> tuple[Array, Array, Array]:
    """The prior of weights with this start, doubt and units: the same before every block."""
    a, doubt, units = (np.frombuffer(array) for array in numbers)
    covariance = np.diag(doubt**2) + AS_A_WHOLE**2 * np.outer(a, a)
    precision = np.linalg.inv(covariance) / np.outer(units, units)
    return precision @ (a * units), precision, a * units


class Ranking(NamedTuple):
    """What the weights come to when items are ranked."""

    #: weight of each view, the base first with 1, in units of their typical gaps
    weights: NDArray[np.float64]
    #: how much one typical gap of the base explains of people's choices, at least `WEAKEST`
    strength: float
    #: probability that the blend ranks better than the base
    trust: float


@dataclass
class Weights:
    """A Gaussian over the weights of views and nuisances for each strength τ of the base.

    The first axis of the sums is that of the models, the second that of the strengths.
    """

    #: start of each weight, how far it may be from that, and the units of both
    start: NDArray[np.float64]
    doubt: NDArray[np.float64]
    units: NDArray[np.float64]
    information: NDArray[np.float64]
    natural: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    totals: NDArray[np.float64]
    #: evidence by cluster of queries: repeats of one query are no independent judgements
    cluster: NDArray[np.float64]

    @classmethod
    def begin(
        cls,
        start: NDArray[np.float64],
        doubt: NDArray[np.float64],
        units: NDArray[np.float64],
        n_nuisances: int = 0,
    ) -> Self:
        """Weights before any feedback: `start` give or take `doubt`, in `units`."""
        p, K = len(start) + n_nuisances, len(GRID)
        return cls(
            start,
            doubt,
            units,
            np.zeros((3, K, p, p)),
            np.zeros((3, K, p)),
            np.zeros((3, K)),
            np.zeros(6),
            np.zeros(CLUSTERS),
        )

    @property
    def _prior(self) -> tuple[Array, Array, Array]:
        """Precision of the weights times their start, the precision, and the start itself."""
        return _prior_of(self.start.tobytes(), self.doubt.tobytes(), self.units.tobytes())

    @property
    def _design_effect(self) -> float:
        return design_effect(self.totals[CLUSTERED], self.totals[SQUARES])

    @property
    def trust(self) -> float:
        """Probability that the blend of all views ranks better than the base."""
        return float(1 - self._models()[BASE])

    def _models(self) -> Array:
        """Probabilities of the models."""
        logs, effect = LOG_BELIEFS.copy(), self._design_effect
        logs[LEARNT] += self.totals[EVIDENCE] / effect
        logs[STARTED] += self.totals[OF_START] / effect
        found: Array = np.exp(logs - log_sum(logs))
        return found

    def learn(
        self,
        starts: Indices,
        features: NDArray[np.float64],
        nuisance: NDArray[np.float64],
        gains: NDArray[np.float64],
        weights: NDArray[np.float64],
        keys: NDArray[np.uint64],
        fading: float = 1.0,
        *,
        alone: bool = False,
        stops: Sequence[int] = (),
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[Self]]:
        """Learn lists; return the scores and covariances that the weights gave them before.

        Also return the weights as they stood before the lists at `stops`, increasing places. What
        was learnt counts `fading` times as much after each list. If the weights are `alone`, no
        other part asks for scores and covariances, and they are zero and empty.
        """
        offsets = np.empty(len(features))
        others = np.empty(0 if alone else int((np.diff(starts) ** 2).sum()))
        clusters = (keys % np.uint64(CLUSTERS)).astype(np.intp)
        state = self.information, self.natural, self.likelihood, self.totals
        prior = self._prior
        then: list[Self] = []
        for lists, places in pieces(starts, stops):
            own = starts[lists.start : lists.stop + 1]
            weigh_lists(
                (own, features, nuisance, gains, weights[lists], clusters[lists]),
                (*state, self.cluster),
                prior,
                fading,
                offsets,
                others[places],
            )
            if len(then) < len(stops):
                then.append(self._standing())
        return offsets, others, then

    def _standing(self) -> Self:
        """The weights as they stand, for `ranking`."""
        return replace(
            self,
            information=self.information.copy(),
            natural=self.natural.copy(),
            likelihood=self.likelihood.copy(),
            totals=self.totals.copy(),
        )

    def widen(self, n_nuisances: int) -> None:
        """Make room for nuisances, which the lists so far did not have."""
        room = (0, len(self.start) + n_nuisances - self.natural.shape[-1])
        self.information = np.pad(self.information, [(0, 0), (0, 0), room, room])
        self.natural = np.pad(self.natural, [(0, 0), (0, 0), room])

    def ranking(self) -> Ranking:
        """Weights to rank with: nuisances are left out, and the base keeps its weight of 1."""
        shares, models = self._strengths(), self._models()
        deviation = np.sqrt(max(self.totals[SPREAD] / max(self.totals[LISTS], 1.0), 1e-12))
        strength = float(shares @ GRID / deviation) if self.totals[LISTS] else 1.0
        strength = max(strength, WEAKEST)
        weights = np.ones(1 + len(self.start))
        if len(self.start):
            learnt = shares @ self._posterior()[0]
            weights[1:] = models[LEARNT] * learnt + models[STARTED] * self._prior[2]
        return Ranking(weights, strength, float(1 - models[BASE]))

    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the weights of all views but the base."""
        shares, (means, covariances) = self._strengths(), self._posterior()
        centre = shares @ means
        within = np.tensordot(shares, covariances, 1)
        between = (means - centre).T * shares @ (means - centre)
        found: NDArray[np.float64] = within + between
        return found

    def _strengths(self) -> Array:
        """Shares of the strengths."""
        logs = self.likelihood[LEARNT] / self._design_effect
        found: Array = np.exp(logs - log_sum(logs))
        return found

    def _posterior(self) -> tuple[Array, Array]:
        """Means and covariances of the weights for each strength."""
        V, (start, precision, _) = len(self.start), self._prior
        p = self.natural.shape[-1]
        P, e = np.eye(p) / NUISANCE[1], np.full(p, NUISANCE[0] / NUISANCE[1])
        P[:V, :V], e[:V] = precision, start
        P[:V, V:] = P[V:, :V] = 0.0
        phi = self._design_effect
        inverses = np.linalg.inv(P + self.information[0] / phi)
        means = np.einsum("cij,cj->ci", inverses, e + self.natural[0] / phi)
        return means[:, :V], inverses[:, :V, :V]
