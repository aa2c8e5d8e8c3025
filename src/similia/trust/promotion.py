"""Champion against challenger: what was learnt replaces what is in use only if it is better."""

import copy
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.retrieval import Evaluation, compare, evaluate
from similia.trust.generations import Generations, OvertakenError
from similia.trust.judging import (
    ACCURACY,
    pairs_as_triplets,
    scorer_of,
    triplet_evaluation,
)
from similia.trust.outcome import Outcome, promotes, reasoned
from similia.trust.split import held_out, seed_number
from similia.validation import between, check_parameters, positive_integer

_RULES = {
    "share": between(0, 1),
    "level": between(0, 1),
    "n_resamples": positive_integer,
    "least_queries": positive_integer,
    "seed": seed_number,
}


class Promotion:
    """A folder of generations, of which one is in use, and the rule by which it is replaced.

    Judgements are split by query. A challenger learns from one side and is compared on the other,
    query by query, with the champion and with the base: the similarity before any learning. It is
    promoted if it is better than the champion beyond chance (a paired sign-flip test) and no worse
    than the base. Several processes may share the folder: if another one was promoted meanwhile,
    the challenger is compared with that one before anything is recorded.

    Parameters
    ----------
    folder : path
        Where generations and their history are kept; made when first needed.
    base : {"cosine", "inner_product", "euclidean"} or learner
        What is in use before any learning: generation 0.
    share : float between 0 and 1
        Share of the queries that is held out for judging.
    level : float between 0 and 1
        A challenger that is no better replaces the champion with a probability of at most
        (1 - level) / 2 at each challenge; a larger level demands stronger evidence.
    n_resamples : int
        Sign flips and bootstrap resamples.
    least_queries : int
        Fewer held-out queries than this decide nothing: five signs cannot even make p < 0.05.
    seed : int
        Of the split and the resampling.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from similia import OASIS
    >>> from similia.trust import Promotion
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 8)) * [3, 3, 1, 1, 1, 1, 1, 1]   # the last six matter
    >>> rows = rng.integers(300, size=(3000, 3))
    >>> score = lambda a, b: (X[a] * X[b])[:, 2:].sum(1)
    >>> swap = score(rows[:, 0], rows[:, 1]) < score(rows[:, 0], rows[:, 2])
    >>> rows[swap] = rows[swap][:, [0, 2, 1]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     promotion = Promotion(folder, base="inner_product")
    ...     outcome = promotion.run(OASIS(), X, rows)
    ...     outcome.promoted, promotion.current, promotion.rollback()
    (True, 1, 0)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        base: Any = "cosine",
        share: float = 0.3,
        level: float = 0.95,
        n_resamples: int = 2000,
        least_queries: int = 6,
        seed: int = 0,
    ) -> None:
        given = {"share": share, "level": level, "n_resamples": n_resamples, "seed": seed}
        check_parameters("Promotion", _RULES, {**given, "least_queries": least_queries})
        self.base = scorer_of("Promotion", base)
        self.share = share
        self.level = level
        self.n_resamples = n_resamples
        self.least_queries = least_queries
        self.seed = seed
        self._generations = Generations(folder)

    # -- what is in use ------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """Number of the generation in use; 0 is the base."""
        return self._generations.current

    @property
    def history(self) -> list[dict[str, Any]]:
        """What happened, oldest first: promotions, refusals and rollbacks, with their figures."""
        return copy.deepcopy(self._generations.events)

    def champion(self) -> Any:
        """Give the learner in use, newly loaded; the base if nothing was promoted."""
        return self._generations.load(self.current) if self.current else self.base

    def rollback(self, to: int | None = None) -> int:
        """Return to an earlier generation; give its number.

        Parameters
        ----------
        to : int, optional
            Generation to return to, 0 for the base; by default the one that the current replaced.
        """
        return self._generations.roll_back(to)

    # -- judging -------------------------------------------------------------------------------

    def split(self, queries: Any) -> NDArray[np.bool_]:
        """Give for each judgement whether its query is held out; see `held_out`."""
        return held_out(queries, self.share, self.seed)

    def run(
        self,
        learner: Any,
        X: Any,
        judgements: Any,
        y: Any = None,
        *,
        items: Any = None,
        queries: Any = None,
    ) -> Outcome:
        """Let a copy of `learner` learn from some queries, and challenge with it on the others.

        Parameters
        ----------
        learner : learner
            Fresh, or fitted to go on from: a copy of the champion, say. It is left as it is. What a
            fitted one has learnt before must not come from held-out queries.
        X : array or CSR matrix of shape (n_queries, n_features)
            Queries; also the items, unless `items` is given.
        judgements : integer array of shape (n, 3) or (n, 2)
            Triplets (query, better, worse), or pairs for a learner of pairs, whose first point is
            the query.
        y : array of shape (n,), optional
            What is known of the pairs.
        items : array or CSR matrix of shape (n_items, n_item_features), optional
        queries : array of shape (n,), optional
            Name of the query of each judgement, by which they are split; the row of X if None. Give
            it where rows may come in another order another time.

        Returns
        -------
        Outcome
        """
        challenger = scorer_of("Promotion.run", copy.deepcopy(learner))
        judgements = np.asarray(judgements)
        width = {"triplets": 3, "pairs": 2}.get(getattr(learner, "learns_from", ""), 0)
        if judgements.ndim != 2 or judgements.shape[1] != width or (y is None) != (width == 3):
            raise ValueError(
                f"Promotion.run: judgements must be {learner.learns_from} of shape (n, {width})"
                f"{' with y' if width == 2 else ' without y'}, got shape {judgements.shape}."
            )
        names = judgements[:, 0] if queries is None else np.asarray(queries)
        if names.shape != (len(judgements),):
            raise ValueError(
                f"Promotion.run: queries must be one for each of the {len(judgements)} judgements, "
                f"got shape {names.shape}."
            )
        kept = self.split(names)
        if kept.all():
            raise ValueError("Promotion.run: some query must be left to learn from, got none.")
        if y is None:
            given = {} if items is None else {"items": items}
            challenger.learn(X, judgements[~kept], **given)
            triplets, names = judgements[kept], names[kept]
        else:
            y = np.asarray(y)
            challenger.learn(X, judgements[~kept], y[~kept])
            measured = getattr(learner, "feedback", "") == "distances"
            closeness = -y[kept] if measured else y[kept]
            triplets = pairs_as_triplets(judgements[kept], closeness)
            names = triplets[:, 0]
        n_learnt = int(np.count_nonzero(~kept))
        return self.challenge(
            challenger, X, triplets, items=items, queries=names, n_learnt=n_learnt
        )

    def challenge(
        self,
        challenger: Any,
        X: Any,
        triplets: Any,
        *,
        items: Any = None,
        queries: Any = None,
        n_learnt: int = 0,
    ) -> Outcome:
        """Compare a fitted challenger on triplets that it has not learnt from.

        Parameters
        ----------
        challenger : fitted learner
            One of `similia.registry.LEARNERS` that ranks.
        X : array or CSR matrix of shape (n_queries, n_features)
        triplets : integer array of shape (n_triplets, 3)
            Of queries that are held out (`split`).
        items : array or CSR matrix of shape (n_items, n_item_features), optional
        queries : array of shape (n_triplets,), optional
            Names of the queries; the rows of X if None.
        n_learnt : int
            Judgements that the challenger learnt from, for the history.

        Returns
        -------
        Outcome
            The measure is the share of a query's triplets in the right order.
        """

        def measured(scorer: Any) -> Evaluation:
            return triplet_evaluation(scorer, X, triplets, items=items, queries=queries)

        if len(triplets) == 0:
            raise ValueError(
                "Promotion.challenge: triplets must be some of held-out queries, got none; "
                "gather judgements of more queries, or hold out a larger share."
            )
        return self._decided(challenger, measured, ACCURACY, n_learnt, len(triplets))

    def challenge_by_relevance(
        self,
        challenger: Any,
        Q: Any,
        Z: Any,
        relevance: Any,
        *,
        measure: str = "ndcg@10",
        n_learnt: int = 0,
    ) -> Outcome:
        """Compare a fitted challenger by the rankings of queries that it has not learnt from.

        Parameters
        ----------
        challenger : fitted learner
        Q : array or CSR matrix of shape (n_queries, n_features)
            Held-out queries alone.
        Z : array or CSR matrix of shape (n_items, n_item_features)
        relevance : array or sparse matrix of shape (n_queries, n_items)
            Grades; see `similia.evaluate`.
        measure : str
            Such as "ndcg@10", "precision@10", "map".
        n_learnt : int
            Judgements that the challenger learnt from, for the history.

        Returns
        -------
        Outcome
        """
        name, _, cut = measure.partition("@")

        def measured(scorer: Any) -> Evaluation:
            k = int(cut) if cut.isdigit() else 10
            return evaluate(scorer, Q, Z, relevance=relevance, measures=[name], k=k)

        n_judgements = int(np.count_nonzero(getattr(relevance, "data", relevance)))
        return self._decided(challenger, measured, measure, n_learnt, n_judgements)

    def _decided(
        self, challenger: Any, measured: Any, measure: str, n_learnt: int, n_held_out: int
    ) -> Outcome:
        challenger = scorer_of("Promotion", challenger)
        ours = measured(challenger)
        if ours.n_judged < self.least_queries:
            raise ValueError(
                f"Promotion: held-out queries must be at least {self.least_queries} to tell "
                f"anything from chance, got {ours.n_judged}; gather judgements of more queries, "
                "or hold out a larger share."
            )
        options: dict[str, Any] = {
            "level": self.level,
            "n_resamples": self.n_resamples,
            "random_state": self.seed,
        }
        against_base = compare(ours, measured(self.base), measure, **options)
        while True:
            champion = self.current
            against_champion = (
                compare(ours, measured(self._generations.load(champion)), measure, **options)
                if champion
                else against_base
            )
            outcome = Outcome(
                promoted=promotes(against_champion, against_base),
                generation=champion,
                reason=reasoned(against_champion, against_base, champion),
                against_champion=against_champion,
                against_base=against_base,
                champion=champion,
                n_learnt=n_learnt,
                n_held_out=n_held_out,
                n_queries=ours.n_judged,
            )
            try:
                return self._recorded(challenger, outcome)
            except OvertakenError:  # another process was faster: compare with its champion
                continue

    def _recorded(self, challenger: Any, outcome: Outcome) -> Outcome:
        figures = outcome.to_dict()
        for told in ("promoted", "generation", "champion"):
            del figures[told]
        if not outcome.promoted:
            self._generations.refuse(figures, outcome.champion)
            return outcome
        generation = self._generations.promote(challenger, figures, outcome.champion)
        return Outcome(**{**vars(outcome), "generation": generation})
