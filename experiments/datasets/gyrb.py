"""A small kernel between proteins, to be learnt from examples of distances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, read_npz
from similia.validation import check_parameters, one_of

FILE = DataFile(
    "proteins/gyrb52.npz",
    "d4a2f40ac68400f2709bd1e23671792e4792e0029c859b7880c10894186fa95c",
    "It was computed for this library from the gyrB alleles of PubMLST (https://pubmlst.org).",
)
KERNELS = {"spectrum3": "K", "spectrum2": "K_spec2", "identity": "identity"}


@dataclass(frozen=True)
class GyrB:
    """Kernel between proteins.

    K (52, 52) is positive semidefinite with ones on its diagonal, y (52,) are labels, classes the
    names of the three genera, ids (52,) the alleles as scheme:allele, proteins (52,) and dna (52,)
    the sequences, of 147 amino acids and 441 bases.
    """

    K: NDArray[np.float64]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    ids: NDArray[np.str_]
    proteins: NDArray[np.str_]
    dna: NDArray[np.str_]


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

    Notes
    -----
    31 Vibrio, 11 Acinetobacter, 10 Pseudomonas. The MEG paper learns a 52 x 52 kernel of gyrB
    proteins of three species (Tsuda et al. 2003) from examples of distances. No public copy of that
    matrix was found; this one has the same gene, size and number of groups, but other bacteria. The
    fragments are different translated alleles, drawn at random and cut to a common window. The
    nearest neighbor of each is of its genus, in all three kernels. With trace one, of the 1,326
    pairs, 152 (spectrum3), 437 (spectrum2) and 454 (identity) have a squared distance below
    0.2 / 52; the paper reports 980.

    Licence: PubMLST, free for academic use. No public copy of this file exists, so
    ``SIMILIA_DATA`` must hold it.

    References
    ----------
    K. Tsuda, G. Rätsch, M. Warmuth, "Matrix exponentiated gradient updates for on-line learning and
    Bregman projection", JMLR 6, 2005; K. Jolley, J. Bray, M. Maiden, Wellcome Open Research 3,
    2018; C. Leslie, E. Eskin, W. Noble, "The spectrum kernel", PSB 2002.
    """
    check_parameters("load_gyrb", {"kernel": one_of(*KERNELS)}, {"kernel": kernel})
    K, y, classes, ids, proteins, dna = read_npz(
        FILE, KERNELS[kernel], "y", "classes", "ids", "protein", "dna"
    )
    return GyrB(K, y.astype(np.intp), tuple(classes.tolist()), ids, proteins, dna)
