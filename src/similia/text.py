"""Texts as a view: BM25 as an inner product."""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from similia.validation import Rule, check_parameters, non_negative


class BM25(BaseEstimator):
    """Sparse text vectors whose inner product is the BM25 score [Robertson2009]_.

    Items carry the weights of their words; queries count theirs.

    Parameters
    ----------
    k1 : float, default=1.2
        How soon further occurrences of a word stop counting.
    b : float, default=0.75
        How far long texts are discounted: 0 not at all, 1 in proportion to their length.
    stop_words : str, list of str or None, default="english"
        Words to leave out, as in scikit-learn's CountVectorizer.

    References
    ----------
    .. [Robertson2009] S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and
       Beyond", Foundations and Trends in Information Retrieval 3(4), 2009.

    Examples
    --------
    >>> from similia import BM25
    >>> bm25 = BM25().fit(["red shoes", "blue shoes", "a red hat"])
    >>> scores = bm25.queries(["red hat"]) @ bm25.items(["a red hat", "blue shoes"]).T
    >>> print(scores.toarray().round(2))
    [[1.45 0.  ]]
    """

    def __init__(
        self, k1: float = 1.2, b: float = 0.75, stop_words: str | list[str] | None = "english"
    ) -> None:
        self.k1 = k1
        self.b = b
        self.stop_words = stop_words

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array = True, True
        tags.input_tags.two_d_array = False
        return tags

    def fit(self, texts: Iterable[str], y: None = None) -> Self:
        """Learn the vocabulary, word rarity and mean length from the items."""
        share = Rule("a number from 0 to 1", lambda b: 0 <= b <= 1, kind=Real)
        check_parameters("BM25", {"k1": non_negative, "b": share}, vars(self))
        self.counter_ = CountVectorizer(stop_words=self.stop_words, dtype=np.float32)
        counts = sparse.csr_array(self.counter_.fit_transform(_checked(texts)))
        n, frequency = counts.shape[0], np.bincount(counts.indices, minlength=counts.shape[1])
        self.rarity_ = np.log1p((n - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
        self.mean_length_ = float(counts.sum()) / n
        return self

    def state(self) -> dict[str, Any]:
        """Parameters and statistics as plain values and arrays of numbers."""
        check_is_fitted(self)
        words = "\n".join(self.counter_.get_feature_names_out()).encode()
        learnt = {"rarity": self.rarity_, "mean_length": self.mean_length_}
        return {**self.get_params(), **learnt, "words": np.frombuffer(words, np.uint8)}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The fitted object of a state; raises ValueError for a damaged one."""
        words = bytes(state["words"]).decode().split("\n")
        found = cls(state["k1"], state["b"], state["stop_words"])
        if len(words) != len(state["rarity"]) or len(set(words)) != len(words):
            raise ValueError("BM25: words must be different, each with its rarity.")
        found.counter_ = CountVectorizer(
            stop_words=found.stop_words, dtype=np.float32, vocabulary=words
        )
        found.rarity_, found.mean_length_ = state["rarity"], state["mean_length"]
        return found

    def both(self, texts: Iterable[str]) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The same texts as items and as queries."""
        counts = self.queries(texts)
        return self._weighed(counts.copy()), counts

    def items(self, texts: Iterable[str]) -> sparse.csr_array:
        """Weights of the words in each text, for the side that is searched."""
        return self._weighed(self.queries(texts))

    def _weighed(self, counts: sparse.csr_array) -> sparse.csr_array:
        lengths = np.asarray(counts.sum(axis=1)).ravel() / self.mean_length_
        penalty = self.k1 * (1 - self.b + self.b * lengths)
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        saturated = counts.data * (self.k1 + 1) / (counts.data + penalty[row])
        counts.data = (saturated * self.rarity_[counts.indices]).astype(np.float32)
        return counts

    def queries(self, texts: Iterable[str]) -> sparse.csr_array:
        """Counts of the words in each text, for the side that searches."""
        check_is_fitted(self)
        return sparse.csr_array(self.counter_.transform(_checked(texts)))


def _checked(texts: Iterable[str]) -> list[str]:
    """The texts as a list; raise unless each is a string."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(
            f"BM25: texts must be several, such as a list, got {type(texts).__name__}."
        )
    found = list(texts)
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueError(
                f"BM25: texts must be strings, got {text!r:.60} in row {row}; put '' for none."
            )
    return found
