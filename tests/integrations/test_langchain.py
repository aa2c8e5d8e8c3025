import numpy as np
import pytest

import similia
from similia.adapters import Adapters
from similia.registry import LEARNERS, learner_class
from similia.trust.generations import Generations

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from similia.integrations.langchain import AdaptedEmbeddings, FeedbackRetriever

TEXTS = [f"text {i}" for i in range(12)]


class Fixed(Embeddings):
    """Unit vectors that depend on the text alone."""

    def embed_query(self, text):
        vector = np.random.default_rng(list(text.encode())).normal(size=6)
        return (vector / np.linalg.norm(vector)).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def learnt(rng):
    X = np.array(Fixed().embed_documents(TEXTS))
    return similia.OASIS().learn(X, rng.integers(len(X), size=(40, 3)))


def retriever(embeddings, **options):
    store = InMemoryVectorStore(embeddings)
    store.add_documents([Document(text) for text in TEXTS])
    return FeedbackRetriever(store=store, embeddings=embeddings, k=3, **options)


def test_documents_are_those_of_the_base_bit_by_bit(rng):
    embeddings = AdaptedEmbeddings(Fixed(), learnt(rng))
    assert embeddings.embed_documents(TEXTS) == Fixed().embed_documents(TEXTS)


def test_queries_are_mapped_by_the_learner(rng):
    learner = learnt(rng)
    found = AdaptedEmbeddings(Fixed(), learner).embed_query("q")
    assert found == learner.query_vectors(np.array([Fixed().embed_query("q")]))[0].tolist()


def test_before_any_feedback_the_base_searches():
    assert AdaptedEmbeddings(Fixed(), similia.OASIS()).embed_query("q") == Fixed().embed_query("q")


def test_feedback_takes_effect_at_the_next_search():
    learner = similia.OASIS(average=False, C=100.0)
    search = retriever(AdaptedEmbeddings(Fixed(), learner))
    first, *_ = search.invoke("q")
    last = next(text for text in TEXTS if text not in {d.page_content for d in search.invoke("q")})
    for _ in range(20):
        search.feedback("q", last, first)
    found = [document.page_content for document in search.invoke("q")]
    assert last in found
    assert first.page_content not in found[: found.index(last)]
    assert learner.n_seen_ == 20


def test_promotions_and_rollbacks_are_followed_without_restart(rng, tmp_path):
    generations = Generations(tmp_path)
    embeddings = AdaptedEmbeddings(Fixed(), tmp_path)
    base = Fixed().embed_query("q")
    assert embeddings.embed_query("q") == base
    learner = learnt(rng)
    with generations.changing():
        generations.promote(learner, {})
    promoted = embeddings.embed_query("q")
    assert promoted == learner.query_vectors(np.array([base]))[0].tolist()
    generations.roll_back(None)
    assert embeddings.embed_query("q") == base


def test_a_saved_model_is_followed(rng, tmp_path):
    path = tmp_path / "model.safetensors"
    first, second = learnt(rng), learnt(rng)
    similia.save(first, path)
    embeddings = AdaptedEmbeddings(Fixed(), path)
    base = np.array([Fixed().embed_query("q")])
    assert embeddings.embed_query("q") == first.query_vectors(base)[0].tolist()
    similia.save(second, path)
    assert embeddings.embed_query("q") == second.query_vectors(base)[0].tolist()


def test_feedback_on_a_folder_needs_a_learner_of_its_own(tmp_path):
    embeddings = AdaptedEmbeddings(Fixed(), tmp_path)
    with pytest.raises(ValueError, match="learner must be given"):
        retriever(embeddings).feedback("q", TEXTS[0], TEXTS[1])
    challenger = similia.OASIS()
    retriever(embeddings, learner=challenger).feedback("q", Document(TEXTS[0]), TEXTS[1])
    assert challenger.n_seen_ == 1
    assert embeddings.embed_query("q") == Fixed().embed_query("q")


def test_a_missing_model_is_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model and no folder"):
        AdaptedEmbeddings(Fixed(), tmp_path / "none")


TEACHABLE = [name for name in LEARNERS if learner_class(name).learns_from == "triplets"]


@pytest.mark.parametrize("name", TEACHABLE)
def test_learners_of_triplets_learn_the_first_feedback(name):
    learner = learner_class(name)()
    retriever(AdaptedEmbeddings(Fixed(), learner)).feedback("q", TEXTS[0], TEXTS[1])
    assert learner.n_seen_ == 1
    assert len(retriever(AdaptedEmbeddings(Fixed(), learner)).invoke("q")) == 3


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in TEACHABLE])
def test_other_learners_are_refused_at_construction(name, tmp_path):
    """Distances move items, which the store holds as they are; classifiers have no vectors."""
    learner, names = learner_class(name)(), ", ".join(TEACHABLE)
    message = f"AdaptedEmbeddings: model must leave items as they are .{names}., got {name}"
    with pytest.raises(ValueError, match=message):
        AdaptedEmbeddings(Fixed(), learner)
    embeddings = AdaptedEmbeddings(Fixed(), tmp_path)
    message = f"FeedbackRetriever: learner must learn from triplets .{names}., got {name}"
    with pytest.raises(ValueError, match=message):
        retriever(embeddings, learner=learner)


def test_a_saved_model_that_moves_items_is_refused(rng, tmp_path):
    X = rng.normal(size=(20, 6))
    similia.save(similia.POLA().learn(X, [[0, 1]], [1]), tmp_path / "pola.safetensors")
    with pytest.raises(ValueError, match="model must leave items as they are"):
        AdaptedEmbeddings(Fixed(), tmp_path / "pola.safetensors")


def test_a_model_that_does_not_learn_is_searched_by_and_not_taught(rng):
    X = np.array(Fixed().embed_documents(TEXTS))
    user = Adapters().learn("ann", X, rng.integers(len(X), size=(40, 3))).of("ann")
    search = retriever(AdaptedEmbeddings(Fixed(), user))
    assert len(search.invoke("q")) == 3
    with pytest.raises(ValueError, match="learner must learn from triplets"):
        search.feedback("q", TEXTS[0], TEXTS[1])
