"""Blend: what lists that were shown, judged or compared say about relevance.

An item is relevant to a query with the probability ρ. A relevant item that is looked at is clicked
with the rate r₁, another with r₀; the place, and whether something was clicked above, say how
probably it is looked at. With what is remembered of the pair, m, before a list is learnt:

    logit ρ = βᵀx + m,   m = A·clicks - B·passes,   A = log r₁/r₀,   B = log (1-r₀)/(1-r₁)
    P(click at place k) = e (r₀ + (r₁-r₀) ρ),       log e = -γ log k - κ (clicked above?)
    clicks += click,   passes += log((1-e r₀)/(1-e r₁))/B  where there is none
    θ = (logit r₁, A, γ, κ, β):   P += Jᵀ diag(1/μ(1-μ)) J,   θ += P⁻¹Jᵀ (click-μ)/(μ(1-μ))

The first line is Bayes' rule for each item. θ takes one online Newton step a list, within bounds.
What a trusted person judged is the same with e = 1 and known rates. A comparison is learnt by its
margin, P(better) = ε/2 + (1-ε) σ(τ (logit of better - logit of worse)).
"""

import numpy as np

from similia.linalg.compiled import compiled

#: kinds of lists: clicked, judged by a trusted person, and two items of which one is better
CLICKED, JUDGED, COMPARED = range(3)
#: places in θ before the weights of one, of the views and of the nuisances; STEEP is τ
RATE, RATIO, PLACE, ABOVE, STEEP, ONE = range(6)
#: places in what the start alone says of clicks, before the weights of the nuisances; the start has
#: a level for clicks and one for judgements, and a steepness for both and one for comparisons
ALONE_PLACE, ALONE_ABOVE, LEVEL, JUDGED_LEVEL, STEEPNESS, ALONE_STEEP, ALONE_NUISANCE = range(7)
#: what is kept of a pair: clicks, passes, log odds by comparisons and by judgements, and ties
CLICKS, PASSES, MARGIN, JUDGEMENT, TIES = range(5)
#: places in what ranks, before the weights of the views
TRUST, UP, DOWN, TAU, VIEWS = range(5)
#: share of comparisons and of judgements that are slips
SLIP = 0.1
JUDGED_SLIP = 0.05
#: lists between two publications of what ranks for all queries
PUBLISHED = 16
#: bounds of the evidence: trust can come back soon, and can go again
WORST, BEST = -5.0, 20.0
#: belief, before any evidence, that what was learnt ranks better; lists that say nothing reach some
#: log-likelihood by chance
BELIEF = 0.1
#: observations of a pair that count at most; beyond, the older count less, as tastes change
OBSERVATIONS = 16.0
#: log odds that a comparison adds to the better item, and takes from the other, if unexpected
STEP = 1.0


@compiled
def sigmoid(x):
    """1/(1 + exp(-x)), and neither 0 nor 1."""
    return 1.0 / (1.0 + np.exp(-min(max(x, -35.0), 35.0)))


@compiled
def solve(A, x):
    """Replace x by A⁻¹x for a small A > 0, whose lower triangle becomes its Cholesky factor."""
    n = len(x)
    for j in range(n):
        total = A[j, j]
        for k in range(j):
            total -= A[j, k] * A[j, k]
        A[j, j] = np.sqrt(max(total, 1e-300))
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


@compiled
def fade(precision, prior, fading):
    """Let a precision fall back to its prior: what was learnt counts `fading` times as much."""
    for v in range(len(precision)):
        for w in range(len(precision)):
            precision[v, w] *= fading
        precision[v, v] += (1.0 - fading) / (prior[v, 1] * prior[v, 1])


@compiled
def add_observation(precision, gradient, slopes, pull, information):
    """Add slopes·pull to the gradient, and information·slopes slopesᵀ to the precision."""
    for v in range(len(gradient)):
        gradient[v] += pull * slopes[v]
        if slopes[v] != 0.0:
            for w in range(len(gradient)):
                precision[v, w] += information * slopes[v] * slopes[w]


@compiled
def newton_step(theta, precision, prior, gradient, room):
    """θ += P⁻¹g, within the bounds of the prior; the gradient is lost."""
    for v in range(len(theta)):
        for w in range(v + 1):
            room[v, w] = precision[v, w]
    solve(room, gradient)
    for v in range(len(theta)):
        theta[v] = min(max(theta[v] + gradient[v], prior[v, 2]), prior[v, 3])


