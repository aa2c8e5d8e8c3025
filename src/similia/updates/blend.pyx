"""Blend: what lists that were shown, judged or compared say about relevance.

An item is relevant to a query with the probability ρ. A relevant item that is looked at is clicked
with the rate r₁, another with r₀; the place, and whether something was clicked above, say how
probably it is looked at. With what is remembered of the pair, m, before a list is learnt:

    logit ρ = level + (s β₀ + β - β₀)ᵀx + m,        A = log r₁/r₀,   B = log (1-r₀)/(1-r₁)
    m = (A·clicks - B·passes)/(1 + α(n - 1)),       n = max(clicks + passes·B/A, 1)
    P(click at place k) = e (r₀ + (r₁-r₀) ρ),       log e = -γ log k - κ (clicked above?)
    clicks += click,   passes += log((1-e r₀)/(1-e r₁))/B  where there is none
    θ = (logit r₁, A, γ, κ, s, α, level, β):   P += Jᵀ diag(1/μ(1-μ)) J,   θ += P⁻¹Jᵀ (click-μ)/(μ(1-μ))

The first line is Bayes' rule for each item. A pair has a click rate of its own, too, so its n
observations are alike and count as n/(1 + α(n-1)), as answers from one household do. θ takes one
online Newton step a list, within bounds. What a trusted person judged is the same with e = 1 and
known rates. A comparison is learnt by its margin, P(better) = ε/2 + (1-ε) σ(τ (logit of better -
logit of worse)). The start alone learns the same with β as it was, and of what was shown before
only that it was: evidence is how much better than that lists are predicted.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, exp, fabs, log, sqrt

# share of comparisons and of judgements that are slips
cdef double SLIP = 0.1
cdef double JUDGED_SLIP = 0.05
# bounds of the evidence: trust can come back soon, and can go again
cdef double WORST = -5.0, BEST = 20.0
# belief, before any evidence, that what was learnt ranks better: less than half, as lists that say
# nothing reach some log-likelihood by chance
cdef double BELIEF = 0.2
# observations of a pair that count at most; beyond, the older count less, as tastes change
cdef double OBSERVATIONS = 16.0
# least probability that an item is looked at, so that no click is impossible
cdef double LEAST_LOOK = 1e-4
# log odds that a comparison adds to the better item, and takes from the other, if unexpected
cdef double STEP = 1.0

# from Python, too
globals().update(SLIP=SLIP, JUDGED_SLIP=JUDGED_SLIP, WORST=WORST, BEST=BEST, BELIEF=BELIEF, OBSERVATIONS=OBSERVATIONS, STEP=STEP, LEAST_LOOK=LEAST_LOOK)


cpdef double sigmoid(double x) noexcept nogil:
    """1/(1 + exp(-x)), and neither 0 nor 1."""
    return 1.0 / (1.0 + exp(-min(max(x, -35.0), 35.0)))


cpdef void solve(double[:, ::1] A, double[::1] x) noexcept nogil:
    """Replace x by A⁻¹x for a small A > 0, whose lower triangle becomes its Cholesky factor."""
    cdef Py_ssize_t n = x.shape[0], i, j, k
    cdef double total
    for j in range(n):
        total = A[j, j]
        for k in range(j):
            total -= A[j, k] * A[j, k]
        A[j, j] = sqrt(max(total, 1e-300))
        for i in range(j + 1, n):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = total / A[j, j]
    for i in range(n):
        for k in range(i):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= A[k, i] * x[k]
        x[i] /= A[i, i]


cdef void fade(double[:, ::1] precision, const double[:, ::1] prior, double fading) noexcept nogil:
    """Let a precision fall back to its prior: what was learnt counts `fading` times as much."""
    cdef Py_ssize_t v, w
    for v in range(precision.shape[0]):
        for w in range(precision.shape[0]):
            precision[v, w] *= fading
        precision[v, v] += (1.0 - fading) / (prior[v, 1] * prior[v, 1])


cdef void add_observation(
    double[:, ::1] precision,
    double[::1] gradient,
    const double[::1] slopes,
    double pull,
    double information,
) noexcept nogil:
    """Add slopes·pull to the gradient, and information·slopes slopesᵀ to the lower triangle."""
    cdef Py_ssize_t v, w
    for v in range(gradient.shape[0]):
        gradient[v] += pull * slopes[v]
        if slopes[v] != 0.0:
            for w in range(v + 1):
                precision[v, w] += information * slopes[v] * slopes[w]


cdef void newton_step(
    double[::1] theta,
    double[:, ::1] precision,
    const double[:, ::1] prior,
    double[::1] gradient,
    double[:, ::1] room,
) noexcept nogil:
    """θ += P⁻¹g, within the bounds of the prior; of P the lower triangle counts, and g is lost."""
    cdef Py_ssize_t v, w
    for v in range(theta.shape[0]):
        for w in range(v + 1):
            room[v, w] = precision[w, v] = precision[v, w]
    solve(room, gradient)
    for v in range(theta.shape[0]):
        theta[v] = min(max(theta[v] + gradient[v], prior[v, 2]), prior[v, 3])


cpdef double trust(double evidence) noexcept nogil:
    """Share with which ranks what has this evidence: (p - b)/(1 - b), p the posterior of b.

    Nothing without evidence or against it.
    """
    cdef double odds = BELIEF * exp(evidence), p = odds / (odds + 1.0 - BELIEF)
    return max((p - BELIEF) / (1.0 - BELIEF), 0.0)


cpdef void publish(
    const double[::1] theta, const double[::1] evidence, double[::1] ranks
) noexcept nogil:
    """Copy what ranks for all queries: trust, what a click and a pass are worth, τ, α, weights."""
    cdef Py_ssize_t v
    cdef double high, low
    high = sigmoid(theta[RATE])
    low = high * exp(-theta[RATIO])
    ranks[TRUST] = trust(evidence[0])
    ranks[UP] = theta[RATIO]
    ranks[DOWN] = log((1.0 - low) / (1.0 - high))
    ranks[TAU] = theta[STEEP]
    ranks[ALPHA] = theta[OWN]
    for v in range(VIEWS, ranks.shape[0]):
        ranks[v] = theta[ONE + 1 + v - VIEWS]


cdef Py_ssize_t find_pair(
    const unsigned long long[:, ::1] known, Py_ssize_t slot, unsigned long long item
) noexcept nogil:
    """Place of an item among those remembered of a query, the free ones last; -1 if it is none."""
    cdef Py_ssize_t place
    for place in range(known.shape[1]):
        if known[slot, place] == item:
            return place
        if not known[slot, place]:
            break
    return -1


cdef Py_ssize_t place_of_pair(
    unsigned long long[:, ::1] known, double[:, :, ::1] pairs, Py_ssize_t slot, unsigned long long item
) noexcept nogil:
    """The same; a new one takes the place of whichever least is known of."""
    cdef double least = INFINITY, total
    cdef Py_ssize_t chosen = 0, place, kind
    for place in range(known.shape[1]):
        if known[slot, place] == item:
            return place
        if not known[slot, place]:
            chosen = place
            break
        total = observations(pairs, slot, place)
        if total < least:
            least, chosen = total, place
    known[slot, chosen] = item
    for kind in range(pairs.shape[2]):
        pairs[slot, chosen, kind] = 0.0
    return chosen


cdef double observations(
    const double[:, :, ::1] pairs, Py_ssize_t slot, Py_ssize_t place
) noexcept nogil:
    """How often a pair was observed, in clicks."""
    cdef double found
    found = pairs[slot, place, CLICKS] + pairs[slot, place, PASSES]
    return found + fabs(pairs[slot, place, MARGIN]) + fabs(pairs[slot, place, JUDGEMENT])


cdef void bound_pair(double[:, :, ::1] pairs, Py_ssize_t slot, Py_ssize_t place) noexcept nogil:
    """Let older observations of a pair count less, so that as many stay as may."""
    cdef Py_ssize_t kind
    cdef double total
    total = observations(pairs, slot, place)
    if total > OBSERVATIONS:
        for kind in range(TIES):
            pairs[slot, place, kind] *= OBSERVATIONS / total


cdef double remembered(
    const double[::1] pair, double up, double down, double alpha, double* slope
) noexcept nogil:
    """Log odds of what is remembered of a pair, and their slope by α."""
    cdef double others = max(pair[CLICKS] + pair[PASSES] * down / up - 1.0, 0.0)
    cdef double count = 1.0 + alpha * others
    cdef double found = (up * pair[CLICKS] - down * pair[PASSES]) / count
    slope[0] = -found * others / count
    return found + pair[MARGIN] + pair[JUDGEMENT]


def remembered_of(const double[:, ::1] pairs, const double[::1] ranks):
    """What ranks of pairs: clicks and comparisons as far as they are trusted, and judgements."""
    cdef double[::1] found = np.zeros(pairs.shape[0])
    cdef double unused, learnt
    cdef Py_ssize_t i
    for i in range(pairs.shape[0]):
        learnt = remembered(pairs[i], ranks[UP], ranks[DOWN], ranks[ALPHA], &unused)
        found[i] = ranks[TRUST] * learnt + (1 - ranks[TRUST]) * pairs[i, JUDGEMENT]
    return np.asarray(found)


cdef double looked_at(
    const double[::1] theta, double place, bint above, bint judged
) noexcept nogil:
    """Probability that an item at a place is looked at."""
    return 1.0 if judged else max(exp(-theta[PLACE] * place - theta[ABOVE] * above), LEAST_LOOK)


cdef double log_probability(double mu, double gain) noexcept nogil:
    """Logarithm of the probability of a click, or of none, or of something between."""
    return gain * log(mu) + (1 - gain) * log(1 - mu)


cdef double observe_list(
    Py_ssize_t begin,
    Py_ssize_t end,
    bint judged,
    double weight,
    const double[:] gains,
    const double[:] places,
    const double[:] orders,
    double first,
    const double[:, ::1] x,
    const double[::1] known,
    const double[::1] known_slopes,
    const unsigned char[::1] met,
    const double[::1] start,
    const double[::1] theta,
    double[:, ::1] precision,
    double[::1] gradient,
    double[::1] slopes,
) noexcept nogil:
    """Log-likelihood of a list by θ; its slopes go to the gradient and to the precision.

    Of items that were not met before, it is that beyond the weights of the start: rates and levels
    that were learnt in another order are no reason to rank otherwise.
    """
    cdef double high = sigmoid(theta[RATE]), low = high * exp(-theta[RATIO]), total = 0.0
    cdef double before, moved, others, look, rho, one, none, mu, slope, certain, gain
    cdef bint above
    cdef Py_ssize_t j, v, n_views = start.shape[0]
    for j in range(begin, end):
        before = moved = 0.0
        others = known[j] + theta[AGAIN] * met[j]
        for v in range(x.shape[1]):
            if 1 <= v <= n_views:
                before += start[v - 1] * x[j, v]
                moved += (theta[ONE + v] - start[v - 1]) * x[j, v]
            else:
                others += theta[ONE + v] * x[j, v]
        above = first < orders[j]
        look, rho = looked_at(theta, places[j], above, judged), sigmoid(theta[FALL] * before + moved + others)
        one = 1 - JUDGED_SLIP if judged else look * high
        none = JUDGED_SLIP if judged else look * low
        mu = none + (one - none) * rho
        slope = (one - none) * rho * (1 - rho)
        for v in range(x.shape[1]):
            slopes[ONE + v] = slope * x[j, v]
        slopes[RATE] = 0.0 if judged else mu * (1 - high)
        slopes[RATIO] = 0.0 if judged else -none * (1 - rho)
        slopes[PLACE] = 0.0 if judged else -mu * places[j]
        slopes[ABOVE] = 0.0 if judged else -mu * above
        slopes[AGAIN], slopes[FALL], slopes[STEEP] = slope * met[j], slope * before, 0.0
        slopes[OWN] = slope * known_slopes[j]
        certain, gain = weight / (mu * (1 - mu)), gains[j]
        add_observation(precision, gradient, slopes, certain * (gain - mu), certain)
        total += weight * log_probability(mu, gain)
        if not met[j]:
            rho = sigmoid(theta[FALL] * before + others)
            total -= weight * log_probability(none + (one - none) * rho, gain)
    return total


cdef double observe_comparison(
    Py_ssize_t better,
    double weight,
    const double[:, ::1] x,
    const double[::1] known,
    const double[::1] theta,
    double[:, ::1] precision,
    double[::1] gradient,
    double[::1] slopes,
    double* margin,
) noexcept nogil:
    """The same of a comparison, of an item and the next; the margin is what the weights say."""
    cdef double logit = 0.0, q, likelihood, slope, bend
    cdef Py_ssize_t v
    for v in range(theta.shape[0]):
        slopes[v] = 0.0
    for v in range(1, x.shape[1]):
        slopes[ONE + v] = theta[STEEP] * (x[better, v] - x[better + 1, v])
        logit += theta[ONE + v] * (x[better, v] - x[better + 1, v])
    margin[0] = theta[STEEP] * logit
    logit += known[better] - known[better + 1]
    slopes[STEEP] = logit
    q = sigmoid(theta[STEEP] * logit)
    likelihood = SLIP / 2 + (1 - SLIP) * q
    slope = (1 - SLIP) * q * (1 - q) / likelihood
    bend = max(slope * slope - slope * (1 - 2 * q), 0.0)
    add_observation(precision, gradient, slopes, weight * slope, weight * bend)
    return weight * log(likelihood)


def learn_lists(
    const Py_ssize_t[:] starts,
    const Py_ssize_t[:] kinds,
    const double[:] weights,
    const Py_ssize_t[:] slots,
    fresh,
    const double[:] left,
    const unsigned long long[:] items,
    const double[:] gains,
    const double[:] places,
    const double[:] orders,
    double[:, ::1] x,
    const double[::1] start,
    double fading,
    Py_ssize_t n_before,
    const double[:, ::1] prior,
    double[::1] theta,
    double[:, ::1] precision,
    const double[:, ::1] alone_prior,
    double[::1] alone,
    double[:, ::1] alone_precision,
    double[::1] evidence,
    double[::1] ranks,
    unsigned long long[:, ::1] known,
    double[:, :, ::1] pairs,
    double[:, ::1] told,
    double[::1] wanted,
    double[::1] margins,
):
    """Learn lists, one after the other.

    Rows of x are one, the views and the nuisances of what was shown. `places` and `orders` are
    logarithms of places, on their page and in the list; of a comparison the better item comes
    first. `slots` are where queries are remembered, or -1, `fresh` whether in place of another, and
    `left` the share that has not faded. To `wanted` goes what is remembered of each item
    afterwards, to `margins` what the weights made of each comparison before.
    """
    cdef const unsigned char[::1] new = np.ascontiguousarray(fresh).view(np.uint8)
    cdef Py_ssize_t p = theta.shape[0], n_views = start.shape[0], t, begin, end, slot, place, kind, j, v
    cdef double[::1] nothing = np.zeros(len(items)), moved = np.zeros(len(items))
    cdef double[::1] wanted_slopes = np.zeros(len(items))
    cdef unsigned char[::1] met = np.zeros(len(items), np.uint8)
    cdef double[::1] gradient = np.zeros(p), alone_gradient = np.zeros(p), slopes = np.zeros(p)
    cdef double[:, ::1] room = np.zeros((p, p))
    cdef double weight, high, low, up, down, alpha, mean, first, gained, look, odds, unused, logit
    cdef bint judged
    odds = log((1 - JUDGED_SLIP) / JUDGED_SLIP)
    with nogil:
        for t in range(kinds.shape[0]):
            begin, end, slot, weight = starts[t], starts[t + 1], slots[t], weights[t]
            if (n_before + t) % PUBLISHED == 0:
                publish(theta, evidence, ranks)
            if fading < 1.0:
                fade(precision, prior, fading)
                fade(alone_precision, alone_prior, fading)
                evidence[0] *= fading
            if slot >= 0:
                if new[t]:
                    for place in range(known.shape[1]):
                        known[slot, place] = 0
                    told[slot, 0] = told[slot, 1] = 0.0
                elif left[t] < 1.0:
                    for place in range(known.shape[1]):
                        for kind in range(TIES):
                            pairs[slot, place, kind] *= left[t]
                told[slot, 0] += 1.0
                told[slot, 1] += min(weight, 1.0)
            high = sigmoid(theta[RATE])
            low = high * exp(-theta[RATIO])
            up, down, alpha = theta[RATIO], log((1.0 - low) / (1.0 - high)), theta[OWN]
            for v in range(1, n_views + 1):  # of a list, only differences between its items count
                mean = 0.0
                for j in range(begin, end):
                    mean += x[j, v] / (end - begin)
                for j in range(begin, end):
                    x[j, v] -= mean
            first = INFINITY  # place of the first click
            for j in range(begin, end):
                wanted[j] = 0.0
                if slot >= 0:
                    place = find_pair(known, slot, items[j])
                    if place >= 0:
                        wanted[j] = remembered(pairs[slot, place], up, down, alpha, &wanted_slopes[j])
                        met[j] = 1
                if gains[j] > 0.0:
                    first = min(first, orders[j])
            for v in range(p):
                gradient[v] = alone_gradient[v] = 0.0
            if kinds[t] == COMPARED:
                gained = observe_comparison(
                    begin, weight, x, wanted, theta, precision, gradient, slopes, &margins[t]
                ) - observe_comparison(
                    begin, weight, x, nothing, alone, alone_precision, alone_gradient,
                    slopes, &unused,
                )
                logit = margins[t] + theta[STEEP] * (wanted[begin] - wanted[begin + 1])
                moved[begin] = STEP * weight * (1.0 - sigmoid(logit))
                moved[begin + 1] = -moved[begin]
            else:
                judged = kinds[t] == JUDGED
                gained = observe_list(
                    begin, end, judged, weight, gains, places, orders, first, x, wanted,
                    wanted_slopes, met, start, theta, precision, gradient, slopes,
                ) - observe_list(
                    begin, end, judged, weight, gains, places, orders, first, x, nothing,
                    nothing, met, start, alone, alone_precision, alone_gradient, slopes,
                )
                for j in range(begin, end):  # how surely the item was looked at and left
                    look = looked_at(theta, places[j], first < orders[j], judged)
                    moved[j] = log((1 - look * low) / (1 - look * high)) / down
            newton_step(theta, precision, prior, gradient, room)
            newton_step(alone, alone_precision, alone_prior, alone_gradient, room)
            evidence[0] = min(max(evidence[0] + gained, WORST), BEST)
            if slot < 0:
                continue
            for j in range(begin, end):
                place = place_of_pair(known, pairs, slot, items[j])
                if kinds[t] == COMPARED:
                    pairs[slot, place, MARGIN] += moved[j]
                elif kinds[t] == JUDGED:
                    pairs[slot, place, JUDGEMENT] += weight * (2 * gains[j] - 1) * odds
                else:
                    pairs[slot, place, CLICKS] += weight * gains[j]
                    pairs[slot, place, PASSES] += weight * (1 - gains[j]) * moved[j]
                bound_pair(pairs, slot, place)
                wanted[j] = remembered(pairs[slot, place], up, down, alpha, &unused)


def follow_lists(
    const Py_ssize_t[:] starts,
    const Py_ssize_t[:] slots,
    fresh,
    const double[:] left,
    const double[:] wanted,
    const floating[:, ::1] rows,
    const floating[:, ::1] spread,
    floating[:, ::1] vectors,
    Py_ssize_t sweeps,
):
    """Move each query's vector by the least that gives its items the scores that are wanted.

    `spread` are the rows times the covariance of a vector before any feedback: of all vectors that
    say the same of these items, one that leaves the others in place is likely.
    """
    cdef const unsigned char[::1] new = np.ascontiguousarray(fresh).view(np.uint8)
    cdef double[::1] lengths = np.vecdot(rows, spread).astype(np.float64)
    cdef Py_ssize_t t, slot, d, j
    cdef floating score, step
    with nogil:
        for t in range(slots.shape[0]):
            slot = slots[t]
            if slot < 0:
                continue
            for d in range(vectors.shape[1]):
                vectors[slot, d] *= <floating>(0.0 if new[t] else left[t])
            for _ in range(sweeps):
                for j in range(starts[t], starts[t + 1]):
                    if lengths[j] > 1e-12:
                        score = 0.0
                        for d in range(vectors.shape[1]):
                            score += rows[j, d] * vectors[slot, d]
                        step = <floating>((wanted[j] - score) / lengths[j])
                        for d in range(vectors.shape[1]):
                            vectors[slot, d] += step * spread[j, d]


def obey_vector(
    floating[::1] vector,
    const floating[:, ::1] better,
    const double[:] gaps,
    double margin,
    Py_ssize_t sweeps,
):
    """Move a vector by the least that puts its decisions above the margin, the newest last.

    `better` are differences between items, better less worse, and `gaps` what else is between them.
    """
    cdef Py_ssize_t i, d
    cdef double length, score, lacking
    cdef bint moved
    with nogil:
        for _ in range(sweeps):
            moved = False
            for i in range(better.shape[0]):
                length = score = 0.0
                for d in range(vector.shape[0]):
                    length += better[i, d] * better[i, d]
                    score += better[i, d] * vector[d]
                lacking = margin - gaps[i] - score
                if lacking > 0.0 and length > 1e-12:
                    moved = True
                    for d in range(vector.shape[0]):
                        vector[d] += <floating>(lacking * 1.0001 / length * better[i, d])
            if not moved:
                break


def obey_bonuses(
    double[::1] bonuses,
    const Py_ssize_t[:] better,
    const Py_ssize_t[:] worse,
    const double[:] gaps,
    double margin,
    Py_ssize_t sweeps,
):
    """The same for bonuses of items, by their places; a place of -1 is an average item's."""
    cdef Py_ssize_t i
    cdef double ahead, lacking, part
    cdef bint moved
    with nogil:
        for _ in range(sweeps):
            moved = False
            for i in range(better.shape[0]):
                ahead = bonuses[better[i]] if better[i] >= 0 else 0.0
                lacking = margin - gaps[i] - ahead + bonuses[worse[i]]
                if lacking > 0.0 and better[i] != worse[i]:
                    moved = True
                    part = 0.5 if better[i] >= 0 else 1.0
                    bonuses[worse[i]] -= part * lacking * 1.0001
                    if better[i] >= 0:
                        bonuses[better[i]] += part * lacking * 1.0001
            if not moved:
                break


