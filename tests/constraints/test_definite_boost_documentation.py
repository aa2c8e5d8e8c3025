"""What is documented of DefiniteBoost and its constraints is what there is."""

import doctest
import inspect
import sys

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

import similia
from similia.constraints.min_max import MIN_MAX_RULES, MinMaxResult
from similia.constraints.projections import Certificate

CLASSES = ["ConstraintOracle", "DefiniteBoost", "DistanceConstraints", "MatrixConstraints",
           "RankOneConstraints"]  # fmt: skip


def names(documented):
    return [part.strip() for entry in documented for part in entry.name.split(",")]


@pytest.mark.parametrize("name", CLASSES)
def test_documented_parameters_are_the_signature(name):
    cls = getattr(similia, name)
    assert names(ClassDoc(cls)["Parameters"]) == list(inspect.signature(cls).parameters)


def test_documented_parameters_of_functions_are_the_signature():
    for function in (similia.minimize_max_constraint, similia.DefiniteBoost.fit):
        parameters = [p for p in inspect.signature(function).parameters if p != "self"]
        assert names(FunctionDoc(function)["Parameters"]) == parameters


def test_every_parameter_has_a_rule():
    boost = similia.DefiniteBoost()
    assert set(similia.DefiniteBoost._rules) == set(boost.get_params())
    parameters = set(inspect.signature(similia.minimize_max_constraint).parameters)
    assert set(MIN_MAX_RULES) == parameters - {"constraints"}


def test_documented_attributes_exist(rng):
    constraints = similia.RankOneConstraints(rng.normal(size=(5, 3)), 2.0)
    boost = similia.DefiniteBoost().fit(constraints)
    for name in names(ClassDoc(similia.DefiniteBoost)["Attributes"]):
        if name != "components_":
            assert name in vars(boost), name
    assert set(MinMaxResult.__dataclass_fields__) <= set(
        names(ClassDoc(MinMaxResult)["Attributes"])
    )
    assert set(Certificate._fields) <= set(names(ClassDoc(Certificate)["Attributes"]))


@pytest.mark.parametrize("name", [*CLASSES, "minimize_max_constraint"])
def test_examples_run(name):
    module = sys.modules[getattr(similia, name).__module__]
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
