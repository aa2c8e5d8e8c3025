import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from experiments.blend import clicks, searches, today
from experiments.blend.report import Table, interval
from similia import Views, evaluate


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    Q, Z = rng.normal(size=(40, 6)).astype("f4"), rng.normal(size=(150, 6)).astype("f4")
    taste = Q[:, :2] @ Z[:, :2].T
    grades = (taste >= np.sort(taste, axis=1)[:, -12, None]).astype(np.int8)
    items = Views(meaning=Z, length=Z[:, 0])
    scores = {"meaning": Q @ Z.T, "length": np.broadcast_to(Z[:, 0], grades.shape)}
    return clicks.Collection("toy", Views(meaning=Q), items, scores, grades)


def test_a_seed_makes_the_same_searches(data):
    one, other = (clicks.split(data, 3, 20, 0.15) for _ in range(2))
    for left, right in zip(one.log, other.log, strict=True):
        assert_array_equal(left, right)
    assert not set(one.train) & set(one.new)
    assert set(one.log.queries) <= set(one.train)


def test_clean_clicks_are_on_relevant_items_and_pure_noise_is_not(data):
    log = clicks.split(data, 0, 300, 0.0).log
    relevant = data.relevant[log.queries[:, None], log.shown]
    assert relevant[log.gains > 0].all()
    noise = clicks.split(data, 0, 300, 0.5).log
    relevant = data.relevant[noise.queries[:, None], noise.shown]
    examined = np.broadcast_to(clicks.EXAMINED, relevant.shape)
    for which in (relevant, ~relevant):
        assert noise.gains[which].sum() == pytest.approx(0.5 * examined[which].sum(), rel=0.15)


def test_triplets_put_what_gained_above_what_gained_less(data):
    log = clicks.split(data, 1, 30, None).log
    for query, better, worse in log.triplets(np.random.default_rng(0)):
        assert data.grades[query, better] > data.grades[query, worse]


def test_ndcg_is_that_of_the_library(data):
    ours = clicks.ndcg(data.base, data.relevant)
    Q, Z = data.queries["meaning"], data.items["meaning"]
    relevance = data.relevant.astype("f4")
    theirs = evaluate("inner_product", Q, Z, relevance=relevance, k=10, measures=["ndcg"])
    assert_allclose(ours, theirs.judged("ndcg@10"), rtol=1e-6)


@pytest.mark.parametrize("name", ["Rocchio", "Qdrant", "hybrid"])
def test_without_clicks_nothing_is_chosen_and_the_base_ranks(data, name):
    log = clicks.split(data, 0, 10, 0.0).log
    empty = log._replace(gains=np.zeros_like(log.gains))
    scorer, chosen = today.tuned(name, data, empty, 0)
    assert chosen is None
    assert_array_equal(scorer(np.arange(5)), data.base[:5])


@pytest.mark.parametrize("name", ["Rocchio", "Qdrant"])
def test_feedback_about_one_query_leaves_the_others_alone(data, name):
    make, _, settings = today.TODAY[name]
    log = clicks.split(data, 0, 40, 0.0).log
    others = np.setdiff1d(np.arange(40), log.queries)
    for setting in settings:
        scorer = make(data, log, setting, np.random.default_rng(0))
        assert_allclose(scorer(others), data.base[others], rtol=1e-5)
        assert np.abs(scorer(np.unique(log.queries)) - data.base[np.unique(log.queries)]).max() > 0


def test_our_contenders_rank_by_the_weights_of_the_blend(data):
    ours = searches.Ours(data, 0)
    ours.learn(clicks.split(data, 0, 50, 0.0).log)
    ours.blend.memory_part_.pairs[:] = 0.0  # what is remembered is no view
    rows = np.arange(8)
    found = {name: scorer(rows) for name, scorer in ours.scorers().items()}
    assert_allclose(found["Blend"], found["views"], rtol=1e-4, atol=1e-5)


def test_gains_are_over_the_base_of_the_same_seed():
    def row(contender, seed, value):
        start = {"problem": "cisi", "options": '{"feedback":"clicks"}', "step": 10}
        return {
            **start,
            "contender": contender,
            "measure": "ndcg@10 new",
            "seed": seed,
            "value": value,
        }

    rows = [row("base", 1, 0.5), row("base", 2, 0.1), row("Blend", 2, 0.4), row("Blend", 1, 0.6)]
    gains = Table(rows).gains("cisi", "clicks", "Blend", "new", 10)
    assert gains == pytest.approx([0.1, 0.3])
    assert interval(gains) == pytest.approx(12.706 * 0.1, rel=1e-3)
