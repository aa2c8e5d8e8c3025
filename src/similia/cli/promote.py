"""``similia split``, ``promote`` and ``rollback``: use what was learnt only if it is better."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt

if TYPE_CHECKING:
    from similia.trust import Outcome

#: exit code of `promote` if the champion stays
NOT_PROMOTED = 4


Folder = Annotated[
    Path, Argument(metavar="FOLDER", help="Home of the generations and their history.")
]
Continue = Annotated[
    bool, Option("--continue", help="Continue from a copy of the champion, not a new learner.")
]
Model = Annotated[
    Path | None,
    Option(
        "--model",
        help="Judge this saved model instead of learning one. It must have learnt from what "
        "`similia split` wrote of the same feedback, and from nothing else.",
    ),
]
Unseen = Annotated[
    bool,
    Option(
        "--unseen",
        help="With --model: it has learnt from none of these queries, so all of them judge and no "
        "split is needed.",
    ),
]
Clicks = Annotated[
    bool | None,
    opt.judgement_option(
        "--clicks/--judgements",
        help="Whether the feedback is mere clicks, which never promote. Default: grades of 0 and 1 "
        "are, if an item has both for one query.",
    ),
]
Worthwhile = Annotated[
    float,
    Option("--worthwhile", min=0.0001, max=0.9999, help="Smallest difference worth finding."),
]
Base = Annotated[
    str | None,
    Option(
        "--base",
        help="Similarity before any learning: cosine, inner_product, euclidean or a saved model. "
        "Default: today's ranking, the first view as it is.",
    ),
]
Share = Annotated[
    float | None,
    Option(
        "--hold-out",
        min=0.01,
        max=0.99,
        help="Share of queries to judge on; by default that of the recorded split, else 0.3.",
    ),
]
SplitSeed = Annotated[
    int | None,
    Option(
        "--seed",
        min=0,
        help="Seed of everything random; by default that of the recorded split, else 0.",
    ),
]
Measure = Annotated[
    str | None,
    Option(
        "--measure",
        help="Measure that decides, for query,item,relevance: such as nDCG@10 (the default), AP, "
        "RR@10 or pairwise_accuracy. Otherwise the share of judgements in the right order decides.",
    ),
]
To = Annotated[
    int | None,
    Option("--to", min=0, help="A generation, 0 for the base; by default the one before."),
]
Output = Annotated[
    Path, Option("--output", "-o", help="Where to write the judgements to learn from.")
]
KindOption = Annotated[
    Literal["triplets", "pairs", "grades"] | None,
    Option("--kind", help="What a .npy matrix holds; other files tell by their columns."),
]


@inputs.grouped
def split(
    folder: Folder,
    sides: inputs.Sides,
    feedback: opt.Feedback,
    output: Output,
    share: Share = None,
    seed: SplitSeed = None,
    columns: opt.Columns = None,
    kind: KindOption = None,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Hold out some queries to promote by; write out the rest.

    The split is recorded in FOLDER. The output has the rows of FEEDBACK that are not held out,
    unchanged and in the same format: learn from them with `similia learn` or any other way.
    """
    inputs.check_files(sides, feedback, outputs=(output, bad_log))

    from similia.files import Source, spooled
    from similia.trust import Promotion, split_file

    promotion = Promotion(folder, share=share, seed=seed)
    layout = sides.layout()
    with (
        spooled(Source(feedback, inputs.named_columns(columns))) as path,
        sides.read(None, bad_rows, bad_log, feedback=path, layout=layout) as (X, Z, bad),
    ):
        found, n_learning = split_file(promotion, X, path, output, items=Z, kind=kind, bad_rows=bad)
    if as_json:
        figures = {**found._asdict(), "n_learning": n_learning, "output": str(output)}
        opt.print_json({**figures, "bad_rows": bad.to_dict()})
    else:
        opt.say(f"{found} {n_learning} judgements to learn from: {output}")


