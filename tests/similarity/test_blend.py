"""Blend against its transcription, and the laws of what it trusts."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from similia import Blend, Impressions, Views
from similia.similarity import memory
from similia.similarity.blend_ranking import telling
from similia.similarity.comparing import share_of_its_own
from similia.similarity.matrix import DOUBT
from similia.similarity.weights import design_effect, trust
from similia.updates.blend import add_choices
from similia.updates.blend_matrix import W_COUNTED, step_and_gain
from similia.updates.blend_weights import BASE, BELIEFS, solve
from tests.reference import blend as naive

SEEDS = st.integers(0, 2**32 - 1)


def problem(rng, n_queries=12, n_items=40, m=5):
    """Queries and items with a base, a text that only sometimes agrees, and two fields."""
    queries = Views(meaning=rng.normal(size=(n_queries, m)), text=rng.poisson(0.4, (n_queries, 8)))
    items = Views(
        meaning=rng.normal(size=(n_items, m)),
        text=rng.poisson(0.4, (n_items, 8)),
        place=rng.normal(size=(n_items, 2)),
        price=rng.uniform(size=n_items),
    )
    return queries, items


def shown(rng, queries, items, n, *, n_queries=None, follow=None, trusted=0.2, weights=(1.0,)):
    """n lists of 2 to 6 items, chosen by `follow` (scores of queries and items), or at random."""
    asked = rng.integers(n_queries or len(queries), size=n)
    sizes = rng.integers(2, 7, size=n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([rng.permutation(len(items))[:size] for size in sizes])
    gains = np.zeros(len(rows))
    for t, query in enumerate(asked):
        own = slice(starts[t], starts[t + 1])
        scores = rng.gumbel(size=sizes[t])
        if follow is not None:
            scores = scores + follow[query, rows[own]]
        order = np.argsort(-scores)
        gains[own][order[0]] = rng.integers(1, 3)
        if sizes[t] > 3 and rng.random() < 0.3:
            gains[own][order[1]] = 1.0
    position = np.concatenate([np.arange(size) for size in sizes])
    nuisance = {"position": np.log1p(position), "device": rng.normal(size=len(rows))}
    trusted = rng.random(n) < trusted
    for t in np.flatnonzero(trusted & (rng.random(n) < 0.2)):  # none of these
        gains[starts[t] : starts[t + 1]] = 0.0
    return Impressions(asked, starts, rows, gains, nuisance, rng.choice(weights, size=n), trusted)


def features_of(blend, queries, items, q, rows):
    """Scores of all views in typical gaps, one pair at a time."""
    found = []
    for z in rows:
        scores = []
        for name in items:
            item = np.asarray(items[name][z]).ravel()
            own = [np.asarray(queries[name][q]).ravel() @ item] if name in queries else item
            scores.extend(own)
        found.append(np.array(scores) / blend.gaps_)
    return np.array(found)


def transcribed(blend, reference, queries, items, lists):
    base = next(iter(items))
    for t in range(len(lists)):
        own = slice(lists.starts[t], lists.starts[t + 1])
        q, rows = lists.queries[t], lists.items[own]
        nuisance = [lists.nuisance[name][own] for name in lists.nuisance]
        reference.learn_list(
            np.asarray(queries[base][q]),
            features_of(blend, queries, items, q, rows),
            np.asarray(items[base][rows]),
            lists.gains[own],
            lists.trusted[t],
            np.column_stack(nuisance) if nuisance else None,
            lists.weights[t],
        )


def assert_agree(blend, reference, queries, items):
    state = blend.get_state()
    for name in (name for name in vars(reference) if name.endswith("_")):
        close(state[name], getattr(reference, name), name)
    base, everything = next(iter(items)), np.arange(len(items))
    for q in range(len(queries)):
        x = features_of(blend, queries, items, q, everything)
        rows = np.asarray(items[base])
        theirs = reference.scores(np.asarray(queries[base][q]), x, rows)
        close(blend.pairwise_score(queries[q : q + 1], items)[0], theirs, "scores")


def close(ours, theirs, name):
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8, err_msg=name)


def in_pieces(rng, blend, queries, lists, items):
    """Learn lists in pieces of random lengths."""
    ends = np.sort(rng.integers(len(lists) + 1, size=rng.integers(4)))
    for begin, end in zip([0, *ends], [*ends, len(lists)], strict=True):
        blend.learn(queries, lists.part(slice(begin, end)), items=items)
    return blend


# -- the transcription ---------------------------------------------------------------------------


@settings(max_examples=8)
@given(SEEDS, st.sampled_from([0, 3, 7, 10_000]), st.booleans(), st.sampled_from([None, 20.0]))
@example(745, 7, False, None)  # a new query whose first list decides nothing takes a slot over
def test_lists_with_views_and_nuisances_are_learnt_as_transcribed(
    seed, memory, informative, half_life
):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    follow = 3 * rng.normal(size=(len(queries), len(items))) if informative else None
    lists = shown(rng, queries, items, 150, follow=follow, weights=(0.0, 0.5, 1.0, 1.0, 2.0))
    blend = Blend(memory=memory, half_life=half_life)
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries, n_nuisances=2)
    transcribed(blend, reference, queries, items, lists)
    in_pieces(rng, blend, queries, lists, items)
    assert_agree(blend, reference, queries, items)


def test_open_gates_rank_as_transcribed_and_a_change_of_taste_starts_W_anew():
    """600 triplets of one taste and 300 of its opposite: W is trusted, fails and is dropped."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    taste = rng.normal(size=(4, 4))
    triplets = rng.integers(400, size=(900, 3))
    margins = np.vecdot(X[triplets[:, 0]] @ taste, X[triplets[:, 1]] - X[triplets[:, 2]])
    wrong = (margins < 0) != (np.arange(900) >= 600)
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    blend = Blend(obey=False, memory=40)
    blend.begin(X)
    reference = naive.Blend(blend, X)
    counted = []
    for part in np.split(triplets, 9):
        for q, better, worse in part:
            reference.learn(X[q], X[better] - X[worse])
        in_pieces(rng, blend, X, Impressions.from_triplets(part, trusted=False), X)
        assert_agree(blend, reference, Views(vectors=X[:5]), Views(vectors=X[:30]))
        counted.append(blend.matrix_part_.totals[W_COUNTED])
        if len(counted) == 6:
            assert blend.trust_["W"] > 0.99
    assert (np.diff(counted[:6]) >= 0).all()
    assert (np.diff(counted[5:]) < 0).any()


