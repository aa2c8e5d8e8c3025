import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import similia
from similia.persistence import describe, load, reading, save, saving
from similia.registry import ALL_LEARNERS, LEARNERS
from tests.fixtures.make import EXPECTED, FOLDER, data, fitted, scores

AVERAGING = [name for name in LEARNERS if "average" in getattr(similia, name)().get_params()]
MERGING = [name for name in LEARNERS if getattr(similia, name).merges]
WITH_PRIOR = [name for name in LEARNERS if "prior_scale" in getattr(similia, name)().get_params()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(learner, other):
    assert type(other) is type(learner)
    for values, others in (
        (learner.get_state(), other.get_state()),
        (learner.get_params(), other.get_params()),
    ):
        assert set(values) == set(others)
        for name, value in values.items():
            assert_identical(value, others[name], name)


def assert_identical(value, other, name):
    assert type(other) is type(value), name
    if isinstance(value, np.ndarray):
        assert (other.dtype, other.shape) == (value.dtype, value.shape), name
        assert other.tolist() == value.tolist(), name
        assert value.dtype.kind == "O" or other.tobytes() == value.tobytes(), name
    elif isinstance(value, tuple):
        assert len(other) == len(value), name
        for one, another in zip(value, other, strict=True):
            assert_identical(one, another, name)
    else:
        assert other == value, name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_loaded_learner_is_the_saved_one_and_goes_on_as_it_would(name, dtype, path):
    learner = fitted(name, dtype)
    save(learner, path)
    loaded = load(path)
    assert_same(learner, loaded)
    X, y = data(dtype)
    assert scores(loaded, X).tobytes() == scores(learner, X).tobytes()
    assert_same(learner.partial_fit(X, y), loaded.partial_fit(X, y))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("name", AVERAGING)
def test_average_or_last_state_is_kept(name, average, path):
    learner = fitted(name, average=average)
    save(learner, path)
    assert_same(learner, load(path))


@pytest.mark.parametrize("name", MERGING)
def test_merged_learner_is_saved(name, path):
    start = fitted(name)
    parts = [part.partial_fit(*data()) for part in start.split(2)]
    start._steps_to_merge = int  # none
    merged = start.merge(parts)
    save(merged, path)
    loaded = load(path)
    assert_same(merged, loaded)
    assert_same(merged.partial_fit(*data()), loaded.partial_fit(*data()))


@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_feature_names_are_kept(name, path):
    learner = fitted(name)
    learner.feature_names_in_ = np.array(["a", 'b"', "ä\n", "\ud800"], dtype=object)
    save(learner, path)
    assert_same(learner, load(path))


@pytest.mark.parametrize("name", WITH_PRIOR)
def test_array_prior_and_rectangular_matrices_are_kept(name, path):
    rng = np.random.default_rng(0)
    prior = rng.normal(size=(3, 5)).astype(np.float32)
    prior[0, 0] = -0.0
    learner = getattr(similia, name)(prior=prior, prior_scale=np.float32(0.1))
    learner.learn(rng.normal(size=(6, 3)), [[0, 1, 2], [3, 4, 5]], items=rng.normal(size=(6, 5)))
    save(learner, path)
    loaded = load(path)
    assert_same(learner, loaded)
    assert np.signbit(loaded.prior[0, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_blend_of_views_nuisances_and_decisions_is_kept(dtype, path):
    rng = np.random.default_rng(1)
    queries = similia.Views(meaning=rng.normal(size=(9, 4)).astype(dtype))
    items = similia.Views(
        meaning=rng.normal(size=(12, 4)).astype(dtype),
        place=rng.normal(size=(12, 7)).astype(dtype),
        price=rng.uniform(size=12).astype(dtype),
    )
    lists = similia.Impressions.from_rows(
        np.repeat(np.arange(9), 3),
        rng.integers(12, size=27),
        np.tile([0, 2, 1], 9),
        position=np.tile([1, 2, 3], 9),
        trusted=True,
    )
    blend = similia.Blend(memory=7).learn(queries, lists, items=items)
    save(blend, path)
    loaded = load(path)
    assert_same(blend, loaded)
    for one in (blend, loaded):
        one.learn(queries, lists, items=items)
    assert_same(blend, loaded)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-1, 3, 7], dtype=np.int8),
        np.array([1.0, 2.0, 8.0]),
        np.array(["a", "b", "cc"], dtype="U9"),
        np.array(["a", "b", "cc"], dtype=object),
        np.array([False, True, True]),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_labels_of_any_kind_are_kept(classes, path):
    y = classes[data()[1]]
    learner = fitted("AROW", y=y)
    save(learner, path)
    loaded = load(path)
    assert_same(learner, loaded)
    assert loaded.predict(data()[0]).tolist() == learner.predict(data()[0]).tolist()


def test_many_classes_without_intercept_are_kept(path):
    X, _ = data()
    learner = fitted("AROW", y=np.arange(30) % 9, fit_intercept=False, covariance="diagonal")
    save(learner, path)
    assert scores(load(path), X).tolist() == scores(learner, X).tolist()


#: whole numbers that a file may hold
WHOLE = st.integers(-(2**63), 2**64 - 1)


@given(
    st.one_of(
        st.none(), st.booleans(), WHOLE, st.text(), st.floats(allow_nan=False, width=64)
    ).filter(lambda v: v not in (np.inf, -np.inf))
)
def test_plain_values_survive_json_exactly(value):
    encoded = json.loads(json.dumps(saving.encode("value", value, {})))
    decoded = reading.decode(encoded, {})
    assert type(decoded) is type(value)
    assert repr(decoded) == repr(value)


@pytest.mark.parametrize("name", [*saving.REALS, *saving.COMPLEX_PARTS])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_of_every_dtype_are_stored_exactly(name, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(name)
    for given_array in (
        array,
        np.array(array, order="F"),
        array.astype(array.dtype.newbyteorder()),
    ):
        tensor, _ = saving.stored(given_array)
        assert tensor.flags.c_contiguous
        assert tensor.dtype.name in saving.REALS
        assert_identical(array, reading.restored(tensor, name, list(shape)), name)


# -- what is kept for ever ---------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(json.loads(EXPECTED.read_text())))
def test_files_of_earlier_versions_open_and_score_as_they_did(file):
    learner = load(FOLDER / file)
    dtype = file.split("-")[1].split(".")[0]
    known = np.array(json.loads(EXPECTED.read_text())[file])
    found = scores(learner, data(dtype)[0][:5])
    assert found.dtype == dtype
    # The distance of a point to itself is zero up to the rounding of its length.
    rtol, atol = (1e-4, 1e-6) if dtype == "float32" else (1e-10, 1e-14)
    np.testing.assert_allclose(found, known, rtol=rtol, atol=atol * np.abs(known).max())
    learner.partial_fit(*data(dtype))


@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_every_learner_has_a_kept_file(name):
    assert (FOLDER / f"{name}-float64.safetensors").exists(), "run python -m tests.fixtures.make"


def test_description_reads_the_header_only(path):
    save(fitted("FactoredAROMA", prior=np.eye(4), r=np.float32(0.5)), path)
    path.write_bytes(path.read_bytes()[:-100])
    info = describe(path)
    assert info.class_name == "FactoredAROMA"
    assert info.parameters["prior"] == "4 x 4 float64"
    assert info.attributes["n_seen_"] == 200
    assert info.tensors["Lambda_"] == "4 x 4 float64"
    assert info.versions["similia"] == similia.__version__
    assert json.loads(json.dumps(info.to_dict()))["parameters"]["r"] == 0.5
