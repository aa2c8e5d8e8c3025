"""From clicks to judgements: preferences, click rates and position bias."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices
from similia.feedback.clicks.propensity import Correction, Propensities, estimate_propensities
from similia.feedback.clicks.rates import ClickRates, click_rates
from similia.feedback.impressions import Impressions, check_impressions
from similia.validation import check_parameters, one_of

__all__ = [
    "RULES",
    "ClickRates",
    "Correction",
    "Preferences",
    "Propensities",
    "click_preferences",
    "click_rates",
    "estimate_propensities",
]

RULES = ("clicked", "skip-above", "last-click")


class Preferences(NamedTuple):
    """Triplets from lists, in order."""

    #: rows (query, better, worse), of shape (n, 3)
    triplets: Indices
    #: of shape (n,): the weight of the list, shared by the triplets of the list
    weights: NDArray[np.float64]
    #: positions of both items in the flat arrays of items shown, of shape (n,)
    better: Indices
    worse: Indices


def click_preferences(impressions: Impressions, rule: str = "clicked") -> Preferences:
    """Triplets that the clicks in each list imply.

    A list without a click, or with nothing but clicks, says nothing: without an impression there is
    no negative. Places are those of the nuisance "position" or, without it, the order of the rows.

    Parameters
    ----------
    impressions : Impressions
    rule : {"clicked", "skip-above", "last-click"}
        Prefer an item to those of lower gain in its list: to all of them; to those placed above it,
        which were surely seen [1]_; or the same for the last click only, in time if the lists have
        times, else by place. The last two contradict the order shown by construction, so learn
        position as a nuisance with them, or mix them with other judgements.

    References
    ----------
    .. [1] T. Joachims, L. Granka, B. Pan, H. Hembrooke, G. Gay. Accurately interpreting
       clickthrough data as implicit feedback. SIGIR 2005.

    Examples
    --------
    >>> from similia import Impressions
    >>> from similia.feedback.clicks import click_preferences
    >>> shown = Impressions.from_rows([0, 0, 0], [7, 8, 9], [0, 1, 0])
    >>> click_preferences(shown).triplets.tolist()
    [[0, 8, 7], [0, 8, 9]]
    >>> click_preferences(shown, "skip-above").triplets.tolist()
    [[0, 8, 7]]
    """
    check_parameters("click_preferences", {"rule": one_of(*RULES)}, {"rule": rule})
    check_impressions("click_preferences", impressions)
    lengths = np.diff(impressions.starts)
    owner = np.repeat(np.arange(len(impressions)), lengths)
    place = impressions.nuisance.get("position", np.arange(len(owner)))
    clicked = np.flatnonzero(impressions.gains > 0)
    if rule == "last-click" and len(clicked):
        moment = impressions.times if len(impressions.times) else place
        clicked = clicked[np.lexsort((moment[clicked], owner[clicked]))]
        last = np.append(owner[clicked][1:] != owner[clicked][:-1], True)
        clicked = clicked[last]
    # Pair every clicked item with every item of its list.
    sizes = lengths[owner[clicked]]
    better = np.repeat(clicked, sizes)
    begins = np.cumsum(sizes) - sizes
    first = impressions.starts[owner[clicked]]
    worse = np.arange(len(better)) + np.repeat(first - begins, sizes)
    kept = impressions.gains[better] > impressions.gains[worse]
    if rule != "clicked":
        kept &= place[worse] < place[better]
    better, worse = better[kept], worse[kept]
    lists = owner[better]
    counts = np.bincount(lists, minlength=len(impressions))
    items = impressions.items
    triplets = np.column_stack([impressions.queries[lists], items[better], items[worse]])
    return Preferences(
        triplets, (impressions.weights / np.maximum(counts, 1))[lists], better, worse
    )
