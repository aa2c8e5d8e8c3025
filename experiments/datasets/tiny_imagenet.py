"""Tiny ImageNet as network features: many classes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, dequantized, read_npz

FILE = DataFile(
    "tiny_imagenet/effnet_lite0_pca256.npz",
    "85e6b04f7495b89d1d8f5d165aee7011fb259365c123ee42e58a652722d1947d",
    "It was computed for this library from the images of Tiny ImageNet "
    "(http://cs231n.stanford.edu/tiny-imagenet-200.zip).",
)


@dataclass(frozen=True)
class TinyImageNet:
    """Features of images of 200 classes.

    X (20000, 256) is float32, y (20000,) are labels, classes and wnids their names and their
    numbers in WordNet; train (20000,) is True for training images, which come first.
    """

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    wnids: tuple[str, ...]
    train: NDArray[np.bool_]


def load_tiny_imagenet() -> TinyImageNet:
    """Load features of 20,000 images of 200 classes, 50 + 50 of each.

    Returns
    -------
    TinyImageNet
        50 of the 500 training images of each class, and the 50 validation images of each.

    Notes
    -----
    Mean of the last convolution of EfficientNet-Lite0 on images scaled to 160 x 160, reduced from
    1280 to 256 dimensions by the principal components of the training rows; stored in eight bits.
    The network was trained on ImageNet with these classes: a stream of many classes, but no test
    of classes never seen. The ten nearest training rows by cosine name the class of 51.7 % of the
    validation rows.

    Licence: non-commercial research (ImageNet); network weights: Apache-2.0. No public copy of
    this file exists, so ``SIMILIA_DATA`` must hold it.

    References
    ----------
    J. Deng et al., "ImageNet: a large-scale hierarchical image database", CVPR 2009; Tiny ImageNet:
    Stanford CS231n; M. Tan, Q. Le, "EfficientNet", ICML 2019.
    """
    X, scale, y, train, classes, wnids = read_npz(
        FILE, "X", "scale", "y", "train", "classes", "wnid"
    )
    return TinyImageNet(
        dequantized(X, scale),
        y.astype(np.intp),
        tuple(classes.tolist()),
        tuple(wnids.tolist()),
        train,
    )
