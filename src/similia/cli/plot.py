"""``similia plot``: learning curves, calibration and singular values as pictures."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from similia.cli import inputs
from similia.cli import options as opt

Output = Annotated[
    Path, Option("--output", "-o", help="Where to save the picture: .png, .svg or .pdf.")
]
AsJson = Annotated[bool, Option("--json", help="Also print the numbers in the picture.")]
Results = Annotated[
    list[Path], Argument(metavar="RESULTS…", help="Output of `similia learn --json`.")
]
Models = Annotated[list[Path], Argument(metavar="MODEL…", help="Saved models.")]

app = typer.Typer(
    help="Draw learning curves, calibration and singular values.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("curve")
def curve(results: Results, output: Output, as_json: AsJson = False) -> None:
    """Draw test-then-train accuracy along the stream, from the results of learning."""
    from similia.plotting import learning_figure

    curves = _learning_curves(results)
    _save(learning_figure(curves), output)
    if as_json:
        opt.print_json(curves)


@app.command("calibration")
@inputs.grouped
def calibration(
    model: opt.ModelPath,
    sides: inputs.Sides,
    views: inputs.FurtherViews,
    feedback: opt.Feedback,
    output: Output,
    columns: opt.Columns = None,
    unjudged: opt.UnjudgedOption = opt.Unjudged.ignore,
    bad_rows: opt.BadRowsOption = opt.OnBadRow.stop,
    as_json: AsJson = False,
) -> None:
    """Draw how often the model is right against how sure it is, on judgements new to it."""
    from similia.files import Source
    from similia.plotting import calibration_figure
    from similia.trust import calibration_on

    learner = inputs.load_model(model)
    with sides.read(views, bad_rows) as (X, Z, bad):
        source = Source(feedback, inputs.named_columns(columns))
        found = calibration_on(learner, X, source, items=Z, unjudged=unjudged.value, bad_rows=bad)
    _save(calibration_figure({type(learner).__name__: found}), output)
    if as_json:
        opt.print_json(found.to_dict())
    else:
        opt.say(str(found))


@app.command("spectrum")
def spectrum(models: Models, output: Output, as_json: AsJson = False) -> None:
    """Draw the singular values of the matrix that maps queries: how many directions matter."""
    from similia.plotting import spectrum_figure

    learners = {path: inputs.load_model(path) for path in models}
    spectra = {
        type(learner).__name__ if len(models) == 1 else path.stem: _singular_values(learner)
        for path, learner in learners.items()
    }
    _save(spectrum_figure(spectra), output)
    if as_json:
        opt.print_json({name: values.tolist() for name, values in spectra.items()})


def _learning_curves(paths: list[Path]) -> dict[str, list[dict[str, float]]]:
    """Learning curves in files of results, by learner."""
    curves = {}
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            name = found["learner"] if len(paths) == 1 else f"{found['learner']} ({path.stem})"
            curves[name] = [
                {key: float(point[key]) for key in ("n", "at_start", "progressive")}
                for point in found["curve"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} must be the output of `similia learn --json` ({error})."
            ) from None
    return curves


def _singular_values(model: Any) -> Any:
    """Singular values of the matrix that queries are multiplied with, in descending order."""
    import numpy as np

    from similia.contract import LearntRanker

    matrix = model.query_matrix() if isinstance(model, LearntRanker) else None
    if matrix is None:
        raise ValueError(f"{type(model).__name__} has no matrix to show.")
    return np.linalg.svd(matrix, compute_uv=False)


def _save(figure: Any, path: Path) -> None:
    formats = (".png", ".svg", ".pdf")
    if path.suffix not in formats:
        raise ValueError(f"--output must end in one of {', '.join(formats)}, got {path}.")
    figure.savefig(path, dpi=150)
