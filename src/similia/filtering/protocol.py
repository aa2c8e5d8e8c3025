"""The protocol of online filtering: predict, be told, learn; for one document after another."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from similia.filtering.result import Booleans, FilteringResult
from similia.progress import progress
from similia.validation import Rule, boolean, check_magnitude, check_parameters


class OnlineFilter(ABC):
    """What every filter shares: the checks, and the loop over documents in their order.

    A document is one vector, or a row of an array or sparse matrix. Rows are neither changed nor
    kept by reference; later ones are brought into the form and precision of the first.
    """

    _rules: ClassVar[dict[str, Rule]] = {}

    def predict(self, X: Any) -> Any:
        """Say which documents are relevant, as far as is known now.

        Parameters
        ----------
        X : array of shape (n_features,), or array or sparse matrix of shape (n, n_features)
            One document or several.

        Returns
        -------
        bool or boolean array of shape (n,)
        """
        self._check_parameters()
        rows, single = self._checked_rows("predict", X)
        said = np.fromiter((self._judged(rows, i)[0] for i in range(rows.shape[0])), dtype=bool)
        return bool(said[0]) if single else said

    def learn(self, X: Any, relevant: Any) -> Self:
        """Learn the true labels of documents, in order; pieces give the same as the whole.

        Parameters
        ----------
        X : array of shape (n_features,), or array or sparse matrix of shape (n, n_features)
            One document or several.
        relevant : bool or boolean array of shape (n,)
            Whether each is relevant; 1 and 0 do as well.

        Returns
        -------
        The filter itself. On an error nothing has changed.
        """
        rows, truth = self._checked_stream("learn", X, relevant)
        for i in range(len(truth)):
            self._learn_row(rows, i, bool(truth[i]))
        return self

    def run(self, X: Any, relevant: Any, verbose: bool = False) -> FilteringResult:
        """Go through a stream: predict each document, then learn its label.

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
            The predictions and their error rates. The filter goes on from what it had learnt, so a
            stream may be run in pieces. On an error nothing has changed.
        """
        check_parameters(f"{self._owner}.run", {"verbose": boolean}, {"verbose": verbose})
        rows, truth = self._checked_stream("run", X, relevant)
        predicted = np.zeros(len(truth), dtype=bool)
        with progress(self._owner, len(truth), enabled=verbose) as advance:
            for i in range(len(truth)):
                predicted[i], evidence = self._judged(rows, i)
                self._learn_row(rows, i, bool(truth[i]), evidence)
                advance(1)
        return FilteringResult(predicted, truth)

    # -- what a filter does ----------------------------------------------------------------------

    @abstractmethod
    def _begin(self, X: Any) -> None:
        """Get ready to learn rows like these, or raise; called before every stream."""

    @abstractmethod
    def _judged(self, X: Any, i: int) -> tuple[bool, Any]:
        """Say whether row i of X is relevant, with evidence that `_learn_row` can use."""

    @abstractmethod
    def _learn_row(self, X: Any, i: int, relevant: bool, evidence: Any = None) -> None:
        """Learn the label of row i of X; with the evidence of `_judged`, if it was asked before."""

    # -- checks ----------------------------------------------------------------------------------

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _check_parameters(self) -> None:
        check_parameters(self._owner, self._rules, vars(self))

    def _checked_stream(self, method: str, X: Any, relevant: Any) -> tuple[Any, Booleans]:
        self._check_parameters()
        where = f"{self._owner}.{method}"
        rows, _ = self._checked_rows(method, X)
        truth = np.atleast_1d(np.asarray(relevant))
        if truth.shape != (rows.shape[0],) or not np.isin(truth, (0, 1)).all():
            raise ValueError(
                f"{where}: relevant must be True or False for each of {rows.shape[0]} documents, "
                f"got shape {truth.shape} and dtype {truth.dtype}."
            )
        if rows.shape[0]:
            self._begin(rows)
            self._like = getattr(self, "_like", rows[:0])
        return rows, truth.astype(bool)

    def _checked_rows(self, method: str, X: Any) -> tuple[Any, bool]:
        """Give the documents as rows of one form, and whether it was a single vector."""
        where = f"{self._owner}.{method}"
        rows = X if sparse.issparse(X) else np.asarray(X)
        single = rows.ndim == 1
        if rows.ndim not in (1, 2) or rows.shape[-1] == 0 or rows.dtype.kind not in "biuf":
            raise ValueError(
                f"{where}: X must be a vector of numbers or a matrix of such rows, "
                f"got shape {rows.shape} and dtype {rows.dtype}."
            )
        like = getattr(self, "_like", None)
        if like is not None and rows.shape[-1] != like.shape[1]:
            raise ValueError(
                f"{where}: X must have {like.shape[1]} features, as before, got {rows.shape[-1]}."
            )
        rows = _in_form(rows.reshape(1, -1) if single else rows, like)
        check_magnitude(where, "X", rows)
        return rows, single


def _in_form(X: Any, like: Any) -> Any:
    """Give X as an array or canonical CSR, of one precision: that of `like`, if there is one."""
    if like is None:
        narrow = X.dtype.kind == "f" and X.dtype.itemsize <= 4
        dtype, is_sparse = np.dtype(np.float32 if narrow else np.float64), sparse.issparse(X)
    else:
        dtype, is_sparse = like.dtype, sparse.issparse(like)
    if not is_sparse:
        return np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, dtype=dtype)
    rows = sparse.csr_array(X, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy()  # it may share its entries with X
        rows.sum_duplicates()
    if rows.indices.dtype != np.int32 and rows.nnz < 2**31:
        # Some of scikit-learn's classifiers take no others.
        parts = (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
        rows = sparse.csr_array(parts, shape=rows.shape)
    return rows
