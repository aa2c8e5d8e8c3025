"""One-vs-rest linear classifiers: weights, decisions, and learning one example after another."""

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from similia.base import Learner, validated
from similia.contract import Array, Indices, Matrix
from similia.linalg.threads import single_blas_thread
from similia.linear.examples import Examples, with_intercept
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.safety.whole import all_or_nothing, held_signals
from similia.validation import boolean, check_magnitude, repetitions


class LinearOneVsRest(ClassifierMixin, Learner):
    """Base class of linear one-vs-rest classifiers.

    Two classes share one weight vector; more have one each. With an intercept every row gets a
    last entry 1, whose weight is learnt, and uncertain, like any other. A subclass says how a
    block of rows is learnt (`_learn_block`).
    """

    average: bool = parameter(
        default=False,
        rule=boolean,
        doc="Decide with the mean of the states over the stream instead of the last one.",
    )
    fit_intercept: bool = parameter(
        default=True, rule=boolean, doc="Learn an intercept for each weight vector."
    )
    max_iter: int = parameter(
        default=5,
        rule=repetitions,
        doc="Most passes over the data in `fit`; `partial_fit` makes one.",
    )

    learns_from = "labels"
    #: whether rows may have any number of labels instead of one class
    multilabel_ = False
    _state: ClassVar = (*Learner._state, "n_iter_", "classes_", "w_")
    _averaged: ClassVar = "w_"
    #: examples whose rows are held at once
    _block: ClassVar = 128
    _accepts_several_labels: ClassVar = False

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Forget, then learn in `max_iter` passes, each in a random order.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        """
        self._check_parameters()
        with all_or_nothing(self):
            examples = self._begun("fit", X, y, first=True)
            n, rng = len(examples), check_random_state(self.random_state)
            with progress(self._owner, self.max_iter * n, enabled=self.verbose) as advance:
                for _ in range(self.max_iter):
                    self._learn(examples, rng.permutation(n), advance)
        return self

    def partial_fit(self, X: Matrix, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from the rows in order, once, without forgetting.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), needed in the first call only
            All labels that will ever come.
        """
        return self._continue(X, y, classes)

    def _continue(
        self,
        X: Matrix,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        known = None if first else self.classes_
        known = known if classes is None else np.unique(classes)
        several = self._accepts_several_labels and (sparse.issparse(y) or np.ndim(y) == 2)
        if not several and (known is None or len(known) < 2):
            raise ValueError(
                f"{self._owner}.partial_fit: classes must be given in the first call, and be at "
                "least two."
            )
        with all_or_nothing(self):
            examples = self._begun("partial_fit", X, y, sample_weight, known, first=first)
            examples = examples.repeated(f"{self._owner}.partial_fit", in_order=True)
        self._learn(examples, np.arange(len(examples)))
        return self

    def _begun(
        self,
        method: str,
        X: Matrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        classes: Array | None = None,
        *,
        first: bool,
    ) -> Examples:
        """Checked examples; the first ones start the learner, later ones must have its classes."""
        owner, several = f"{self._owner}.{method}", self._accepts_several_labels
        X, y = validated(self, X, y, reset=first, multi_output=several)
        check_magnitude(owner, "X", X, dtype=None if first else self._precision())
        examples = Examples(owner, X, y, sample_weight, classes, intercept=self.fit_intercept)
        found, multilabel = examples.classes, examples.multilabel
        if not multilabel and len(found) < 2:
            raise ValueError(
                f"{self._owner}: y must have at least two classes, but it has only one class: "
                f"{found[0]!r}."
            )
        if first:
            self._start(examples)
        elif multilabel != self.multilabel_ or not np.array_equal(found, self.classes_):
            raise ValueError(
                f"{owner}: y must have the classes {self.classes_}, as before, got {found}; "
                "fit without warm_start to forget them."
            )
        return examples

    def _start(self, examples: Examples) -> None:
        self.classes_, self.multilabel_ = examples.classes, bool(examples.multilabel)
        self.n_iter_ = self.n_seen_ = self.n_updates_ = 0
        shape = (examples.n_vectors, examples.X.shape[1] + self.fit_intercept)
        self.w_ = np.zeros(shape, dtype=examples.X.dtype)
        self._init_moment()
        self._init_state()

    @abstractmethod
    def _init_state(self) -> None:
        """Allocate everything learnt besides `w_`."""

    def _learn(self, examples: Examples, order: Indices, advance: Advance = lambda n: None) -> None:
        """Learn the examples once, in this order."""
        with held_signals() as let_signals_in, single_blas_thread():
            while len(order):
                n = self._rows_at_once()
                some, order = order[:n], order[n:]
                signs = examples.signs(some, self.w_.dtype)
                rows = examples.at(some, self.w_.dtype)
                self.n_updates_ += int(self._learn_block(rows, signs, examples.weights[some]))
                self.n_seen_ += len(some)
                advance(len(some))
                let_signals_in()
        self.n_iter_ += 1

    @abstractmethod
    def _learn_block(self, rows: Matrix, signs: Array, weights: Array) -> int:
        """Learn rows (with their intercept) in order; return the number of steps.

        `signs` are the targets +1 and -1 of shape (weight vectors, rows).
        """

    def _rows_at_once(self) -> int:
        """Most rows of the next block."""
        return self._block

    # -- deciding ------------------------------------------------------------------------------

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

    def decision_function(self, X: Matrix) -> Array:
        """Scores of the second of two classes, or of each class or label, for every row."""
        return self._per_class(np.asarray(self._checked_rows(X) @ self._scoring_state().T))

    def predict(self, X: Matrix) -> Array:
        """Class with the highest score; with several labels, 1 for each positive score, else 0."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _per_class(self, values: Array) -> Array:
        """Values (rows, weight vectors) in scikit-learn's form: one axis for two classes."""
        return values[:, 0] if values.shape[1] == 1 else values

    def _checked_rows(self, X: Matrix) -> Matrix:
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return with_intercept(X, self.fit_intercept)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._accepts_several_labels
        return tags
