"""``similia learn``: a model from vectors and judgements in files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import AsJson, print_fields, print_json

Vectors = Annotated[Path, typer.Argument(help="Vectors: .npy, or .npz of scipy.sparse.save_npz.")]
Feedback = Annotated[
    Path, typer.Argument(help="Triplets of row numbers: .npy, or .csv with query,better,worse.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where to save the model.")]
Learner = Annotated[
    str | None,
    typer.Option("--learner", help="One of `similia learners`; FactoredAROMA if not given."),
]
Items = Annotated[
    Path | None,
    typer.Option("--items", help="Vectors of the items, where queries are different things."),
]
Start = Annotated[
    Path | None, typer.Option("--from", help="Go on from this saved model, as it was set.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; repeatable."),
]
Chunk = Annotated[
    int, typer.Option("--chunk", min=1, help="Judgements that are scored, then learnt, at a time.")
]


def learn(
    vectors: Vectors,
    feedback: Feedback,
    output: Output,
    learner: Learner = None,
    items: Items = None,
    start: Start = None,
    settings: Settings = None,
    chunk: Chunk = 100,
    as_json: AsJson = False,
) -> None:
    """Learn from judgements, each scored before it is learnt, and save the model."""
    if start is not None and (learner or settings):
        raise typer.BadParameter("--from keeps the saved learner; leave out --learner and --set.")
    values = dict(map(_setting, settings or []))

    from similia.cli.files import read_triplets, read_vectors
    from similia.persistence import load, save
    from similia.sampling import feedback_report

    model = _new_learner(learner or "FactoredAROMA", values) if start is None else load(start)
    if not hasattr(model, "triplet_scores"):
        raise ValueError(
            f"similia learn: the learner must be one that learns from triplets, such as "
            f"FactoredAROMA, got {type(model).__name__}."
        )
    X, triplets = read_vectors(vectors), read_triplets(feedback)
    Z = None if items is None else read_vectors(items)
    report = feedback_report(triplets)
    results = {
        "learner": type(model).__name__,
        "feedback": report.to_dict(),
        **progressive_accuracy(model, X, triplets, items=Z, chunk=chunk),
        "output": str(output),
    }
    save(model, output)
    if as_json:
        print_json(results)
    else:
        print_fields({**results, "feedback": report, **_in_words(results)})


def progressive_accuracy(
    model: Any, X: Any, triplets: Any, *, items: Any, chunk: int
) -> dict[str, Any]:
    """Test, then train: the share of judgements ordered rightly before they were learnt.

    Beside it, the share that the model ordered rightly as it was at the start. A tie is half right.
    """
    import copy

    import numpy as np

    from similia.progress import progress

    model.learn(X, triplets[:0], items=items)  # a new learner takes its starting state
    first, updates = copy.deepcopy(model), model.n_updates_
    right = np.zeros(2)
    with progress(type(model).__name__, len(triplets)) as advance:
        for begin in range(0, len(triplets), chunk):
            part = triplets[begin : begin + chunk]
            for place, scorer in enumerate((first, model)):
                scores = scorer.triplet_scores(X, part, items=items)
                right[place] += (scores > 0).sum() + (scores == 0).sum() / 2
            model.learn(X, part, items=items)
            advance(len(part))
    before, adapted = (right / len(triplets)).tolist()
    return {
        "accuracy_at_start": before,
        "progressive_accuracy": adapted,
        "n_updates": model.n_updates_ - updates,
        "n_seen": model.n_seen_,
    }


def _in_words(results: dict[str, Any]) -> dict[str, str]:
    before, adapted = results["accuracy_at_start"], results["progressive_accuracy"]
    n = results["feedback"]["n"]
    return {
        "accuracy_at_start": f"{before:.4f}  (the model before this feedback)",
        "progressive_accuracy": f"{adapted:.4f}  (each judgement before it was learnt)",
        "n_updates": f"{results['n_updates']} of {n} judgements changed the model",
        "n_seen": f"{results['n_seen']} judgements in all",
    }


def _new_learner(name: str, values: dict[str, Any]) -> Any:
    from similia.registry import learner_class

    model = learner_class(name)()
    unknown = sorted(set(values) - set(model.get_params()))
    if unknown:
        raise ValueError(
            f"{name}: --set must name one of {', '.join(model.get_params())}, got {unknown[0]}."
        )
    return model.set_params(**values)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"--set must be NAME=VALUE, got {text!r}.")
    constants = {"true": True, "false": False, "none": None}
    if value.lower() in constants:
        return name, constants[value.lower()]
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            pass
    return name, value
