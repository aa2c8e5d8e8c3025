import doctest
import importlib
import pkgutil

import pytest

import similia.feedback
import similia.trust

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (similia.trust, similia.feedback)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
