"""Images as fixed features: Caltech-101, Office-Caltech10, Tiny ImageNet.

Computed for this project, so ``SIMILIA_DATA`` must hold the files. "effnet" and "network" features
are the mean of the last convolution of EfficientNet-Lite0 (M. Tan, Q. Le, ICML 2019), trained on
ImageNet. Features stored in eight bits come back scaled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from experiments.datasets.fetch import dequantized, read_npz
from experiments.datasets.labeled import LabeledRows, SplitRows
from similia.contract import Indices
from similia.validation import boolean, check_parameters, none, one_of, positive_integer, seed

CALTECH101 = {
    "visterms": "caltech101/bov1000.npz",
    "fisher": "caltech101/fisher2048.npz",
    "effnet": "caltech101/effnet_lite0_1280.npz",
}
BACKGROUND = 101
OFFICE_CALTECH = {
    "surf": "office_caltech10/surf_bow800.npz",
    "network": "office_caltech10/effnet_lite0_1280.npz",
}
TINY_IMAGENET = "tiny_imagenet/effnet_lite0_pca256.npz"


@dataclass(frozen=True, kw_only=True)
class Caltech101(LabeledRows):
    """Labeled rows, and the images (n,) that they describe, as folder/file."""

    images: NDArray[np.str_]


@dataclass(frozen=True, kw_only=True)
class OfficeCaltech(LabeledRows):
    """Labeled rows, the domain (n,) of each, and the names of the domains."""

    domain: Indices
    domains: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TinyImageNet(SplitRows):
    """Split rows, and the WordNet numbers of the classes."""

    wnids: tuple[str, ...]


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
        "visterms": csr_array (n, 1000) of float32 counts, to be weighted by `tfidf`. Blocks of
        64 x 64 pixels every 26 at two scales; uniform local binary patterns and 20 colors, 1000
        words by k-means on 1,500 images, without labels but from all classes.
        "fisher": (n, 2048) float32; gradient histograms, PCA to 64, 16 Gaussians, signed root,
        unit length.
        "effnet": (n, 1280) float32; images scaled to 224 x 224.
    n_classes : int or None
        Draw that many of the 101 classes at random, or take all. The AROMA paper takes 50 classes
        of the sister set Caltech-256 and does not name them.
    background : bool
        Add the images of no kind as a last class.
    random_state : int, RandomState or None
        Seed of the draw of classes; it draws the same classes for all features.

    Returns
    -------
    Caltech101
        Rows keep their order; labels are renumbered 0, 1, ... in the order of `classes`.
    """
    rules = {
        "features": one_of(*CALTECH101),
        "n_classes": positive_integer | none,
        "background": boolean,
        "random_state": seed,
    }
    check_parameters("load_caltech101", rules, locals())
    if n_classes is not None and n_classes > BACKGROUND:
        raise ValueError(f"load_caltech101: n_classes must be at most 101, got {n_classes}.")
    path = CALTECH101[features]
    y, names, images = read_npz(path, "y", "classes", "image")
    chosen = np.arange(BACKGROUND)
    if n_classes is not None:
        chosen = np.sort(check_random_state(random_state).permutation(BACKGROUND)[:n_classes])
    if background:
        chosen = np.append(chosen, BACKGROUND)
    rows = np.flatnonzero(np.isin(y, chosen))
    if features == "visterms":
        data, indices, indptr, shape = read_npz(path, "data", "indices", "indptr", "shape")
        csr = (data.astype(np.float32), indices.astype(np.int32), indptr)
        X = sparse.csr_array(csr, shape=tuple(shape.tolist()))[rows]
    else:
        quantized, scale = read_npz(path, "X", "scale")
        X = dequantized(quantized[rows], scale)
    return Caltech101(
        X=X,
        y=np.searchsorted(chosen, y[rows]),
        classes=tuple(names[chosen].tolist()),
        images=images[rows],
    )


def load_office_caltech(features: str = "surf") -> OfficeCaltech:
    """Load 2,533 images of ten kinds of object from four domains.

    ======= ====== ===========================================
    domain  images what
    ======= ====== ===========================================
    amazon  958    pictures of a shop, 82 to 100 of each kind
    caltech 1,123  Caltech-256, 85 to 151
    dslr    157    a good camera in an office, 8 to 24
    webcam  295    a poor one, 21 to 43
    ======= ====== ===========================================

    Parameters
    ----------
    features : {"surf", "network"}
        "surf": 800 counts of visual words, from a codebook of SURF descriptors of amazon images;
        the common protocol makes rows sum to one and standardizes each domain.
        "network": 1280 dimensions.

    Returns
    -------
    OfficeCaltech
        Rows by domain, then by class. Row i of "surf" and of "network" share domain and class, but
        need not show the same image.
    """
    check_parameters("load_office_caltech", {"features": one_of(*OFFICE_CALTECH)}, locals())
    X, y, domain, classes, domains = read_npz(
        OFFICE_CALTECH[features], "X", "y", "domain", "classes", "domains"
    )
    order = np.lexsort((y, domain))
    return OfficeCaltech(
        X=dequantized(X[order]),
        y=y[order].astype(np.intp),
        classes=tuple(classes.tolist()),
        domain=domain[order].astype(np.intp),
        domains=tuple(domains.tolist()),
    )


def load_tiny_imagenet() -> TinyImageNet:
    """Load network features of 20,000 images of 200 classes, (20000, 256) float32.

    50 of the 500 training images of each class come first, then its 50 validation images. Images
    were scaled to 160 x 160; 1280 dimensions became 256 by the principal components of the training
    rows. The network was trained on ImageNet with these classes: many classes, but none unseen.
    """
    X, scale, y, train, classes, wnids = read_npz(
        TINY_IMAGENET, "X", "scale", "y", "train", "classes", "wnid"
    )
    return TinyImageNet(
        X=dequantized(X, scale),
        y=y.astype(np.intp),
        classes=tuple(classes.tolist()),
        train=train,
        wnids=tuple(wnids.tolist()),
    )
