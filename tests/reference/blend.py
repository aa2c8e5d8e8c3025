"""Blend as it is written down: one list at a time, with plain solutions and dictionaries."""

import numpy as np

from similia.similarity.blend import clicks as of_clicks
from similia.similarity.blend import matrix as of_W
from similia.similarity.blend import memory as of_memory
from similia.similarity.blend.blend import TIE
from similia.updates import blend as constants
from similia.updates import blend_matrix as of_weight

SLIP, JUDGED = constants.SLIP, constants.JUDGED_SLIP


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def trust(evidence):
    b = constants.BELIEF
    p = b * np.exp(evidence) / (b * np.exp(evidence) + 1 - b)
    return max((p - b) / (1 - b), 0.0)


class Newton:
    """Unknowns with a normal prior and bounds."""

    def __init__(self, prior):
        self.prior = np.array(prior, float)
        self.theta = self.prior[:, 0].copy()
        self.P = np.diag(self.prior[:, 1] ** -2)

    def fade(self, share):
        self.P = share * self.P + (1 - share) * np.diag(self.prior[:, 1] ** -2)

    def step(self, J, pull, information):
        self.P = self.P + (J.T * information) @ J
        step = np.linalg.solve(self.P, J.T @ pull)
        self.theta = np.clip(self.theta + step, self.prior[:, 2], self.prior[:, 3])


class Pair:
    """What is kept of a query and an item."""

    def __init__(self):
        self.clicks = self.passes = self.margin = self.judgement = 0.0
        self.tied = 0.0

    def logit(self, up, down, alpha):
        return self.of_clicks(up, down, alpha) + self.margin + self.judgement

    def of_clicks(self, up, down, alpha):
        n = max(self.clicks + self.passes * down / up, 1.0)
        return (up * self.clicks - down * self.passes) / (1 + alpha * (n - 1))

    @property
    def observations(self):
        return self.clicks + self.passes + abs(self.margin) + abs(self.judgement)

    def scale(self, factor):
        self.clicks, self.passes = factor * self.clicks, factor * self.passes
        self.margin, self.judgement = factor * self.margin, factor * self.judgement


class Query:
    """What is kept of a query."""

    def __init__(self, time, n):
        self.time, self.pairs, self.vector = time, {}, np.zeros(n)
        self.places = [None] * of_memory.PAIRS_A_QUERY

    def pair(self, item):
        if item not in self.pairs:
            known = [-1.0 if i is None else self.pairs[i].observations for i in self.places]
            place = int(np.argmin(known))
            self.pairs.pop(self.places[place], None)
            self.places[place] = item
            self.pairs[item] = Pair()
        return self.pairs[item]


