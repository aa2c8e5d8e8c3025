# kinds of lists: clicked, judged by a trusted person, and two items of which one is better
cpdef enum:
    CLICKED = 0
    JUDGED = 1
    COMPARED = 2
# places in θ before the weights of one, of the views and of the nuisances; STEEP is τ
cpdef enum:
    RATE = 0
    RATIO = 1
    PLACE = 2
    ABOVE = 3
    STEEP = 4
    ONE = 5
# places in what the start alone says of clicks, before the weights of the nuisances; the start has
# a level for clicks and one for judgements, and a steepness for both and one for comparisons
cpdef enum:
    ALONE_PLACE = 0
    ALONE_ABOVE = 1
    LEVEL = 2
    JUDGED_LEVEL = 3
    STEEPNESS = 4
    ALONE_STEEP = 5
    ALONE_NUISANCE = 6
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
    VIEWS = 4
# lists between two publications of what ranks for all queries
cpdef enum:
    PUBLISHED = 16

cdef double SLIP, WORST, BEST


cpdef double sigmoid(double x) noexcept nogil
cdef double trust(double evidence) noexcept nogil
