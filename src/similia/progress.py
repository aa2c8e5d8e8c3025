"""A progress bar on standard error: shown to people, silent in pipes and logs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]
Show = Callable[[int, str], None]


def _ignore(_: int, __: str = "") -> None:
    pass


@contextmanager
def progress(description: str, total: int, *, enabled: bool = True) -> Iterator[Advance]:
    """Give a function that reports how many more units are done.

    The bar appears if `enabled`, if standard error is a terminal and if rich is installed
    (``pip install "similia[cli]"``); otherwise reporting costs nothing and prints nothing.
    """
    if not enabled or not sys.stderr.isatty():
        yield _ignore
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining
    except ImportError:
        yield _ignore
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        Remaining(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n: bar.advance(task, n)


@contextmanager
def live_progress(description: str, total: int | None) -> Iterator[Show]:
    """Give a function that shows how far a stream has been read, and a text beside the bar.

    It appears where `progress` does; without a total, it moves without an end.
    """
    if not sys.stderr.isatty():
        yield _ignore
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining
    except ImportError:
        yield _ignore
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, Remaining(), console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, text="")
        yield lambda position, text: bar.update(task, completed=position, text=text)
