import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from similia import LEGO, OASIS, load, save
from similia.exceptions import ModelFileError
from similia.index import build_index, open_index
from similia.persistence import describe
from tests.problems import triplets_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items.index"


@pytest.mark.parametrize("geometry", ["inner_product", "l2"])
@pytest.mark.parametrize("ids", [None, [f"ü{i}" for i in range(400)]], ids=["numbers", "names"])
def test_an_index_comes_back_as_it_was(backend, geometry, ids, Z, path):
    index = build_index(Z, backend=backend, geometry=geometry, ids=ids)
    index.save(path)
    opened = open_index(path)
    assert opened.report == index.report
    np.testing.assert_array_equal(opened.ids, index.ids)
    for before, after in zip(index.search(Z[:40], 6), opened.search(Z[:40], 6), strict=True):
        np.testing.assert_array_equal(after, before)
    opened.add(Z[:1] * 5, ids=None if ids is None else ["five"])
    np.testing.assert_array_equal(opened.backend.vectors()[-1], 5 * Z[0])


def test_a_metric_comes_back_with_its_index(backend, Z, path, rng, tmp_path):
    pairs = rng.integers(400, size=(50, 2))
    model = LEGO().learn(Z, pairs, np.where(rng.random(50) < 0.5, 1, -1))
    index = build_index(Z, model, backend=backend)
    index.save(path)
    save(model, tmp_path / "model")
    opened, same = open_index(path), load(tmp_path / "model")
    assert not opened.is_stale(same)
    np.testing.assert_array_equal(
        opened.search(Z[:9], 3, model=same).ids, index.search(Z[:9], 3).ids
    )
    same.learn(Z, pairs[:1], [1])
    assert opened.is_stale(same.learn(Z, pairs, -np.ones(50, int)))


