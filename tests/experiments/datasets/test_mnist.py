import gzip
import hashlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.datasets import DataNotFoundError, load_fashion_mnist, load_mnist
from experiments.datasets.fetch import FILES, read_npz
from experiments.datasets.images import ARRAYS, CLOTHES, DIGITS, IDX_FILES, read_idx

LOADERS = [(load_mnist, "mnist"), (load_fashion_mnist, "fashion_mnist")]
CLASSES = {"mnist": DIGITS, "fashion_mnist": CLOTHES}
# Published MD5 of the four original files, uncompressed.
PUBLISHED = {
    "mnist": (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion_mnist": (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}
TRAIN_SIZES = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion_mnist": [6000] * 10,
}
TEST_SIZES = {
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    "fashion_mnist": [1000] * 10,
}


def idx(array):
    lengths = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes()


@pytest.fixture(params=LOADERS, ids=lambda pair: pair[1])
def small(request, tmp_path, monkeypatch, rng):
    """Seven made-up images in both forms, in a folder of their own, and the loader for them."""
    loader, name = request.param
    arrays = [
        rng.integers(256, size=(5, 4, 4), dtype=np.uint8),
        np.array([5, 0, 4, 9, 9], dtype=np.uint8),
        rng.integers(256, size=(2, 4, 4), dtype=np.uint8),
        np.array([7, 2], dtype=np.uint8),
    ]
    folder = tmp_path / "data" / name
    folder.mkdir(parents=True)
    np.savez(folder / f"{name}.npz", **dict(zip(ARRAYS, arrays, strict=True)))
    for file, array in zip(IDX_FILES, arrays, strict=True):
        (folder / file).write_bytes(gzip.compress(idx(array)))
    for file in folder.iterdir():
        entry = FILES[f"{name}/{file.name}"]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        url = (tmp_path / "absent").as_uri() if entry.url else None
        monkeypatch.setitem(FILES, f"{name}/{file.name}", entry._replace(sha256=digest, url=url))
    monkeypatch.setenv("SIMILIA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "cache"))
    return loader, name, folder


def test_the_original_files_give_what_the_prepared_file_gives(small):
    loader, name, folder = small
    prepared = loader()
    (folder / f"{folder.name}.npz").unlink()
    original = loader()
    assert_array_equal(original.X, prepared.X)
    assert_array_equal(original.y, [5, 0, 4, 9, 9, 7, 2])
    assert_array_equal(prepared.y, original.y)
    assert_array_equal(original.train, [True] * 5 + [False] * 2)
    assert original.classes == prepared.classes == CLASSES[name]


def test_the_original_files_are_downloaded_when_there_is_nothing(small, monkeypatch):
    loader, name, folder = small
    expected = loader().X
    moved = folder.rename(folder.with_name("elsewhere"))
    for file in IDX_FILES:
        entry = FILES[f"{name}/{file}"]
        public = entry._replace(url=(moved / file).as_uri())
        monkeypatch.setitem(FILES, f"{name}/{file}", public)
    assert_array_equal(loader().X, expected)


def test_without_file_and_network_the_error_says_what_to_do(small):
    loader, _, folder = small
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(
        DataNotFoundError,
        match=rf"absent could not be downloaded.*{folder.name}\.npz.*SIMILIA_DATA",
    ):
        loader()


def test_pixels_are_scaled_to_one_and_pictures_share_their_memory(small):
    loader, _, folder = small
    data = loader()
    with np.load(folder / f"{folder.name}.npz") as stored:
        assert_array_equal(data.images[:5], stored["x_train"] / np.float32(255))
    assert data.X.dtype == np.float32
    assert data.images.shape == (7, 4, 4)
    assert np.shares_memory(data.X, data.images)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must begin as an IDX file of unsigned bytes, got nothing"),
        (bytes([0, 0, 8]), "must begin as an IDX file"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "must begin as an IDX file.*got 00 00 0d 01"),
        (bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0]), "must begin as an IDX file"),
        (bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2]), r"of shape \(1, 3\), got 2"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 1, 1, 2]), r"of shape \(1,\), got 2"),
    ],
)
def test_what_is_not_an_idx_file_is_refused(tmp_path, content, message):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=message):
        read_idx(path)


def test_an_idx_file_may_be_empty_along_an_axis(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(np.zeros((0, 28, 28), dtype=np.uint8))))
    assert read_idx(path).shape == (0, 28, 28)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_prepared_arrays_are_the_published_files(need, name, tmp_path):
    need(f"{name}/{name}.npz")
    arrays = read_npz(f"{name}/{name}.npz", *ARRAYS)
    assert tuple(hashlib.md5(idx(array)).hexdigest() for array in arrays) == PUBLISHED[name]
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(idx(arrays[3])))
    assert_array_equal(read_idx(path), arrays[3])


@pytest.mark.parametrize(("loader", "name"), LOADERS)
def test_the_real_set_has_the_published_sizes(need, loader, name):
    need(f"{name}/{name}.npz")
    data = loader()
    assert data.X.shape == (70_000, 784)
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert np.bincount(data.y[data.train]).tolist() == TRAIN_SIZES[name]
    assert np.bincount(data.y[~data.train]).tolist() == TEST_SIZES[name]
    assert len(data.classes) == 10
    assert data.train[:60_000].all()
