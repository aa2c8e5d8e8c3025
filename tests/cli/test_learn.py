import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

from similia import Blend, load
from similia.feedback.feedback_file import LAYOUTS
from similia.registry import LEARNERS, learner_class


def test_learning_scores_each_judgement_first_and_saves(run, files):
    model = files / "model.safetensors"
    result = run("learn", files / "X.npy", files / "feedback.csv", "-o", model, "--json")
    found = json.loads(result.stdout)
    assert found["feedback"]["n"] == found["n_seen"] == 400
    assert 0.5 < found["accuracy_at_start"] < found["progressive_accuracy"] <= 1
    X = np.load(files / "X.npy")
    expected = Blend().learn(X, np.load(files / "feedback.npy"))
    np.testing.assert_allclose(load(model).pairwise_score(X), expected.pairwise_score(X))
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
        *("--learner", "FactoredAROMA"),
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
    found = json.loads(run(*arguments, "--learner", "OASIS", "--set", "prior=zero").stdout)
    assert found["accuracy_at_start"] == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learner", "NONE"], "learner must be one of Blend, FactoredAROMA"),
        (["--learner", "LEGO", "--items", "X.npy"], "items must be left out for LEGO"),
        (["--learner", "AROW"], "with the columns row,label, got shape (400, 3)"),
        (["--set", "memory=-1"], "Blend: memory must be an integer of at least 0, got -1."),
        (["--set", "q=1"], "Blend: parameters must be among"),
        (["--items", "X.txt"], "ends in one of .npy"),
        (["--items", "none.npy"], "none.npy: No such file or directory."),
        (["--from", "X.npy"], "is not a model file"),
        (["--output", "none/model"], "does not exist"),
        (["--output", "."], "path must be a file"),
        (["--output", os.devnull], "path must be a file, got the device or pipe"),
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
    ("name", "contents", "code", "message"),
    [
        ("a.csv", "0,1,2\n", 1, "must have the columns query,better,worse"),
        ("b.csv", "query,better,worse\n", 1, "at least one judgement"),
        ("c.csv", "query,better,worse\n0,1,x\n", 3, "row 2: unknown id 'x' in column worse"),
        ("d.csv", "query,better,worse\n0,1\n", 3, "row 2: wrong number of fields"),
        ("e.csv", "query,better,worse\n0,1,99\n", 3, "row 2: unknown id '99' in column worse"),
        ("f.npy", "junk", 1, "could not be read"),
        ("g.npy", "", 1, "could not be read"),
        ("h.parquet", "", 1, "could not be read"),
        ("i.csv", "query,item,relevance\n0,1,1\n", 1, "try --unjudged worse"),
        ("j.parquet", None, 1, "a folder of feedback must have one file of qrels, got none"),
    ],
)
def test_bad_feedback_files_are_explained(name, contents, code, message, run, files):
    if contents is None:
        (files / name).mkdir()
    else:
        (files / name).write_text(contents)
    result = run("learn", files / "X.npy", files / name, "-o", files / "model", code=code)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_pickled_arrays_are_never_opened(run, files):
    np.save(files / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    result = run("learn", files / "pickled.npy", files / "feedback.npy", "-o", files / "m", code=1)
    assert "could not be read" in result.stderr


@pytest.mark.parametrize(
    "options",
    [["--set", "r"], ["--from", "model", "--learner", "OASIS"], ["--chunk", "0"], ["--resume"]],
)
def test_misuse_has_code_2(options, run, files):
    run("learn", files / "X.npy", files / "feedback.npy", "-o", files / "m", *options, code=2)


@pytest.mark.parametrize("option", ["--output", "--bad-log"])
@pytest.mark.parametrize("name", ["X.npy", "feedback.npy", "X.npy.ids"])
def test_inputs_are_never_written_over(option, name, run, files):
    (files / "X.npy.ids").write_text("".join(f"{i}\n" for i in range(40)))
    before = (files / name).read_bytes()
    arguments = ("learn", files / "X.npy", files / "feedback.npy", "--ids", files / "X.npy.ids")
    result = run(*arguments, "-o", files / "m", option, files / name, code=2)
    assert "is an input" in result.stderr
    assert (files / name).read_bytes() == before


def test_standard_input_is_read_once(run, files):
    assert "only one input" in run("learn", "-", "-", "-o", files / "m", code=2).stderr


def test_one_class_is_too_few(run, files):
    (files / "l.csv").write_text("row,label\n1,a\n2,a\n")
    arguments = ("learn", files / "X.npy", files / "l.csv", "-o", files / "m", "--learner", "AROW")
    for action in ("stop", "skip"):
        result = run(*arguments, "--bad-rows", action, code=1)
        assert "labels must be of at least two classes, got only 'a'" in result.stderr


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
    assert "40 labels of 2 classes" in text
    assert "progressive_accuracy" in text
    assert set(load(files / "model").classes_.astype(str)) == set(names)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_reachable(run, files, name):
    """One line of the registry, and the command line knows what to feed it with."""
    contents = {"triplets": "0,2,1\n1,3,2", "pairs": "0,2,1\n0,1,-1", "labels": "0,0\n1,1"}
    kind = learner_class(name).learns_from
    choosable = "feedback" in learner_class(name)().get_params()
    options = ["--set", "feedback=labels"] if choosable else []
    path = files / "judgements.csv"
    path.write_text(",".join(LAYOUTS[kind][0]) + "\n" + contents[kind] + "\n")
    run("learn", files / "X.npy", path, "--learner", name, *options, "-o", files / "model")
    assert load(files / "model").n_seen_ == 2


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_input_is_learnt_from(run, files, form):
    rows = np.load(files / "feedback.npy").tolist()
    names = ("query", "better", "worse")
    text = {
        "csv": "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]),
        "jsonl": "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows),
    }[form]
    run("learn", files / "X.npy", "-", "-o", files / "piped", stdin=text)
    run("learn", files / "X.npy", files / "feedback.npy", "-o", files / "whole")
    X = np.load(files / "X.npy")
    piped, whole = (load(files / name).pairwise_score(X) for name in ("piped", "whole"))
    np.testing.assert_array_equal(piped, whole)


def test_labels_from_standard_input_are_kept_for_a_second_reading(run, files):
    text = "row,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40))
    run("learn", files / "X.npy", "-", "-o", files / "m", "--learner", "AROW", stdin=text)
    assert load(files / "m").classes_.tolist() == ["a", "b"]


def test_ids_name_the_vectors(run, files):
    X = np.load(files / "X.npy")
    names = [f"doc/{i}" for i in range(len(X))]
    with open(files / "X.jsonl", "w") as file:
        for name, x in zip(names, X.tolist(), strict=True):
            file.write(json.dumps({"key": name, "embedding": x}) + "\n")
    (files / "ids.txt").write_text("\n".join(names) + "\n")
    rows = np.load(files / "feedback.npy").tolist()
    with open(files / "named.csv", "w") as file:
        file.write("query,better,worse\n")
        file.writelines(",".join(names[i] for i in row) + "\n" for row in rows)
    run("learn", files / "X.npy", files / "feedback.npy", "-o", files / "numbered")
    run(
        "learn", files / "X.npy", files / "named.csv", "--ids", files / "ids.txt", "-o", files / "a"
    )
    columns = ("--vector-column", "embedding", "--id-column", "key")
    run("learn", files / "X.jsonl", files / "named.csv", *columns, "-o", files / "b")
    expected, a, b = (load(files / name).pairwise_score(X) for name in ("numbered", "a", "b"))
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_allclose(b, expected, rtol=1e-2, atol=1e-3)


def test_bad_rows_are_skipped_if_asked_and_all_are_logged(run, files):
    rows = [[0, 1, 2], [0, 1, "x"]] * 30
    path, log = files / "bad.csv", files / "bad.jsonl"
    path.write_text("query,better,worse\n" + "".join(f"{q},{b},{w}\n" for q, b, w in rows))
    arguments = ("learn", files / "X.npy", path, "-o", files / "model")
    stopped = run(*arguments, code=3)
    hint = "if items are in another file than queries, name it by --items."
    assert stopped.stderr == f"error: {path}: row 3: unknown id 'x' in column worse; {hint}\n"
    assert not (files / "model").exists()
    result = run(*arguments, "--bad-rows", "skip", "--bad-log", log, "--json")
    found = json.loads(result.stdout)
    assert found["bad_rows"] == {"n": 30, "by_reason": {"unknown id in column worse": 30}}
    assert found["n_seen"] == found["feedback"]["n"] == 30
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["number"] for entry in logged] == list(range(3, 62, 2))
    assert result.stderr.count("skipped: ") == 21
    assert "skipped: 10 more." in result.stderr
    assert "30 skipped" in run(*arguments, "--bad-rows", "skip").stdout


