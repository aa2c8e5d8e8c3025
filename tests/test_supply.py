"""What is installed with the package, under which licences, and how the package is built."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import similia

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PERMISSIVE = re.compile(
    r"BSD|MIT|Apache|Python Software Foundation|PSF|ISC|0BSD|Zlib|Unlicense|HPND"
)
FORBIDDEN = re.compile(r"\b(A|L)?GPL|Affero|proprietary", re.IGNORECASE)


def closure():
    """Names of everything that an installation without extras brings along."""
    waiting, found = list(PROJECT["dependencies"]), set()
    while waiting:
        requirement = Requirement(waiting.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in found:
            found.add(requirement.name)
            waiting += requires(requirement.name) or []
    return sorted(found)


@pytest.mark.parametrize("name", closure())
def test_every_dependency_is_under_a_permissive_licence(name):
    about = metadata(name)
    classes = [c for c in about.get_all("Classifier") or [] if c.startswith("License")]
    words = " ".join([about.get("License-Expression") or about.get("License") or "", *classes])
    assert PERMISSIVE.search(words)
    linked = re.sub(r"GPL-3.0-with-GCC-exception|GPL-3.0\S* WITH GCC-exception\S*", "", words)
    assert not FORBIDDEN.search(linked[:200])


def test_every_requirement_has_a_lower_bound_that_is_met():
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    for line in [*PROJECT["dependencies"], *extras]:
        requirement = Requirement(line)
        if requirement.name == "similia":
            continue
        assert any(part.operator == ">=" for part in requirement.specifier), line
        try:
            installed = Version(metadata(requirement.name)["Version"])
        except PackageNotFoundError:
            continue
        assert installed in requirement.specifier


def test_the_citation_names_this_version_and_licence():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {similia.__version__}" in lines
    assert f"license: {PROJECT['license']}" in lines


def test_the_package_says_that_it_is_typed():
    assert (Path(similia.__file__).parent / "py.typed").exists()
