import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from similia.linalg.gibbs import GibbsState
from similia.linalg.spectral import from_eigenpairs, von_neumann_divergence
from similia.linalg.threads import single_blas_thread
from similia.updates import meg
from similia.updates.meg import MEGSetting, gathered, meg_matrix_pass, meg_pass
from tests.reference.meg import implicit_step, matrix, meg_step, start, sym

SEED = st.integers(0, 2**32 - 1)
KIND = st.sampled_from([float, complex])
FORMS = {
    "dense": np.asarray,
    "csr": sparse.csr_array,
}
SETTINGS = [
    MEGSetting(rate, relative, trace, normalized, implicit)
    for rate, relative in ((1.0, True), (0.05, False))
    for trace in (1.0, 2.5)
    for normalized in (True, False)
    for implicit in (False, True)
]


def vectors(rng, length, d, kind=float):
    """Rows with zeros, repeats and a row of nothing."""
    X = rng.normal(size=(length, d)) + (1j * rng.normal(size=(length, d)) if kind is complex else 0)
    X[rng.random(X.shape) < 0.3] = 0.0
    repeated = rng.random(length) < 0.2
    X[repeated] = X[0]
    X[-1] = 0.0
    return X


def initial(d, kind=float):
    return np.full(d, -np.log(d)), np.eye(d, dtype=kind)


def found(state, setting):
    values, vectors = state
    weights = np.exp(values - (values.max() if setting.normalized else 0.0))
    if setting.normalized:
        weights /= weights.sum()
    return from_eigenpairs(weights, vectors.T)


def by_the_paper(instances, targets, setting, kind=float):
    """The last W, the sum of all after the first one, and the total loss."""
    d = instances[0].shape[0]
    G, loss, total = start(d, kind), 0.0, np.zeros((d, d), kind)
    for X, y in zip(instances, targets, strict=True):
        X = setting.trace * X
        x = np.linalg.eigvalsh(sym(X))
        spread = max(x[-1], 0.0) - min(x[0], 0.0)
        eta = setting.rate
        if setting.relative and spread == 0.0:
            eta = 0.0
        elif setting.relative and setting.normalized:
            eta = setting.rate / spread**2
        elif setting.relative:
            values, V = np.linalg.eigh(sym(X))
            size = np.trace(matrix(G, False) @ (V * np.abs(values)) @ V.conj().T).real
            eta = setting.rate / (spread * (size + abs(y)))
        step = implicit_step if setting.implicit else meg_step
        G, lost = step(G, X, y, eta, setting.normalized)
        loss, total = loss + lost, total + matrix(G, setting.normalized)
    return matrix(G, setting.normalized), total, loss


def exactly(y):
    return np.column_stack([y, y])


def run(learn, instances, y, setting, state, size=10**6):
    values, vectors = state
    rows = vectors.view(np.float64)
    total, loss, updates = np.zeros((rows.shape[1],) * 2), 0.0, 0
    for begin in range(0, len(y), size):
        part = slice(begin, begin + size)
        counted, lost, _ = learn(values, rows, total, instances[part], exactly(y[part]), setting)
        updates, loss = updates + counted, loss + lost
    return found(state, setting), gathered(total, len(values)), loss, updates


