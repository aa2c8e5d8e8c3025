"""Where a bilinear similarity starts: W₀ = scale × (zero, identity or a given matrix).

Automatic scales are measured on random triplets.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import DTypeLike

from similia.contract import Array, Matrix
from similia.linalg.blas import products
from similia.linalg.blocks import dense, triplet_rows

#: random triplets from which typical gaps and lengths are estimated
SAMPLE = 1000


def check_prior(owner: str, prior: str | Array, m: int, n: int) -> None:
    """Refuse a prior that does not fit m query and n item features."""
    if isinstance(prior, str):
        if prior == "identity" and m != n:
            raise ValueError(
                f"{owner}: prior must be 'zero' or an array of shape {(m, n)} where queries have "
                f"{m} features and items {n}, got 'identity'."
            )
    elif prior.shape != (m, n) or prior.dtype.kind not in "fiu" or not np.isfinite(prior).all():
        raise ValueError(
            f"{owner}: prior must be a finite array of shape {(m, n)}, "
            f"got one of shape {prior.shape} and dtype {prior.dtype}."
        )


def largest_entry(dtype: DTypeLike) -> float:
    """Largest entry of W₀ that leaves room for products with vectors."""
    return float(np.finfo(dtype).max) ** 0.5


def prior_matrix(
    owner: str, prior: str | Array, scale: float, m: int, n: int, dtype: DTypeLike
) -> Array:
    """Newly allocated W₀; refuse one that would overflow in this dtype."""
    largest = float(prior == "identity") if isinstance(prior, str) else np.abs(prior).max(initial=0)
    if scale * float(largest) > largest_entry(dtype):
        raise ValueError(
            f"{owner}: prior_scale times the prior must be at most {largest_entry(dtype):.1e} for "
            f"{np.dtype(dtype)}, got {scale * float(largest):.1e}."
        )
    if isinstance(prior, str):
        diagonal = scale if prior == "identity" else 0.0
        return np.asarray(diagonal * np.eye(m, n), dtype=dtype)
    return np.array(prior * scale, dtype=dtype, order="C")


def automatic_scale(prior: str | Array, X: Matrix, Z: Matrix) -> float:
    """Scale that makes the typical gap one margin; 1 if that would overflow in X's dtype.

    Such a gap is tiny and counts as zero.
    """
    scale = 1.0 / typical_gap(prior, X, Z)
    return scale if scale < largest_entry(X.dtype) else 1.0


def typical_gap(prior: str | Array, X: Matrix, Z: Matrix) -> float:
    """Root mean square of qᵀW(p - p′) over random queries and pairs of items, W the prior.

    It depends on the vectors and a fixed seed alone, so learning in pieces starts where learning at
    once does. In sparse vectors most gaps are tiny, so the median would say little about those that
    decide a ranking.
    """
    gaps = []
    for Q, P in _random_triplets(X, Z):
        moved = dense(Q) if isinstance(prior, str) else products((Q, prior.astype(np.float64)))[0]
        gaps.append(np.vecdot(moved, dense(P)))
    return _typical(gaps)


def typical_lengths(X: Matrix, Z: Matrix) -> tuple[float, float]:
    """Root mean squares of |q| and |p - p′| over the same random triplets."""
    lengths = [
        (np.linalg.norm(dense(Q), axis=1), np.linalg.norm(dense(P), axis=1))
        for Q, P in _random_triplets(X, Z)
    ]
    of_queries, of_gaps = zip(*lengths, strict=True)
    return _typical(of_queries), _typical(of_gaps)


def _random_triplets(X: Matrix, Z: Matrix) -> Iterator[tuple[Matrix, Matrix]]:
    """Blocks of queries and of differences of items, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    triplets = rng.integers([X.shape[0], Z.shape[0], Z.shape[0]], size=(SAMPLE, 3))
    return ((Q, P) for _, Q, P in triplet_rows(X, Z, triplets, np.float64, 100))


def _typical(values: Sequence[Array]) -> float:
    """Root mean square, or 1 where it is zero or infinite."""
    typical = float(np.sqrt(np.mean(np.concatenate(values) ** 2)))
    return typical if 0 < typical < np.inf else 1.0
