"""Champion against challenger: a learnt similarity replaces the one in use only if it is better."""

import copy
import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Matrix, Searchable, Side
from similia.trust.agreement import RankingLearner, judged, ranker_of
from similia.trust.evidence import Evidence, anytime_comparison, counted, power
from similia.trust.exam import (
    RANKING_MEASURE,
    Exam,
    Split,
    check_any,
    exam_of_clicks,
    exam_of_grades,
    exam_of_triplets,
    held_out,
)
from similia.trust.generations import Event, Generations
from similia.trust.interleaving import Interleaving
from similia.trust.outcome import Outcome, standard_error
from similia.validation import between, check_parameters, non_negative_integer, none, positive

_RULES = {
    "share": between(0, 1) | none,
    "level": between(0, 1),
    "most": positive,
    "worthwhile": between(0, 1),
    "seed": non_negative_integer | none,
}


class Promotion:
    """A folder of generations, one of them in use, and the rule by which it is replaced.

    Judgements are split by query. A challenger learns from one side and is compared on the other,
    query by query, with the champion and with the base: the similarity before any learning. It is
    promoted if there is enough evidence that it is better than the champion
    (`similia.trust.evidence`), it is no worse than the base, and no second measure says otherwise.
    The evidence adds up over challenges and stays valid however often one looks.

    Several processes may share the folder: if another challenger is promoted in the meantime, this
    one is compared with it before anything is recorded. The guide to trust has an example.

    Parameters
    ----------
    folder : path or Generations
        Home of the generations and their history; created by the first promotion or refusal. Or a
        `Generations` that keeps them elsewhere.
    base : {"cosine", "inner_product", "euclidean"} or learner
        The similarity in use before any learning: generation 0.
    share : float between 0 and 1, optional
        Share of the queries held out for judging; by default that of the recorded split, else 0.3.
    level : float between 0 and 1
        However often it is challenged, a champion is replaced by a challenger that is no better
        with a probability of at most 1 - level; a larger level demands stronger evidence.
    most : positive number
        Most that the difference of one query counts for. Smaller decides with fewer queries, and
        is blinder to a few great losses; at 1 nothing is cut off.
    worthwhile : float between 0 and 1
        The smallest difference worth finding, for which the power of a challenge is stated.
    seed : int, optional
        Seed of the split; by default that of the recorded split, else 0.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | Generations,
        *,
        base: Searchable | str = "cosine",
        share: float | None = None,
        level: float = 0.95,
        most: float = 0.25,
        worthwhile: float = 0.02,
        seed: int | None = None,
    ) -> None:
        given = {"share": share, "level": level, "most": most, "worthwhile": worthwhile}
        check_parameters("Promotion", _RULES, {**given, "seed": seed})
        self.base = ranker_of("Promotion", base)
        self._generations = folder if isinstance(folder, Generations) else Generations(folder)
        recorded = self.recorded_split or Split(0.3, 0, 0, 0, "")
        self.share = recorded.share if share is None else float(share)
        self.seed = recorded.seed if seed is None else int(seed)
        self.level = level
        self.most = most
        self.worthwhile = worthwhile

    # -- what is in use ------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """Number of the generation in use; 0 is the base."""
        return self._generations.current

    @property
    def history(self) -> list[Event]:
        """What happened, oldest first: splits, promotions, refusals and rollbacks."""
        return copy.deepcopy(self._generations.events)

    def champion(self) -> Any:
        """Load the learner in use; the base if nothing was promoted."""
        return self._generations.load(self.current) if self.current else self.base

    def rollback(self, to: int | None = None) -> int:
        """Return to an earlier generation, and return its number.

        Parameters
        ----------
        to : int, optional
            Generation to return to, 0 for the base; by default the one that the current replaced.
        """
        return self._generations.roll_back(to)

    # -- the split -----------------------------------------------------------------------------

    @property
    def recorded_split(self) -> Split | None:
        """The split that was recorded last, if any."""
        splits = [event for event in self._generations.events if event["event"] == "split"]
        return Split(*(splits[-1][field] for field in Split._fields)) if splits else None

    def split(self, queries: ArrayLike) -> NDArray[np.bool_]:
        """Mask of the judgements whose query is held out; see `held_out`.

        Raises ValueError if a split with another share or seed is recorded.
        """
        self._check_same_split()
        return held_out(queries, self.share, self.seed)

    def _check_same_split(self) -> None:
        if recorded := self.recorded_split:
            recorded.check_same(self.share, self.seed, self._generations.folder)

    def record_split(
        self, judgements: ArrayLike, y: ArrayLike | None = None, *, queries: ArrayLike | None = None
    ) -> Split:
        """Record which judgements are held out, so that `judge` accepts a model learnt elsewhere.

        The rest is there to learn from: ``judgements[~promotion.split(judgements[:, 0])]``.

        Parameters
        ----------
        judgements, y, queries : arrays
            As in `run`.
        """
        given = judged("Promotion.record_split", None, judgements, y, queries)
        kept = given.part(self.split(given.queries))
        n_queries = len(np.unique(kept.queries))
        check_any(n_queries)
        split = Split(self.share, self.seed, n_queries, len(kept.tuples), kept.sha256)
        with self._generations.changing():
            self._check_same_split()  # another process may have recorded one
            self._generations.record("split", {**split._asdict(), "reason": str(split)})
        return split

    def check_split(
        self, judgements: ArrayLike, y: ArrayLike | None = None, *, queries: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Mask of the held-out judgements, if they are those of the recorded split.

        Raises ValueError if no split is recorded or the judgements are others: a model may have
        learnt from them.

        Parameters
        ----------
        judgements, y, queries : arrays
            As in `run`; judgements that are not held out may be missing.
        """
        self._generations.refresh()
        recorded = self.recorded_split
        if recorded is None:
            raise ValueError(
                "Promotion: the split must be recorded before the model learns, got none in "
                f"{self._generations.folder}; record it (`similia split`), then learn from the "
                "judgements that are not held out."
            )
        given = judged("Promotion.check_split", None, judgements, y, queries)
        mask = self.split(given.queries)
        kept = given.part(mask)
        if kept.sha256 != recorded.sha256:
            raise ValueError(
                "Promotion: held-out judgements must be those of the recorded split, got "
                f"{len(kept.tuples)} other than the {recorded.n_held_out} recorded, which the "
                "model may have learnt from; record the split of this feedback, then learn."
            )
        return mask

    # -- judging -------------------------------------------------------------------------------

    def run(
        self,
        learner: RankingLearner,
        X: Side,
        judgements: ArrayLike,
        y: ArrayLike | None = None,
        *,
        items: Side | None = None,
        queries: ArrayLike | None = None,
    ) -> Outcome:
        """Teach a copy of `learner` some queries, and challenge with it on the others.

        Parameters
        ----------
        learner : learner
            Fresh, or fitted to continue from, such as a copy of the champion; it is left unchanged.
            A fitted learner must not have learnt from held-out queries.
        X : array or CSR matrix of shape (n_queries, n_features), or Views
            Queries; also the items, unless `items` is given.
        judgements : integer array of shape (n, 3) or (n, 2)
            Triplets (query, better, worse), or pairs for a learner of pairs, whose first point is
            the query.
        y : array of shape (n,), optional
            What is known of the pairs.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
        queries : array of shape (n,), optional
            Name of each judgement's query, by which they are split; by default the row of X. Needed
            where rows may change their order from one time to the next.
        """
        ranker_of("Promotion.run", learner)
        given = judged("Promotion.run", learner.learns_from, judgements, y, queries)
        kept = self.split(given.queries)
        if kept.all():
            raise ValueError("Promotion.run: some query must be left to learn from, got none.")
        challenger, learnt = copy.deepcopy(learner), given.part(~kept)
        if challenger.learns_from == "pairs":
            challenger.learn(X, learnt.tuples, np.asarray(learnt.y))
        else:
            challenger.learn(X, learnt.tuples, items=items)
        rows, names = given.part(kept).triplets(challenger)
        n = len(learnt.tuples)
        return self.challenge(challenger, X, rows, items=items, queries=names, n_learnt=n)

    def judge(
        self,
        model: RankingLearner,
        X: Side,
        judgements: ArrayLike,
        y: ArrayLike | None = None,
        *,
        items: Side | None = None,
        queries: ArrayLike | None = None,
    ) -> Outcome:
        """Challenge with a model learnt elsewhere, on the held-out queries of the recorded split.

        Raises ValueError where the model may have learnt from them: if no split is recorded
        (`record_split`), or if these judgements are not the recorded ones.

        Parameters
        ----------
        model : fitted learner
            Learnt from the judgements that the split leaves, and no others.
        X, judgements, y, items, queries : arrays
            As in `run`; judgements that are not held out may be missing.
        """
        ranker_of("Promotion.judge", model)
        given = judged("Promotion.judge", model.learns_from, judgements, y, queries)
        kept = self.check_split(given.tuples, given.y, queries=given.queries)
        rows, names = given.part(kept).triplets(model)
        return self.challenge(model, X, rows, items=items, queries=names, n_learnt=model.n_seen_)

    def challenge(
        self,
        challenger: RankingLearner,
        X: Side,
        triplets: ArrayLike,
        *,
        items: Side | None = None,
        queries: ArrayLike | None = None,
        n_learnt: int = 0,
        clicks: bool = False,
    ) -> Outcome:
        """Compare a fitted challenger on triplets that it has not learnt from.

        The share of a query's triplets in the right order decides. Beside it, nDCG@10 over all
        items says whether those that are preferred are found; it can veto.

        Parameters
        ----------
        challenger : fitted learner
            One of `similia.registry.LEARNERS` that ranks.
        X, triplets, items, queries : arrays
            As in `run`, of held-out queries only (`split`).
        n_learnt : int
            Judgements that the challenger learnt from, for the history.
        clicks : bool
            Whether the triplets come from clicks, which are compared but never promote.
        """
        exam = exam_of_triplets(X, triplets, items, queries)
        return self._decided(challenger, exam, n_learnt, clicks)

    def challenge_by_relevance(
        self,
        challenger: RankingLearner,
        Q: Side,
        Z: Side,
        relevance: Matrix,
        *,
        measure: str = RANKING_MEASURE,
        queries: ArrayLike | None = None,
        exclude_self: bool = False,
        n_learnt: int = 0,
        clicks: bool = False,
    ) -> Outcome:
        """Compare a fitted challenger by the rankings of queries that it has not learnt from.

        Beside the measure, the order of graded items of a query is compared; it can veto.

        Parameters
        ----------
        challenger : fitted learner
        Q, Z, relevance : arrays or sparse matrices
            Held-out queries only, the items, and grades; see `similia.evaluate`.
        measure : str
            Such as "ndcg@10", "precision@10", "map"; also by the names of ir-measures.
        queries : array of shape (n_queries,), optional
            Names of the queries, by which later challenges recognize them; by default the rows.
        exclude_self : bool
            Whether item i is query i and so not ranked.
        n_learnt, clicks : int, bool
            As in `challenge`.
        """
        exam = exam_of_grades(Q, Z, relevance, measure, queries, exclude_self=exclude_self)
        return self._decided(challenger, exam, n_learnt, clicks)

    def challenge_by_interleaving(
        self, challenger: RankingLearner, interleaving: Interleaving, *, n_learnt: int = 0
    ) -> Outcome:
        """Compare a challenger by the clicks on searches that it answered with the champion.

        The share of searches won decides. As long as challenger and parameters are the same, the
        evidence adds up over all searches, and each counts once.

        Parameters
        ----------
        challenger : fitted learner
        interleaving : Interleaving
            With the champion in use.
        n_learnt : int
            Judgements that the challenger learnt from, for the history.
        """
        self._generations.refresh()
        if interleaving.champion != self.current:
            raise ValueError(
                f"Promotion: interleaving must be with the champion, generation {self.current}, "
                f"got generation {interleaving.champion}."
            )
        return self._decided(challenger, exam_of_clicks(challenger, interleaving), n_learnt, False)

    def _decided(
        self, challenger: RankingLearner, exam: Exam, n_learnt: int, clicks: bool
    ) -> Outcome:
        ours = exam.mark(ranker_of("Promotion", challenger))
        kind = exam.kind(challenger)
        names = np.asarray(exam.names)[ours.n_relevant > 0].tolist()
        before = exam.mark(self.base)
        start, unlearnt = None, getattr(challenger, "start", None)
        if callable(unlearnt):  # of some learners it is a parameter
            start = float(exam.mark(unlearnt()).judged(exam.measure).mean())
        options = {"level": self.level, "most": self.most if exam.cut else 1.0}
        against_base = anytime_comparison(ours, before, exam.measure, **options)
        while True:
            champion, reigning = self.current, self.champion()
            theirs = exam.mark(reigning) if champion else before
            against = anytime_comparison(ours, theirs, exam.measure, **options)
            differences = ours.judged(exam.measure) - theirs.judged(exam.measure)
            beside = exam.beside(challenger, reigning)
            found = replace(power(differences, self.worthwhile, **options), unit=exam.unit)
            with self._generations.changing():
                if self.current != champion:
                    continue  # another challenger was promoted meanwhile; compare with it
                evidence = self._generations.evidence(kind)
                if not clicks:
                    bets = counted(differences, options["most"])
                    evidence = evidence.after(self._generations.n_attempts + 1, names, bets)
                outcome = Outcome(
                    against,
                    against_base,
                    standard_error(differences),
                    beside,
                    evidence.value,
                    1 / (1 - self.level),
                    found,
                    champion,
                    champion,
                    n_learnt,
                    int(ours.n_relevant.sum()),
                    clicks,
                    start,
                )
                return self._recorded(challenger, outcome, {} if clicks else {kind: evidence})

    def _recorded(
        self, challenger: RankingLearner, outcome: Outcome, evidence: dict[str, Evidence]
    ) -> Outcome:
        told = ("promoted", "generation", "challenged")  # the event itself says so
        figures = {name: v for name, v in outcome.to_dict().items() if name not in told}
        if outcome.promoted:
            return replace(outcome, generation=self._generations.promote(challenger, figures))
        self._generations.record("refusal", figures, evidence=evidence)
        return outcome