def test_remembered_queries_and_their_neighbours_rank_as_transcribed():
    """Five groups of close queries, each with a taste of its own: both gates open."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(5, 6))
    X = np.repeat(centres, 60, axis=0) + 0.05 * rng.normal(size=(300, 6))
    Z = rng.normal(size=(50, 6))
    taste = 2 * rng.normal(size=(5, 6)) @ Z.T
    queries, items = Views(vectors=X), Views(vectors=Z)
    follow = np.repeat(taste, 60, axis=0)
    blend = Blend()
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries, n_nuisances=2)
    for n, n_queries in ((400, 290), (400, 10)):
        lists = shown(rng, queries, items, n, n_queries=n_queries, follow=follow, trusted=0.0)
        transcribed(blend, reference, queries, items, lists)
        blend.learn(queries, lists, items=items)
    assert_agree(blend, reference, queries[np.arange(0, 300, 7)], items)
    assert (blend.memory_part_.totals > np.log(3 * DOUBT)).all()
    new = blend.pairwise_score(X[290:], Z) - X[290:] @ Z.T / blend.gaps_
    assert np.abs(new).max() > 0.1


# -- primitives ----------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 6))
def test_solve_is_the_solution_and_the_inverse(seed, n):
    rng = np.random.default_rng(seed)
    B, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A, inverse, x = B @ B.T + 0.1 * np.eye(n), np.empty((n, n)), b.copy()
    solve(A, x, np.zeros((n, n)), inverse)
    np.testing.assert_allclose(A @ x, b, atol=1e-8)
    np.testing.assert_allclose(A @ inverse, np.eye(n), atol=1e-8)


@given(SEEDS, st.integers(2, 6))
def test_the_gradient_of_a_list_is_that_of_its_log_likelihood(seed, n):
    rng = np.random.default_rng(seed)
    scores, gains = rng.normal(size=n), rng.integers(3, size=n).astype(float)

    def log_p(scores):
        return add_choices(scores, gains, 1.5, np.zeros(n), np.zeros((n, n)))

    g, H = np.zeros(n), np.zeros((n, n))
    add_choices(scores, gains, 1.5, g, H)
    np.testing.assert_allclose(g, optimize.approx_fprime(scores, log_p, 1e-6), atol=1e-4)
    assert np.linalg.eigvalsh(H).min() > -1e-12
    np.testing.assert_allclose(H.sum(axis=0), 0, atol=1e-12)


@given(st.floats(-8, 8), st.floats(0, 20))
def test_step_and_gain_are_slope_and_curvature_of_the_likelihood(s, v):
    value, slope, gain = step_and_gain(s, v)
    below, above = step_and_gain(s - 1e-4, v)[0], step_and_gain(s + 1e-4, v)[0]
    assert slope == pytest.approx((above - below) / 2e-4, abs=1e-6)
    assert gain == pytest.approx(max(0.0, -(above - 2 * value + below) / 1e-8), abs=1e-5)


@given(SEEDS, st.integers(2, 7))
def test_choices_of_one_item_are_a_distribution(seed, n):
    scores = 3 * np.random.default_rng(seed).normal(size=n)
    empty = np.zeros(n), np.zeros((n, n))
    assert sum(np.exp(add_choices(scores, row, 1.0, *empty)) for row in np.eye(n)) == pytest.approx(
        1
    )


# -- weights of lists ----------------------------------------------------------------------------


@settings(max_examples=10)
@given(SEEDS, st.sampled_from([0.25, 2.0, 7.0]))
def test_a_list_of_weight_w_says_w_times_as_much(seed, w):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 20)
    start = Blend().learn(queries, lists, items=items)
    one = shown(rng, queries, items, 1)
    heavy = Impressions(**{**vars(one), "weights": np.array([w])})
    plain, weighted = (
        copy.deepcopy(start).learn(queries, given, items=items).weights_part_
        for given in (one, heavy)
    )
    before = start.weights_part_
    for name in ("information", "natural", "likelihood"):
        old, once, times = (getattr(part, name) for part in (before, plain, weighted))
        np.testing.assert_allclose(times - old, w * (once - old), rtol=1e-7, atol=1e-10)


@settings(max_examples=10)
@given(SEEDS)
def test_lists_that_say_nothing_leave_no_trace_but_the_count(seed):
    """Weight 0, nothing preferred to anything, or one item alone: as if never seen."""
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 40)
    some = [Blend(memory=10).learn(queries, lists, items=items) for _ in range(2)]
    nothing = shown(rng, queries, items, 30, weights=(0.0,))
    even = Impressions.from_rows([3, 3, 3], [1, 2, 3], [1, 1, 1])
    alone = Impressions.from_rows([4], [1], [1])
    for silent in (nothing, even, alone):
        some[1].learn(queries, silent, items=items)
    ours, theirs = (blend.get_state() for blend in some)
    assert theirs.pop("n_seen_") == ours.pop("n_seen_") + 32
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)


# -- trust ---------------------------------------------------------------------------------------


def test_the_base_ranks_until_something_is_better_beyond_doubt():
    rng = np.random.default_rng(0)
    queries, items = problem(rng, n_queries=200)
    blend = Blend().learn(queries, np.empty((0, 3), int), items=items)
    assert blend.trust_ == pytest.approx(
        {"views": 1 - BELIEFS[BASE], "W": 1 / (1 + DOUBT), "memory": memory.BELIEF}
    )
    scores = blend.pairwise_score(queries, items)
    base = queries["meaning"] @ items["meaning"].T / blend.gaps_[0]
    # Only views that agree with the base add something of their own accord, and little.
    np.testing.assert_allclose(scores, base, atol=0.5)
    plain = Blend().learn(queries["meaning"], np.empty((0, 3), int), items=items["meaning"])
    np.testing.assert_allclose(
        plain.pairwise_score(queries["meaning"], items["meaning"]), base, rtol=1e-12
    )


def test_a_view_that_does_not_vary_among_the_items_shown_is_not_blown_up(rng):
    """Its prior stays in typical gaps, however many such lists there are."""
    queries, items = problem(rng)
    text = np.ones((len(items), 8))
    text[20:] = rng.poisson(0.4, (20, 8))
    meaning = items["meaning"].copy()
    meaning[:, :4] += 0.5 * text[:, :4]  # so that the two agree
    items = Views(meaning=meaning, text=text)
    rows = np.array([rng.permutation(20)[:5] for _ in range(30)])
    lists = chosen_lists(rng, rng.integers(12, size=30), rows, rng.integers(5, size=30))
    blend = Blend()
    for t in range(30):
        blend.learn(queries, lists.part(slice(t, t + 1)), items=items)
        assert np.abs(blend.weights_).max() < 2


def test_trust_is_monotone_and_bounded():
    values = [trust(evidence, 0.2) for evidence in (-1e9, -3.0, 0.0, 3.0, 1e9)]
    assert values == sorted(values)
    assert values[2] == pytest.approx(0.2)
    assert 0 <= values[0] < values[-1] <= 1


def test_repeats_of_one_query_count_once():
    """The same evidence n times for one query: the design effect is n."""
    assert design_effect((10 * 0.3) ** 2, 10 * 0.3**2) == pytest.approx(10)
    assert design_effect(0.0, 0.0) == 1.0


def choose(rng, scores):
    """One item of each row of `scores`, by a softmax."""
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def chosen_lists(rng, queries, rows, picked, trusted=False):
    n, size = rows.shape
    gains = np.zeros((n, size))
    gains[np.arange(n), picked] = 1.0
    return Impressions.from_rows(
        np.repeat(queries, size),
        rows.ravel(),
        gains.ravel(),
        impression=np.repeat(np.arange(n), size),
        trusted=trusted,
    )


def null_stream(seed, n=150, strength=1.0, size=5):
    """Choices that follow the base, and nothing else, with a view and a field that mean nothing."""
    rng = np.random.default_rng([seed, n])
    queries = Views(meaning=rng.normal(size=(40, 6)), text=rng.normal(size=(40, 6)))
    items = Views(
        meaning=rng.normal(size=(60, 6)), text=rng.normal(size=(60, 6)), price=rng.normal(size=60)
    )
    asked = rng.integers(40, size=n)
    rows = np.array([rng.permutation(60)[:size] for _ in range(n)])
    base = strength * np.vecdot(queries["meaning"][asked][:, None], items["meaning"][rows])
    return queries, items, chosen_lists(rng, asked, rows, choose(rng, base))


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_parts_that_mean_nothing_are_trusted_at_most_as_much_as_believed_on_average(strength):
    """E[trust] ≤ belief over null streams: the evidence is a likelihood ratio against the truth."""
    found = []
    for seed in range(100):
        queries, items, lists = null_stream(seed, strength=strength)
        blend = Blend().learn(queries, lists, items=items)
        near = trust(blend.memory_part_.totals[memory.NEIGHBORS], memory.BELIEF)
        found.append([*blend.trust_.values(), near])
    beliefs = np.array([1 - BELIEFS[BASE], 1 / (1 + DOUBT), memory.BELIEF, memory.BELIEF])
    error = 2 * np.std(found, axis=0) / np.sqrt(len(found)) + 1e-9
    assert (np.mean(found, axis=0) <= beliefs + error).all()


@pytest.mark.parametrize("noise", ["coin", "base"])
def test_evidence_is_wrong_at_most_at_its_level(noise):
    """At any time one null stream in a hundred may be evidence of 100 to 1 for W, or for memory.

    P(more than 5 of 120 at 1/100 each) < 0.002.
    """
    opened = np.zeros(3)
    for seed in range(120):
        rng = np.random.default_rng([seed, 7])
        X = rng.normal(size=(150, 8))
        triplets = np.column_stack(
            [rng.integers(150, size=600), rng.integers(150, size=600), rng.integers(150, size=600)]
        )
        if noise == "base":
            margin = np.vecdot(X[triplets[:, 0]], X[triplets[:, 1]] - X[triplets[:, 2]])
            other = rng.logistic(size=600) > margin
            triplets[other] = triplets[other][:, [0, 2, 1]]
        blend, ever = Blend(obey=False), np.zeros(3, bool)
        for part in np.split(triplets, 12):
            blend.learn(X, part)
            remembered = blend.memory_part_.totals >= np.log(DOUBT)
            ever |= np.array([blend.trust_["W"] > 0.5, *remembered])
        opened += ever
    assert (opened <= 5).all(), opened


def test_memory_that_is_no_better_than_forgetting_does_not_rank():
    """It ranks as far as evidence S has raised trust in it: by half at S = log 11."""
    part = Blend().learn(np.eye(3), [[0, 1, 2]]).memory_part_
    for kind in (memory.OWN, memory.NEIGHBORS):
        for evidence, share in ((-1.0, 0.0), (0.0, 0.0), (np.log(11), 0.5), (40.0, 1.0)):
            part.totals[kind] = evidence
            assert part.shares(kind).sum() == pytest.approx(share, abs=1e-9)


def test_pure_noise_leaves_the_order_of_the_base():
    rng = np.random.default_rng(1)
    changes = []
    for seed in range(5):
        queries, items, _ = null_stream(seed)
        n = 400
        rows = np.array([rng.permutation(60)[:8] for _ in range(n)])
        lists = chosen_lists(rng, rng.integers(40, size=n), rows, rng.integers(8, size=n))
        start = Blend().learn(queries, lists.part(slice(0)), items=items)
        blend = copy.deepcopy(start).learn(queries, lists, items=items)
        before, after = (
            np.argsort(-b.pairwise_score(queries, items), axis=1)[:, :10] for b in (start, blend)
        )
        kept = [len(np.intersect1d(a, b)) for a, b in zip(before, after, strict=True)]
        changes.append(10 - np.mean(kept))
    assert np.mean(changes) < 0.5


def test_a_view_that_decides_is_found_and_weighed():
    rng = np.random.default_rng(2)
    queries, items, _ = null_stream(0)
    rows = np.array([rng.permutation(60)[:6] for _ in range(300)])
    asked = rng.integers(40, size=300)
    true = 0.3 * np.vecdot(queries["meaning"][asked][:, None], items["meaning"][rows])
    true += 0.9 * np.vecdot(queries["text"][asked][:, None], items["text"][rows])
    blend = Blend().learn(queries, chosen_lists(rng, asked, rows, choose(rng, true)), items=items)
    base, text, price = blend.weights_
    assert blend.trust_["views"] > 0.99
    assert base == 1.0
    assert 1.5 < text < 6.0
    assert abs(price) < 0.3 * text


def test_a_nuisance_is_learnt_and_left_out_of_the_ranking():
    """Clicks fall with the place and follow the base; items are shown in random order."""
    rng = np.random.default_rng(4)
    Q, Z = rng.normal(size=(200, 5)), rng.normal(size=(80, 5))
    n, size = 800, 8
    asked, rows = rng.integers(200, size=n), np.array([rng.permutation(80)[:8] for _ in range(n)])
    place = np.log(np.arange(1, size + 1))
    picked = choose(rng, np.vecdot(Q[asked][:, None], Z[rows]) - 1.5 * place)
    gains = np.zeros((n, size))
    gains[np.arange(n), picked] = 1.0
    lists = Impressions.from_rows(
        np.repeat(asked, size),
        rows.ravel(),
        gains.ravel(),
        impression=np.repeat(np.arange(n), size),
        position=np.tile(np.arange(1, size + 1), n),
    )
    blend = Blend().learn(Q, lists, items=Z)
    part = blend.weights_part_
    shares = np.exp(part.likelihood[0] - np.logaddexp.reduce(part.likelihood[0]))
    gamma = [
        np.linalg.inv(np.eye(1) + info) @ nat
        for info, nat in zip(part.information[0], part.natural[0] - 0.5, strict=True)
    ]
    assert shares @ np.array(gamma)[:, 0] == pytest.approx(-1.5, abs=0.3)
    assert blend.names_ == ["vectors"]
    assert blend.weights_.tolist() == [1.0]
    assert blend.query_vectors(Q).shape == Q.shape


# -- decisions -----------------------------------------------------------------------------------


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
        assert len(blend.memory_part_.decided) == 0


def test_what_was_judged_longest_ago_is_forgotten_first():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 6))
    triplets = np.column_stack([np.arange(200), rng.integers(200, 300, size=(200, 2))])
    blend = Blend(memory=50).learn(X, triplets)
    memory = blend.memory_part_
    assert len(memory.keys) == len(memory.decided) == 50
    assert sorted(memory.times) == list(range(150, 200))
    blend.set_params(memory=5).learn(X, triplets[:20])
    assert len(memory.decided) == 5


def test_decisions_of_the_last_lists_are_obeyed_and_older_ones_remembered():
    rng = np.random.default_rng(9)
    X, n = rng.normal(size=(60, 30)), memory.LISTS + 4
    triplets = np.column_stack(
        [np.zeros(n, int), rng.permutation(np.arange(1, 60))[: 2 * n].reshape(n, 2)]
    )
    part = Blend().learn(X, triplets).memory_part_
    assert part.decided_times.tolist() == list(range(4, n))
    assert part.met.tolist() == [n]
    blend = Blend().learn(X, triplets)
    assert (blend.triplet_scores(X, triplets[4:]) > 0).all()


def test_all_decisions_of_one_ordered_list_are_obeyed():
    rng = np.random.default_rng(10)
    X, shown = rng.normal(size=(40, 30)), np.arange(1, 13)
    starts, one = np.array([0, 12]), np.ones(1)
    lists = Impressions(np.array([0]), starts, shown, np.arange(12.0), {}, one, one > 0)
    blend = Blend().learn(X, lists)
    assert len(blend.memory_part_.decided) == 66
    assert (np.diff(blend.pairwise_score(X[:1], X[shown])[0]) > 0).all()


def test_what_is_remembered_of_a_decision_ranks_at_once():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(40, 6))
    lists = [
        Impressions.from_triplets(np.array([[0, 3, 5]]), trusted=trust) for trust in (True, False)
    ]
    parts = [Blend().learn(X, given).explain(X[:1], X[3:4])[0][0].parts for given in lists]
    assert parts[0]["memory"] > 0 == parts[1]["memory"]


def test_suggestions_are_about_queries_whose_pairs_people_tell_apart():
    rng = np.random.default_rng(12)
    X = np.repeat(rng.normal(size=(20, 6)), 2, axis=0)  # rows 0 and 1 are the same but for a hair
    X[1] += 1e-3
    items = rng.normal(size=(50, 6))
    pairs = rng.integers(50, size=(12, 2))
    answers = np.concatenate([np.column_stack([np.full(12, q), pairs]) for q in (0, 1)])
    for alike in (0, 1):
        given = Impressions.from_triplets(answers, alike=answers[:, 0] == alike, trusted=False)
        blend = Blend().learn(X, given, items=items)
        chosen = blend.suggest(X, [[0, 20, 30], [1, 20, 30]], items=items)
        assert chosen[0] == 1 - alike


def test_suggestions_are_neither_of_equal_scores_nor_known_before():
    worth = telling(np.array([-0.01, 1.0, -1.0, 1.5, 9.0]))
    assert worth[1] == worth[2]
    assert worth[1:4].min() > worth[0] > worth[4]
    assert telling(np.zeros(3)).tolist() == [1, 1, 1]


# -- forms ---------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(SEEDS)
def test_views_of_any_form_agree(seed):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 60)

    def held(form, dtype):
        sides = [{n: form(np.asarray(s[n]).astype(dtype)) for n in s} for s in (queries, items)]
        sides = [Views(**side) for side in sides]
        blend = Blend().learn(sides[0], lists, items=sides[1])
        scores = blend.pairwise_score(*sides)
        assert scores.dtype == dtype
        q, z = blend.query_vectors(sides[0]), blend.item_vectors(sides[1])
        assert (q.dtype, z.dtype) == (dtype, dtype)
        return scores

    dense = held(np.asarray, np.float64)
    np.testing.assert_allclose(held(sparse.csr_array, np.float64), dense, rtol=1e-8, atol=1e-8)
    for form in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(held(form, np.float32), dense, rtol=2e-2, atol=2e-2)


@settings(max_examples=6)
@given(SEEDS)
def test_one_view_of_that_name_is_a_plain_matrix(seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(20, 4)), rng.normal(size=(30, 4))
    triplets = np.column_stack([rng.integers(20, size=50), rng.integers(30, size=(50, 2))])
    plain = Blend().learn(X, triplets, items=Z)
    views = Blend().learn(Views(vectors=X), triplets, items=Views(vectors=Z))
    np.testing.assert_array_equal(
        plain.pairwise_score(X, Z), views.pairwise_score(Views(vectors=X), Views(vectors=Z))
    )


@pytest.fixture(scope="module")
def learnt():
    """A blend whose parts all rank: views, W, memory and decisions."""
    rng = np.random.default_rng(21)
    queries, items = problem(rng, n_queries=300, n_items=60)
    taste = rng.normal(size=(5, 5))
    follow = 2 * queries["meaning"] @ taste @ items["meaning"].T
    follow += 2 * queries["text"] @ items["text"].T + 2 * rng.normal(size=(300, 60))
    triplets = np.column_stack([rng.integers(300, size=3000), rng.integers(60, size=(3000, 2))])
    q, a, b = triplets.T
    wrong = follow[q, a] < follow[q, b]
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    blend = Blend().learn(queries, triplets, items=items)
    assert min(blend.trust_.values()) > 0.9
    return blend, queries, items


def test_inner_products_of_exported_vectors_are_the_scores(learnt):
    blend, queries, items = learnt
    q, z = blend.query_vectors(queries), blend.item_vectors(items)
    assert z.shape == (60, 16)
    np.testing.assert_array_equal(z[:, :5], items["meaning"])
    np.testing.assert_allclose(q @ z.T, blend.pairwise_score(queries, items), atol=1e-10)


def test_triplet_scores_are_differences_of_scores(learnt):
    blend, queries, items = learnt
    scores = blend.pairwise_score(queries, items)
    triplets = np.array([[0, 1, 2], [5, 7, 7], [9, 50, 3], [0, 2, 1]])
    q, a, b = triplets.T
    found = blend.triplet_scores(queries, triplets, items=items)
    np.testing.assert_allclose(found, scores[q, a] - scores[q, b], atol=1e-10)
    assert blend.triplet_scores(queries, triplets[:0], items=items).shape == (0,)


def test_one_query_is_scored_as_a_row(rng):
    X = rng.normal(size=(20, 4))
    blend = Blend().learn(X, [[0, 1, 2]])
    np.testing.assert_allclose(blend.pairwise_score(X[0], X), blend.pairwise_score(X, X)[0])
    np.testing.assert_allclose(blend.query_vectors(X[0]), blend.query_vectors(X)[0])


def test_parts_of_an_explanation_add_up_to_the_score(learnt):
    blend, queries, items = learnt
    some, few = queries[:4], items[10:15]
    scores = blend.pairwise_score(some, few)
    for q, row in enumerate(blend.explain(some, few)):
        for z, explanation in enumerate(row):
            assert explanation.score == pytest.approx(scores[q, z], abs=1e-9)
            assert list(explanation.parts) == [*blend.names_, "W", "memory", "decisions"]
            moved = sum(by for _, by in explanation.judgements)
            assert moved == pytest.approx(explanation.parts["memory"], abs=1e-9)


def test_judgements_that_agree_make_a_margin_surer(learnt):
    blend, queries, items = learnt
    order = np.argsort(-blend.pairwise_score(queries[:1], items)[0])
    triplet = [[0, order[0], order[-1]]]
    _, std = blend.triplet_scores(queries, triplet, items=items, return_std=True)
    more = copy.deepcopy(blend).learn(queries, triplet * 30, items=items)
    _, after = more.triplet_scores(queries, triplet, items=items, return_std=True)
    assert 0 < after[0] < std[0]


def test_suggestions_are_about_different_queries(learnt):
    blend, queries, items = learnt
    candidates = np.array([[0, 1, 2], [0, 3, 4], [1, 5, 6], [2, 7, 8]])
    chosen = blend.suggest(queries, candidates, 3, items=items)
    assert len(set(candidates[chosen, 0])) == 3
    with pytest.raises(ValueError, match=r"^Blend\.suggest: n_suggestions must be between 1 and"):
        blend.suggest(queries, candidates, 5, items=items)


def test_one_person_who_insists_is_no_change_of_taste(learnt):
    """W survives a decision against it that is repeated; other queries keep their order."""
    blend, queries, items = copy.deepcopy(learnt)
    before = blend.trust_["W"], blend.matrix_part_.totals[W_COUNTED]
    order = np.argsort(-blend.pairwise_score(queries[:1], items)[0])
    blend.learn(queries, [[0, order[-1], order[0]]] * 40, items=items)
    assert blend.triplet_scores(queries, [[0, order[-1], order[0]]], items=items)[0] > 0
    assert (blend.trust_["W"], blend.matrix_part_.totals[W_COUNTED]) >= (0.99, before[1])


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "state"])
def test_a_copy_scores_and_learns_as_the_original(learnt, way, tmp_path):
    blend, queries, items = copy.deepcopy(learnt)
    if way == "pickle":
        twin = pickle.loads(pickle.dumps(blend))
    elif way == "joblib":
        joblib.dump(blend, tmp_path / "blend")
        twin = joblib.load(tmp_path / "blend", mmap_mode="r")
    elif way == "deepcopy":
        twin = copy.deepcopy(blend)
    else:
        twin = Blend().set_state(copy.deepcopy(blend.get_state()))
    lists = shown(np.random.default_rng(3), queries, items, 40)
    for one in (blend, twin):
        one.learn(queries, lists, items=items)
    ours, theirs = blend.get_state(), twin.get_state()
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)


def test_wide_bases_have_weights_alone():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.random((30, 5000)) * (rng.random((30, 5000)) < 0.01))
    price = rng.normal(size=30)
    queries, items = Views(words=X), Views(words=X, price=price)
    blend = Blend().learn(queries, rng.integers(30, size=(50, 3)), items=items)
    assert blend.matrix_part_.W.size == 0
    assert len(blend.memory_part_.keys) == 0
    vectors = blend.query_vectors(queries)
    assert sparse.issparse(vectors)
    np.testing.assert_allclose(
        (vectors @ blend.item_vectors(items).T).toarray(), blend.pairwise_score(queries, items)
    )
    assert blend.explain(queries[:1], items[:1])[0][0].score == pytest.approx(
        blend.pairwise_score(queries[:1], items[:1])[0, 0]
    )


# -- bad inputs ----------------------------------------------------------------------------------


def test_first_view_must_be_one_that_queries_have(rng):
    with pytest.raises(ValueError, match=r"^Blend: the first view of the items must be one that"):
        Blend().begin(Views(a=np.eye(3)), Views(price=np.ones(3), a=np.eye(3)))


@pytest.mark.parametrize(
    ("queries", "items", "words"),
    [
        ({"a": np.eye(3)}, {"a": np.eye(3)[:, :2]}, "Blend: the view 'a' must have as many feat"),
        ({"a": np.eye(3), "b": np.eye(3)}, {"a": np.eye(3)}, "Blend: views of the queries must be"),
        ({"b": np.eye(3)}, {"a": np.eye(3)}, "Blend: the first view of the items must be one"),
    ],
)
def test_views_that_do_not_fit_are_refused_at_the_start(queries, items, words):
    blend = Blend()
    with pytest.raises(ValueError, match=words):
        blend.learn(Views(**queries), [[0, 1, 2]], items=Views(**items))
    assert not blend.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, z: (q, {**z, "b": z["b"][:, :2]}), "items must have the view 'b' with 3 feat"),
        (lambda q, z: (q, {"a": z["a"]}), "items must have the view 'b' with 3 features, got none"),
        (lambda q, z: ({"a": q["a"][:, :2]}, z), "queries must have the view 'a' with 4 features"),
        (lambda q, z: ({"c": q["a"]}, z), "views of the queries must be among a, b, got c"),
        (lambda q, z: (q, {**z, "c": z["b"]}), "views of the items must be among a, b, got c"),
        (lambda q, z: ({"a": q["a"] * np.nan}, z), "finite"),
        (lambda q, z: (q, {**z, "b": z["b"] + np.inf}), "finite"),
        (lambda q, z: (q, {**z, "b": z["b"] * 1e200}), "b must have entries of magnitude"),
    ],
)
def test_views_that_do_not_fit_are_refused_later_and_change_nothing(change, words, rng):
    q, z = {"a": rng.normal(size=(6, 4))}, {"a": rng.normal(size=(6, 4)), "b": np.eye(6)[:, :3]}
    blend = Blend().learn(Views(**q), [[0, 1, 2]], items=Views(**z))
    before = copy.deepcopy(blend.get_state())
    q, z = (Views(**side) for side in change(q, z))
    with pytest.raises(ValueError, match=words):
        blend.learn(q, [[0, 1, 2]], items=z)
    for name, value in before.items():
        np.testing.assert_array_equal(blend.get_state()[name], value, err_msg=name)
    with pytest.raises(ValueError, match=words):
        blend.pairwise_score(q, z)


def test_rows_and_nuisances_out_of_range_are_refused_and_change_nothing(rng):
    X = rng.normal(size=(6, 4))
    first = Impressions.from_rows([0, 0], [1, 2], [0, 1], position=[1, 2])
    blend = Blend().learn(X, first)
    before = copy.deepcopy(blend.get_state())
    wrong = {
        "items of the feedback must be row indices between 0 and 5, got 6": ([0, 0], [1, 6], {}),
        "queries of the feedback must be row indices between 0 and 5, got 9": ([9, 9], [1, 2], {}),
        "nuisances must be among position": ([0, 0], [1, 2], {"page": [1, 1]}),
    }
    for words, (query, item, nuisance) in wrong.items():
        lists = Impressions.from_rows(query, item, [0, 1], nuisance=nuisance)
        with pytest.raises(ValueError, match=rf"^Blend\.learn: {words}"):
            blend.learn(X, lists)
    for name, value in before.items():
        np.testing.assert_array_equal(blend.get_state()[name], value, err_msg=name)
    blend.learn(X, [[0, 1, 2]])
    assert blend.nuisances_ == ["position"]


def test_a_copy_of_the_base_has_no_variance_of_its_own():
    """Regression on the base leaves (1 - c²) of the variance, whichever items are chosen by it."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=10**5)
    for c in (0.3, 0.6, 0.9):
        copy = c * base + np.sqrt(1 - c**2) * rng.normal(size=10**5)
        best = np.argsort(-base)[:5000]
        first = np.array([base[best].var(), copy[best].var(), 4 * copy[best].var()])
        found = share_of_its_own(np.array([c, c]), first, np.ones(3))
        np.testing.assert_allclose(found, [0.0, 0.75], atol=0.05)


