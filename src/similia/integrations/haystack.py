"""Haystack: a component between the embedder of queries and the retriever.

Documents are embedded by the base and stored as they are; only queries change. The store must
compare by inner product, or hold vectors of length one.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from similia.contract import Searchable
from similia.exceptions import MissingExtraError
from similia.integrations.in_use import InUse
from similia.integrations.reranking import TextReranker

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtraError("similia.integrations.haystack", "haystack-ai", "haystack") from error


@component
class QueryAdapter:
    """Maps the embedding of a query by the model in use.

    Parameters
    ----------
    model : learner or path
        A learner, a saved model, or a folder of `similia promote`, which is followed: a promotion
        or a rollback takes effect at the next query. Pipelines with a path can be serialised.
    learner : learner of triplets, optional
        What feedback teaches: by default `model`, and so live at the next search. If `model` is a
        folder, pass a learner of your own, to be promoted into it when it has proved itself.
    """

    def __init__(self, model: Searchable | str | os.PathLike[str], *, learner: Any = None) -> None:
        owner = type(self).__name__
        self.model, self.learner = InUse(owner, model), learner
        self.model.check_teachable(owner, learner)

    @component.output_types(embedding=list[float])
    def run(self, embedding: list[float]) -> dict[str, list[float]]:
        """Map an embedding of the base to the one to search with."""
        return {"embedding": self.model.query_vector(embedding)}

    def feedback(
        self,
        embedding: Sequence[float],
        better: Document | Sequence[float],
        worse: Document | Sequence[float],
    ) -> None:
        """Teach that one document answers a query better than another.

        The query is the embedding of the base. Documents need theirs: retrievers return it with
        ``return_embedding=True``.
        """
        vectors = [_vector(one) for one in (better, worse)]
        self.model.prefer(type(self).__name__, self.learner, embedding, *vectors)

    def to_dict(self) -> dict[str, Any]:
        """Serialise, if the model is a path."""
        if self.model.path is None:
            raise ValueError(
                "QueryAdapter: model must be a path to be serialised, got a learner; save it with "
                "similia.save, or promote it into a folder."
            )
        return default_to_dict(self, model=str(self.model.path))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "QueryAdapter":
        """Component that `to_dict` serialised."""
        return default_from_dict(cls, data)


@component
class Reranker:
    """Reorders documents by a model that learnt from texts.

    Parameters
    ----------
    reranker : similia.integrations.reranking.TextReranker
    top_k : int, optional
        The most documents to keep.
    """

    def __init__(self, reranker: TextReranker, *, top_k: int | None = None) -> None:
        self.reranker, self.top_k = reranker, top_k

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """The best documents, in order."""
        rows = [(one.content or "", one.meta) for one in documents]
        found = self.reranker.rerank(query, rows, k=self.top_k if top_k is None else top_k)
        return {"documents": [replace(documents[place], score=score) for place, score in found]}


def _vector(one: Document | Sequence[float]) -> Sequence[float]:
    if not isinstance(one, Document):
        return one
    if one.embedding is None:
        raise ValueError(
            "QueryAdapter: document must have its embedding; ask the retriever for it with "
            "return_embedding=True."
        )
    return one.embedding
