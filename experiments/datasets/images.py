"""Small gray images: handwritten digits (MNIST, USPS) and clothes (Fashion-MNIST)."""

import gzip
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import check_rows, fetch, locate, read_npz
from experiments.datasets.labeled import SplitRows
from similia.contract import Array

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
    "ankle boot",
)  # fmt: skip
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
UNSIGNED_BYTES = 8
#: text files of USPS, and the checksums of their rows as integers: label, then thousandths
USPS_TEXTS = {
    "uci/zip.train.gz": "1690e77972dadc2f2ed154d34ea4edb0f1ad19a33e872b2abae587967b7c1ca6",
    "uci/zip.test.gz": "db3caeec75ce08fda4ac9a3c0ef8b98ee91cbdf7999dd6c56724d71023e433b1",
}


@dataclass(frozen=True, kw_only=True)
class GrayImages(SplitRows):
    """Square gray images: X (n, side²) is float32 from 0 to 1, line by line; training first."""

    X: NDArray[np.float32]

    @property
    def images(self) -> NDArray[np.float32]:
        """The rows of X as pictures (n, side, side), without a copy."""
        side = isqrt(self.X.shape[1])
        return self.X.reshape(-1, side, side)


def load_mnist() -> GrayImages:
    """Load 70,000 handwritten digits of 28 x 28 pixels, 60,000 for training and 10,000 for test.

    0 is paper and 1 is ink. Rows keep the original order; the people who wrote the test digits
    wrote no training digits. Without ``mnist/mnist.npz`` the four original files are downloaded.
    """
    return _idx_images("mnist", DIGITS)


def load_fashion_mnist() -> GrayImages:
    """Load 70,000 pictures of clothes in the form of MNIST, 7,000 of each of ten kinds."""
    return _idx_images("fashion_mnist", CLOTHES)


def load_usps() -> GrayImages:
    """Load 9,298 handwritten digits of 16 x 16 pixels, 7,291 for training and 2,007 for test.

    0 is paper and 1 is ink; the original values run from -1 to 1. Rows keep the original order. The
    test set is known to be hard. Without ``uci/usps.npz`` the two original files are downloaded;
    they have no published checksum, so their rows are checked.
    """
    if locate("uci/usps.npz") is not None:
        return _joined(*read_npz("uci/usps.npz", *ARRAYS), DIGITS)
    return _joined(*(array for path in USPS_TEXTS for array in _usps_text(path)), DIGITS)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a gzipped IDX file of unsigned bytes.

    Two zero bytes, the type of the entries, the number of axes, the length of each axis as four
    bytes, most significant first, then the entries.
    """
    with gzip.open(path, "rb") as stream:
        content = stream.read()
    n_axes = content[3] if len(content) > 3 else 0
    start = 4 + 4 * n_axes
    if content[:3] != bytes([0, 0, UNSIGNED_BYTES]) or len(content) < start:
        raise ValueError(
            f"read_idx: {path} must begin as an IDX file of unsigned bytes, "
            f"got {content[:4].hex(' ') or 'nothing'}."
        )
    shape = tuple(np.frombuffer(content, dtype=">u4", count=n_axes, offset=4).tolist())
    entries = np.frombuffer(content, dtype=np.uint8, offset=start)
    if len(entries) != np.prod(shape, dtype=np.int64):
        raise ValueError(
            f"read_idx: {path} must hold the entries of shape {shape}, got {len(entries)}."
        )
    return entries.reshape(shape)


def _idx_images(folder: str, classes: tuple[str, ...]) -> GrayImages:
    prepared = f"{folder}/{folder}.npz"
    if locate(prepared) is not None:
        arrays = read_npz(prepared, *ARRAYS)
    else:
        arrays = [read_idx(fetch(f"{folder}/{name}")) for name in IDX_FILES]
    x_train, y_train, x_test, y_test = arrays
    return _joined(_scaled(x_train), y_train, _scaled(x_test), y_test, classes)


def _scaled(images: Array) -> NDArray[np.float32]:
    X = images.reshape(len(images), -1).astype(np.float32)
    X /= np.float32(255)
    return X


def _usps_text(path: str) -> tuple[Array, Array]:
    """Images and labels; a line is the label and 256 gray values from -1 to 1."""
    found = fetch(path)
    table = np.loadtxt(found, dtype=np.float32, ndmin=2)
    thousandths = np.rint(table * [1, *[1000] * (table.shape[1] - 1)]).astype("<i2")
    check_rows(found, USPS_TEXTS[path], thousandths)
    return (table[:, 1:] + np.float32(1)) / np.float32(2), thousandths[:, 0]


def _joined(
    x_train: Array, y_train: Array, x_test: Array, y_test: Array, classes: tuple[str, ...]
) -> GrayImages:
    y = np.concatenate([y_train, y_test]).astype(np.intp)
    return GrayImages(
        X=np.concatenate([x_train, x_test]),
        y=y,
        classes=classes,
        train=np.arange(len(y)) < len(y_train),
    )
