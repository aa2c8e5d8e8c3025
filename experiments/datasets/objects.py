"""A few objects and what is known about pairs or triplets of them: proteins, shoes.

Made for this project, so ``SIMILIA_DATA`` must hold the files.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import dequantized, read_npz
from similia.contract import Indices
from similia.validation import check_parameters, one_of

GYRB = "proteins/gyrb52.npz"
KERNELS = {"spectrum3": "K", "spectrum2": "K_spec2", "identity": "identity"}
ZAPPOS = "triplets/zappos85.npz"
FEATURES = {"effnet": "features_effnet", "alexnet": "features"}


@dataclass(frozen=True)
class GyrB:
    """Kernel between proteins.

    K (52, 52) is positive semidefinite with ones on its diagonal, y (52,) are labels, classes the
    names of the three genera, ids (52,) the alleles as scheme:allele, proteins (52,) and dna (52,)
    the sequences, of 147 amino acids and 441 bases.
    """

    K: NDArray[np.float64]
    y: Indices
    classes: tuple[str, ...]
    ids: NDArray[np.str_]
    proteins: NDArray[np.str_]
    dna: NDArray[np.str_]


@dataclass(frozen=True)
class Zappos:
    """Features X (85, d) float32, triplets (283770, 3), images (85, 51, 68, 3) uint8."""

    X: NDArray[np.float32]
    triplets: Indices
    images: NDArray[np.uint8]


def load_gyrb(kernel: str = "spectrum3") -> GyrB:
    """Load 52 fragments of the protein gyrB, of bacteria of three genera, and a kernel of them.

    Parameters
    ----------
    kernel : {"spectrum3", "spectrum2", "identity"}
        "spectrum3", "spectrum2": cosine of the counts of all runs of three, or two, amino acids.
        "identity": the share of places with the same amino acid.

    Returns
    -------
    GyrB
        Divide K by its trace, 52, for a density matrix.
    """
    check_parameters("load_gyrb", {"kernel": one_of(*KERNELS)}, locals())
    K, y, classes, ids, proteins, dna = read_npz(
        GYRB, KERNELS[kernel], "y", "classes", "ids", "protein", "dna"
    )
    return GyrB(K, y.astype(np.intp), tuple(classes.tolist()), ids, proteins, dna)


def load_zappos(features: str = "effnet") -> Zappos:
    """Load 85 shoes and 283,770 triplets (a, b, c): people found a more like b than like c.

    The triplets are the answers of a crowd after the removal of cycles: none occurs twice or in
    both directions. By cosine, 75 % (effnet) and 72 % (alexnet) hold before any learning.

    Parameters
    ----------
    features : {"effnet", "alexnet"}
        1280 dimensions, mean of the last convolution of EfficientNet-Lite0, or 4096 AlexNet
        activations; both networks were trained on ImageNet.
    """
    check_parameters("load_zappos", {"features": one_of(*FEATURES)}, locals())
    X, triplets, images = read_npz(ZAPPOS, FEATURES[features], "triplets", "images")
    return Zappos(dequantized(X), triplets.astype(np.intp), images)
