"""Judgements as samples, so that scikit-learn's model selection splits them."""

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from similia.base import Learner
from similia.contract import PairLearner, Side, TripletLearner


class JudgementEstimator(BaseEstimator):
    """A learner whose samples are judgements: for `cross_val_score`, `GridSearchCV` and the like.

    Only judgements are split; clones share the vectors. The same point may be judged on both sides
    of a split: to score triplets of unseen queries only, pass the queries as `groups` to a splitter
    such as `GroupKFold`.

    Parameters
    ----------
    learner : learner of triplets or pairs
        Cloned before learning. Its parameters are ``learner__gamma`` and so on.
    X : array or CSR matrix of shape (n_samples, n_features), or Views
        What judgements index.
    items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
        The items of triplets, where they are not the queries.

    Attributes
    ----------
    learner_ : the fitted learner

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from similia import POLA, JudgementEstimator
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = np.random.default_rng(0).integers(len(X), size=(1000, 2))
    >>> signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    >>> scores = cross_val_score(JudgementEstimator(POLA(), X), pairs, signs)
    >>> bool((scores > 0.9).all())
    True
    """

    def __init__(
        self, learner: TripletLearner | PairLearner, X: Side, *, items: Side | None = None
    ) -> None:
        self.learner, self.X, self.items = learner, X, items

    def fit(self, judgements: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from judgements, in order, with a clone of `learner`.

        Parameters
        ----------
        judgements : integer array of shape (n_triplets, 3) or (n_pairs, 2)
        y : array of shape (n_pairs,)
            Feedback on pairs; none for triplets.
        """
        arguments, options = self._arguments("fit", judgements, y)
        self.learner_ = clone(self.learner).learn(*arguments, **options)
        return self

    def score(self, judgements: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of judgements in the right order; see the learner's own `score`."""
        check_is_fitted(self, "learner_")
        arguments, options = self._arguments("score", judgements, y)
        return float(self.learner_.score(*arguments, **options))

    def _arguments(
        self, method: str, judgements: ArrayLike, y: ArrayLike | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the learner's method, positional and by name, or the house error."""
        kind = self.learner.learns_from if isinstance(self.learner, Learner) else None
        if kind not in ("triplets", "pairs"):
            raise ValueError(
                "JudgementEstimator: learner must be a learner of triplets or pairs, "
                f"got {type(self.learner).__name__}."
            )
        pairs = kind == "pairs"
        if pairs == (y is None):
            rule = "feedback on each pair, got None" if pairs else "None for triplets, got an array"
            raise ValueError(f"JudgementEstimator.{method}: y must be {rule}.")
        if pairs and self.items is not None:
            raise ValueError("JudgementEstimator: items must be None for pairs, got an array.")
        given = (self.X, judgements)
        return ((*given, y), {}) if pairs else (given, {"items": self.items})

    def __sklearn_clone__(self) -> Self:
        return type(self)(clone(self.learner), self.X, items=self.items)
