"""Digits (MNIST) and clothes (Fashion-MNIST), which come in the same form."""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, fetch, locate, read_npz
from experiments.datasets.images import GrayImages, join_halves

UNSIGNED_BYTES = 8


class Sources(NamedTuple):
    """One prepared file of four arrays, and the original files of one array each."""

    prepared: DataFile
    originals: tuple[DataFile, ...]
    classes: tuple[str, ...]


_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _sources(
    folder: str, sha256: str, origin: str, url: str, originals: tuple[str, ...], classes: str
) -> Sources:
    prepared = DataFile(f"{folder}/{folder}.npz", sha256, origin)
    also = f"{origin} {prepared.path} with the same images will do as well."
    files = (
        DataFile(f"{folder}/{name}", digest, also, url + name)
        for name, digest in zip(_NAMES, originals, strict=True)
    )
    return Sources(prepared, tuple(files), tuple(classes.split(", ")))


# The first home of MNIST no longer serves it; this copy has the checksums of the files once there.
MNIST = _sources(
    "mnist",
    "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
    "MNIST is described at http://yann.lecun.com/exdb/mnist/.",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
)
FASHION_MNIST = _sources(
    "fashion_mnist",
    "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
    "Fashion-MNIST is described at https://github.com/zalandoresearch/fashion-mnist.",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    "T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot",
)


def load_mnist() -> GrayImages:
    """Load 70,000 handwritten digits of 28 x 28 pixels, 60,000 for training and 10,000 for test.

    The images come from ``mnist/mnist.npz`` if there is one, else from the four original files,
    12 MB, downloaded once. Rows keep the original order, training images first.

    Returns
    -------
    GrayImages
        X (70000, 784); 0 is paper and 1 is ink (the 256 gray values divided by 255). As float32
        it takes 220 MB.

    Notes
    -----
    Digits a class, 0 to 9: 5,923, 6,742, 5,958, 6,131, 5,842, 5,421, 5,918, 6,265, 5,851, 5,949 in
    training and 980, 1,135, 1,032, 1,010, 982, 892, 958, 1,028, 974, 1,009 in test. The people who
    wrote the test digits wrote none of the training digits. Licence: commonly given as
    CC BY-SA 3.0.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document
    recognition", Proceedings of the IEEE 86, 1998.

    Examples
    --------
    >>> from experiments.datasets import load_mnist
    >>> data = load_mnist()                           # doctest: +SKIP
    >>> pair = np.isin(data.y, (0, 8)) & data.train   # doctest: +SKIP
    >>> data.X[pair].shape                            # doctest: +SKIP
    (11774, 784)
    """
    return _load(MNIST)


def load_fashion_mnist() -> GrayImages:
    """Load 70,000 pictures of clothes in the form of MNIST, 7,000 of each of ten kinds.

    The images come from ``fashion_mnist/fashion_mnist.npz`` if there is one, else from the four
    original files, 31 MB, downloaded once. Rows keep the original order, training images first.

    Returns
    -------
    GrayImages
        X (70000, 784), between 0 (background) and 1, as from `load_mnist`.

    Notes
    -----
    6,000 pictures of each kind are for training and 1,000 for test. Licence: MIT.

    References
    ----------
    H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine
    learning algorithms", arXiv:1708.07747.
    """
    return _load(FASHION_MNIST)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Give the array of a gzipped IDX file of unsigned bytes.

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


def _load(sources: Sources) -> GrayImages:
    if locate(sources.prepared) is not None:
        arrays = read_npz(sources.prepared, *_ARRAYS)
    else:
        arrays = [read_idx(fetch(file)) for file in sources.originals]
    x_train, y_train, x_test, y_test = arrays
    return join_halves(_scaled(x_train), y_train, _scaled(x_test), y_test, sources.classes)


def _scaled(images: NDArray[Any]) -> NDArray[np.float32]:
    X = images.reshape(len(images), -1).astype(np.float32)
    X /= np.float32(255)
    return X
