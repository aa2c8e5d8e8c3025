"""Learning in shares: the same bits, whoever does the work and however often it fails."""

import copy
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from similia import AROW, LEGO, MEG, OASIS, Blend, FactoredAROMA
from similia.distributed import VectorPath, learn_shares, learning
from similia.distributed.shares import file_of, judgements_of, share_of, sort_into_shares
from similia.feedback import Judgements
from similia.files import BadRows
from similia.persistence import load
from tests.distributed.hostile import Dying
from tests.problems import labelled


def learnt(problem, executor, name="model", **options):
    learn_shares(
        problem.learner(),
        problem.vectors,
        problem.feedback,
        executor=executor,
        shares=4,
        output=problem.output(name),
        **options,
    )
    return problem.output(name).read_bytes()


# -- shares ----------------------------------------------------------------------------------------


def test_judgements_are_sorted_by_query_in_order_and_none_is_lost(tmp_path, rng):
    tuples = rng.integers(50, size=(1000, 2))
    values, numbers = rng.normal(size=1000), np.arange(1, 1001)
    whole = Judgements(tuples, values, numbers)
    batches = [whole.part(slice(i, i + 77)) for i in range(0, 1000, 77)]
    counts = sort_into_shares(batches, tmp_path, 3)
    assert sum(counts) == 1000
    for share in range(3):
        mine = share_of(tuples[:, 0], 3) == share
        (part,) = judgements_of(tmp_path / file_of(share), 2, valued=True)
        np.testing.assert_array_equal(part.tuples, tuples[mine])
        np.testing.assert_array_equal(part.values, values[mine])
        np.testing.assert_array_equal(part.numbers, numbers[mine])


def test_shares_are_even():
    assert np.bincount(share_of(np.arange(80_000), 8)).min() > 9_000


# -- what is learnt --------------------------------------------------------------------------------


def test_shares_are_learnt_by_the_parts_of_a_split_and_merged(problem, inline):
    found = learn_shares(
        problem.learner(), problem.vectors, problem.feedback,
        executor=inline, shares=3, output=problem.output("model"),
    )  # fmt: skip
    start = problem.learner().learn(problem.X, problem.triplets[:0])
    parts = start.split(3)
    owner = share_of(problem.triplets[:, 0], 3)
    for share, part in enumerate(parts):
        part.learn(problem.X, problem.triplets[owner == share])
    expected = start.merge(parts)
    np.testing.assert_allclose(found.model.W_, expected.W_, rtol=1e-9)
    assert (found.tally.n, found.model.n_seen_) == (3000, 3000)
    assert found.feedback["n"] == 3000
    np.testing.assert_array_equal(load(problem.output("model")).W_, found.model.W_)
    assert sorted(path.name for path in problem.folder.iterdir()) == [
        "feedback.npy", "model.safetensors", "vectors.npy",
    ]  # fmt: skip


def test_blend_remembers_in_shares_what_one_machine_remembers(problem, inline):
    found = learn_shares(
        Blend(), problem.vectors, problem.feedback,
        executor=inline, shares=3, output=problem.output("blend"),
    )  # fmt: skip
    alone = Blend().learn(problem.X, problem.triplets)
    assert found.model.n_seen_ == alone.n_seen_ == 3000
    ours, theirs = (len(blend.memory_part_.keys) for blend in (found.model, alone))
    assert ours == theirs
    accuracy, expected = (
        blend.score(problem.X, problem.triplets) for blend in (found.model, alone)
    )
    assert accuracy > expected - 0.02
    loaded = load(problem.output("blend")).pairwise_score(problem.X)
    np.testing.assert_array_equal(loaded, found.model.pairwise_score(problem.X))


def test_learners_of_pairs_and_fitted_ones_continue(problem, inline, rng):
    pairs = problem.folder / "pairs.csv"
    rows = rng.integers(120, size=(2000, 2))
    labels = np.where((rows[:, 0] - rows[:, 1]) % 3 == 0, 1, -1)
    text = "".join(f"{a},{b},{y}\n" for (a, b), y in zip(rows, labels, strict=True))
    pairs.write_text("a,b,label\n" + text)
    learner = LEGO().learn(problem.X, rows[:5], labels[:5])
    before = copy.deepcopy(learner)
    found = learn_shares(
        learner, VectorPath(str(problem.vectors)), pairs,
        executor=inline, shares=2, work=problem.folder / "work",
    )  # fmt: skip
    assert found.model.n_seen_ == 2005
    np.testing.assert_array_equal(learner.A_, before.A_)


def test_rows_that_cannot_be_used_are_named_as_by_one_machine(problem, inline):
    X = problem.X.copy()
    X[7] = np.nan
    np.save(problem.vectors, X)
    with pytest.raises(ValueError, match=r"feedback.npy: row \d+: refused by the learner"):
        learnt(problem, inline)
    bad = BadRows("skip")
    learnt(problem, inline, "other", bad_rows=bad)
    assert bad.n == np.count_nonzero((problem.triplets == 7).any(axis=1))


