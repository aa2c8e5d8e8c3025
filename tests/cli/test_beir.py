import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from similia import OASIS, save
from similia.files import read_beir


@pytest.fixture
def folder(tmp_path, rng):
    """Twenty texts and five queries; query i is answered by text 2 i."""
    path = tmp_path / "set"
    (path / "qrels").mkdir(parents=True)
    for name, n in (("queries", 5), ("corpus", 20)):
        rows = [{"_id": f"{name[0]}{i}", "text": "t"} for i in range(n)]
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        np.save(path / f"{name}.npy", rng.normal(size=(n, 4)))
    grades = "".join(f"q{i}\tc{2 * i}\t1\n" for i in range(5))
    (path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + grades)
    (path / "qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\tc1\t1\n")
    return path


@pytest.fixture
def model(tmp_path, rng):
    X = rng.normal(size=(30, 4))
    save(OASIS().learn(X, rng.integers(30, size=(50, 3))), tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def test_vectors_have_the_ids_of_their_texts(folder):
    found = read_beir(folder)
    assert found.queries.ids.names() == [f"q{i}" for i in range(5)]
    assert found.corpus.ids.row("c7") == 7
    assert_array_equal(found.corpus.X, np.load(folder / "corpus.npy"))
    assert found.qrels == folder / "qrels/test.tsv"
    assert read_beir(folder, "train").qrels == folder / "qrels/train.tsv"


def test_evaluate_needs_nothing_but_the_folder(run, folder, model):
    found = json.loads(run("evaluate", model, "--beir", folder, "--json").stdout)
    (folder / "q.ids").write_text("".join(f"q{i}\n" for i in range(5)))
    (folder / "c.ids").write_text("".join(f"c{i}\n" for i in range(20)))
    sides = ("--items", folder / "corpus.npy", "--ids", folder / "q.ids", "--item-ids")
    files = (folder / "queries.npy", folder / "qrels/test.tsv", *sides, folder / "c.ids")
    assert found == json.loads(run("evaluate", model, *files, "--json").stdout)
    assert found["n_queries"] == 5


def test_half_a_call_is_refused(run, folder, model):
    for more in ((), (folder / "queries.npy",), ("--beir", folder, "--items", folder / "x.npy")):
        assert "--beir FOLDER" in run("evaluate", model, *more, code=2).stderr


def test_what_is_missing_is_named(folder):
    (folder / "queries.npy").rename(folder / "q.npy")
    with pytest.raises(ValueError, match="vectors of the queries must be in one of"):
        read_beir(folder)
    np.save(folder / "queries.npy", np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"one per line of queries\.jsonl, got 4 for 5"):
        read_beir(folder)
    (folder / "q.npy").replace(folder / "queries.npy")
    (folder / "corpus.jsonl").write_text('{"_id": "a"}\n' * 20)
    with pytest.raises(ValueError, match="different"):
        read_beir(folder)
    (folder / "corpus.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(ValueError, match="must have the column _id"):
        read_beir(folder)
    (folder / "corpus.jsonl").write_text("[\n")
    with pytest.raises(ValueError, match="row 1: not valid JSON"):
        read_beir(folder)
    with pytest.raises(ValueError, match=r"grades must be in qrels/dev\.tsv"):
        read_beir(folder, "dev")
