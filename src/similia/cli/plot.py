"""``similia plot``: pictures of learning, of uncertainty and of what was learnt."""

from pathlib import Path
from typing import Annotated, Any

import typer

from similia.cli.options import (
    BadRowsOption,
    Feedback,
    IdColumn,
    IdsFile,
    ItemIdsFile,
    Items,
    ModelPath,
    OnBadRow,
    Unjudged,
    UnjudgedOption,
    VectorColumn,
    Vectors,
    bad_rows_of,
    load_model,
    print_json,
    read_sides,
)

Output = Annotated[
    Path, typer.Option("--output", "-o", help="Where to save the picture: .png, .svg or .pdf.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures of the picture too.")]
Results = Annotated[
    list[Path], typer.Argument(metavar="RESULTS…", help="What `similia learn --json` has printed.")
]
Models = Annotated[
    list[Path], typer.Argument(metavar="MODEL…", help="Files that similia has saved.")
]
MOST = 200_000  # judgements that calibration is measured on

app = typer.Typer(
    help="Draw learning curves, the calibration of uncertainty, and singular values.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("curve")
def curve(results: Results, output: Output, as_json: AsJson = False) -> None:
    """Draw test-then-train accuracy along the stream, from the results of learning."""
    import json

    curves: dict[str, Any] = {}
    for path in results:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            name = found["learner"] if len(results) == 1 else f"{found['learner']} ({path.stem})"
            curves[name] = [
                {key: float(point[key]) for key in ("n", "at_start", "progressive")}
                for point in found["curve"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} must be what `similia learn --json` has printed ({error})."
            ) from None
    from similia.plotting import learning_figure

    _save(learning_figure(curves), output)
    if as_json:
        print_json(curves)


@app.command("calibration")
def calibration(
    model: ModelPath,
    vectors: Vectors,
    feedback: Feedback,
    output: Output,
    items: Items = None,
    ids: IdsFile = None,
    item_ids: ItemIdsFile = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    unjudged: UnjudgedOption = Unjudged.ignore,
    bad_rows: BadRowsOption = OnBadRow.stop,
    as_json: AsJson = False,
) -> None:
    """Draw how often the model is right against how sure it is, on judgements it has not learnt."""
    from similia.files import FeedbackFile, joined
    from similia.trust import calibration_of

    learner = load_model(model)
    with bad_rows_of(bad_rows) as bad:
        X, Z = read_sides(vectors, ids, items, item_ids, (vector_column, id_column), bad)
        file = FeedbackFile(
            feedback, "triplets", X.ids, Z and Z.ids, bad_rows=bad, unjudged=unjudged.value
        )
        parts, n = [], 0
        for part in file:
            parts.append(part)
            n += len(part)
            if n >= MOST:
                break
    if not n:
        raise ValueError(f"{feedback}: feedback must be at least one judgement, got none.")
    triplets = joined(parts).tuples[:MOST]
    found = calibration_of(learner, X.X, triplets, items=Z and Z.X)
    from similia.plotting import calibration_figure

    _save(calibration_figure({type(learner).__name__: found}), output)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))


@app.command("spectrum")
def spectrum(models: Models, output: Output, as_json: AsJson = False) -> None:
    """Draw the singular values of what queries are multiplied with: how many directions matter."""
    import numpy as np

    spectra: dict[str, Any] = {}
    for path in models:
        learner = load_model(path)
        matrix = getattr(learner, "query_matrix", lambda: None)()
        if matrix is None:
            raise ValueError(f"{path} is a {type(learner).__name__}, which has no matrix to show.")
        name = type(learner).__name__ if len(models) == 1 else path.stem
        spectra[name] = np.linalg.svd(matrix, compute_uv=False)
    from similia.plotting import spectrum_figure

    _save(spectrum_figure(spectra), output)
    if as_json:
        print_json({name: values.tolist() for name, values in spectra.items()})


def _save(figure: Any, path: Path) -> None:
    formats = (".png", ".svg", ".pdf")
    if path.suffix not in formats:
        raise ValueError(f"--output must end in one of {', '.join(formats)}, got {path}.")
    figure.savefig(path, dpi=150)
