"""A model that was learnt elsewhere is judged on what a recorded split holds out, or refused."""

import json

import numpy as np
import pytest

from similia import AROW, LEGO, OASIS
from similia.exceptions import ModelFileError
from similia.registry import learner_class
from similia.trust import Promotion
from similia.trust.generations import HISTORY
from tests.cases import case_of
from tests.trust.test_promotion import problem, promotion_in


@pytest.mark.parametrize("name", ["FactoredAROMA", "OASIS", "LEGO", "MEG", "POLA"])
def test_a_model_learnt_elsewhere_is_judged_as_if_it_had_been_learnt_here(name, tmp_path):
    case = case_of(learner_class(name), n=600)
    here, there = promotion_in(tmp_path / "here"), promotion_in(tmp_path / "there")
    expected = here.run(case.learner, case.X, *case.stream)
    there.record_split(*case.stream)
    kept = there.split(case.stream[0][:, 0])
    model = case.learner.learn(case.X, *(column[~kept] for column in case.stream))
    assert there.judge(model, case.X, *case.stream) == expected


def test_the_held_out_judgements_alone_are_enough(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    split = promotion.record_split(triplets)
    kept = promotion.split(triplets[:, 0])
    assert (split.n_held_out, split.n_queries) == (kept.sum(), len(set(triplets[kept, 0])))
    model = OASIS().learn(X, triplets[~kept])
    outcome = promotion.judge(model, X, triplets[kept])
    assert outcome.promoted
    assert outcome.n_learnt == model.n_seen_ == np.count_nonzero(~kept)
    assert [event["event"] for event in promotion.history] == ["split", "promotion"]
    assert promotion.history[0]["reason"] == str(split)


def test_a_split_is_kept_with_the_folder(rng, tmp_path):
    _, triplets = problem(rng)
    split = promotion_in(tmp_path, share=0.5, seed=7).record_split(triplets)
    again = Promotion(tmp_path)
    assert again.recorded_split == split
    assert (again.share, again.seed) == (split.share, split.seed) == (0.5, 7)
    assert Promotion(tmp_path / "other").recorded_split is None
    history = tmp_path / HISTORY
    history.write_text(history.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(ModelFileError, match=r"history\.json is damaged"):
        Promotion(tmp_path)


def test_without_a_recorded_split_no_model_is_judged(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path / "new")
    with pytest.raises(ValueError, match=r"^Promotion: the split must be recorded before the"):
        promotion.judge(OASIS().learn(X, triplets), X, triplets)
    assert not (tmp_path / "new").exists()


def test_judgements_other_than_the_recorded_ones_are_refused(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    promotion.record_split(triplets)
    kept = np.flatnonzero(promotion.split(triplets[:, 0]))
    model = OASIS().learn(X, np.delete(triplets, kept, axis=0))
    turned = triplets.copy()
    turned[kept[0]] = turned[kept[0], [0, 2, 1]]
    others = {
        "turned": (turned, None),
        "fewer": (triplets[: kept[-1]], None),
        "in another order": (triplets[::-1], None),
        "under other names": (triplets, [f"q{query}" for query in triplets[:, 0]]),
    }
    before = promotion.history
    for judgements, names in others.values():
        with pytest.raises(ValueError, match=r"^Promotion: held-out judgements must be those"):
            promotion.judge(model, X, judgements, queries=names)
    assert promotion.history == before
    assert promotion.judge(model, X, triplets).promoted


def test_what_is_known_of_pairs_is_part_of_the_record(rng, tmp_path):
    pairs, y = rng.integers(40, size=(400, 2)), rng.choice([-1, 1], 400)
    X = rng.normal(size=(40, 3))
    promotion = promotion_in(tmp_path)
    promotion.record_split(pairs, y)
    model = LEGO().learn(X, pairs[:10], y[:10])
    with pytest.raises(ValueError, match="must be those of the recorded split"):
        promotion.judge(model, X, pairs, -y)
    promotion.judge(model, X, pairs, y)


def test_a_folder_has_one_split_for_all_its_feedback(rng, tmp_path):
    X, triplets = problem(rng, n_triplets=4000)
    promotion = promotion_in(tmp_path, seed=3)
    promotion.record_split(triplets[:3000])
    for options in ({"seed": 4}, {"share": 0.2}):
        other = promotion_in(tmp_path, **options)
        for call in (other.record_split, lambda rows: other.run(OASIS(), X, rows)):  # noqa: B023
            with pytest.raises(ValueError, match=r"^Promotion: share and seed must be 0\.3 and 3"):
                call(triplets)
    kept = promotion.split(triplets[:, 0])
    model = OASIS().learn(X, triplets[:3000][~kept[:3000]])
    promotion.record_split(triplets)  # the same queries are held out, now with more judgements
    assert promotion.judge(model, X, triplets).n_held_out == kept.sum()
    with pytest.raises(ValueError, match="must be those of the recorded split"):
        promotion.judge(model, X, triplets[:3000])


def test_a_split_that_another_process_recorded_counts(rng, tmp_path):
    X, triplets = problem(rng)
    ours, theirs = promotion_in(tmp_path), promotion_in(tmp_path)
    theirs.record_split(triplets)
    kept = ours.split(triplets[:, 0])
    assert ours.judge(OASIS().learn(X, triplets[~kept]), X, triplets).promoted
    late = promotion_in(tmp_path / "new")
    promotion_in(tmp_path / "new", seed=5).record_split(triplets)
    with pytest.raises(ValueError, match="share and seed must be"):
        late.record_split(triplets)
    assert len(late.history) == 1


def test_bad_arguments_are_refused_and_nothing_is_recorded(rng, tmp_path):
    X, triplets = problem(rng, n=30, n_triplets=200)
    promotion = promotion_in(tmp_path / "new")
    wrong = [
        ((triplets[:, :2],), {}, r"^Promotion\.record_split: judgements must be triplets of"),
        ((triplets, np.ones(200)), {}, r"^Promotion\.record_split: judgements must be pairs of"),
        ((triplets,), {"queries": ["a"]}, r"^Promotion\.record_split: queries must be one for"),
        ((np.empty((0, 3), int),), {}, r"^Promotion: held-out queries must be at least one"),
    ]
    for arguments, options, words in wrong:
        with pytest.raises(ValueError, match=words):
            promotion.record_split(*arguments, **options)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match=r"^Promotion\.judge: scorer must rank items"):
        promotion.judge(AROW(), X, triplets)
    with pytest.raises(ValueError, match=r"^Promotion\.judge: judgements must be pairs of shape"):
        promotion.judge(LEGO().learn(X, [[0, 1]], [1]), X, triplets)
    json.dumps(promotion_in(tmp_path, seed=np.int64(2)).record_split(triplets)._asdict())