@compiled
def trust(evidence):
    """Share with which ranks what has this evidence: (p - b)/(1 - b), p the posterior of b.

    Nothing without evidence or against it.
    """
    odds = BELIEF * np.exp(evidence)
    p = odds / (odds + 1.0 - BELIEF)
    return max((p - BELIEF) / (1.0 - BELIEF), 0.0)


@compiled
def publish(theta, numbers, ranks):
    """Copy what ranks for all queries: trust, what a click and a pass are worth, τ, and weights."""
    high = sigmoid(theta[RATE])
    low = high * np.exp(-theta[RATIO])
    ranks[TRUST] = trust(numbers[0])
    ranks[UP] = theta[RATIO]
    ranks[DOWN] = np.log((1.0 - low) / (1.0 - high))
    ranks[TAU] = theta[STEEP]
    for v in range(VIEWS, len(ranks)):
        ranks[v] = theta[ONE + 1 + v - VIEWS]


@compiled
def find_pair(known, slot, item):
    """Place of an item among those remembered of a query; -1 if it is none."""
    for place in range(known.shape[1]):
        if known[slot, place] == item:
            return place
    return -1


@compiled
def place_of_pair(known, pairs, slot, item):
    """The same; a new one takes the place of whichever least is known of."""
    least, chosen = np.inf, 0
    for place in range(known.shape[1]):
        if known[slot, place] == item:
            return place
        total = observations(pairs, slot, place) if known[slot, place] else -1.0
        if total < least:
            least, chosen = total, place
    known[slot, chosen] = item
    for kind in range(pairs.shape[2]):
        pairs[slot, chosen, kind] = 0.0
    return chosen


@compiled
def observations(pairs, slot, place):
    """How often a pair was observed, in clicks."""
    found = pairs[slot, place, CLICKS] + pairs[slot, place, PASSES]
    return found + abs(pairs[slot, place, MARGIN]) + abs(pairs[slot, place, JUDGEMENT])


@compiled
def bound_pair(pairs, slot, place):
    """Let older observations of a pair count less, so that as many stay as may."""
    total = observations(pairs, slot, place)
    if total > OBSERVATIONS:
        for kind in range(TIES):
            pairs[slot, place, kind] *= OBSERVATIONS / total


@compiled
def remembered(pairs, slot, place, up, down):
    """Log odds of what is remembered of a pair."""
    found = up * pairs[slot, place, CLICKS] - down * pairs[slot, place, PASSES]
    return found + pairs[slot, place, MARGIN] + pairs[slot, place, JUDGEMENT]


