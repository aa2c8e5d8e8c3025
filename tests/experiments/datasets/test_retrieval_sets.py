import hashlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import average_precision_score

from experiments.datasets import DataNotFoundError, load_retrieval, retrieval_sets
from experiments.datasets.fetch import FILES

SIZES = {
    "cranfield": (1400, 225, 1837 - 225, 225),
    "cisi": (1460, 112, 3114, 76),
    "scifact": (5183, 1109, 1258, 1109),
    "nfcorpus": (3395, 2886, 122_409, 2886),
}
#: mean average precision of the cosine of sentence vectors
RECORDED = {"cranfield": 0.32, "cisi": 0.25, "scifact": 0.59, "nfcorpus": 0.16}


def files(name):
    return [path for path in FILES if path.startswith(f"retrieval/{name}/")]


@pytest.fixture(params=SIZES)
def name(request, need):
    need(*files(request.param))
    return request.param


@pytest.mark.parametrize(("vectors", "n_features"), [("minilm", 384), ("glove", 100)])
def test_the_sets_have_the_published_sizes(name, vectors, n_features):
    data = load_retrieval(name, vectors=vectors)
    n_docs, n_queries, n_relevant, n_answered = SIZES[name]
    assert data.docs.shape == (n_docs, n_features)
    assert data.queries.shape == (n_queries, n_features)
    assert data.docs.dtype == data.queries.dtype == np.float32
    assert data.relevance.shape == (n_queries, n_docs)
    assert data.relevance.nnz == n_relevant
    assert (np.diff(data.relevance.indptr) > 0).sum() == n_answered


def test_texts_share_the_rows_of_the_vectors(name):
    data, bare = load_retrieval(name), load_retrieval(name, vectors=None)
    assert bare.docs is None
    assert bare.queries is None
    assert_array_equal(data.doc_ids, bare.doc_ids)
    assert_array_equal(data.query_ids, bare.query_ids)
    assert len(data.doc_texts) == len(data.doc_titles) == len(data.doc_ids)
    assert len(data.query_texts) == len(data.query_ids)


def test_texts_are_read_only_when_asked_for(name, monkeypatch):
    read = []
    records = retrieval_sets._records
    monkeypatch.setattr(
        retrieval_sets, "_records", lambda *args: read.append(args) or records(*args)
    )
    data = load_retrieval(name)
    assert read == []
    assert data.doc_texts is data.doc_texts
    assert len(data.doc_titles) == len(data.doc_texts)
    assert read == [(name, "corpus.jsonl.gz")]


def test_grades_grow_with_relevance(need):
    need(*files("cranfield"))
    data = load_retrieval("cranfield", vectors=None)
    # Query 1: document 184 has code 2, document 12 code 3, document 13 code 4.
    row = data.relevance[[0]].toarray()[0]
    assert row[[183, 11, 12]].tolist() == [3, 2, 1]
    assert np.bincount(data.relevance.data).tolist() == [0, 363, 734, 387, 128]


def test_cosine_ranks_as_well_as_recorded(name):
    data = load_retrieval(name)
    relevant = data.relevance.toarray() > 0
    scores = data.queries @ data.docs.T
    answered = np.flatnonzero(relevant.any(axis=1))
    found = np.mean([average_precision_score(relevant[i], scores[i]) for i in answered])
    assert found == pytest.approx(RECORDED[name], abs=0.01)


def test_an_unknown_code_is_not_guessed(tmp_path, monkeypatch):
    path = tmp_path / "retrieval" / "cisi" / "qrels.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("query-id\tcorpus-id\tscore\n1\t1\t7\n")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    file = FILES["retrieval/cisi/qrels.tsv"]._replace(sha256=sha256)
    monkeypatch.setitem(FILES, "retrieval/cisi/qrels.tsv", file)
    monkeypatch.setenv("SIMILIA_DATA", str(tmp_path))
    with pytest.raises(KeyError):
        retrieval_sets._relevance("cisi", np.array(["1"]), np.array(["1"]))


def test_a_missing_file_is_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    for vectors in ("glove", None):
        with pytest.raises(DataNotFoundError, match=r"no public copy.*gla\.ac\.uk.*SIMILIA_DATA"):
            load_retrieval("cisi", vectors=vectors)