class Blend:
    """The state of a blend, from one that has learnt nothing."""

    parameters = {"memory": 0}

    def __init__(self, blend, X=None, n_nuisances=0):
        self.units_ = blend.units_
        self.budget, self.half_life = blend.memory, blend.half_life
        self.lengths, self.mean, self.middle = blend.lengths_, blend.mean_, blend.middle_
        self.page = blend.page
        start = self.start = blend.clicks_part_.start
        nuisances = [of_clicks.NUISANCE] * n_nuisances
        views = [(b, of_clicks.VIEW, -of_clicks.LARGEST, of_clicks.LARGEST) for b in start]
        kept = [(b, of_clicks.FIXED, -of_clicks.LARGEST, of_clicks.LARGEST) for b in start]
        clicks = [*of_clicks.RATES, *of_clicks.LOOKS]
        again = of_clicks.SHOWN_AGAIN
        relevance = [of_clicks.FALL_OF_LISTS, of_clicks.STEEP]
        relevance += [of_clicks.OWN_RATES, of_clicks.LEVEL_OF_LISTS]
        never = (again[0], of_clicks.FIXED, *again[2:])
        self.model = Newton([*clicks, never, *relevance, kept[0], *views[1:], *nuisances])
        self.alone = Newton([*clicks, again, *relevance, *kept, *nuisances])
        self.evidence = 0.0
        self.ranks = self.published()
        common = blend.memory_part_.common
        self.S = blend.memory_part_.stretch * (np.eye(len(common)) - common @ common.T)
        self.known, self.decided, self.n = {}, [], 0
        m, n = blend.matrix_part_.W.shape
        self.start_W(m, n)

    def start_W(self, m, n):
        self.W, self.weight, self.precision, self.behind = np.zeros((m, n)), 0.0, 16.0, 0.0
        self.turned = 0.0
        root = np.sqrt(of_W.SCALE)
        self.Lambda, self.Omega, self.waiting = root * np.eye(m), root * np.eye(n), []

    # -- what is compared with the learner -----------------------------------------------------

    @property
    def state(self):
        return {
            "clicks_theta_": self.model.theta,
            "clicks_precision_": self.model.P,
            "clicks_alone_": self.alone.theta,
            "clicks_alone_precision_": self.alone.P,
            "clicks_evidence_": [self.evidence],
            "clicks_ranks_": self.ranks,
            "matrix_W_": self.W,
            "matrix_Lambda_": self.Lambda,
            "matrix_Omega_": self.Omega,
        }

    def rates(self):
        high = sigmoid(self.model.theta[0])
        low = high * np.exp(-self.model.theta[1])
        return low, high, (np.log(high / low), np.log((1 - low) / (1 - high)), self.model.theta[7])

    def published(self):
        up, down, alpha = self.rates()[2]
        views = self.model.theta[9 : 9 + len(self.start)]
        return np.array([trust(self.evidence), up, down, self.model.theta[6], alpha, *views])

    # -- learning ------------------------------------------------------------------------------

    def learn(self, query, p):
        """A comparison by its difference alone: of one view, without memory."""
        x = np.array([[query @ p / self.units_[0]], [0.0]])
        rows = np.array([p, np.zeros_like(p)])
        self.learn_list(query, x, rows, np.array([1.0, 0.0]), trusted=False)

    def learn_list(self, query, x, rows, gains, trusted, places=None, nuisance=None, weight=1.0):
        time, self.time = vars(self).get("time", 0), vars(self).get("time", 0) + 1
        if not weight:
            return
        if self.n % constants.PUBLISHED == 0:
            self.ranks = self.published()
        self.n += 1
        if self.half_life:
            share = 0.5 ** (1 / self.half_life)
            self.model.fade(share)
            self.alone.fade(share)
            self.evidence *= share
        place = np.zeros(len(x)) if places is None else places
        looks = place if self.page is None else np.log(np.rint(np.exp(place) - 1) % self.page + 1)
        nuisance = np.zeros((len(x), 0)) if nuisance is None else nuisance
        known, items = self._met(query, time), [tuple(row) for row in np.c_[x, rows]]
        centred = np.c_[x - x.mean(axis=0), nuisance]
        worth = self.rates()[2]
        m = np.array([self._logit(known, item, worth) for item in items])
        met = np.array([known is not None and item in known.pairs for item in items], float)
        gains = gains / max(gains.max(), 1.0)
        if len(x) == 2 and not place.any() and gains[0] != gains[1]:
            better = int(np.argmax(gains))
            moved = self._compare(query, centred, rows, m, better, weight)
            if known is not None:
                for i in (better, 1 - better):
                    pair = known.pair(items[i])
                    pair.margin += moved if i == better else -moved
                    self._bound(pair)
                for item in items if weight <= TIE else ():
                    known.pairs[item].tied = 1.0
        else:
            first = min(place[gains > 0], default=np.inf)
            above = np.array(first < place, float)
            passes = self._trials(
                *(centred, m, self._slopes(known, items, worth), met),
                *(gains, looks, above, trusted, weight),
            )
            for item, gain, passed in zip(items, gains, passes, strict=True):
                if known is None:
                    continue
                pair = known.pair(item)
                if trusted:
                    pair.judgement += weight * (2 * gain - 1) * np.log((1 - JUDGED) / JUDGED)
                else:
                    pair.clicks += weight * gain
                    pair.passes += weight * (1 - gain) * passed
                self._bound(pair)
        order = range(len(items))
        if len(x) == 2 and not place.any() and gains[0] < gains[1]:
            order = (1, 0)
        if known is not None:
            wanted = [self._logit(known, item, worth) for item in items]
            for _ in range(of_memory.SWEEPS):
                for i in order:
                    r = rows[i] / self.lengths[1] - self.mean
                    if r @ self.S @ r > 1e-12:
                        step = (wanted[i] - r @ known.vector) / (r @ self.S @ r)
                        known.vector = known.vector + step * self.S @ r
        if trusted and self.budget:
            self._decide(query, time, x, rows, gains, items)

    def _bound(self, pair):
        if pair.observations > constants.OBSERVATIONS:
            pair.scale(constants.OBSERVATIONS / pair.observations)

    def _logit(self, known, item, worth):
        if known is None or item not in known.pairs:
            return 0.0
        return known.pairs[item].logit(*worth)

    def _slopes(self, known, items, worth):
        """Slopes of memory by α, by finite differences; it is a ratio of two lines."""
        up, down, alpha = worth
        apart = [self._logit(known, i, (up, down, alpha + d)) for d in (1e-6, -1e-6) for i in items]
        return (np.array(apart[: len(items)]) - apart[len(items) :]) / 2e-6

    def _met(self, query, time):
        if not self.budget:
            return None
        key = tuple(query)
        if key not in self.known:
            if len(self.known) == self.budget:
                oldest = min(self.known, key=lambda k: self.known[k].time)
                del self.known[oldest]
            self.known[key] = Query(time, len(self.mean))
        known = self.known[key]
        if self.half_life:
            share = 0.5 ** ((time - known.time) / self.half_life)
            known.vector = share * known.vector
            for pair in known.pairs.values():
                pair.scale(share)
        known.time = time
        return known

    def _compare(self, query, x, rows, m, better, weight):
        gap, apart = x[better] - x[1 - better], m[better] - m[1 - better]
        margin = self.model.theta[6] * (self.model.theta[9:] @ gap)
        logit = margin + self.model.theta[6] * apart
        for sign, model, known in ((1, self.model, apart), (-1, self.alone, 0.0)):
            tau, views = model.theta[6], model.theta[9:] @ gap
            slopes = np.r_[np.zeros(6), views + known, 0.0, 0.0, tau * gap]
            s = tau * (views + known)
            q = sigmoid(s)
            P = SLIP / 2 + (1 - SLIP) * q
            slope = (1 - SLIP) * q * (1 - q) / P
            curvature = max(slope**2 - (1 - SLIP) * q * (1 - q) * (1 - 2 * q) / P, 0.0)
            self.evidence += sign * weight * np.log(P)
            model.step(slopes[None], weight * np.array([slope]), weight * np.array([curvature]))
        self.evidence = np.clip(self.evidence, constants.WORST, constants.BEST)
        if self.W.size:
            p = (rows[better] - rows[1 - better]) / self.lengths[1]
            if len(self.waiting) == of_W.COMPARISONS_A_BLOCK:
                self._learn_W()
            self.waiting.append((query / self.lengths[0], p, margin, weight))
        return constants.STEP * weight * (1 - sigmoid(logit))

    def _learn_W(self):
        (m, n), told = self.W.shape, []
        for q, p, offset, weight in self.waiting:
            s, a, b = q @ self.W @ p, q @ self.Lambda @ q, p @ self.Omega @ p
            told.append((s, offset, weight))
            scale = 1 / np.sqrt(1 + np.pi * a * b / 8)
            z = sigmoid(scale * (offset + s))
            P = SLIP / 2 + (1 - SLIP) * z
            g = (1 - SLIP) * z * (1 - z) * scale / P
            h = max(g**2 - (1 - SLIP) * z * (1 - z) * (1 - 2 * z) * scale**2 / P, 0.0)
            g, h = weight * g, min(weight * h, 0.99 / max(a * b, 1e-300))
            self.W = self.W + g * np.outer(self.Lambda @ q, self.Omega @ p)
            down, side = self.Omega @ p, self.Lambda @ q
            self.Omega = self.Omega - a * h / (m - (m - 1) * a * b * h) * np.outer(down, down)
            self.Lambda = self.Lambda - b * h / (n - (n - 1) * a * b * h) * np.outer(side, side)
        self.waiting = []
        for s, offset, weight in told:
            P, plain = (SLIP / 2 + (1 - SLIP) * sigmoid(offset + w * s) for w in (self.weight, 0.0))
            if (offset > 0) != (offset + self.weight * s > 0):
                turned = self.turned + weight * np.log(P / plain)
                self.turned = np.clip(turned, constants.WORST, constants.BEST)
            self.behind = max(self.behind - weight * np.log(P / plain), 0.0)
            if self.behind > of_weight.ALARM:
                self.start_W(m, n)
                return
            z = sigmoid(offset + self.weight * s)
            slope = (1 - SLIP) * z * (1 - z) / P
            bend = max(slope**2 - (1 - SLIP) * z * (1 - z) * (1 - 2 * z) / P, 0.0)
            self.precision += weight * bend * s**2
            step = weight * slope * s / self.precision
            self.weight = np.clip(self.weight + step, 0.0, of_weight.LARGEST)

    def _trials(self, x, m, m_slopes, met, gains, looks, above, judged, weight):
        V, n = len(self.start), len(x)
        low, high, (_, down, _) = self.rates()
        gained, steps = np.zeros(n), []
        none = np.zeros(n)
        for sign, model, known, moves in (
            (1, self.model, m, m_slopes),
            (-1, self.alone, none, none),
        ):
            r_1 = sigmoid(model.theta[0])
            r_0 = r_1 * np.exp(-model.theta[1])
            e = np.exp(-model.theta[2] * looks - model.theta[3] * above)
            e = np.maximum(e, constants.LEAST_LOOK)
            one, none = (1 - JUDGED, JUDGED) if judged else (e * r_1, e * r_0)
            again, fall, level = model.theta[4], model.theta[5], model.theta[8]
            before = x[:, :V] @ self.start
            logit = level + again * met + x[:, V:] @ model.theta[9 + V :] + known
            rho = sigmoid(logit + fall * before + x[:, :V] @ (model.theta[9 : 9 + V] - self.start))
            mu = none + (one - none) * rho
            slope = ((one - none) * rho * (1 - rho))[:, None]
            J = np.c_[mu * (1 - r_1), -none * (1 - rho), -mu * looks, -mu * above]
            of_rho = np.c_[met, before, np.zeros(n), moves, np.ones(n), x]
            J = np.c_[J * (not judged), slope * of_rho]
            plain = none + (one - none) * sigmoid(logit + fall * before)
            log_P, before = (gains * np.log(P) + (1 - gains) * np.log(1 - P) for P in (mu, plain))
            gained += sign * weight * (log_P - before * (1 - met))
            certain = weight / (mu * (1 - mu))
            steps.append((model, J, certain * (gains - mu), certain))
            if sign > 0:
                passes = np.log((1 - e * low) / (1 - e * high)) / down
        evidence = self.evidence + gained.sum()
        self.evidence = np.clip(evidence, constants.WORST, constants.BEST)
        for model, *step in steps:
            model.step(*step)
        return np.ones(n) if judged else passes

    def _decide(self, query, time, x, rows, gains, items):
        pairs = [(i, j) for i in range(len(x)) for j in range(len(x)) if gains[i] > gains[j]]
        if not gains.any():
            pairs = [(None, j) for j in range(len(x))]
        for i, j in pairs:
            better = (self.middle, self.mean) if i is None else (x[i], rows[i] / self.lengths[1])
            item = None if i is None else items[i]
            gap = better[0] - x[j], better[1] - rows[j] / self.lengths[1]
            self.decided.append((tuple(query), time, item, items[j], *gap))
        self.decided = self.decided[-self.budget :]

    # -- ranking -------------------------------------------------------------------------------

    def scores(self, query, x, rows):
        share, up, down, tau, alpha = self.ranks[:5]
        weights = self.start + share * (self.ranks[5:] - self.start)
        W = self.weight * trust(self.turned) / tau * (query / self.lengths[0]) @ self.W
        items = [tuple(row) for row in np.c_[x, rows]]
        bonus = {}
        known = self.known.get(tuple(query))
        for item, pair in known.pairs.items() if known else ():
            learnt = pair.logit(up, down, alpha) - pair.judgement
            bonus[item] = share * learnt + pair.judgement
        own = [d for d in self.decided if d[0] == tuple(query)][-of_memory.KEPT :]
        last = sorted({d[1] for d in own})[-of_memory.LISTS :]
        for _ in range(of_memory.SWEEPS):
            for _, time, better, worse, features, vector in own:
                if time not in last or better == worse:
                    continue
                ahead = features @ weights + W @ vector - bonus.get(worse, 0.0)
                ahead += 0.0 if better is None else bonus.get(better, 0.0)
                short = max(of_memory.MARGIN_OF_DECISIONS - ahead, 0.0) * 1.0001
                if better is not None:
                    short /= 2
                    bonus[better] = bonus.get(better, 0.0) + short
                bonus[worse] = bonus.get(worse, 0.0) - short
        extra = np.array([bonus.get(item, 0.0) for item in items])
        return x @ weights + rows @ W / self.lengths[1] + extra
