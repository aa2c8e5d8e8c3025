"""The pass against the paper's figure, and the paper's theorems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from similia.updates.pola import pola_pass
from tests.reference.pola import pola_loss, pola_step

FORM = st.sampled_from([np.asarray, sparse.csr_array])
GAMMA = st.sampled_from([0.0, 0.5, 20.0])


@st.composite
def streams(draw, max_size=12, max_length=120):
    """Differences with zeros and repeats, at any scale, and labels without sense."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, length = draw(st.integers(1, max_size)), draw(st.integers(1, max_length))
    V = rng.normal(size=(length, n)) * 10.0 ** draw(st.integers(-1, 1))
    V[rng.random(V.shape) > draw(st.sampled_from([0.4, 1.0]))] = 0.0
    V[0, 0] = 1.0
    V[rng.random(length) < 0.2] = V[0]
    y = np.where(rng.random(length) < 0.5, 1, -1).astype(np.int8)
    return V[V.any(axis=1)], y[V.any(axis=1)]


@st.composite
def separable_streams(draw):
    """Pairs that some (A*, b*) separates with margin 1, and that metric."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, length = draw(st.integers(1, 6)), draw(st.integers(1, 150))
    B = rng.normal(size=(draw(st.integers(1, n)), n))
    A, b = B.T @ B, 1.0 + draw(st.sampled_from([0.0, 0.3, 4.0, 20.0]))
    V = rng.normal(size=(length, n)) * 10.0 ** draw(st.floats(-1, 1))
    distances = np.einsum("ti,ij,tj->t", V, A, V)
    apart = np.abs(distances - b) >= 1.0
    return V[apart], np.where(distances <= b, 1, -1).astype(np.int8)[apart], A, b


def run(V, y, gamma=0.0, size=128, form=np.asarray, dtype=np.float64, start=0.0, rho=1.0):
    """Give A, b, the losses, and the sums of all states, the first included."""
    n = V.shape[1]
    A, moment = np.eye(n, dtype=dtype) * dtype(start), np.zeros((n, n), dtype)
    threshold, losses, updates = np.array([1.0, 0.0]), np.zeros(len(y)), 0
    for i in range(0, len(y), size):
        block = slice(i, i + size)
        Z = form(V[block].astype(dtype))
        updates += pola_pass(A, threshold, moment, i, Z, y[block], losses[block], rho, gamma * rho)
    sums = (len(y) + 1) * A - moment, (len(y) + 1) * threshold[0] - threshold[1]
    assert updates == np.count_nonzero(losses)
    return A, threshold[0], losses, sums


def naive(V, y, gamma=0.0, start=0.0):
    A, b = np.eye(V.shape[1]) * start, 1.0
    losses, sums = [], [A, b]
    for v, sign in zip(V, y, strict=True):
        losses.append(pola_loss(A, b, v, sign))
        A, b = pola_step(A, b, v, sign, gamma)
        sums = [sums[0] + A, sums[1] + b]
    return A, b, np.array(losses), sums


@given(streams(), GAMMA, FORM, st.integers(1, 60), st.sampled_from([0.0, 1.0]))
def test_blocks_equal_the_paper_one_pair_at_a_time(stream, gamma, form, size, start):
    V, y = stream
    A, b, losses, sums = run(V, y, gamma, size, form, start=start)
    expected = naive(V, y, gamma, start)
    scale = max(1.0, np.abs(expected[0]).max())
    np.testing.assert_allclose(A, expected[0], atol=1e-10 * scale)
    assert b == pytest.approx(expected[1], rel=1e-10)
    largest = max(1.0, expected[2].max(initial=0.0))
    np.testing.assert_allclose(losses, expected[2], atol=1e-9 * largest)
    np.testing.assert_allclose(sums[0], expected[3][0], atol=1e-9 * scale * len(V))
    assert sums[1] == pytest.approx(expected[3][1], rel=1e-9)


@given(streams(), GAMMA)
def test_single_precision_follows(stream, gamma):
    V, y = stream
    A, b, _, _ = run(V, y, gamma, dtype=np.float32)
    expected = naive(V, y, gamma)
    scale = max(1.0, np.abs(expected[0]).max())
    np.testing.assert_allclose(A, expected[0], atol=2e-2 * scale)
    assert b == pytest.approx(expected[1], rel=2e-2)
    assert np.linalg.eigvalsh(A.astype(float))[0] >= -1e-5 * scale


@given(streams(), st.sampled_from([0.1, 2.0, 30.0]))
def test_a_unit_of_length_is_a_change_of_scale(stream, unit):
    """With ρ = unit⁴ the run is that of the paper on lengths measured in the unit."""
    V, y = stream
    A, b, losses, _ = run(V, y, rho=unit**4)
    expected = run(V / unit, y)
    scale = max(1.0, np.abs(expected[0]).max())
    np.testing.assert_allclose(A * unit**2, expected[0], atol=1e-8 * scale)
    assert b == pytest.approx(expected[1], rel=1e-8)
    np.testing.assert_allclose(losses, expected[2], atol=1e-8 * max(1.0, losses.max(initial=0.0)))


@given(streams())
def test_rotations_of_space_rotate_the_metric(stream):
    V, y = stream
    n = V.shape[1]
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    A, b, _, _ = run(V, y)
    turned, c, _, _ = run(V @ U, y)
    np.testing.assert_allclose(turned, U.T @ A @ U, atol=1e-8 * max(1.0, np.abs(A).max()))
    assert c == pytest.approx(b, rel=1e-8)


@given(streams(), GAMMA)
def test_the_order_of_the_two_points_does_not_matter(stream, gamma):
    V, y = stream
    turned = np.where(np.arange(len(V)) % 2, 1.0, -1.0)[:, None] * V
    np.testing.assert_array_equal(run(turned, y, gamma)[0], run(V, y, gamma)[0])


@given(separable_streams())
@settings(max_examples=150)
def test_theorem_1_bounds_the_squared_losses_of_separable_pairs(stream):
    V, y, A, b = stream
    losses = run(V, y)[2]
    R = ((V**2).sum(axis=1) ** 2).max(initial=0.0) + 1.0
    assert (losses**2).sum() <= R * (np.sum(A**2) + (b - 1.0) ** 2) * (1 + 1e-9) + 1e-9


@given(separable_streams(), st.floats(0, 100), st.sampled_from([0.01, 1.0, 50.0]))
@settings(max_examples=100)
def test_theorem_1_holds_in_any_unit_and_with_slack(stream, gamma, rho):
    """The proof goes through with |ΔA|² + Δb²/ρ as the distance, and R = max |v|⁴ + ρ(1 + γ)."""
    V, y, A, b = stream
    losses = run(V, y, gamma, rho=rho)[2]
    R = ((V**2).sum(axis=1) ** 2).max(initial=0.0) + rho * (1.0 + gamma)
    assert (losses**2).sum() <= R * (np.sum(A**2) + (b - 1.0) ** 2 / rho) * (1 + 1e-9) + 1e-9


@given(streams(), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_with_slack_the_losses_of_any_metric_bound_ours(stream, gamma, seed):
    """The bound for pairs that nothing separates, which the paper leaves to [Crammer2003].

    Σℓ² ≤ (R + γ)(|A*|² + (b* - 1)² + Σℓ*²/γ) for any A* ⪰ 0 and b* ≥ 1, where R = max |v|⁴ + 1.
    """
    V, y = stream
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(V.shape[1], V.shape[1])) * rng.choice([0.0, 0.1, 1.0])
    A, b = B.T @ B, 1.0 + rng.exponential()
    losses = run(V, y, gamma)[2]
    others = sum(pola_loss(A, b, v, sign) ** 2 for v, sign in zip(V, y, strict=True))
    R = ((V**2).sum(axis=1) ** 2).max(initial=0.0) + 1.0
    bound = (R + gamma) * (np.sum(A**2) + (b - 1.0) ** 2 + others / gamma)
    assert (losses**2).sum() <= bound * (1 + 1e-9) + 1e-9


@given(separable_streams())
@settings(max_examples=100)
def test_lemma_3_bounds_every_state_of_separable_pairs(stream):
    V, y, A_star, b_star = stream
    bound = 4.0 * (np.sum(A_star**2) + b_star**2)
    for end in {1, 2, len(V) // 2, len(V)} - {0}:
        A, b, _, _ = run(V[:end], y[:end])
        assert np.sum(A**2) + (b - 1.0) ** 2 <= bound * (1 + 1e-9)


@given(streams())
def test_a_similar_pair_never_raises_the_rank_and_a_dissimilar_one_by_at_most_one(stream):
    V, y = stream
    ranks = [0]
    for end in range(1, min(len(V), 25) + 1):
        A = run(V[:end], y[:end])[0]
        ranks.append(np.linalg.matrix_rank(A, tol=1e-9 * max(np.abs(A).max(), 1e-300)))
    for before, after, sign in zip(ranks, ranks[1:], y, strict=False):
        assert after <= before + (sign < 0)


@given(streams())
def test_a_pair_that_moved_the_metric_is_satisfied_at_once(stream):
    """Without slack the first projection satisfies the pair, unless the second undoes it."""
    V, y = stream
    A, b, losses, _ = run(V, y)
    if losses[-1] > 0 and y[-1] < 0 and b > 1.0:
        assert pola_loss(A, b, V[-1], -1) <= 1e-8 * max(1.0, losses[-1])


def test_equal_points_change_nothing(rng):
    """Similar, they agree with every metric; dissimilar, with none."""
    V, y = rng.normal(size=(20, 3)), np.where(rng.random(20) < 0.5, 1, -1).astype(np.int8)
    mixed, signs = np.insert(V, 10, 0.0, axis=0), np.insert(y, 10, 0)
    expected = run(V, y)
    for sign in (1, -1):
        signs[10] = sign
        A, b, losses, _ = run(mixed, signs)
        np.testing.assert_allclose(A, expected[0], atol=1e-14)
        assert b == pytest.approx(expected[1])
        assert losses[10] == 0.0


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_metric_stays_semidefinite_over_a_hundred_thousand_updates(rng, gamma):
    n, size = 24, 128
    A, threshold, updates = np.zeros((n, n)), np.array([1.0, 0.0]), 0
    while updates < 100_000:
        V = rng.normal(size=(size, n)) / np.sqrt(n)
        y = np.where(rng.random(size) < 0.5, 1, -1).astype(np.int8)
        updates += pola_pass(A, threshold, np.zeros((0, 0)), 0, V, y, np.zeros(size), 1.0, gamma)
    values = np.linalg.eigvalsh(A)
    assert values[0] >= -1e-10 * values[-1]
    np.testing.assert_array_equal(A, A.T)


@given(st.integers(0, 2**32 - 1))
def test_the_triangle_inequality_of_the_problem_setting_is_reversed(seed):
    """d(x₁, x₂) + d(x₂, x₃) ≥ d(x₁, x₃) for every A ⪰ 0; the paper prints ≤."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(3, 4))
    one, two, three = rng.normal(size=(3, 4))

    def distance(x, z):
        return np.linalg.norm(L @ (x - z))

    detour = distance(one, two) + distance(two, three)
    assert detour >= distance(one, three)
    assert distance(one, one) <= detour  # a way there and back is no shorter than none


def printed_step(A, b, v, y):
    """Fig. 1 to the letter: only a dissimilar pair bounds b, which starts from any number."""
    alpha = pola_loss(A, b, v, y) / ((v @ v) ** 2 + 1.0)
    A, b = A - y * alpha * np.outer(v, v), b + y * alpha
    if y == 1:
        values, vectors = np.linalg.eigh(A)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T, b
    return A, max(b, 1.0)


def test_a_threshold_below_one_is_not_admissible_and_similar_pairs_leave_it_so(rng):
    """From b₁ = 0 a similar pair still loses after its step, and b stays below 1."""
    v, A = 2.0 * rng.normal(size=3), np.zeros((3, 3))
    after, b = printed_step(A, 0.0, v, 1)
    assert 0.0 < b < 1.0
    assert pola_loss(after, b, v, 1) > 0.5
    after, b = printed_step(A, 1.0, v, 1)
    assert pola_loss(after, b, v, 1) == 0.0
