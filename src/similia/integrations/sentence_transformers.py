"""sentence-transformers: a learnt similarity as a model that loads without similia.

A saved `SentenceTransformer` is a folder: ``modules.json`` lists its modules in order, and each has
a folder of its own. `export` copies such a folder and appends a `Router` of two `Dense` modules:
queries pass through Wᵀ, documents through the identity, so that they equal those of the base bit by
bit and no index has to be built again. Neither torch nor sentence-transformers is needed to write.

``encode_query`` takes the route of queries, ``encode_document`` and plain ``encode`` that of
documents. Routers exist since sentence-transformers 5.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from similia.contract import Array, Searchable
from similia.exceptions import ModelFileError
from similia.integrations.in_use import query_map

MODULES_FILE, SETTINGS_FILE = "modules.json", "config_sentence_transformers.json"
ROUTER_TYPE, DENSE_TYPE = (
    "sentence_transformers.models.Router",
    "sentence_transformers.models.Dense",
)
QUERY_MODULE, DOCUMENT_MODULE = "query_0_Dense", "document_0_Dense"
DENSE_WEIGHT = "linear.weight"


def export(
    learner: Searchable, base: str | os.PathLike[str], folder: str | os.PathLike[str]
) -> None:
    """Write a model that embeds with the base and maps queries as learnt.

    Scores are inner products, and the new model says so (``similarity_fn_name``).

    Parameters
    ----------
    learner : fitted learner
        Of a bilinear similarity with a square W: FactoredAROMA, DiagonalAROMA or OASIS.
    base : path
        Folder that `SentenceTransformer.save` wrote.
    folder : path
        Folder to write, which must not exist. It appears whole or not at all.
    """
    W = _square_matrix(learner)
    base, folder = Path(base), Path(folder)
    if folder.exists():
        raise ValueError(f"export: folder must not exist, got {folder}; choose another name.")
    modules, settings = _read(base / MODULES_FILE), {}
    if (base / SETTINGS_FILE).exists():
        settings = _read(base / SETTINGS_FILE)
    if not isinstance(modules, list) or not modules or not isinstance(settings, dict):
        raise ValueError(f"export: base must be a saved SentenceTransformer, got {base}.")
    place = len(modules)
    name = f"{place}_Router"
    entry = {"idx": place, "name": str(place), "path": name, "type": ROUTER_TYPE}
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        shutil.copytree(base, temporary)
        _write(temporary / MODULES_FILE, [*modules, entry])
        _write(temporary / SETTINGS_FILE, {**settings, "similarity_fn_name": "dot"})
        _write_router(temporary / name, W)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def query_matrix_of(folder: str | os.PathLike[str]) -> Array:
    """W of an exported model, to continue from: ``OASIS(prior=W, prior_scale=1.0)``."""
    folder = Path(folder)
    # sentence-transformers itself names the module in which its version keeps the class
    routers = [
        one
        for one in _read(folder / MODULES_FILE)
        if one.get("type", "").rpartition(".")[2] == "Router"
    ]
    if not routers:
        raise ModelFileError(f"{folder} has no Router; pass a folder written by export.")
    path = folder / routers[-1]["path"] / QUERY_MODULE / "model.safetensors"
    try:
        return np.ascontiguousarray(load_file(path)[DENSE_WEIGHT].T)
    except (SafetensorError, KeyError) as error:
        raise ModelFileError(f"{path} is damaged: {error}; export the model again.") from error


def _square_matrix(learner: Any) -> Array:
    if getattr(learner, "geometry", None) != "inner_product":
        raise ValueError(
            "export: learner must be a bilinear similarity (FactoredAROMA, DiagonalAROMA, OASIS) "
            f"or a Blend of vectors alone, got {type(learner).__name__}."
        )
    W = query_map("export", learner)
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"export: W must be square, as one base embeds both, got {W.shape}.")
    return W


def _write_router(folder: Path, W: Array) -> None:
    folder.mkdir()
    for name, weight in ((QUERY_MODULE, W.T), (DOCUMENT_MODULE, np.eye(len(W)))):
        (folder / name).mkdir()
        tensor = np.ascontiguousarray(weight, dtype=np.float32)
        save_file({DENSE_WEIGHT: tensor}, folder / name / "model.safetensors", {"format": "pt"})
        settings = {
            "in_features": len(W),
            "out_features": len(W),
            "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        _write(folder / name / "config.json", settings)
    routes = {
        "types": {QUERY_MODULE: DENSE_TYPE, DOCUMENT_MODULE: DENSE_TYPE},
        "structure": {"query": [QUERY_MODULE], "document": [DOCUMENT_MODULE]},
        "parameters": {"default_route": "document", "allow_empty_key": True},
    }
    _write(folder / "router_config.json", routes)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{path} is not valid JSON: {error}.") from error


def _write(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=2), encoding="utf-8")
