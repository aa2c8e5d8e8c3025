"""One-vs-rest linear classifiers: what they learn, and how they decide by it."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import OnlineLearner
from similia.contract import FLOATS, Array
from similia.validation import boolean, positive_integer


class LinearOneVsRest(ClassifierMixin, OnlineLearner):
    """What every linear one-vs-rest learner shares: weights and decisions.

    Two classes have one weight vector, more have one each. With an intercept, every row of X gets a
    last entry 1, which is learnt and is uncertain like any other.
    """

    learns_from = "labels"

    _rules: ClassVar = {
        **OnlineLearner._rules,
        "fit_intercept": boolean,
        "max_iter": positive_integer,
    }
    _state: ClassVar = (*OnlineLearner._state, "n_iter_", "classes_", "w_")
    _averaged: ClassVar = "w_"
    #: examples whose rows are held at once
    _block = 128

    fit_intercept: bool
    max_iter: int
    verbose: bool
    w_: Array

    @abstractmethod
    def _init_state(self) -> None:
        """Allocate what is learnt beside `w_`."""

    def _with_intercept(self, X: Any) -> Any:
        if not self.fit_intercept:
            return X
        ones = np.ones((X.shape[0], 1), dtype=X.dtype)
        if sparse.issparse(X):
            return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
        return np.ascontiguousarray(np.hstack([X, ones]))

    @property
    def coef_(self) -> Array:
        """Weights in use, of shape (1 or n_classes, n_features)."""
        w = self._scoring_state()
        return w[:, :-1] if self.fit_intercept else w

    @property
    def intercept_(self) -> Array:
        """Intercepts in use, of shape (1 or n_classes,)."""
        w = self._scoring_state()
        return w[:, -1] if self.fit_intercept else np.zeros(len(w), dtype=w.dtype)

    def decision_function(self, X: Any) -> Array:
        """Give the score of the second class, or of each of several, for every row."""
        X = self._checked_rows(X)
        scores = np.asarray(X @ self._scoring_state().T)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Give the class with the highest score for every row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _checked_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        return self._with_intercept(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
