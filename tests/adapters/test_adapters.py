import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from similia import OASIS, FactoredAROMA, evaluate, load, save
from similia.adapters import Adapters, load_adapters
from similia.exceptions import ModelFileError
from similia.index import build_index
from similia.updates.low_rank import compressed
from tests.problems import triplets_of


def full(adapters, **parameters):
    """The learner that keeps all of W, with the same parameters."""
    return OASIS(
        C=adapters.C,
        prior=adapters.prior,
        prior_scale=adapters.prior_scale,
        average=adapters.average,
        **parameters,
    )


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 9), st.integers(1, 9))
def test_up_to_its_rank_an_adapter_is_exactly_the_full_learner(seed, average, m, n):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(7, m)), rng.normal(size=(8, n))
    prior = rng.normal(size=(m, n))
    # A judgement that comes again lies exactly at the margin, where rounding would decide.
    triplets = rng.permutation(np.unique(triplets_of(rng, 7, 8, 12), axis=0))
    adapters = Adapters(rank=12, prior=prior, average=average, C=0.5)
    oasis = full(adapters).learn(X, triplets, items=Z)
    adapters.learn("u", X, triplets, items=Z)
    assert adapters["u"].n_updates == oasis.n_updates_
    np.testing.assert_allclose(adapters.matrix("u"), oasis._scoring_state(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        adapters.pairwise_score("u", X, Z), oasis.pairwise_score(X, Z), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize(("average", "rank"), [(False, 6), (True, 11)])
def test_merging_loses_nothing_while_few_directions_are_needed(average, rank, rng):
    # Five queries: a matrix of rank five, and another five directions of items for its moment.
    X, Z = rng.normal(size=(5, 20)), rng.normal(size=(60, 30))
    triplets = triplets_of(rng, 5, 60, 400)
    adapters = Adapters(rank=rank, prior=np.zeros((20, 30)), prior_scale=1.0, average=average)
    oasis = full(adapters).learn(X, triplets, items=Z)
    adapters.learn(1, X, triplets, items=Z)
    assert adapters[1].n_merges > 5
    assert oasis.n_updates_ > 50
    np.testing.assert_allclose(adapters.matrix(1), oasis._scoring_state(), rtol=1e-9, atol=1e-9)


def test_a_merge_keeps_the_strongest_directions(rng):
    B, C = rng.normal(size=(6, 15)), rng.normal(size=(6, 11))
    K = np.diag(10.0 ** -np.arange(6))
    whole = B.T @ K @ C
    less_B, less_C, (less_K,) = compressed(B, C, (K,), keep=4)
    assert less_B.shape == (4, 15)
    np.testing.assert_allclose(less_B @ less_B.T, np.eye(4), atol=1e-12)
    error = np.linalg.norm(whole - less_B.T @ less_K @ less_C)
    values = np.linalg.svd(whole, compute_uv=False)
    assert error == pytest.approx(np.linalg.norm(values[4:]))  # Eckart and Young


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_memory_is_bounded_and_pieces_are_the_whole(seed, rank):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 9))
    triplets = triplets_of(rng, 20, 20, 60)
    whole, pieces = Adapters(rank=rank), Adapters(rank=rank)
    whole.learn("u", X, triplets)
    for start, stop in ((0, 1), (1, 1), (1, 30), (30, 60)):
        pieces.learn("u", X, triplets[start:stop])
    np.testing.assert_allclose(pieces.matrix("u"), whole.matrix("u"), rtol=1e-7, atol=1e-7)
    adapter = whole["u"]
    assert adapter.used <= rank
    assert whole.nbytes == adapter.nbytes <= 8 * (rank * (9 + 9) + 2 * rank**2)
    assert (adapter.n_seen, adapter.n_updates) == (60, pieces["u"].n_updates)


def test_users_do_not_disturb_each_other_and_a_stranger_gets_the_shared_similarity(rng):
    X = rng.normal(size=(30, 6)).astype(np.float32)
    adapters, alone = Adapters(rank=4), Adapters(rank=4)
    streams = {user: triplets_of(rng, 30, 30, 40) for user in range(5)}
    for part in (slice(0, 15), slice(15, 40)):
        for user, triplets in streams.items():
            adapters.learn(user, X, triplets[part])
    alone.learn(3, X, streams[3])
    np.testing.assert_allclose(adapters.matrix(3), alone.matrix(3), rtol=1e-5, atol=1e-5)
    assert adapters.matrix(3).dtype == np.float32
    np.testing.assert_allclose(adapters.matrix(77), np.eye(6) * adapters.prior_scale_, rtol=1e-6)
    assert (len(adapters), 3 in adapters, 77 in adapters) == (5, True, False)
    adapters.forget(3)
    assert list(adapters) == [0, 1, 2, 4]
    np.testing.assert_allclose(adapters.matrix(3), adapters.matrix(77))