def decided_pairs(
    const Py_ssize_t[:] starts, const double[:] gains, trusted, Py_ssize_t[:, ::1] found
):
    """Each item of a trusted list above each one of a smaller gain: lists, and the two items.

    If no item has a gain, "none of these", all are below something else: -1. Returns how many.
    """
    cdef const unsigned char[::1] sure = np.ascontiguousarray(trusted).view(np.uint8)
    cdef Py_ssize_t t, i, j, begin, end, total = 0
    cdef bint nothing
    for t in range(sure.shape[0]):
        if not sure[t]:
            continue
        begin, end = starts[t], starts[t + 1]
        nothing = True
        for i in range(begin, end):
            nothing = nothing and gains[i] == 0.0
        for i in range(begin, begin + 1 if nothing else end):
            for j in range(begin, end):
                if nothing or gains[i] > gains[j]:
                    found[0, total], found[1, total], found[2, total] = t, i, j
                    if nothing:
                        found[1, total] = -1
                    total += 1
    return total


def places_of(
    const unsigned long long[:] known,
    Py_ssize_t n,
    const unsigned long long[:] keys,
    Py_ssize_t[:] places,
):
    """Fill in where queries are among the first n that are known."""
    cdef Py_ssize_t t, slot
    with nogil:
        for t in range(keys.shape[0]):
            for slot in range(n):
                if known[slot] == keys[t]:
                    places[t] = slot
                    break


def take_slots(
    unsigned long long[:] known,
    Py_ssize_t[:] met,
    Py_ssize_t n,
    Py_ssize_t budget,
    const unsigned long long[:] keys,
    const Py_ssize_t[:] times,
    Py_ssize_t[:] slots,
    fresh,
    Py_ssize_t[:] ages,
):
    """Fill in where queries are remembered, one after the other; return how many then are.

    A new one takes a free place, and beyond the budget that of the one met longest ago.
    """
    cdef unsigned char[::1] new = fresh.view(np.uint8)
    cdef Py_ssize_t t, slot, place
    for t in range(keys.shape[0]):
        slot = -1
        for place in range(n):
            if known[place] == keys[t]:
                slot = place
                break
        if slot < 0:
            new[t] = True
            if n < budget:
                slot, n = n, n + 1
            else:
                slot = 0
                for place in range(n):
                    if met[place] < met[slot]:
                        slot = place
            known[slot] = keys[t]
            met[slot] = times[t]
        slots[t] = slot
        ages[t] = times[t] - met[slot]
        met[slot] = times[t]
    return n
