"""The loop of online filtering: predict each document, then learn its label."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from similia.contract import Matrix
from similia.linalg.blocks import dense
from similia.progress import progress
from similia.safety.bounds import check_entries
from similia.safety.whole import held_signals
from similia.validation import Rule, boolean, check_magnitude, check_parameters

Booleans: TypeAlias = NDArray[np.bool_]
Curve: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FilteringResult:
    """Predictions for a stream of documents, and their true labels."""

    #: prediction for each document before its label was known, and the label
    predicted: Booleans
    relevant: Booleans

    @property
    def false_positive_rate(self) -> float:
        """Share of the irrelevant documents that were called relevant; NaN if there are none."""
        return _last(self.false_positive_curve)

    @property
    def false_negative_rate(self) -> float:
        """Share of the relevant documents that were called irrelevant; NaN if there are none."""
        return _last(self.false_negative_curve)

    @property
    def equalized_error(self) -> float:
        """Mean of the two rates: it does not depend on how many documents are relevant."""
        return _last(self.equalized_curve)

    @property
    def false_positive_curve(self) -> Curve:
        """`false_positive_rate` after each document; NaN before the first irrelevant one."""
        return _cumulative_share(self.predicted, ~self.relevant)

    @property
    def false_negative_curve(self) -> Curve:
        """`false_negative_rate` after each document; NaN before the first relevant one."""
        return _cumulative_share(~self.predicted, self.relevant)

    @property
    def equalized_curve(self) -> Curve:
        """`equalized_error` after each document; NaN before there was one of each kind."""
        return (self.false_positive_curve + self.false_negative_curve) / 2

    def __str__(self) -> str:
        return (
            f"{len(self.relevant)} documents, {np.count_nonzero(self.relevant)} relevant: "
            f"{100 * self.false_positive_rate:.2f} % false positives, "
            f"{100 * self.false_negative_rate:.2f} % false negatives, "
            f"{100 * self.equalized_error:.2f} % equalized error"
        )

    def to_dict(self) -> dict[str, int | float]:
        """Rates and counts as plain numbers, ready for JSON."""
        return {
            "n_documents": len(self.relevant),
            "n_relevant": int(np.count_nonzero(self.relevant)),
            "false_positive_rate": self.false_positive_rate,
            "false_negative_rate": self.false_negative_rate,
            "equalized_error": self.equalized_error,
        }


class OnlineFilter(ABC):
    """Checks, and the loop over documents in their order; a filter adds `_begin` and `_visit`.

    A document is one vector, or a row of an array or sparse matrix. Rows are neither changed nor
    kept by reference; later ones are converted to the form and precision of the first.
    """

    _rules: ClassVar[dict[str, Rule]] = {}
    #: no rows, in the form of the first documents; None before anything was learnt
    _like: Matrix | None = None

    def predict(self, X: Matrix | ArrayLike) -> bool | Booleans:
        """Predict which documents are relevant, from what has been learnt so far.

        A boolean array of shape (n,) for n rows, one bool for a vector of shape (n_features,).
        """
        check_parameters(self._owner, self._rules, vars(self))
        rows, single = self._checked_rows("predict", X)
        said = np.array([self._visit(rows, i) for i in range(rows.shape[0])], dtype=bool)
        return bool(said[0]) if single else said

    def learn(self, X: Matrix | ArrayLike, relevant: ArrayLike) -> Self:
        """Learn the true labels of documents, in order; pieces equal the whole.

        There is one label for each row, or one for a vector: True and False, or 1 and 0. On an
        error nothing has changed.
        """
        rows, truth = self._checked_stream("learn", X, relevant)
        with held_signals() as let_signals_in:
            for i, label in enumerate(truth.tolist()):
                self._visit(rows, i, label)
                let_signals_in()
        return self

    def run(
        self, X: Matrix | ArrayLike, relevant: ArrayLike, verbose: bool = False
    ) -> FilteringResult:
        """Run over a stream: predict each document, then learn its label.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            Documents in the order in which they arrive.
        relevant : boolean array of shape (n,)
            Whether each is relevant; not looked at before its prediction.
        verbose : bool
            Show a progress bar.

        Returns
        -------
        FilteringResult
            The predictions and their error rates. The filter continues from what it had learnt, so
            a stream may be run in pieces. On an error nothing has changed.
        """
        check_parameters(f"{self._owner}.run", {"verbose": boolean}, {"verbose": verbose})
        rows, truth = self._checked_stream("run", X, relevant)
        predicted = np.zeros(len(truth), dtype=bool)
        bar = progress(self._owner, len(truth), enabled=verbose)
        with held_signals() as let_signals_in, bar as advance:
            for i, label in enumerate(truth.tolist()):
                predicted[i] = self._visit(rows, i, label)
                advance(1)
                let_signals_in()
        return FilteringResult(predicted, truth)

    @abstractmethod
    def _begin(self, X: Matrix) -> None:
        """Prepare to learn rows like these, or raise; called before every stream."""

    @abstractmethod
    def _visit(self, X: Matrix, i: int, relevant: bool | None = None) -> bool:
        """Predict whether row i of X is relevant, then learn the label if there is one."""

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _checked_stream(
        self, method: str, X: Matrix | ArrayLike, relevant: ArrayLike
    ) -> tuple[Matrix, Booleans]:
        check_parameters(self._owner, self._rules, vars(self))
        rows, _ = self._checked_rows(method, X)
        truth = np.atleast_1d(np.asarray(relevant))
        if truth.shape != (rows.shape[0],) or not np.isin(truth, (0, 1)).all():
            raise ValueError(
                f"{self._owner}.{method}: relevant must be True or False for each of "
                f"{rows.shape[0]} documents, got shape {truth.shape} and dtype {truth.dtype}."
            )
        if rows.shape[0]:
            self._begin(rows)
            if self._like is None:
                self._like = rows[:0]
        return rows, truth.astype(bool)

    def _checked_rows(self, method: str, X: Matrix | ArrayLike) -> tuple[Matrix, bool]:
        """Documents as rows of one form, and whether X was a single vector."""
        where = f"{self._owner}.{method}"
        check_entries(where, "X", X)
        rows: Any = X if sparse.issparse(X) else np.asarray(X)
        single = rows.ndim == 1
        if rows.ndim not in (1, 2) or rows.shape[-1] == 0 or rows.dtype.kind not in "biuf":
            raise ValueError(
                f"{where}: X must be a vector of numbers or a matrix of such rows, "
                f"got shape {rows.shape} and dtype {rows.dtype}."
            )
        like = self._like
        if like is None:
            narrow = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
            like = rows = rows.astype(np.float32 if narrow else np.float64, copy=False)
        if rows.shape[-1] != like.shape[-1]:
            raise ValueError(
                f"{where}: X must have {like.shape[1]} features, as before, got {rows.shape[-1]}."
            )
        if single:
            rows = rows.reshape(1, -1)
        if not sparse.issparse(like):
            rows = np.ascontiguousarray(dense(rows), dtype=like.dtype)
        else:
            rows = sparse.csr_array(rows, dtype=like.dtype)
            if not rows.has_canonical_format:
                rows = rows.copy()  # it may share its entries with X
                rows.sum_duplicates()
        check_magnitude(where, "X", rows)
        return rows, single


def _last(curve: Curve) -> float:
    return float(curve[-1]) if len(curve) else float("nan")


def _cumulative_share(said: Booleans, among: Booleans) -> Curve:
    counts = np.cumsum(among)
    shares = np.full(len(among), np.nan)
    np.divide(np.cumsum(said & among), counts, out=shares, where=counts > 0)
    return shares
