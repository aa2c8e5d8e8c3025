import numpy as np
from numpy.typing import NDArray

from similia.contract import Matrix

KEY_SEED: int

def row_keys(X: Matrix) -> NDArray[np.uint64]: ...
