"""What every learner must satisfy, whatever it learns from. `test_common.py` runs all of these.

A check takes the class of a learner, from which `case_of` makes a fresh one and a way to feed it.
River's notion of "online" is the source: inputs are neither changed nor kept, pieces are the whole.
The laws of learning and the comparison with `tests/reference` are what kills a wrong update;
`tests/toy.py` holds mutants that prove it.
"""

import copy
import tempfile
from importlib import import_module

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from similia.registry import LEARNERS, learner_class
from tests.cases import averages, case_of, everything, obeys

# -- the laws of learning --------------------------------------------------------------------------


def reference_of(cls):
    """The transcription of the paper: same file name, same class name, in `tests/reference`."""
    module = import_module(f"tests.reference.{cls.__module__.rpartition('.')[2]}")
    names = [base.__name__ for base in cls.__mro__]  # a mutant answers to what it mutates
    return next(getattr(module, name) for name in names if hasattr(module, name))


def check_the_state_is_that_of_the_paper(cls):
    """The learner against its naive transcription, judgement by judgement, on random streams."""
    for seed in range(3):
        compare_with_the_paper(cls, reference_of(cls), seed)


def compare_with_the_paper(cls, transcription, seed):
    options = {"seed": seed, "average": True, **getattr(transcription, "parameters", {})}
    case = case_of(cls, **options)
    by_labels = case.learner.learns_from == "labels"
    case.learn(0, case.length if by_labels else 0)
    naive = transcription(case.fresh(), case.X)
    if by_labels:  # a classifier knows its classes only once it has learnt
        case = case_of(cls, **options)
    averaged = case.learner._averaged
    states = [getattr(naive, averaged)]
    for judgement in judgements(case, getattr(naive, "points", case.X)):
        naive.learn(*judgement)
        states.append(getattr(naive, averaged))
    for start in range(0, case.length, 25):
        case.learn(start, start + 25)
    if hasattr(naive, "pairwise_score"):
        if averages(case.learner):
            case.learner.average = False
        seen = np.unique(case.stream[0])  # a growing basis knows only the points that it has seen
        ours, theirs = case.output(X=case.X[seen]), naive.pairwise_score()[np.ix_(seen, seen)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
        return
    state = case.learner.get_state()
    for name in (name for name in vars(naive) if name.endswith("_")):
        ours, theirs = state[name], getattr(naive, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(getattr(case.learner, averaged), states[-1], rtol=1e-8, atol=1e-9)
    mean = np.mean(states, axis=0)
    np.testing.assert_allclose(case.learner._scoring_state(), mean, rtol=1e-8, atol=1e-9)


def judgements(case, points):
    """Each judgement as a paper has it: (q, p), (v, y) or (x, label)."""
    for rows, *feedback in zip(*case.stream, strict=True):
        if case.learner.learns_from == "triplets":
            query, better, worse = points[rows]
            yield query, better - worse
        elif case.learner.learns_from == "pairs":
            yield points[rows[0]] - points[rows[1]], *feedback
        else:
            yield points[rows], *feedback


def check_learning_beats_the_start(cls):
    """Judgements that agree with each other are followed: more of them are right than before."""
    case = case_of(cls, separable=True, n=600, average=False)
    if case.learner.learns_from == "labels":
        before = 1 / 3  # chance
        case.learn()
        after = case.learner.score(case.X, case.y)
    else:
        case.learn(0, 0)
        before = case.learner.score(case.X, *case.stream)
        case.learn()
        after = case.learner.score(case.X, *case.stream)
    assert after > before


def check_a_judgement_is_followed(cls):
    """Learning one judgement never makes the learner disagree more with it.

    A learner that obeys decides for the judgement, by a margin that need not grow.
    """
    case = case_of(cls, n=60, average=False)
    case.learn(0, 1)
    if "basis_" in case.learner.get_state():  # a growing basis must have seen the points
        case.learn(1)
    for t in range(1, case.length):
        if np.unique(case.stream[0][t]).size < np.size(case.stream[0][t]):
            continue  # an item against itself
        updates, before = case.learner.n_updates_, case.agreement(t)
        case.learn(t, t + 1)
        after = case.agreement(t)
        if obeys(case.learner):
            assert after > 0, t
            continue
        assert after >= before - 1e-9 * max(1.0, abs(before)), t
        if case.learner.n_updates_ > updates and case.learner.learns_from == "triplets":
            assert after > before, t


def check_a_metric_stays_positive_semidefinite(cls):
    if case_of(cls).learner.learns_from != "pairs":
        return
    case = case_of(cls, average=False)
    for t in range(0, case.length, 10):
        case.learn(t, t + 10)
        values = np.linalg.eigvalsh(case.learner.A_)
        assert values[0] >= -1e-10 * values[-1], t


# -- what online means -----------------------------------------------------------------------------


def states_equal(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def check_pieces_equal_the_whole(cls):
    whole, pieces = case_of(cls), case_of(cls)
    whole.learn()
    for start, stop in ((0, 1), (1, 50), (50, 50), (50, 150)):
        pieces.learn(start, stop)
    a, b = whole.learner.get_state(), pieces.learner.get_state()
    for key in a:
        if key == "n_iter_":  # passes made: pieces are passes of their own
            continue
        if isinstance(a[key], list):
            assert b[key] == a[key], key
            continue
        np.testing.assert_allclose(np.asarray(b[key]), np.asarray(a[key]), rtol=1e-9, atol=1e-9)


def in_two_halves(X):
    """A CSR array that stores every entry twice, half of it each time, in no order."""
    rows, columns = X.shape
    data = np.repeat(X[:, ::-1] / 2, 2, axis=1).ravel()
    indices = np.tile(np.repeat(np.arange(columns)[::-1], 2), rows)
    return sparse.csr_array((data, indices, np.arange(rows + 1) * 2 * columns), shape=X.shape)


def check_sparse_equals_dense(cls):
    dense = case_of(cls)
    dense.learn()
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, in_two_halves):
        case = case_of(cls, form=form)
        case.learn()
        np.testing.assert_allclose(case.output(), dense.output(), rtol=1e-8, atol=1e-8)


def check_the_order_in_memory_does_not_matter(cls):
    plain, turned = case_of(cls), case_of(cls, form=np.asfortranarray)
    plain.learn()
    turned.learn()
    np.testing.assert_allclose(turned.output(), plain.output(), rtol=1e-9, atol=1e-9)
    if hasattr(plain.learner, "sample_posterior"):
        stds = [case.learner.pairwise_score(case.X, return_std=True)[1] for case in (plain, turned)]
        np.testing.assert_allclose(*stds, rtol=1e-9, atol=1e-9)


def check_names_of_columns_are_kept_and_checked(cls):
    case = case_of(cls, form=lambda X: pd.DataFrame(X, columns=list("abcdef")))
    if case.learner.learns_from != "labels":
        case.learn(0, 50)
        case.learn(50, 150)
    else:
        case.learner.fit(case.X, case.y)
    assert list(case.learner.feature_names_in_) == list("abcdef")
    case.output()
    with pytest.raises(ValueError, match="feature names"):
        case.output(X=case.X.rename(columns={"a": "z"}))


def check_float32_stays_float32(cls):
    wide, narrow = case_of(cls), case_of(cls, dtype=np.float32)
    wide.learn()
    narrow.learn()
    assert wide.output().dtype == np.float64
    assert narrow.output().dtype == np.float32
    np.testing.assert_allclose(narrow.output(), wide.output(), rtol=0.02, atol=0.02)


def check_inputs_are_neither_changed_nor_kept(cls):
    case = case_of(cls)
    X, stream = case.X.copy(), tuple(c.copy() for c in case.stream)
    case.learn()
    np.testing.assert_array_equal(case.X, X)
    for column, before in zip(case.stream, stream, strict=True):
        np.testing.assert_array_equal(column, before)
    expected = case.output(X=X)
    case.X[:] = 0.0
    for column in case.stream:
        column[:] = 0
    np.testing.assert_array_equal(case.output(X=X), expected)


def check_fit_forgets_and_partial_fit_does_not(cls):
    case = case_of(cls)
    first = copy.deepcopy(case.learner.fit(case.X, case.y).get_state())
    states_equal(case.learner.fit(case.X, case.y).get_state(), first)
    case.learner.partial_fit(case.X, case.y)
    assert case.learner.n_seen_ > first["n_seen_"]


def check_average_is_the_mean_of_the_states(cls):
    if not averages(cls()):
        return
    case = case_of(cls, n=60, average=True)
    attribute = case.learner._averaged
    case.learn(0, 0)
    states = (
        [getattr(case.learner, attribute).copy()] if case.learner.__sklearn_is_fitted__() else []
    )
    for t in range(case.length):
        case.learn(t, t + 1)
        states.append(getattr(case.learner, attribute).copy())
    if len(states) == case.length:  # a classifier starts with its first example, from zero
        states.insert(0, np.zeros_like(states[0]))
    mean = case.learner._scoring_state()
    if mean.ndim == 2:  # a learner in a growing basis: later directions were at their start before
        start = getattr(case.learner, "start_", 0.0)
        states = [padded(state, len(mean), start) for state in states]
    np.testing.assert_allclose(mean, np.mean(states, axis=0), rtol=1e-9, atol=1e-9)


def padded(state, rows, diagonal):
    whole = np.zeros((rows, state.shape[1] + rows - len(state)))
    np.fill_diagonal(whole, diagonal)
    whole[: state.shape[0], : state.shape[1]] = state
    return whole


def check_average_does_not_change_the_last_state(cls):
    if not averages(cls()):
        return
    cases = [case_of(cls, average=average) for average in (True, False)]
    for case in cases:
        case.learn()
    attribute = cases[0].learner._averaged
    np.testing.assert_allclose(
        *(getattr(case.learner, attribute) for case in cases), rtol=1e-12, atol=1e-12
    )


def check_a_failed_call_leaves_the_state_as_it_was(cls):
    case = case_of(cls)
    case.learn(0, 100)
    before = copy.deepcopy(everything(case.learner))
    bad = case.X.copy()
    bad[:] = np.nan
    wrong = [
        bad,
        np.full_like(case.X, np.inf),
        np.full_like(case.X, 1e200),
        case.X[:, :-1],
    ]
    for X in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own, tested elsewhere
            case.learn(100, 150, X=X)
        states_equal(everything(case.learner), before)


def check_a_failed_first_call_leaves_an_unfitted_learner(cls):
    case = case_of(cls)
    before = dict(vars(case.learner))
    with pytest.raises(ValueError, match=r"finite|NaN"):
        case.learn(X=np.full_like(case.X, np.nan))
    assert not case.learner.__sklearn_is_fitted__()
    assert vars(case.learner).keys() == before.keys()


def check_a_failed_fit_leaves_the_learner_as_it_was(cls):
    case = case_of(cls)
    case.learn(0, 100)
    before = copy.deepcopy(everything(case.learner))
    with pytest.raises(ValueError):  # noqa: PT011 - some speak of classes, some of triplets
        case.learner.fit(case.X[:, :-1], np.zeros(len(case.y)))
    states_equal(everything(case.learner), before)


def check_merging_one_part_gives_that_part(cls):
    if not cls.merges:
        return
    case = case_of(cls)
    case.learn(0, 50)
    part = case.fresh()
    case.learn(50, 150, learner=part)
    merged = case.learner.merge([part])
    for key, value in part.get_state().items():
        ours = merged.get_state()[key]
        if np.asarray(value).dtype.kind == "U":  # names
            assert ours == value
        elif key not in ("n_iter_", "moment_"):
            np.testing.assert_allclose(np.asarray(ours), np.asarray(value), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(merged._scoring_state(), part._scoring_state(), rtol=1e-6, atol=1e-8)


def check_merging_is_symmetric_and_leaves_its_parts_alone(cls):
    if not cls.merges:
        return
    case = case_of(cls)
    case.learn(0, 50)
    case.learner._steps_to_merge = int  # none
    one, two = case.fresh(), case.fresh()
    case.learn(50, 100, learner=one)
    case.learn(100, 150, learner=two)
    before = copy.deepcopy([one.get_state(), two.get_state(), case.learner.get_state()])
    forth, back = case.learner.merge([one, two]), case.learner.merge([two, one])
    assert forth.n_seen_ == 150
    np.testing.assert_allclose(case.output(forth), case.output(back), rtol=1e-7, atol=1e-8)
    for learner, state in zip((one, two, case.learner), before, strict=True):
        states_equal(learner.get_state(), state)


def check_merging_strangers_is_refused(cls):
    case = case_of(cls)
    case.learn()
    if not cls.merges:
        with pytest.raises(ValueError, match=rf"^{cls.__name__}\.merge: .* cannot be merged"):
            case.learner.merge([case.fresh()])
        return
    name = cls.__name__
    other = case_of(learner_class(next(n for n in LEARNERS if n != name)))
    other.learn()
    for parts in ([], [other.learner]):
        with pytest.raises(ValueError, match=rf"^{name}\.merge: parts must (be|not be empty)"):
            case.learner.merge(parts)


def check_repeated_points_and_zero_vectors_are_harmless(cls):
    case = case_of(cls)
    X = np.zeros_like(case.X)
    X[: len(X) // 2] = case.X[0]
    case.learn(X=X)
    assert np.isfinite(case.output()).all()


def check_maps_of_a_file_are_gone_on_from(cls):
    """joblib gives its workers large arrays as read-only maps of a file."""
    case = case_of(cls)
    case.learn(0, 100)
    with tempfile.TemporaryDirectory() as folder:
        joblib.dump(case.learner, f"{folder}/learner")
        mapped = joblib.load(f"{folder}/learner", mmap_mode="r")
    case.learn(100, learner=mapped)
    case.learn(100)
    np.testing.assert_array_equal(case.output(mapped), case.output())


def check_state_survives_a_copy_through_get_and_set(cls):
    case = case_of(cls)
    case.learn(0, 100)
    twin = case_of(cls)
    twin.learner.set_state(copy.deepcopy(case.learner.get_state()))
    case.learn(100, 150)
    twin.learn(100, 150)
    states_equal(twin.learner.get_state(), case.learner.get_state())


CHECKS = [value for key, value in sorted(globals().items()) if key.startswith("check_")]
