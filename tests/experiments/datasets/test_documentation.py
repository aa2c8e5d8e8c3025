import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from experiments import datasets

MODULES = [f"{datasets.__name__}.{m.name}" for m in pkgutil.iter_modules(datasets.__path__)]
FUNCTIONS = [getattr(datasets, name) for name in datasets.__all__]
LOADERS = [
    f for f in FUNCTIONS if inspect.isfunction(f) and f.__name__.startswith(("load", "make"))
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_say(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("loader", LOADERS, ids=lambda f: f.__name__)
def test_every_parameter_is_documented(loader):
    documented = inspect.getdoc(loader)
    for name in inspect.signature(loader).parameters:
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : ", documented, re.MULTILINE), name


@pytest.mark.parametrize("loader", LOADERS, ids=lambda f: f.__name__)
def test_the_page_on_data_lists_every_loader(loader):
    page = Path(__file__).parents[3] / "docs" / "datasets.md"
    assert f"| `{loader.__name__}" in page.read_text()
