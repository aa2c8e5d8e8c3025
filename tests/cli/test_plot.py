import json

import numpy as np
import pytest

from similia import load
from tests.fixtures.make import FOLDER

SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}

#: it has a matrix to show
LEARNER = ("--learner", "FactoredAROMA")


@pytest.fixture
def learnt(run, files):
    arguments = ("learn", files / "X.npy", files / "feedback.npy", "-o", files / "model", *LEARNER)
    (files / "results.json").write_text(run(*arguments, "--json").stdout)
    return files


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_a_curve_is_drawn_from_the_results_of_learning(suffix, run, learnt):
    out = learnt / f"curve{suffix}"
    results = learnt / "results.json"
    found = json.loads(run("plot", "curve", results, "-o", out, "--json").stdout)
    assert out.read_bytes().startswith(SIGNATURES[suffix])
    points = found["FactoredAROMA"]
    assert points[-1]["n"] == 400
    assert points == json.loads(results.read_text())["curve"]
    run("plot", "curve", results, results, "-o", out)


def test_calibration_is_drawn_and_given_as_a_number(run, learnt):
    arguments = ("plot", "calibration", learnt / "model", learnt / "X.npy", learnt / "feedback.csv")
    text = run(*arguments, "-o", learnt / "c.png").stdout
    assert text.startswith("Expected calibration error")
    found = json.loads(run(*arguments, "-o", learnt / "c.svg", "--json").stdout)
    assert found["n"] == 400
    assert (learnt / "c.svg").read_bytes().startswith(b"<?xml")
    (learnt / "empty.csv").write_text("query,better,worse\n")
    run(*arguments[:-1], learnt / "empty.csv", "-o", learnt / "c.png", code=1)


def test_singular_values_are_drawn(run, learnt):
    model = learnt / "model"
    found = json.loads(run("plot", "spectrum", model, "-o", learnt / "s.png", "--json").stdout)[
        "FactoredAROMA"
    ]
    expected = np.linalg.svd(load(model).W_average_, compute_uv=False)
    np.testing.assert_allclose(found, expected)
    metric = FOLDER / "LEGO-float32.safetensors"
    run("plot", "spectrum", model, metric, "-o", learnt / "s.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curve", "X.npy", "-o", "a.png"], "must be the output of `similia learn --json`"),
        (["curve", "results.json", "-o", "a.txt"], "--output must end in one of .png"),
        (["spectrum", FOLDER / "AROW-float32.safetensors", "-o", "a.png"], "has no matrix to show"),
        (
            ["calibration", FOLDER / "OASIS-float32.safetensors", "X.npy", "feedback.csv"],
            "must know how sure it is",
        ),
    ],
)
def test_what_cannot_be_drawn_is_explained(arguments, message, run, learnt, monkeypatch):
    monkeypatch.chdir(learnt)
    if "-o" not in arguments:
        arguments = [*arguments, "-o", "a.png"]
        np.save("X.npy", np.load("X.npy")[:, :4])
    assert message in run("plot", *arguments, code=1).stderr
