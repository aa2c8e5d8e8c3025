import copy
import doctest
import inspect
import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpydoc.docscrape import ClassDoc
from scipy import sparse
from sklearn.linear_model import Perceptron, SGDRegressor

import similia
from experiments.contenders.filters import ClassifierFilter, NearestLabelFilter
from experiments.contenders.paum import PAUM
from similia import LEGO, RelevanceFilter
from similia.filtering import FilteringResult
from tests.naive_pola import FixedDistance, NaivePOLA
from tests.problems import FORMS

PAIRS = ["nearest", "all", 2]
CONTENDERS = {
    "relevance": lambda: RelevanceFilter(NaivePOLA()),
    "nearest": NearestLabelFilter,
    "perceptron": lambda: ClassifierFilter(Perceptron()),
    "paum": lambda: ClassifierFilter(PAUM()),
}


def stream(rng, n=80, d=6, density=0.8):
    """Documents of one topic in two clusters, among others; some entries are lost."""
    relevant = rng.random(n) < 0.3
    X = 0.3 * rng.normal(size=(n, d))
    X[:, 0] += np.where(relevant, 1.0, -1.0)
    X[:, 1] += rng.choice([-1.0, 1.0], size=n)
    return X * (rng.random((n, d)) < density), relevant


def written_out(learner, X, relevant, pairs, budget):
    """The protocol, as plainly as possible."""
    kept, predicted = [], []
    learner.learn(X[:1], [], [])
    for x, label in zip(X, relevant, strict=True):
        rows = np.array([*kept, x])
        distances = -learner.pairwise_score(rows[-1:], rows[:-1])[0]
        predicted.append(bool(kept) and bool(min(distances) <= learner.threshold_))
        n = {"nearest": 1, "all": len(kept)}.get(pairs, pairs)
        nearest = sorted(range(len(kept)), key=lambda i: distances[i])[:n]
        learner.learn(rows, [(len(kept), i) for i in nearest], [1 if label else -1] * len(nearest))
        if label:
            kept = [*kept, x][-(budget or len(X)) :]
    return np.array(predicted), np.array(kept)


# -- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "partners"),
    [
        ("nearest", [[0], [0.5], [0.5], [3]]),
        ("all", [[0], [0.5, 0], [0.5, 0], [3, 0.5, 0]]),
        (2, [[0], [0.5, 0], [0.5, 0], [3, 0.5]]),
    ],
)
def test_a_stream_by_hand(pairs, partners):
    learner = FixedDistance()
    X = np.array([[9.0], [0.0], [0.5], [0.8], [3.0], [2.5]])
    result = RelevanceFilter(learner, pairs=pairs).run(X, [0, 1, 1, 0, 1, 1])
    # Nothing relevant yet; the first one is missed; 0.5 and 0.8 are near to 0; 3 is not; 2.5 is.
    assert result.predicted.tolist() == [False, False, True, True, False, True]
    new = zip([0.5, 0.8, 3, 2.5], partners, [1, -1, 1, 1], strict=True)
    assert learner.lessons == [(x, z, y) for x, near, y in new for z in near]
    assert result.false_positive_rate == 1 / 2
    assert result.false_negative_rate == 2 / 4
    assert result.equalized_error == 1 / 2


def test_pola_in_one_dimension_by_hand():
    filter_ = RelevanceFilter(NaivePOLA())
    assert filter_.predict([2.0]) is False
    filter_.learn([0.0], True)
    assert filter_.predict([2.0]) is True  # A = 0: nothing can be told apart
    filter_.learn([2.0], False)  # loss 2, so A = 4 · 2/(16 + 1), and b would fall below 1
    np.testing.assert_allclose(filter_.learner.A_, 8 / 17)
    assert filter_.learner.b_ == 1.0
    edge = np.sqrt(17 / 8)
    assert filter_.predict([[0.99 * edge], [1.01 * edge]]).tolist() == [True, False]