@given(
    SEED,
    st.integers(1, 9),
    KIND,
    st.sampled_from(SETTINGS),
    st.sampled_from(list(FORMS)),
    st.integers(1, 30),
)
def test_blocks_equal_the_paper_one_instance_at_a_time(seed, d, kind, setting, form, size):
    rng = np.random.default_rng(seed)
    X = vectors(rng, 30, d, kind)
    y = rng.uniform(0.0, 2.0, size=30)
    expected = by_the_paper([np.outer(x, x.conj()) for x in X], y, setting, kind)
    actual = run(meg_pass, FORMS[form](X), y, setting, initial(d, kind), size)
    for one, other in zip(actual[:3], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("form", FORMS)
def test_the_state_is_that_of_the_paper_after_a_thousand_steps(rng, kind, form):
    """Distances of a kernel of low rank over 30 objects, so that eigenvalues of W go to zero."""
    d, setting = 30, MEGSetting(0.5, False, 1.0, True)
    points = rng.normal(size=(d, 3))
    pairs = rng.integers(d, size=(1000, 2))
    X = np.eye(d)[pairs[:, 0]] - np.eye(d)[pairs[:, 1]]
    y = ((X @ points) ** 2).sum(axis=1) / np.sum(points**2)
    expected = by_the_paper([np.outer(x, x) for x in X], y, setting, kind)
    actual = run(meg_pass, FORMS[form](X), y, setting, initial(d, kind))
    np.testing.assert_allclose(actual[0], expected[0], atol=1e-8 * np.abs(expected[0]).max())
    assert actual[2] == pytest.approx(expected[2], rel=1e-8)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("averaged", [True, False])
def test_steps_shared_among_processors_equal_the_compiled_walk(rng, monkeypatch, kind, averaged):
    X, y = vectors(rng, 25, 20, kind), rng.uniform(size=25)
    results = []
    for limit in (100, 2):
        monkeypatch.setattr(meg, "SHARED", limit)
        values, rows = initial(20, kind)
        total = np.zeros((rows.view(float).shape[1] if averaged else 0,) * 2)
        with single_blas_thread():
            out = meg_pass(values, rows.view(float), total, X, exactly(y), SETTINGS[0])
        # Phases of complex eigenvectors are free, and rounding chooses some: W does not know them.
        mean = gathered(total, 20) if averaged else total
        results.append((found((values, rows), SETTINGS[0]), mean, out))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@given(
    SEED,
    st.integers(2, 12),
    KIND,
    st.sampled_from(SETTINGS),
    st.sampled_from([np.asarray, sparse.csr_array, sparse.coo_array]),
)
@settings(max_examples=100)
def test_instances_of_any_rank_equal_the_paper(seed, d, kind, setting, form):
    """General square matrices, of which the Hermitian part counts."""
    rng = np.random.default_rng(seed)
    instances = []
    for rank in (1, 2, d, d, 0):
        left, right = vectors(rng, d, rank, kind), vectors(rng, d, rank, kind)
        instances.append(left @ right.conj().T / d)
    instances.append(np.eye(d, dtype=kind))
    few = np.zeros((d, d), kind)
    few[0, 1] = 2.0
    instances.append(few)
    y = rng.normal(size=len(instances))
    expected = by_the_paper(instances, y, setting, kind)
    actual = run(meg_matrix_pass, [form(X) for X in instances], y, setting, initial(d, kind))
    for one, other in zip(actual[:3], expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


@given(SEED, st.integers(2, 8), KIND)
def test_the_step_solves_its_linearised_problem(seed, d, kind):
    """W <- argmin Δ(W', W) + η tr(W' ∇L(W)) over density matrices: no other one is better (3.1)."""
    rng = np.random.default_rng(seed)
    setting, y = MEGSetting(0.4, False, 1.0, True), 0.7
    state = initial(d, kind)
    run(meg_pass, vectors(rng, 5, d, kind), rng.uniform(size=5), setting, state)
    before = found(state, setting)
    x = vectors(rng, 2, d, kind)[0]
    X = np.outer(x, x.conj())
    gradient = 2.0 * (np.trace(before @ X).real - y) * X
    after = run(meg_pass, x[None], np.array([y]), setting, state)[0]

    def objective(W):
        return von_neumann_divergence(W, before) + 0.4 * np.trace(W @ gradient).real

    M = rng.normal(size=(d, d)) * rng.choice([1e-2, 1.0])
    other = GibbsState(np.log(d) * np.eye(d) + sym(M)).matrix()
    for share in (1e-3, 0.1, 1.0):
        assert objective(after) <= objective((1.0 - share) * after + share * other) + 1e-9


@given(SEED, st.integers(2, 8), KIND, st.sampled_from([0.1, 2.0, 100.0]), st.booleans())
def test_the_implicit_step_solves_the_problem_itself(seed, d, kind, eta, rank_one):
    """W <- argmin Δ(W', W) + η L(W') over density matrices (3.1): no other one is better."""
    rng = np.random.default_rng(seed)
    setting, y = MEGSetting(eta, False, 1.0, True, True), 0.7
    state = initial(d, kind)
    run(meg_pass, vectors(rng, 5, d, kind), rng.uniform(size=5), setting, state)
    before = found(state, setting)
    x = vectors(rng, 2, d, kind)[0]
    X = np.outer(x, x.conj()) if rank_one else sym(vectors(rng, d, d, kind))
    learn, instances = (meg_pass, x[None]) if rank_one else (meg_matrix_pass, [X])
    after = run(learn, instances, np.array([y]), setting, state)[0]

    def objective(W):
        return von_neumann_divergence(W, before) + eta * (np.trace(W @ X).real - y) ** 2

    errors = [np.trace(W @ X).real - y for W in (before, after)]
    assert errors[0] * errors[1] >= -1e-9  # it never overshoots
    M = rng.normal(size=(d, d)) * rng.choice([1e-2, 1.0])
    other = GibbsState(np.log(d) * np.eye(d) + sym(M)).matrix()
    for share in (1e-3, 0.1, 1.0):
        assert objective(after) <= objective((1.0 - share) * after + share * other) + 1e-8 * (
            1 + eta
        )


@given(SEED, st.integers(1, 10), KIND, st.sampled_from(SETTINGS))
def test_the_matrix_stays_positive_definite_and_its_trace_one(seed, d, kind, setting):
    rng = np.random.default_rng(seed)
    X, y = vectors(rng, 40, d, kind), rng.uniform(0.0, 3.0, size=40)
    W = run(meg_pass, X, y, setting, initial(d, kind))[0]
    assert np.linalg.eigvalsh(W)[0] >= -1e-14 * np.abs(W).max()
    if setting.normalized:
        assert np.trace(W).real == pytest.approx(1.0)


def test_no_loss_leaves_the_state_untouched(rng):
    values, rows = initial(6)
    X = vectors(rng, 10, 6)
    squares = (X**2).sum(axis=1) / 6
    within = np.column_stack([squares / 2, squares * 2])
    updates, loss, _ = meg_pass(values, rows, np.zeros((0, 0)), X, within, SETTINGS[0])
    assert (updates, loss) == (0, 0.0)
    np.testing.assert_array_equal(values, initial(6)[0])
    np.testing.assert_array_equal(rows, np.eye(6))


def test_a_step_aims_at_the_nearer_end_of_an_interval(rng):
    x, setting = rng.normal(size=(1, 4)), SETTINGS[0]
    square = np.sum(x**2) / 4
    for low, high, nearer in ((2.0, 3.0, 2.0), (0.2, 0.5, 0.5)):
        state, aimed = initial(4), initial(4)
        targets = square * np.array([[low, high]])
        meg_pass(*state, np.zeros((0, 0)), x, targets, setting)
        run(meg_pass, x, np.array([square * nearer]), setting, aimed)
        np.testing.assert_allclose(found(state, setting), found(aimed, setting))


def test_an_overflow_shows_in_the_loss_and_not_in_the_state(rng):
    values, rows = initial(3)
    values += 800.0
    setting = MEGSetting(1.0, False, 1.0, False)
    _, loss, _ = meg_pass(values, rows, np.zeros((0, 0)), np.ones((1, 3)), exactly([1.0]), setting)
    assert not np.isfinite(loss)
    assert np.isfinite(values).all()
    assert np.isfinite(rows).all()
