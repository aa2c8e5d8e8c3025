"""The site: guides in Markdown, the reference from docstrings, a gallery whose examples run."""

import os
import re
import warnings

from similia import __version__

project = "similia"
author = "The similia developers"
copyright = "The similia developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "similia"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_end": ["version", "theme-switcher"],
}
html_show_sourcelink = False

autosummary_generate = True
autodoc_default_options = {"inherited-members": False}
numpydoc_show_class_members = True
numpydoc_show_inherited_class_members = True
numpydoc_class_members_toctree = False

# Guides link to files of the repository that are not pages of the site.
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing", "myst.header", "config.cache", "ref.ref"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 5,
    "show_memory": False,
}
# Examples show their figures on the page: no window is wanted.
os.environ.setdefault("MPLBACKEND", "agg")
warnings.filterwarnings("ignore", message=".*non-GUI backend.*")


def _plain_mathematics(app, what, name, obj, options, lines):
    """Let formulas stand as they are written: indented ones as blocks, |v| as bars.

    Docstrings are written for the terminal. Here an indented paragraph outside a list of parameters
    becomes a literal block, and a bar is no substitution.
    """
    result, in_list = [], False
    for i, line in enumerate(lines):
        under = lines[i + 1] if i + 1 < len(lines) else ""
        if under and set(under) == {"-"}:
            in_list = line not in ("Notes", "Examples", "References")
        before = lines[i - 1] if i else ""
        begins = line.startswith("    ") and not before.strip() and not in_list
        if begins and not _inside_block(result):
            result += ["::", ""]
        literal = line.startswith("    ") and not in_list
        result.append(line if literal or ">>>" in line else _as_text(line))
    lines[:] = result


def _as_text(line):
    """Let bars and last underscores of names stand, but for code and the names that are listed."""
    name, separator, rest = line.partition(" : ")
    if not separator:
        name, rest = "", line
    parts = rest.split("`")
    parts[::2] = [
        re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part).replace("|", "\\|") for part in parts[::2]
    ]
    return name + separator + "`".join(parts)


def _inside_block(lines):
    """Whether the last paragraph that is not blank is indented or announces a block."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last.startswith("    ") or last.endswith("::")


def setup(app):
    app.connect("autodoc-process-docstring", _plain_mathematics, priority=400)
