"""A collection that is searched: its views, its candidates and what is relevant."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import load_retrieval
from similia import BM25, Views
from similia.contract import Array, Indices

#: items shown by a search
SHOWN = 10
#: items that each of the two searches, by vectors and by words, hands on as candidates
DEPTH = 100
#: constant of reciprocal ranks
RRF = 60
#: reciprocal ranks are often equal; more than this tells two of them apart
TIE_BREAK = 1e-6
#: least grade that counts as relevant; elsewhere 1
LEAST_GRADE = {"cranfield": 2}
DISCOUNT = 1 / np.log2(np.arange(2, SHOWN + 2))
#: share of a query's words that a paraphrase loses, and of another query's vector that it takes on
WORDS_LOST, VECTOR_MOVED = 0.3, 0.35


@dataclass(frozen=True, eq=False)
class World:
    """Two searches over the same items, by vectors and by words.

    A query row asks about a `topic` (a row of `relevant`); paraphrases are further rows of their
    topic. Candidates of a query are the first items of both searches; `inside` is False where a row
    has fewer than others, and both scores of every candidate are known.
    """

    name: str
    queries: Views
    items: Views
    #: (n_queries,) row of `relevant` that each query asks about
    topics: Indices
    #: (n_topics, n_items)
    relevant: NDArray[np.bool_]
    #: (n_queries, 2 DEPTH)
    candidates: Indices
    inside: NDArray[np.bool_]
    #: scores of candidates, (n_queries, 2 DEPTH)
    cosine: Array
    words: Array
    #: first items by words, best first, (n_queries, DEPTH)
    first_words: Indices

    @property
    def vectors(self) -> tuple[Array, Array]:
        """Unit vectors of queries and items."""
        return self.queries["meaning"], self.items["meaning"]

    @cached_property
    def length(self) -> Array:
        """Logarithm of the length of each item, standardized."""
        length = np.asarray(self.items["length"]).ravel()
        return (length - length.mean()) / length.std()

    @cached_property
    def alike(self) -> Array:
        """Cosines between all items."""
        Z = self.vectors[1]
        return Z @ Z.T

    def ndcg(self, queries: Indices, shown: Indices, relevant: Any = None) -> Array:
        """nDCG@10 of what was shown for each query."""
        relevant = self.relevant if relevant is None else relevant
        topics = self.topics[queries]
        gains = relevant[topics[:, None], shown] @ DISCOUNT
        return gains / np.cumsum(DISCOUNT)[np.minimum(relevant[topics].sum(axis=1), SHOWN) - 1]

    def slots(self, queries: Indices, shown: Indices) -> Indices:
        """Where items that are candidates stand among them, of the shape of `shown`."""
        return (self.candidates[queries][:, None, :] == shown[:, :, None]).argmax(axis=2)

    def best(self, queries: Indices, scores: Array) -> Indices:
        """First items by scores of the candidates."""
        scores = np.where(self.inside[queries], scores, -np.inf)
        return np.take_along_axis(self.candidates[queries], first(scores, SHOWN), axis=1)


def first(scores: Array, k: int) -> Indices:
    """Columns of the k highest scores of each row, the highest first."""
    if scores.shape[1] > 4 * k:
        some = np.argpartition(-scores, k, axis=1)[:, :k]
    else:
        some = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order[:, :k], axis=1)


@lru_cache(maxsize=4)
def load_world(name: str, paraphrases: int = 0) -> World:
    """A collection of `experiments.datasets`, each query with so many paraphrases."""
    data = load_retrieval(name)
    titles = zip(data.doc_titles, data.doc_texts, strict=True)
    texts = [f"{title or ''} {text or ''}" for title, text in titles]
    bm25 = BM25().fit(texts)
    length = np.log1p(np.array([len(text) for text in texts], dtype=np.float32))
    items = Views(meaning=_unit(data.docs), words=bm25.items(texts), length=length)
    relevant = data.relevance.toarray() >= LEAST_GRADE.get(name, 1)
    rng = np.random.default_rng(0)
    topics = np.concatenate([np.arange(len(relevant))] * (1 + paraphrases))
    Q = _unit(data.queries)
    moved = Q[rng.integers(len(Q), size=len(topics) - len(Q))]
    vectors = np.vstack([Q, _unit(Q[topics[len(Q) :]] + VECTOR_MOVED * moved)])
    asked = data.query_texts
    asked = asked + [_fewer_words(asked[topic], rng) for topic in topics[len(Q) :]]
    queries = Views(meaning=vectors, words=bm25.queries(asked))
    return make_world(name, queries, items, topics, relevant)


def make_world(
    name: str, queries: Views, items: Views, topics: Indices, relevant: NDArray[np.bool_]
) -> World:
    """Search twice for each query and join what was found."""
    Q, words = queries["meaning"], queries["words"]
    depth = min(DEPTH, relevant.shape[1])
    parts: list[list[Array]] = []
    for start in range(0, len(Q), 256):
        rows = slice(start, start + 256)
        cosine = Q[rows] @ items["meaning"].T
        bm25 = words[rows] @ items["words"].T
        bm25 = (bm25.toarray() if hasattr(bm25, "toarray") else bm25).astype(np.float32)
        found = [first(scores, depth) for scores in (cosine, bm25)]
        both, new = _union(*found)
        scores = [np.take_along_axis(given, both, axis=1) for given in (cosine, bm25)]
        parts.append([both, new, *scores, found[1]])
    joined = map(np.concatenate, zip(*parts, strict=True))
    return World(name, queries, items, topics, relevant, *joined)


def _union(one: Indices, other: Indices) -> tuple[Indices, NDArray[np.bool_]]:
    """Items of both lists of each row, and which of them are there for the first time."""
    both = np.sort(np.hstack([one, other]), axis=1)
    return both, np.diff(both, axis=1, prepend=-1) > 0


def _fewer_words(text: str, rng: np.random.Generator) -> str:
    words = np.array(text.split())
    kept = words[rng.random(len(words)) >= WORDS_LOST]
    return " ".join(kept if len(kept) else words)


def _unit(X: Array) -> NDArray[np.float32]:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.maximum(lengths, 1e-9)).astype(np.float32)
