"""Notebooks run, and print what they are stored with."""

import ast
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
#: figures say where they are in memory
FIGURE = re.compile(r"<[^>]*(?:Figure|Axes)[^>]*>")


def code(path):
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def stored(cell):
    """What a cell printed, and what its last line was; figures and bars are left out."""
    shown = [one for one in cell["outputs"] if one["output_type"] != "display_data"]
    texts = [one.get("text") or one.get("data", {}).get("text/plain") for one in shown]
    return "".join("".join(text or "") + "\n" for text in texts)


def printed(cell, names):
    """The same now."""
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    shown = out.getvalue()
    return shown + (f"{value!r}\n" if value is not None else "")


def words(text):
    """A text without its numbers, white space and figures, and its numbers."""
    text = FIGURE.sub("", text)
    return re.sub(r"\s+", "", NUMBER.sub("#", text)), [float(n) for n in NUMBER.findall(text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_ran(path):
    cells = code(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {one["output_type"] for cell in cells for one in cell["outputs"]}
    assert kinds
    assert "error" not in kinds


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_is_stored_with(path):
    """Rounding by another processor may move a number a little; `make notebooks` stores anew."""
    names = {}
    for cell in code(path):
        (said, numbers), (then, before) = (
            words(text) for text in (printed(cell, names), stored(cell))
        )
        assert said == then, "".join(cell["source"])
        assert numbers == pytest.approx(before, rel=0.02, abs=0.02), "".join(cell["source"])


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["kernel_from_distances", "knn", "search"]
