import hashlib
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.datasets import DataNotFoundError, isolet, load_isolet
from experiments.datasets.fetch import FILES, check_rows, read_npz
from experiments.datasets.isolet import (
    ARCHIVE,
    LETTERS,
    MEMBERS,
    PARTS,
    PREPARED,
    ROWS_SHA256,
)

from .compress import compressed


def lines(features, letters):
    """The original form: four decimals, and the letter as a number with a point."""
    return "".join(
        ", ".join(f"{value / 10_000:.4f}" for value in row) + f", {letter}.\n"
        for row, letter in zip(features, letters, strict=True)
    )


@pytest.fixture
def small(tmp_path, monkeypatch, rng):
    """Fourteen made-up rows, in the order of speakers, as UCI packs them."""
    letters = np.array([1, 1, 2, 1, 2, 2, 1, 1, 2, 1, 1, 2, 1, 2])
    part = np.repeat([1, 2, 3, 4, 5], [3, 2, 2, 3, 4])
    X = rng.integers(-10_000, 10_001, size=(14, 6))
    path = tmp_path / "isolet.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, chosen in zip(MEMBERS, (part < 5, part == 5), strict=True):
            archive.writestr(name, compressed(lines(X[chosen], letters[chosen]).encode()))
        archive.writestr("isolet.names", "not data")
    rows = np.column_stack([X, letters, part]).astype("<i2")
    sha256 = hashlib.sha256(b"".join(sorted(map(bytes, rows)))).hexdigest()
    monkeypatch.setattr(isolet, "PARTS", (3, 2, 2, 3, 4))
    monkeypatch.setattr(isolet, "ROWS_SHA256", sha256)
    monkeypatch.setitem(FILES, ARCHIVE, FILES[ARCHIVE]._replace(url=path.as_uri()))
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "cache"))
    return X, letters, part


def test_the_archive_is_read_by_part_and_letter(small):
    X, letters, part = small
    data = load_isolet()
    order = [0, 1, 2, 3, 4, 6, 5, 7, 9, 8, 10, 11, 12, 13]
    assert_array_equal(data.X, (X[order] / 10_000).astype(np.float32))
    assert_array_equal(data.y, letters[order] - 1)
    assert_array_equal(data.part, part)
    assert_array_equal(data.train, part < 5)


def test_an_archive_with_other_rows_is_refused(small, monkeypatch):
    monkeypatch.setattr(isolet, "ROWS_SHA256", ROWS_SHA256)
    with pytest.raises(ValueError, match=r"the rows of .*isolet\.zip: SHA-256 must be"):
        load_isolet()
    monkeypatch.setattr(isolet, "PARTS", PARTS)
    with pytest.raises(ValueError, match="must hold 7797 rows, got 14"):
        load_isolet()


def test_without_file_and_network_the_error_says_what_to_do(small, monkeypatch):
    absent = FILES[ARCHIVE]._replace(url=FILES[ARCHIVE].url + ".absent")
    monkeypatch.setitem(FILES, ARCHIVE, absent)
    with pytest.raises(
        DataNotFoundError, match=r"could not be downloaded.*isolet\.npz.*SIMILIA_DATA"
    ):
        load_isolet()


def test_the_prepared_rows_are_those_expected_of_the_archive(need, tmp_path):
    need(PREPARED)
    X, y, part = read_npz(PREPARED, "X", "y", "part")
    check_rows(tmp_path, ROWS_SHA256, np.column_stack([X, y, part]).astype("<i2"))
    chosen = np.arange(0, 7797, 40)
    table = isolet._table(lines(X[chosen], y[chosen]).encode())
    assert_array_equal(table, np.column_stack([X, y])[chosen])


def test_the_real_set_has_the_published_sizes(need):
    need(PREPARED)
    data = load_isolet()
    assert data.X.shape == (7797, 617)
    assert data.X.dtype == np.float32
    assert (data.X.min(), data.X.max()) == (-1, 1)
    assert data.X[0, 0] == np.float32(-0.4394)
    assert (data.train.sum(), (~data.train).sum()) == (6238, 1559)
    assert np.bincount(data.part)[1:].tolist() == list(PARTS)
    sizes = dict(zip(LETTERS, np.bincount(data.y).tolist(), strict=True))
    assert sizes == {letter: {"F": 298, "M": 299}.get(letter, 300) for letter in LETTERS}
