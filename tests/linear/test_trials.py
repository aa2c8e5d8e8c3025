"""How `SLNDClassifier` chooses its Hessian and its damping: by trials on rows held out."""

import numpy as np
import pytest

from similia import SGDOneVsRest, SLNDClassifier
from similia.linear import passes, slnd
from similia.linear.examples import Examples, TrainingSplit
from similia.linear.passes import clearly_best, trial_split

CHOICES = [
    {"hessian": "low-rank", "damping": 60},
    {"hessian": "low-rank", "damping": 3},
    {"hessian": "low-rank", "damping": 0},
    {"hessian": "diagonal"},
]


@pytest.fixture
def problem(rng):
    y = np.arange(400) % 4
    return 2 * rng.normal(size=(4, 9))[y] + rng.normal(size=(400, 9)) * np.logspace(-1, 1, 9), y


def prefer(number, monkeypatch):
    """Let the trial of that number, in the order of the candidates, be the best one."""
    made = []

    def right(self, scaling):
        made.append(scaling)
        return np.full(20, float(len(made) - 1 == number))

    monkeypatch.setattr(slnd.Trial, "right", right)
    return made


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("more", [{}, {"refresh": True, "max_iter": 3}, {"average": True}], ids=str)
def test_the_default_is_the_form_that_trials_prefer(problem, number, more, monkeypatch):
    told = SLNDClassifier(random_state=0, **CHOICES[number - 1], **more).fit(*problem)
    made = prefer(number, monkeypatch)
    chosen = SLNDClassifier(random_state=0, **more).fit(*problem)
    assert len(made) == 5
    assert chosen.damping_ == CHOICES[number - 1].get("damping", 3)
    np.testing.assert_array_equal(chosen.coef_, told.coef_)


class DelayedSGD(SGDOneVsRest):
    """Draws one number before its first pass, as SLND does for its Hessian, so orders agree."""

    def _scale(self, passes, rng):
        if not passes.number:
            rng.integers(2**31)
        super()._scale(passes, rng)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("more", [{}, {"average": True}, {"loss": "hinge"}], ids=str)
def test_the_first_form_tried_takes_the_steps_of_sgd(problem, intercept, more, monkeypatch):
    options = {"fit_intercept": intercept, "max_iter": 3, "random_state": 0, **more}
    plain = DelayedSGD(**options).fit(*problem)
    prefer(0, monkeypatch)
    chosen = SLNDClassifier(**options).fit(*problem)
    assert chosen.damping_ == np.inf
    np.testing.assert_allclose(chosen.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(chosen.intercept_, plain.intercept_, rtol=1e-9, atol=1e-12)


def test_what_is_named_is_not_tried(problem, monkeypatch):
    for options, tried in (
        ({"damping": 3}, 0),
        ({"hessian": "diagonal"}, 0),
        ({"sampling": "balanced"}, 0),
        ({"schedule": "sqrt"}, 0),
        ({"shared": False}, 0),
        ({"hessian": "low-rank"}, 3),
        ({"rank": 4}, 3),
    ):
        made = prefer(0, monkeypatch)
        SLNDClassifier(random_state=0, **options).fit(*problem)
        assert len(made) == tried, options


def test_few_rows_are_not_tried(problem, monkeypatch):
    made = prefer(3, monkeypatch)
    X, y = problem
    assert SLNDClassifier(random_state=0).fit(X[:79], y[:79]).damping_ == 60
    assert not made
    assert SLNDClassifier(random_state=0).fit(X[:80], y[:80]).damping_ == 0


def test_trials_learn_from_some_rows_and_are_judged_by_others(problem, rng, monkeypatch):
    X, y = problem
    rows = np.arange(0, 400, 2)
    split = TrainingSplit(Examples("test", X, y, intercept=True), rows, np.arange(0))
    for most, expected in ((3000, (150, 50)), (30, (30, 30))):
        monkeypatch.setattr(passes, "TRIAL_ROWS", most)
        monkeypatch.setattr(passes, "TRIAL_JUDGED_ROWS", most)
        part = trial_split(split, rng)
        assert (len(part.rows), len(part.held_out)) == expected
        assert not np.intersect1d(part.rows, part.held_out).size
        assert np.isin(np.concatenate([part.rows, part.held_out]), rows).all()


def test_another_form_must_gain_more_than_the_standard_error_of_its_gain():
    first = np.repeat([1.0, 0.0], [60, 40])
    little, much = first.copy(), first.copy()
    little[[60, 61, 62, 0, 1]] = [1, 1, 1, 0, 0]  # three gained, two lost
    much[60:66] = 1.0
    assert clearly_best([first, little]) == 0
    assert clearly_best([first, little, much]) == 2
    assert clearly_best([first, first.copy()]) == 0
    assert clearly_best([much, first]) == 0


def test_the_default_keeps_up_where_a_damping_of_60_falls_behind(rng):
    """Few features of unequal size, many rows: long steps are needed along the small ones."""
    y = rng.integers(6, size=3000)
    X = rng.normal(size=(6, 8))[y] + 0.8 * rng.normal(size=(3000, 8))
    X = np.round(4 * X @ rng.normal(size=(8, 8)))

    def accuracy(learner):
        return learner.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])

    default = accuracy(SLNDClassifier(random_state=0))
    assert default > accuracy(SLNDClassifier(damping=60, random_state=0)) + 0.01
    assert default > accuracy(SGDOneVsRest(random_state=0)) - 0.01
