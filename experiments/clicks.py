"""Clicks with known biases: simulated searches among judged items, so the truth is known.

A person looks at place k with probability k**-eta (position), at nothing after a click with
probability `stop` (cascade), finds a relevant item attractive, or an irrelevant one with the share
`noise`, and clicks on what is looked at even if it is not attractive with probability trust/k
(trust). Only the first `depth` items are ever shown (selection); a share of the lists is shown with
two random places swapped (`swaps`), which is what identifies the effect of places.
"""

from dataclasses import dataclass

import numpy as np

from similia import Impressions


@dataclass(frozen=True)
class Person:
    eta: float = 1.0
    trust: float = 0.0
    stop: float = 0.0
    noise: float = 0.0
    depth: int = 10
    swaps: float = 0.0

    def examination(self):
        """Chance that each place is looked at before the first click."""
        return np.arange(1.0, self.depth + 1) ** -self.eta

    def shown(self, scores, n_searches, rng):
        """Queries, and the items shown for each (n_searches, depth): best first up to swaps."""
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.depth]
        query = rng.integers(len(scores), size=n_searches)
        lists = order[query]
        swapped = np.flatnonzero(rng.random(n_searches) < self.swaps)
        a, b = rng.integers(lists.shape[1], size=(2, len(swapped)))
        lists[swapped, a], lists[swapped, b] = lists[swapped, b], lists[swapped, a]
        return query, lists

    def clicks(self, relevant, rng):
        """Which of the items shown are clicked, from which are relevant (n_searches, depth)."""
        attractive = relevant ^ (rng.random(relevant.shape) < self.noise)
        place = np.arange(1, relevant.shape[1] + 1)
        attractive |= rng.random(relevant.shape) < self.trust / place
        clicked = attractive & (rng.random(relevant.shape) < self.examination()[: len(place)])
        stopped = clicked & (rng.random(relevant.shape) < self.stop)
        gone = np.cumsum(stopped, axis=1) - stopped > 0
        return clicked & ~gone


def simulated(scores, relevance, n_searches, person, rng):
    """Searches with a ranking by `scores`, as a log of what was shown and clicked.

    `scores` and `relevance` (above 0 is relevant) are of shape (n_queries, n_items).
    """
    query, lists = person.shown(np.asarray(scores), n_searches, rng)
    relevant = np.asarray(relevance)[query[:, None], lists] > 0
    clicked = person.clicks(relevant, rng)
    n, depth = lists.shape
    return Impressions.from_rows(
        np.repeat(query, depth),
        lists.ravel(),
        clicked.ravel(),
        impression=np.repeat(np.arange(n), depth),
        position=np.tile(np.arange(1, depth + 1), n),
    )


def as_rows(impressions):
    """A log as the columns of a file, by name."""
    lengths = np.diff(impressions.starts)
    return {
        "impression": np.repeat(np.arange(len(impressions)), lengths),
        "query": np.repeat(impressions.queries, lengths),
        "item": impressions.items,
        "click": impressions.gains.astype(np.int64),
        "position": np.rint(np.exp(impressions.nuisance["position"])).astype(np.int64),
    }