@compiled
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
):
    """Learn lists, one after the other.

    Rows of x are one, the views and the nuisances of what was shown; `start` are the weights before
    any feedback. `places` and `orders` are logarithms of places, on their page and in the list; of
    a comparison the better item comes first. `slots` are where queries are remembered, or -1,
    `fresh` whether in place of another, and `left` the share that has not faded. To `wanted` goes
    what is remembered of each item afterwards, to `margins` what the weights made of each
    comparison before. The last arrays are room for steps.
    """
    p, k, n_views = len(theta), len(alone), len(start)
    for t in range(len(kinds)):
        begin, end, slot, weight = starts[t], starts[t + 1], slots[t], weights[t]
        if (n_before + t) % PUBLISHED == 0:
            publish(theta, numbers, ranks)
        if fading < 1.0:
            fade(precision, prior, fading)
            fade(alone_precision, alone_prior, fading)
            numbers[0] *= fading
        if slot >= 0:
            if fresh[t]:
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
        low = high * np.exp(-theta[RATIO])
        up, down = theta[RATIO], np.log((1.0 - low) / (1.0 - high))
        for v in range(1, n_views + 1):  # of a list, only differences between its items count
            mean = 0.0
            for j in range(begin, end):
                mean += x[j, v] / (end - begin)
            for j in range(begin, end):
                x[j, v] -= mean
        first = np.inf  # place of the first click
        for j in range(begin, end):
            wanted[j] = 0.0
            if slot >= 0:
                place = find_pair(known, slot, items[j])
                if place >= 0:
                    wanted[j] = remembered(pairs, slot, place, up, down)
            if gains[j] > 0.0:
                first = min(first, orders[j])
        for v in range(p):
            gradient[v] = 0.0
        for v in range(k):
            alone_gradient[v] = 0.0
        gained = 0.0
        if kinds[t] == COMPARED:
            logit, base = wanted[begin] - wanted[begin + 1], 0.0
            margins[t] = 0.0
            for v in range(p):
                slopes[v] = 0.0
            for v in range(k):
                alone_slopes[v] = 0.0
            for v in range(1, x.shape[1]):
                gap = x[begin, v] - x[begin + 1, v]
                slopes[ONE + v] = theta[STEEP] * gap
                margins[t] += theta[STEEP] * theta[ONE + v] * gap
                logit += theta[ONE + v] * gap
                if v <= n_views:
                    alone_slopes[ALONE_STEEP] += start[v - 1] * gap
                else:
                    alone_slopes[ALONE_NUISANCE + v - 1 - n_views] = gap
            slopes[STEEP] = logit
            logit *= theta[STEEP]
            for v in range(k):
                base += alone[v] * alone_slopes[v]
            for which in range(2):
                q = sigmoid(base if which else logit)
                likelihood = SLIP / 2 + (1 - SLIP) * q
                slope = (1 - SLIP) * q * (1 - q) / likelihood
                bend = slope * slope - slope * (1 - 2 * q)
                if which:
                    gained -= weight * np.log(likelihood)
                    add_observation(
                        alone_precision,
                        alone_gradient,
                        alone_slopes,
                        weight * slope,
                        weight * max(bend, 0.0),
                    )
                else:
                    gained += weight * np.log(likelihood)
                    add_observation(
                        precision, gradient, slopes, weight * slope, weight * max(bend, 0.0)
                    )
            moved[begin] = STEP * weight * (1.0 - sigmoid(logit))
            moved[begin + 1] = -moved[begin]
        else:
            judged = kinds[t] == JUDGED
            for j in range(begin, end):
                logit, base = wanted[j], 0.0
                for v in range(x.shape[1]):
                    logit += theta[ONE + v] * x[j, v]
                    if 1 <= v <= n_views:
                        base += start[v - 1] * x[j, v]
                above = 1.0 if first < orders[j] else 0.0
                look = alone_look = 1.0
                if not judged:
                    look = np.exp(-theta[PLACE] * places[j] - theta[ABOVE] * above)
                    alone_look = np.exp(
                        -alone[ALONE_PLACE] * places[j] - alone[ALONE_ABOVE] * above
                    )
                rho = sigmoid(logit)
                one, none = (1 - JUDGED_SLIP, JUDGED_SLIP) if judged else (look * high, look * low)
                mu = none + (one - none) * rho
                mu = min(max(mu, 1e-5), 1 - 1e-5)
                slope = (one - none) * rho * (1 - rho)
                for v in range(x.shape[1]):
                    slopes[ONE + v] = slope * x[j, v]
                slopes[STEEP] = 0.0
                slopes[RATE] = 0.0 if judged else mu * (1 - high)
                slopes[RATIO] = 0.0 if judged else -none * (1 - rho)
                slopes[PLACE] = 0.0 if judged else -mu * places[j]
                slopes[ABOVE] = 0.0 if judged else -mu * above
                certain = weight / (mu * (1 - mu))
                gain = gains[j]
                add_observation(precision, gradient, slopes, certain * (gain - mu), certain)
                gained += weight * (gain * np.log(mu) + (1 - gain) * np.log(1 - mu))
                # the start alone
                level = JUDGED_LEVEL if judged else LEVEL
                logit = alone[level] + alone[STEEPNESS] * base
                for v in range(n_views + 1, x.shape[1]):
                    logit += alone[ALONE_NUISANCE + v - 1 - n_views] * x[j, v]
                rho = sigmoid(logit)
                one, none = (1 - JUDGED_SLIP, JUDGED_SLIP) if judged else (alone_look, 0.0)
                mu = none + (one - none) * rho
                mu = min(max(mu, 1e-5), 1 - 1e-5)
                slope = (one - none) * rho * (1 - rho)
                for v in range(k):
                    alone_slopes[v] = 0.0
                alone_slopes[level] = slope
                alone_slopes[STEEPNESS] = slope * base
                for v in range(n_views + 1, x.shape[1]):
                    alone_slopes[ALONE_NUISANCE + v - 1 - n_views] = slope * x[j, v]
                if not judged:
                    alone_slopes[ALONE_PLACE] = -mu * places[j]
                    alone_slopes[ALONE_ABOVE] = -mu * above
                certain = weight / (mu * (1 - mu))
                add_observation(
                    alone_precision, alone_gradient, alone_slopes, certain * (gain - mu), certain
                )
                gained -= weight * (gain * np.log(mu) + (1 - gain) * np.log(1 - mu))
                # how surely the item was looked at and left
                moved[j] = 1.0
                if not judged:
                    moved[j] = np.log((1 - look * low) / (1 - look * high)) / down
        newton_step(theta, precision, prior, gradient, room)
        newton_step(alone, alone_precision, alone_prior, alone_gradient, room)
        numbers[0] = min(max(numbers[0] + gained, WORST), BEST)
        if slot < 0:
            continue
        for j in range(begin, end):
            place = place_of_pair(known, pairs, slot, items[j])
            if kinds[t] == COMPARED:
                pairs[slot, place, MARGIN] += moved[j]
            elif kinds[t] == JUDGED:
                odds = np.log((1 - JUDGED_SLIP) / JUDGED_SLIP)
                pairs[slot, place, JUDGEMENT] += weight * (2 * gains[j] - 1) * odds
            else:
                pairs[slot, place, CLICKS] += weight * gains[j]
                pairs[slot, place, PASSES] += weight * (1 - gains[j]) * moved[j]
            bound_pair(pairs, slot, place)
            wanted[j] = remembered(pairs, slot, place, up, down)


