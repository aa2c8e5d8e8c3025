"""Decisions that Blend obeys, what it remembers of them, and what it asks."""

import copy

import numpy as np
import pytest
from hypothesis import strategies as st

from similia import Blend, Impressions
from similia.similarity.blend import memory
from similia.similarity.blend.ranking import telling

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def busy():
    """A blend after 4,000 judgements, half of them wrong, and its vectors."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(1500, 32))
    return Blend(obey=True).learn(X, rng.integers(1500, size=(4000, 3))), X


def test_a_decision_is_obeyed_on_its_own_query_after_thousands_of_others(busy):
    blend, X = copy.deepcopy(busy[0]), busy[1]
    rng, obeyed = np.random.default_rng(0), 0
    for _ in range(50):
        q = rng.integers(len(X))
        order = np.argsort(-blend.pairwise_score(X[q], X))
        worse, better = order[0], order[rng.integers(5, 200)]
        blend.learn(X, [[q, better, worse]])
        scores = blend.pairwise_score(X[q], X)
        obeyed += scores[better] > scores[worse]
    assert obeyed >= 49


def test_a_decision_leaves_the_first_ten_of_distant_queries(busy):
    blend, X = copy.deepcopy(busy[0]), busy[1]
    rng, kept = np.random.default_rng(1), []
    for _ in range(20):
        q, other = rng.integers(len(X), size=2)
        cosine = X[q] @ X[other] / np.linalg.norm(X[q]) / np.linalg.norm(X[other])
        if cosine >= 0.5:
            continue
        before = np.argsort(-blend.pairwise_score(X[other], X))
        worse = np.argmax(blend.pairwise_score(X[q], X))
        blend.learn(X, [[q, rng.integers(len(X)), worse]])
        after = np.argsort(-blend.pairwise_score(X[other], X))
        kept.append(np.array_equal(before[:10], after[:10]))
    assert all(kept)


def test_what_one_judgement_says_changes_no_other_query_even_where_is_published():
    """Two blends hear the opposite at one judgement, whichever it is; only its query differs."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    triplets = np.column_stack([rng.integers(30, size=70), rng.integers(30, 60, size=(70, 2))])
    triplets = triplets[triplets[:, 1] != triplets[:, 2]]
    blend, published, before = Blend(), [], None
    for query, better, worse in triplets:
        other = copy.deepcopy(blend).learn(X, [[query, worse, better]])
        blend.learn(X, [[query, better, worse]])
        far = np.delete(X, query, axis=0)
        np.testing.assert_array_equal(blend.query_vectors(far), other.query_vectors(far))
        np.testing.assert_array_equal(blend.pairwise_score(far, X), other.pairwise_score(far, X))
        now = blend.pairwise_score(X[30:], X)  # of queries that nobody judges
        published.append(before is not None and not np.array_equal(before, now))
        before = now
    assert 1 <= sum(published) <= 5  # at every sixteenth, as far as that says more than before


def test_the_newest_of_contradictory_decisions_holds():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 4))
    blend = Blend()
    for triplet in ([0, 1, 2], [0, 2, 1], [0, 1, 2], [0, 2, 3], [0, 3, 1]):
        blend.learn(X, [triplet])
        assert blend.triplet_scores(X, [triplet])[0] > 0


def test_clicks_are_no_decisions():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 4))
    q, best = 0, np.argmax(X @ X[0])
    lists = Impressions.from_triplets(np.array([[q, 5, best]]), trusted=False)
    for blend in (Blend().learn(X, lists), Blend(obey=False).learn(X, [[q, 5, best]])):
        assert blend.triplet_scores(X, [[q, 5, best]])[0] < 0
        assert not blend.memory_part_.decided.any()


def test_what_was_judged_longest_ago_is_forgotten_first():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 6))
    triplets = np.column_stack([np.arange(200), rng.integers(200, 300, size=(200, 2))])
    blend = Blend(memory=50).learn(X, triplets)
    remembered = blend.memory_part_
    assert remembered.counts.tolist() == [50, 200, 50]
    assert sorted(remembered.times[:50]) == list(range(150, 200))
    obeyed = blend.triplet_scores(X, triplets)[150:]
    assert (obeyed > 0).all()
    blend.set_params(memory=5).learn(X, triplets[:20])
    obeyed = blend.triplet_scores(X, triplets[:20])
    assert (obeyed[15:] > 0).all()
    assert len(np.unique(remembered.decided)) <= 5 + 1  # and 0 where there is none


def test_decisions_of_the_last_lists_are_obeyed_and_older_ones_remembered():
    rng = np.random.default_rng(9)
    X, n = rng.normal(size=(60, 30)), memory.LISTS + 4
    triplets = np.column_stack(
        [np.zeros(n, int), rng.permutation(np.arange(1, 60))[: 2 * n].reshape(n, 2)]
    )
    blend = Blend().learn(X, triplets)
    part = blend.memory_part_
    own = part.decisions(part.keys[0])
    assert part.decided_times[own].tolist() == list(range(4, n))
    assert part.told[0].tolist() == [n, n]
    assert (blend.triplet_scores(X, triplets[4:]) > 0).all()


