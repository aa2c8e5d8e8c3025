"""Files by URL: paths of this machine, copies, and the parts of Parquet that are asked for."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from similia.exceptions import MissingExtraError
from similia.files import read_vectors
from similia.files.locations import Location, fetched, local_path, url_of
from similia.files.vectors import open_rows
from tests.files.test_ranged import GROUP, N, write

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def store():
    """Files in memory, by URL."""
    files = fsspec.filesystem("memory")
    yield lambda name, data: files.pipe_file(f"/store/{name}", data)
    files.rm("/store", recursive=True)


def test_urls_are_told_from_paths():
    assert url_of("s3://bucket/a.npy") == url_of(Path("s3://bucket/a.npy")) == "s3://bucket/a.npy"
    assert url_of("folder/a.npy") is None
    assert url_of("C:/a.npy") is None
    assert local_path("file:///folder/a%20b.npy") == Path("/folder/a b.npy")
    assert local_path(Path("file:///folder/a.npy")) == Path("/folder/a.npy")
    assert local_path("s3://bucket/a.npy") is None


def test_a_copy_is_made_once_for_each_version(store, tmp_path):
    store("a.csv", b"one")
    first = fetched("memory://store/a.csv", tmp_path / "work")
    assert (first.read_bytes(), first.suffix, first.parent) == (b"one", ".csv", tmp_path / "work")
    before = first.stat().st_mtime_ns
    assert fetched("memory://store/a.csv", tmp_path / "work") == first
    assert first.stat().st_mtime_ns == before
    store("a.csv", b"two")
    second = fetched("memory://store/a.csv", tmp_path / "work")
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert sorted((tmp_path / "work").iterdir()) == sorted([first, second])


def test_ids_beside_vectors_come_along(store, tmp_path):
    np.save(tmp_path / "X.npy", np.ones((2, 3)))
    store("X.npy", (tmp_path / "X.npy").read_bytes())
    assert read_vectors(fetched("memory://store/X.npy", tmp_path, beside=True)).ids.values is None
    store("X.npy.ids", b"a\nb\n")
    found = read_vectors(fetched("memory://store/X.npy", tmp_path, beside=True))
    assert found.ids.names() == ["a", "b"]


def test_a_copy_that_fails_leaves_nothing(store, tmp_path, monkeypatch):
    store("a.csv", b"one")

    def cut(self, path, target, **options):
        Path(target).write_bytes(b"on")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "get_file", cut)
    with pytest.raises(ValueError, match=r"^memory://store/a.csv: must stay as it is"):
        fetched("memory://store/a.csv", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("nowhere://a/b.npy", ValueError, "nowhere://a/b.npy: the scheme must be one that fsspec"),
        ("memory://missing/b.npy", FileNotFoundError, "memory://missing/b.npy"),
        ("memory://store", ValueError, "memory://store: must be a file, got directory"),
    ],
)
def test_what_is_not_there_is_named(url, error, message, store, tmp_path):
    store("a.csv", b"one")
    with pytest.raises(error, match=message):
        fetched(url, tmp_path)


def test_a_file_system_that_is_not_installed_is_named(monkeypatch, tmp_path):
    known = {"class": "no_such_package.Files", "err": "Install no_such_package"}
    from fsspec.registry import known_implementations

    monkeypatch.setitem(known_implementations, "absent", known)
    with pytest.raises(ValueError, match=r"^absent://a: .*not installed \(Install no_such_package"):
        fetched("absent://a", tmp_path)


def test_without_fsspec_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"similia\[remote\]"):
        fetched("s3://bucket/a.npy", tmp_path)
    assert fetched("a.npy", tmp_path) == Path("a.npy")


def test_passwords_are_in_no_message():
    assert Location("memory://me:secret@store/a.npy?key=secret").name == "memory://store/a.npy"


@pytest.mark.parametrize("form", ["fixed", "lists", "numbers"])
def test_of_parquet_only_the_groups_that_are_read_are_fetched(form, store, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(100 * N, 3)).astype("f4")
    monkeypatch.setattr("tests.files.test_ranged.GROUP", 100 * GROUP)
    path = write(tmp_path / "items.parquet", X, form, [f"item-{row}" for row in range(len(X))])
    store("items.parquet", path.read_bytes())
    whole, url, size = read_vectors(path), "memory://store/items.parquet", path.stat().st_size
    asked = []
    monkeypatch.setattr(Location, "open", lambda own: Watched(path.read_bytes(), asked))
    rows = open_rows(url, width=3)
    assert sum(asked) < size / 4  # the end of the file
    asked.clear()
    np.testing.assert_array_equal(rows.read(10_000, 15_000), whole.X[10_000:15_000])
    assert size / 8 < sum(asked) < size / 3  # the third of five groups
    assert rows.names(10_000, 10_002) == ["item-10000", "item-10001"]
    chosen = np.array([3, 7000, 22_999])
    np.testing.assert_array_equal(rows.take(chosen), whole.X[chosen])
    assert rows.ids().names() == whole.ids.names()


class Watched(io.BytesIO):
    """A file that notes how much is read of it."""

    def __init__(self, data, asked):
        super().__init__(data)
        self.asked = asked

    def read(self, size=-1):
        found = super().read(size)
        self.asked.append(len(found))
        return found


def test_damage_elsewhere_is_named_by_its_url(store, tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path / "items.parquet", np.ones((N, 3), "f4"))
    data = bytearray(path.read_bytes())
    store("short.parquet", b"PAR1")
    store("none.parquet", b"no table at all")
    data[4:60] = bytes(56)
    store("damaged.parquet", bytes(data))
    for name in ("short", "none", "damaged"):
        url = f"memory://store/{name}.parquet"
        with pytest.raises(ValueError, match=f"^{url}: could not be read as a table"):
            open_rows(url).read(0, N)