@compiled
def follow_lists(starts, slots, fresh, left, wanted, rows, spread, vectors, sweeps):
    """Move each query's vector by the least that gives its items the scores that are wanted.

    `spread` are the rows times the covariance of a vector before any feedback: of all vectors that
    say the same of these items, one that leaves the others in place is likely.
    """
    for t in range(len(slots)):
        slot = slots[t]
        if slot < 0:
            continue
        for d in range(vectors.shape[1]):
            vectors[slot, d] *= 0.0 if fresh[t] else left[t]
        for _ in range(sweeps):
            for j in range(starts[t], starts[t + 1]):
                score = length = 0.0
                for d in range(vectors.shape[1]):
                    score += rows[j, d] * vectors[slot, d]
                    length += rows[j, d] * spread[j, d]
                if length > 1e-12:
                    step = (wanted[j] - score) / length
                    for d in range(vectors.shape[1]):
                        vectors[slot, d] += step * spread[j, d]


@compiled
def obey_vector(vector, better, gaps, margin, sweeps):
    """Move a vector by the least that puts its decisions above the margin, the newest last.

    `better` are differences between items, better less worse, and `gaps` what else is between them.
    """
    for _ in range(sweeps):
        moved = False
        for i in range(len(better)):
            length = score = 0.0
            for d in range(len(vector)):
                length += better[i, d] * better[i, d]
                score += better[i, d] * vector[d]
            short = margin - gaps[i] - score
            if short > 0.0 and length > 1e-12:
                moved = True
                for d in range(len(vector)):
                    vector[d] += short * 1.0001 / length * better[i, d]
        if not moved:
            break


@compiled
def obey_bonuses(bonuses, better, worse, gaps, margin, sweeps):
    """The same for bonuses of items, by their places; a place of -1 is an average item's."""
    for _ in range(sweeps):
        moved = False
        for i in range(len(better)):
            ahead = bonuses[better[i]] if better[i] >= 0 else 0.0
            short = margin - gaps[i] - ahead + bonuses[worse[i]]
            if short > 0.0 and better[i] != worse[i]:
                moved = True
                part = 0.5 if better[i] >= 0 else 1.0
                bonuses[worse[i]] -= part * short * 1.0001
                if better[i] >= 0:
                    bonuses[better[i]] += part * short * 1.0001
        if not moved:
            break


@compiled
def decided_pairs(starts, gains, trusted, found):
    """Each item of a trusted list above each one of a smaller gain: lists, and the two items.

    If no item has a gain, "none of these", all are below something else: -1. Returns how many.
    """
    total = 0
    for t in range(len(trusted)):
        if not trusted[t]:
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


@compiled
def places_of(known, n, keys, places):
    """Fill in where queries are among the first n that are known."""
    for t in range(len(keys)):
        for slot in range(n):
            if known[slot] == keys[t]:
                places[t] = slot
                break


@compiled
def take_slots(known, met, n, budget, keys, times, slots, fresh, ages):
    """Fill in where queries are remembered, one after the other; return how many then are.

    A new one takes a free place, and beyond the budget that of the one met longest ago.
    """
    for t in range(len(keys)):
        slot = -1
        for place in range(n):
            if known[place] == keys[t]:
                slot = place
                break
        if slot < 0:
            fresh[t] = True
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
