"""Caltech-101 images as bags of visterms, Fisher vectors or network features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from experiments.datasets.fetch import DataFile, dequantized, read_npz
from similia.validation import boolean, check_parameters, none, one_of, positive_integer, seed

BACKGROUND = 101

_ORIGIN = (
    "It was computed for this library from the images of Caltech-101 "
    "(L. Fei-Fei et al. 2004, https://doi.org/10.22002/D1.20086)."
)
FILES = {
    "visterms": DataFile(
        "caltech101/bov1000.npz",
        "c22ef903cfd5129640a103a7418c529c5fae8bb86a00ce98ad0e9111a55ada7d",
        _ORIGIN,
    ),
    "fisher": DataFile(
        "caltech101/fisher2048.npz",
        "f730b97223141c07e6c17a08de6954b7d0191388f89531b745924f586582937c",
        _ORIGIN,
    ),
    "effnet": DataFile(
        "caltech101/effnet_lite0_1280.npz",
        "d2ff8190ec090fa33a32b37e585e6459d30c891c9a77b12c6e23bd19abb0ba52",
        _ORIGIN,
    ),
}


@dataclass(frozen=True)
class Caltech101:
    """Features X (n, d), labels y (n,), class names in label order, images (n,) as folder/file."""

    X: Any
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    images: NDArray[np.str_]


def load_caltech101(
    features: str = "visterms",
    *,
    n_classes: int | None = None,
    background: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Caltech101:
    """Load 8,677 images of 101 kinds of object, 31 to 800 of each, and 467 of no kind.

    Parameters
    ----------
    features : {"visterms", "fisher", "effnet"}
        "visterms": csr_array (n, 1000) of float32 counts; weigh them by `tfidf` with the idf of
        the training rows. Blocks of 64 x 64 pixels every 26 at two scales; uniform local binary
        patterns and 20 colors, 1000 words by k-means on 1,500 images.
        "fisher": (n, 2048) float32; gradient histograms, PCA to 64, 16 Gaussians, signed root,
        unit length.
        "effnet": (n, 1280) float32; mean of the last convolution of EfficientNet-Lite0, trained on
        ImageNet, images scaled to 224 x 224.
    n_classes : int or None
        Draw that many of the 101 classes at random, or take all. The AROMA paper takes 50 classes
        of the sister set Caltech-256 and does not name them.
    background : bool
        Add the images of no kind as a last class.
    random_state : int, RandomState or None
        Seed of the draw of classes. The same seed gives the same classes for all features.

    Returns
    -------
    Caltech101
        Rows keep their order; labels are renumbered 0, 1, ... in the order of `classes`.

    Notes
    -----
    Images: CC BY 4.0; network weights: Apache-2.0. Dense features are stored in eight bits and
    come back scaled. Computed for this library; no public copy exists, so ``SIMILIA_DATA`` must
    hold the file. Codebooks were made without labels, but from images of all classes.

    References
    ----------
    L. Fei-Fei, R. Fergus, P. Perona, CVPR Workshop 2004; F. Perronnin, J. Sanchez, T. Mensink,
    ECCV 2010; M. Tan, Q. Le, "EfficientNet", ICML 2019.

    Examples
    --------
    >>> from experiments.datasets import load_caltech101, inverse_document_frequency, tfidf
    >>> data = load_caltech101("visterms", n_classes=50, random_state=0)  # doctest: +SKIP
    >>> X = tfidf(data.X, inverse_document_frequency(data.X[train]))      # doctest: +SKIP
    """
    rules = {
        "features": one_of(*FILES),
        "n_classes": positive_integer | none,
        "background": boolean,
        "random_state": seed,
    }
    given = {"features": features, "n_classes": n_classes, "background": background}
    check_parameters("load_caltech101", rules, {**given, "random_state": random_state})
    if n_classes is not None and n_classes > BACKGROUND:
        raise ValueError(f"load_caltech101: n_classes must be at most 101, got {n_classes}.")
    file = FILES[features]
    y, names, images = read_npz(file, "y", "classes", "image")
    chosen = np.arange(BACKGROUND)
    if n_classes is not None:
        chosen = np.sort(check_random_state(random_state).permutation(BACKGROUND)[:n_classes])
    if background:
        chosen = np.append(chosen, BACKGROUND)
    rows = np.flatnonzero(np.isin(y, chosen))
    X = _visterms(file, rows) if features == "visterms" else _dense(file, rows)
    classes = tuple(names[chosen].tolist())
    return Caltech101(X, np.searchsorted(chosen, y[rows]), classes, images[rows])


def _visterms(file: DataFile, rows: NDArray[np.intp]) -> Any:
    data, indices, indptr, shape = read_npz(file, "data", "indices", "indptr", "shape")
    csr = (data.astype(np.float32), indices.astype(np.int32), indptr)
    return sparse.csr_array(csr, shape=tuple(shape.tolist()))[rows]


def _dense(file: DataFile, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    X, scale = read_npz(file, "X", "scale")
    return dequantized(X[rows], scale)
