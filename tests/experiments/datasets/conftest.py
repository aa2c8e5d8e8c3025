import numpy as np
import pytest

from experiments.datasets.fetch import CACHE_VARIABLE, DATA_VARIABLE, data_folder


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory):
    """A cache folder for the whole run, so that no test writes to the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _isolated(own_cache):
    pass


@pytest.fixture(scope="session")
def need(own_cache):
    """Skip the test unless the data folder holds these files."""

    def check(*paths):
        folder = data_folder()
        if folder is None:
            pytest.skip(f"{DATA_VARIABLE} is not set")
        for path in paths:
            if not (folder / path).is_file():
                pytest.skip(f"{DATA_VARIABLE} has no {path}")

    return check


@pytest.fixture
def rng():
    return np.random.default_rng(0)
