import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.datasets import DataNotFoundError, images, load_usps
from experiments.datasets.fetch import FILES, read_npz
from experiments.datasets.images import ARRAYS
from experiments.datasets.images import USPS_TEXTS as ORIGINALS

PREPARED = "uci/usps.npz"
TRAIN_SIZES = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
TEST_SIZES = [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]


def text(images, labels, layout):
    """The original form; zip.train has four decimals everywhere, zip.test as few as will do."""
    rows = np.column_stack([labels, np.round(2 * images.astype(float) - 1, 3)])
    return "".join(" ".join(f"{value:{layout}}" for value in row) + " \n" for row in rows)


@pytest.fixture
def written(need, tmp_path, monkeypatch):
    """The real digits in their original form, and nothing else."""
    need(PREPARED)
    arrays = read_npz(PREPARED, *ARRAYS)
    prepared = load_usps()
    (tmp_path / "uci").mkdir()
    for name, x, y, layout in zip(ORIGINALS, arrays[::2], arrays[1::2], (".4f", "g"), strict=True):
        content = text(x, y, layout).encode()
        (tmp_path / name).write_bytes(gzip.compress(content, compresslevel=1))
    monkeypatch.setenv("SIMILIA_DATA", str(tmp_path))
    return prepared


def test_the_original_files_give_what_the_prepared_file_gives(written):
    original = load_usps()
    assert_array_equal(original.X, written.X)
    assert original.X.dtype == written.X.dtype == np.float32
    assert_array_equal(original.y, written.y)
    assert_array_equal(original.train, written.train)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Three made-up digits in their original form, somewhere."""
    train = "7.0000 -1.0000 -0.5000 0.0000 1.0000 \n2.0000 1.0000 1.0000 1.0000 -1.0000 \n"
    lines = [train, "9 -1 -1 -1 0.25\n"]
    for name, content in zip(ORIGINALS, lines, strict=True):
        path = tmp_path / name.split("/")[1]
        path.write_bytes(gzip.compress(content.encode()))
        monkeypatch.setitem(FILES, name, FILES[name]._replace(url=path.as_uri()))
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "cache"))


def test_pixels_become_shares_of_ink(small, monkeypatch):
    monkeypatch.setattr(images, "check_rows", lambda *args: None)
    data = load_usps()
    assert data.X.tolist() == [[0, 0.25, 0.5, 1], [1, 1, 1, 0], [0, 0, 0, 0.625]]
    assert data.images.shape == (3, 2, 2)
    assert data.y.tolist() == [7, 2, 9]
    assert data.train.tolist() == [True, True, False]


def test_other_contents_than_expected_are_refused(small):
    with pytest.raises(ValueError, match=r"zip\.train\.gz: SHA-256 must be .*remove that file"):
        load_usps()


def test_without_file_and_network_the_error_says_what_to_do(small, monkeypatch):
    name = next(iter(ORIGINALS))
    monkeypatch.setitem(FILES, name, FILES[name]._replace(url=FILES[name].url + ".absent"))
    with pytest.raises(
        DataNotFoundError, match=r"could not be downloaded.*usps\.npz.*SIMILIA_DATA"
    ):
        load_usps()


def test_the_real_set_has_the_published_sizes(need):
    need(PREPARED)
    data = load_usps()
    assert data.X.shape == (9298, 256)
    assert data.images.shape == (9298, 16, 16)
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert np.bincount(data.y[data.train]).tolist() == TRAIN_SIZES
    assert np.bincount(data.y[~data.train]).tolist() == TEST_SIZES
