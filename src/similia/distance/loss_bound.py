"""What is proven about the total loss of matrix exponentiated gradient, from any start."""

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, Matrix
from similia.distance.instances import checked_labels
from similia.distance.start import SINGLE
from similia.linalg.blas import row_products
from similia.linalg.blocks import difference_of_rows, row_blocks, squared
from similia.linalg.bregman import von_neumann_divergence
from similia.validation import check_parameters, check_tuples, non_negative

#: distances whose losses are computed at a time
BLOCK = 512


def loss_bound(U: Array, start: Array, rate: float, spread: float, loss: float) -> float:
    """Right-hand side of Lemma 3.2 for ηρ² = `rate`, ρ = `spread`, U and `start` of trace one."""
    if rate > 2.0 or (rate == 2.0 and loss > 0.0):
        return np.inf
    # rate = 2c/(2 + c), so 1/2 + 1/c = 1/rate and 1 + c/2 = 2/(2 - rate).
    own = 2.0 / (2.0 - rate) * loss if loss > 0.0 else 0.0
    distance = von_neumann_divergence(U, start)
    return float(own + spread**2 * distance / rate) if rate > 0.0 else float(own)


def comparison_loss(
    where: str, U: Array, X: Matrix, pairs: ArrayLike, y: ArrayLike, weight: float | None
) -> float:
    """Total loss Σ (zᵀUz - y²)² of one matrix; each counts (weight/|z|²)² times if it is given."""
    pairs = check_tuples(where, "pairs", pairs, (X.shape[0], X.shape[0]))
    y = checked_labels(where, y, len(pairs))
    total = 0.0
    for block in row_blocks(len(pairs), BLOCK):
        Z = difference_of_rows(X, pairs[block, 0], pairs[block, 1], np.float64)
        lengths = np.asarray(squared(Z).sum(axis=1)).ravel()
        weights = np.ones(len(lengths))
        if weight is not None:
            np.divide(weight, lengths, out=weights, where=lengths > 0.0)
        found = row_products(np.asarray(Z @ U.real), Z)
        total += float(np.sum((weights * (found - y[block] ** 2)) ** 2))
    return total


def checked_comparison(where: str, U: ArrayLike, n: int, trace: float, loss: float = 0.0) -> Array:
    """A matrix to compare with, of that size and trace, and its loss, or the house error."""
    U = np.asarray(U)
    if U.shape != (n, n) or not np.isclose(np.trace(U).real, trace, rtol=1e-6):
        found = f" and trace {np.trace(U).real:.6g}" if U.ndim == 2 else ""
        raise ValueError(
            f"{where}: U must be of shape ({n}, {n}) and trace {trace:.6g}, "
            f"got shape {U.shape}{found}."
        )
    if not np.abs(U - U.conj().T).max() <= SINGLE * np.abs(U).max():
        raise ValueError(f"{where}: U must be a finite symmetric or Hermitian matrix.")
    check_parameters(where, {"loss": non_negative}, {"loss": loss})
    return U