def test_noisy_copies_random_views_and_fields_start_at_zero():
    """And a view that tells the base's first items apart does not."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(200, 20)), rng.normal(size=(1000, 20))
    scores = X @ Z.T
    kinds = rng.random(scores.shape) < 0.02 * (scores > 4)  # some of the best match in words too
    views = {
        "noisy": scores + 4 * rng.normal(size=scores.shape),
        "random": rng.normal(size=scores.shape),
        "words": kinds + 0.01 * scores,
    }
    queries = Views(base=X, **{name: np.eye(200) for name in views})
    items = Views(base=Z, **{name: view.T for name, view in views.items()}, size=Z.sum(axis=1))
    start = Blend().learn(queries, np.zeros((0, 3), int), items=items).weights_[1:]
    np.testing.assert_allclose(start[[0, 1, 3]], 0.0, atol=0.02)
    assert start[2] > 0.05


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.update(widths_=[["meaning", 5, 4]]),
        lambda s: s.update(names_=["a"]),
        lambda s: s.update(widths_=7),
        lambda s: s.update(n_features_in_=99),
        lambda s: s.update(nuisances_=[1]),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(learnt, damage):
    state = dict(learnt[0].get_state())
    damage(state)
    blend = Blend()
    with pytest.raises(ValueError, match=r"^Blend\.set_state: "):
        blend.set_state(state)
    assert not blend.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", ["names_", "matrix_W_", "memory_near_", "n_seen_"])
def test_a_state_with_a_gap_is_refused(learnt, name):
    state = dict(learnt[0].get_state())
    del state[name]
    with pytest.raises(ValueError, match=rf"^Blend\.set_state: .*{name}.* is missing"):
        Blend().set_state(state)


def test_neighbours_found_by_sketches_are_all_neighbours(monkeypatch):
    """Few remembered queries are compared one by one, many by sketches: to the same end."""
    rng = np.random.default_rng(6)
    centres = rng.normal(size=(5, 6))
    X = np.repeat(centres, 60, axis=0) + 0.3 * rng.normal(size=(300, 6))
    Z = rng.normal(size=(50, 6))
    follow = np.repeat(2 * rng.normal(size=(5, 6)) @ Z.T, 60, axis=0)
    queries, items = Views(vectors=X), Views(vectors=Z)
    lists = shown(rng, queries, items, 400, n_queries=250, follow=follow, trusted=0.0)
    plain, sketched = Blend(memory=200), Blend(memory=200)
    for part in np.array_split(np.arange(400), 4):  # sketches follow what is forgotten
        for blend, many in ((plain, 10**9), (sketched, 2)):
            monkeypatch.setattr("similia.similarity.memory.MANY", many)
            blend.learn(queries, lists.part(part), items=items)
            blend.memory_part_.totals[1] = 100.0
            blend.pairwise_score(X, Z)
    scores = []
    for blend, many in ((plain, 10**9), (sketched, 2)):
        monkeypatch.setattr("similia.similarity.memory.MANY", many)
        scores.append(blend.pairwise_score(X, Z))
    np.testing.assert_allclose(*scores, rtol=1e-10)
    assert np.abs(scores[0][250:] - X[250:] @ Z.T / plain.gaps_).max() > 0.1


@pytest.mark.parametrize("longer", [1e3, 1e9, 1e29])
def test_items_longer_than_any_before_leave_a_finite_state(longer, rng):
    X = rng.normal(size=(40, 6))
    blend = Blend().learn(X, rng.integers(40, size=(60, 3)))
    far = X.copy()
    far[::3] *= longer
    blend.learn(far, rng.integers(40, size=(200, 3)))
    assert all(np.isfinite(value).all() for value in blend.get_state().values() if numeric(value))


def test_labels_of_rows_too_large_for_single_precision_are_refused(rng):
    X, y = rng.normal(size=(40, 6)), rng.integers(3, size=40)
    blend = Blend(n_triplets=50, random_state=0).fit(X.astype(np.float32), y)
    with pytest.raises(ValueError, match=r"magnitude at most .* for float32"):
        blend.partial_fit(1e20 * X, y)


def numeric(value):
    return isinstance(value, float | np.ndarray) and np.asarray(value).dtype.kind == "f"
