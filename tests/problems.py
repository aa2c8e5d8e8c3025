"""Small random problems and the ways to hold them: dense or sparse, wide or narrow floats."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

FORMS = {
    "dense": np.asarray,
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
}


@st.composite
def blocks(draw, max_size=12, max_length=40, largest=2):
    """Queries Q and differences P, with zeros, repeats and scales of Q from 10⁻² to 10^largest."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n = draw(st.integers(1, max_size)), draw(st.integers(1, max_size))
    length = draw(st.integers(1, max_length))
    scale = 10.0 ** draw(st.integers(-2, largest))
    Q, P = rng.normal(size=(length, m)) * scale, rng.normal(size=(length, n))
    density = draw(st.sampled_from([0.3, 0.7, 1.0]))
    Q[rng.random(Q.shape) > density] = 0.0
    P[rng.random(P.shape) > density] = 0.0
    repeated = rng.random(length) < 0.2
    Q[repeated], P[repeated] = Q[0], P[0]
    return Q, P


def triplets_of(rng, n_queries, n_items, n):
    return np.column_stack(
        [rng.integers(n_queries, size=n), rng.integers(n_items, size=(n, 2))]
    ).astype(np.intp)


def labelled(rng, n=80, d=6, n_classes=3):
    """Classes that differ in a few directions, under noise in the others."""
    y = np.arange(n) % n_classes
    centers = rng.normal(size=(n_classes, d)) * 2.0
    centers[:, d // 2 :] = 0.0
    return centers[y] + rng.normal(size=(n, d)), y
