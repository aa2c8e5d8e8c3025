"""A progress bar on standard error, shown on terminals only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int], None]
Show = Callable[[int, str], None]


def _ignore(_: int) -> None:
    pass


@contextmanager
def progress(description: str, total: int, *, enabled: bool = True) -> Iterator[Advance]:
    """Yield a function that reports how many more units are done.

    The bar appears if `enabled` and if standard error is a terminal; otherwise reporting costs
    nothing and prints nothing.
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
) -> Iterator[Show | None]:
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
    """A bar with a count or a text beside it; None without a terminal."""
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


def printable(text: str) -> str:
    """Text with escapes for what a terminal would obey instead of showing."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
