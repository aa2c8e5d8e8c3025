"""Blend: a similarity that is a sum of parts, each trusted as far as feedback bears it out."""

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from similia.base import validated
from similia.contract import Array, Indices, Matrix, Side
from similia.feedback.impressions import Impressions
from similia.feedback.sampling import TRIPLET_SAMPLERS
from similia.feedback.sampling.labels import triplets_drawn
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.row_keys import row_keys
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.safety.whole import all_or_nothing, held_signals
from similia.similarity.blend_ranking import BlendRanking
from similia.similarity.blend_state import Feedback
from similia.similarity.matrix import Standing
from similia.similarity.published import BLOCK, end_of_block
from similia.updates.blend_matrix import pairs_of_lists
from similia.updates.blend_memory import decided_pairs
from similia.validation import (
    boolean,
    check_magnitude,
    function,
    non_negative_integer,
    none,
    one_of,
    positive,
    repetitions,
)
from similia.views import Views, as_views

#: the same where there are only weights, whose pass costs nothing but its arrays
WIDE_BLOCK = 2048
#: largest entry of a row, in typical lengths; beyond it, rounding would swallow all other rows
LONGEST = 1e7
#: the same of a score, in typical gaps
LARGEST_SCORE = 1e12
#: triplets drawn at a time by `fit`
DRAW = 4096


