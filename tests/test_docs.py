"""Documents that quote the code are equal to it."""

import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.service.settings import Settings, grouped_settings
from tests.cli_reference import commands, help_of, reference

ROOT = Path(__file__).parent.parent
INCLUDE = re.compile(r"<!-- include: (\S+) -->\n```(python|cython)\n(.*?)```\n", re.DOTALL)
DOCUMENTS = ["docs/add_a_learner.md"]
#: pages whose commands are run, in a shell, in their order
TUTORIALS = ["docs/tutorial.md", "docs/scale.md"]
#: pages that show lines which are no programs; those of stores are run in tests/stores, and that of
#: the service in tests/service
FRAGMENTS = [
    "docs/datasets.md",
    "docs/service.md",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/stores/*.md")),
]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs").rglob("*.md")
    if not {"generated", "gallery"} & set(page.parts)
)
#: pages whose examples are parts of one program
GUIDES = [
    page
    for page in PAGES
    if "```python" in (ROOT / page).read_text() and page not in DOCUMENTS + TUTORIALS + FRAGMENTS
]
REFERENCE = "docs/cli.md"
DEPLOY = "docs/deploy.md"
SETTINGS_MARK = "<!-- what follows is made from the settings: python -m tests.test_docs -->\n"


def filled(text: str) -> str:
    def code(match):
        text = (ROOT / match[1]).read_text()
        return f"<!-- include: {match[1]} -->\n```{match[2]}\n{text}```\n"

    return INCLUDE.sub(code, text)


def with_settings(page: str) -> str:
    """The page with the table of all settings after its mark."""
    lines = ["| variable | group | default | meaning |", "| --- | --- | --- | --- |"]
    groups = grouped_settings()
    for each in fields(Settings):
        default = f"`{each.default}`" if each.default != "" else ""
        name = f"`SIMILIA_{each.name.upper()}`"
        lines.append(f"| {name} | {groups[each.name]} | {default} | {each.metadata['doc']} |")
    return "\n".join([page.split(SETTINGS_MARK)[0] + SETTINGS_MARK, *lines, ""])


def test_the_table_of_settings_is_the_list_of_settings():
    page = (ROOT / DEPLOY).read_text()
    assert page == with_settings(page), "run: python -m tests.test_docs"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_quoted_files_are_the_real_ones(document):
    text = (ROOT / document).read_text()
    assert INCLUDE.search(text)
    assert text == filled(text), "run: python -m tests.test_docs"


def test_the_drawing_of_the_layers_is_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    drawing = re.search(
        r"```\n( cli.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL
    )
    rows = [line for line in drawing[1].splitlines() if line.strip() != "│"]
    drawn = [re.split(r" {3,}", row.strip())[0].replace("│", "|") for row in rows]
    assert drawn == contract["contracts"][0]["layers"]


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})


@pytest.mark.parametrize("document", GUIDES)
def test_the_examples_of_a_guide_run_in_their_order(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert examples
    names = {}
    for example in examples:
        exec(compile(example, document, "exec"), names)


@pytest.mark.skipif(
    tuple(map(int, version("typer").split(".")[:2])) < (0, 29),
    reason="older versions of typer lay help out in another way",
)
def test_the_reference_of_the_command_line_is_what_help_says():
    page = (ROOT / REFERENCE).read_text()
    assert page == reference(page), "run: python -m tests.test_docs"


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_and_every_option_has_help(words):
    text = help_of(*words)
    assert text.startswith(f"Usage: similia {' '.join(words)}")
    described = re.sub(r"\n {8,}", "  ", text)  # long names put their help on the next line
    for line in described.splitlines():
        if re.match(r"  (-|[A-Z…]+\s)", line):
            assert re.search(r"\S  +[A-Z`]", line.strip()), line


@pytest.mark.parametrize("document", TUTORIALS)
def test_the_commands_of_a_tutorial_run_in_their_order(document, tmp_path, monkeypatch):
    """Python in the page runs as it is, and its commands in a shell."""
    text = (ROOT / document).read_text()
    examples = re.findall(r"```(python|console)\n(.*?)```", text, re.DOTALL)
    assert {kind for kind, _ in examples} == {"python", "console"}
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, example in examples:
        if kind == "python":
            exec(compile(example, document, "exec"), names)
            continue
        for line in example.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                _run(line.removeprefix("$ "))


def _run(line):
    """Run a line in a shell, or in this process if it is one command and nothing else."""
    command, _, code = line.partition("  # exit code ")
    words, _, target = command.partition(" > ")
    if re.search(r"[|;&$]", command) or not words.startswith("similia "):
        program = f"similia() {{ '{sys.executable}' -m similia.cli.main \"$@\"; }}; {command}"
        found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
        assert found.returncode == int(code or 0), f"{line}\n{found.stdout}\n{found.stderr}"
        return
    found = CliRunner().invoke(app, shlex.split(words)[1:], prog_name="similia")
    assert found.exit_code == int(code or 0), f"{line}\n{found.output}"
    if target:
        Path(target).write_text(found.stdout)


if __name__ == "__main__":
    (ROOT / REFERENCE).write_text(reference((ROOT / REFERENCE).read_text()))
    (ROOT / DEPLOY).write_text(with_settings((ROOT / DEPLOY).read_text()))
    for name in DOCUMENTS:
        (ROOT / name).write_text(filled((ROOT / name).read_text()))
