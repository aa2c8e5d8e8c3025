"""Digits from the envelopes of the U.S. Postal Service."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, check_contents, fetch, locate, read_npz
from experiments.datasets.images import GrayImages, join_halves

CLASSES = tuple("0123456789")
PREPARED = DataFile(
    "uci/usps.npz",
    "8f8f99ae011eb5b5680e7685948ed3726080ed687300e3d61f0769c5345e63f3",
    "The digits are those of The Elements of Statistical Learning.",
)
_ORIGIN = (
    "It is described at https://hastie.su.domains/ElemStatLearn/datasets/zip.info.txt; "
    f"{PREPARED.path} with the same digits will do as well."
)
ORIGINALS = tuple(
    DataFile(
        f"uci/{name}", None, _ORIGIN, f"https://hastie.su.domains/ElemStatLearn/datasets/{name}"
    )
    for name in ("zip.train.gz", "zip.test.gz")
)
# Of the rows of both files as integers: label, then thousandths.
ROWS_SHA256 = (
    "1690e77972dadc2f2ed154d34ea4edb0f1ad19a33e872b2abae587967b7c1ca6",
    "db3caeec75ce08fda4ac9a3c0ef8b98ee91cbdf7999dd6c56724d71023e433b1",
)


def load_usps() -> GrayImages:
    """Load 9,298 handwritten digits of 16 x 16 pixels, 7,291 for training and 2,007 for test.

    The images come from ``uci/usps.npz`` if there is one, else from the two original files, 2 MB,
    downloaded once. Rows keep the original order, training images first.

    Returns
    -------
    GrayImages
        X (9298, 256); 0 is paper and 1 is ink. The original values run from -1 to 1.

    Notes
    -----
    Digits a class, 0 to 9: 1,194, 1,005, 731, 658, 652, 556, 664, 645, 542, 644 in training and
    359, 264, 198, 166, 200, 160, 170, 147, 166, 177 in test. The test set is known to be hard.
    Licence: none stated. The original files have no published checksum; their rows are compared
    with those of the prepared file instead.

    References
    ----------
    Y. LeCun et al., "Handwritten digit recognition with a back-propagation network", NIPS 1989;
    T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning".
    """
    if locate(PREPARED) is not None:
        arrays = read_npz(PREPARED, "x_train", "y_train", "x_test", "y_test")
    else:
        arrays = []
        for file, sha256 in zip(ORIGINALS, ROWS_SHA256, strict=True):
            arrays += _read_original(file, sha256)
    x_train, y_train, x_test, y_test = arrays
    return join_halves(x_train, y_train, x_test, y_test, CLASSES)


def _read_original(file: DataFile, sha256: str) -> list[NDArray[Any]]:
    """Give images and labels; a line is the label and 256 gray values from -1 to 1."""
    path = fetch(file)
    table = np.loadtxt(path, dtype=np.float32, ndmin=2)
    thousandths = np.rint(table * [1, *[1000] * (table.shape[1] - 1)]).astype("<i2")
    check_contents(path, sha256, thousandths)
    return [(table[:, 1:] + np.float32(1)) / np.float32(2), thousandths[:, 0].astype(np.uint8)]
