"""What a test of a paper's formula is worth: it fails if the transcription says something else.

A mutant is a changed line of `tests/reference`, which the compiled code is compared with. Changing
the transcription instead of the code shows the same: the two are told apart.
"""

import inspect

import numpy as np
import pytest

from similia.losses import LOSSES
from tests.linear import test_slnd as of_fits
from tests.neighbors import test_gerrymandering as of_maps
from tests.reference import aroma, definite_boost, gerrymandering, meg, pola, slnd
from tests.updates import test_aroma as of_aroma
from tests.updates import test_definite_boost as of_boost
from tests.updates import test_gerrymandering as of_sets
from tests.updates import test_meg as of_meg
from tests.updates import test_pola as of_pola
from tests.updates import test_slnd as of_slnd

FACTORED = of_aroma.test_factored_blocks_equal_the_paper_one_triplet_at_a_time
DIAGONAL = of_aroma.test_diagonal_blocks_equal_the_paper
POLA = of_pola.test_blocks_equal_the_paper_one_pair_at_a_time
MEG = of_meg.test_blocks_equal_the_paper_one_instance_at_a_time
SLND = of_slnd.test_blocks_equal_the_printed_update_sample_by_sample
THEOREM_2 = of_slnd.test_theorem_2_step_is_the_printed_one_and_the_risk_falls_as_promised
SETS = of_sets.test_inference_is_that_over_all_sets
BOUND = of_boost.test_the_step_minimises_the_bound_of_appendix_e


def boost():
    of_boost.test_a_pass_equals_the_paper_one_step_at_a_time("pairs")


def fit():
    rng = np.random.default_rng(0)
    problem = rng.normal(size=(60, 6)), np.arange(60) % 3
    of_fits.test_fit_is_the_printed_update_over_random_orders(
        problem, "logistic", True, pytest.MonkeyPatch()
    )


def maps():
    args = ("joint", True, np.asarray, np.random.default_rng(0))
    of_maps.test_steps_are_those_of_the_transcription(*args)


MUTANTS = [
    # function, line, what it says instead, test that must fail
    (aroma.factored_step, "(1.0 - s) / (r + a * b)", "(1.0 - s) / (r + a + b)", FACTORED),
    (aroma.factored_step, "b / (n * r + a * b)", "b / (m * r + a * b)", FACTORED),
    (aroma.factored_step, "a / (m * r + a * b)", "a / (m * r)", FACTORED),
    (aroma.factored_step, "np.outer(Lambda @ q, p @ Omega)", "np.outer(q, p)", FACTORED),
    (aroma.diagonal_step, "np.sum(x * Sigma * x)", "np.sum(x * x)", DIAGONAL),
    (aroma.diagonal_step, "(x * Sigma) / (v + r)", "(x * Sigma) / r", DIAGONAL),
    (aroma.diagonal_analysed_step, "x**2 / r", "x**2 * r", DIAGONAL),
    (pola.pola_step, "(v @ v) ** 2 + 1.0 + gamma", "(v @ v) + 1.0 + gamma", POLA),
    (pola.pola_step, "b + y * alpha", "b - y * alpha", POLA),
    (pola.pola_step, "max(b, 1.0)", "max(b, 0.0)", POLA),
    (pola.pola_step, "if y == 1:", "if y == -1:", POLA),
    (pola.pola_loss, "- b) + 1.0", "- b) + 0.5", POLA),
    (meg.meg_step, "2 * eta * error", "eta * error", MEG),
    (meg.meg_step, ".real - y", ".real + y", MEG),
    (meg.matrix, "weights /= weights.sum()", "weights /= weights.max()", MEG),
    (definite_boost.bound_of_appendix_e, "(r - lam_min)", "(r + lam_min)", BOUND),
    (
        definite_boost.approximate_step,
        "(1 - r / lam_min) / (1 - r / lam_max)",
        "(1 + r / lam_max) / (1 + r / lam_min)",  # (4.6) as printed
        boost,
    ),
    (definite_boost.log_rho, "np.log1p(-r / lam_max)", "np.log1p(r / lam_max)", boost),
    (slnd.hessian, "/ len(X)", "", fit),
    (slnd.low_rank_inverse, "[:, ::-1][:, :k]", "[:, :k]", SLND),
    (slnd.slnd_step, "eta * y *", "eta *", SLND),
    (slnd.slnd_step, "inverse @ x", "x", SLND),
    (slnd.theorem_step, "(1 - epsilon)", "epsilon", THEOREM_2),
    (slnd.theorem_step, "y * y[i] * pi", "y * pi", THEOREM_2),  # (13) as printed
    (gerrymandering.similarity, "V @ Z[i]", "U @ Z[i]", SETS),
    (gerrymandering.loss_of_set, "winners].min() if ties", "winners].max() if ties", SETS),
    (gerrymandering.best_sets, "value + Delta > rival[0]", "value > rival[0]", SETS),
    (gerrymandering.best_sets, "if i != own", "", SETS),
    (gerrymandering.loss_and_gradients, "G_V -= 2", "G_V += 2", maps),
    (
        gerrymandering.regularizer,
        "S = U @ U.T + V @ V.T",
        "S = U @ U.T / 2 + V @ V.T",
        maps,
    ),  # (11)
    (gerrymandering.descent_step, "R_U / (C * n)", "R_U / n", maps),
]
#: how a test fails: what overflows in a mutant is a warning, and so an error
FAILURES = (AssertionError, ExceptionGroup, RuntimeWarning)
IDS = [
    f"{one.__module__.split('.')[-1]}, {new or 'without ' + old}" for one, old, new, _ in MUTANTS
]


@pytest.fixture
def changed():
    """Change a line of a function in place, wherever it was imported, until the test ends."""
    known = {}

    def change(function, old, new):
        source = inspect.getsource(function)
        assert source.count(old) >= 1
        names = dict(function.__globals__)
        exec(source.replace(old, new), names)
        known[function] = function.__code__
        function.__code__ = names[function.__name__].__code__

    yield change
    for function, code in known.items():
        function.__code__ = code


@pytest.mark.parametrize(("function", "old", "new", "check"), MUTANTS, ids=IDS)
def test_a_mutant_of_a_paper_dies(function, old, new, check, changed):
    changed(function, old, new)
    with pytest.raises(FAILURES):
        run(check)


def run(check, most=300):
    """Run a test; of one that draws its examples, so many that are not made smaller."""
    drawn = getattr(check, "hypothesis", None)
    if drawn is None:
        check()
        return
    rng = np.random.default_rng(0)
    for _ in range(most):
        drawn.fuzz_one_input(rng.bytes(4096))


def test_what_is_not_changed_lives():
    for check in {check for *_, check in MUTANTS}:
        run(check, 10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_mutant_of_a_slope_dies(loss, sign, monkeypatch):
    """Twice the slope, or its negation."""
    slope = slnd.SLOPES[loss]
    monkeypatch.setitem(slnd.SLOPES, loss, lambda x: 2 * sign * slope(x))
    with pytest.raises(FAILURES):
        run(SLND)


def test_every_paper_has_at_least_five():
    modules = [function.__module__.split(".")[-1] for function, *_ in MUTANTS]
    modules = ["meg" if name == "definite_boost" else name for name in modules]
    assert min(modules.count(name) for name in set(modules)) >= 5
    assert set(modules) == {"aroma", "pola", "meg", "slnd", "gerrymandering"}
