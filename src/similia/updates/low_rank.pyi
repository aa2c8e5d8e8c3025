from collections.abc import Sequence

from similia.contract import Array

def low_rank_pass(
    B: Array,
    C: Array,
    K: Array,
    N: Array,
    used: int,
    t: int,
    start: int,
    base: Array,
    Q: Array,
    P: Array,
    aggressiveness: float,
) -> tuple[int, int, int]: ...
def compressed(
    B: Array, C: Array, cores: Sequence[Array], keep: int
) -> tuple[Array, Array, list[Array]]: ...
