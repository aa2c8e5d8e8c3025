"""Dense and sparse views in one index: a library finds, all views rank."""

import numpy as np
import pytest
from scipy import sparse

from similia import Blend, Views, build_index, open_index
from similia.retrieval import top_k

LIBRARIES = ["faiss", "usearch", "hnswlib"]


@pytest.fixture
def sides(rng):
    def views(n, **fields):
        words = sparse.random(n, 80, 0.05, format="csr", random_state=n, dtype=np.float32)
        return Views(vectors=rng.normal(size=(n, 8)).astype(np.float32), words=words, **fields)

    return views(30), views(400, price=rng.uniform(size=400).astype(np.float32))


@pytest.fixture
def blend(sides, rng):
    Q, Z = sides
    triplets = np.column_stack([rng.integers(30, size=60), rng.integers(400, size=(60, 2))])
    return Blend(memory=0).learn(Q, triplets, items=Z)  # what is remembered is exact by `boosts`


@pytest.mark.parametrize("backend", ["exact", *LIBRARIES])
def test_all_views_rank_what_a_library_finds(backend, sides, blend, tmp_path):
    if backend != "exact":
        pytest.importorskip(backend)
    Q, Z = sides
    index = build_index(Z, blend, backend=backend, queries=Q)
    best, scores = top_k(blend, Q, Z, 10)
    found = index.search(Q, 10, model=blend)
    shares = [np.isin(right, got).mean() for right, got in zip(best, found.ids, strict=True)]
    assert np.mean(shares) == pytest.approx(index.report.recall)
    assert index.report.recall > 0.95
    np.testing.assert_allclose(found.scores[:, 0], scores[:, 0], rtol=1e-3, atol=1e-3)
    index.save(tmp_path / "index")
    again = open_index(tmp_path / "index").search(Q, 10, model=blend)
    assert (again.ids == found.ids).mean() > 0.95


def test_few_candidates_cost_recall_and_the_report_says_so(sides, rng):
    pytest.importorskip("faiss")
    Q, Z = sides
    triplets = np.column_stack([rng.integers(30, size=900), rng.integers(400, size=(900, 2))])
    words = (Q["words"] @ Z["words"].T).toarray()
    asked, better, worse = triplets.T
    by_words = triplets[words[asked, better] > words[asked, worse]]  # not by the base
    blend = Blend(memory=0).learn(Q, by_words, items=Z)
    exact = {"backend": "faiss", "factory": "Flat"}  # a graph may miss items of its own accord
    recall = [
        build_index(Z, blend, queries=Q, candidates=n, **exact).report.recall for n in (10, 400)
    ]
    assert recall[0] < recall[1] == 1.0


def test_items_are_added_as_views(sides, blend):
    pytest.importorskip("faiss")
    Q, Z = sides
    index = build_index(Z[:300], blend, backend="faiss")
    index.add(Z[300:], model=blend)
    assert len(index) == 400
    assert np.isin(index.search(Q, 400, model=blend).ids, np.arange(400)).all()


def test_views_need_a_model_and_candidates_a_number(sides, blend):
    pytest.importorskip("faiss")
    Q, Z = sides
    with pytest.raises(ValueError, match="build_index: model must be given for several views"):
        build_index(Z)
    with pytest.raises(ValueError, match="candidates must be a positive integer, got 0"):
        build_index(Z, blend, backend="faiss", candidates=0)
    index = build_index(Z, blend)
    with pytest.raises(ValueError, match="must be one matrix, got Views"):
        index.search(Q, 2)
    with pytest.raises(ValueError, match=r"Index.add: model must be given for several views"):
        index.add(Z)
