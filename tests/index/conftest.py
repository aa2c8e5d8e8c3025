import numpy as np
import pytest

from similia.exceptions import MissingExtraError
from similia.index.backends import BACKENDS, backend_class


@pytest.fixture(params=BACKENDS)
def backend(request):
    try:
        backend_class("test", request.param)
    except MissingExtraError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def Z(rng):
    Z = rng.normal(size=(400, 12)).astype(np.float32)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)
