import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from similia.distance.kernel_pola import coordinates, grown_basis


def grow(V, basis, F, tol=1e-10, room=np.inf):
    """Grow the basis by the rows of V, known here, but not to the function."""
    return grown_basis(F, V @ basis.T, (V**2).sum(axis=1), lambda a, b: V[a] @ V[b].T, tol, room)


@st.composite
def vectors(draw):
    """Rows of some rank, with repeats and zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 8))
    V = rng.normal(size=(n, d))
    V[rng.random(n) < 0.2] = V[0]
    V[rng.random(n) < 0.1] = 0.0
    V[:, rng.random(d) < 0.3] = 0.0
    return V


@given(vectors())
def test_inner_products_survive_and_the_basis_has_as_many_vectors_as_the_rank(V):
    d = V.shape[1]
    F, newcomers, C = grow(V, np.zeros((0, d)), np.zeros((0, 0)))
    assert len(newcomers) == np.linalg.matrix_rank(V)
    np.testing.assert_allclose(F @ F.T, V[newcomers] @ V[newcomers].T, atol=1e-9)
    np.testing.assert_allclose(C @ C.T, V @ V.T, atol=1e-6)
    others = coordinates(F, V @ V[newcomers].T)
    np.testing.assert_allclose(others, C, atol=1e-6)


@given(vectors(), st.integers(0, 30))
def test_pieces_equal_the_whole(V, cut):
    d = V.shape[1]
    F, newcomers, C = grow(V, np.zeros((0, d)), np.zeros((0, 0)))
    cut = min(cut, len(V))
    first, some, head = grow(V[:cut], np.zeros((0, d)), np.zeros((0, 0)))
    second, more, tail = grow(V[cut:], V[some], first)
    np.testing.assert_array_equal(np.concatenate([some, more + cut]), newcomers)
    np.testing.assert_allclose(second, F, atol=1e-8)
    np.testing.assert_allclose(tail, C[cut:], atol=1e-7)
    np.testing.assert_allclose(head, C[:cut, : head.shape[1]], atol=1e-8)
    np.testing.assert_array_equal(C[:cut, head.shape[1] :], 0.0)


@given(vectors(), st.integers(0, 4))
def test_without_room_vectors_are_projected(V, room):
    _, newcomers, C = grow(V, np.zeros((0, V.shape[1])), np.zeros((0, 0)), room=room)
    assert len(newcomers) == min(room, np.linalg.matrix_rank(V))
    after = np.arange(len(V)) > (newcomers[-1] if len(newcomers) else -1)
    B = V[newcomers]
    projected = V @ np.linalg.pinv(B) @ B if len(B) else np.zeros_like(V)
    np.testing.assert_allclose((C[after] ** 2).sum(1), (projected[after] ** 2).sum(1), atol=1e-6)


def test_what_lies_within_the_tolerance_does_not_join():
    V = np.array([[1.0, 0.0], [1.0, 1e-4]])
    newcomers = grow(V, np.zeros((0, 2)), np.zeros((0, 0)), tol=1e-6)[1]
    np.testing.assert_array_equal(newcomers, [0])
    newcomers = grow(V, np.zeros((0, 2)), np.zeros((0, 0)), tol=1e-10)[1]
    np.testing.assert_array_equal(newcomers, [0, 1])
