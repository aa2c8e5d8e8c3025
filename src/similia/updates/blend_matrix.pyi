WEIGHT: int
PRECISION: int
BEHIND: int
TURNED: int
RANKS: int
COUNT: int
LARGEST: float
ALARM: float

def matrix_pass(W, Lambda, Omega, Q, P, offsets, weights): ...
def learn_weight(scores, offsets, weights, numbers) -> bool: ...
