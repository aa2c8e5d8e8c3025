import json

import numpy as np
import pytest

from experiments.duels import Side, duel
from experiments.exhibits import along, keep_exhibits, noisy_digits, read_exhibits
from experiments.pola_threshold import SOLVED, threshold_part
from experiments.report import main
from experiments.rows import append_rows

PAIRS = ("01", "08", "49")


def _row(problem, contender, value, **other):
    options = other.pop("options", {})
    row = {
        "stage": "run",
        "problem": problem,
        "options": json.dumps(options),
        "contender": contender,
        "parameters": json.dumps(other.pop("parameters", {})),
        "seed": 0,
        "step": 1000,
        "queries": 10,
        "score": "l2",
        "measure": "accuracy@3",
        "value": value,
        "seconds": 1.0,
        "versions": "similia 0",
        "note": "",
    }
    return {**row, **other}


def _digit_rows():
    """As printed POLA loses one pair of three to Euclid; our defaults lose none; k = 1 is worse."""
    for seed in (0, 1):
        for number, digits in enumerate(PAIRS):
            for k in (1, 3, 5):
                shared = {
                    "seed": seed,
                    "options": {"digits": digits},
                    "measure": f"accuracy@{k}",
                }
                base = 0.9 + 0.01 * seed
                for rival in ("Euclidean", "RCA", "RCA after PCA", "FDA", "FDA, shrunk"):
                    yield _row("mnist_pair", rival, base, **shared)
                printed = base + (0.02 if number and k == 3 else -0.02)
                for score in ("last", "average", "last, 1 leading", "average, 1 leading"):
                    yield _row("mnist_pair", "POLA", printed, **shared, score=score)
                    name = "POLA, our defaults"
                    yield _row("mnist_pair", name, base + 0.03, **shared, score=score)


def _study_rows():
    for digits in ("08", "49"):
        options = {"digits": digits, "scaling": "pixels", "study": True}
        for k in (1, 3, 5):
            shared = {"options": options, "measure": f"accuracy@{k}"}
            yield _row("mnist_pair", "Euclidean", 0.95, **shared, step=0)
            for start in ("zero", "identity"):
                for score, value in (("last", 0.96), ("average", 0.97)):
                    given = {"parameters": {"start": start}, "score": score}
                    yield _row("mnist_pair", "POLA, start", value, **shared, **given)


