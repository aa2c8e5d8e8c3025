"""MEG's regret against a matrix known in advance: the bounds of [Tsuda2005]."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, Matrix
from similia.distance.base import SINGLE_ROUNDING
from similia.linalg.blas import row_products
from similia.validation import check_parameters, non_negative, positive


def loss_bound(rate: float, largest: float, divergence: float, loss: float) -> float:
    """Lemma 3.2: (1 + c/2) loss + (1/2 + 1/c) ρ² Δ with rate = η ρ² = 2c/(2 + c), ρ = `largest`.

    So 1 + c/2 = 2/(2 - rate) and 1/2 + 1/c = 1/rate; infinite where the rate is too large.
    """
    if rate > 2.0 or (rate == 2.0 and loss > 0.0):
        return np.inf
    own = 2.0 / (2.0 - rate) * loss if loss > 0.0 else 0.0
    return float(own + (largest**2 * divergence / rate if rate > 0.0 else 0.0))


def tuned_eta(loss: float, divergence: float, instance_range: float) -> float:
    """η for which the bound of Lemma 3.2 is least, given how well some matrix U does.

    With c = r √(2 d/L) and η = 2c/(r²(2 + c)), for all streams of instances of range at most r
    on which some U of the same trace has a loss of at most L and a divergence of at most d
    from the start (scaled to trace one),

        total_loss_ - loss(U) ≤ r √(2 L d) + r² Δ/2                  [Tsuda2005, below 3.7]

    Parameters
    ----------
    loss : number, not negative
        L: what the best matrix would lose in total; 0 if it explains all, and then η is 2/r².
    divergence : positive number
        d: at most log n from the identity.
    instance_range : positive number
        r: largest range of the eigenvalues of s·X, s|z|² for a pair (see `range_`).
    """
    rules = {"loss": non_negative, "divergence": positive, "instance_range": positive}
    given = {"loss": loss, "divergence": divergence, "instance_range": instance_range}
    check_parameters("MEG.tuned_eta", rules, given)
    # 2c/(2 + c) = 2/(1 + 2/c), and 2/c = √(2 L/d)/r.
    return 2.0 / (1.0 + np.sqrt(2.0 * loss / divergence) / instance_range) / instance_range**2


def total_loss(U: Array, blocks: Iterable[tuple[Matrix, Array]], longest: float | None) -> float:
    """Σ (zᵀUz - label)² over differences z; with `longest`, each counts (longest/|z|²)² times."""
    total = 0.0
    for Z, labels in blocks:
        losses = row_products(np.asarray(Z @ U.real), Z) - labels
        if longest is not None:
            squares = row_products(Z, Z)
            losses *= np.divide(longest, squares, out=np.ones(len(squares)), where=squares > 0.0)
        total += float(losses @ losses)
    return total


def checked_comparison(where: str, U: ArrayLike, n: int, trace: float) -> Array:
    """A matrix to compare with, of shape (n, n) and the trace of A; ValueError otherwise."""
    U = np.asarray(U)
    if U.shape != (n, n) or not np.isclose(np.trace(U).real, trace, rtol=1e-6):
        found = f" and trace {np.trace(U).real:.6g}" if U.ndim == 2 else ""
        raise ValueError(
            f"{where}: U must be of shape ({n}, {n}) and trace {trace:.6g}, "
            f"got shape {U.shape}{found}."
        )
    if not np.abs(U - U.conj().T).max() <= SINGLE_ROUNDING * np.abs(U).max():
        raise ValueError(f"{where}: U must be a finite symmetric or Hermitian matrix.")
    return U