class Blend(BlendRanking):
    """A sum of parts: weights of views, a matrix W, and a memory of what was said about a query.

        s(q, p) = s₀(q, p) + Σ_v δ_v s_v(q, p) + qᵀWp + m(q)ᵀp

    s₀ is the base, the similarity that users have today. All parts are Gaussian and learn from the
    same feedback: lists that people chose from, or triplets, which are lists of two. Each part is
    scored on what it has not learnt yet, and ranks as far as it has proved better than doing
    without it. Until then the base ranks. There is nothing to set.

    The weights δ learn from tens of judgements and W from thousands; both change every query. The
    memory changes only the queries that were judged, and their neighbours. Only queries are
    transformed: an index of the items stays as it is.

    Attributes
    ----------
    names_ : list of str
        The views, the base first; a field with several columns has a name for each.
    weights_ : array of shape (n_views,)
        Weight of each view when ranking, in units of their typical gaps; that of the base is 1.
    trust_ : dict
        Probability that "views", "W" and "memory" rank better than doing without them.
    n_seen_, n_updates_ : int
        Lists (or triplets) learnt from, and those of them that said something.

    Notes
    -----
    Queries are recognised by the numbers of their base view, in single precision.

    W and memory need a base of at most 4,096 features; for a wider one there are only the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import Blend, Views
    >>> rng = np.random.default_rng(0)
    >>> items = Views(vectors=rng.normal(size=(50, 8)), price=rng.uniform(size=50))
    >>> queries = Views(vectors=rng.normal(size=(20, 8)))
    >>> blend = Blend().learn(queries, [[0, 3, 4], [1, 7, 2]], items=items)
    >>> blend.names_, bool(blend.triplet_scores(queries, [[1, 7, 2]], items=items)[0] > 0)
    (['vectors', 'price'], True)
    """

    obey: bool = parameter(
        default=True,
        rule=boolean,
        doc="Obey a triplet at once on its own query, as a decision. Lists carry their own mark.",
    )
    memory: int = parameter(
        default=10_000,
        rule=non_negative_integer,
        doc="Most queries, and decisions, to remember; the ones judged longest ago are forgotten.",
    )
    half_life: float | None = parameter(
        default=None,
        rule=positive | none,
        doc="Lists after which what the weights and the memory have learnt counts half. By default "
        "nothing fades; W starts anew by itself once it does worse than nothing.",
    )
    sampler: str | Callable[..., ArrayLike] = parameter(
        default="uniform",
        rule=one_of(*TRIPLET_SAMPLERS) | function,
        doc="How `fit` and `partial_fit` draw triplets from labels; a function is called as "
        "sampler(y, n, rng, score).",
    )
    n_triplets: int = parameter(
        default=50_000, rule=repetitions, doc="Triplets drawn by each call of those."
    )

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Forget, then learn from `n_triplets` triplets that `sampler` draws from labels.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries and items alike.
        y : array of shape (n_samples,)
            Class labels: points of a class are closer to each other than to the others.
        """
        with all_or_nothing(self):
            self._check_parameters()
            X, labels = validated(self, X, y, reset=True)
            check_magnitude(f"{self._owner}.fit", "X", X)
            self._init_state(as_views(X), as_views(X))
            return self._learn_from_labels(X, labels)

    def partial_fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Continue learning from labels without forgetting; the first call equals `fit`."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        X, labels = validated(self, X, y, reset=False)
        check_magnitude(f"{self._owner}.partial_fit", "X", X, dtype=self.matrix_part_.W.dtype)
        return self._learn_from_labels(X, labels)

    def _learn_from_labels(self, X: Matrix, y: Array) -> Self:
        rng, views = self._rng(), as_views(X)
        draw = triplets_drawn(self._owner, self.sampler, y)

        def score(queries: Indices, items: Indices) -> Array:
            triplets = np.column_stack([queries, items, items])
            return self._scored(views, views, triplets, differences=False)

        bar = progress(self._owner, self.n_triplets, enabled=self.verbose)
        with single_blas_thread(), bar as advance:
            for block in row_blocks(self.n_triplets, DRAW):
                triplets = draw(block.stop - block.start, rng, score)
                # Labels are no decisions about single queries.
                lists = Impressions.from_triplets(triplets, trusted=False)
                self.learn_checked(views, views, lists, advance)
        return self

    def learn(self, X: Side, feedback: Feedback, *, items: Side | None = None) -> Self:
        """Learn from judgements, in order; pieces equal the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), or Views
            Queries; also the items, unless `items` is given.
        feedback : integer array of triplets, of shape (n_triplets, 3), Impressions, or a table
            Triplets are rows (query, better, worse): the first indexes `X`, the others the items.
            A table (pandas, polars, Arrow) has columns of these names, or is a log of lists with
            query, item, click and what else `Impressions.from_table` knows.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        where = f"{self._owner}.learn"
        with all_or_nothing(self):
            queries, Z = self.begin(X, items)
            lists = self._checked_feedback(where, feedback, queries, Z)
            dtype = self.matrix_part_.W.dtype
            check_magnitude(where, "X", queries, lists.queries, dtype)
            check_magnitude(where, "items", Z, lists.items, dtype)
            self._check_nuisances(where, lists)
        with progress(self._owner, len(lists), enabled=self.verbose) as advance:
            self.learn_checked(queries, Z, lists, advance)
        return self

    def begin(self, X: Side, items: Side | None = None) -> tuple[Views, Views]:
        """Check everything but judgements, and start if nothing was learnt yet: for streams."""
        with all_or_nothing(self):
            self._check_parameters()
            new = not self.__sklearn_is_fitted__()
            queries, Z = self._checked_sides(X, items)
            if new:
                if not isinstance(X, Views):
                    validate_data(self, X, reset=True, skip_check_array=True)
                self._init_state(queries, Z)
            return queries, Z

    def learn_checked(
        self,
        X: Views,
        Z: Views,
        feedback: Indices | Impressions,
        advance: Advance | None = None,
        *,
        every: int | None = None,
    ) -> None:
        """Learn judgements that a caller has checked, into a state that exists: for streams.

        `every` so many lists a block ends, so that they are learnt as if by a call of their own.
        """
        if isinstance(feedback, Impressions):
            lists = feedback
        else:
            lists = Impressions.from_triplets(feedback, trusted=self.obey)
        if lists.nuisance and not self.nuisances_:
            self.nuisances_ = list(lists.nuisance)
            self.weights_part_.widen(len(self.nuisances_))
        size = WIDE_BLOCK if self._is_wide else min(BLOCK, self.memory) or BLOCK
        with held_signals() as let_signals_in, single_blas_thread():
            begin, says = 0, lists.say_something()
            said = self.n_updates_ + np.cumsum(says)
            while begin < len(lists):
                longest = size if every is None else min(size, every - begin % every)
                end = min(begin + longest, len(lists), self._end_of_block(said))
                part, times = lists.part(slice(begin, end)), np.flatnonzero(says[begin:end])
                if len(times):
                    part = part if len(times) == len(part) else part.part(times)
                    self._learn_block(X, Z, part, self.n_seen_ + times)
                self.n_updates_ += len(times)
                self.n_seen_ += end - begin
                if advance is not None:
                    advance(end - begin)
                begin = end
                let_signals_in()

    def _end_of_block(self, said: Indices) -> int:
        """Which of some lists is the first beyond the block, if they are the `said`-th to count."""
        if self._is_wide:
            return len(said)
        return int(np.searchsorted(said, end_of_block(self.n_updates_), side="right"))

    def _learn_block(self, X: Views, Z: Views, part: Impressions, times: Indices) -> None:
        """Learn lists that say something, and publish what is due before some of them."""
        due = self.published_part_.due_after(self.n_updates_, len(part))
        stops = [max(number - self.n_updates_ - 1, 0) for number in due]
        asked = np.repeat(part.queries, np.diff(part.starts))
        features = _bounded(self._features(X, Z, asked, part.items), LARGEST_SCORE)
        nuisance = np.zeros((len(asked), len(self.nuisances_)))
        for column, name in enumerate(self.nuisances_):
            nuisance[:, column] = part.nuisance.get(name, 0.0)
        queries = rows_of(X[self.widths_[0][0]], part.queries, self.matrix_part_.W.dtype)
        queries = queries if self._is_wide else dense(queries)
        keys = row_keys(queries)
        fading = 0.5 ** (1 / self.half_life) if self.half_life else 1.0
        offsets, others, weights = self.weights_part_.learn(
            *(part.starts, features, nuisance, part.gains, part.weights, keys, fading),
            alone=self._is_wide,
            stops=stops,
        )
        restart, W, shares = len(part), None, self.published_part_.shares
        if not self._is_wide:
            rows = self._base_rows(Z, part.items)
            rows /= self._scale(1)
            rows = _bounded(rows)
            scores = offsets, others
            restart, W = self._learn_W(part, keys, queries, rows, scores, stops)
            # What is due behind a restart waits for the new W.
            stops = [place for place in stops if place <= restart]
            if self.memory:
                then = self.memory_part_.learn(
                    *(part.starts, part.gains, part.weights, keys, queries, rows, *scores),
                    *(self.memory, times, fading),
                    stops=stops[-1:],
                )
                shares = then[0] if then else shares
                self._decide(part, keys, times, features, rows)
        if stops:
            last = len(stops) - 1
            self.published_part_.update(due[last], weights[last].ranking(), W, shares)
        if restart < len(part):
            self.published_part_.withdraw_W(self.n_updates_)

    def _learn_W(
        self,
        part: Impressions,
        keys: NDArray[np.uint64],
        queries: Array,
        rows: Array,
        scores: tuple[Array, Array],
        stops: list[int],
    ) -> tuple[int, Standing | None]:
        """Learn W; return the list at which it started anew, or else their number.

        If it did not, also return how it stood before the last list of `stops`.
        """
        lists, pairs, margins, variances = pairs_of_lists(part.starts, part.gains, *scores)
        # What people did with a long list says little about items that were not in it.
        kept = np.diff(part.starts)[lists] == 2
        queries, weights = _bounded(queries / self._scale(0)), part.weights
        if len(lists) != len(part) or not kept.all():  # else there is one pair of each list
            lists, pairs, margins, variances = (
                array[kept] for array in (lists, pairs, margins, variances)
            )
            queries, weights, keys = queries[lists], weights[lists], keys[lists]
        gaps = rows[pairs[:, 0]]
        gaps -= rows[pairs[:, 1]]
        alarm, W = self.matrix_part_.learn(
            queries,
            gaps,
            margins,
            variances,
            weights,
            keys,
            stop=int(np.searchsorted(lists, stops[-1])) if stops else None,
        )
        return len(part) if alarm < 0 else int(lists[alarm]), W

    def _decide(
        self, part: Impressions, keys: Array, times: Indices, features: Array, rows: Array
    ) -> None:
        """Take down the decisions of trusted people: each chosen item above each lower one.

        If nothing was chosen, "none of these", the average item is above all.
        """
        lists, above, below = decided_pairs(part.starts, part.gains, part.trusted)
        if len(lists):
            none, better, rows_of_better = above < 0, features[above], rows[above]
            better[none], rows_of_better[none] = self.middle_, self.mean_
            better -= features[below]
            rows_of_better -= rows[below]
            decisions = keys[lists], times[lists], better, rows_of_better
            self.memory_part_.decide(*decisions, self.memory)


def _bounded(values: Array, limit: float = LONGEST) -> Array:
    """Values with what is beyond the limit cut off; the values themselves if nothing is."""
    if np.vdot(values, values) <= limit**2:  # a bound for all; the rest may be right too
        return values
    return np.clip(values, -limit, limit)
