"""Work on tables and URLs: the same bits as on arrays here, from no more than each task needs."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from scipy import sparse

from similia.distributed import (
    VectorPath,
    evaluate_parts,
    export_items,
    index_shards,
    search_ranges,
    search_shards,
)
from similia.distributed.folders import WorkFolder
from similia.distributed.inputs import located
from similia.distributed.learning import learn_shares
from similia.distributed.shares import RangedVectors
from similia.files.tables import Table
from similia.files.vectors import open_rows
from similia.trust.agreement import ACCURACY
from tests.distributed.test_exporting import Shelf

fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

N, GROUP = 900, 200


@pytest.fixture
def stored(tmp_path, rng):
    """The same items as an array and as tables, with ids in a column; and queries."""
    X = rng.normal(size=(N, 6)).astype(np.float32)
    np.save(tmp_path / "items.npy", X)
    (tmp_path / "items.npy.ids").write_text("".join(f"item-{row}\n" for row in range(N)))
    names = [f"item-{row}" for row in range(N)]
    table = pa.table({"id": names, "vector": pa.array(X.tolist(), pa.list_(pa.float32()))})
    parquet.write_table(table, tmp_path / "items.parquet", row_group_size=GROUP)
    feather.write_feather(table, tmp_path / "items.arrow", chunksize=GROUP)
    np.save(tmp_path / "queries.npy", X[:40] + 0.1)
    return tmp_path


@pytest.fixture
def elsewhere(stored, monkeypatch):
    """URLs that all processes of this machine can open, as dir://NAME."""
    place = {"path": str(stored), "target_protocol": "file"}
    monkeypatch.setenv("FSSPEC_DIR", json.dumps(place))
    monkeypatch.setitem(fsspec.config.conf, "dir", place)
    return "dir://{}".format


@pytest.fixture
def processes():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


def files_of(folder):
    kept = ("shard-", "search-", "trained", "sample")
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name.startswith(kept)
            and not p.name.endswith((".json", ".progress"))}  # fmt: skip


def outcome(items, queries, folder, executor):
    """All that a search leaves: exact, and in shards."""
    given = {"executor": executor}
    exact = search_ranges(
        "inner_product", queries, items, 7, work=folder / "exact", range_size=250, **given
    )
    options = {"backend": "exact", "shard_size": 250}
    report = index_shards(items, folder / "shards", **options, **given)
    found = search_shards(folder / "shards", queries, 7, work=folder / "found", **given)
    assert report.recall == 1.0
    return [*exact, *found], files_of(folder / "exact")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_tables_are_searched_like_arrays(stored, inline, suffix):
    queries = stored / "queries.npy"
    expected, files = outcome(stored / "items.npy", queries, stored / "by-array", inline)
    found, own = outcome(stored / f"items.{suffix}", queries, stored / "by-table", inline)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert own == files


def test_urls_are_searched_like_paths_in_other_processes(stored, elsewhere, processes):
    expected, files = outcome(
        stored / "items.npy", stored / "queries.npy", stored / "here", processes
    )
    for items in ("items.parquet", "items.arrow", "items.npy"):
        place = stored / f"there-{items}"
        found, own = outcome(elsewhere(items), elsewhere("queries.npy"), place, processes)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert own == files
        copies = [path.name.rpartition("-")[2] for path in (place / "exact").glob("fetched-*")]
        wanted = {"queries.npy"} if items == "items.parquet" else {"queries.npy", items}
        assert {name.removesuffix(".ids") for name in copies} == wanted  # parquet stays there


def test_a_task_reads_the_groups_of_rows_of_its_range(stored, inline, monkeypatch):
    read, of_task = [], []
    batches = Table.batches

    def counted(table, names, size=2**16, *, encoded=False, parts=None):
        read.append((tuple(names), parts))
        return batches(table, names, size, encoded=encoded, parts=parts)

    monkeypatch.setattr(Table, "batches", counted)
    ranged = RangedVectors(
        located(stored / "items.parquet", WorkFolder(stored / "work"), ranged=True)
    )
    for some in ranged.ranges(250):
        read.clear()
        some.read()
        of_task.append(list(read))
    parts = [range(2), range(1, 3), range(2, 4), range(3, 5)]
    assert of_task == [[(("vector",), part)] for part in parts]


def test_a_search_by_rows_reads_no_ids(stored, inline, monkeypatch):
    read, batches = set(), Table.batches

    def noted(table, names, *arguments, **options):
        read.update(names)
        return batches(table, names, *arguments, **options)

    monkeypatch.setattr(Table, "batches", noted)
    sides, given = (stored / "queries.npy", stored / "items.parquet"), {"executor": inline}
    search_ranges("cosine", *sides, 3, work=stored / "found", **given)
    index_shards(sides[1], stored / "shards", backend="exact", **given)
    assert read == {"vector"}


def test_integer_ids_of_a_table_are_one_array(tmp_path):
    ids = np.random.default_rng(0).permutation(N)
    vectors = pa.array(np.ones((N, 2)).tolist(), pa.list_(pa.float32()))
    table = pa.table({"id": ids.astype(np.int32), "vector": vectors})
    parquet.write_table(table, tmp_path / "items.parquet", row_group_size=GROUP)
    rows = open_rows(tmp_path / "items.parquet")
    assert isinstance(rows.own_ids(), np.ndarray)
    np.testing.assert_array_equal(rows.own_ids(150, 450), ids[150:450])
    assert rows.names(150, 450) == ids[150:450].tolist()
    assert rows.ids().row(int(ids[7])) == 7


