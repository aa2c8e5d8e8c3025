"""Items to databases in batches: all of them, once, whoever writes and however often."""

import json

import numpy as np
import pytest

from similia import LEGO
from similia.distributed import VectorPath, export_items, exporting
from similia.persistence import save


class Shelf:
    """A database in memory, which may fail at one item."""

    def __init__(self):
        self.rows, self.batches, self.fails_at, self.made = {}, [], None, None

    def create(self, n_features, geometry, *, numbered):
        self.made = n_features, geometry, numbered

    def write(self, ids, vectors):
        if self.fails_at in ids:
            raise ConnectionError("gone")
        self.batches.append(len(ids))
        self.rows.update(zip(ids, vectors, strict=True))

    def close(self):
        pass


@pytest.fixture
def shelf(monkeypatch):
    found = Shelf()
    monkeypatch.setattr(exporting, "open_target", lambda *_: found)
    return found


@pytest.fixture
def items(tmp_path, rng):
    X = rng.normal(size=(250, 4)).astype(np.float32)
    np.save(tmp_path / "items.npy", X)
    return tmp_path, X


def export(folder, inline, *more, to="postgresql://me:secret@host/db", **options):
    options = {"batch": 40, "range_size": 100, "executor": inline, **options}
    return export_items(folder / "items.npy", to, "things", *more, work=folder / "work", **options)


def test_items_are_written_in_batches_and_none_is_lost(items, inline, shelf):
    folder, X = items
    assert export(folder, inline) == 250
    assert shelf.batches == [40, 40, 20, 40, 40, 20, 40, 10]
    assert shelf.made == (4, "inner_product", True)
    np.testing.assert_array_equal([shelf.rows[i] for i in range(250)], X)
    assert "secret" not in "".join(path.read_text() for path in (folder / "work").iterdir())


def test_an_export_that_failed_goes_on_from_what_is_finished(items, inline, shelf):
    folder, X = items
    shelf.fails_at = 150
    with pytest.raises(ConnectionError):
        export(folder, inline)
    shelf.fails_at, shelf.batches = None, []
    assert export(folder, inline) == 250
    assert sum(shelf.batches) == 100  # the first and the last range were finished
    np.testing.assert_array_equal([shelf.rows[i] for i in range(250)], X)


def test_a_metric_moves_the_items_and_ids_are_kept(items, inline, shelf, rng):
    folder, X = items
    (folder / "items.npy.ids").write_text("".join(f"item-{i}\n" for i in range(250)))
    metric = LEGO().learn(X, rng.integers(250, size=(99, 2)), rng.choice([-1, 1], size=99))
    save(metric, folder / "m.safetensors")
    export(folder, inline, folder / "m.safetensors")
    assert shelf.made == (4, "l2", False)
    moved = np.array([shelf.rows[f"item-{i}"] for i in range(250)])
    np.testing.assert_allclose(moved, metric.item_vectors(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "mysql://host"}, "export_items: to must be a postgresql:// URL or qdrant:"),
        ({"batch": 0}, "export_items: batch must be a positive integer"),
    ],
)
def test_bad_arguments_are_refused(items, inline, options, message):
    with pytest.raises(ValueError, match=message):
        export(items[0], inline, **options)
    assert not (items[0] / "work").exists()


def test_the_folder_of_another_export_is_refused(items, inline, shelf):
    folder, _ = items
    export(folder, inline)
    job = json.loads((folder / "work" / "job.json").read_text())
    assert job["export"] == ["postgresql://host/db", "things"]
    with pytest.raises(ValueError, match="holds the work of another task"):
        export(folder, inline, to="postgresql://me:secret@elsewhere/db")
    with pytest.raises(ValueError, match="holds the work of another task"):
        export(folder, inline, range_size=50)
    assert VectorPath(str(folder / "items.npy")).read().X.shape == (250, 4)
