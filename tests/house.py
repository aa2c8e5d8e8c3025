"""Figures of the house that may only fall: sizes, doublets, walks; `tests/budget.toml` keeps them.

``python -m tests.house`` measures them, and lowers the table where they have fallen. It never
raises a figure: that is for an editor, and for the commit to explain.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "similia"
BUDGET = Path(__file__).with_name("budget.toml")
SOURCES = ("*.py", "*.pyx", "*.pxd")
#: private by name, public by contract: of named tuples, and `os._exit`
DOCUMENTED = ("_asdict", "_fields", "_make", "_replace", "_exit")

HEAD = """\
# Figures that may only fall; tests/test_house.py holds the package to them.
# `python -m tests.house` lowers the table to what it measures; what rises is raised by hand, with
# the reason in the commit.
"""


class Module:
    """A module of the package, parsed."""

    def __init__(self, path):
        self.path = path
        self.name = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        self.is_package = path.stem == "__init__"
        if self.is_package:
            self.name = self.name.removesuffix(".__init__")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    @property
    def package(self):
        """The folder or the module below `similia`."""
        return ".".join(self.name.split(".")[:2])

    def assigned(self):
        """Names that are assigned at the top, with the annotation if there is one."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        yield name.id, getattr(node, "annotation", None)

    def imports(self):
        """Names of modules, or of what is in them, that are imported, and the nodes."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, alias.asname, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", alias.asname or alias.name, node


def modules():
    return [Module(path) for path in sorted(ROOT.rglob("*.py"))]


# -- sizes and names -----------------------------------------------------------------------------


def sizes():
    files = list(chain.from_iterable(ROOT.rglob(pattern) for pattern in SOURCES))
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in files)
    return {"lines": lines, "files": len(files)}


def names_twice(found):
    """Public classes and aliases of types that are defined in more than one module."""
    homes = defaultdict(set)
    for module in found:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module.name)
        for name, annotation in module.assigned():
            if annotation is not None and ast.unparse(annotation) == "TypeAlias":
                homes[name].add(module.name)
    return {name: sorted(where) for name, where in homes.items() if len(where) > 1}


def constants_twice(found):
    """Upper-case names, but for type variables, assigned at the top of more than one module."""
    homes = defaultdict(set)
    for module in found:
        for name, _ in module.assigned():
            if name.isupper() and len(name) > 1 and not name.startswith("_"):
                homes[name].add(module.name)
    return {name: sorted(where) for name, where in homes.items() if len(where) > 1}


def single_importers(found):
    """Modules that only one other module imports, with that one."""
    names, importers = {module.name for module in found}, defaultdict(set)
    for module in found:
        for name, _, _ in module.imports():
            imported = name if name in names else name.rpartition(".")[0]
            if imported in names:
                importers[imported].add(module.name)
    plain = [module.name for module in found if not module.is_package]
    return {name: min(importers[name]) for name in plain if len(importers[name]) == 1}


# -- what is private -----------------------------------------------------------------------------


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_uses(found):
    """Underscore modules, names and attributes of another package, or of another library."""
    homes = defaultdict(set)
    for module in found:
        for name in _defined(module.tree):
            homes[name].add(module.package)
    uses = []
    for module in found:
        for name, _, node in module.imports():
            package = ".".join(name.split(".")[:2])
            if package != module.package and any(map(is_private, name.split("."))):
                uses.append(f"{module.name}:{node.lineno} imports {name}")
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if own or node.attr in DOCUMENTED or module.package in homes[node.attr]:
                continue
            uses.append(f"{module.name}:{node.lineno} uses {ast.unparse(node)}")
    return uses


def _defined(tree):
    """Private names that a module defines: functions, classes, fields, attributes, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


# -- the table -----------------------------------------------------------------------------------


def of_source():
    """All figures that the source shows without running."""
    found = modules()
    return sizes() | {
        "names_twice": len(names_twice(found)),
        "constants_twice": len(constants_twice(found)),
        "single_importers": len(single_importers(found)),
        "private_uses": len(private_uses(found)),
    }


def of_walks(names=None):
    """Functions, files and changes of package of walks."""
    from benchmarks import walk

    walked = walk.walks() if names is None else {name: walk.WALKS[name]() for name in names}
    return {name: walk.figures(name, functions) for name, functions in walked.items()}


def budget():
    return tomllib.loads(BUDGET.read_text(encoding="utf-8"))


def written(figures):
    """The table as text."""
    parts = [HEAD]
    for table, values in figures.items():
        rows = values if table == "walks" else {None: values}
        for row, numbers in rows.items():
            title = table if row is None else f'{table}."{row}"'
            parts += [f"\n[{title}]\n", *(f"{name} = {n}\n" for name, n in numbers.items())]
    return "".join(parts)


def lowest(old, new):
    """New figures, but none that is higher than the old one."""
    if isinstance(new, dict):
        return {name: lowest(old.get(name, value), value) for name, value in new.items()}
    return min(old, new)


def main():
    measured = {"source": of_source(), "walks": of_walks()}
    kept = lowest(budget() if BUDGET.exists() else {}, measured)
    BUDGET.write_text(written(kept), encoding="utf-8")
    print(written(measured).removeprefix(HEAD))
    if kept != measured:
        sys.exit("Some figures have risen.")


if __name__ == "__main__":
    main()
