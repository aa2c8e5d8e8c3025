"""What notebooks show of results."""

import re

import numpy as np

import similia
from similia.markup import html_table
from similia.plotting import spectrum_figure
from tests.problems import labelled


def cells(html):
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_cells_are_texts_and_not_markup():
    html = html_table("<b>", ["a", "b"], [["<script>", "1 & 2"]])
    assert "<script>" not in html
    assert "<b>" not in html
    assert cells(html) == [["a", "b"], ["&lt;script&gt;", "1 &amp; 2"]]


def test_an_evaluation_shows_its_measures_and_a_comparison_its_verdict(rng):
    X, y = labelled(rng)
    base = similia.evaluate("cosine", X, labels=y, k=5)
    header, *rows = cells(base._repr_html_())
    assert header == ["measure", "mean", "95 % interval"]
    low, high = base.interval("map")
    assert ["map", f"{base.means['map']:.4f}", f"{low:.4f} to {high:.4f}"] in rows
    assert f"{len(X)} queries, {len(X)} items" in base._repr_html_()
    found = similia.compare(base, similia.evaluate("euclidean", X, labels=y, k=5), "map")
    (_, row) = cells(found._repr_html_())
    assert row[:2] == ["map", f"{found.mean_a:.4f}"]
    assert row[-1] == f"{found.wins}/{found.ties}/{found.losses}"
    assert ("within chance" in found._repr_html_()) == (found.better is None)


def test_a_figure_shows_itself_without_pyplot():
    figure = spectrum_figure({"a": np.array([3.0, 2.0, 1.0])})
    assert figure._repr_png_().startswith(b"\x89PNG")
