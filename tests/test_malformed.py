"""Sparse matrices that name places outside of themselves never reach compiled code."""

import numpy as np
import pytest
from scipy import sparse

from similia import JudgedTransformer, JudgementEstimator, Views, scaled_like
from similia.adapters import Adapters
from similia.constraints.definite_boost import DefiniteBoost
from similia.constraints.pairs import DistanceConstraints
from similia.constraints.sets import MatrixConstraints
from similia.distance.meg import MEG
from similia.distance.pola import POLA
from similia.feedback.grades import RelevanceTriplets
from similia.files import read_vectors, write_vectors
from similia.filtering import RelevanceFilter
from similia.index import build_index
from similia.linear.sgd import SGDOneVsRest
from similia.neighbors.gerrymandering import NeighborhoodGerrymandering
from similia.registry import LEARNERS, learner_class
from similia.retrieval import evaluate, top_k
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.safety.bounds import check_entries
from similia.trust.agreement import triplet_margins
from similia.trust.exam import exam_of_grades, exam_of_triplets
from tests.cases import case_of

REFUSED = "with all entries inside its shape"


def changed(name, value):
    """A way to replace one array of a matrix by value(array)."""

    def change(X):
        setattr(X, name, value(getattr(X, name)))

    return change


def first(value):
    return lambda a: np.concatenate([[value], a[1:]]).astype(a.dtype)


def last(value):
    return lambda a: np.concatenate([a[:-1], [value]]).astype(a.dtype)


DAMAGES = {
    "indices far outside": changed("indices", lambda a: a + 10_000_000),
    "one index too large": changed("indices", first(30)),
    "a negative index": changed("indices", first(-1)),
    "indices of floats": changed("indices", lambda a: a.astype(float)),
    "too few indices": changed("indices", lambda a: a[:3]),
    "too few entries": changed("data", lambda a: a[:3]),
    "a huge indptr": changed("indptr", last(2**30)),
    "a negative indptr": changed("indptr", last(-5)),
    "an indptr that falls": changed("indptr", lambda a: a[::-1]),
    "an indptr that starts late": changed("indptr", first(2)),
    "a short indptr": changed("indptr", lambda a: a[:2]),
    "a long indptr": changed("indptr", lambda a: np.append(a, a[-1]).astype(a.dtype)),
}


def malformed(X, damage):
    wrong = sparse.csr_array(X, copy=True)
    DAMAGES[damage](wrong)
    return wrong


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, 6))


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_refuse_it_in_every_call_and_stay_as_they_were(name):
    case = case_of(learner_class(name))
    wrongs = [malformed(case.X, damage) for damage in DAMAGES]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"^{name}: X must be a sparse matrix {REFUSED}"):
            case.learner.fit(wrong, case.y)
    assert not case.learner.__sklearn_is_fitted__()
    learner, stream = case.learn(), case.stream
    before = {name: np.copy(value) for name, value in learner.get_state().items()}
    calls = [lambda wrong: case.output(X=wrong), lambda wrong: learner.partial_fit(wrong, case.y)]
    if learner.learns_from != "labels":
        calls.append(lambda wrong: learner.learn(wrong, *stream))
        calls.append(lambda wrong: learner.pairwise_score(case.X, wrong))
        calls.append(learner.query_vectors)
        calls.append(learner.item_vectors)
    if learner.learns_from == "triplets":
        calls.append(lambda wrong: learner.learn(case.X, *stream, items=wrong))
        calls.append(lambda wrong: learner.triplet_scores(wrong, *stream))
    for call in calls:
        for wrong in wrongs:
            with pytest.raises(ValueError, match=REFUSED):
                call(wrong)
    for attribute, value in learner.get_state().items():
        np.testing.assert_array_equal(value, before[attribute])


