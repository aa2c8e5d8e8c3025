"""Spoken names of letters."""

import io
import zipfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import check_rows, fetch_first, read_npz
from experiments.datasets.labeled import SplitRows
from experiments.datasets.lzw import uncompressed
from similia.contract import Array, Indices

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
PREPARED = "uci/isolet.npz"
ARCHIVE = "uci/isolet.zip"
MEMBERS = ("isolet1+2+3+4.data.Z", "isolet5.data.Z")
PARTS = (1_560, 1_560, 1_560, 1_558, 1_559)
#: of all rows as integers: ten-thousandths, letter, part
ROWS_SHA256 = "fb30aaa53d6e260d7b507b9643da0e148512fb083709512b588af4e02df5abf6"
SCALE = 10_000


@dataclass(frozen=True, kw_only=True)
class Isolet(SplitRows):
    """Split rows, and the part (n,) of each: the group of 30 speakers, 1 to 5."""

    part: Indices


def load_isolet() -> Isolet:
    """Load 7,797 spoken names of letters, each letter twice by each of 150 people.

    X (7797, 617) is float32 from -1 to 1, scaled by the makers: spectral coefficients, contours,
    features of the sonorant and of what comes before and after it. Parts 1 to 4 (6,238 rows of 120
    people) are for training, part 5 (1,559 rows of 30 others) is for test. Each letter has 300
    rows, except F (298) and M (299): three recordings are missing.

    Rows are sorted by part; parts 1 to 4 by letter, then in the order of the archive, which is by
    speaker; part 5 in the order of the archive. Without ``uci/isolet.npz`` the archive of UCI is
    downloaded; it has no published checksum, so its rows are checked.
    """
    path, found = fetch_first(PREPARED, ARCHIVE)
    if path == PREPARED:
        X, y, part = read_npz(PREPARED, "X", "y", "part")
    else:
        with zipfile.ZipFile(found) as archive:
            rows = np.concatenate([_table(uncompressed(archive.read(name))) for name in MEMBERS])
        if len(rows) != sum(PARTS):
            raise ValueError(f"load_isolet: {found} must hold {sum(PARTS)} rows, got {len(rows)}.")
        rows = _sorted_by_part(rows)
        check_rows(found, ROWS_SHA256, rows)
        X, y, part = rows[:, :-2], rows[:, -2], rows[:, -1]
    return Isolet(
        X=(X / SCALE).astype(np.float32),
        y=y.astype(np.intp) - 1,
        classes=LETTERS,
        train=part < len(PARTS),
        part=part.astype(np.intp),
    )


def _table(text: bytes) -> NDArray[np.float64]:
    """Whole numbers, from lines of 617 features with up to four decimals and the letter."""
    table = np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2)
    table[:, :-1] *= SCALE
    return np.rint(table)


def _sorted_by_part(rows: Array) -> Array:
    """Rows with the part as a last column, in the order of `load_isolet`."""
    part = np.repeat(np.arange(1, len(PARTS) + 1), PARTS)
    order = np.lexsort((np.where(part < len(PARTS), rows[:, -1], 0), part))
    return np.column_stack([rows, part]).astype("<i2")[order]
