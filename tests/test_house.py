"""Figures of the house may fall, never rise: `tests/budget.toml` keeps them."""

import importlib.util

import pytest

from tests import house

BUDGET = house.budget()
REASONS = {
    "names_twice": house.names_twice,
    "constants_twice": house.constants_twice,
    "single_importers": house.single_importers,
    "private_uses": house.private_uses,
}


@pytest.fixture(scope="module")
def source():
    return house.of_source()


@pytest.mark.parametrize("figure", BUDGET["source"])
def test_the_source_keeps_to_its_budget(source, figure):
    found = REASONS[figure](house.modules()) if figure in REASONS else ""
    assert source[figure] <= BUDGET["source"][figure], found


@pytest.mark.parametrize("walk", BUDGET["walks"])
def test_a_walk_keeps_to_its_budget(walk):
    if importlib.util.find_spec("benchmarks") is None:
        pytest.skip("benchmarks are not in the archive of the source")
    if walk.startswith("POST"):
        pytest.importorskip("apsw", reason="needs apsw")
    for _ in range(3):  # threads of a service may meet in another order
        found = house.of_walks([walk])[walk]
        risen = {name: n for name, n in found.items() if n > BUDGET["walks"][walk][name]}
        if not risen:
            break
    assert risen == {}


def test_all_that_is_measured_has_a_budget(source):
    assert set(source) == set(BUDGET["source"])


def test_the_table_is_written_as_it_is_read():
    text = house.BUDGET.read_text(encoding="utf-8")
    assert house.written(BUDGET) == text


def test_figures_are_only_lowered():
    old = {"a": {"x": 3, "y": 3}}
    assert house.lowest(old, {"a": {"x": 2, "y": 4, "z": 5}}) == {"a": {"x": 2, "y": 3, "z": 5}}


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("from uvicorn._types import x", 1),
        ("import numpy._core", 1),
        ("from similia.stream.lessons import _teach", 1),
        ("from similia.trust.exam import _place", 0),
        ("import uvicorn\nuvicorn.server._lock", 1),
        ("def f(other):\n    return other._private_of_a_library", 1),
        ("class A:\n    def f(self, other):\n        self._x = 1\n        return other._x", 0),
        ("def f(row):\n    return row._replace(a=1)", 0),
    ],
)
def test_private_uses_of_other_packages_are_found(text, n, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "ROOT", tmp_path / "similia")
    path = tmp_path / "similia" / "trust" / "module.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert len(house.private_uses(house.modules())) == n
