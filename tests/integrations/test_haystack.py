import inspect

import numpy as np
import pytest

import similia
from similia.trust.generations import Generations

pytest.importorskip("haystack", reason="needs haystack-ai: make integrations")

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from similia.integrations.haystack import QueryAdapter

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own making


def unit(rng, n):
    X = rng.normal(size=(n, 6))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def search(adapter, X):
    """Pipeline from a query's embedding to documents, and the store behind it."""
    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    store.write_documents(
        [Document(id=str(i), content=str(i), embedding=x.tolist()) for i, x in enumerate(X)]
    )
    pipeline = Pipeline()
    pipeline.add_component("adapter", adapter)
    pipeline.add_component(
        "retriever",
        InMemoryEmbeddingRetriever(store, top_k=5, scale_score=False, return_embedding=True),
    )
    pipeline.connect("adapter.embedding", "retriever.query_embedding")

    def find(q):
        return pipeline.run({"adapter": {"embedding": q.tolist()}})["retriever"]["documents"]

    return find, store, pipeline


def test_a_pipeline_finds_what_exact_search_finds_and_documents_stay(rng):
    X, q = unit(rng, 20), unit(rng, 1)
    learner = similia.OASIS().learn(X, rng.integers(20, size=(60, 3)))
    find, store, _ = search(QueryAdapter(learner), X)
    expected = np.argsort(-learner.pairwise_score(q, X)[0])[:5]
    assert [document.id for document in find(q[0])] == [str(i) for i in expected]
    for document in store.filter_documents():
        assert document.embedding == X[int(document.id)].tolist()


def test_feedback_takes_effect_at_the_next_search(rng):
    X, q = unit(rng, 20), unit(rng, 1)[0]
    adapter = QueryAdapter(similia.OASIS(average=False, C=100.0))
    find, _, _ = search(adapter, X)
    first, *_, last = find(q)
    for _ in range(20):
        adapter.feedback(q, last, first)
    names = [document.id for document in find(q)]
    assert names.index(last.id) < (names.index(first.id) if first.id in names else 5)


def test_promotions_and_rollbacks_are_followed_without_restart(rng, tmp_path):
    X, q = unit(rng, 20), unit(rng, 1)
    learner = similia.OASIS().learn(X, rng.integers(20, size=(60, 3)))
    adapter = QueryAdapter(tmp_path)
    assert adapter.run(q[0].tolist())["embedding"] == q[0].tolist()
    generations = Generations(tmp_path)
    with generations.changing():
        generations.promote(learner, {})
    assert adapter.run(q[0].tolist())["embedding"] == learner.query_vectors(q)[0].tolist()
    generations.roll_back(None)
    assert adapter.run(q[0].tolist())["embedding"] == q[0].tolist()


def test_a_pipeline_with_a_path_can_be_written_and_read(rng, tmp_path):
    X = unit(rng, 20)
    _, _, pipeline = search(QueryAdapter(tmp_path), X)
    options = {}
    if "allowed_modules" in inspect.signature(Pipeline.loads).parameters:  # since version 3
        options["allowed_modules"] = ["similia.integrations.haystack"]
    again = Pipeline.loads(pipeline.dumps(), **options)
    assert again.get_component("adapter").model.path == tmp_path
    with pytest.raises(ValueError, match="must be a path to be serialised"):
        QueryAdapter(similia.OASIS()).to_dict()


def test_feedback_says_what_it_lacks(rng, tmp_path):
    x, y = unit(rng, 2)
    with pytest.raises(ValueError, match="QueryAdapter: learner must be given"):
        QueryAdapter(tmp_path).feedback(x, x, y)
    with pytest.raises(ValueError, match="return_embedding=True"):
        QueryAdapter(similia.OASIS()).feedback(x, Document(content="a"), y)
    challenger = similia.OASIS()
    QueryAdapter(tmp_path, learner=challenger).feedback(x, x, y)
    assert challenger.n_seen_ == 1
