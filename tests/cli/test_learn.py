import json

import numpy as np
import pytest
from scipy import sparse

from similia import FactoredAROMA, load
from similia.cli.files import COLUMNS
from similia.registry import LEARNERS, learner_class


def test_learning_scores_each_judgement_first_and_saves(run, files):
    model = files / "model.safetensors"
    result = run("learn", files / "X.npy", files / "feedback.csv", "-o", model, "--json")
    found = json.loads(result.stdout)
    assert found["feedback"]["n"] == found["n_seen"] == 400
    assert 0.5 < found["accuracy_at_start"] < found["progressive_accuracy"] <= 1
    expected = FactoredAROMA().learn(np.load(files / "X.npy"), np.load(files / "feedback.npy"))
    np.testing.assert_allclose(load(model).W_, expected.W_)
    assert found["n_updates"] == expected.n_updates_


def test_going_on_from_a_model_equals_learning_at_once(run, files):
    triplets = np.load(files / "feedback.npy")
    np.save(files / "one.npy", triplets[:150])
    np.save(files / "two.npy", triplets[150:])
    X, model = files / "X.npy", files / "model.safetensors"
    run("learn", X, files / "one.npy", "-o", model, "--learner", "OASIS", "--set", "C=0.5")
    run("learn", X, files / "two.npy", "-o", model, "--from", model, "--chunk", 7)
    run("learn", X, files / "feedback.npy", "-o", files / "whole", "--learner=OASIS", "--set=C=0.5")
    np.testing.assert_allclose(load(model).W_, load(files / "whole").W_)
    assert load(model).n_seen_ == 400


def test_sparse_vectors_and_separate_items_are_learnt_from(run, files):
    X = np.load(files / "X.npy")
    sparse.save_npz(files / "X.npz", sparse.csr_array(X))
    np.save(files / "Z.npy", X[:, :4])
    result = run(
        *("learn", files / "X.npz", files / "feedback.npy", "--items", files / "Z.npy"),
        *("--set", "prior=zero", "--set", "average=false", "-o", files / "model"),
    )
    assert "400 judgements" in result.stdout
    learner = load(files / "model")
    assert learner.W_.shape == (6, 4)
    assert learner.average is False


def test_a_threshold_says_which_pairs_are_right(run, files):
    X = np.load(files / "X.npy")
    pairs = np.random.default_rng(0).integers(len(X), size=(400, 2))
    signs = np.where((X[pairs[:, 0], 0] > 0) == (X[pairs[:, 1], 0] > 0), 1, -1)
    np.save(files / "pairs.npy", np.column_stack([pairs, signs]))
    arguments = ("learn", files / "X.npy", files / "pairs.npy", "-o", files / "m", "--json")
    found = json.loads(run(*arguments, "--learner", "POLA").stdout)
    assert 0.4 < found["accuracy_at_start"] < found["progressive_accuracy"] <= 1
    assert "progressive_accuracy" not in json.loads(run(*arguments, "--learner", "LEGO").stdout)


def test_ties_count_half(run, files):
    arguments = ("learn", files / "X.npy", files / "feedback.npy", "-o", files / "m", "--json")
    found = json.loads(run(*arguments, "--set", "prior=zero").stdout)
    assert found["accuracy_at_start"] == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learner", "NONE"], "learner must be one of FactoredAROMA"),
        (["--learner", "LEGO", "--items", "X.npy"], "--items must be left out for LEGO"),
        (["--learner", "AROW"], "shape (n, 2) is needed, for row,label"),
        (["--set", "r=-1"], "FactoredAROMA: r must be a positive number, got -1."),
        (["--set", "q=1"], "--set must name one of"),
        (["--items", "X.txt"], "must be in a .npy file"),
        (["--items", "none.npy"], "none.npy: No such file or directory."),
        (["--from", "X.npy"], "is not a model file"),
        (["--output", "none/model"], "does not exist"),
        (["--output", "."], "path must be a file"),
    ],
)
def test_bad_inputs_give_one_line(options, message, run, files, monkeypatch):
    monkeypatch.chdir(files)
    result = run("learn", "X.npy", "feedback.npy", "-o", "model", *options, code=1)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not (files / "model").exists()


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.csv", "0,1,2\n", "the first line must be query,better,worse"),
        ("b.csv", "query,better,worse\n", "at least one judgement"),
        ("c.csv", "query,better,worse\n0,1,x\n", "could not be read"),
        ("d.csv", "query,better,worse\n0,1\n", "line 2 must have 3 entries, got 2"),
        ("e.csv", "query,better,worse\n0,1,99\n", "row indices between 0 and 39, got 99"),
        ("f.npy", "junk", "could not be read"),
        ("g.npy", "", "could not be read"),
        ("h.parquet", "", "must be in a .npy file"),
    ],
)
def test_bad_feedback_files_are_explained(name, contents, message, run, files):
    (files / name).write_text(contents)
    result = run("learn", files / "X.npy", files / name, "-o", files / "model", code=1)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_pickled_arrays_are_never_opened(run, files):
    np.save(files / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    result = run("learn", files / "pickled.npy", files / "feedback.npy", "-o", files / "m", code=1)
    assert "could not be read" in result.stderr


@pytest.mark.parametrize(
    "options", [["--set", "r"], ["--from", "model", "--learner", "OASIS"], ["--chunk", "0"]]
)
def test_misuse_has_code_2(options, run, files):
    run("learn", files / "X.npy", files / "feedback.npy", "-o", files / "m", *options, code=2)


@pytest.mark.parametrize("y", ["1,-1,1", "0.5,2.5,0"])
def test_pairs_are_learnt_from(run, files, y):
    lines = ["a,b,y", *(f"{i},{i + 1},{value}" for i, value in enumerate(y.split(",")))]
    (files / "pairs.csv").write_text("\n".join(lines))
    kind = "labels" if "." not in y else "distances"
    options = ("--learner", "LEGO", "--set", f"feedback={kind}", "--json", "-o", files / "model")
    found = json.loads(run("learn", files / "X.npy", files / "pairs.csv", *options).stdout)
    assert found["n_seen"] == found["feedback"]["n"] == 3
    assert load(files / "model").n_seen_ == 3


@pytest.mark.parametrize("names", [("0", "1"), ("odd", "even")])
def test_labels_are_learnt_from(run, files, names):
    lines = ["row,label", *(f"{i},{names[i % 2]}" for i in range(40))]
    (files / "labels.csv").write_text("\n".join(lines))
    options = ("--learner", "AROW", "--chunk", 10, "-o", files / "model")
    text = run("learn", files / "X.npy", files / "labels.csv", *options).stdout
    assert "40 labels of 2 classes." in text
    assert "progressive_accuracy" in text
    assert set(load(files / "model").classes_.astype(str)) == set(names)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_reachable(run, files, name):
    """One line of the registry, and the command line knows what to feed it with."""
    contents = {"triplets": "0,2,1\n1,3,2", "pairs": "0,2,1\n0,1,-1", "labels": "0,0\n1,1"}
    kind = learner_class(name).learns_from
    options = ["--set", "feedback=labels"] if hasattr(learner_class(name)(), "feedback") else []
    path = files / "judgements.csv"
    path.write_text(",".join(COLUMNS[kind]) + "\n" + contents[kind] + "\n")
    run("learn", files / "X.npy", path, "--learner", name, *options, "-o", files / "model")
    assert load(files / "model").n_seen_ == 2
