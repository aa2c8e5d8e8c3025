import copy
import json

import numpy as np
import pytest

from similia import OASIS, load
from similia.exceptions import ModelFileError
from similia.registry import LEARNERS, learner_class
from similia.safety.whole import document_sha256
from similia.trust import Promotion
from similia.trust.generations import HISTORY, LOCK_FILE
from tests.cases import case_of
from tests.problems import triplets_of


def problem(rng, n=200, n_triplets=3000):
    """Judgements by the last half of the features."""
    X = rng.normal(size=(n, 8)) * [3, 3, 3, 3, 1, 1, 1, 1]
    seen = X.copy()
    seen[:, :4] = 0.0
    triplets = triplets_of(rng, n, n, n_triplets)
    query, a, b = triplets.T
    swap = (seen[query] * (seen[a] - seen[b])).sum(1) < 0
    triplets[swap] = triplets[swap][:, [0, 2, 1]]
    return X, triplets


def promotion_in(folder, **options):
    return Promotion(folder, base="inner_product", **options)


def test_a_better_similarity_is_promoted_and_kept(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    learner = OASIS()
    outcome = promotion.run(learner, X, triplets)
    assert outcome.promoted
    assert (outcome.generation, promotion.current, outcome.champion) == (1, 1, 0)
    assert outcome.figures["challenger"] > outcome.figures["base"] == outcome.figures["champion"]
    assert not learner.__sklearn_is_fitted__()
    assert str(outcome).startswith("Promoted: better than the base by ")
    assert "base 0." in str(outcome)
    again = promotion_in(tmp_path)
    assert again.current == 1
    assert again.champion().n_seen_ == outcome.n_learnt
    assert again.history[0]["challenger"] == outcome.figures["challenger"]
    json.dumps(outcome.to_dict())
    assert f'<td style="text-align:right">{outcome.figures["challenger"]:.4f}</td>' in (
        outcome._repr_html_()
    )


def test_learning_and_judging_share_no_query(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    outcome = promotion.run(OASIS(average=False), X, triplets)
    kept = promotion.split(triplets[:, 0])
    assert outcome.n_learnt == np.count_nonzero(~kept)
    assert outcome.n_held_out == np.count_nonzero(kept)
    assert outcome.n_queries == len(np.unique(triplets[kept, 0]))
    expected = OASIS(average=False).learn(X, triplets[~kept])
    np.testing.assert_array_equal(promotion.champion().W_, expected.W_)


def test_when_the_base_is_as_good_it_says_so_and_nothing_changes(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    same = OASIS(prior="identity").learn(X, [])
    outcome = promotion.challenge(same, X, triplets)
    assert not outcome.promoted
    assert outcome.reason == "Kept the base: the challenger is no better (+0.0000)."
    assert promotion.current == 0
    assert [event["event"] for event in promotion.history] == ["refusal"]
    assert {p.name for p in tmp_path.iterdir()} == {HISTORY, LOCK_FILE}


def test_chance_alone_promotes_seldom(tmp_path):
    """A challenger that guesses as well as the base wins at most 1 - level of the time."""
    promoted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, Z = rng.normal(size=(60, 5)), rng.normal(size=(60, 5))
        triplets = triplets_of(rng, 60, 60, 600)  # judgements that mean nothing
        challenger = OASIS(prior=rng.normal(size=(5, 5)), prior_scale=1.0).learn(X, [], items=Z)
        promotion = promotion_in(tmp_path / str(seed))
        promoted += promotion.challenge(challenger, X, triplets, items=Z).promoted
    assert promoted <= 8  # at most 3 expected; more than 8 has a probability below 0.01


def test_a_worse_challenger_is_refused_and_said_to_be_worse(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    assert promotion.run(OASIS(), X, triplets).promoted
    backwards = OASIS().learn(X, triplets[:, [0, 2, 1]])
    outcome = promotion.challenge(backwards, X, triplets)
    assert outcome.reason.startswith("Kept generation 1: the challenger is worse")
    assert promotion.current == 1


def test_better_than_a_bad_champion_but_worse_than_the_base_is_not_enough(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    assert promotion.run(OASIS(), X, triplets).promoted
    turned = triplets[:, [0, 2, 1]]  # the world has changed: now all is the other way round
    cosine_like = OASIS(prior=np.eye(8) * [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]).learn(X, [])
    shy = OASIS(prior=np.diag([1.0] * 4 + [1.4] * 4)).learn(X, [])
    outcome = promotion.challenge(shy, X, turned)
    assert not outcome.promoted
    assert "worse than the base" in outcome.reason
    assert promotion.challenge(cosine_like, X, turned).promoted


def test_generations_go_on_and_rollback_is_one_call(rng, tmp_path):
    X, triplets = problem(rng, n_triplets=6000)
    promotion = promotion_in(tmp_path)
    assert promotion.run(OASIS(C=0.001, average=False), X, triplets[:2000]).promoted
    first = promotion.champion()
    outcome = promotion.run(OASIS(), X, triplets)
    assert (outcome.champion, outcome.generation) == (1, 2)
    assert outcome.figures["champion"] > outcome.figures["base"]
    assert promotion.rollback() == 1
    np.testing.assert_array_equal(promotion.champion().W_, first.W_)
    assert promotion_in(tmp_path).current == 1
    assert promotion.rollback() == 0
    assert promotion.champion() is promotion.base
    with pytest.raises(ValueError, match=r"^Promotion\.rollback: there must be"):
        promotion.rollback()
    assert promotion.rollback(to=2) == 2
    assert promotion.run(OASIS(C=1e-9), X, triplets).promoted is False
    assert promotion.run(OASIS(), X, triplets).generation == 2  # no better than itself
    for wrong in (7, -1, "1", True):
        with pytest.raises(ValueError, match=r"^Promotion"):
            promotion.rollback(to=wrong)
    assert promotion.current == 2


def test_a_number_is_never_used_twice(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    promotion.run(OASIS(), X, triplets)
    promotion.rollback()
    assert promotion.run(OASIS(), X, triplets).generation == 2
    assert promotion.rollback() == 0
    assert sorted(p.name for p in tmp_path.glob("generation*")) == [
        "generation-000001.safetensors",
        "generation-000002.safetensors",
    ]
    assert load(tmp_path / "generation-000002.safetensors").n_seen_ > 0


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_that_ranks_can_challenge(name, tmp_path):
    case = case_of(learner_class(name), n=600)
    promotion = promotion_in(tmp_path)
    if not hasattr(case.learner, "query_vectors"):
        with pytest.raises(ValueError, match=r"^Promotion\.run: scorer must rank items"):
            promotion.run(case.learner, case.X, np.zeros((3, 3), int))
        return
    outcome = promotion.run(case.learner, case.X, *case.stream)
    assert outcome.n_learnt + np.count_nonzero(promotion.split(case.stream[0][:, 0])) == 600
    if outcome.promoted:
        assert type(promotion.champion()).__name__ == name


def test_judgements_by_relevance(rng, tmp_path):
    X, triplets = problem(rng)
    challenger = OASIS().learn(X, triplets[triplets[:, 0] < 100])
    Q, Z = X[100:], X
    seen = X[100:, 4:] @ X[:, 4:].T
    relevance = (seen >= np.sort(seen, axis=1)[:, -10][:, None]).astype(float)
    promotion = promotion_in(tmp_path)
    outcome = promotion.challenge_by_relevance(challenger, Q, Z, relevance, measure="ndcg@5")
    assert outcome.promoted
    assert outcome.measure == "ndcg@5"
    assert promotion.challenge_by_relevance(challenger, Q, Z, relevance, measure="map").measure == (
        "map"
    )
    found = promotion.challenge_by_relevance(challenger, Q, Z, relevance, measure="P@3")
    assert found.measure == "precision@3"
    for wrong in (np.zeros(100, int), np.arange(99)):
        with pytest.raises(ValueError, match=r"^Promotion: queries must be different names"):
            promotion.challenge_by_relevance(challenger, Q, Z, relevance, queries=wrong)
    with pytest.raises(ValueError, match=r"measures must be one of .* did you mean ndcg@10"):
        promotion.challenge_by_relevance(challenger, Q, Z, relevance, measure="ncdg@10")


@pytest.mark.parametrize("n", range(1, 8))
def test_few_queries_get_an_answer(n, rng, tmp_path):
    X, triplets = problem(rng, n=30, n_triplets=2000)
    promotion = promotion_in(tmp_path)
    held = np.flatnonzero(promotion.split(np.arange(30)))
    few = triplets[~np.isin(triplets[:, 0], held[n:])]
    outcome = promotion.run(OASIS(), X, few)
    assert outcome.n_queries == n
    assert not outcome.promoted
    queries = "query" if n == 1 else "queries"
    if outcome.against_champion.difference > 0:
        assert f"With {n} held-out {queries} a difference of 0.02 is found " in outcome.reason
        assert outcome.reason.endswith("would do.")


def test_clicks_alone_never_promote_and_leave_no_evidence(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    kept = promotion.split(triplets[:, 0])
    model = OASIS().learn(X, triplets[~kept])
    outcome = promotion.challenge(model, X, triplets[kept], clicks=True)
    assert not outcome.promoted
    assert "clicks alone do not decide" in outcome.reason
    assert outcome.evidence == 1.0
    assert promotion.challenge(model, X, triplets[kept]).promoted


def test_a_second_measure_that_is_worse_vetoes(rng, tmp_path):
    """The order of the judged items improves, while they sink below those never judged."""
    n, d = 200, 20
    X = rng.normal(size=(n, d))
    Z = np.vstack([rng.normal(size=(60, d)), np.zeros((200, d))])
    Z[:, 0] = np.repeat([0.0, 1.0], [60, 200])  # marks those never judged
    X[:, 0] = -50.0
    triplets = triplets_of(rng, n, 60, 4000)
    query, a, b = triplets.T
    swap = (X[query, 1:] * (Z[a, 1:] - Z[b, 1:])).sum(1) < 0
    triplets[swap] = triplets[swap][:, [0, 2, 1]]
    noisy = np.eye(d)
    noisy[0, 0] = -1.0  # what was never judged now comes first
    base = OASIS(prior=np.diag([1.0, *[0.4] * 10, *[0.0] * 9])).learn(X, [], items=Z)
    promotion = Promotion(tmp_path, base=base)
    challenger = OASIS(prior=noisy).learn(X, [], items=Z)
    outcome = promotion.challenge(challenger, X, triplets, items=Z)
    assert outcome.against_champion.better == "a"
    assert outcome.evidence > outcome.needed
    assert not outcome.promoted
    assert "pairwise_accuracy is better by" in outcome.reason
    assert "but ndcg@10 worse by" in outcome.reason


def test_evidence_adds_up_over_new_queries_and_not_over_old_ones(rng, tmp_path):
    X, triplets = problem(rng, n=400, n_triplets=1200)
    weak = OASIS(prior=np.diag([1.0] * 4 + [1.5] * 4)).learn(X, [])
    parts = np.array_split(np.arange(400), 8)
    seen = []
    for part in parts:
        rows = triplets[np.isin(triplets[:, 0], part)]
        seen.append(promotion_in(tmp_path).challenge(weak, X, rows))
        if seen[-1].promoted:
            break
        again = promotion_in(tmp_path).challenge(weak, X, rows)
        assert again.evidence <= 2 * seen[-1].evidence
        assert not again.promoted
    assert seen[-1].promoted
    assert len(seen) > 1
    assert promotion_in(tmp_path).challenge(weak, X, triplets).evidence == pytest.approx(1.0)


def test_bad_arguments_are_refused_and_nothing_is_written(rng, tmp_path):
    X, triplets = problem(rng, n=30, n_triplets=200)
    promotion = promotion_in(tmp_path / "new")
    wrong = [
        ((OASIS(), X, triplets[:, :2]), {}, "judgements must be triplets"),
        ((OASIS(), X, triplets, np.ones(200)), {}, "judgements must be triplets"),
        ((OASIS(), X, triplets), {"queries": ["a"]}, "queries must be one for each"),
        (
            (OASIS(), X, triplets[triplets[:, 0] == 3]),
            {},
            "held-out queries must be at least one, got none",
        ),
    ]
    for arguments, options, words in wrong:
        with pytest.raises(ValueError, match=words):
            promotion.run(*arguments, **options)
    held = np.flatnonzero(promotion.split(np.arange(30)))
    with pytest.raises(ValueError, match="left to learn from"):
        promotion.run(OASIS(), X, triplets[np.isin(triplets[:, 0], held)])
    assert not (tmp_path / "new").exists()
    for parameter in ("share", "level", "worthwhile", "seed"):
        with pytest.raises(ValueError, match=f"^Promotion: {parameter} must be"):
            Promotion(tmp_path, **{parameter: -1})
    with pytest.raises(ValueError, match=r"^Promotion: scorer must be one of"):
        Promotion(tmp_path, base="tf-idf")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder"):
        Promotion(tmp_path / "file")


def test_a_learner_that_cannot_be_saved_changes_nothing(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    with pytest.raises(ValueError, match="sampler must be"):
        promotion.run(OASIS(sampler=lambda *_: None), X, triplets)
    assert promotion.current == 0
    assert promotion.history == []


def test_damage_is_noticed(rng, tmp_path):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    promotion.run(OASIS(), X, triplets)
    history, model = tmp_path / HISTORY, tmp_path / "generation-000001.safetensors"
    good, raw = history.read_text(), model.read_bytes()
    wrong = [
        good[: len(good) // 2],
        good.replace('"current": 1', '"current": 0'),
        good.replace('"base": 0.', '"base": 1.', 1),
        "[]",
        "",
        "{}",
    ]
    for text in wrong:
        history.write_text(text)
        with pytest.raises(ModelFileError, match=r"history\.json is damaged"):
            promotion_in(tmp_path)
    newer = json.loads(good)
    newer["format"] = 2
    history.write_text(json.dumps(newer))
    with pytest.raises(ModelFileError, match="upgrade similia"):
        promotion_in(tmp_path)
    history.write_text(good)
    for bytes_ in (raw[:-3], b"", raw[:50] + b"x" + raw[51:]):
        model.write_bytes(bytes_)
        with pytest.raises(ModelFileError, match="not the file that was promoted"):
            promotion_in(tmp_path).champion()
    model.unlink()
    with pytest.raises(FileNotFoundError, match="roll back further"):
        promotion_in(tmp_path).champion()
    assert promotion_in(tmp_path).rollback() == 0


def test_a_failed_write_leaves_what_was(rng, tmp_path, monkeypatch):
    X, triplets = problem(rng)
    promotion = promotion_in(tmp_path)
    promotion.run(OASIS(), X, triplets)
    before, state = (tmp_path / HISTORY).read_bytes(), copy.deepcopy(promotion.history)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        promotion.rollback()
    assert (tmp_path / HISTORY).read_bytes() == before
    assert (promotion.current, promotion.history) == (1, state)
    assert [path.name for path in tmp_path.glob(".*")] == [LOCK_FILE]


def resealed(history, change):
    """Change the history, with a right checksum."""
    document = json.loads(history.read_text())
    document.pop("sha256")
    change(document)
    history.write_text(json.dumps({**document, "sha256": document_sha256(document)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(current="1"),
        lambda d: d.update(current=7),
        lambda d: d.update(current=None),
        lambda d: d.update(events={}),
        lambda d: d.update(events=[7]),
        lambda d: d["events"][0].pop("event"),
        lambda d: d["events"][0].pop("to"),
        lambda d: d["events"][0].pop("sha256"),
        lambda d: d["events"][0].update(to="../../x"),
        lambda d: d["events"][0].update({"from": 9}),
        lambda d: d["events"][0].update(time=3),
    ],
)
def test_a_forged_history_is_refused_in_words(change, rng, tmp_path):
    promotion_in(tmp_path).run(OASIS(), *problem(rng))
    resealed(tmp_path / HISTORY, change)
    with pytest.raises(ModelFileError, match=r"history\.json is damaged"):
        promotion_in(tmp_path)


def test_a_deep_history_is_refused_in_words(tmp_path):
    (tmp_path / HISTORY).write_text('{"sha256": "", "format": 1, "x": ' + "[" * 100_000)
    with pytest.raises(ModelFileError, match=r"history\.json is damaged"):
        promotion_in(tmp_path)


def test_what_killed_processes_leave_is_removed_by_the_next_change(rng, tmp_path):
    left = [f".generation-000001.{'a' * 16}.part.safetensors", f".history.{'0' * 16}.part.json"]
    kept = [".generation-000001.part.safetensors", "notes.part.json", ".hidden"]
    for name in left + kept:
        (tmp_path / name).write_text("half")
    promotion_in(tmp_path).run(OASIS(), *problem(rng))
    assert not any((tmp_path / name).exists() for name in left)
    assert all((tmp_path / name).exists() for name in kept)
