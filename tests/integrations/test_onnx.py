import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import similia

pytest.importorskip("onnx", reason="needs onnx: make integrations")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: make integrations")

import onnxruntime

from similia.integrations.onnx import export_queries, query_matrix_of


def learners(rng):
    X, triplets = rng.normal(size=(40, 6)), rng.integers(40, size=(60, 3))
    pairs = triplets[:, :2], rng.choice([-1.0, 1.0], size=60)
    yield similia.FactoredAROMA().learn(X, triplets)
    yield similia.FactoredAROMA().learn(X.astype(np.float32), triplets)
    yield similia.OASIS(prior="zero").learn(X, triplets, items=rng.normal(size=(40, 3)))
    yield similia.POLA(n_components=2).learn(X, *pairs)


def test_onnxruntime_maps_queries_as_the_learner_does(rng, tmp_path):
    for learner in learners(rng):
        export_queries(learner, tmp_path / "q.onnx")
        dtype = learner.query_matrix().dtype
        for n in (1, 9):
            Q = rng.normal(size=(n, 6)).astype(dtype)
            session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
            (found,) = session.run(None, {"vectors": Q})
            assert found.dtype == dtype
            tolerance = 1e-5 if dtype == np.float32 else 1e-12
            assert_allclose(found, learner.query_vectors(Q), rtol=tolerance, atol=tolerance)
        assert_array_equal(query_matrix_of(tmp_path / "q.onnx"), learner.query_matrix())


def test_a_blend_of_vectors_alone_is_exported_without_what_is_remembered(rng, tmp_path):
    X = rng.normal(size=(60, 6))
    triplets = rng.integers(60, size=(2000, 3))
    swap = (X[triplets[:, 1], 0] < X[triplets[:, 2], 0])[:, None]
    triplets = np.where(swap, triplets[:, [0, 2, 1]], triplets)
    blend = similia.Blend().learn(X, triplets)
    export_queries(blend, tmp_path / "q.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    (found,) = session.run(None, {"vectors": X[:9]})
    assert_allclose(found, blend.query_vectors(X[:9], remembered=False), rtol=1e-10)


def test_what_no_matrix_maps_is_refused_and_the_file_stays(rng, tmp_path):
    path = tmp_path / "q.onnx"
    path.write_text("before")
    X = rng.normal(size=(20, 3))
    views = similia.Views(vectors=X, price=rng.normal(size=20))
    blend = similia.Blend().learn(views, [[0, 1, 2]])
    with pytest.raises(ValueError, match="got Blend of the views vectors, price"):
        export_queries(blend, path)
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["q.onnx"]
