"""``similia learn``: a model from vectors and judgements in files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import AsJson, print_fields, print_json

Vectors = Annotated[Path, typer.Argument(help="Vectors: .npy, or .npz of scipy.sparse.save_npz.")]
Feedback = Annotated[
    Path,
    typer.Argument(
        help="Judgements, .npy or .csv: query,better,worse; for learners of pairs a,b,y; "
        "for classifiers row,label. All but y and label are row numbers."
    ),
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

    from similia.cli.files import read_feedback, read_vectors
    from similia.persistence import load, save

    model = _new_learner(learner or "FactoredAROMA", values) if start is None else load(start)
    X, judgements = read_vectors(vectors), read_feedback(feedback, model.learns_from)
    Z = None if items is None else read_vectors(items)
    if Z is not None and model.learns_from != "triplets":
        raise ValueError(
            f"similia learn: --items must be left out for {type(model).__name__}, which learns "
            f"from {model.learns_from}."
        )
    results = {
        "learner": type(model).__name__,
        "feedback": _report(model, judgements),
        **learn_progressively(model, X, judgements, items=Z, chunk=chunk),
        "output": str(output),
    }
    save(model, output)
    if as_json:
        print_json(results)
    else:
        print_fields(_in_words(results))


def _report(model: Any, judgements: tuple[Any, ...]) -> dict[str, Any]:
    import numpy as np

    from similia.sampling import feedback_report

    if model.learns_from == "labels":
        return {"n": len(judgements[0]), "n_classes": len(set(judgements[1].tolist()))}
    if model.learns_from == "triplets":
        return feedback_report(judgements[0]).to_dict()
    pairs, y = judgements
    signs = y if np.isin(y, (-1, 1)).all() else np.ones(len(y))  # distances contradict by degrees
    return feedback_report(pairs, signs.astype(np.int8)).to_dict()


def learn_progressively(
    model: Any, X: Any, judgements: tuple[Any, ...], *, items: Any, chunk: int
) -> dict[str, Any]:
    """Learn in chunks; count the judgements that were right before they were learnt.

    Beside it, those that were right under the model as it was at the start. A tie is half right. A
    pair has no right or wrong without a threshold, so it counts only where a learner has one.
    """
    import copy

    import numpy as np

    from similia.progress import progress

    teach, n_right = _lessons(model, X, items, judgements)
    teach(model, tuple(column[:0] for column in judgements))  # a new one takes its starting state
    first, updates = copy.deepcopy(model), getattr(model, "n_updates_", 0)
    right, n = np.zeros(2), len(judgements[0])
    with progress(type(model).__name__, n) as advance:
        for begin in range(0, n, chunk):
            part = tuple(column[begin : begin + chunk] for column in judgements)
            if n_right is not None:
                right += [n_right(scorer, part) for scorer in (first, model)]
            teach(model, part)
            advance(len(part[0]))
    counts = {"n_updates": model.n_updates_ - updates, "n_seen": model.n_seen_}
    if n_right is None:
        return counts
    before, adapted = (right / n).tolist()
    return {"accuracy_at_start": before, "progressive_accuracy": adapted, **counts}


def _lessons(model: Any, X: Any, items: Any, judgements: tuple[Any, ...]) -> tuple[Any, Any]:
    """Give how this kind of learner is taught a chunk, and how many of it it has right."""
    import numpy as np

    def learn_tuples(model: Any, part: tuple[Any, ...]) -> None:
        model.learn(X, *part, **({} if items is None else {"items": items}))

    def right_order(model: Any, part: tuple[Any, ...]) -> float:
        scores = model.triplet_scores(X, part[0], items=items)
        return float((scores > 0).sum() + (scores == 0).sum() / 2)

    def right_side(model: Any, part: tuple[Any, ...]) -> float:
        return float(np.sum(model.predict(X, part[0]) == part[1]))

    def learn_labels(model: Any, part: tuple[Any, ...]) -> None:
        if len(part[0]):
            model.partial_fit(X[part[0]], part[1], classes=classes)

    def right_label(model: Any, part: tuple[Any, ...]) -> float:
        if not hasattr(model, "classes_"):
            return len(part[0]) / len(classes)
        return float(np.sum(model.predict(X[part[0]]) == part[1]))

    if model.learns_from == "labels":
        classes = getattr(model, "classes_", np.unique(judgements[1]))
        return learn_labels, right_label
    if model.learns_from == "triplets":
        return learn_tuples, right_order
    return learn_tuples, right_side if hasattr(model, "decision_function") else None


def _in_words(results: dict[str, Any]) -> dict[str, str]:
    from similia.sampling import FeedbackReport

    counts = results["feedback"]
    is_report = "n_distinct" in counts
    labels = f"{counts['n']} labels of {counts.get('n_classes')} classes."
    comments = {
        "accuracy_at_start": "{:.4f}  (the model before this feedback)",
        "progressive_accuracy": "{:.4f}  (each judgement before it was learnt)",
        "n_updates": "{} steps changed the model",
        "n_seen": "{} judgements in all",
    }
    words = {name: comments.get(name, "{}").format(value) for name, value in results.items()}
    return {**words, "feedback": str(FeedbackReport(**counts)) if is_report else labels}


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