SIGNS = np.arange(30) % 2
CALLS = {
    "evaluate": lambda X, wrong: evaluate("cosine", wrong, labels=SIGNS),
    "top_k": lambda X, wrong: top_k("inner_product", X, wrong, 3),
    "an index": lambda X, wrong: build_index(wrong),
    "a search": lambda X, wrong: build_index(sparse.csr_array(X)).search(wrong, 3),
    "a filter": lambda X, wrong: RelevanceFilter(POLA()).learn(wrong, SIGNS),
    "grades": lambda X, wrong: evaluate("inner_product", X, X[:6], relevance=wrong),
    "sampling": lambda X, wrong: RelevanceTriplets(wrong),
    "adapters": lambda X, wrong: Adapters().learn("me", wrong, [[0, 1, 2]]),
    "distances": lambda X, wrong: DistanceConstraints([[0, 1]], [1.0], X=wrong),
    "matrices": lambda X, wrong: MatrixConstraints([wrong], [1.0]),
    "instances": lambda X, wrong: MEG().learn_matrices(wrong, np.ones(30)),
    "matrix instances": lambda X, wrong: MEG().learn_matrices([wrong], [1.0]),
    "labels": lambda X, wrong: SGDOneVsRest().fit(X, wrong),
    "neighbors": lambda X, wrong: NeighborhoodGerrymandering().fit(wrong, SIGNS),
    "items of neighbors": lambda X, wrong: NeighborhoodGerrymandering().fit(
        X, SIGNS, items=wrong, item_labels=SIGNS
    ),
    "views": lambda X, wrong: Views(a=X, b=wrong),
    "a scale": lambda X, wrong: scaled_like(PLAIN_SCORERS["cosine"], "euclidean", wrong),
    "items of a scale": lambda X, wrong: scaled_like(PLAIN_SCORERS["cosine"], "cosine", X, wrong),
    "margins": lambda X, wrong: triplet_margins("cosine", wrong, [[0, 1, 2]]),
    "items of margins": lambda X, wrong: triplet_margins("cosine", X, [[0, 1, 2]], items=wrong),
    "an exam": lambda X, wrong: exam_of_triplets(wrong, [[0, 1, 2]], None, None),
    "judgements": lambda X, wrong: JudgementEstimator(POLA(), wrong).fit([[0, 1]], [1]),
    "a judged step": lambda X, wrong: JudgedTransformer(POLA()).fit(
        wrong, judgements=[[0, 1]], feedback=[1]
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_functions_refuse_it(call, X):
    for damage in DAMAGES:
        wrong = malformed(abs(X), damage)
        with pytest.raises(ValueError, match=REFUSED):
            CALLS[call](X, wrong)


@pytest.mark.parametrize("form", [sparse.csc_array, sparse.bsr_array])
def test_views_refuse_it_before_they_convert_it(form, X):
    wrong = form(X)
    wrong.indices = wrong.indices + 10_000_000
    with pytest.raises(ValueError, match=f"^Views: b must be a sparse matrix {REFUSED}"):
        Views(a=X, b=wrong)


def test_views_that_were_changed_are_refused(X):
    views = Views(a=X, b=sparse.csr_array(X))
    views["b"].indices = views["b"].indices + 10_000_000
    with pytest.raises(ValueError, match=REFUSED):
        triplet_margins("cosine", views, [[0, 1, 2]])


def test_grades_of_a_challenge_are_refused(X):
    wrong = malformed(abs(X[:6]), "indices far outside")
    with pytest.raises(ValueError, match=REFUSED):
        exam_of_grades(X[:6], X[:6], wrong, "ndcg@10", None, exclude_self=False)


def test_a_map_of_constraints_refuses_it(X):
    boost = DefiniteBoost().fit(DistanceConstraints([[0, 1]], [10.0], X=X))
    with pytest.raises(ValueError, match=REFUSED):
        boost.transform(malformed(X, "indices far outside"))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.bsr_array])
@pytest.mark.parametrize("damage", DAMAGES)
def test_files_refuse_it(form, damage, X, tmp_path):
    wrong = form(X, copy=True)
    DAMAGES[damage](wrong)
    with pytest.raises(ValueError, match=REFUSED):
        write_vectors(tmp_path / "wrong.npz", wrong)
    path = tmp_path / "vectors.npz"
    shape, kind = np.array(X.shape), np.array(form.__name__[:3].encode())
    arrays = {"data": wrong.data, "indices": wrong.indices, "indptr": wrong.indptr}
    np.savez(path, shape=shape, format=kind, **arrays)
    if damage == "indices of floats":  # scipy reads them as integers
        assert read_vectors(path).X.shape == X.shape
        return
    with pytest.raises(ValueError, match=f"^{path}: vectors "):
        read_vectors(path)


def coordinates(X):
    X.coords[1][0] = 10_000


def longer_row(X):
    X.rows[0].append(3)


def far_column(X):
    X.rows[0][0] = 2**40


def fewer_offsets(X):
    X.offsets = X.offsets[:1]


@pytest.mark.parametrize(
    ("form", "damage"),
    [
        (sparse.coo_array, coordinates),
        (sparse.coo_array, changed("data", lambda a: a[:2])),
        (sparse.lil_array, longer_row),
        (sparse.lil_array, far_column),
        (sparse.dia_array, fewer_offsets),
    ],
)
def test_other_forms_are_checked_before_they_are_converted(form, damage, X):
    wrong = form(X)
    check_entries("here", "X", wrong)
    damage(wrong)
    with pytest.raises(ValueError, match=f"^here: X must be a sparse matrix {REFUSED}"):
        check_entries("here", "X", wrong)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(30, 6), (1, 6), (0, 6), (30, 0)])
def test_every_sound_form_passes_and_is_left_alone(form, shape, rng):
    X = sparse.coo_array(rng.random(shape) * (rng.random(shape) < 0.3)).asformat(form)
    copy = X.copy()
    check_entries("here", "X", X)
    assert (copy != X).nnz == 0
    for wide in ("csr", "csc"):
        Z = X.asformat(wide)
        Z.indices, Z.indptr = Z.indices.astype(np.int64), Z.indptr.astype(np.int64)
        check_entries("here", "X", Z)
        assert Z.indices.dtype == np.int64
