"""Rerank texts by a model, without an index."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from similia.contract import Searchable
from similia.integrations.in_use import InUse

#: a text, or a text and what else is known of it, by the columns of the items learnt from
Reranked: TypeAlias = str | tuple[str, Mapping[str, Any]]


class Placed(NamedTuple):
    """Position of a text, and its score."""

    place: int
    score: float


class TextReranker:
    """Reorders texts by a model that learnt from a table of texts.

    Parameters
    ----------
    model : learner or path
        A model of ``similia learn items.csv clicks.csv``, its file, or a folder of `similia
        promote`, which is followed; while the base is in use there, texts keep their order.
    """

    def __init__(self, model: Searchable | str | os.PathLike[str]) -> None:
        self.model = InUse("TextReranker", model)

    def rerank(self, query: str, texts: Sequence[Reranked], k: int | None = None) -> list[Placed]:
        """The best k texts, by place and score, best first; by default all of them.

        A text may be a pair: with a dictionary of further columns, such as its title and price.
        """
        if k is not None and k < 1:
            raise ValueError(f"TextReranker: k must be a positive integer, got {k}.")
        learner = self.model.learner()
        if learner is None or not texts:
            return [Placed(place, 0.0) for place in range(len(texts))][:k]
        layout = learner.layout_
        if not hasattr(layout, "views_of"):
            raise ValueError(
                "TextReranker: model must be learnt from a table of texts (similia learn "
                f"items.csv clicks.csv), got {type(learner).__name__} of vectors."
            )
        body = layout.columns("text")[-1:]
        pairs = [(one, {}) if isinstance(one, str) else one for one in texts]
        rows = [{**dict.fromkeys(body, text), **known} for text, known in pairs]
        asked = layout.queries([query]).X
        scores = learner.pairwise_score(asked, layout.views_of(rows)[1])[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return [Placed(place, float(scores[place])) for place in order.tolist()]