def test_rates_and_curves_by_hand():
    result = FilteringResult(
        predicted=np.array([False, True, True, False]),
        relevant=np.array([False, False, True, True]),
    )
    nan = np.nan
    np.testing.assert_array_equal(result.false_positive_curve, [0, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(result.false_negative_curve, [nan, nan, 0, 0.5])
    np.testing.assert_array_equal(result.equalized_curve, [nan, nan, 0.25, 0.5])
    assert result.to_dict() == {
        "n_documents": 4,
        "n_relevant": 2,
        "false_positive_rate": 0.5,
        "false_negative_rate": 0.5,
        "equalized_error": 0.5,
    }
    assert str(result).startswith("4 documents, 2 relevant: 50.00 % false positives")


def test_a_rate_without_documents_of_its_kind_is_not_a_number():
    result = FilteringResult(np.array([False]), np.array([False]))
    assert result.false_positive_rate == 0.0
    assert np.isnan([result.false_negative_rate, result.equalized_error]).all()
    empty = NearestLabelFilter().run(np.empty((0, 3)), [])
    assert np.isnan(empty.equalized_error)
    assert len(empty.equalized_curve) == 0


# -- laws ----------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(PAIRS),
    st.sampled_from([None, 1, 5]),
    st.booleans(),
    st.sampled_from([None, "linear"]),
    st.sampled_from(sorted(FORMS)),
)
def test_the_filter_is_the_protocol_written_out(seed, pairs, budget, average, kernel, form):
    X, relevant = stream(np.random.default_rng(seed), n=40, d=4)
    twin = NaivePOLA(average=average)
    predicted, kept = written_out(twin, X, relevant, pairs, budget)
    filter_ = RelevanceFilter(NaivePOLA(average=average, kernel=kernel), pairs=pairs, budget=budget)
    result = filter_.run(FORMS[form](X), relevant)
    assert result.predicted.tolist() == predicted.tolist()
    assert result.relevant.tolist() == relevant.tolist()
    np.testing.assert_allclose(filter_.learner.A_, twin.A_, atol=1e-9)
    assert filter_.learner.threshold_ == pytest.approx(twin.threshold_)
    held = filter_.relevant_
    held = held.toarray() if sparse.issparse(held) else held
    np.testing.assert_array_equal(held.reshape(-1, 4), kept.reshape(-1, 4))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_pola_goes_through_the_stream_as_its_stand_in_does(average, form, rng):
    X, relevant = stream(rng)
    paper = similia.POLA(gamma=0, start="zero", unit=1, threshold_rate=1, average=average)
    ours, naive = RelevanceFilter(paper), RelevanceFilter(NaivePOLA(average=average))
    assert (
        ours.run(form(X), relevant).predicted.tolist() == naive.run(X, relevant).predicted.tolist()
    )
    np.testing.assert_allclose(paper.A_, naive.learner.A_, atol=1e-8)
    assert paper.threshold_ == pytest.approx(naive.learner.threshold_)


@pytest.mark.parametrize("average", [True, False])
def test_the_matrix_of_a_metric_makes_its_scores(average, rng):
    X, relevant = stream(rng)
    pairs, y = np.arange(80).reshape(-1, 2), np.where(relevant[::2], 1, -1)
    learner = similia.POLA(average=average).learn(X, pairs, y)
    V = X[:, None] - X[None]
    expected = -np.einsum("ijk,kl,ijl->ij", V, learner.metric_matrix(), V)
    np.testing.assert_allclose(learner.pairwise_score(X), expected, atol=1e-9)
    assert learner.set_params(n_components=2).metric_matrix() is None
    assert similia.KernelPOLA(average=average).learn(X, pairs, y).metric_matrix() is None


@pytest.mark.parametrize(
    "learner",
    [similia.KernelPOLA(unit=1), similia.POLA(unit=1, n_components=2), similia.POLA(unit=1)],
    ids=["kernel", "few components", "plain"],
)
def test_predictions_are_those_of_the_scores_whatever_the_learner(learner, rng):
    X, relevant = stream(rng)
    filter_ = RelevanceFilter(learner).learn(X[:40], relevant[:40])
    scores = learner.pairwise_score(X[40:], filter_.relevant_)
    expected = -scores.max(axis=1) <= learner.threshold_
    np.testing.assert_array_equal(filter_.predict(X[40:]), expected)


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_pieces_equal_the_whole(name, form, rng):
    X, relevant = stream(rng)
    whole, pieces, singles, told = (CONTENDERS[name]() for _ in range(4))
    expected = whole.run(form(X), relevant).predicted
    parts = [slice(0, 1), slice(1, 30), slice(30, 30), slice(30, 80)]
    said = [pieces.run(form(X)[part], relevant[part]).predicted for part in parts]
    np.testing.assert_array_equal(np.concatenate(said), expected)
    for i in range(80):
        assert singles.predict(form(X)[i : i + 1]) == expected[i]
        singles.learn(form(X)[i : i + 1], relevant[i])
    told.learn(form(X), relevant)
    new, _ = stream(rng)
    for other in (pieces, singles, told):
        np.testing.assert_array_equal(other.predict(new), whole.predict(new))


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_learns(name, rng):
    result = CONTENDERS[name]().run(*stream(rng, n=300, density=1.0))
    late = FilteringResult(result.predicted[150:], result.relevant[150:])
    assert late.equalized_error < 0.1


@pytest.mark.parametrize("budget", [None, 7])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_nearest_label_is_that_of_the_nearest_of_all(budget, form, rng):
    X, relevant = stream(rng)
    X[20:30] = X[10:20]
    expected = [False]
    for i in range(1, 80):
        first = max(0, i - (budget or i))
        distances = ((X[first:i] - X[i]) ** 2).sum(axis=1)
        expected.append(bool(relevant[first + distances.argmin()]))
    result = NearestLabelFilter(budget=budget).run(form(X), relevant)
    assert result.predicted.tolist() == expected


@pytest.mark.parametrize("make", [Perceptron, PAUM], ids=["Perceptron", "PAUM"])
@pytest.mark.parametrize("classes", [[False, True], [-1, 1], ["no", "yes"]])
def test_a_classifier_goes_through_the_stream_by_itself(make, classes, rng):
    X, relevant = stream(rng)
    alone, given = make(), make()
    y = np.array(classes)[relevant.astype(int)]
    alone.partial_fit(X[:1], y[:1], classes=classes)
    given.partial_fit(X[:1], y[:1], classes=classes)
    expected = []
    for i in range(1, 80):
        expected.append(bool(alone.decision_function(X[[i]])[0] > 0))
        alone.partial_fit(X[[i]], y[[i]])
    result = ClassifierFilter(given).run(X[1:], relevant[1:])
    assert result.predicted.tolist() == expected
    np.testing.assert_array_equal(given.coef_, alone.coef_)


def test_a_learner_that_changes_by_itself_is_followed(rng):
    X, relevant = stream(rng)
    filter_ = RelevanceFilter(NaivePOLA()).learn(X[:40], relevant[:40])
    filter_.predict(X[40:])

    def direct():
        scores = filter_.learner.pairwise_score(X[40:], filter_.relevant_)
        return -scores.max(axis=1) <= filter_.learner.threshold_

    filter_.learner.learn(100 * X, [(0, 1), (2, 3), (4, 9)], [1, -1, 1])
    np.testing.assert_array_equal(filter_.predict(X[40:]), direct())
    filter_.learner.A_ = 10 * np.eye(6)
    np.testing.assert_array_equal(filter_.predict(X[40:]), direct())


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_inputs_are_neither_changed_nor_kept(name, form, rng):
    X, relevant = stream(rng)
    given, labels = form(X.copy()), relevant.copy()
    filter_ = CONTENDERS[name]()
    result = filter_.run(given, labels)
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)
    expected = filter_.predict(X)
    (given.data if sparse.issparse(given) else given)[:] = 0.0
    labels[:] = True
    np.testing.assert_array_equal(filter_.predict(X), expected)
    np.testing.assert_array_equal(result.relevant, relevant)


