"""Instance matrices X of tr(WX) = y, in the forms in which a user may have them."""

from typing import Any

import numpy as np
from scipy import sparse

from similia.contract import Array

#: entries whose squares and products with labels stay finite
LARGEST = 1e70
FORMS = "vectors of shape (n, d), matrices of shape (n, d, d), or a sequence of d × d matrices"


def checked_instances(where: str, instances: Any, d: int | None, complex_allowed: bool) -> Any:
    """Give the instances as rows x with X = xxᴴ, dense or CSR, or as a list of square matrices.

    `d` is the size that they must have, if it is known.
    """
    given = _as_given(where, instances)
    parts = given if isinstance(given, list) else [given]
    for part in parts:
        values = part.data if sparse.issparse(part) else part
        if values.dtype.kind not in ("fiubc" if complex_allowed else "fiub"):
            words = "real or complex" if complex_allowed else "real (unless field is 'complex')"
            raise ValueError(f"{where}: instances must be {words}, got dtype {values.dtype}.")
        if values.size and not np.abs(values).max() <= LARGEST:  # so that NaN is refused, too
            raise ValueError(f"{where}: instances must be finite and at most {LARGEST:.0e}.")
    rows = 1 if isinstance(given, list) else 0
    wrong = [p.shape for p in parts if (rows and p.shape[0] != p.shape[1]) or p.shape[1] == 0]
    sizes = {p.shape[1] for p in parts} | (set() if d is None else {d})
    if wrong or len(sizes) > 1:
        found = wrong[0] if wrong else next(p.shape for p in parts if p.shape[1] != d)
        words = "one size" if d is None else f"size {d}"
        raise ValueError(f"{where}: instances must be {FORMS}, all of {words}, got shape {found}.")
    return given


def _as_given(where: str, instances: Any) -> Any:
    if sparse.issparse(instances):
        return sparse.csr_array(instances)
    if isinstance(instances, list | tuple) and any(np.ndim(x) == 2 for x in instances):
        matrices = [x if sparse.issparse(x) else np.asarray(x) for x in instances]
        if all(x.ndim == 2 for x in matrices):
            return matrices
    array = np.asarray(instances)
    if array.ndim == 3:
        return list(array)
    if array.ndim != 2:
        raise ValueError(f"{where}: instances must be {FORMS}, got shape {array.shape}.")
    return array


def checked_labels(where: str, y: Any, n: int) -> Array:
    """Give y as real numbers, one for each instance."""
    y = np.asarray(y)
    if y.shape != (n,) or (n and y.dtype.kind not in "fiu"):
        raise ValueError(
            f"{where}: y must be {n} real numbers, got shape {y.shape} and dtype {y.dtype}."
        )
    y = y.astype(np.float64)
    if not (np.abs(y) <= LARGEST).all():
        raise ValueError(f"{where}: y must be finite and at most {LARGEST:.0e}.")
    return y
