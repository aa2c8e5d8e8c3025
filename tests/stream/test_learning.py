import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import AROW, LEGO, OASIS, POLA, Blend, FactoredAROMA, load
from similia.exceptions import BadRowError
from similia.feedback import Judgements
from similia.files import BadRows, Ids, VectorFile
from similia.registry import BATCH_LEARNERS, learner_class
from similia.stream import Checkpoint, Tally, learn_file, learn_stream, lessons, lessons_for
from tests.problems import triplets_of


def stream(rng, n=500, size=37):
    rows = triplets_of(rng, 30, 30, n)
    whole = Judgements(rows, None, np.arange(1, n + 1))
    return rows, [whole.part(slice(i, i + size)) for i in range(0, n, size)]


def test_each_judgement_is_scored_before_it_is_learnt(rng):
    X = rng.normal(size=(30, 5))
    rows, batches = stream(rng)
    model, tally = learn_stream(OASIS(), lessons_for(OASIS(), X), batches, chunk=1)
    expected = OASIS().learn(X, rows[:0])
    start, right = OASIS().learn(X, rows[:0]), 0.0
    for row in rows:
        score = expected.triplet_scores(X, [row])[0]
        right += (score > 0) + (score == 0) / 2
        expected.learn(X, [row])
    scores = start.triplet_scores(X, rows)
    assert tally.progressive == right
    assert tally.at_start == (scores > 0).sum() + (scores == 0).sum() / 2
    assert (tally.n, tally.n_scored, tally.n_updates) == (500, 500, model.n_updates_)
    np.testing.assert_array_equal(model.W_, expected.W_)


def test_queries_not_met_before_are_counted_apart(rng):
    X = rng.normal(size=(30, 5))
    rows, batches = stream(rng)
    _, tally = learn_stream(OASIS(), lessons_for(OASIS(), X), batches, chunk=1)
    start, learner = OASIS().learn(X, rows[:0]), OASIS().learn(X, rows[:0])
    met, marks = set(), []
    for row in rows:
        if row[0] not in met:
            scores = [model.triplet_scores(X, [row])[0] for model in (start, learner)]
            marks.append([(score > 0) + (score == 0) / 2 for score in scores])
        met.add(row[0])
        learner.learn(X, [row])
    assert tally.n_new == len(marks) == len(np.unique(rows[:, 0]))
    assert [tally.at_start_new, tally.progressive_new] == np.sum(marks, axis=0).tolist()
    found = tally.accuracies()
    assert found["n_new_queries"] == tally.n_new
    assert found["progressive_accuracy_new_queries"] == tally.progressive_new / tally.n_new


def test_what_is_learnt_of_the_same_queries_only_is_not_taken_for_more(rng):
    """Labels of chance: repeats are known by heart, and other queries are guessed as before."""
    X = rng.normal(size=(60, 40))
    base = np.column_stack([np.arange(60), rng.integers(60, size=(60, 2))])
    rows = np.concatenate([base] * 8)
    whole = Judgements(rows, None, np.arange(1, len(rows) + 1))
    given = lessons_for(OASIS(C=10.0), X)
    _, tally = learn_stream(OASIS(C=10.0), given, [whole], chunk=10)
    found = tally.accuracies()
    assert found["progressive_accuracy"] > found["accuracy_at_start"] + 0.2
    assert found["n_new_queries"] == 60
    gain = found["progressive_accuracy_new_queries"] - found["accuracy_at_start_new_queries"]
    assert abs(gain) < 0.2


def test_later_chunks_are_scored_in_part_unless_all_is_asked(rng, monkeypatch):
    monkeypatch.setattr(lessons, "ALL_SCORED", 128)
    monkeypatch.setattr(lessons, "FIRST_CHUNK", 64)
    X = rng.normal(size=(30, 5))
    _, batches = stream(rng, 512)
    for score_all, n in ((False, 128 + 6 * 8), (True, 512)):
        given = lessons_for(OASIS(), X)
        _, tally = learn_stream(OASIS(), given, batches, chunk=64, score_all=score_all)
        assert tally.n_scored == n
        assert sum(point[1] for point in tally.curve) == n