@pytest.mark.parametrize("name", ["items.parquet", "items.arrow", "items.npy"])
def test_exports_have_the_ids_of_the_table(stored, elsewhere, inline, monkeypatch, name):
    X = np.load(stored / "items.npy")
    for place, items in enumerate((stored / name, elsewhere(name))):
        shelf = Shelf()
        monkeypatch.setattr("similia.distributed.exporting.open_target", lambda *_, s=shelf: s)
        work = stored / f"work-{place}"
        options = {"executor": inline, "batch": 40, "range_size": 250, "work": work}
        assert export_items(items, "postgresql://host/db", "things", **options) == N
        assert shelf.made == (6, "inner_product", False)
        np.testing.assert_array_equal([shelf.rows[f"item-{row}"] for row in range(N)], X)


def test_ids_are_texts_in_all_ranges_if_one_is_too_large(tmp_path, inline, monkeypatch):
    ids = np.arange(N, dtype=np.uint64)
    ids[-1] = 2**64 - 1
    vectors = pa.array(np.ones((N, 2)).tolist(), pa.list_(pa.float32()))
    path = tmp_path / "items.parquet"
    parquet.write_table(pa.table({"id": ids, "vector": vectors}), path, row_group_size=GROUP)
    shelf = Shelf()
    monkeypatch.setattr("similia.distributed.exporting.open_target", lambda *_: shelf)
    options = {"executor": inline, "range_size": 250, "work": tmp_path / "work"}
    export_items(path, "postgresql://host/db", "things", **options)
    assert set(shelf.rows) == {str(value) for value in ids.tolist()}


def test_urls_are_learnt_and_evaluated_like_paths(problem, inline):
    files = fsspec.filesystem("memory")
    for path in (problem.vectors, problem.feedback):
        files.pipe_file(f"/learnt/{path.name}", path.read_bytes())
    vectors, feedback = "memory://learnt/vectors.npy", "memory://learnt/feedback.npy"
    models, measured = [], []
    for place, given in enumerate(((problem.vectors, problem.feedback), (vectors, feedback))):
        output = problem.output(place)
        options = {"executor": inline, "shares": 3, "output": output, "held_out": given[1]}
        learn_shares(problem.learner(), *given, **options)
        models.append(output.read_bytes())
        options = {"executor": inline, "work": problem.folder / f"measured-{place}"}
        found = evaluate_parts({"learnt": output}, *given, **options)["learnt"]
        measured.append(found.per_query[ACCURACY])
    assert models[0] == models[1]
    np.testing.assert_array_equal(*measured)
    files.rm("/learnt", recursive=True)


def test_a_file_that_changes_between_tasks_is_refused(stored, elsewhere, inline):
    for name in (str(stored / "items.parquet"), elsewhere("items.parquet")):
        ranged = RangedVectors(located(name, WorkFolder(stored / "work"), ranged=True))
        first, *_, last = ranged.ranges(250)
        first.read()
        table = parquet.read_table(stored / "items.parquet")
        parquet.write_table(table.slice(0, N - 1), stored / "items.parquet", row_group_size=GROUP)
        with pytest.raises(ValueError, match=r"items.parquet: must stay as it is while work goes"):
            first.read()
        with pytest.raises(ValueError, match=r"items.parquet: must stay as it is while work goes"):
            last.names()
        parquet.write_table(table, stored / "items.parquet", row_group_size=GROUP)


def test_work_goes_on_unless_the_file_elsewhere_has_changed(stored, elsewhere, inline):
    def search(name):
        return search_ranges(
            "cosine", stored / "queries.npy", elsewhere(name), 3, work=stored / f"{name}.work",
            executor=inline,
        )  # fmt: skip

    for name in ("items.parquet", "items.npy"):
        first = search(name)
        record = stored / f"{name}.work" / "search-00000.json"
        before = record.stat().st_mtime_ns
        np.testing.assert_array_equal(search(name)[0], first[0])
        assert record.stat().st_mtime_ns == before
        os.utime(stored / name, ns=(1, 1))
        with pytest.raises(ValueError, match="or its files have changed since"):
            search(name)


def test_a_url_of_nothing_is_named_before_any_work(stored):
    where = VectorPath("memory://nowhere/items.parquet")
    with pytest.raises(FileNotFoundError, match=r"memory://nowhere/items.parquet"):
        search_ranges("cosine", stored / "queries.npy", where, 3, work=stored / "w")
    assert not (stored / "w").exists()


def test_nothing_is_fetched_into_a_folder_of_other_things(stored, elsewhere, inline):
    (stored / "mine").mkdir()
    (stored / "mine" / "letter.txt").write_text("dear")
    given = {"work": stored / "mine", "executor": inline}
    with pytest.raises(ValueError, match="must be new or empty"):
        search_ranges("cosine", elsewhere("queries.npy"), elsewhere("items.npy"), 3, **given)
    assert [path.name for path in (stored / "mine").iterdir()] == ["letter.txt"]


def test_sparse_items_are_not_indexed_in_shards(tmp_path, inline):
    sparse.save_npz(tmp_path / "items.npz", sparse.eye(300, format="csr"))
    with pytest.raises(ValueError, match=r"^index_shards: items must be dense vectors"):
        index_shards(tmp_path / "items.npz", tmp_path / "shards", executor=inline)
