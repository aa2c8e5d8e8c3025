import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Compilation on a first call takes longer than any example; speed is the business of benchmarks.
settings.register_profile(
    "similia", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
# Continuous integration tries the same examples every time; everyone else looks for new ones.
settings.register_profile("ci", settings.get_profile("similia"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "similia")


@pytest.fixture
def rng():
    return np.random.default_rng(20120626)
