"""What would not fit into memory, or run for ever, is refused before it begins."""

import json
import os
import resource

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy import sparse

from similia import (
    OASIS,
    DefiniteBoost,
    NeighborhoodGerrymandering,
    minimize_max_constraint,
)
from similia.constraints.pairs import DistanceConstraints
from similia.exceptions import ModelFileError
from similia.persistence import load, reading, saving
from similia.registry import ALL_LEARNERS, LEARNERS, learner_class
from similia.safety import bounds
from tests.cases import case_of
from tests.fixtures.make import FOLDER

NARROW = "must have few enough features for 1e-06 GB of memory"
#: what these learn takes a row for each class, as the data do
LINEAR = {"SGDOneVsRest"}


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(bounds, "memory", lambda: 1000)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - LINEAR))
def test_what_is_learnt_must_fit_into_memory(name, narrow):
    case = case_of(learner_class(name))
    case.X = np.hstack([case.X, np.ones((len(case.X), 20))])
    before = dict(vars(case.learner))
    with pytest.raises(ValueError, match=NARROW):
        case.learn()
    assert vars(case.learner) == before
    with pytest.raises(ValueError, match=NARROW):
        case.learner.fit(case.X, case.y)
    assert vars(case.learner) == before


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_what_is_no_larger_than_the_data_needs_no_room(name, narrow):
    case_of(learner_class(name)).learn()


@pytest.mark.parametrize("init", ["identity", "pca", "lda", "classes", "auto"])
@pytest.mark.parametrize("asymmetric", [True, False])
def test_maps_must_fit_into_memory(init, asymmetric, narrow):
    X, y = np.random.default_rng(0).normal(size=(40, 20)), np.arange(40) % 2
    learner = NeighborhoodGerrymandering(init=init, asymmetric=asymmetric)
    with pytest.raises(ValueError, match=NARROW):
        learner.fit(X, y)


def test_matrices_of_constraints_must_fit_into_memory(narrow):
    constraints = DistanceConstraints([[0, 1]], [0.1], n_objects=50)
    with pytest.raises(ValueError, match=f"DefiniteBoost.fit: X {NARROW}, got 50"):
        DefiniteBoost().fit(constraints)
    with pytest.raises(ValueError, match=NARROW):
        minimize_max_constraint(constraints)


@pytest.mark.parametrize("m", [3, 10**8])
def test_a_hundred_million_features_are_too_many_for_any_machine(m):
    X, Z = sparse.csr_array((5, m)), sparse.csr_array((5, 10**8))
    with pytest.raises(ValueError, match="got 100000000, which take"):
        learner_class("FactoredAROMA")(prior="zero").learn(X, [[0, 1, 2]], items=Z)


def test_the_lowest_limit_counts(monkeypatch, tmp_path):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    process = resource.getrlimit(resource.RLIMIT_AS)[0] % 2**64  # -1 is no limit
    assert 0 < bounds.memory() <= machine
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(bounds, "CONTAINER", (str(tmp_path / "none"), str(limit)))
    limit.write_text("max\n")
    assert bounds.memory() == min(machine, process)
    limit.write_text("123456\n")
    assert bounds.memory() == 123456
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (12345, resource.RLIM_INFINITY))
    assert bounds.memory() == 12345


# -- work ----------------------------------------------------------------------------------------

COUNTS = [
    (name, count)
    for name in ALL_LEARNERS
    for count in ("n_triplets", "n_pairs", "max_iter")
    if count in learner_class(name)().get_params()
]


@pytest.mark.parametrize(("name", "count"), COUNTS)
def test_repetitions_have_a_limit(name, count):
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3
    for endless in (10**9 + 1, 2**63 - 1):
        learner = learner_class(name)(**{count: endless})
        with pytest.raises(ValueError, match=f"{count} must be an integer between 1 and 10000000"):
            learner.fit(X, y)


def test_a_model_file_cannot_ask_for_endless_work(tmp_path):
    source, path = FOLDER / "OASIS-float32.safetensors", tmp_path / "model.safetensors"
    document = reading.read_document(source)
    document["parameters"]["n_triplets"] = 2**63 - 1
    text = json.dumps({**document, "header_sha256": saving.UNSEALED}, separators=(",", ":"))
    save_file(load_file(source), path, metadata={saving.METADATA_KEY: text})
    with open(path, "r+b") as opened:
        saving.seal(opened)
    with pytest.raises(ModelFileError, match="n_triplets must be an integer between 1 and"):
        load(path)
    assert OASIS(n_triplets=10**9)._rules["n_triplets"].holds(10**9)
