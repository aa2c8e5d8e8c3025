"""Blend as documented, one list at a time, with plain inverses and no blocks.

A list has features x (scores of all views in typical gaps, the base first), nuisances ν, rows r
(the base view of the items, in typical lengths) and gains. The numbers are those of `similia`.
"""

import numpy as np

from similia.feedback.impressions import TIE
from similia.linalg.row_keys import KEY_SEED
from similia.similarity import matrix as of_W
from similia.similarity import memory as of_memory
from similia.similarity import ties as of_ties
from similia.similarity import weights as of_weights
from similia.similarity.published import BLOCK, next_publication
from similia.updates.blend import SLIP
from similia.updates.blend_matrix import LEVEL, PARTS_OF_W, SLIP_OF_PAIRS
from similia.updates.blend_weights import BELIEFS, GRID, NUISANCE

HASH = 2**64


def key_of(q):
    """Σ_i mix((bits of q_i + 1)(2m_i + 1)) with fixed m, mixed again, modulo 2⁶⁴."""
    multipliers = np.random.default_rng(KEY_SEED).integers(2**63, size=len(q), dtype=np.uint64)
    total = 0
    for value, m in zip(q, multipliers, strict=True):
        bits = int((np.float32(value) + np.float32(0)).view(np.uint32))
        mixed = (bits + 1) * (2 * int(m) + 1) % HASH
        total += mixed ^ (mixed >> 29)
    total %= HASH
    return (total ^ (total >> 32)) * 0x9E3779B97F4A7C15 % HASH


def choices(scores, gains, weight=1.0):
    """log P of all choices of a list, their gradient g and their information H in the scores.

    P(i) = slip/n + (1 - slip) softmax(l)_i over i and what it was chosen over; `real` is the
    probability that the choice was no slip.
    """
    n = len(scores)
    log_p, g, H = 0.0, np.zeros(n), np.zeros((n, n))
    for i in np.flatnonzero(gains > gains.min()):
        among = gains < gains[i]
        among[i] = True
        p = np.where(among, np.exp(scores - scores[among].max()), 0.0)
        p /= p.sum()
        likelihood = SLIP / among.sum() + (1 - SLIP) * p[i]
        real = (1 - SLIP) * p[i] / likelihood
        log_p += weight * np.log(likelihood)
        g += weight * real * (np.eye(n)[i] - p)
        H += weight * real * (np.diag(p) - np.outer(p, p))
    return log_p, g, H


def nearest_lower(gains):
    """(i, j) for each chosen item i: the nearest item j of a smaller gain, the first of two."""
    for i in range(len(gains)):
        lower = np.flatnonzero(gains < gains[i])
        if len(lower):
            yield i, lower[np.argmin(abs(lower - i))]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def pair_likelihood(s, v):
    """log P of a pair whose margin is N(s, v)."""
    return np.log(SLIP_OF_PAIRS / 2 + (1 - SLIP_OF_PAIRS) * sigmoid(s / np.sqrt(1 + np.pi * v / 8)))


def step_and_gain(s, v):
    """First derivative of that in s, and minus the second one where that is positive."""
    k, e = 1 / np.sqrt(1 + np.pi * v / 8), SLIP_OF_PAIRS
    q, P = sigmoid(k * s), np.exp(pair_likelihood(s, v))
    first = (1 - e) * k * q * (1 - q)
    second = (1 - e) * k**2 * q * (1 - q) * (1 - 2 * q)
    return first / P, max((first / P) ** 2 - second / P, 0.0)


def log_mean(shares, logs):
    """log Σ share · exp(log), with logs of shares."""
    return np.logaddexp.reduce(shares + logs)


def raised(odds, b):
    """How far trust b·odds/(b·odds + 1 - b) in a part has risen from b, of 1 - b, if at all."""
    return max(b * (odds - 1) / (b * odds + 1 - b), 0.0)


def normalized(logs):
    return logs - np.logaddexp.reduce(logs)


def design_effect(clustered, squares):
    return max(1.0, clustered / max(squares, 1e-12))