@pytest.mark.parametrize("name", CONTENDERS)
def test_entries_that_are_stored_twice_add_up(name, rng):
    X, relevant = stream(rng)
    halves = sparse.csr_array(
        (np.repeat(X / 2, 2), np.tile(np.repeat(np.arange(6), 2), 80), np.arange(81) * 12)
    )
    before = halves.data.copy(), halves.indices.copy()
    result = CONTENDERS[name]().run(halves, relevant)
    expected = CONTENDERS[name]().run(sparse.csr_array(X), relevant)
    np.testing.assert_array_equal(result.predicted, expected.predicted)
    np.testing.assert_array_equal(halves.data, before[0])
    np.testing.assert_array_equal(halves.indices, before[1])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_single_precision_stays_and_decides_alike(form, rng):
    X, relevant = stream(rng)
    filter_ = RelevanceFilter(NaivePOLA())
    narrow = filter_.run(form(X.astype(np.float32)), relevant)
    assert filter_.relevant_.dtype == np.float32
    wide = RelevanceFilter(NaivePOLA()).run(X, relevant)
    assert np.mean(narrow.predicted == wide.predicted) > 0.97


def test_a_terminal_sees_a_bar(monkeypatch, rng):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    NearestLabelFilter().run(*stream(rng), verbose=True)
    assert "NearestLabelFilter" in screen.getvalue()
    assert "80/80" in screen.getvalue()


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        (RelevanceFilter(LEGO()), "RelevanceFilter: learner must be a learner of distances with"),
        (RelevanceFilter(3), "RelevanceFilter: learner must be a learner of distances with"),
        (RelevanceFilter(NaivePOLA(), pairs="some"), "RelevanceFilter: pairs must be one of"),
        (RelevanceFilter(NaivePOLA(), pairs=0), "RelevanceFilter: pairs must be one of"),
        (RelevanceFilter(NaivePOLA(), budget=0), "RelevanceFilter: budget must be a positive"),
        (NearestLabelFilter(budget=1.5), "NearestLabelFilter: budget must be a positive"),
        (ClassifierFilter(SGDRegressor()), "ClassifierFilter: classifier must be a classifier"),
        (RelevanceFilter(NaivePOLA(gamma=-1)), "NaivePOLA: gamma must be"),
    ],
)
def test_wrong_parameters_are_named(filter_, words, rng):
    X, relevant = stream(rng)
    before = dict(vars(filter_))
    for call in (filter_.run, filter_.learn):
        with pytest.raises(ValueError, match=words):
            call(X, relevant)
    assert vars(filter_) == before


