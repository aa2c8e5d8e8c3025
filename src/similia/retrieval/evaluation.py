"""The outcome of an evaluation: values per query, means, and how sure they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.retrieval.resampling import bootstrap_interval, generator
from similia.validation import between, check_parameters, one_of, positive_integer, seed

RESAMPLING_RULES = {"level": between(0, 1), "n_resamples": positive_integer, "random_state": seed}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of the rankings of some queries.

    A query without relevant items has NaN for every measure and is left out of the means.

    Attributes
    ----------
    per_query : dict from measure name to array of shape (n_queries,)
        For example ``per_query["precision@10"]``.
    n_relevant : array of shape (n_queries,)
        Number of relevant items of each query.
    n_items : int
        Number of items ranked, the query itself included where it is one of them.
    """

    per_query: Mapping[str, NDArray[np.float64]]
    n_relevant: NDArray[np.int64]
    n_items: int

    @property
    def n_judged(self) -> int:
        """Number of queries with a relevant item."""
        return int(np.count_nonzero(self.n_relevant))

    @property
    def n_left_out(self) -> int:
        """Number of queries without a relevant item."""
        return len(self.n_relevant) - self.n_judged

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the judged queries."""
        return {name: float(self.judged(name).mean()) for name in self.per_query}

    def judged(self, name: str) -> NDArray[np.float64]:
        """Give the values of one measure for the judged queries only."""
        check_parameters("Evaluation", {"name": one_of(*self.per_query)}, {"name": name})
        return self.per_query[name][self.n_relevant > 0]

    def interval(
        self, name: str, level: float = 0.95, n_resamples: int = 2000, random_state: Any = 0
    ) -> tuple[float, float]:
        """Give a confidence interval of the mean of one measure, by bootstrap over queries.

        Parameters
        ----------
        name : str
            A measure of this evaluation, such as ``"map"``.
        level : float between 0 and 1
            Share of such intervals that contain the true mean; a larger one is wider.
        n_resamples : int
            Number of resampled means; more give steadier ends and take longer.
        random_state : int, RandomState or None
            Equal seeds give equal intervals.
        """
        given = {"level": level, "n_resamples": n_resamples, "random_state": random_state}
        check_parameters("Evaluation.interval", RESAMPLING_RULES, given)
        return bootstrap_interval(self.judged(name), level, n_resamples, generator(random_state))

    def table(self, level: float = 0.95) -> str:
        """Give the means and their intervals as aligned text."""
        width = max(len("measure"), *(len(name) for name in self.per_query))
        lines = [f"{'measure':<{width}}    mean  {100 * level:g} % interval"]
        for name, mean in self.means.items():
            low, high = self.interval(name, level)
            lines.append(f"{name:<{width}}  {mean:.4f}  {low:.4f} to {high:.4f}")
        lines.append(self._counts())
        return "\n".join(lines)

    def _counts(self) -> str:
        text = f"{self.n_judged} queries, {self.n_items} items"
        if self.n_left_out:
            text += f"; {self.n_left_out} more queries without relevant items left out"
        return text

    def __str__(self) -> str:
        return self.table()

    def to_dict(self) -> dict[str, Any]:
        """Give the means and counts as plain numbers, ready for JSON."""
        return {
            "means": self.means,
            "n_judged": self.n_judged,
            "n_left_out": self.n_left_out,
            "n_items": self.n_items,
        }
