"""MTEB: an encoder whose queries are mapped by the model in use.

MTEB tells an encoder whether it embeds queries or documents of a retrieval task. Queries are
mapped; documents, and both sides of tasks that have no queries, are those of the base.
"""

import os
from typing import Any

import numpy as np

from similia.contract import Array, Searchable
from similia.exceptions import MissingExtraError
from similia.integrations.in_use import InUse

try:
    import torch
    from mteb.models.model_meta import ModelMeta, ScoringFunction
    from mteb.types import PromptType
except ImportError as error:
    raise MissingExtraError("similia.integrations.mteb", "mteb", "mteb") from error


class AdaptedEncoder:
    """MTEB's ``EncoderProtocol`` around another encoder, for ``mteb.evaluate``.

    Scores are inner products, as learnt. So the base must embed into vectors of length one if it
    is meant to be compared by cosines.

    Parameters
    ----------
    base : EncoderProtocol
        Such as ``mteb.get_model("…")``.
    model : learner or path
        A learner, a saved model, or a folder of `similia promote`.
    name : str
        Under which MTEB stores results, as ``organisation/name``.
    """

    def __init__(
        self,
        base: Any,
        model: Searchable | str | os.PathLike[str],
        *,
        name: str = "similia/adapted",
    ) -> None:
        self.base, self.model = base, InUse(type(self).__name__, model)
        changed = {"name": name, "similarity_fn_name": ScoringFunction.DOT_PRODUCT, "loader": None}
        self._meta: ModelMeta = base.mteb_model_meta.model_copy(update=changed)

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Metadata of the base, under a name of its own."""
        return self._meta

    def encode(self, inputs: Any, *, prompt_type: PromptType | None = None, **others: Any) -> Array:
        """Vectors of the base, mapped if they are of queries."""
        vectors = _as_array(self.base.encode(inputs, prompt_type=prompt_type, **others))
        learner = self.model.learner()
        if prompt_type != PromptType.query or learner is None:
            return vectors
        return np.asarray(learner.query_vectors(vectors))

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """All inner products."""
        return torch.from_numpy(_as_array(embeddings1) @ _as_array(embeddings2).T)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:
        """Inner products of corresponding vectors."""
        products = np.einsum("ij,ij->i", _as_array(embeddings1), _as_array(embeddings2))
        return torch.from_numpy(products)


def _as_array(vectors: Any) -> Array:
    """NumPy array, without a copy if the vectors are in main memory."""
    if isinstance(vectors, torch.Tensor):
        vectors = vectors.detach().cpu().float().numpy()
    return np.asarray(vectors)
