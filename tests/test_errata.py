"""The page of errata names tests; each must exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "errata.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_named_test_exists(path, name):
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    rows = [line for line in lines if "---" not in line and "| printed |" not in line]
    assert len(rows) == len(NAMED) > 15


def test_all_five_papers_have_a_part():
    parts = re.findall(r"^## (\w+)", PAGE, re.MULTILINE)
    assert parts == ["AROMA", "POLA", "MEG", "SLND", "Gerrymandering"]
