"""Models, work and indexes by URL: the same bits as in a folder here, and whole files or none."""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from similia.distributed import (
    evaluate_parts,
    index_shards,
    learn_shares,
    search_ranges,
    search_shards,
)
from similia.distributed.engines import engine_named
from similia.distributed.folders import WorkFolder, finished
from similia.distributed.tasks import run_all
from similia.files.locations import Location
from tests.distributed.hostile import Writing
from tests.distributed.test_learning import learnt

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def files():
    """A file system in the memory of this process, as it is reached by memory://there/…"""
    found = fsspec.filesystem("memory")
    yield found
    found.rm("/there", recursive=True)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder, and its URL for all processes of this machine."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    place = {"path": str(folder), "target_protocol": "file"}
    monkeypatch.setenv("FSSPEC_DIR", json.dumps(place))
    monkeypatch.setitem(fsspec.config.conf, "dir", place)
    return folder


@pytest.fixture
def processes(elsewhere):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("form", ["path", "URL", "array"])
def test_a_model_learnt_by_url_has_the_same_bits(problem, inline, files, form):
    expected, output = learnt(problem, inline), "memory://there/model.safetensors"
    given = {"path": problem.vectors, "array": problem.X, "URL": "memory://there/x.npy"}[form]
    files.pipe_file("/there/x.npy", problem.vectors.read_bytes())
    options = {"executor": inline, "shares": 4, "output": output, "held_out": problem.feedback}
    learn_shares(problem.learner(), given, problem.feedback, **options)
    assert files.cat_file("/there/model.safetensors") == expected
    assert set(files.ls("/there", detail=False)) == {"/there/model.safetensors", "/there/x.npy"}


def test_work_by_url_goes_on_from_what_is_finished(problem, inline, files):
    url = "memory://there/work"
    options = {"executor": inline, "shares": 4, "work": url}
    expected = learn_shares(problem.learner(), problem.X, problem.feedback, **options).model
    before = {one["name"]: one["created"] for one in files.ls("/there/work", detail=True)}
    files.rm_file("/there/work/part-0001.safetensors")
    files.pipe_file("/there/work/part-0002.safetensors", b"half")
    again = learn_shares(problem.learner(), problem.X, problem.feedback, **options).model
    np.testing.assert_array_equal(again.W_, expected.W_)
    after = {one["name"]: one["created"] for one in files.ls("/there/work", detail=True)}
    done_again = {name.rpartition("/")[2] for name in after if after[name] != before[name]}
    parts = {f"part-000{n}.{end}" for n in (1, 2) for end in ("json", "safetensors", "progress")}
    assert done_again == parts
    with pytest.raises(ValueError, match="memory://there/work holds the work of another task"):
        learn_shares(problem.learner(), problem.X, problem.feedback, **{**options, "shares": 3})


def test_everything_works_by_url_in_other_processes(problem, elsewhere, processes, inline):
    """Nothing but URLs is shared: neither the work, nor models, shards and judgements."""
    for path in (problem.vectors, problem.feedback):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    X, judged = "dir://vectors.npy", "dir://feedback.npy"
    output, given = "dir://model.safetensors", {"executor": processes}
    learn_shares(problem.learner(), X, judged, shares=4, output=output, **given)
    assert (elsewhere / "model.safetensors").read_bytes() == learnt(problem, inline)
    assert names(elsewhere) == {"vectors.npy", "feedback.npy", "model.safetensors"}

    scorers = {"base": "cosine", "file": output, "own": problem.learner().learn(problem.X, [])}
    here = {**scorers, "file": problem.output("model")}
    options = {"work": problem.folder / "measured", "executor": inline}
    expected = evaluate_parts(here, problem.vectors, problem.feedback, **options)
    found = evaluate_parts(scorers, X, judged, work="dir://measured", parts=3, **given)
    for name, own in found.items():
        for measure, values in own.per_query.items():
            np.testing.assert_array_equal(values, expected[name].per_query[measure])

    options = {"work": problem.folder / "found", "executor": inline, "range_size": 50}
    expected = search_ranges(here["file"], problem.X, problem.X, 5, **options)
    options = {"work": "dir://found", "range_size": 50, **given}
    found = search_ranges(output, problem.X, X, 5, **options)
    np.testing.assert_array_equal(found, expected)

    report = index_shards(X, "dir://shards", output, backend="exact", shard_size=50, **given)
    assert report.recall == 1.0
    assert {"shards.json", "shard-00002.safetensors"} <= names(elsewhere / "shards")
    rows, _ = search_shards("dir://shards", X, 5, work="dir://asked", model=output, **given)
    np.testing.assert_array_equal(rows, expected[0])


def test_the_same_index_by_url_is_built_once(problem, inline, files):
    options = {"backend": "exact", "shard_size": 50, "executor": inline}
    url = "memory://there/shards"
    first = index_shards(problem.vectors, url, **options)
    before = files.info("/there/shards/shard-00001.safetensors")["created"]
    assert index_shards(problem.vectors, url, **options) == first
    assert files.info("/there/shards/shard-00001.safetensors")["created"] == before


def test_a_copy_that_fails_leaves_what_was_there(files, tmp_path, monkeypatch):
    files.pipe_file("/there/model", b"before")
    (tmp_path / "model").write_bytes(b"after")
    kind, target = type(files), Location("memory://there/model")

    def cut(own, source, path, **options):
        own.pipe_file(path, b"aft")
        raise ConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "put_file", cut)
        with pytest.raises(OSError, match=r"^memory://there/model: could not be written \(gone\)"):
            target.put(tmp_path / "model")
    assert [files.cat_file(path) for path in files.ls("/there", detail=False)] == [b"before"]
    target.put(tmp_path / "model")
    assert [files.cat_file(path) for path in files.ls("/there", detail=False)] == [b"after"]


def test_a_folder_of_other_things_is_refused(problem, inline, files):
    files.pipe_file("/there/mine/letter.txt", b"dear")
    given = (problem.learner(), problem.X, problem.feedback)
    with pytest.raises(ValueError, match="memory://there/mine: the folder for work must be new"):
        learn_shares(*given, work="memory://there/mine", executor=inline)
    assert files.ls("/there/mine", detail=False) == ["/there/mine/letter.txt"]


def test_lost_workers_change_nothing(elsewhere, patient):
    fates, folder = ["die", "memory", ""], WorkFolder("dir://work")
    folder.make()
    tasks = [Writing(f"task-{n}", fate, str(elsewhere)) for n, fate in enumerate(fates)]
    records = run_all(tasks, folder, engine_named("processes:2"), patience=patient)
    assert [record["wrote"] for record in records] == ["task-0", "task-1", "task-2"]
    assert finished(folder, "task-0") == records[0]


def test_reports_are_looked_at_together_and_seldom(files, inline, monkeypatch):
    folder = WorkFolder("memory://there/work")
    folder.make()
    looks = []
    texts = folder.remote.texts
    monkeypatch.setattr(folder.remote, "texts", lambda own: looks.append(1) or texts(own))
    folder.say("a", "3 1@host")
    for _ in range(5):
        assert folder.said(["a", "b"]) == {"a": "3 1@host"}
    assert len(looks) == 1
    folder.silence("a")
    assert folder.said(["a"]) == {}
    assert not folder.names()
