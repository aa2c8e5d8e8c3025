"""Whether the posterior of AROMA means what it says, on real vectors.

    python -m experiments.calibration

20 Newsgroups, MiniLM vectors: triplets (message, one of its group, one of another) are learnt from
the training half with the defaults; those of the test half are then put in order. The factor of the
standard deviations is chosen on triplets of one half of the test messages, checked on the other.
Writes reports/calibration.md and its figure.
"""

import numpy as np

from experiments.datasets import load_newsgroups_embeddings
from experiments.rows import HERE, versions
from experiments.summary import markdown_table
from similia import DiagonalAROMA, FactoredAROMA
from similia.feedback.sampling import UniformTriplets
from similia.plotting import calibration_figure
from similia.trust import calibration_of, chosen_scale

STEPS = (300, 1000, 3000, 10_000)
JUDGED, SEED = 5000, 0


def main():
    data = load_newsgroups_embeddings("minilm")
    rng = np.random.default_rng(SEED)
    test = rng.permutation(np.flatnonzero(~data.train))
    halves = np.array_split(test, 2)
    learnt = _triplets(data.y, np.flatnonzero(data.train), max(STEPS), rng)
    tune, check = (_triplets(data.y, half, JUDGED, rng) for half in halves)
    lines, curves = [], {}
    for cls in (FactoredAROMA, DiagonalAROMA):
        learner, begin = cls(), 0
        for end in STEPS:
            learner.learn(data.X, learnt[begin:end])
            begin = end
            scale = chosen_scale(*learner.triplet_scores(data.X, tune, return_std=True))
            raw = calibration_of(learner, data.X, check)
            scaled = calibration_of(learner, data.X, check, scale=scale)
            lines.append(
                [
                    cls.__name__,
                    f"{end:,}",
                    *(f"{c.error:.3f} ({c.overconfidence:+.3f})" for c in (raw, scaled)),
                    f"{raw.log_loss:.3f}",
                    f"{scaled.log_loss:.3f}",
                    f"{scale:.2g}",
                ]
            )
        curves[f"{cls.__name__}"] = raw
        curves[f"{cls.__name__}, std × {scale:.2g}"] = scaled
    calibration_figure(curves).savefig(HERE / "reports" / "figures" / "calibration.png", dpi=80)
    heads = [
        "learner",
        "judgements",
        "error (too sure by)",
        "scaled",
        "log loss",
        "scaled",
        "factor",
    ]
    text = (
        "# Is the posterior of AROMA honest?\n\n"
        "Made by `python -m experiments.calibration`. 20 Newsgroups, MiniLM vectors, defaults; "
        "judgements of the training half are learnt, "
        f"{JUDGED:,} of one half of the test messages choose the factor of the standard "
        f"deviations, {JUDGED:,} of the other half are what the table is about. Error is the "
        "expected calibration error over ten bins, in brackets by how much confidence exceeds "
        f"the share of right orders. One seed. {versions()}.\n\n"
        f"{markdown_table(heads, lines)}\n\n![Confidence and accuracy](figures/calibration.png)\n"
    )
    (HERE / "reports" / "calibration.md").write_text(text)
    print(text)


def _triplets(y, rows, n, rng):
    return rows[UniformTriplets(y[rows]).draw(n, rng)]


if __name__ == "__main__":
    main()