def test_a_classifier_of_three_classes_is_refused(rng):
    X, relevant = stream(rng)
    classifier = PAUM().partial_fit(X, np.arange(80) % 3, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="ClassifierFilter: classifier must know two classes"):
        ClassifierFilter(classifier).run(X, relevant)


WRONG = {
    "too few features": (lambda X, y: (X[:, :-1], y), "X must have 6 features, as before, got 5"),
    "not finite": (lambda X, y: (X * np.nan, y), "X must be finite"),
    "huge": (lambda X, y: (X * 1e300, y), "X must have entries of magnitude at most"),
    "no numbers": (lambda X, y: (X.astype(str), y), "X must be a vector of numbers or a matrix"),
    "three axes": (lambda X, y: (X[None], y), "X must be a vector of numbers or a matrix"),
    "a number": (lambda X, y: (1.0, y), "X must be a vector of numbers or a matrix"),
    "too few labels": (lambda X, y: (X, y[1:]), "relevant must be True or False for each of 20"),
    "one label": (lambda X, y: (X, True), "relevant must be True or False for each of 20"),
    "signs": (lambda X, y: (X, np.where(y, 1, -1)), "relevant must be True or False for each"),
    "words": (lambda X, y: (X, np.where(y, "yes", "no")), "relevant must be True or False for"),
}


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("method", ["learn", "run"])
def test_wrong_documents_and_labels_are_refused_and_change_nothing(name, method, rng):
    X, relevant = stream(rng, n=20)
    filter_ = CONTENDERS[name]().learn(X, relevant)
    twin = copy.deepcopy(filter_)
    for damage, words in WRONG.values():
        with pytest.raises(ValueError, match=rf"^{type(filter_).__name__}\.{method}: {words}"):
            getattr(filter_, method)(*damage(X, relevant))
    new, labels = stream(rng)
    np.testing.assert_array_equal(
        filter_.run(new, labels).predicted, twin.run(new, labels).predicted
    )


def test_wrong_documents_are_refused_by_predict_as_well(rng):
    X, relevant = stream(rng)
    filter_ = NearestLabelFilter().learn(X, relevant)
    with pytest.raises(ValueError, match=r"^NearestLabelFilter\.predict: X must have 6 features"):
        filter_.predict(X[:, 1:])


def test_what_is_kept_can_be_seen_once_something_was_learnt():
    filter_ = RelevanceFilter(NaivePOLA())
    with pytest.raises(AttributeError, match="RelevanceFilter: relevant_ exists after learn"):
        _ = filter_.relevant_
    assert filter_.learn([1.0, 2.0], False).relevant_.shape == (0, 2)
    assert filter_.learn([3.0, 4.0], True).relevant_.tolist() == [[3.0, 4.0]]


def test_a_learner_that_fails_leaves_the_documents_as_they_were(rng):
    X, relevant = stream(rng)
    filter_ = RelevanceFilter(NaivePOLA()).learn(X[:40], relevant[:40])
    before = filter_.relevant_
    filter_.learner.gamma = -1
    with pytest.raises(ValueError, match="gamma must be"):
        filter_.learn(X[40:], relevant[40:])
    np.testing.assert_array_equal(filter_.relevant_, before)

    def refuse(X, pairs, y):
        if len(pairs):
            raise MemoryError

    filter_.learner.learn = refuse
    with pytest.raises(MemoryError):
        filter_.learn(X[0], True)
    np.testing.assert_array_equal(filter_.relevant_, before)


# -- documentation -------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [RelevanceFilter, NearestLabelFilter, ClassifierFilter])
def test_documented_parameters_are_the_signature(cls):
    assert [p.name for p in ClassDoc(cls)["Parameters"]] == list(inspect.signature(cls).parameters)


def test_the_example_of_the_docstring_runs():
    result = doctest.testmod(sys.modules[RelevanceFilter.__module__])
    assert result.attempted > 0
    assert result.failed == 0
