import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app


@pytest.fixture
def run():
    """Run a command in this process; the exit code must be as expected."""

    def call(*args, code=0, stdin=None):
        words = [str(arg) for arg in args]
        result = CliRunner().invoke(app, words, prog_name="similia", input=stdin)
        assert result.exit_code == code, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return call


@pytest.fixture
def files(tmp_path):
    """A folder with vectors and feedback: rows of a class are better than others."""
    rng = np.random.default_rng(3)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 6)) + 2 * y[:, None]
    query, other = rng.integers(40, size=(2, 400))
    better = np.where(y[other] == y[query], other, (other + 1) % 40)
    triplets = np.column_stack([query, better, np.where(better == other, (other + 1) % 40, other)])
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "feedback.npy", triplets)
    header = "query,better,worse"
    path = tmp_path / "feedback.csv"
    np.savetxt(path, triplets, "%d", delimiter=",", header=header, comments="")
    return tmp_path