@inputs.grouped
def promote(
    folder: Folder,
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    feedback: opt.Feedback,
    learner: opt.Learner = None,
    settings: opt.Settings = None,
    go_on: Continue = False,
    model: Model = None,
    unseen: Unseen = False,
    base: Base = None,
    share: Share = None,
    level: opt.Level = 0.95,
    worthwhile: Worthwhile = 0.02,
    measure: Measure = None,
    columns: opt.Columns = None,
    clicks: Clicks = None,
    position: opt.Position = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    seed: SplitSeed = None,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    bad_log: opt.BadLog = None,
    as_json: opt.AsJson = False,
) -> None:
    """Put a model to use only if it proves better.

    Without --model, learn the challenger first. It must be better beyond chance.

    Judgements are split by query: the challenger learns from one side and is compared on the other
    with the champion and with the base. With --model the challenger is a model that was learnt
    elsewhere, judged on what `similia split` held out. However often this is run, a challenger that
    is no better is promoted with a probability of at most 1 - level. Exit code 4 if the champion
    stays.
    """
    if go_on and (learner or settings):
        raise typer.BadParameter("--continue keeps the champion's learner and its parameters.")
    if model is not None and (learner or settings or go_on):
        raise typer.BadParameter("--model is learnt: leave out --learner, --set and --continue.")
    if unseen and model is None:
        raise typer.BadParameter("--unseen is about a model: add --model.")
    inputs.check_files(sides, feedback, outputs=(bad_log,))

    from similia.files import Source, spooled
    from similia.registry import DEFAULT, new_learner
    from similia.trust import Promotion, promote_file
    from similia.trust.evaluation import base_in_words, todays_ranking
    from similia.trust.generations import Generations

    current = Generations(folder).current if go_on else 0
    if model is not None or current:
        challenger = inputs.load_model(model or folder)
    else:
        challenger = new_learner(learner or DEFAULT, dict(map(inputs.setting, settings or [])))
    before = inputs.base_named(base) if base else todays_ranking(challenger)
    rule = {"level": level, "worthwhile": worthwhile}
    promotion = Promotion(folder, base=before, share=share, seed=seed, **rule)
    layout = None if views else challenger.layout_
    if layout is None and challenger.learns_lists and not views:
        layout = sides.layout()
    with (
        spooled(Source(feedback, inputs.named_columns(columns, position))) as source,
        sides.read(views, bad_rows, bad_log, feedback=source, layout=layout) as (X, Z, bad),
    ):
        outcome = promote_file(
            promotion,
            challenger,
            X,
            source,
            items=Z,
            learnt=model is not None,
            unseen=unseen,
            clicks=clicks,
            measure=measure,
            unjudged=unjudged.value,
            bad_rows=bad,
        )
    if as_json:
        opt.print_json({**outcome.to_dict(), "bad_rows": bad.to_dict()})
    else:
        print_outcome(outcome, base_in_words(before, X.X))
    if not outcome.promoted:
        raise typer.Exit(NOT_PROMOTED)


def print_outcome(outcome: "Outcome", base: str = "the base") -> None:
    """Print a verdict, and the figures behind it."""
    fields: dict[str, object] = {"measure": f"{outcome.measure} on {outcome.power.sample}"}
    fields |= {name: f"{mean:.4f}" for name, mean in outcome.figures.items()}
    fields["base"] = f"{fields['base']}  (today's ranking: {base})"
    fields["champion"] = f"{fields['champion']}  (generation {outcome.champion})"
    gain = outcome.against_champion.difference
    fields["against champion"] = f"{gain:+.4f} ± {outcome.error:.4f} (standard error)"
    fields["against base"] = f"{outcome.against_base.difference:+.4f}"
    fields["evidence"] = f"{outcome.evidence:.3g} of the {outcome.needed:.3g} needed"
    if outcome.beside is not None:
        other = outcome.beside
        fields["beside"] = f"{other.difference:+.4f} ± {other.error:.4f} in {other.measure}"
    fields["power"] = outcome.power
    fields["learnt from"] = f"{outcome.n_learnt} judgements"
    fields["in use"] = f"generation {outcome.generation}"
    opt.say(outcome.reason)
    opt.print_fields(fields)


def rollback(folder: Folder, to: To = None, as_json: opt.AsJson = False) -> None:
    """Return to an earlier generation."""
    from similia.trust.generations import Generations

    generations = Generations(folder)
    before = generations.current
    now = generations.roll_back(to)
    if as_json:
        opt.print_json({"from": before, "to": now})
    else:
        opt.say(f"Generation {now} is in use; it replaces generation {before}.")