@pytest.mark.parametrize("stop", [64, 200, 499])
def test_resuming_gives_the_same_bit_for_bit(stop, rng, tmp_path):
    X = rng.normal(size=(30, 5))
    _, batches = stream(rng)
    options = {"chunk": 32, "every": 64}

    def run(model, batches, checkpoint=None):
        return learn_stream(model, lessons_for(model, X), batches, checkpoint=checkpoint, **options)

    expected, whole = run(FactoredAROMA(), batches)

    def interrupted():
        n = 0
        for batch in batches:
            n += len(batch)
            if n > stop:
                raise KeyboardInterrupt
            yield batch

    checkpoint = Checkpoint(tmp_path / "kept", {"learner": "FactoredAROMA"})
    with pytest.raises(KeyboardInterrupt):
        run(FactoredAROMA(), interrupted(), checkpoint)
    model, tally = run(FactoredAROMA(), batches, checkpoint)
    for name, value in expected.get_state().items():
        np.testing.assert_array_equal(model.get_state()[name], value)
    assert tally == whole
    checkpoint.remove()
    assert not (tmp_path / "kept").exists()


def test_checkpoints_of_other_tasks_or_damaged_ones_are_refused(rng, tmp_path):
    model = OASIS().learn(rng.normal(size=(3, 2)), [[0, 1, 2]])
    Checkpoint(tmp_path, {"chunk": 1, "x": None}).write(model, Tally(n=5))
    with pytest.raises(ValueError, match="another task: chunk was 1 and is 2"):
        Checkpoint(tmp_path, {"chunk": 2, "x": None}).read()
    _, tally = Checkpoint(tmp_path, {"chunk": 1, "x": None}).read()
    assert tally == Tally(n=5)
    one = Judgements(np.array([[0, 1, 2]]), None, np.array([1]))
    given = lessons_for(OASIS(), np.eye(3))
    task = Checkpoint(tmp_path, {"chunk": 1, "x": None})
    with pytest.raises(ValueError, match="has learnt 5 judgements, but the feedback has only 1"):
        learn_stream(OASIS(), given, [one], checkpoint=task)
    (tmp_path / "progress.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        Checkpoint(tmp_path, {"chunk": 1}).read()


def test_a_checkpoint_replaces_the_one_before(rng, tmp_path):
    model = OASIS().learn(rng.normal(size=(3, 2)), [[0, 1, 2]])
    checkpoint = Checkpoint(tmp_path / "a" / "b", {})
    for n in (1, 2):
        checkpoint.write(model, Tally(n=n))
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "model-000000000002.safetensors",
        "progress.json",
    ]


def test_what_a_learner_refuses_is_a_bad_row_and_the_rest_is_learnt(rng):
    X = rng.normal(size=(30, 5))
    X[7] = np.nan
    rows, batches = stream(rng)
    bad = BadRows("skip")
    model, _ = learn_stream(
        OASIS(), lessons_for(OASIS(), X), batches, chunk=64, bad_rows=bad, source="f"
    )
    good = ~(rows == 7).any(axis=1)
    assert bad.n == (~good).sum() == len(rows) - model.n_seen_
    np.testing.assert_allclose(model.W_, OASIS().learn(X, rows[good]).W_)
    assert bad.first[0].number == np.flatnonzero(~good)[0] + 1
    assert bad.counts == {"refused by the learner": bad.n}
    with pytest.raises(BadRowError, match=r"f: row .* must be finite"):
        learn_stream(OASIS(), lessons_for(OASIS(), X), batches, source="f")


def test_pairs_and_labels_are_taught_by_the_same_loop(rng):
    X = rng.normal(size=(30, 4))
    pairs = rng.integers(30, size=(200, 2))
    signs = np.where(X[pairs[:, 0], 0] * X[pairs[:, 1], 0] > 0, 1.0, -1.0)
    batch = Judgements(pairs, signs, np.arange(200))
    model, tally = learn_stream(POLA(), lessons_for(POLA(), X), [batch], chunk=50)
    np.testing.assert_allclose(model.A_, POLA().learn(X, pairs, signs).A_)
    assert tally.n_scored == 200
    _, tally = learn_stream(LEGO(), lessons_for(LEGO(), X), [batch])
    assert tally.accuracies() == {}
    assert tally.points() == []
    classes = np.array(["no", "yes"], dtype=object)
    codes = (X[:, 0] > 0).astype(int)
    rows = np.arange(30)[:, None]
    model, tally = learn_stream(
        AROW(),
        lessons_for(AROW(), X, classes=classes),
        [Judgements(rows, codes, np.arange(30))],
        chunk=10,
    )
    assert model.classes_.tolist() == ["no", "yes"]
    assert 5 < tally.progressive <= 30
    with pytest.raises(ValueError, match="items must be left out for LEGO"):
        lessons_for(LEGO(), X, items=X)


