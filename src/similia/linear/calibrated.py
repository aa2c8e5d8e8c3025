"""Decisions and probabilities of one-vs-rest classifiers that minimise a calibrated loss."""

from typing import Any, ClassVar

import numpy as np

from similia.contract import Array
from similia.linear.base import LinearOneVsRest
from similia.losses import LOSSES
from similia.validation import check_parameters, one_of, positive_integer


class CalibratedOneVsRest(LinearOneVsRest):
    """Scores, labels, probabilities; one class a row, or with several labels any number of them."""

    _rules: ClassVar = {
        **LinearOneVsRest._rules,
        "loss": one_of(*LOSSES),
        "sampling": one_of("full", "balanced"),
    }
    _state: ClassVar = (*LinearOneVsRest._state, "multilabel_", "class_counts_")

    loss: str
    sampling: str

    def decision_function(self, X: Any) -> Array:
        """Give the score of the second of two classes, or of each class or label, for every row."""
        X = self._checked_rows(X)
        scores = np.asarray(X @ self._scoring_state().T)
        return scores if self.multilabel_ or len(self.classes_) != 2 else scores[:, 0]

    def predict(self, X: Any) -> Array:
        """Give the class with the highest score, or the labels with a positive one, as 0 and 1."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_top_k(self, X: Any, k: int = 5) -> Array:
        """Give the k classes or labels with the highest scores for every row, best first.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        k : int
            At most the number of classes.
        """
        check_parameters(f"{self._owner}.predict_top_k", {"k": positive_integer}, {"k": k})
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        if k > scores.shape[1]:
            raise ValueError(
                f"{self._owner}.predict_top_k: k must be at most the number of classes, "
                f"{scores.shape[1]}, got {k}."
            )
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        return self.classes_[np.take_along_axis(best, order, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Give the probability of each class (they sum to 1) or of each label, for every row.

        A score h stands for the probability f(h) = 1 + F'(h). Learning from as many negative
        examples as positive ones says that of a world where the class has half of all examples;
        its odds are multiplied by those that the class had among all.
        """
        scores = self.decision_function(X)
        p = LOSSES[self.loss].link(scores[:, None] if scores.ndim == 1 else scores)
        if self.sampling == "balanced":
            p = self._with_prior(p)
        if self.multilabel_:
            return p
        if scores.ndim == 1:
            return np.column_stack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        even = p.dtype.type(1.0 / p.shape[1])
        return np.where(total > 0, p / np.where(total > 0, total, 1), even)

    def _with_prior(self, p: Array) -> Array:
        ours, others = self.class_counts_.T
        # Where negative examples are the fewer, all were used, and so were all positive ones.
        odds = np.clip(ours / np.maximum(others, 1e-12), 1e-12, 1.0).astype(p.dtype)
        return p * odds / (p * odds + (1 - p))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n_rows = len(self.classes_)
        n_rows = 1 if n_rows == 2 and not self.multilabel_ else n_rows
        w = (n_rows, self.n_features_in_ + self.fit_intercept)
        return {
            "w_": w,
            "moment_": w if self.average else (0, 0),
            "class_counts_": (n_rows, 2),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
