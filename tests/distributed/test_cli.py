"""``similia learn --executor``."""

import json

import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from tests.distributed.test_learning import learnt


def run(*words):
    return CliRunner().invoke(app, ["learn", *map(str, words)])


def test_the_command_learns_what_the_library_does(problem, inline):
    expected = learnt(problem, inline)
    given = (problem.vectors, problem.feedback, "--learner", "OASIS", "-o", problem.output("cli"))
    found = run(*given, "--executor", "processes:1", "--shares", 4, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["feedback"]["n"] == 3000
    assert problem.output("cli").read_bytes() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shares", "4"], "need --executor"),
        (["--executor", "processes:2", "--checkpoint", "folder"], "needs no --checkpoint"),
        (["--executor", "cloud"], "executor must be processes"),
        (["--executor", "processes:2"], "learner must be one that merges, got Blend"),
    ],
)
def test_misuse_is_refused_in_words(problem, options, message):
    found = run(problem.vectors, problem.feedback, "-o", problem.output("no"), *options)
    assert found.exit_code != 0
    assert message in " ".join(found.output.replace("│", " ").split())
    assert not problem.output("no").exists()
