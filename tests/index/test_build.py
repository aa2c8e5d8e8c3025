import sys

import numpy as np
import pytest

from similia import OASIS, NeighborhoodGerrymandering
from similia.exceptions import MissingExtraError
from similia.index import BACKENDS, build_index
from similia.index.backends import Backend
from similia.index.recall import measured_recall
from similia.retrieval.scorers import PLAIN_SCORERS
from tests.problems import triplets_of


def test_recall_is_reported_at_every_build_and_addition(backend, Z):
    index = build_index(Z[:300], backend=backend, recall_at=7)
    assert 0.9 < index.report.recall <= 1
    assert index.report.k == 7
    assert index.report.n_items == 300
    report = index.add(Z[300:])
    assert report is index.report
    assert (report.n_items, report.k) == (400, 7)
    assert 0.9 < report.recall <= 1
    assert "recall@7 against exact search" in str(report)
    assert report.to_dict()["backend"] == backend
    assert repr(index).startswith("<Index ")


def test_recall_counts_what_is_missed(Z):
    class Blind:
        """Finds the best item and then always the same ones."""

        def __init__(self, exact):
            self.exact, self.inner = False, exact

        def vectors(self):
            return self.inner.vectors()

        def search(self, Q, k):
            rows, scores = self.inner.search(Q, k)
            rows[:, 1:] = -1
            return rows, scores

    exact: Backend = build_index(Z).backend
    assert measured_recall(Blind(exact), "inner_product", Z[:20], None, 5) == pytest.approx(0.2)
    assert measured_recall(exact, "inner_product", Z[:20], np.arange(20), 5) == 1.0


def test_a_poor_setting_shows_in_recall(rng):
    faiss = pytest.importorskip("similia.index.faiss", exc_type=ImportError)
    assert faiss
    Z = rng.normal(size=(2000, 16)).astype(np.float32)
    poor = build_index(Z, backend="faiss", factory="IVF50,Flat", n_probe=1)
    good = build_index(Z, backend="faiss", factory="IVF50,Flat", n_probe=50)
    assert poor.report.recall < 0.8
    assert good.report.recall > 0.999
    assert build_index(Z, backend="faiss", factory="Flat").report.n_queries == 0


def test_additions_are_found_and_one_by_one_is_the_same_as_at_once(backend, Z):
    whole, pieces = build_index(Z, backend=backend), build_index(Z[:100], backend=backend)
    for start in range(100, 400, 100):
        pieces.add(Z[start : start + 99], measure=False)
        assert pieces.report.recall == (1.0 if backend == "exact" else None)
        pieces.add(Z[start + 99 : start + 100])
    assert len(pieces) == len(whole)
    np.testing.assert_array_equal(pieces.ids, whole.ids)
    np.testing.assert_allclose(pieces.backend.vectors(), Z, rtol=1e-6)
    assert np.mean(pieces.search(Z[:50], 5).ids == whole.search(Z[:50], 5).ids) > 0.95


@pytest.mark.parametrize("names", [np.arange(400) * 7 - 50, [f"item é {i}" for i in range(400)]])
def test_items_have_names(backend, Z, names):
    index = build_index(Z, backend=backend, ids=names)
    assert index.search(Z[:30], 1).ids.ravel().tolist() == list(names[:30])
    more = [10**6, 10**6 + 1] if isinstance(names, np.ndarray) else ["new", "newer still"]
    index.add(Z[:2] * 3, ids=more)
    assert index.search(Z[:2], 1).ids.ravel().tolist() == more


def test_bad_names_are_refused_and_nothing_is_added(Z):
    for ids in (["a"] * 400, np.zeros(399, int), np.zeros(400), [["a"]] * 400, [None] * 400):
        with pytest.raises(ValueError, match=r"^build_index: ids must"):
            build_index(Z, ids=ids)
    index = build_index(Z)
    for ids in ([0, 1000], ["a", "b"], [1000, 1000], [2**63 + 1, 5]):
        with pytest.raises(ValueError, match=r"^Index.add: ids must"):
            index.add(Z[:2], ids=ids)
    with pytest.raises(ValueError, match=r"^Index.add: items must"):
        index.add(Z[:, :3])
    assert len(index) == len(index.backend) == 400


