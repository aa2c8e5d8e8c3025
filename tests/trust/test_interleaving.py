import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import OASIS, Interleaving
from similia.trust import team_draft
from tests.trust.test_promotion import promotion_in

rankings = st.lists(st.integers(0, 30), min_size=0, max_size=20, unique=True)


@given(rankings, rankings, st.integers(1, 25), st.integers(0, 2**32 - 1))
def test_a_draft_is_fair_and_has_no_item_twice(a, b, length, seed):
    drafted = team_draft(a, b, length, np.random.default_rng(seed))
    items, teams = drafted
    assert len(items) == len(set(items)) == len(teams) == min(length, len({*a, *b}))
    for ranking, team in ((a, True), (b, False)):
        picks = [item for item, of in zip(items, teams, strict=True) if of is team]
        assert picks == [item for item in ranking if item in picks]
        # Each pick is the best item that was free: all above it came earlier in the list.
        for pick in picks:
            above = ranking[: ranking.index(pick)]
            assert set(above) <= set(items[: items.index(pick)])


@given(st.permutations(range(12)), st.permutations(range(12)), st.integers(0, 2**32 - 1))
def test_teams_differ_by_one_item_at_most(a, b, seed):
    _, teams = team_draft(a, b, 9, np.random.default_rng(seed))
    assert abs(2 * sum(teams) - len(teams)) <= 1


def test_equal_rankings_are_shown_as_they_are_and_either_team_is_first(rng):
    first = 0
    for _ in range(400):
        drafted = team_draft(range(10), range(10), 10, rng)
        assert drafted.items == list(range(10))
        first += drafted.challenger[0]
    assert 150 < first < 250


def clicks_of(rng, shown, liked):
    """Clicks on liked items, fewer and fewer down the list."""
    return [
        item for place, item in enumerate(shown, 1) if item in liked and rng.random() < 1 / place
    ]


def search(test, rng, name, better):
    """One search: the better ranking has the liked items higher."""
    liked = set(rng.choice(30, 5, replace=False).tolist())
    good = sorted(range(30), key=lambda item: (item not in liked) + rng.random() * 1.2)
    poor = rng.permutation(30).tolist()
    pair = (good, poor) if better else (poor, rng.permutation(30).tolist())
    for item in clicks_of(rng, test.draft(name, *pair), liked):
        test.click(name, item)


def test_the_better_ranking_is_preferred_in_spite_of_position_bias(rng):
    test = Interleaving(random_state=0)
    for name in range(300):
        search(test, rng, name, better=True)
    found = test.preference()
    assert found.wins > 2 * found.losses
    assert found.evidence > 20
    assert found.p_value < 1e-4
    assert "The challenger wins" in str(found)


def test_equally_good_rankings_seldom_seem_different_however_often_one_looks():
    rng, seen = np.random.default_rng(0), 0
    for _ in range(100):
        test, highest = Interleaving(random_state=0), 0.0
        for name in range(60):
            search(test, rng, name, better=False)
            highest = max(highest, test.preference().evidence)
        seen += highest >= 20
    assert seen <= 12  # at most 5 expected


def test_a_log_says_what_was_clicked_and_whose_it_was():
    rows = {
        "search": ["a", "a", "a", "b", "b", "c", "c"],
        "challenger": [1, 0, 1, 0, 1, 1, 0],
        "clicked": [1, 0, 1, 1, 1, 0, 0],
    }
    test = Interleaving.from_rows(*rows.values())
    assert test.searches == ["a", "b"]  # nothing was clicked in c
    assert test.signs().tolist() == [1, 0]
    found = test.preference()
    assert (found.wins, found.ties, found.losses, found.p_value) == (1, 1, 0, 1.0)


def test_clicks_on_the_same_item_count_once_and_others_are_refused():
    test = Interleaving(length=2, random_state=0)
    shown = test.draft("a", ["x", "y"], ["z", "x"])
    for _ in range(3):
        test.click("a", shown[0])
    assert abs(test.signs()[0]) == 1
    for name, item in (("a", "nothing"), ("b", shown[0])):
        with pytest.raises(ValueError, match=r"^Interleaving\.click: item must be one that was"):
            test.click(name, item)
    with pytest.raises(ValueError, match=r"^Interleaving\.draft: search must be a new one"):
        test.draft("a", ["x"], ["y"])
    with pytest.raises(ValueError, match=r"^Interleaving: length must be"):
        Interleaving(length=0)
    with pytest.raises(ValueError, match=r"^Interleaving\.from_rows: clicked must be true or"):
        Interleaving.from_rows(["a"], [1], [2])
    with pytest.raises(ValueError, match=r"^Interleaving\.from_rows: challenger must be true or"):
        Interleaving.from_rows(["a"], [1, 0], [1, 0])


def test_interleaved_clicks_promote(rng, tmp_path):
    X = rng.normal(size=(20, 4))
    model = OASIS().learn(X, [[0, 1, 2]])
    promotion = promotion_in(tmp_path)
    test = Interleaving(random_state=0)
    with pytest.raises(ValueError, match="interleaved searches with clicks must be at least one"):
        promotion.challenge_by_interleaving(model, test)
    for name in range(200):
        search(test, rng, name, better=True)
        if name == 4:
            early = promotion.challenge_by_interleaving(model, test)
            assert not early.promoted
            assert early.n_queries == len(test.searches)
    outcome = promotion.challenge_by_interleaving(model, test)
    assert outcome.promoted
    assert outcome.measure == "preference"
    with pytest.raises(ValueError, match="must be with the champion, generation 1, got generation"):
        promotion.challenge_by_interleaving(model, test)
    assert not promotion.challenge_by_interleaving(
        OASIS().learn(X, [[0, 1, 2]]), Interleaving.from_rows(["a"], [0], [1], champion=1)
    ).promoted
