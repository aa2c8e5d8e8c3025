CLICKED: int
JUDGED: int
COMPARED: int
RATE: int
RATIO: int
PLACE: int
ABOVE: int
AGAIN: int
FALL: int
STEEP: int
OWN: int
ONE: int
CLICKS: int
PASSES: int
MARGIN: int
JUDGEMENT: int
TIES: int
TRUST: int
UP: int
DOWN: int
TAU: int
ALPHA: int
VIEWS: int
PUBLISHED: int
SLIP: float
JUDGED_SLIP: float
WORST: float
BEST: float
BELIEF: float
OBSERVATIONS: float
LEAST_LOOK: float
STEP: float

def sigmoid(x: float) -> float: ...
def solve(A, x) -> None: ...
def trust(evidence: float) -> float: ...
def publish(theta, evidence, ranks) -> None: ...
def remembered_of(pairs, ranks): ...
def learn_lists(
    starts,
    kinds,
    weights,
    slots,
    fresh,
    left,
    items,
    gains,
    places,
    orders,
    x,
    start,
    fading,
    n_before,
    prior,
    theta,
    precision,
    alone_prior,
    alone,
    alone_precision,
    evidence,
    ranks,
    known,
    pairs,
    told,
    wanted,
    margins,
) -> None: ...
def follow_lists(starts, slots, fresh, left, wanted, rows, spread, vectors, sweeps) -> None: ...
def obey_vector(vector, better, gaps, margin, sweeps) -> None: ...
def obey_bonuses(bonuses, better, worse, gaps, margin, sweeps) -> None: ...
def decided_pairs(starts, gains, trusted, found) -> int: ...
def places_of(known, n, keys, places) -> None: ...
def take_slots(known, met, n, budget, keys, times, slots, fresh, ages) -> int: ...
