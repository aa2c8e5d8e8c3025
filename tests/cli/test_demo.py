import numpy as np
import pytest

from similia import load
from similia.cli.digits import two_digits
from similia.plotting import Neighbors, retrieval_figure


def test_demo_shows_before_beside_after_and_leaves_its_files(run, tmp_path):
    result = run("demo", "--output", tmp_path / "out", "--triplets", 2000)
    for words in ("cosine", "(before)", "Blend", "precision@10", "map", "95 % interval"):
        assert words in result.stdout
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert load(tmp_path / "out" / "demo.safetensors").n_seen_ == 2000
    assert str(tmp_path / "out" / "demo.png") in result.stdout.replace("\n", "")


def test_demo_tests_on_pictures_it_has_not_learnt_from():
    task = two_digits(seed=0)
    assert len(task.train) + len(task.test) == 1797
    train, test = ({row[:64].tobytes() for row in half} for half in (task.train, task.test))
    assert not train & test
    np.testing.assert_allclose(np.linalg.norm(task.test, axis=1), 1)


@pytest.mark.parametrize("n_rows", [1, 3])
def test_figure_has_a_curve_for_each_name_and_a_frame_for_each_picture(n_rows):
    curves = {"base": (np.array([1, 10]), np.array([0.5, 0.4])), "after": ([1, 10], [0.9, 0.8])}
    row = Neighbors("base", np.eye(3), [np.eye(3), np.ones((3, 3))], [True, False])
    figure = retrieval_figure(curves, [row] * n_rows)
    assert len(figure.axes) == 1 + 3 * n_rows
    assert [line.get_label() for line in figure.axes[0].lines] == ["base", "after"]


def test_figure_without_rows_is_the_curves_alone():
    curves = {"base": (np.array([1, 10]), np.array([0.5, 0.4]))}
    assert len(retrieval_figure(curves, []).axes) == 1
