"""Spoken names of letters."""

import io
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import DataFile, check_contents, fetch, locate, read_npz
from experiments.datasets.lzw import uncompressed

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
PREPARED = DataFile(
    "uci/isolet.npz",
    "aa9378edecb609c1a83cf4c6a6d182645e3ef42fb467e9a6f22564be3647f0d4",
    "The data are those of https://archive.ics.uci.edu/dataset/54/isolet.",
)
ARCHIVE = DataFile(
    "uci/isolet.zip",
    None,
    "It is described at https://archive.ics.uci.edu/dataset/54/isolet; "
    f"{PREPARED.path} with the same data will do as well.",
    "https://archive.ics.uci.edu/static/public/54/isolet.zip",
)
MEMBERS = ("isolet1+2+3+4.data.Z", "isolet5.data.Z")
PARTS = (1_560, 1_560, 1_560, 1_558, 1_559)
# Of all rows as integers: ten-thousandths, letter, part.
ROWS_SHA256 = "fb30aaa53d6e260d7b507b9643da0e148512fb083709512b588af4e02df5abf6"
SCALE = 10_000


@dataclass(frozen=True)
class Isolet:
    """Features of spoken letters.

    X (7797, 617) is float32 from -1 to 1, y (7797,) are labels, classes the letters; part (7797,)
    is the group of 30 speakers, 1 to 5, and train (7797,) is True in the first four.
    """

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    part: NDArray[np.intp]
    train: NDArray[np.bool_]


def load_isolet() -> Isolet:
    """Load 7,797 spoken names of letters, each letter twice by each of 150 people.

    The data come from ``uci/isolet.npz`` if there is one, else from the archive of UCI,
    downloaded once; unpacking and reading it takes some seconds every time.

    Returns
    -------
    Isolet
        Rows by part; within parts 1 to 4 by letter, and within a letter as in the archive, that is
        by speaker; within part 5 as in the archive.

    Notes
    -----
    6,238 rows of 120 people for training (parts 1 to 4), 1,559 of 30 others for test (part 5). Each
    letter has 300 rows, but F has 298 and M 299: three recordings are missing. Features: spectral
    coefficients, contours, features of the sonorant and of what comes before and after it; scaled
    by the makers. Licence: CC BY 4.0. The archive has no published checksum; its rows are compared
    with those of the prepared file instead.

    References
    ----------
    M. Fanty, R. Cole, "Spoken letter recognition", NIPS 1990.
    """
    if locate(PREPARED) is not None:
        X, y, part = read_npz(PREPARED, "X", "y", "part")
    else:
        X, y, part = _read_archive()
    features = (X / SCALE).astype(np.float32)
    return Isolet(features, y.astype(np.intp) - 1, LETTERS, part.astype(np.intp), part < len(PARTS))


def _read_archive() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Give features in ten-thousandths, letters from 1 and parts, in the order of the docstring."""
    path = fetch(ARCHIVE)
    with zipfile.ZipFile(path) as archive:
        tables = [_table(uncompressed(archive.read(name))) for name in MEMBERS]
    rows = np.concatenate(tables)
    if len(rows) != sum(PARTS):
        raise ValueError(f"load_isolet: {path} must hold {sum(PARTS)} rows, got {len(rows)}.")
    part = np.repeat(np.arange(1, len(PARTS) + 1), PARTS)
    order = np.lexsort((np.where(part < len(PARTS), rows[:, -1], 0), part))
    rows = np.column_stack([rows, part]).astype("<i2")[order]
    check_contents(path, ROWS_SHA256, rows)
    return rows[:, :-2], rows[:, -2], rows[:, -1]


def _table(text: bytes) -> NDArray[np.float64]:
    """Give whole numbers; a line is 617 features with up to four decimals and the letter."""
    table = np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2)
    table[:, :-1] *= SCALE
    return np.rint(table)