def test_grades_become_triplets(run, files):
    path = files / "clicks.csv"
    path.write_text("query,item,relevance\n0,2,1\n0,1,0\n1,3,1\n1,2,0\n")
    run("learn", files / "X.npy", path, "-o", files / "m")
    assert load(files / "m").n_seen_ == 16
    run("learn", files / "X.npy", path, "-o", files / "m", "--unjudged", "worse")
    assert load(files / "m").n_seen_ == 16


def test_a_checkpoint_is_not_overwritten_by_accident_and_gone_at_the_end(run, files):
    from similia.stream import Checkpoint, Tally

    folder = files / "kept"
    model = Blend().learn(np.load(files / "X.npy"), [[0, 1, 2]])
    Checkpoint(folder, {}).write(model, Tally())
    arguments = ("learn", files / "X.npy", files / "feedback.npy", "-o", files / "model")
    result = run(*arguments, "--checkpoint", folder, code=1)
    assert "add --resume" in result.stderr
    result = run(*arguments, "--checkpoint", folder, "--resume", code=1)
    assert "another task" in result.stderr
    run(*arguments, "--checkpoint", files / "new", "--every", 1, "--chunk", 10, "--resume")
    assert not (files / "new").exists()


@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupted_run_says_what_is_kept(kept, run, files, monkeypatch):
    learn, calls = Blend.learn_checked, []

    def interrupted(self, X, Z, triplets):
        calls.append(len(triplets))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(self, X, Z, triplets)

    arguments = ("learn", files / "X.npy", files / "feedback.npy", "-o", files / "model")
    folder = ("--checkpoint", files / "kept", "--every", 1) if kept else ()
    with monkeypatch.context() as patch:
        patch.setattr(Blend, "learn_checked", interrupted)
        result = run(*arguments, *folder, code=130)
    advice = f": {files / 'kept'} is kept, add --resume to continue" if kept else ""
    assert result.stderr == f"interrupted{advice}.\n"
    assert not (files / "model").exists()
    if kept:
        run(*arguments, *folder, "--resume")
        X = np.load(files / "X.npy")
        expected = Blend().learn(X, np.load(files / "feedback.npy")).pairwise_score(X)
        np.testing.assert_allclose(load(files / "model").pairwise_score(X), expected)


