"""Sparse items: searched exactly, by inner products, before and after learning."""

import numpy as np
import pytest
from scipy import sparse

from similia import LEGO, OASIS, DiagonalAROMA
from similia.exceptions import ModelFileError
from similia.index import build_index, open_index
from tests.index.test_storage import forged
from tests.problems import triplets_of


@pytest.fixture
def X(rng):
    dense = rng.integers(1, 4, size=(60, 9)) * (rng.random((60, 9)) < 0.3)
    return sparse.csr_array(dense.astype(np.float64))


def expected(scores, k):
    """Best first; of equal scores the earlier item."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


def assert_found(found, scores, k):
    ids, best = expected(scores, k)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.scores, best)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_plain_search_is_exact(X, dtype, form, block_bytes):
    index = build_index(form(X.astype(dtype)), block_bytes=block_bytes)
    assert index.dtype == dtype
    assert (index.report.recall, index.report.n_items) == (1.0, 60)
    scores = (X @ X.T).toarray()
    assert_found(index.search(X[:7], 5), scores[:7], 5)
    assert_found(index.search(X[:7].toarray(), 5), scores[:7], 5)
    first = X[:1].toarray()[0]
    for one in (sparse.coo_array(first), first):
        found = index.search(one, 5)
        np.testing.assert_array_equal(found.ids, expected(scores[:1], 5)[0][0])


@pytest.mark.parametrize("learner", [OASIS, DiagonalAROMA])
def test_what_is_learnt_is_seen_by_the_next_search(X, rng, learner):
    model = learner().learn(X, triplets_of(rng, 60, 60, 50))
    index = build_index(X, model)
    for _ in range(2):
        scores = X.toarray() @ model.query_matrix() @ X.toarray().T
        found = index.search(X, 4, model=model)
        np.testing.assert_allclose(found.scores, expected(scores, 4)[1])
        taken = np.take_along_axis(scores, found.ids, axis=1)
        np.testing.assert_allclose(found.scores, taken)
        model.learn(X, triplets_of(rng, 60, 60, 50))


def test_items_can_be_added_in_any_form(X):
    index = build_index(X[:50], ids=[f"item {i}" for i in range(50)])
    before = index.search(X[:2], 3)
    report = index.add(X[50:55], ids=[f"item {i}" for i in range(50, 55)])
    index.add(X[55:].toarray(), ids=[f"item {i}" for i in range(55, 60)])
    assert (report.n_items, len(index), report.recall) == (55, 60, 1.0)
    ids, scores = expected((X[:9] @ X.T).toarray(), 60)
    found = index.search(X[:9], 60)
    assert found.ids.tolist() == [[f"item {i}" for i in row] for row in ids]
    np.testing.assert_allclose(found.scores, scores)
    assert (before.scores <= found.scores[:2, :3]).all()


def test_the_given_matrix_is_neither_changed_nor_kept(X):
    given = X.copy()
    index = build_index(given)
    given.data[:] = 7.0
    assert_found(index.search(X, 3), (X @ X.T).toarray(), 3)
    twice = sparse.csr_array(([1.0, 1.0, 5.0], [2, 2, 0], [0, 2, 3]), shape=(2, 3))
    n = twice.nnz
    assert_found(build_index(twice).search(np.eye(3), 2), np.array([[0, 5], [0, 0], [2, 0]]), 2)
    assert twice.nnz == n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_index_comes_back_as_it_was(X, dtype, tmp_path):
    index = build_index(X.astype(dtype))
    index.save(tmp_path / "index")
    opened = open_index(tmp_path / "index")
    assert (opened.report, opened.dtype) == (index.report, index.dtype)
    assert_found(opened.search(X[:9], 5), (X[:9] @ X.T).toarray(), 5)
    opened.add(5 * X[:1])
    np.testing.assert_array_equal(opened.backend.vectors()[[-1]].toarray(), 5 * X[[0]].toarray())


@pytest.mark.parametrize(
    "change",
    [
        {"indices": np.full(1, 99)},
        {"indices": np.full(1, -1)},
        {"indptr": np.array([0, 9, 1])},
        {"indptr": np.array([0.0, 1.0])},
        {"data": np.ones(3)},
        {"data": np.ones((1, 1))},
        {"data": np.ones(1, np.float32)},
        {"data": np.ones(1, np.int64)},
    ],
)
def test_contents_that_are_no_matrix_are_refused(change, tmp_path, monkeypatch):
    index = build_index(sparse.csr_array(np.array([[0.0, 2.0]])))
    items = {**index.backend.tensors(), **change}
    forged(index, tmp_path / "index", monkeypatch, attributes={"items": items})
    with pytest.raises(ModelFileError, match="damaged"):
        open_index(tmp_path / "index")


@pytest.mark.parametrize("backend", ["faiss", "usearch", "hnswlib"])
def test_other_backends_say_that_they_take_dense_items(X, backend):
    pytest.importorskip(backend)
    with pytest.raises(ValueError, match="backend must be 'exact' for items that have sparse"):
        build_index(X, backend=backend)


def test_what_cannot_be_searched_is_refused_in_words(X, rng):
    with pytest.raises(
        ValueError, match="items must be a dense array to search by squared distances"
    ):
        build_index(X, geometry="l2")
    pairs = rng.integers(60, size=(20, 2))
    metric = LEGO().learn(X.toarray(), pairs, rng.choice([-1, 1], size=20))
    with pytest.raises(
        ValueError, match="items must be a dense array to search by squared distances"
    ):
        build_index(X, metric)
    bad = X.copy()
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match="build_index: items must be finite"):
        build_index(bad)
    with pytest.raises(ValueError, match="items must not be empty"):
        build_index(X[:0])
    with pytest.raises(ValueError, match="items must be a matrix of numbers of shape"):
        build_index(sparse.csr_array(X.astype(bool)))
    index = build_index(X)
    with pytest.raises(ValueError, match=r"queries must be a matrix of numbers of shape \(n, 9\)"):
        index.search(X[:, :8], 3)
    with pytest.raises(ValueError, match=r"Index.add: items must be a matrix of numbers of shape"):
        index.add(X[:, :8])
    assert len(index) == 60
    with pytest.raises(ValueError, match="queries must be a dense array, got a sparse matrix"):
        build_index(X.toarray()).search(X, 3)