def test_adapters_go_on_from_a_learner(rng):
    X = rng.normal(size=(30, 6))
    shared = FactoredAROMA().learn(X, triplets_of(rng, 30, 30, 100))
    adapters = Adapters(prior=shared.query_matrix(), prior_scale=1.0).learn("a", X, [])
    np.testing.assert_allclose(adapters.query_vectors("a", X), shared.query_vectors(X))
    triplets = triplets_of(rng, 30, 30, 5)
    adapters.learn("a", X, triplets)
    oasis = OASIS(prior=shared.query_matrix(), prior_scale=1.0).learn(X, triplets)
    np.testing.assert_allclose(adapters.matrix("a"), oasis.W_average_, rtol=1e-9, atol=1e-9)


def test_sparse_vectors_are_as_good_as_dense_ones(rng):
    X = rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.5)
    triplets = triplets_of(rng, 30, 30, 40)
    dense, thin = Adapters(rank=4), Adapters(rank=4)
    dense.learn("a", X, triplets)
    thin.learn("a", sparse.csr_array(X), triplets)
    np.testing.assert_allclose(
        thin.pairwise_score("a", sparse.csr_array(X)), dense.pairwise_score("a", X), rtol=1e-9
    )


def test_one_user_is_a_scorer_for_evaluation_and_for_an_index(rng):
    X = rng.normal(size=(50, 6))
    adapters = Adapters(rank=4).learn("a", X, triplets_of(rng, 50, 50, 40))
    one = adapters.of("a")
    index = build_index(X)
    found = index.search(X[:5], 3, model=one)
    np.testing.assert_array_equal(found.ids, np.argsort(-one.pairwise_score(X[:5], X))[:, :3])
    assert evaluate(one, X, labels=np.arange(50) % 2).n_judged == 50
    adapters.learn("a", X, triplets_of(rng, 50, 50, 40))
    found = index.search(X[:5], 3, model=one)
    np.testing.assert_array_equal(found.ids, np.argsort(-one.pairwise_score(X[:5], X))[:, :3])


@pytest.mark.parametrize("users", [["ä", "b" * 40, ""], [3, -1, 2**40]])
def test_all_come_back_and_go_on_as_if_never_saved(users, rng, tmp_path):
    X, path = rng.normal(size=(30, 6)).astype(np.float32), tmp_path / "adapters"
    adapters = Adapters(rank=3, C=0.7)
    for count, user in zip((0, 2, 40), users, strict=True):
        adapters.learn(user, X, triplets_of(rng, 30, 30, count))
    adapters.save(path)
    loaded = load_adapters(path)
    assert list(loaded) == list(adapters)
    more = triplets_of(rng, 30, 30, 20)
    for user in users:
        np.testing.assert_array_equal(loaded.matrix(user), adapters.matrix(user))
        loaded.learn(user, X, more)
        adapters.learn(user, X, more)
        np.testing.assert_array_equal(loaded.matrix(user), adapters.matrix(user))
        assert loaded[user].n_merges == adapters[user].n_merges


def test_a_vector_is_one_query(rng):
    X = rng.normal(size=(20, 4))
    adapters = Adapters(rank=3).learn("a", X, triplets_of(rng, 20, 20, 9))
    for ranker in (adapters.of("a"), adapters.of("b")):
        np.testing.assert_array_equal(ranker.query_vectors(X[3]), ranker.query_vectors(X[3:4])[0])
        scores = ranker.pairwise_score(X[3], X)
        np.testing.assert_array_equal(scores, ranker.pairwise_score(X[3:4], X)[0])


def test_none_at_all_can_be_saved_too(tmp_path):
    Adapters(rank=5, prior=np.eye(2)).save(tmp_path / "a")
    loaded = load_adapters(tmp_path / "a")
    assert (len(loaded), loaded.rank) == (0, 5)
    loaded.learn("x", np.eye(2), []).save(tmp_path / "a")
    assert list(load_adapters(tmp_path / "a")) == ["x"]


