import numpy as np
import pytest


@pytest.fixture(params=[0, 1, 2])
def rng(request):
    return np.random.default_rng(request.param)
