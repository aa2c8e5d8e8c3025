"""A progress bar: on standard error if that is a terminal, under the cell in a notebook."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Self

Advance = Callable[[int], None]
ShowProgress = Callable[[int, str], None]


def _ignore(_: int) -> None:
    pass


@contextmanager
def progress(description: str, total: int, *, enabled: bool = True) -> Iterator[Advance]:
    """Yield a function that reports how many more units are done.

    The bar appears if `enabled`, on a terminal or in a notebook; otherwise reporting costs nothing
    and prints nothing.
    """
    bar = _bar(counted=True) if enabled else None
    if bar is None:
        yield _ignore
        return
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda n: bar.advance(task, n)


@contextmanager
def live_progress(
    description: str, total: int | None, *, enabled: bool = True
) -> Iterator[ShowProgress | None]:
    """Yield a function that shows a position in a stream and a text beside the bar.

    It is None where `progress` would show nothing. Without a total, the bar has no end.
    """
    bar = _bar(counted=False) if enabled else None
    if bar is None:
        yield None
        return
    with bar:
        task = bar.add_task(description, total=total, text="")
        yield lambda position, text: bar.update(task, completed=position, text=text)


def _bar(*, counted: bool) -> Any:
    """A bar with a count or a text beside it; None without a terminal or notebook."""
    if _in_notebook():
        return _NotebookBar(counted)
    if not sys.stderr.isatty():
        return None
    from rich import progress as parts
    from rich.console import Console

    beside = (
        (parts.MofNCompleteColumn(), parts.TextColumn("left"))
        if counted
        else (parts.TextColumn("{task.fields[text]}"),)
    )
    columns = (parts.TextColumn("{task.description}"), parts.BarColumn(), *beside)
    return parts.Progress(*columns, parts.TimeRemainingColumn(), console=Console(stderr=True))


def _in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _NotebookBar:
    """The part of rich's `Progress` used here, as an HTML element updated in place."""

    PAUSE = 0.1  # seconds between two changes

    def __init__(self, counted: bool) -> None:
        self.counted, self.description, self.text = counted, "", ""
        self.total: int | None = None
        self.completed, self._shown_at = 0, 0.0
        self._handle: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._show(last=True)

    def add_task(self, description: str, total: int | None, text: str = "") -> int:
        """Set description and total; there is one task."""
        self.description, self.total, self.text = description, total, text
        self._show(last=True)
        return 0

    def advance(self, _: int, n: int) -> None:
        """Report n more units."""
        self.completed += n
        self._show()

    def update(self, _: int, *, completed: int, text: str) -> None:
        """Report a position, and a text beside the bar."""
        self.completed, self.text = completed, text
        self._show()

    def _show(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now < self._shown_at + self.PAUSE:
            return
        self._shown_at = now
        beside = f"{self.completed}/{self.total}" if self.counted else self.text
        place = "" if self.total is None else f' value="{self.completed}" max="{self.total}"'
        html = f"{escape(self.description)} <progress{place}></progress> {escape(beside)}"
        display = sys.modules["IPython"].display.display
        data = {"text/html": html, "text/plain": f"{self.description} {beside}"}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