def test_the_input_is_copied_unless_it_is_mapped_from_a_file(backend, Z, tmp_path):
    given = Z.copy()
    index = build_index(given, backend=backend)
    expected = index.search(Z[:5], 3)
    given[:] = 0.0
    np.testing.assert_array_equal(index.search(Z[:5], 3).ids, expected.ids)
    np.save(tmp_path / "Z.npy", Z)
    mapped = build_index(np.load(tmp_path / "Z.npy", mmap_mode="r"), backend=backend)
    np.testing.assert_array_equal(mapped.search(Z[:5], 3).ids, expected.ids)
    if backend == "exact":
        assert isinstance(mapped.backend.vectors(), np.memmap)
    mapped.add(Z[:1] * 2)
    assert mapped.search(Z[:1], 1).ids.tolist() == [[400]]


def test_bad_arguments_are_refused(Z, rng):
    model = OASIS().learn(Z, triplets_of(rng, len(Z), len(Z), 10))
    wrong = [
        ({"backend": "annoy"}, "build_index: backend must be one of 'exact'"),
        ({"geometry": "cosine"}, "build_index: geometry must be"),
        ({"geometry": "l2", "model": model}, "build_index: geometry must be that of the model"),
        ({"recall_at": 0}, "build_index: recall_at must be"),
        ({"ef": 3}, "exact: options must be some of block_bytes, got ef"),
        ({"block_bytes": -1}, "exact: block_bytes must be"),
        ({"model": "cosine"}, "build_index: model must have query_vectors"),
    ]
    for arguments, words in wrong:
        with pytest.raises(ValueError, match=f"^{words}"):
            build_index(Z, **arguments)
    for items in (Z[0], Z[:0], np.full_like(Z, np.inf), [["a"]]):
        with pytest.raises(ValueError, match=r"^build_index: items must (be|not be empty)"):
            build_index(items)
    with pytest.raises(ValueError, match=r"^build_index: model must be a learner with a state"):
        build_index(Z, PLAIN_SCORERS["euclidean"])
    odd = OASIS().learn(Z, triplets_of(rng, len(Z), len(Z), 10))
    odd.geometry = "hyperbolic"
    with pytest.raises(ValueError, match=r"^build_index: model.geometry must be"):
        build_index(Z, odd)


def test_bad_options_of_libraries_are_refused(backend, Z):
    if backend == "exact":
        return
    with pytest.raises(ValueError, match=f"^{backend}: ef_search must be a positive integer"):
        build_index(Z, backend=backend, ef_search=0)
    if backend == "faiss":
        with pytest.raises(ValueError, match=r"^faiss: factory must be 'Flat'"):
            build_index(Z, backend=backend, factory="PQ4")
        with pytest.raises(ValueError, match=r"^faiss: items must be at least the 500 lists"):
            build_index(Z, backend=backend, factory="IVF500,Flat")


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "exact"])
def test_a_missing_library_is_named_with_the_extra(name, Z, monkeypatch):
    monkeypatch.delitem(sys.modules, BACKENDS[name][0], raising=False)
    for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "similia\[{name}\]"'):
        build_index(Z, backend=name)


def test_two_maps_of_queries_and_items_are_searched_like_any_metric(rng):
    X = rng.normal(size=(60, 5))
    y = (X[:, 0] > 0).astype(int)
    model = NeighborhoodGerrymandering(n_neighbors=3, random_state=0).fit(X, y)
    index = build_index(X, model)
    found = index.search(X[:4], k=5, model=model)
    expected = model.pairwise_distance(X[:4], X)
    assert not np.allclose(model.query_vectors(X), model.item_vectors(X))
    np.testing.assert_allclose(
        np.sort(expected, axis=1)[:, :5],
        np.take_along_axis(expected, found.ids.astype(int), axis=1),
        rtol=1e-6,
    )
    index.add(2 * X, model=model)
    np.testing.assert_allclose(index.backend.vectors()[60:], model.item_vectors(2 * X))
    model.partial_fit(X, y)
    assert index.is_stale(model)
