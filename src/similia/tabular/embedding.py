"""Vectors of texts by a model on this machine, kept beside the texts."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import MissingExtraError
from similia.progress import progress
from similia.safety.whole import replacing

#: texts that are embedded at a time
AT_ONCE = 256


def embedded(model: str, texts: Sequence[str], path: Path | None = None) -> NDArray[np.float32]:
    """Vectors of texts, of unit length, by the model of a folder or of a name.

    With `path`, the file of the texts, vectors are kept in a file beside it, and only those of new
    texts are made.
    """
    kept = None if path is None else path.with_name(f"{path.name}.vectors.npz")
    digests = [hashlib.sha256(f"{model}\0{text}".encode()).digest()[:16] for text in texts]
    known = {} if kept is None or not kept.exists() else _read(kept)
    new = {d: text for d, text in zip(digests, texts, strict=True) if d not in known}
    if new:
        embed, names = load_embedder(model), list(new)
        with progress(f"Embedding {len(new)} texts", len(new)) as advance:
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                vectors = np.asarray(embed([new[name] for name in some]), np.float32)
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
                known |= zip(some, vectors / np.where(lengths > 0, lengths, 1), strict=True)
                advance(len(some))
    found = np.array([known[digest] for digest in digests], np.float32)
    if new and kept is not None:
        rows = np.array([list(digest) for digest in known], np.uint8)
        with replacing(kept) as temporary, open(temporary, "wb") as file:
            np.savez(file, texts=rows, vectors=np.array(list(known.values())))
    return found


def _read(path: Path) -> dict[bytes, NDArray[np.float32]]:
    """Vectors by the digests of their texts."""
    try:
        with np.load(path) as file:
            names, vectors = file["texts"], file["vectors"]
            return {bytes(name): row for name, row in zip(names, vectors, strict=True)}
    except Exception as error:  # whatever the contents cause, the file is at fault
        raise ValueError(f"{path}: vectors kept could not be read; delete it.") from error


def load_embedder(model: str) -> Callable[[list[str]], object]:
    """A function from texts to vectors."""
    if _is_static(model):
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise MissingExtraError("--embed", "model2vec", "model2vec") from error
        found = StaticModel.from_pretrained(model).encode
    else:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError("--embed", "sentence_transformers", "embed") from error
        found = SentenceTransformer(model).encode
    encode: Callable[[list[str]], object] = found
    return encode


def _is_static(model: str) -> bool:
    """Whether a model is one of model2vec, by what its folder or its name says."""
    folder = Path(model)
    if not folder.is_dir():
        return "potion" in model
    told = [folder / name for name in ("config.json", "modules.json")]
    texts = [path.read_text(encoding="utf-8") for path in told if path.exists()]
    return any("model2vec" in text or "StaticEmbedding" in text for text in texts)
