"""Evaluation in parts: the values of a single one, bit for bit."""

import numpy as np
import pytest

from similia import OASIS, evaluate
from similia.distributed import evaluate_parts
from similia.files import read_vectors
from similia.persistence import save
from similia.retrieval import Evaluation
from similia.trust import evaluate_file


@pytest.fixture
def judged(tmp_path, rng):
    """Vectors with many exact ties, a model, and judgements of every kind."""
    X = rng.normal(size=(1500, 5)).astype(np.float32)
    X[500:1000] = X[:500]
    np.save(tmp_path / "x.npy", X)
    y = rng.integers(12, size=1500)
    model = OASIS().learn(X, rng.integers(1500, size=(300, 3)))
    save(model, tmp_path / "m.safetensors")
    kinds = {
        "labels": ("row,label", np.column_stack([np.arange(1500), y])),
        "grades": ("query,item,relevance", np.column_stack([
            np.repeat(np.arange(1300), 3), rng.integers(1500, size=3900),
            rng.integers(3, size=3900)])),
        "triplets": ("query,better,worse", rng.integers(1500, size=(40_000, 3))),
        "pairs": ("a,b,label", np.column_stack([
            rng.integers(100, size=(3000, 2)), rng.choice([-1, 1], size=3000)])),
    }  # fmt: skip
    for kind, (header, rows) in kinds.items():
        text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
        (tmp_path / f"{kind}.csv").write_text(f"{header}\n{text}\n")
    return tmp_path, model


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("kind", ["labels", "grades", "triplets", "pairs"])
def test_parts_are_the_whole_to_the_last_bit(judged, inline, kind, parts):
    folder, model = judged
    path = folder / f"{kind}.csv"
    whole = evaluate_file({"plain": "cosine", "own": model}, read_vectors(folder / "x.npy"), path)
    found = evaluate_parts(
        {"plain": "cosine", "own": model if parts == 1 else folder / "m.safetensors"},
        folder / "x.npy", path, work=folder / "work", executor=inline, parts=parts,
    )  # fmt: skip
    for name, expected in whole.items():
        np.testing.assert_array_equal(found[name].n_relevant, expected.n_relevant)
        assert found[name].n_items == expected.n_items
        assert found[name].per_query.keys() == expected.per_query.keys()
        for measure, values in expected.per_query.items():
            np.testing.assert_array_equal(found[name].per_query[measure], values)


def test_parts_must_be_all_those_of_one_evaluation(rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    one = evaluate("cosine", X, labels=y)
    with pytest.raises(ValueError, match="joined: parts must be all those of one evaluation"):
        Evaluation.joined([one, one])
    for part in [(2, 2), (-1, 3), (0, 0)]:
        with pytest.raises(ValueError, match="evaluate: part must be"):
            evaluate("cosine", X, labels=y, part=part)


def test_a_folder_of_another_evaluation_is_refused(judged, inline):
    folder, _ = judged
    given = {"work": folder / "work", "executor": inline}
    evaluate_parts({"plain": "cosine"}, folder / "x.npy", folder / "pairs.csv", **given)
    with pytest.raises(ValueError, match="holds the work of another task"):
        evaluate_parts({"plain": "cosine"}, folder / "x.npy", folder / "triplets.csv", **given)
