"""Vectors of texts by a model on this machine, kept beside the texts."""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import MissingExtraError
from similia.progress import progress
from similia.safety.whole import replacing

#: a function from texts to vectors
Encode: TypeAlias = Callable[[list[str]], Any]

#: texts that are embedded at a time
AT_ONCE = 256
#: says that a name or folder is one of fastembed
FASTEMBED = "fastembed:"
#: where exports of a model have their graph
GRAPHS = ("onnx/model.onnx", "model.onnx")


def embedded(model: str, texts: Sequence[str], path: Path | None = None) -> NDArray[np.float32]:
    """Vectors of texts, of unit length, by the model of a folder or of a name.

    With `path`, the file of the texts, vectors are kept in a file beside it, and only those of new
    texts are made; those made before an interruption are kept, too.
    """
    kept = None if path is None else path.with_name(f"{path.name}.vectors.npz")
    digests = [hashlib.sha256(f"{model}\0{text}".encode()).digest()[:16] for text in texts]
    known = {} if kept is None or not kept.exists() else _read(kept)
    new = {d: text for d, text in zip(digests, texts, strict=True) if d not in known}
    if new:
        try:
            _make(model, new, known)
        finally:
            if kept is not None:
                _write(kept, {d: known[d] for d in dict.fromkeys(digests) if d in known})
    return np.array([known[digest] for digest in digests], np.float32)


def _make(model: str, new: dict[bytes, str], known: dict[bytes, NDArray[np.float32]]) -> None:
    """Add vectors of new texts to those that are known."""
    embed, names = load_embedder(model), list(new)
    with progress(f"Embedding {len(new)} texts", len(new)) as advance:
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            vectors = np.asarray(embed([new[name] for name in some]), np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            known |= zip(some, vectors / np.where(lengths > 0, lengths, 1), strict=True)
            advance(len(some))


def _write(path: Path, known: dict[bytes, NDArray[np.float32]]) -> None:
    """Keep vectors of the present texts and model, and no others."""
    if not known:
        return
    rows = np.array([list(digest) for digest in known], np.uint8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, texts=rows, vectors=np.array(list(known.values())))


def _read(path: Path) -> dict[bytes, NDArray[np.float32]]:
    """Vectors by the digests of their texts."""
    try:
        with np.load(path) as file:
            names, vectors = file["texts"], file["vectors"]
            return {bytes(name): row for name, row in zip(names, vectors, strict=True)}
    except Exception as error:  # whatever the contents cause, the file is at fault
        raise ValueError(f"{path}: vectors kept could not be read; delete it.") from error


# -- models, by the library that reads them --------------------------------------------------------


@lru_cache(maxsize=2)
def load_embedder(model: str) -> Encode:
    """Load the model of a folder or a name, once."""
    if model.startswith(FASTEMBED):
        return _fastembed(model.removeprefix(FASTEMBED))
    folder = Path(model)
    if _is_static(folder) or (not folder.is_dir() and "potion" in model):
        return _model2vec(model)
    if folder.is_dir() and not (folder / "modules.json").exists() and _graph(folder):
        return _fastembed(model)
    return _sentence_transformers(model)


def _sentence_transformers(model: str) -> Encode:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError("--embed", "sentence_transformers", "embed") from error
    found = SentenceTransformer(model)
    return lambda texts: found.encode(texts, show_progress_bar=False)


def _model2vec(model: str) -> Encode:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise MissingExtraError("--embed", "model2vec", "model2vec") from error
    encode: Encode = StaticModel.from_pretrained(model).encode
    return encode


def _fastembed(model: str) -> Encode:
    """One of fastembed's models by its name, or the graph of a folder."""
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise MissingExtraError("--embed", "fastembed", "fastembed") from error
    folder = Path(model)
    if folder.is_dir():
        _register(TextEmbedding, folder)
        found = TextEmbedding(str(folder), specific_model_path=str(folder))
    else:
        found = TextEmbedding(model)
    return lambda texts: list(found.embed(texts))


def _register(library: Any, folder: Path) -> None:
    """Tell fastembed of a folder, as sentence-transformers and optimum write it."""
    from fastembed.common.model_description import ModelSource, PoolingType

    graph, config = _graph(folder), _json(folder / "config.json")
    if graph is None or "hidden_size" not in config:
        raise ValueError(
            f"--embed: {folder} must hold {' or '.join(GRAPHS)}, tokenizer.json, and config.json "
            "with hidden_size, got a folder without."
        )
    if any(known["model"] == str(folder) for known in library.list_supported_models()):
        return
    first = _json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token", False)
    library.add_custom_model(
        model=str(folder),
        pooling=PoolingType.CLS if first else PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url=folder.resolve().as_uri()),
        dim=config["hidden_size"],
        model_file=graph,
    )


def _graph(folder: Path) -> str | None:
    return next((name for name in GRAPHS if (folder / name).is_file()), None)


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found if isinstance(found, dict) else {}


def _is_static(folder: Path) -> bool:
    """Whether a folder holds a model of model2vec."""
    told = [folder / name for name in ("config.json", "modules.json")]
    texts = [path.read_text(encoding="utf-8") for path in told if path.exists()]
    return any("model2vec" in text or "StaticEmbedding" in text for text in texts)