@given(st.lists(st.integers(1, 9), max_size=700))
def test_a_curve_is_short_and_loses_nothing(sizes):
    tally = Tally()
    for n in sizes:
        tally.add(n, n, n / 2, n / 4)
    assert len(tally.curve) <= 128
    assert [sum(point[i] for point in tally.curve) for i in range(4)] == [
        tally.n,
        tally.n_scored,
        tally.at_start,
        tally.progressive,
    ]
    if sizes:
        assert tally.points()[-1] == {"n": sum(sizes), "at_start": 0.5, "progressive": 0.25}


@pytest.fixture
def clicks(rng, tmp_path):
    """Vectors, triplets, and a file of them with a bad row at its end."""
    vectors = VectorFile(rng.normal(size=(30, 5)), Ids(None, 30))
    rows = triplets_of(rng, 30, 30, 300)
    lines = ["query,better,worse", *(",".join(map(str, row)) for row in rows), "0,1,x"]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines))
    return vectors, rows, path


def test_learning_from_a_file_equals_learning_from_its_rows(clicks, tmp_path):
    vectors, rows, path = clicks
    output = tmp_path / "model"
    found = learn_file(OASIS(), vectors, path, output=output, bad_rows=BadRows("skip"))
    expected = OASIS().learn(vectors.X, rows)
    np.testing.assert_allclose(found.model.W_, expected.W_)
    np.testing.assert_array_equal(load(output).W_, found.model.W_)
    assert found.feedback["n"] == found.tally.n == 300
    assert found.to_dict()["n_updates"] == expected.n_updates_
    assert found.to_dict()["bad_rows"] == {"n": 1, "by_reason": {"unknown id in column worse": 1}}


def test_a_checkpoint_stays_until_the_model_is_saved(clicks, tmp_path):
    vectors, _, path = clicks
    kept, output = tmp_path / "kept", tmp_path / "model"
    options = {"checkpoint": kept, "every": 100, "output": output}
    with pytest.raises(BadRowError):
        learn_file(OASIS(), vectors, path, **options)
    assert kept.exists()
    assert not output.exists()
    with pytest.raises(ValueError, match="add --resume"):
        learn_file(OASIS(), vectors, path, **options)
    fitted = OASIS().learn(vectors.X, [[0, 1, 2]])
    with pytest.raises(ValueError, match="another task: from was None"):
        learn_file(fitted, vectors, path, **options, resume=True)
    path.write_text(path.read_text().removesuffix("0,1,x"))
    found = learn_file(OASIS(), vectors, path, **options, resume=True)
    np.testing.assert_array_equal(found.model.W_, learn_file(OASIS(), vectors, path).model.W_)
    assert not kept.exists()


@pytest.mark.parametrize("learner", [OASIS(), FactoredAROMA(), Blend()])
def test_what_is_not_finite_leaves_accuracies_that_are(learner, rng, tmp_path):
    X = rng.normal(size=(30, 5))
    X[29] = np.nan
    rows = triplets_of(rng, 29, 29, 300)
    rows[7, 1] = 29
    part = Judgements(rows, None, np.arange(300))
    bad, kept = BadRows("skip"), Checkpoint(tmp_path / "kept", {})
    _, tally = learn_stream(
        learner, lessons_for(learner, X), [part], bad_rows=bad, checkpoint=kept, every=1
    )
    assert bad.n == 1
    assert 0 < tally.n_scored < 300
    assert 0 <= tally.progressive <= tally.n_scored
    assert kept.exists


def test_an_output_that_cannot_be_written_is_refused_before_learning(clicks, tmp_path):
    vectors, _, path = clicks
    model = OASIS()
    for output in (tmp_path, tmp_path / "none" / "model"):
        with pytest.raises((ValueError, FileNotFoundError), match="save: "):
            learn_file(model, vectors, path, output=output)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", BATCH_LEARNERS)
def test_a_learner_of_whole_sets_is_refused_in_words(name, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("row,label\n0,1\n1,0\n")
    vectors = VectorFile(np.eye(3), Ids(None, 3))
    with pytest.raises(ValueError, match=f"judgement by judgement, got {name}"):
        learn_file(learner_class(name)(), vectors, path)
