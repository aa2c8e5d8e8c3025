"""Signals that wait until a change is whole."""

import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

#: signals whose handlers commonly raise: Ctrl-C, time limits, requests to end
_NAMES = ("INT", "TERM", "ALRM", "HUP", "USR1", "BREAK")
_SIGNALS = [getattr(signal, f"SIG{name}") for name in _NAMES if hasattr(signal, f"SIG{name}")]


@contextmanager
def held_signals() -> Iterator[Callable[[], None]]:
    """Hold back signal handlers until the yielded function is called, or the block ends.

    Python runs a handler between any two operations of the main thread, and an exception from it
    (KeyboardInterrupt) would leave a learner half-way between two states.
    """
    if current_thread() is not main_thread():  # where no handler ever runs
        yield lambda: None
        return
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    held: list[int] = []
    arrived: deque[int] = deque()

    def hold(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    def deliver() -> None:
        while arrived:
            number = arrived.popleft()
            handlers[number](number, None)

    def restore() -> None:
        """Put former handlers back, all of them even if one already raises again."""
        try:
            while held:
                number = held[-1]
                # An interrupt can make an inner block end after the outer one, which then had the
                # last word: only a handler of this module is replaced.
                if getattr(signal.getsignal(number), "__code__", None) is hold.__code__:
                    signal.signal(number, handlers[number])
                held.pop()
        finally:
            if held:
                restore()

    try:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                held.append(number)
                signal.signal(number, hold)
        yield deliver
    finally:
        try:
            restore()
        finally:
            deliver()
