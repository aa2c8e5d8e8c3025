"""One-vs-rest linear classifiers that take one example after another."""

from abc import abstractmethod
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import validate_data

from similia.contract import FLOATS, Array
from similia.linalg.blocks import row_blocks, rows_of
from similia.linalg.threads import single_blas_thread
from similia.linear.base import LinearOneVsRest
from similia.progress import progress
from similia.validation import check_magnitude


class BlockwiseOneVsRest(LinearOneVsRest):
    """Learners that teach each weight vector every example, in blocks."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget, then learn in `max_iter` passes, each in a random order."""
        self._check_parameters()
        with self._all_or_nothing():
            X, y = validate_data(self, X, y, reset=True, accept_sparse="csr", dtype=FLOATS)
            check_classification_targets(y)
            check_magnitude(f"{self._owner}.fit", "X", X)
            classes = unique_labels(y)
            if len(classes) < 2:
                raise ValueError(
                    f"{self._owner}: y must have at least two classes, but it has only one class: "
                    f"{classes[0]!r}."
                )
            self._start(X, classes)
            rng = check_random_state(self.random_state)
            with progress(self._owner, self.max_iter * X.shape[0], enabled=self.verbose) as advance:
                for _ in range(self.max_iter):
                    self._learn(X, y, rng.permutation(X.shape[0]), advance)
            return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from the rows in order, once, without forgetting.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), needed in the first call only
            All labels that will ever come.
        """
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        known = np.unique(classes) if classes is not None else getattr(self, "classes_", None)
        if known is None or len(known) < 2:
            raise ValueError(
                f"{self._owner}.partial_fit: classes must be given in the first call, and be at "
                "least two."
            )
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(
                f"{self._owner}.partial_fit: classes must be {self.classes_}, as before."
            )
        with self._all_or_nothing() if first else nullcontext():
            X, y = validate_data(self, X, y, reset=first, accept_sparse="csr", dtype=FLOATS)
            unknown = np.setdiff1d(y, known)
            if len(unknown):
                raise ValueError(
                    f"{self._owner}.partial_fit: y must be among the classes {known}, "
                    f"got {unknown[0]!r}."
                )
            check_magnitude(f"{self._owner}.partial_fit", "X", X)
            if first:
                self._start(X, known)
        self._learn(X, y, np.arange(X.shape[0]), lambda n: None)
        return self

    def _start(self, X: Any, classes: Array) -> None:
        self.classes_ = classes
        self.n_iter_ = 0
        self.n_seen_ = 0
        self.n_updates_ = 0
        n_rows = 1 if len(classes) == 2 else len(classes)
        self.w_ = np.zeros((n_rows, X.shape[1] + self.fit_intercept), dtype=X.dtype)
        self._init_moment()
        self._init_state()

    def _learn(self, X: Any, y: Array, order: Array, advance: Any) -> None:
        codes = np.searchsorted(self.classes_, y)
        with single_blas_thread():
            for block in row_blocks(len(order), self._block):
                rows = self._with_intercept(rows_of(X, order[block], self.w_.dtype))
                for j in range(len(self.w_)):
                    positive_class = 1 if len(self.classes_) == 2 else j
                    signs = np.where(codes[order[block]] == positive_class, 1, -1)
                    self.n_updates_ += int(self._learn_block(j, rows, signs.astype(self.w_.dtype)))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)
        self.n_iter_ += 1

    @abstractmethod
    def _learn_block(self, j: int, X: Any, signs: Array) -> int:
        """Teach weight vector j the rows with labels +1 and -1; count the updates."""
