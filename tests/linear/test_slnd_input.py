"""SLND and SGD: files in batches, memory beside X, and what is refused."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from similia import SGDOneVsRest, SLNDClassifier
from similia.linear import frames
from tests.problems import labelled

LEARNERS = [SLNDClassifier, SGDOneVsRest]


@pytest.fixture
def problem(rng):
    return labelled(rng, n=120)


@pytest.mark.parametrize("learner", LEARNERS)
def test_batches_of_a_parquet_file_are_learnt_as_the_array(problem, learner, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra 'io' is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    X, y = problem
    names = [f"x{i}" for i in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    pq.write_table(pa.table({**columns, "y": y}), tmp_path / "rows.parquet", row_group_size=50)
    streamed, whole = learner(random_state=0), learner(random_state=0)
    for batch in pq.ParquetFile(tmp_path / "rows.parquet").iter_batches(batch_size=37):
        rows = np.column_stack([batch.column(name).to_numpy() for name in names])
        streamed.partial_fit(rows, batch.column("y").to_numpy(), classes=[0, 1, 2])
    whole.partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_allclose(streamed.w_, whole.w_, atol=1e-9)


@pytest.mark.parametrize("sampling", ["full", "balanced"])
@pytest.mark.parametrize("stored", [True, False])
def test_memory_beside_rows_is_projections_or_blocks(rng, sampling, stored, monkeypatch):
    """N × k floats, if they are kept, and blocks and samples: never a second X."""
    X, y, k = rng.normal(size=(20_000, 200)).astype(np.float32), np.arange(20_000) % 20, 20
    monkeypatch.setattr(frames, "MAX_STORED_BYTES", 2**31 if stored else 0)
    learner = SLNDClassifier(
        rank=k, hessian_samples=500, sampling=sampling, max_iter=1, random_state=0
    )
    learner.fit(X[:1000], y[:1000])  # compiles
    tracemalloc.start()
    learner.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    projections = len(X) * k * 4
    assert peak < 0.35 * X.nbytes + projections * stored


BAD = [
    ({"loss": "exponential"}, "loss"),
    ({"sampling": "half"}, "sampling"),
    ({"eta": 0.0}, "eta"),
    ({"eta": "large"}, "eta"),
    ({"max_iter": 0}, "max_iter"),
    ({"validation_fraction": 1.5}, "validation_fraction"),
    ({"n_iter_no_change": 0}, "n_iter_no_change"),
    ({"early_stopping": "yes"}, "early_stopping"),
]
OF_SLND = [
    ({"rank": 0}, "rank"),
    ({"rank": 1.5}, "rank"),
    ({"rank": "best"}, "rank"),
    ({"damping": -1.0}, "damping"),
    ({"hessian": "full"}, "hessian"),
    ({"hessian_samples": 0}, "hessian_samples"),
    ({"shared": 1}, "shared"),
    ({"refresh": None}, "refresh"),
    ({"schedule": "fast"}, "schedule"),
    ({"epsilon": 1.0}, "epsilon"),
]
CASES = [(learner, *bad) for learner in LEARNERS for bad in BAD] + [
    *((SLNDClassifier, *bad) for bad in OF_SLND),
]


@pytest.mark.parametrize(("learner", "options", "name"), CASES, ids=str)
def test_bad_parameters_are_refused_by_name_and_change_nothing(problem, learner, options, name):
    X, y = problem
    fitted = learner(random_state=0).fit(X, y)
    before = fitted.w_.copy()
    fitted.set_params(**options)
    for call in (fitted.fit, fitted.partial_fit):
        with pytest.raises(ValueError, match=rf"^{learner.__name__}.*: {name} must be "):
            call(X, y)
    np.testing.assert_array_equal(fitted.w_, before)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused_and_change_nothing(problem, learner, bad):
    X, y = problem
    fitted = learner(random_state=0).fit(X, y)
    before = fitted.w_.copy()
    spoilt = X.copy()
    spoilt[3, 1] = bad
    for form in (np.asarray, sparse.csr_array):
        for call in (fitted.fit, fitted.partial_fit):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                call(form(spoilt), y)
    np.testing.assert_array_equal(fitted.w_, before)


@pytest.mark.parametrize("learner", LEARNERS)
def test_labels_that_are_neither_classes_nor_zeros_and_ones_are_refused(problem, learner):
    X, y = problem
    with pytest.raises(ValueError, match="Unknown label type"):
        learner().fit(X, y + 0.5)
    with pytest.raises(ValueError, match=r"y must be zeros and ones|multiclass-multioutput"):
        learner().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        learner().partial_fit(X, y)
    with pytest.raises(ValueError, match="k must be"):
        learner(random_state=0).fit(X, y).predict_top_k(X, 0)