@pytest.fixture
def saved(rng, tmp_path):
    X = rng.normal(size=(20, 4))
    adapters = Adapters(rank=3)
    for user in range(4):
        adapters.learn(user, X, triplets_of(rng, 20, 20, 9))
    adapters.save(tmp_path / "good")
    return adapters, tmp_path / "good"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), cut=st.booleans())
def test_damage_is_noticed(saved, place, change, cut):
    raw = bytearray(saved[1].read_bytes())
    position = int(place * len(raw))
    raw[position] ^= change
    bad = saved[1].with_name("bad")
    bad.write_bytes(raw[:position] if cut else raw)
    with pytest.raises(ModelFileError, match=str(bad)):
        load_adapters(bad)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": [4, 5]},
        {"dtype": "int64"},
        {"users": np.zeros(4, int)},
        {"users": np.arange(3)},
        {"K": np.zeros(3)},
        {"counts": np.full((4, 4), -1)},
        {"counts": np.full((4, 4), 9)},
    ],
)
def test_a_file_that_contradicts_itself_is_refused(saved, wrong, monkeypatch):
    from similia.persistence import saving

    adapters, path = saved
    original = saving.write
    monkeypatch.setattr(
        saving, "write", lambda path, name, p, a: original(path, name, p, {**a, **wrong})
    )
    adapters.save(path)
    with pytest.raises(ModelFileError, match="damaged"):
        load_adapters(path)


def test_other_files_are_told_apart(saved, rng, tmp_path):
    with pytest.raises(ModelFileError, match="is of class 'Adapters'"):
        load(saved[1])
    X = rng.normal(size=(9, 3))
    save(OASIS().learn(X, triplets_of(rng, 9, 9, 4)), tmp_path / "oasis")
    with pytest.raises(ModelFileError, match="is of class 'OASIS' and no adapters"):
        load_adapters(tmp_path / "oasis")


@pytest.mark.parametrize("parameter", ["rank", "C", "prior", "prior_scale", "average"])
def test_bad_parameters_are_refused(parameter):
    with pytest.raises(ValueError, match=f"^Adapters: {parameter} must be"):
        Adapters(**{parameter: -1})


def test_a_failed_call_changes_nothing(rng):
    X = rng.normal(size=(20, 4))
    empty = Adapters(rank=3, prior=np.eye(3))
    with pytest.raises(ValueError, match=r"^Adapters: prior must be"):
        empty.learn("a", X, [[0, 1, 2]])
    for call in (lambda: empty.query_vectors("a", X), lambda: empty.matrix("a")):
        with pytest.raises(ValueError, match="something must be learnt first"):
            call()
    assert (len(empty), empty.shape_) == (0, None)
    adapters = Adapters(rank=3).learn("a", X, triplets_of(rng, 20, 20, 5))
    before = copy.deepcopy(adapters)
    wrong = [
        ((1, X, [[0, 1, 2]]), "user must be named as the others"),
        ((True, X, [[0, 1, 2]]), "user must be an integer or a string"),
        ((None, X, [[0, 1, 2]]), "user must be an integer or a string"),
        (("b", X[:, :3], [[0, 1, 2]]), "X must have 4 features, got 3"),
        (("b", X, [[0, 1, 20]]), "column 2 of triplets"),
        (("b", X, [[0, 1]]), "triplets must be an integer array"),
        (("b", np.full_like(X, np.nan), [[0, 1, 2]]), "X must be finite"),
        (("b", X * 1e100, [[0, 1, 2]]), "X must have entries of magnitude"),
    ]
    for arguments, words in wrong:
        with pytest.raises(ValueError, match=rf"^Adapters\.learn: {words}"):
            adapters.learn(*arguments)
    with pytest.raises(ValueError, match=r"items must have 4 features"):
        adapters.learn("b", X, [[0, 1, 2]], items=X[:, :2])
    with pytest.raises(ValueError, match=r"items must be finite"):
        adapters.learn("b", X, [[0, 1, 2]], items=np.full_like(X, np.inf))
    with pytest.raises(ValueError, match=r"items must have 4 features"):
        adapters.pairwise_score("a", X, X[:, :2])
    with pytest.raises(KeyError, match="got 'b'"):
        adapters["b"]
    assert list(adapters) == ["a"]
    np.testing.assert_array_equal(adapters.matrix("a"), before.matrix("a"))
