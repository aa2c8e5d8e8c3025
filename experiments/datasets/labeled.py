from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices, Matrix


@dataclass(frozen=True, kw_only=True)
class LabeledRows:
    """Rows X (n, d), their labels y (n,), and the names of the classes in label order."""

    X: Matrix
    y: Indices
    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SplitRows(LabeledRows):
    """Labeled rows with an official split: train (n,) is True for training rows."""

    train: NDArray[np.bool_]