def is_running(process):
    """Whether a process is there, and not only its entry, which nobody may fetch."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


# -- failures --------------------------------------------------------------------------------------


def test_a_killed_worker_changes_no_bit(problem, inline, monkeypatch):
    expected = learnt(problem, inline)
    monkeypatch.setattr(learning, "LearnShare", Dying)
    assert learnt(problem, "processes:2", "again", work=problem.folder / "work") == expected
    assert (problem.folder / "work" / "die.happened").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_driver_goes_on_from_what_is_finished(problem, inline):
    expected, work = learnt(problem, inline), problem.folder / "work"
    problem.let_a_driver_be_killed("processes:1")
    worker = int((problem.folder / "worker.pid").read_text())
    for _ in range(600):  # which ends as well, soon
        if not is_running(worker):
            break
        time.sleep(0.1)
    assert not is_running(worker)
    assert (work / "part-0001.json").exists()
    before = (work / "part-0001.safetensors").stat().st_mtime_ns
    assert learnt(problem, inline, "again", work=work) == expected
    assert (work / "part-0001.safetensors").stat().st_mtime_ns == before


def test_the_folder_of_another_task_is_refused(problem, inline):
    work = problem.folder / "work"
    learnt(problem, inline, work=work)
    with pytest.raises(ValueError, match="holds the work of another task"):
        learnt(problem, inline, work=work, chunk=512)
    np.save(problem.feedback, problem.triplets[::-1])
    with pytest.raises(ValueError, match="its files have changed since"):
        learnt(problem, inline, work=work)
    with pytest.raises(ValueError, match="must be new or empty"):
        learnt(problem, inline, work=problem.folder)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "message"),
    [(MEG(), "one that merges, got MEG"), (AROW(), "from triplets or pairs, got AROW")],
)
def test_learners_that_do_not_merge_from_shares_are_refused(problem, learner, message):
    with pytest.raises(ValueError, match=f"learn_shares: learner must .*{message}"):
        learn_shares(learner, problem.vectors, problem.feedback, output=problem.output("no"))


def test_shares_that_are_too_small_are_refused_in_words(problem, inline):
    with pytest.raises(ValueError, match=r"FactoredAROMA.merge: .* Use fewer parts"):
        learn_shares(
            FactoredAROMA(), problem.vectors, problem.feedback,
            executor=inline, shares=60, output=problem.output("no"),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shares": 0}, "shares must be an integer between 1 and 10000"),
        ({"shares": 2**40}, "shares must be an integer between 1 and 10000"),
        ({"patience": -1.0}, "patience must be a positive number"),
        ({"output": None}, "work or output must be given"),
        ({"vectors": "-"}, "vectors must be in a file"),
        ({"executor": "cloud"}, "executor must be processes"),
    ],
)
def test_bad_arguments_are_refused(problem, options, message):
    given = {
        "vectors": problem.vectors,
        "path": problem.feedback,
        "output": problem.output("no"),
        **options,
    }
    with pytest.raises(ValueError, match=message):
        learn_shares(OASIS(), **given)


def test_no_judgements_are_refused(problem, inline):
    problem.feedback.with_suffix(".csv").write_text("query,better,worse\n")
    with pytest.raises(ValueError, match="feedback must be at least one judgement"):
        learn_shares(
            OASIS(), problem.vectors, problem.feedback.with_suffix(".csv"),
            executor=inline, output=problem.output("no"),
        )  # fmt: skip


# -- judged on what was held out -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["triplets", "grades"])
def test_a_merge_is_refused_if_a_part_is_better_on_what_was_held_out(problem, inline, rng, kind):
    """All queries but those of one share lie; the parts are kept, and merged when nobody asks."""
    X, y = labelled(rng, n=120, d=6)
    np.save(problem.vectors, X)
    triplets = rng.integers(120, size=(60_000, 3))
    same = y[triplets] == y[triplets[:, :1]]
    true = triplets[same[:, 1] & ~same[:, 2]]
    given, kept = true[:3000].copy(), true[3000:]
    lies = share_of(given[:, 0], 4) != 2
    given[lies, 1:] = given[lies, :0:-1]
    np.save(problem.feedback, given)
    held_out = problem.folder / "held_out.csv"
    head = "query,better,worse" if kind == "triplets" else "query,item,relevance"
    rows = kept if kind == "triplets" else np.insert(kept[:, :2], 2, 1, axis=1)
    held_out.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows.tolist())]))
    with pytest.raises(ValueError, match=r"as good as its best part, got -.* Part 2 has"):
        learnt(problem, inline, held_out=held_out)
    assert not problem.output("model").exists()
    assert learnt(problem, inline) == learnt(problem, inline, "again")