class Blend:
    """State after each list, from a learner's own start."""

    def __init__(self, learner, X, n_nuisances=0):
        weights, W, memory = learner.weights_part_, learner.matrix_part_, learner.memory_part_
        self.gaps_, self.lengths_ = learner.gaps_, learner.lengths_
        self.obey, self.budget = learner.obey, learner.memory
        self.fading = 0.5 ** (1 / learner.half_life) if learner.half_life else 1.0
        self.middle_, self.mean_ = learner.middle_, learner.mean_
        self.start, self.doubt, self.units = weights.start, weights.doubt, weights.units
        self.near = memory.near
        self.S = memory.stretch * (np.eye(len(memory.common)) - memory.common @ memory.common.T)
        self.V, self.k = len(self.start), n_nuisances
        self.n_seen = self.n_updates = 0
        p, K = self.V + self.k, len(GRID)
        self.weights_information_ = np.zeros((3, K, p, p))
        self.weights_natural_ = np.zeros((3, K, p))
        self.weights_likelihood_ = np.zeros((3, K))
        self.spread = 0.0
        self.n_lists = self.evidence = self.of_start = self.squares = 0.0
        self.weights_cluster_ = np.zeros(of_weights.CLUSTERS)
        self.sizes = W.W.shape
        self.restarts = 0
        self.start_W()
        self.slots, self.decisions = [], []
        self.memory_evidence_ = np.zeros((2, len(of_memory.SCALES)))
        self.memory_totals_ = np.zeros(2)
        self.since, self.next = 0, 0
        self.publish()
        self.tell()

    def start_W(self):
        m, n = self.sizes
        self.published_W_ = np.zeros((m, n))
        self.matrix_W_ = np.zeros((m, n))
        self.matrix_Lambda_ = np.sqrt(of_W.SCALE) * np.eye(m)
        self.matrix_Omega_ = np.sqrt(of_W.SCALE) * np.eye(n)
        self.matrix_logs_ = np.full((2, len(PARTS_OF_W)), -np.log(len(PARTS_OF_W)))
        self.matrix_sums_ = np.zeros(len(PARTS_OF_W))
        self.matrix_heard_ = np.zeros(of_weights.CLUSTERS, bool)
        self.behind, self.trust_in_orders = 0.0, of_W.BELIEF / 2**self.restarts
        self.W_evidence, self.counted, self.W_squares = np.zeros(2), np.zeros(2), np.zeros(2)
        self.trust_in_W = np.full(2, self.trust_in_orders)
        self.matrix_cluster_ = np.zeros((2, of_weights.CLUSTERS))
        self.matrix_told_ = np.zeros(of_weights.CLUSTERS, int)
        self.matrix_met_ = np.zeros(2**of_W.BITS, bool)

    # -- learning ------------------------------------------------------------------------------

    def learn(self, q, p):
        """A triplet with better - worse = p; only differences of scores matter."""
        rows = np.array([p, np.zeros_like(p)])
        self.learn_list(q, rows @ q[:, None] / self.gaps_, rows, np.array([1.0, 0.0]), self.obey)

    def learn_list(self, q, x, rows, gains, trusted, nuisance=None, weight=1.0):
        nuisance = np.zeros((len(gains), self.k)) if nuisance is None else nuisance
        chosen = gains.max() > gains.min()
        says = weight > 0 and (chosen or (trusted and not gains.any()))
        if says and self.n_updates + 1 == self.next:
            self.publish()
        self.n_updates += says
        if says:
            key, r = key_of(q), rows / self.lengths_[1]
            offsets, C = self.weigh(x, nuisance, gains, weight, key) if chosen else (None, None)
            if self.budget:
                self.remember(q, key, r, gains, weight, offsets, C)
                if trusted:
                    self.decide(key, x, r, gains)
            if chosen and len(gains) == 2:
                for i, j in nearest_lower(gains):
                    margin = offsets[i] - offsets[j]
                    variance = C[i, i] + C[j, j] - 2 * C[i, j]
                    self.learn_pair(
                        q / self.lengths_[0], r[i] - r[j], margin, variance, weight, key
                    )
        self.n_seen += 1
        self.tell()

    # -- weights of views ----------------------------------------------------------------------

    @property
    def phi(self):
        return design_effect(np.sum(self.weights_cluster_**2), self.squares)

    def beliefs(self):
        """Posterior of the models: learnt, base, and as started."""
        logs = np.log(BELIEFS) + np.array([self.evidence, 0.0, self.of_start]) / self.phi
        return np.exp(normalized(logs))

    def posterior(self, model):
        """Mean and covariance of (δ, γ) for each τ; δ = 0 for the base (1), its start for (2)."""
        V, k, a, units = self.V, self.k, self.start, np.diag(self.units)
        prior = np.diag(self.doubt**2) + of_weights.AS_A_WHOLE**2 * np.outer(a, a)
        mean, covariance = np.zeros(V + k), np.zeros((V + k, V + k))
        mean[:V], covariance[:V, :V] = units @ a, units @ prior @ units
        mean[V:], covariance[V:, V:] = NUISANCE[0], NUISANCE[1] * np.eye(k)
        free = slice(V if model else 0, None)
        P = np.linalg.inv(covariance[free, free])
        means, covariances = np.zeros((len(GRID), V + k)), np.zeros((len(GRID), V + k, V + k))
        if model == 2:
            means[:, :V] = a * self.units
        for c in range(len(GRID)):
            information = self.weights_information_[model, c][free, free] / self.phi
            natural = self.weights_natural_[model, c][free] / self.phi
            covariances[c][free, free] = np.linalg.inv(P + information)
            means[c][free] = covariances[c][free, free] @ (P @ mean[free] + natural)
        return means, covariances

    def weigh(self, x, nuisance, gains, weight, key):
        """Mean and covariance of the scores before learning, up to a constant; then learn."""
        x = x - x.mean(axis=0)
        self.n_lists += 1
        self.spread += x[:, 0].var()
        taus = GRID / np.sqrt(max(self.spread / self.n_lists, 1e-12))
        posteriors = [self.posterior(model) for model in (0, 1, 2)]
        shares = [normalized(self.weights_likelihood_[m] / self.phi) for m in (0, 1, 2)]
        z = [np.hstack([tau * x[:, 1:], nuisance]) for tau in taus]
        scores = np.array(
            [
                [tau * x[:, 0] + z[c] @ posteriors[m][0][c] for c, tau in enumerate(taus)]
                for m in (0, 1, 2)
            ]
        )
        beliefs = self.beliefs()
        centre = sum(beliefs[m] * np.exp(shares[m]) @ scores[m] for m in (0, 1, 2))
        C = np.zeros((len(x), len(x)))
        for c, share in enumerate(np.exp(shares[0])):
            if share >= 1e-3:  # less is left out, for speed
                gap = scores[0, c] - centre
                C += share * (z[c] @ posteriors[0][1][c] @ z[c].T + np.outer(gap, gap))
        for sums in (self.weights_information_, self.weights_natural_, self.weights_likelihood_):
            sums *= self.fading
        self.evidence *= self.fading
        self.of_start *= self.fading
        found = np.zeros((3, len(GRID)))
        for m in (0, 1, 2):
            free = np.arange(self.V + self.k) >= (self.V if m else 0)
            for c in range(len(GRID)):
                found[m, c], g, H = choices(scores[m, c], gains, weight)
                information = z[c].T @ H @ z[c] * np.outer(free, free)
                self.weights_information_[m, c] += information
                mean = posteriors[m][0][c]
                self.weights_natural_[m, c] += information @ mean + free * (z[c].T @ g)
        each = [log_mean(shares[m], found[m]) for m in (0, 1, 2)]
        self.of_start += each[2] - each[1]
        gained = each[0] - each[1]
        self.weights_likelihood_ += found
        self.evidence += gained
        self.squares += gained**2
        self.weights_cluster_[key % of_weights.CLUSTERS] += gained
        return centre, C

    # -- memory --------------------------------------------------------------------------------

    def kernel(self, key, q):
        """κ(q, u) = (cos - c)₊/(1 - c) for each remembered query; 0 for the query itself."""
        unit = q / max(np.linalg.norm(q), 1e-30)
        return np.array(
            [
                (s["key"] != key) * max(unit @ s["query"] - self.near, 0) / (1 - self.near)
                for s in self.slots
            ]
        )

    def remember(self, q, key, r, gains, weight, offsets, C):
        """m_u moves by v S rᵀa, a = (I + H(C + v r S rᵀ))⁻¹ g, for each prior variance v."""
        found = [s for s in self.slots if s["key"] == key]
        if not found:
            found = [self.new_slot(key, q)]
        slot, near = found[0], self.kernel(key, q)
        left = self.fading ** (self.n_seen - slot["time"])
        slot["time"] = self.n_seen
        for c, v in enumerate(of_memory.SCALES):
            slot["vectors"][c] = left * slot["vectors"][c]
            slot["variances"][c] = v - left * (v - slot["variances"][c])
        if offsets is None:
            return
        plain, _, _ = choices(offsets, gains, weight)
        gained = []
        for c in range(len(of_memory.SCALES)):
            log_p, g, H = choices(offsets + r @ slot["vectors"][c], gains, weight)
            if not slot["met"]:
                m = sum(
                    (kappa * s["vectors"][c] for kappa, s in zip(near, self.slots, strict=True)),
                    np.zeros(r.shape[1]),
                )
                log_p, _, _ = choices(offsets + r @ m, gains, weight)
            gained.append(log_p - plain)
            v = slot["variances"][c]
            a = np.linalg.inv(np.eye(len(r)) + H @ (C + v * r @ self.S @ r.T)) @ g
            slot["vectors"][c] = slot["vectors"][c] + v * self.S @ r.T @ a
            information = (
                self.S @ r.T @ H @ r
            )  # in item space; its mean over what it says something about
            typical = np.trace(information @ information) / max(np.trace(information), 1e-300)
            slot["variances"][c] = v / (1 + v * typical)
        kind = of_memory.OWN if slot["met"] else of_memory.NEIGHBORS
        self.memory_totals_[kind] += log_mean(self.scales_of(kind), np.array(gained))
        self.memory_evidence_[kind] += gained
        slot["met"] += 1
        slot["weight"] += min(weight, 1.0)
        if len(r) == 2 and weight <= TIE:
            slot["alike"] |= {key_of(row) % of_ties.MARKS for row in r}

    def scales_of(self, kind):
        """Log shares of memory's scales: repeats count for a query's neighbours too."""
        own, near = self.memory_evidence_
        return normalized(own + near if kind == of_memory.NEIGHBORS else own)

    def new_slot(self, key, q):
        scales, n = of_memory.SCALES, self.sizes[1]
        unit = q / max(np.linalg.norm(q), 1e-30)
        slot = {"key": key, "query": unit, "met": 0, "weight": 0.0, "time": self.n_seen}
        slot["alike"] = set()
        slot |= {"vectors": [np.zeros(n) for _ in scales], "variances": list(scales)}
        if len(self.slots) < self.budget:
            self.slots.append(slot)
        else:
            oldest = min(range(len(self.slots)), key=lambda s: self.slots[s]["time"])
            self.slots[oldest] = slot
        return slot

    def decide(self, key, x, r, gains):
        """Each item above each of a smaller gain, or the average item above all if none has any.

        Those of the newest lists of a query, and the newest of all, stay.
        """
        if not gains.any():
            self.decisions += [
                (key, self.n_seen, self.middle_ - f, self.mean_ - v)
                for f, v in zip(x, r, strict=True)
            ]
        for i in range(len(gains)):
            for j in np.flatnonzero(gains < gains[i]):
                self.decisions.append((key, self.n_seen, x[i] - x[j], r[i] - r[j]))
        own = [t for t, decision in enumerate(self.decisions) if decision[0] == key]
        lists = sorted({self.decisions[t][1] for t in own})[-of_memory.LISTS :]
        dropped = {*own[: -of_memory.KEPT], *(t for t in own if self.decisions[t][1] < lists[0])}
        kept = [d for t, d in enumerate(self.decisions) if t not in dropped]
        self.decisions = kept[-self.budget :]

    # -- W -------------------------------------------------------------------------------------

    def learn_pair(self, q, p, margin, variance, weight, key):
        """AROMA's (12) to (14) with the gain h of a noisy choice in place of 1/(r + ab)."""
        m, n = self.sizes
        place = key >> (64 - of_W.BITS)
        new, held = not self.matrix_met_[place], key % of_W.HELD_OUT == 0
        self.matrix_met_[place] = True
        weight = 0.0 if held and not new else weight
        W, Lambda, Omega = self.matrix_W_, self.matrix_Lambda_, self.matrix_Omega_
        a, b, score = q @ Lambda @ q, p @ Omega @ p, q @ W @ p
        gained = np.array(
            [
                pair_likelihood(margin + f * score, variance) - pair_likelihood(margin, variance)
                for f in PARTS_OF_W
            ]
        )
        g, h = (weight * x for x in step_and_gain(margin + score, variance + a * b))
        if g * a * b > 0:
            h = min(h, 0.99 / (a * b))
            self.matrix_W_ = W + g * np.outer(Lambda @ q, p @ Omega)
            shrink_Omega = a * h / (m - (m - 1) * a * b * h)
            shrink_Lambda = b * h / (n - (n - 1) * a * b * h)
            self.matrix_Omega_ = Omega - shrink_Omega * np.outer(Omega @ p, p @ Omega)
            self.matrix_Lambda_ = Lambda - shrink_Lambda * np.outer(Lambda @ q, q @ Lambda)
        turned = np.sign(margin + PARTS_OF_W * score) != np.sign(margin)
        self.count(gained, turned, new or held, key)

    def count(self, gained, turned, counts, key):
        """Evidence on queries not learnt from, how much of W counts, and the alarm."""
        if not self.matrix_heard_[key % of_weights.CLUSTERS]:
            self.matrix_heard_[key % of_weights.CLUSTERS] = True
            after = np.logaddexp.reduce(self.matrix_sums_ + gained)
            self.behind -= after - np.logaddexp.reduce(self.matrix_sums_)
        if self.behind > of_W.ALARM:
            self.restarts += 1
            self.start_W()
            self.since = (self.n_updates - 1) // BLOCK * BLOCK
            self.next = self.since + BLOCK + 1
            return
        if self.behind <= LEVEL:
            self.behind = 0.0
            self.matrix_heard_[:] = False
        self.matrix_sums_ += counts * gained
        belief, cluster = of_W.BELIEF / 2**self.restarts, key % of_weights.CLUSTERS
        queries = np.count_nonzero(self.matrix_told_)
        ahead = queries and self.matrix_told_[cluster] > self.matrix_told_.sum() / queries + 1
        self.matrix_told_[cluster] += 1
        for kind, says in enumerate((counts, not ahead)):  # new queries, any
            if not says:
                continue
            logs = self.matrix_logs_[kind]
            total, of_orders = log_mean(logs, gained), log_mean(logs, gained * turned)
            self.W_evidence[kind] += total
            self.W_squares[kind] += total**2
            self.matrix_cluster_[kind, cluster] += total
            self.counted[kind] += 1
            share = 1 / (self.counted[kind] + 1)
            effect = design_effect(np.sum(self.matrix_cluster_[kind] ** 2), self.W_squares[kind])
            odds = self.trust_in_W[kind] / (1 - self.trust_in_W[kind]) * np.exp(total / effect)
            self.trust_in_W[kind] = (1 - share) * odds / (1 + odds) + share * belief
            if kind == 1:
                odds = self.trust_in_orders / (1 - self.trust_in_orders)
                odds *= np.exp(of_orders / effect)
                self.trust_in_orders = (1 - share) * odds / (1 + odds) + share * belief
            posterior = np.exp(normalized(logs + gained))
            self.matrix_logs_[kind] = np.log((1 - share) * posterior + share / len(PARTS_OF_W))

    # -- ranking -------------------------------------------------------------------------------

    def publish(self):
        """What ranks from now on: weights, strength of the base, W, and shares of memory."""
        shares = np.exp(normalized(self.weights_likelihood_[0] / self.phi))
        learnt, _, started = self.beliefs()
        weights = learnt * shares @ self.posterior(0)[0][:, : self.V]
        weights = np.concatenate([[1.0], weights + started * self.start * self.units])
        deviation = np.sqrt(max(self.spread / max(self.n_lists, 1), 1e-12))
        strength = shares @ GRID / deviation if self.n_lists else 1.0
        self.published_weights_ = weights
        self.strength, self.trust = max(strength, of_weights.WEAKEST), learnt + started
        belief = of_W.BELIEF / 2**self.restarts
        trusted = np.maximum((self.trust_in_W - belief) / (1 - belief), 0.0)
        trusted *= np.clip(self.trust_in_orders / belief - 1, 0, 1)
        suits = [np.prod(PARTS_OF_W ** np.exp(logs)) for logs in self.matrix_logs_]
        self.shares_of_W = np.maximum(trusted * suits, of_W.LEAST)
        self.published_W_ = self.matrix_W_
        ratio, belief = np.exp(self.memory_totals_[of_memory.OWN]), of_memory.DECIDED_BELIEF
        decided = belief * ratio / (belief * ratio + 1 - belief)
        self.published_shares_ = np.array(
            [
                *(
                    raised(np.exp(self.memory_totals_[kind]), of_memory.BELIEF)
                    * np.exp(self.scales_of(kind))
                    for kind in (of_memory.OWN, of_memory.NEIGHBORS)
                ),
                decided * np.exp(self.scales_of(of_memory.OWN)),
            ]
        )
        self.next = next_publication(self.next, self.since)

    def scores(self, q, x, rows):
        """Scores of items with these features and rows, in typical gaps of the base."""
        weights, strength = self.published_weights_, self.strength
        learnt = any(s["key"] == key_of(q) for s in self.slots) and key_of(q) % of_W.HELD_OUT
        moved = self.shares_of_W[int(bool(learnt))] * (q / self.lengths_[0] @ self.published_W_)
        added = (moved + self.recalled(q)) / strength
        return x @ weights + rows / self.lengths_[1] @ self.obeying(q, weights, added)

    def recalled(self, q):
        """A query's own memory, or that of its neighbours, if such memory has proved itself."""
        key, n = key_of(q), self.sizes[1]
        own = [s for s in self.slots if s["key"] == key]
        kind = of_memory.OWN if own else of_memory.NEIGHBORS
        if own and any(decision[0] == key for decision in self.decisions):
            kind = of_memory.DECIDED
        shares = self.published_shares_[kind]
        if own:
            return shares @ np.array(own[0]["vectors"])
        each = [shares @ np.array(s["vectors"]) for s in self.slots]
        return sum((k * m for k, m in zip(self.kernel(key, q), each, strict=True)), np.zeros(n))

    def obeying(self, q, weights, vector):
        """Project on one decision after the other, oldest first, in a few sweeps."""
        key = key_of(q)
        own = [(x, r) for of, _, x, r in self.decisions if of == key]
        for _ in range(of_memory.SWEEPS):
            for x, r in own:
                short = of_memory.MARGIN - x @ weights - r @ vector
                if short > 0 and r @ r > 1e-12:
                    vector = vector + 1.0001 * short * r / (r @ r)
        return vector

    def tell(self):
        """State as the learner names it."""
        clustered = np.sum(self.weights_cluster_**2)
        self.weights_totals_ = np.array(
            [self.n_lists, self.evidence, self.squares, clustered, self.spread, self.of_start]
        )
        clustered = np.sum(self.matrix_cluster_**2, axis=1)
        self.matrix_tallies_ = np.column_stack(
            [self.W_evidence, self.counted, self.W_squares, clustered, self.trust_in_W]
        )
        self.matrix_totals_ = np.array(
            [
                *(self.behind, self.trust_in_orders, self.matrix_told_.sum()),
                *(np.count_nonzero(self.matrix_told_), self.restarts),
            ]
        )
        ranks = self.shares_of_W * self.published_W_.any()
        self.published_numbers_ = np.array(
            [self.strength, self.trust, self.next, self.since, *ranks]
        )
        m, n = self.sizes
        K, S, D = len(of_memory.SCALES), len(self.slots), len(self.decisions)
        self.memory_keys_ = np.array([s["key"] for s in self.slots], np.uint64)
        self.memory_queries_ = np.array([s["query"] for s in self.slots]).reshape(S, m)
        vectors = np.array([s["vectors"] for s in self.slots]).reshape(S, K, n)
        self.memory_vectors_ = vectors.transpose(1, 0, 2)
        self.memory_variances_ = np.array([s["variances"] for s in self.slots]).reshape(S, K).T
        self.memory_met_ = np.array([s["met"] for s in self.slots], int)
        self.memory_weight_ = np.array([s["weight"] for s in self.slots], float)
        self.memory_alike_ = np.array(
            [sum(2**bit for bit in s["alike"]) for s in self.slots], np.uint64
        )
        self.memory_times_ = np.array([s["time"] for s in self.slots], int)
        keys, times, features, vectors = zip(*self.decisions, strict=True) if D else ((),) * 4
        self.memory_decided_ = np.array(keys, np.uint64)
        self.memory_decided_times_ = np.array(times, int)
        self.memory_decided_features_ = np.array(features).reshape(D, 1 + self.V)
        self.memory_decided_vectors_ = np.array(vectors).reshape(D, n)
