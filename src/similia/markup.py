"""Results as HTML, for notebooks."""

from collections.abc import Sequence
from html import escape


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Table under a caption: the first column to the left, figures to the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left", *["right"] * (len(cells) - 1)]
        inner = "".join(
            f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f'<table><caption style="text-align:left">{escape(caption)}</caption>'
        f"<thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>"
    )