def test_a_killed_run_goes_on_exactly(files):
    """Kill the process after a checkpoint, resume, and compare with a run that nobody killed."""
    rows = np.random.default_rng(1).integers(40, size=(20_000, 3))
    np.savetxt(files / "f.csv", rows, "%d", delimiter=",", header="query,better,worse", comments="")

    def command(feedback, output, *options):
        paths = [str(files / name) for name in ("X.npy", feedback)]
        learn = [*paths, "-o", str(files / output), "--chunk", "500", "--json", *options]
        return [sys.executable, "-m", "similia.cli.main", "learn", *learn]

    def finished(*arguments):
        done = subprocess.run(command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "output": None}

    checkpoints = ["--every", "500", "--checkpoint", str(files / "kept"), "--resume"]
    process = subprocess.Popen(
        command("f.csv", "model", *checkpoints),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    progress = files / "kept" / "progress.json"
    while process.poll() is None and not progress.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (files / "model").exists()
    done = json.loads(progress.read_text())["tally"]["n"]
    assert 0 < done < 20_000
    assert finished("f.csv", "model", *checkpoints) == finished("f.csv", "whole")
    a, b = load(files / "model").get_state(), load(files / "whole").get_state()
    for name, value in b.items():
        np.testing.assert_array_equal(a[name], value)


def test_columns_may_have_other_names(run, files):
    text = (files / "feedback.csv").read_text()
    (files / "other.tsv").write_text(
        text.replace("query,better,worse", "q,good,bad").replace(",", "\t")
    )
    names = "query=q, better=good,worse=bad"
    for name, options in (("feedback.csv", []), ("other.tsv", ["--columns", names])):
        run("learn", files / "X.npy", files / name, "-o", files / f"{name}.model", *options)
    one, other = (load(files / f"{name}.model") for name in ("feedback.csv", "other.tsv"))
    X = np.load(files / "X.npy")
    np.testing.assert_array_equal(one.pairwise_score(X), other.pairwise_score(X))
    command = ("learn", files / "X.npy", files / "other.tsv", "-o", files / "m", "--columns")
    assert "columns must be among" in run(*command, "query=x", code=1).stderr
    assert "--columns must be NAME=COLUMN" in run(*command, "query", code=2).stderr


@pytest.mark.filterwarnings("default")
def test_clicks_are_learnt_and_a_position_is_not_ignored_in_silence(run, files):
    rows = ["impression,query,item,click,position"]
    for number in range(60):
        rows += [
            f"{number},{number % 40},{(number + 3 * j) % 40},{int(j == 2)},{j + 1}"
            for j in range(4)
        ]
    (files / "log.csv").write_text("\n".join(rows))
    command = ("learn", files / "X.npy", files / "log.csv", "-o", files / "m", "--json")
    silent = run(*command)
    assert json.loads(silent.stdout)["feedback"]["n_shown"] == 240
    assert silent.stderr == ""
    result = run(*command, "--learner", "OASIS")
    found = json.loads(result.stdout)
    assert found["feedback"]["n"] == 60
    assert "warning: " in result.stderr
    assert "Blend, which learns from lists, uses it" in result.stderr
    above = json.loads(run(*command, "--learner", "OASIS", "--clicks", "skip-above").stdout)
    assert above["feedback"]["n"] == 60
    (files / "log.csv").write_text("query,item,relevance,position\n0,1,1,1\n0,2,0,2\n")
    shown = run(*command).stderr
    assert "warning: " in shown
    assert "the column position is not used beside query,item,relevance" in shown
