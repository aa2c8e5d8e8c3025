"""Small gray images with labels, in the form that all loaders of digits and clothes share."""

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class GrayImages:
    """Square gray images.

    X (n, side²) is float32 between 0 and 1, one image a row, read line by line; y (n,) holds the
    labels, classes their names in label order, train (n,) is True for the official training rows,
    which come first.
    """

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    train: NDArray[np.bool_]

    @property
    def images(self) -> NDArray[np.float32]:
        """The rows of X as pictures (n, side, side), without a copy."""
        side = isqrt(self.X.shape[1])
        return self.X.reshape(-1, side, side)


def join_halves(
    x_train: NDArray[np.float32],
    y_train: NDArray[np.uint8],
    x_test: NDArray[np.float32],
    y_test: NDArray[np.uint8],
    classes: tuple[str, ...],
) -> GrayImages:
    """Put the test rows under the training rows."""
    return GrayImages(
        np.concatenate([x_train, x_test]),
        np.concatenate([y_train, y_test]).astype(np.intp),
        classes,
        np.arange(len(y_train) + len(y_test)) < len(y_train),
    )
