import asyncio

import numpy as np
import pytest

import similia
from similia.trust.generations import Generations

pytest.importorskip("llama_index.core", reason="needs llama-index-core: make integrations")

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode

from similia.integrations.llama_index import AdaptedEmbedding, RetrieverWithFeedback

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own making
TEXTS = [f"text {i}" for i in range(12)]


class Fixed(BaseEmbedding):
    """Unit vectors that depend on the text alone."""

    def _get_text_embedding(self, text):
        vector = np.random.default_rng(list(text.encode())).normal(size=6)
        return (vector / np.linalg.norm(vector)).tolist()

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


def learnt(rng):
    X = np.array(Fixed().get_text_embedding_batch(TEXTS))
    return similia.OASIS().learn(X, rng.integers(len(X), size=(40, 3)))


def retriever(embedding, **options):
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=embedding)
    inner = index.as_retriever(similarity_top_k=3)
    return RetrieverWithFeedback(inner, embedding, **options)


def test_documents_are_those_of_the_base_bit_by_bit(rng):
    embedding = AdaptedEmbedding(Fixed(), learnt(rng))
    expected = Fixed().get_text_embedding_batch(TEXTS)
    assert embedding.get_text_embedding_batch(TEXTS) == expected
    assert embedding.get_text_embedding(TEXTS[0]) == expected[0]
    assert asyncio.run(embedding.aget_text_embedding_batch(TEXTS)) == expected


def test_queries_are_mapped_by_the_learner(rng):
    learner = learnt(rng)
    embedding = AdaptedEmbedding(Fixed(), learner)
    base = np.array([Fixed().get_query_embedding("q")])
    expected = learner.query_vectors(base)[0].tolist()
    assert embedding.get_query_embedding("q") == expected
    assert asyncio.run(embedding.aget_query_embedding("q")) == expected


def test_feedback_takes_effect_at_the_next_search():
    learner = similia.OASIS(average=False, C=100.0)
    search = retriever(AdaptedEmbedding(Fixed(), learner))
    first, *_ = found = search.retrieve("q")
    shown = {one.node.get_content() for one in found}
    last = next(TextNode(text=text) for text in TEXTS if text not in shown)
    for _ in range(20):
        search.feedback("q", last, first)
    now = [one.node.get_content() for one in search.retrieve("q")]
    assert last.get_content() in now
    assert first.node.get_content() not in now[: now.index(last.get_content())]
    assert learner.n_seen_ == 20
    assert [one.node.get_content() for one in asyncio.run(search.aretrieve("q"))] == now


def test_promotions_and_rollbacks_are_followed_without_restart(rng, tmp_path):
    generations = Generations(tmp_path)
    embedding = AdaptedEmbedding(Fixed(), tmp_path)
    base = Fixed().get_query_embedding("q")
    assert embedding.get_query_embedding("q") == base
    learner = learnt(rng)
    with generations.changing():
        generations.promote(learner, {})
    expected = learner.query_vectors(np.array([base]))[0].tolist()
    assert embedding.get_query_embedding("q") == expected
    generations.roll_back(None)
    assert embedding.get_query_embedding("q") == base


def test_feedback_on_a_folder_needs_a_learner_of_its_own(tmp_path):
    embedding = AdaptedEmbedding(Fixed(), tmp_path)
    better, worse = (TextNode(text=text) for text in TEXTS[:2])
    with pytest.raises(ValueError, match="RetrieverWithFeedback: learner must be given"):
        retriever(embedding).feedback("q", better, worse)
    challenger = similia.OASIS()
    retriever(embedding, learner=challenger).feedback("q", better, worse)
    assert challenger.n_seen_ == 1
