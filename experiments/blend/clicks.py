"""People search, look down a list of twenty and click; what is clicked is all that is learnt from.

The base ranks, with a little jitter. Place r is examined with probability r^-0.6. What is examined
is clicked if it is relevant; a share of the relevance is flipped, and half of it leaves pure noise.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from experiments.datasets import load_newsgroups, load_newsgroups_embeddings, load_retrieval
from similia import BM25, Impressions, Views
from similia.contract import Array, Indices

SHOWN, JITTER, EXAMINATION = 20, 0.02, 0.6
#: probability that a place is looked at
EXAMINED = np.arange(1, SHOWN + 1) ** -EXAMINATION
CUT = 10
#: queries ranked at each checkpoint, at most
RANKED = 300
#: messages of 20 Newsgroups that are queries; the test half are items
MESSAGES = 1500
SETS = ("cranfield", "cisi", "scifact", "nfcorpus", "newsgroups")
#: least grade that counts as relevant: the marginal of Cranfield do not
LEAST = {"cranfield": 2}


@dataclass(frozen=True)
class Collection:
    """Queries and items as views, their scores (m, n) by view, and grades (m, n)."""

    name: str
    queries: Views
    items: Views
    scores: dict[str, NDArray[np.float32]]
    grades: NDArray[np.int8]

    @property
    def base(self) -> NDArray[np.float32]:
        return self.scores["meaning"]

    @property
    def relevant(self) -> NDArray[np.bool_]:
        return self.grades >= LEAST.get(self.name, 1)


class Log(NamedTuple):
    """Lists that were shown: query (n,), items (n, 20), and what people gave them (n, 20).

    The last, (n, 20), is the probability with which an item was looked at.
    """

    queries: Indices
    shown: Indices
    gains: NDArray[np.float64]
    examined: NDArray[np.float64]

    def part(self, chosen: Any) -> "Log":
        return Log(*(array[chosen] for array in self))

    def impressions(self, *, trusted: bool = False) -> Impressions:
        n = len(self.queries)
        return Impressions.from_rows(
            np.repeat(self.queries, SHOWN),
            self.shown.ravel(),
            self.gains.ravel(),
            impression=np.repeat(np.arange(n), SHOWN),
            position=np.tile(np.arange(1, SHOWN + 1), n),
            trusted=trusted,
        )

    def triplets(self, rng: np.random.Generator, most: int = 6) -> Indices:
        """Each clicked item above at most so many of the list that gained less."""
        found = []
        for query, shown, gains, _ in zip(*self, strict=True):
            for place in np.flatnonzero(gains > 0):
                worse = np.flatnonzero(gains < gains[place])
                worse = rng.permutation(worse)[:most]
                found += [(query, shown[place], shown[other]) for other in worse]
        return np.array(found, dtype=np.intp).reshape(-1, 3)


class Split(NamedTuple):
    """Queries that are searched for, others that never are, and the log of the searches."""

    train: Indices
    new: Indices
    log: Log

    def seen(self, step: int) -> Indices:
        """Queries of the first searches."""
        return np.unique(self.log.queries[:step])[:RANKED]


@lru_cache(maxsize=1)
def collection(name: str) -> Collection:
    """A set with sentence vectors, tf-idf, BM25 and the logarithm of the length of items."""
    if name == "newsgroups":
        asked, texts, Q, Z, grades = _messages()
    else:
        data = load_retrieval(name)
        asked, Q, Z, grades = data.query_texts, data.queries, data.docs, data.relevance.toarray()
        pairs = zip(data.doc_titles, data.doc_texts, strict=True)
        texts = [f"{title or ''} {text or ''}" for title, text in pairs]
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", dtype=np.float32)
    bm25 = BM25().fit(texts)
    items = Views(
        meaning=_unit(Z),
        words=sparse.csr_array(words.fit_transform(texts)),
        bm25=bm25.items(texts),
        length=np.log1p(np.array([len(text) for text in texts], dtype=np.float32)),
    )
    queries = Views(
        meaning=_unit(Q), words=sparse.csr_array(words.transform(asked)), bm25=bm25.queries(asked)
    )
    scores = {name: _products(queries[name], items[name]) for name in queries}
    scores["length"] = np.broadcast_to(items["length"].T, grades.shape)
    return Collection(name, queries, items, scores, grades.astype(np.int8))


def split(data: Collection, seed: int, searches: int, flipped: float | None) -> Split:
    """Three quarters of the queries are searched for; `flipped` None is for honest full grades."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(data.relevant.any(axis=1)))
    train, new = np.split(order, [len(order) * 3 // 4])
    asked = rng.choice(train, searches)
    lists = [_search(data, query, flipped, rng) for query in asked]
    shown, gains = (np.array(given) for given in zip(*lists, strict=True))
    odds = np.broadcast_to(1.0 if flipped is None else EXAMINED, shown.shape)
    return Split(train, new[:RANKED], Log(asked, shown, gains.astype(float), odds))


def _search(data: Collection, query: int, flipped: float | None, rng: Any) -> tuple[Array, Array]:
    noisy = data.base[query] + JITTER * rng.standard_normal(data.base.shape[1], dtype=np.float32)
    shown = _first(noisy[None], SHOWN)[0]
    if flipped is None:
        return shown, data.grades[query, shown]
    examined = rng.random(SHOWN) < EXAMINED
    attractive = data.relevant[query, shown] ^ (rng.random(SHOWN) < flipped)
    return shown, examined & attractive


def ndcg(scores: Array, relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """nDCG@10 of each query; what is relevant gains 1."""
    discount = 1 / np.log2(np.arange(2, CUT + 2))
    found = np.take_along_axis(relevant, _first(scores, CUT), axis=1) @ discount
    best = np.cumsum(discount)[np.minimum(relevant.sum(axis=1), CUT) - 1]
    return found / best


def _first(scores: Array, k: int) -> Indices:
    """Columns of the k highest scores of each row, the highest first."""
    some = np.argpartition(-scores, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def _messages() -> tuple[Any, ...]:
    """Some messages of the training half as queries; those of their group are relevant."""
    data, texts = load_newsgroups_embeddings(), load_newsgroups(quotes=False).texts
    rows = np.random.default_rng(0).permutation(np.flatnonzero(data.train))[:MESSAGES]
    items = np.flatnonzero(~data.train)
    grades = data.y[rows][:, None] == data.y[items]
    return [texts[i] for i in rows], [texts[i] for i in items], data.X[rows], data.X[items], grades


def _products(Q: Any, Z: Any) -> NDArray[np.float32]:
    found = Q @ Z.T
    return np.asarray(found.toarray() if sparse.issparse(found) else found, dtype=np.float32)


def _unit(X: Array) -> NDArray[np.float32]:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.maximum(lengths, 1e-9)).astype(np.float32)
