CLICKED: int
JUDGED: int
COMPARED: int
RATE: int
RATIO: int
PLACE: int
ABOVE: int
STEEP: int
ONE: int
ALONE_PLACE: int
ALONE_ABOVE: int
LEVEL: int
JUDGED_LEVEL: int
STEEPNESS: int
ALONE_STEEP: int
ALONE_NUISANCE: int
CLICKS: int
PASSES: int
MARGIN: int
JUDGEMENT: int
TIES: int
TRUST: int
UP: int
DOWN: int
TAU: int
VIEWS: int
PUBLISHED: int
SLIP: float
JUDGED_SLIP: float
WORST: float
BEST: float
BELIEF: float
OBSERVATIONS: float
STEP: float

def sigmoid(x: float) -> float: ...
def solve(A, x) -> None: ...
def publish(theta, numbers, ranks) -> None: ...
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
    numbers,
    ranks,
    known,
    pairs,
    told,
    wanted,
    margins,
    moved,
    gradient,
    slopes,
    alone_gradient,
    alone_slopes,
    room,
) -> None: ...
def follow_lists(starts, slots, fresh, left, wanted, rows, spread, vectors, sweeps) -> None: ...
def obey_vector(vector, better, gaps, margin, sweeps) -> None: ...
def obey_bonuses(bonuses, better, worse, gaps, margin, sweeps) -> None: ...
def decided_pairs(starts, gains, trusted, found) -> int: ...
def places_of(known, n, keys, places) -> None: ...
def take_slots(known, met, n, budget, keys, times, slots, fresh, ages) -> int: ...
