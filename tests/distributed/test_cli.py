"""``similia learn`` and ``similia evaluate`` with ``--executor``."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
from similia.persistence import save
from tests.distributed.test_learning import learnt


def run(*words, command="learn"):
    return CliRunner().invoke(app, [command, *map(str, words)])


def test_the_command_learns_what_the_library_does(problem, inline):
    expected = learnt(problem, inline)
    given = (problem.vectors, problem.feedback, "--learner", "OASIS", "-o", problem.output("cli"))
    judged = ("--held-out", problem.feedback)
    found = run(*given, "--executor", "processes:1", "--shares", 4, "--json", *judged)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["feedback"]["n"] == 3000
    assert problem.output("cli").read_bytes() == expected


def test_the_command_takes_urls(problem, inline):
    fsspec = pytest.importorskip("fsspec")
    expected, files = learnt(problem, inline), fsspec.filesystem("memory")
    for path in (problem.vectors, problem.feedback):
        files.pipe_file(f"/cli/{path.name}", path.read_bytes())
    given = ("memory://cli/vectors.npy", "memory://cli/feedback.npy")
    options = ("--learner", "OASIS", "-o", problem.output("cli"), "--shares", 4)
    judged = ("--held-out", given[1])
    found = run(*given, *options, *judged, "--executor", "processes:1")
    assert found.exit_code == 0, found.output
    assert problem.output("cli").read_bytes() == expected
    here, there = (
        run(problem.output("cli"), *pair, "--executor", "processes:1", "--json", command="evaluate")
        for pair in ((problem.vectors, problem.feedback), given)
    )
    assert here.exit_code == there.exit_code == 0, there.output
    assert there.stdout == here.stdout
    assert not list(problem.folder.glob("*.work"))
    elsewhere = (*options[:2], "-o", "memory://cli/model", "--executor", "processes:1")
    refused = run(*given, *elsewhere)
    assert "--work must be a path that all workers find" in " ".join(refused.output.split())
    found = run(*given, *elsewhere, "--shares", 4, "--work", problem.folder / "work")
    assert found.exit_code == 0, found.output
    assert files.cat_file("/cli/model") == expected
    files.rm("/cli", recursive=True)
    missing = run("memory://cli/no.npy", given[1], *options, "--executor", "processes:1")
    assert missing.exit_code != 0
    assert "memory://cli/no.npy" in missing.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shares", "4"], "need --executor"),
        (["--held-out", "judged.csv"], "need --executor"),
        (["--executor", "processes:2", "--checkpoint", "folder"], "needs no --checkpoint"),
        (["--executor", "cloud"], "executor must be processes"),
        (["--executor", "processes:2", "--learner", "MEG"], "must be one that merges, got MEG"),
    ],
)
def test_misuse_is_refused_in_words(problem, options, message):
    found = run(problem.vectors, problem.feedback, "-o", problem.output("no"), *options)
    assert found.exit_code != 0
    assert message in " ".join(found.output.replace("│", " ").split())
    assert not problem.output("no").exists()


@pytest.fixture
def judged(problem, rng):
    """A model, and grades of tied items, one of which is unknown."""
    X = np.concatenate([problem.X, problem.X])
    np.save(problem.vectors, X)
    model = problem.output("judged")
    save(problem.learner().learn(X, problem.triplets[:50]), model)
    grades = problem.folder / "grades.csv"
    rows = zip(range(120), rng.integers(240, size=120).tolist(), strict=True)
    grades.write_text("q,item,relevance\n" + "".join(f"{q},{i},1\n" for q, i in rows) + "7,999,1\n")
    return model, problem.vectors, grades, "--columns", "query=q", "--bad-rows", "skip", "--json"


@pytest.mark.parametrize("base", [(), ("--base", "cosine")])
def test_parts_of_an_evaluation_print_what_one_machine_prints(judged, base):
    alone = run(*judged, *base, command="evaluate")
    found = run(*judged, *base, "--executor", "processes:1", "--parts", 3, command="evaluate")
    assert alone.exit_code == found.exit_code == 0, found.output
    assert json.loads(found.stdout) == json.loads(alone.stdout)
    assert json.loads(found.stdout)["bad_rows"]["n"] == 1
    assert not judged[0].with_name(f"{judged[0].name}.evaluation.work").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parts", "4"], "need --executor"),
        (["--executor", "processes:2", "--view", "a=b.npy"], "takes neither --beir nor views"),
        (["--executor", "cloud"], "executor must be processes"),
    ],
)
def test_misuse_of_an_evaluation_is_refused_in_words(judged, options, message):
    found = run(*judged, *options, command="evaluate")
    assert found.exit_code != 0
    assert message in " ".join(found.output.replace("│", " ").split())
