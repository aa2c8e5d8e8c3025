from typing import NamedTuple

SHARED: int

class MEGSetting(NamedTuple):
    rate: float
    relative: bool
    trace: float
    normalized: bool
    implicit: bool = False

def meg_pass(values, rows, total, Z, targets, setting): ...
def meg_matrix_pass(values, rows, total, instances, targets, setting): ...
def gathered(total, n): ...