def test_a_failed_save_leaves_the_old_file(Z, path, monkeypatch):
    build_index(Z).save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        build_index(Z * 2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_any_changed_byte_is_noticed(backend, Z, path, place, change):
    if not path.exists():
        build_index(Z[:40], backend=backend).save(path)
        path.with_suffix(".good").write_bytes(path.read_bytes())
    raw = bytearray(path.with_suffix(".good").read_bytes())
    raw[int(place * len(raw))] ^= change
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=str(path)):
        open_index(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_a_truncated_file_is_refused(backend, Z, path, share):
    build_index(Z[:40], backend=backend).save(path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ModelFileError, match=r"damaged|not a model file"):
        open_index(path)


def test_other_files_are_told_apart(Z, path, rng):
    save(OASIS().learn(Z, triplets_of(rng, 400, 400, 5)), path)
    with pytest.raises(ModelFileError, match="is of class 'OASIS' and no index"):
        open_index(path)
    build_index(Z).save(path)
    with pytest.raises(ModelFileError, match="is of class 'Index', which is none of"):
        load(path)
    with pytest.raises(FileNotFoundError):
        open_index(path.with_name("absent"))
    with pytest.raises(ModelFileError, match="folder"):
        open_index(path.parent)


REPORT = build_index(np.eye(40, 12, dtype=np.float32)).report.to_dict()
METRIC = {"name": "LEGO", "fingerprint": "", "matrix": np.eye(12), "probe": np.zeros((1, 12))}


def forged(index, path, monkeypatch, parameters=(), attributes=()):
    """Write a file whose checksums are right and whose contents are not."""
    from similia.persistence import saving

    original = saving.write

    def write(path, name, given_parameters, given_attributes):
        given_parameters.update(parameters)
        given_attributes.update(attributes)
        original(path, name, given_parameters, given_attributes)

    monkeypatch.setattr(saving, "write", write)
    index.save(path)


@pytest.mark.parametrize(
    ("parameters", "attributes"),
    [
        ({"backend": "os"}, {}),
        ({"geometry": "flat"}, {}),
        ({"dtype": "object"}, {}),
        ({"n_features": 3}, {}),
        ({"options": {"M": 5}}, {}),
        ({}, {"ids": {"ids": np.zeros(40, np.int64)}}),
        ({}, {"ids": {"ids": np.arange(39)}}),
        ({}, {"ids": {"ids": np.arange(40, dtype=np.uint8)}}),
        ({}, {"ids": {"ids": np.arange(40.0)}}),
        ({}, {"ids": {"id_bytes": np.zeros(4, np.uint8), "id_ends": np.arange(40)[::-1].copy()}}),
        ({}, {"ids": {"id_bytes": np.zeros(39, np.uint8), "id_ends": np.arange(40) * 2}}),
        ({}, {"report": {"k": 3}}),
        ({}, {"report": {**REPORT, "n_items": 41}}),
        ({}, {"report": {**REPORT, "k": "3"}}),
        ({}, {"report": {**REPORT, "recall": 7}}),
        ({}, {"items": {}}),
        ({}, {"metric": {"name": "LEGO"}}),
        ({}, {"metric": {**METRIC, "image": np.zeros((1, 13))}}),
        ({}, {"metric": {**METRIC, "image": np.zeros(12)}}),
        ({}, {"metric": {**METRIC, "image": 3.0}}),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(Z, path, monkeypatch, parameters, attributes):
    forged(build_index(Z[:40]), path, monkeypatch, parameters, attributes)
    with pytest.raises(ModelFileError, match=str(path)):
        open_index(path)


def test_the_bytes_of_a_library_are_neither_written_nor_read(backend, Z, path, monkeypatch):
    if backend == "exact":
        return
    index = build_index(Z[:40], backend=backend)
    index.save(path)
    assert set(describe(path).tensors) == {"items.vectors", "ids.ids"}
    forged(index, path, monkeypatch, {}, {"items": {"native": np.zeros(99, np.uint8)}})
    with pytest.raises(ModelFileError, match="holds the bytes of a library"):
        open_index(path)


def test_lists_keep_their_centers(Z, path):
    pytest.importorskip("faiss")
    index = build_index(Z, backend="faiss", factory="IVF20,Flat", n_probe=2)
    index.add(2 * Z, ids=np.arange(400, 800))
    index.save(path)
    found, again = index.search(Z, 5), open_index(path).search(Z, 5)
    np.testing.assert_array_equal(found.ids, again.ids)


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({"factory": "IVF100000000,Flat"}, {}),
        ({"factory": "IVF41,Flat"}, {}),
        ({"factory": "HNSW1000000"}, {}),
        ({"factory": "IVF4,Flat"}, {}),
        ({"ef_search": 2**40}, {}),
        ({}, {"items": {"vectors": np.zeros((40, 13), np.float32)}}),
        ({}, {"items": {"vectors": np.zeros((0, 12), np.float32)}}),
        ({}, {"items": {"vectors": np.zeros((40, 12))}}),
        ({}, {"items": {"vectors": np.zeros(40, np.float32)}}),
    ],
)
def test_a_small_file_asks_for_little(options, attributes, Z, path, monkeypatch):
    pytest.importorskip("faiss")
    index = build_index(Z[:40], backend="faiss")
    options = {"options": {**index.backend.options, **options}}
    forged(index, path, monkeypatch, options, attributes)
    with pytest.raises(ModelFileError, match=str(path)):
        open_index(path)


@pytest.mark.parametrize("n_features", [2**40, -1, 0])
def test_a_sparse_file_has_entries_for_its_features(n_features, path, monkeypatch):
    index = build_index(sparse.csr_array(np.eye(5)))
    forged(index, path, monkeypatch, {"n_features": n_features})
    with pytest.raises(ModelFileError, match=str(path)):
        open_index(path)


def test_one_long_id_does_not_make_all_ids_long(path, monkeypatch):
    n = 20_000
    index = build_index(np.zeros((n, 1)), ids=[f"{i}" for i in range(n)])
    ends = np.concatenate([np.arange(1, n), [10**6]])
    long = {"id_bytes": np.full(10**6, 65, np.uint8), "id_ends": ends}
    forged(index, path, monkeypatch, {}, {"ids": long})
    with pytest.raises(ModelFileError, match="the longest id is too long"):
        open_index(path)
