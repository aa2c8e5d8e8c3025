import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

import similia
from similia.exceptions import ModelFileError
from similia.integrations.sentence_transformers import export, query_matrix_of
from tests.integrations.small_models import saved

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


@pytest.fixture
def learner(rng):
    X = rng.normal(size=(30, 5)).astype(np.float32)
    return similia.FactoredAROMA().learn(X, rng.integers(30, size=(50, 3)))


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "base"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "modules.json").write_text(json.dumps(MODULES))
    settings = {"prompts": {"query": "q: "}, "similarity_fn_name": "cosine"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def route(folder, name, X):
    """What `Router` and `Dense` compute, read from the files as they read them."""
    router = folder / json.loads((folder / "modules.json").read_text())[-1]["path"]
    config = json.loads((router / "router_config.json").read_text())
    for module in config["structure"][name]:
        assert config["types"][module] == "sentence_transformers.models.Dense"
        dense = json.loads((router / module / "config.json").read_text())
        weight = load_file(router / module / "model.safetensors")["linear.weight"]
        assert weight.shape == (dense["out_features"], dense["in_features"])
        assert not dense["bias"]
        assert dense["activation_function"].endswith(".Identity")
        X = X @ weight.T
    return X


def test_queries_are_those_of_the_learner_and_documents_those_of_the_base(
    learner, base, tmp_path, rng
):
    export(learner, base, tmp_path / "new")
    X = rng.normal(size=(7, 5)).astype(np.float32)
    assert_array_equal(route(tmp_path / "new", "query", X), learner.query_vectors(X))
    assert_array_equal(route(tmp_path / "new", "document", X), X)


def test_the_rest_of_the_model_is_that_of_the_base(learner, base, tmp_path):
    export(learner, base, tmp_path / "new")
    *before, router = json.loads((tmp_path / "new" / "modules.json").read_text())
    assert before == MODULES
    assert router["type"] == "sentence_transformers.models.Router"
    settings = json.loads((tmp_path / "new" / "config_sentence_transformers.json").read_text())
    assert settings == {"prompts": {"query": "q: "}, "similarity_fn_name": "dot"}
    config = json.loads((tmp_path / "new" / router["path"] / "router_config.json").read_text())
    assert config["parameters"]["default_route"] == "document"  # the route of plain encode()
    assert json.loads((base / "modules.json").read_text()) == MODULES


def test_the_way_back_starts_from_what_was_exported(learner, base, tmp_path, rng):
    export(learner, base, tmp_path / "new")
    W = query_matrix_of(tmp_path / "new")
    assert_array_equal(W, learner.query_matrix())
    X = rng.normal(size=(9, 5)).astype(np.float32)
    again = similia.OASIS(prior=W, prior_scale=1.0).learn(X, np.empty((0, 3), int))
    assert_array_equal(again.query_vectors(X), learner.query_vectors(X))


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(learner, base, tmp_path, rng):
    X = rng.normal(size=(9, 5))
    distance = similia.LEGO().learn(X, [[0, 1]], [1.0])
    oblong = similia.OASIS(prior="zero").learn(X, [[0, 1, 2]], items=rng.normal(size=(9, 4)))
    for refused, words in ((distance, "bilinear"), (oblong, "square")):
        with pytest.raises(ValueError, match=words):
            export(refused, base, tmp_path / "new")
    with pytest.raises(ValueError, match="must not exist"):
        export(learner, base, base)
    with pytest.raises(FileNotFoundError):
        export(learner, tmp_path / "none", tmp_path / "new")
    (base / "modules.json").write_text("[")
    with pytest.raises(ModelFileError, match="not valid JSON"):
        export(learner, base, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


def test_a_model_without_a_router_has_no_way_back(base):
    with pytest.raises(ModelFileError, match="no Router"):
        query_matrix_of(base)


@pytest.mark.filterwarnings("ignore")  # of the library's own making
@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_sentence_transformers_loads_what_was_written(kind, learner, tmp_path):
    library = saved(kind, tmp_path / "base")

    def model(name):
        return library.SentenceTransformer(str(tmp_path / name), device="cpu")

    export(learner, tmp_path / "base", tmp_path / "new")
    texts = ["a b", "c", "b c a"]
    before, new = model("base").encode(texts), model("new")
    assert_array_equal(new.encode_document(texts), before)
    assert_array_equal(new.encode(texts), before)
    expected = learner.query_vectors(before)
    np.testing.assert_allclose(new.encode_query(texts), expected, rtol=1e-5, atol=1e-6)
    assert new.similarity_fn_name == "dot"
    new.save(str(tmp_path / "again"))  # as the library writes it, there is a way back too
    assert_array_equal(query_matrix_of(tmp_path / "again"), learner.query_matrix())
