# kinds of lists: clicked, judged by a trusted person, and two items of which one is better
cpdef enum:
    CLICKED = 0
    JUDGED = 1
    COMPARED = 2
# places in θ before the weights of one, of the views and of the nuisances; AGAIN is for what was
# shown for the query before, FALL is s, STEEP is τ, OWN is α
cpdef enum:
    RATE = 0
    RATIO = 1
    PLACE = 2
    ABOVE = 3
    AGAIN = 4
    FALL = 5
    STEEP = 6
    OWN = 7
    ONE = 8
# what is kept of a pair: clicks, passes, log odds by comparisons and by judgements, and ties
cpdef enum:
    CLICKS = 0
    PASSES = 1
    MARGIN = 2
    JUDGEMENT = 3
    TIES = 4
# places in what ranks, before the weights of the views
cpdef enum:
    TRUST = 0
    UP = 1
    DOWN = 2
    TAU = 3
    ALPHA = 4
    VIEWS = 5
# lists between two publications of what ranks for all queries
cpdef enum:
    PUBLISHED = 16

cdef double SLIP, WORST, BEST


cpdef double sigmoid(double x) noexcept nogil
cpdef double trust(double evidence) noexcept nogil
