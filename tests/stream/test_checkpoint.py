"""What a checkpoint promises: nothing lost, nothing left, and no other task taken for this one."""

import json
import os

import numpy as np
import pytest
from scipy import sparse

from similia import OASIS, learn_file, load
from similia.files import Ids, VectorFile
from similia.safety.whole import document_sha256
from similia.stream import Checkpoint, Tally, learning
from similia.stream.checkpoint import MODEL_FILE, PROGRESS, content
from similia.views import Views

TASK = {"learner": "OASIS"}


@pytest.fixture
def model(rng):
    return OASIS().learn(rng.normal(size=(3, 2)), [[0, 1, 2]])


@pytest.fixture
def clicks(rng, tmp_path):
    """Vectors, and a file of judgements whose last row is bad."""
    rows = rng.integers(12, size=(300, 3))
    path = tmp_path / "clicks.csv"
    path.write_text(
        "query,better,worse\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows) + "0,1,x"
    )
    return VectorFile(rng.normal(size=(12, 4)), Ids(None, 12)), path


def stopped(vectors, path, kept, **options):
    """Learn until the bad row at the end."""
    with pytest.raises(ValueError, match="unknown id"):
        learn_file(OASIS(), vectors, path, checkpoint=kept, every=50, chunk=50, **options)
    path.write_text(path.read_text().removesuffix("0,1,x"))


def forge(folder, **changes):
    """Change the progress and seal it again."""
    document = json.loads((folder / PROGRESS).read_text())
    document = {**document, **changes}
    document.pop("sha256")
    (folder / PROGRESS).write_text(json.dumps({**document, "sha256": document_sha256(document)}))


def test_leftovers_of_killed_runs_are_swept(model, tmp_path):
    left = tmp_path / ".model-000000000001.0123456789abcdef.part.safetensors"
    for act in (lambda c: c.write(model, Tally(n=2)), Checkpoint.read, Checkpoint.remove):
        Checkpoint(tmp_path, TASK).write(model, Tally(n=1))
        left.write_bytes(b"half")
        (tmp_path / "notes.txt").write_text("mine")
        act(Checkpoint(tmp_path, TASK))
        assert not left.exists()
        assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize("change", ["x", '"n": 7', "}"])
def test_a_change_of_the_progress_is_noticed(change, model, tmp_path):
    Checkpoint(tmp_path, TASK).write(model, Tally(n=5))
    path = tmp_path / PROGRESS
    path.write_text(path.read_text().replace('"n": 5', change))
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(tmp_path, TASK).read()


@pytest.mark.parametrize(
    "name",
    ["../model", "/etc/passwd", "model-1.safetensors", "x/model-000000000005.safetensors", 3],
)
def test_the_progress_names_no_file_elsewhere(name, model, tmp_path):
    Checkpoint(tmp_path, TASK).write(model, Tally(n=5))
    forge(tmp_path, model=name)
    with pytest.raises(ValueError, match="names no model"):
        Checkpoint(tmp_path, TASK).read()


@pytest.mark.parametrize(
    "tally",
    [{"n": -1}, {"n": 10**30}, {"n": 0.5}, {"n": True}, {"width": 0}, {"curve": [[1]]}, {"x": 1}],
)
def test_counts_that_no_run_writes_are_refused(tally, model, tmp_path):
    Checkpoint(tmp_path, TASK).write(model, Tally(n=5))
    found = json.loads((tmp_path / PROGRESS).read_text())["tally"]
    forge(tmp_path, tally={**found, **tally})
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(tmp_path, TASK).read()


def test_a_model_of_another_class_is_refused(model, tmp_path):
    Checkpoint(tmp_path, TASK).write(model, Tally(n=5))
    forge(tmp_path, **{"class": "POLA"})
    with pytest.raises(ValueError, match="another class"):
        Checkpoint(tmp_path, TASK).read()


def test_vectors_of_the_same_shape_are_told_apart(clicks, tmp_path):
    vectors, path = clicks
    stopped(vectors, path, tmp_path / "kept")
    others = VectorFile(vectors.X + 1.0, vectors.ids)
    with pytest.raises(ValueError, match="another task: vectors"):
        learn_file(OASIS(), others, path, checkpoint=tmp_path / "kept", chunk=50, resume=True)


def test_feedback_is_known_by_its_contents(clicks, tmp_path):
    vectors, path = clicks
    kept, options = tmp_path / "kept", {"chunk": 50, "resume": True}
    stopped(vectors, path, kept)
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([rows[0], rows[2], rows[1], *rows[3:]]))
    with pytest.raises(ValueError, match="feedback must be what the checkpoint has learnt"):
        learn_file(OASIS(), vectors, path, checkpoint=kept, **options)
    moved = tmp_path / "moved.csv"
    moved.write_text("".join(rows))
    found = learn_file(OASIS(), vectors, moved, checkpoint=kept, **options)
    whole = learn_file(OASIS(), vectors, moved, chunk=50)
    np.testing.assert_array_equal(found.model.W_, whole.model.W_)


def test_a_kill_in_the_removal_loses_nothing(clicks, tmp_path, monkeypatch):
    vectors, path = clicks
    kept, output = tmp_path / "kept", tmp_path / "model"
    stopped(vectors, path, kept, output=output)
    options = {"checkpoint": kept, "output": output, "chunk": 50, "resume": True}
    unlink, expected, killings = type(path).unlink, None, 0

    class Killed(Exception):
        pass

    def killing_at(removal):
        left = iter(range(removal, -1, -1))

        def killed(self, *, missing_ok=False):
            if (MODEL_FILE.fullmatch(self.name) or self.name == PROGRESS) and next(left, -1) == 0:
                raise Killed
            unlink(self, missing_ok=missing_ok)

        return killed

    for removal in range(10):  # every one of them once, one run after the other
        try:
            with monkeypatch.context() as patch:
                patch.setattr(type(path), "unlink", killing_at(removal))
                found = learn_file(OASIS(), vectors, path, **options)
        except Killed:
            killings += 1
            if output.exists() and expected is None:
                expected = load(output)
                monkeypatch.setattr(learning, "learn_stream", None)  # it is not learnt again
        if not kept.exists():
            break
    assert killings >= 2
    np.testing.assert_array_equal(found.model.W_, expected.W_)
    assert found.feedback["n"] == found.tally.n == 300


def test_a_finished_run_without_its_model_is_refused(clicks, tmp_path, monkeypatch):
    vectors, path = clicks
    kept, output = tmp_path / "kept", tmp_path / "model"
    stopped(vectors, path, kept)
    options = {"checkpoint": kept, "output": output, "chunk": 50, "resume": True}
    monkeypatch.setattr(Checkpoint, "remove", lambda self: None)  # as if killed before
    learn_file(OASIS(), vectors, path, **options)
    monkeypatch.undo()
    os.unlink(output)
    with pytest.raises(ValueError, match="finished run, but its model is not in"):
        learn_file(OASIS(), vectors, path, **options)


def test_contents_are_told_apart(rng):
    X = rng.normal(size=(5, 3))
    S = sparse.csr_array(X * (X > 0))
    forms = [X, X.astype(np.float32), X.reshape(3, 5), X[::-1], S, S[::-1], Views(a=X), Views(b=X)]
    forms += [np.array(["a", "b"], object), np.array(["a", "c"], object), None, 3, np.float64(3.0)]
    assert len({content(form) for form in forms}) == len(forms)
    assert content(X) == content(np.asfortranarray(X)) == content(X.copy())