def _other_rows():
    for noise in ("image", "pixel"):
        shared = {"options": {"noise": noise}, "measure": "accuracy@1"}
        pca = 0.5 if noise == "image" else 1.0
        yield _row("noisy_digits", "PCA, 1 direction", pca, **shared)
        yield _row("noisy_digits", "POLA, all pairs", 1.0, **shared, score="last, 1 leading")
    for topic in ("grain", "crude"):
        for name, value in (
            ("POLA filter", 0.9),
            ("POLA filter, tuned", 0.9),
            ("1-NN filter", 0.8),
            ("Perceptron filter", 0.9 if topic == "grain" else 0.85),
            ("PAUM filter, tuned", 0.95),
        ):
            shared = {"options": {"topic": topic}, "score": "stream"}
            yield _row("reuters", name, value, **shared, measure="balanced_accuracy")
            yield _row("reuters", name, 1 - value, **shared, measure="false_positive_rate")
            yield _row("reuters", name, 1 - value, **shared, measure="false_negative_rate")
    for k in (1, 3, 5):
        yield _row("mnist", "Euclidean", 0.9, measure=f"accuracy@{k}", note="none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report on made-up rows; drawing takes its time, so once for all."""
    folder = tmp_path_factory.mktemp("pola")
    results = folder / "results"
    rows = {"mnist_pair": [*_digit_rows(), *_study_rows()], "others": list(_other_rows())}
    for name, found in rows.items():
        append_rows(results / f"{name}.csv", found)
    rng = np.random.default_rng(0)
    digits = np.repeat([0, 8], 50)
    mixed, apart = rng.normal(size=(2, 100, 2))
    apart[digits == 8] += 100
    shown = {"digits": digits, "PCA": mixed, "POLA, last": apart, "POLA, average": apart}
    np.savez(results / "projections.npz", **shown)
    keep_exhibits(["noisy_digits"], 0, results)
    main(["pola", "--results", str(results), "--reports", str(folder)])
    return folder


@pytest.fixture
def text(folder):
    return (folder / "pola.md").read_text()


def _line(text, *words):
    (line,) = [line for line in text.splitlines() if all(word in line for word in words)]
    return line


def test_counts_and_verdicts_are_those_of_the_rows(text):
    line = _line(text, "pairs of digits: better than Euclidean")
    assert "as printed 2 of 3 (k = 3; 9.50 % → 8.83 %); our defaults 3 of 3" in line
    assert line.endswith("| partly: 45 our defaults |")
    assert "first direction" in _line(text, "better than FDA")
    assert "| 0 / 0 / 3 | 2 / 0 / 1 |" in _line(text, "| Euclidean |", "as printed, last matrix")


def test_noise_is_told_by_its_kind(text):
    assert "| partly: 1 of " in _line(text, "noisy digits are told apart")


def test_projections_are_counted(text):
    line = _line(text, "0 and 8 in two directions: images")
    assert "POLA, last 100 %" in line
    assert line.endswith("| yes |")


def test_filters_are_compared_by_topic(text):
    assert _line(text, "filtering, averaged error", "1-NN").endswith("| yes |")
    assert _line(text, "filtering, averaged error", "PAUM").endswith("| no: POLA is worse |")
    assert "as printed 1 / 1 / 0 (" in _line(text, "filtering, averaged error", "Perceptron")
    assert "| grain | 10.00 % | 10.00 % | 20.00 % |" in text


def test_the_study_shows_every_setting(text):
    assert "| pixels | zero | 4.00 / 4.00 / 4.00 | 3.00 / 3.00 / 3.00 |" in text
    assert "| pixels | Euclidean | 5.00 / 5.00 / 5.00 |  |" in text


def test_figures_are_small_and_shown(text, folder):
    figures = list((folder / "figures").glob("*.png"))
    assert len(figures) == 4
    for figure in figures:
        assert figure.stat().st_size < 80_000
        assert f"figures/{figure.name}" in text


def test_only_seeds_that_both_have_are_compared():
    option = {"options": {"digits": "01"}}
    rows = [
        _row("mnist_pair", "A", 0.9, seed=0, **option),
        _row("mnist_pair", "B", 0.8, seed=0, **option),
        _row("mnist_pair", "B", 1.0, seed=1, **option),
    ]
    found = duel(rows, Side("A"), Side("B"), "digits")
    assert (found.better, found.equal, found.worse) == (1, 0, 0)
    assert duel(rows, Side("A"), Side("C"), "digits") is None


def test_exhibits_survive_the_file_and_are_made_once(tmp_path):
    keep_exhibits(["noisy_digits"], 0, tmp_path)
    before = (tmp_path / "noisy_digits.npz").read_bytes()
    keep_exhibits(["noisy_digits"], 1, tmp_path)
    assert (tmp_path / "noisy_digits.npz").read_bytes() == before
    found = read_exhibits(tmp_path)["noisy_digits"]
    for name, array in noisy_digits(0).items():
        np.testing.assert_array_equal(found[name], array)


def test_points_are_put_on_the_line_through_the_mean(rng):
    X = rng.normal(size=(20, 3)) + 5
    Z = along(X, np.array([0.0, 2.0, 0.0]))
    np.testing.assert_allclose(Z[:, 1], X[:, 1])
    np.testing.assert_allclose(Z[:, [0, 2]], np.tile(X.mean(0)[[0, 2]], (20, 1)))


def test_solved_batch_problems_are_compared_by_their_number_of_pairs():
    note = "gap 0.{} %, largest loss 0.002, {} evaluations, D = 0.{}, passes at most {}e+06"
    rows = []
    for number, digits in enumerate(PAIRS):
        for k in (1, 3, 5):
            shared = {"options": {"digits": digits}, "measure": f"accuracy@{k}"}
            rows.append(_row("mnist_pair", "Euclidean", 0.95, **shared))
            rows.append(_row("mnist_pair", "POLA", 0.9, **shared, score="last"))
            for n_pairs in (1000, 3000)[: 1 + (digits == "49")]:
                value = 0.96 if number == 0 else 0.93
                given = {"parameters": {"n_pairs": n_pairs}, "score": "last", "step": 0}
                told = note.format(5 + number, 50 + number, 1 + number, 2 + number)
                rows.append(_row("mnist_pair", SOLVED, value, **shared, **given, note=told))
    text = "\n".join(threshold_part(rows))
    assert "| 1,000 | Euclidean | 1 / 0 / 2 (+1.00 ± 1.96)" in text
    assert "| 1,000 | one pass | 3 / 0 / 0 (-4.00 ± 1.96)" in text
    assert "| 3,000 | Euclidean | 0 / 0 / 1 (+2.00 ± nan)" in text
    assert "all 3 problems are solved: gaps of at most 0.7 %" in text
    assert "after 50 to 52 evaluations. D = |A|² + (b - 1)² is 0.1 to 0.3" in text
    assert "2e+06 to 4e+06" in text
