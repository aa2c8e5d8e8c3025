"""LangChain: embeddings with learnt queries, and a retriever that takes feedback.

Documents are embedded by the base and stored as they are; only queries change. The store must
compare by inner product, or hold vectors of length one.
"""

import os
from collections.abc import Sequence
from typing import Any

from similia.contract import Searchable
from similia.exceptions import MissingExtraError
from similia.integrations.in_use import InUse

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
except ImportError as error:
    raise MissingExtraError(
        "similia.integrations.langchain", "langchain-core", "langchain"
    ) from error


class AdaptedEmbeddings(Embeddings):
    """Embeddings whose queries are mapped by the model in use.

    Parameters
    ----------
    base : Embeddings
        What the documents were embedded with.
    model : learner or path
        A learner, a saved model, or a folder of `similia promote`, which is followed: a promotion
        or a rollback takes effect at the next query.
    """

    def __init__(self, base: Embeddings, model: Searchable | str | os.PathLike[str]) -> None:
        self.base = base
        self.model = InUse(type(self).__name__, model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of the base, unchanged."""
        return self.base.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Vector to search with."""
        return self.model.query_vector(self.base.embed_query(text))


class RerankingCompressor(BaseDocumentCompressor):
    """Reorders the documents of any retriever by a model that learnt from texts.

    Metadata of a document are the columns that it shares with the items learnt from. `n` is the
    most documents to keep.
    """

    reranker: Any
    n: int | None = None

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        """The best documents, in order."""
        rows = [(one.page_content, one.metadata) for one in documents]
        return [documents[place] for place, _ in self.reranker.rerank(query, rows, k=self.n)]


class FeedbackRetriever(BaseRetriever):
    """Retriever over a vector store that can be told which document is better.

    `learner` is what feedback teaches: a learner of triplets. By default it is the learner of
    `embeddings`, and so takes effect at the next search. If `embeddings` follow a folder, pass a
    learner of your own, to be promoted into that folder when it has proved itself.
    """

    store: VectorStore
    embeddings: AdaptedEmbeddings
    learner: Any = None
    k: int = 4

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a learner that cannot take feedback."""
        super().model_post_init(context)
        self.embeddings.model.check_teachable(type(self).__name__, self.learner)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        vector = self.embeddings.embed_query(query)
        return self.store.similarity_search_by_vector(vector, k=self.k if k is None else k)

    def feedback(self, query: str, better: Document | str, worse: Document | str) -> None:
        """Teach that one document answers a query better than another; by document or text."""
        base = self.embeddings.base
        texts = [one if isinstance(one, str) else one.page_content for one in (better, worse)]
        self.embeddings.model.prefer(
            type(self).__name__,
            self.learner,
            base.embed_query(query),
            *base.embed_documents(texts),
        )
