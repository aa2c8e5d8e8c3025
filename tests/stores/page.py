"""The code of a page of docs/stores, run as one program."""

import re
from pathlib import Path

PAGES = Path(__file__).parent.parent.parent / "docs" / "stores"


def run(page):
    """Names that the page's program has defined at its end."""
    text = (PAGES / page).read_text()
    names = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, page, "exec"), names)
    return names
