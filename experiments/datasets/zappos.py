"""Shoes and what people said about their likeness."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, dequantized, read_npz
from similia.validation import check_parameters, one_of

FILE = DataFile(
    "triplets/zappos85.npz",
    "631a723bfcfcae8d1f6c074741b3260911b93e5c18d7ad300c9d2bdd2a92b871",
    "It was put together for this library from the answers of E. Heim et al. (arXiv:1511.02254) "
    "and the images of UT-Zappos50K (http://vision.cs.utexas.edu/projects/finegrained/utzap50k/).",
)
FEATURES = {"effnet": "features_effnet", "alexnet": "features"}


@dataclass(frozen=True)
class Zappos:
    """Features X (85, d) float32, triplets (283770, 3), images (85, 51, 68, 3) uint8."""

    X: NDArray[np.float32]
    triplets: NDArray[np.intp]
    images: NDArray[Any]


def load_zappos(features: str = "effnet") -> Zappos:
    """Load 85 shoes and 283,770 triplets (a, b, c): people found a more like b than like c.

    Parameters
    ----------
    features : {"effnet", "alexnet"}
        1280 dimensions, mean of the last convolution of EfficientNet-Lite0, or 4096 AlexNet
        activations; both networks were trained on ImageNet.

    Returns
    -------
    Zappos

    Notes
    -----
    The triplets are the answers of a crowd after the removal of cycles: none occurs twice or in
    both directions. By cosine, 75 % (effnet) and 72 % (alexnet) hold before any learning.
    Licence: images for academic use; triplets as distributed with salmon (BSD-3-Clause). No public
    copy of this file exists, so ``SIMILIA_DATA`` must hold it.

    References
    ----------
    E. Heim, M. Berger, L. Seversky, M. Hauskrecht, "Active perceptual similarity modeling with
    auxiliary information", arXiv:1511.02254; A. Yu, K. Grauman, CVPR 2014 (UT-Zappos50K).
    """
    check_parameters("load_zappos", {"features": one_of(*FEATURES)}, {"features": features})
    X, triplets, images = read_npz(FILE, FEATURES[features], "triplets", "images")
    return Zappos(dequantized(X), triplets.astype(np.intp), images)
