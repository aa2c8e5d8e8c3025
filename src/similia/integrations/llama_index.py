"""LlamaIndex: an embedding with learnt queries, and a retriever that takes feedback.

Nodes are embedded by the base and stored as they are; only queries change. The store must compare
by inner product, or hold vectors of length one.
"""

import os
from typing import Any

from similia.contract import Searchable
from similia.exceptions import MissingExtraError
from similia.integrations.in_use import InUse

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
    from pydantic import PrivateAttr
except ImportError as error:
    raise MissingExtraError(
        "similia.integrations.llama_index", "llama-index-core", "llama-index"
    ) from error


class AdaptedEmbedding(BaseEmbedding):
    """Embedding whose queries are mapped by the model in use.

    Parameters
    ----------
    base : BaseEmbedding
        What the nodes were embedded with.
    model : learner or path
        A learner, a saved model, or a folder of `similia promote`, which is followed: a promotion
        or a rollback takes effect at the next query.
    """

    base: BaseEmbedding
    _model: InUse = PrivateAttr()

    def __init__(self, base: BaseEmbedding, model: Searchable | str | os.PathLike[str]) -> None:
        super().__init__(
            base=base, model_name=base.model_name, embed_batch_size=base.embed_batch_size
        )
        self._model = InUse(type(self).__name__, model)

    @property
    def model(self) -> InUse:
        """The model that maps queries at present."""
        return self._model

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._model.query_vector(self.base.get_query_embedding(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._model.query_vector(await self.base.aget_query_embedding(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.base.get_text_embedding(text)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await self.base.aget_text_embedding(text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self.base.get_text_embedding_batch(texts)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self.base.aget_text_embedding_batch(texts)


class RetrieverWithFeedback(BaseRetriever):
    """Wrapper of a retriever that can be told which node is better.

    Parameters
    ----------
    retriever : BaseRetriever
        Such as ``index.as_retriever()`` of an index with `embedding` as its ``embed_model``.
    embedding : AdaptedEmbedding
    learner : learner of triplets, optional
        What feedback teaches: by default the learner of `embedding`, and so live at the next
        search. If `embedding` follows a folder, pass a learner of your own, to be promoted into
        that folder when it has proved itself.
    """

    def __init__(
        self, retriever: BaseRetriever, embedding: AdaptedEmbedding, *, learner: Any = None
    ) -> None:
        super().__init__()
        embedding.model.check_teachable(type(self).__name__, learner)
        self.retriever, self.embedding, self.learner = retriever, embedding, learner

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.retriever.retrieve(query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self.retriever.aretrieve(query_bundle)

    def feedback(
        self, query: str, better: NodeWithScore | BaseNode, worse: NodeWithScore | BaseNode
    ) -> None:
        """Teach that one node answers a query better than another."""
        base = self.embedding.base
        self.embedding.model.prefer(
            type(self).__name__,
            self.learner,
            base.get_query_embedding(query),
            *base.get_text_embedding_batch([_embedded(better), _embedded(worse)]),
        )


class RerankPostprocessor(BaseNodePostprocessor):
    """Reorders nodes by a model that learnt from texts, and keeps the first `top_n`."""

    reranker: Any
    top_n: int | None = None

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("RerankPostprocessor: query must be given, got none.")
        rows = [(node.node.get_content(), node.node.metadata) for node in nodes]
        found = self.reranker.rerank(query_bundle.query_str, rows, k=self.top_n)
        return [NodeWithScore(node=nodes[place].node, score=score) for place, score in found]


def _embedded(node: NodeWithScore | BaseNode) -> str:
    """Text of a node as embedded, with its embedding metadata."""
    inner = node.node if isinstance(node, NodeWithScore) else node
    return inner.get_content(metadata_mode=MetadataMode.EMBED)