def test_all_decisions_of_one_ordered_list_are_obeyed():
    rng = np.random.default_rng(10)
    X, shown = rng.normal(size=(40, 30)), np.arange(1, 13)
    starts, one = np.array([0, 12]), np.ones(1)
    lists = Impressions(np.array([0]), starts, shown, np.arange(12.0), {}, one, one > 0)
    blend = Blend().learn(X, lists)
    assert blend.memory_part_.counts[1] == 66
    assert (np.diff(blend.pairwise_score(X[:1], X[shown])[0]) > 0).all()
    found = blend.query_vectors(X[:1]) @ blend.item_vectors(X[shown]).T
    assert (np.diff(found[0]) > 0).all()


def test_none_of_these_puts_an_average_item_above_all():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(200, 8))
    first = np.argsort(-X @ X[0])[:5]
    none = Impressions(
        np.zeros(1, int), np.array([0, 5]), first, np.zeros(5), {}, np.ones(1), np.ones(1, bool)
    )
    blend = Blend().learn(X, none)
    scores = blend.pairwise_score(X[:1], X)[0]
    assert scores[first].max() < scores.mean()
    assert (blend.query_vectors(X[:1]) @ X[first].T).max() < scores.mean()


def test_what_a_trusted_person_judged_ranks_at_once():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(40, 6))
    rows = [[0] * 3, [3, 4, 5], [1.0, 0.0, 0.0]]
    found = [
        Blend().learn(X, Impressions.from_rows(*rows, trusted=trust)).explain(X[:1], X[3:6])[0]
        for trust in (True, False)
    ]
    told = [[item.parts["memory"] for item in own] for own in found]
    assert told[0][0] > 0 > max(told[0][1:])
    assert told[1] == [0, 0, 0]


def test_suggestions_are_about_queries_whose_pairs_people_tell_apart():
    rng = np.random.default_rng(12)
    X = np.repeat(rng.normal(size=(20, 6)), 2, axis=0)  # rows 0 and 1 are the same but for a hair
    X[1] += 1e-3
    items = rng.normal(size=(50, 6))
    order = np.argsort(items @ X[0])  # any two of very different scores are known before
    first = np.argmin(np.diff((items @ X[0])[order]))
    close, rest = order[first : first + 2], np.delete(order, [first, first + 1])
    pairs = rng.choice(rest, size=(12, 2), replace=False)
    answers = np.concatenate([np.column_stack([np.full(12, q), pairs]) for q in (0, 1)])
    for alike in (0, 1):
        given = Impressions.from_triplets(answers, alike=answers[:, 0] == alike, trusted=False)
        blend = Blend().learn(X, given, items=items)
        chosen = blend.suggest(X, [[0, *close], [1, *close]], items=items)
        assert chosen[0] == 1 - alike


def test_suggestions_are_about_items_that_were_in_no_tie():
    rng = np.random.default_rng(13)
    X, items = rng.normal(size=(5, 6)), rng.normal(size=(8, 6))
    items = np.concatenate([items, items + 1e-6])  # the same again but for a hair
    blend = Blend()
    for tied in (0, 8):
        ties = np.array([[0, tied, tied + 1], [0, tied + 2, tied + 3]])
        given = Impressions.from_triplets(ties, alike=np.ones(2, bool))
        blend = Blend().learn(X, given, items=items)
        for pair in ((0, 2), (0, 5), (6, 3)):  # of which both, the first, the second were in a tie
            candidates = [[0, *pair], [0, pair[0] + 8, pair[1] + 8]]
            assert blend.suggest(X, candidates, items=items)[0] == (tied == 0)


def test_a_query_that_nobody_judged_is_told_apart_as_often_as_all_others():
    rng = np.random.default_rng(14)
    X, none = rng.normal(size=(60, 6)), np.zeros((1, 2), np.uint64)
    triplets = np.column_stack([np.arange(40), rng.integers(40, 60, size=(40, 2))])
    for n in (0, 10, 30):
        given = Impressions.from_triplets(triplets, alike=np.arange(40) < n)
        part = Blend().learn(X, given).memory_part_
        likely = part.told_apart(np.ones(1, np.uint64), none)[0]
        assert likely == pytest.approx(1 - n / 40, abs=0.1)
        known = part.told_apart(part.keys[:40], np.repeat(none, 40, axis=0))
        assert (known[:n] < likely).all()
        assert (known[n:] > likely).all()


def test_each_item_that_was_in_a_tie_makes_an_answer_half_as_likely_to_tell():
    rng = np.random.default_rng(15)
    X = rng.normal(size=(30, 6))
    blend = Blend().learn(X, Impressions.from_triplets([[0, 1, 2]], alike=[True]))
    part, keys = blend.memory_part_, blend.item_keys(X)
    pairs = keys[np.array([[5, 6], [1, 6], [6, 2], [1, 2]])]
    likely = part.told_apart(np.repeat(part.keys[:1], 4), pairs)
    np.testing.assert_allclose(likely / likely[0], [1, 0.5, 0.5, 0.25])
    assert len(set(part.told_apart(np.ones(4, np.uint64), pairs))) == 1


def test_suggestions_are_neither_of_equal_scores_nor_known_before():
    worth = telling(np.array([-0.01, 1.0, -1.0, 1.5, 9.0]))
    assert worth[1] == worth[2]
    assert worth[1:4].min() > worth[0] > worth[4]
    assert telling(np.zeros(3)).tolist() == [1, 1, 1]
