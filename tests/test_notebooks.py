"""Notebooks run, and are stored as they ran."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def code(path):
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_ran(path):
    cells = code(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {one["output_type"] for cell in cells for one in cell["outputs"]}
    assert kinds
    assert "error" not in kinds


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    names = {}
    for cell in code(path):
        exec(compile("".join(cell["source"]), path.name, "exec"), names)


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["kernel_from_distances", "knn", "search"]
