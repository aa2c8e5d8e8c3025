"""Matrices that are kept as the eigendecomposition of their logarithm."""

from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from sklearn.utils.validation import check_is_fitted

from similia.contract import Array
from similia.distance.base import MahalanobisDistance
from similia.distance.start import start_eigenpairs
from similia.linalg.blas import row_products
from similia.linalg.blocks import difference_of_rows
from similia.linalg.eigen_update import orthogonality_defect, orthogonalize
from similia.linalg.psd import psd_factor
from similia.linalg.spectral import from_eigenpairs, log_trace_exp
from similia.validation import array, none, one_of, positive, positive_integer

#: departure from orthogonality, for each eigenvector, that is put right
DEFECT = 1e-13


class SpectralMetric(MahalanobisDistance):
    """What learners of A = s exp(G) share, with G known by its eigenpairs and s a trace.

    A is a metric over features, or a kernel over objects: that is a metric over one-hot vectors.
    """

    divergence = "von_neumann"

    _rules: ClassVar = {
        **MahalanobisDistance._rules,
        "start": one_of("identity") | array,
        "trace": one_of("auto") | positive,
        "n_objects": none | positive_integer,
        "field": one_of("real", "complex"),
    }
    _state: ClassVar = (
        *(name for name in MahalanobisDistance._state if name != "A_"),
        "log_eigenvalues_",
        "eigenvectors_",
        "trace_",
    )

    normalized: bool
    start: Any
    trace: Any
    n_objects: int | None
    field: str
    n_features_in_: int

    def _objects(self) -> Any:
        """Give the vectors of the objects: one-hot, so that the metric over them is the kernel."""
        size = getattr(self, "n_features_in_", self.n_objects)
        if size is None:
            raise ValueError(
                f"{self._owner}.learn: n_objects must be a positive integer where X is None, "
                "got None."
            )
        return sparse.eye_array(size, format="csr")

    def _init_state(self, X: Any) -> None:
        d = X.shape[1]
        self.n_seen_ = 0
        self.n_updates_ = 0
        values, self.eigenvectors_ = self._start(d)
        self.log_eigenvalues_ = np.log(values) - np.log(values.sum())
        self.trace_ = float(values.sum() if isinstance(self.trace, str) else self.trace)
        self._init_moment()

    def _start(self, d: int) -> tuple[Array, Array]:
        """Give the eigenpairs of the matrix before the first instance, up to its trace."""
        if isinstance(self.start, str):
            return np.ones(d), np.eye(d, dtype=complex if self.field == "complex" else float)
        return start_eigenpairs(self._owner, self.start, d, self.field)

    def _plain_squares(self, X: Any, pairs: Any) -> Array:
        """Give the squared distance of each pair at the start."""
        if isinstance(self.start, str):
            return self.trace_ / X.shape[1] * super()._plain_squares(X, pairs)
        Z = difference_of_rows(X, pairs[:, 0], pairs[:, 1], np.float64)
        return row_products(np.asarray(Z @ self.A_.real), Z)

    def _check_drift(self) -> None:
        """Put eigenvectors right, in place, if rounding has worn them."""
        if orthogonality_defect(self.eigenvectors_) > DEFECT * len(self.eigenvectors_):
            orthogonalize(self.eigenvectors_)

    def _merged_state(self, parts: Any) -> dict[str, Any]:
        """Give the mean of log W: at least as near to any matrix as the parts are on average."""
        if len(parts) == 1:
            values, vectors = parts[0].log_eigenvalues_.copy(), parts[0].eigenvectors_.copy()
        else:
            logs = (from_eigenpairs(p._log_values(), p.eigenvectors_.T) for p in parts)
            both = zip(self._shares(parts), logs, strict=True)
            values, columns = linalg.eigh(sum(share * log for share, log in both))
            vectors = np.ascontiguousarray(columns.T)
        return {"log_eigenvalues_": values, "eigenvectors_": vectors}

    def _log_values(self) -> Array:
        values = self.log_eigenvalues_
        return values - log_trace_exp(values) if self.normalized else values

    @property
    def W_(self) -> Array:
        """The paper's matrix: exp(G), divided by its trace if `normalized`."""
        return from_eigenpairs(np.exp(self._log_values()), self.eigenvectors_.T)

    @property
    def A_(self) -> Array:  # type: ignore[override]
        """The matrix whose quadratic form is the squared distance."""
        return self.trace_ * self.W_

    @property
    def K_(self) -> Array:
        """A under its name as a kernel matrix over objects."""
        return self.A_

    @property
    def components_(self) -> Array:
        """L with A = LᵀL (its real part, which is all that real vectors see), largest first."""
        if self.average or self.field == "complex":
            return psd_factor(self._scoring_state().real, self.n_components)
        check_is_fitted(self)
        order = np.argsort(-self.log_eigenvalues_)[: self.n_components]
        weights = self.trace_ * np.exp(self._log_values()[order])
        return np.sqrt(weights)[:, None] * self.eigenvectors_[order]

    def _factor(self) -> Array:
        return self.components_

    def _checked(self, X: Any) -> Any:
        """Give X checked; without X, the vectors of all objects."""
        check_is_fitted(self)
        return super()._checked(self._objects() if X is None else X)

    def embedding(self, n_components: int | None = None) -> Array:
        """Give points, one for each object, whose distances are the learnt ones.

        Parameters
        ----------
        n_components : int or None
            Dimensions, in the order of how much they contribute to all squared distances together
            (classical scaling); all of them if None.

        Returns
        -------
        Array of shape (n_objects, n_components), centered.
        """
        K = self._scoring_state().real
        n = len(K)
        if n_components is not None and not (
            positive_integer.holds(n_components) and n_components <= n
        ):
            raise ValueError(
                f"{self._owner}.embedding: n_components must be None or an integer between 1 and "
                f"{n}, got {n_components!r}."
            )
        K = K - K.mean(axis=0)
        return psd_factor(K - K.mean(axis=1, keepdims=True))[:n_components].T
