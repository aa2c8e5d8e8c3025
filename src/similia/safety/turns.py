"""One writer, many readers: threads that share a model take turns."""

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Condition, RLock, get_ident
from types import FunctionType
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

Function = TypeVar("Function", bound=Callable[..., Any])

#: methods that change a model; all other public ones read it
CHANGES = {
    *("fit", "fit_pairs", "partial_fit", "learn", "learn_checked", "learn_matrices"),
    *("begin", "set_state", "forget"),
}
#: seconds between looks by those who wait, as an interruption may swallow a notification
LOOK_SECONDS = 1.0
#: turns of each model that was shared; no attribute, as locks cannot be copied or saved
_turns: WeakKeyDictionary[Any, "Turns"] = WeakKeyDictionary()


class Turns:
    """Turns of the threads that share a model: many read it, or one changes it.

    Readers that come while a thread changes the model, or waits to, are let in before the next
    change, so neither side starves. What a thread does within its turn needs no other; if it
    changes what it reads, its reading is interrupted.
    """

    def __init__(self) -> None:
        self._alone = RLock()
        self._moved = Condition()
        #: threads that read, and those to be let in after a change
        self._reading: set[int] = set()
        self._waiting: set[int] = set()
        #: thread that changes the model, or waits for readers to leave
        self._writer: int | None = None

    def suffice(self, kind: Callable[..., Any]) -> bool:
        """Whether this thread has a turn of that kind already."""
        me = get_ident()
        return me == self._writer or (kind is Turns.reading and me in self._reading)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let no other thread change the model."""
        if self.suffice(Turns.reading):
            yield
            return
        me = get_ident()
        try:
            # Readers and writers announce themselves before they look for each other.
            self._reading.add(me)
            if self._writer is not None:
                self._wait_to_read(me)
            yield
        finally:
            self._reading.discard(me)
            self._tell_writer()

    def _wait_to_read(self, me: int) -> None:
        with self._moved:
            try:
                if self._writer is not None:
                    self._waiting.add(me)
                    self._reading.discard(me)
                    self._moved.notify_all()
                    self._wait_until(lambda: me in self._reading or self._writer is None)
                self._reading.add(me)
            finally:
                self._waiting.discard(me)

    def _tell_writer(self) -> None:
        if self._writer is not None:
            with self._moved:
                self._moved.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let no other thread read or change the model."""
        if self.suffice(Turns.changing):
            yield
            return
        me = get_ident()
        reads = me in self._reading
        if reads:
            self._reading.discard(me)
            self._tell_writer()
        with self._alone:
            try:
                with self._moved:
                    self._writer = me
                    if self._reading:
                        self._wait_until(lambda: not self._reading)
                yield
            finally:
                if reads:
                    self._reading.add(me)
                self._writer = None
                if self._waiting:
                    with self._moved:
                        self._reading |= self._waiting
                        self._moved.notify_all()

    def _wait_until(self, happened: Callable[[], bool]) -> None:
        while not self._moved.wait_for(happened, LOOK_SECONDS):
            pass


def turns_of(model: Any) -> Turns:
    """Turns of the threads that share a model."""
    return _turns.get(model) or _turns.setdefault(model, Turns())


@contextmanager
def one_state(model: Any) -> Iterator[None]:
    """Let no other thread change a model meanwhile, so that several calls see one state.

    What learns nothing, such as a name or a function, needs no turn.
    """
    try:
        turns = turns_of(model)
    except TypeError:  # has no weak references or no hash
        yield
        return
    with turns.reading():
        yield


def of_one_state(function: Function) -> Function:
    """Let a function see one state of its first argument, a scorer."""

    @wraps(function)
    def seeing_one(scorer: Any, *arguments: Any, **options: Any) -> Any:
        with one_state(scorer):
            return function(scorer, *arguments, **options)

    return cast(Function, seeing_one)


class Shared:
    """A model that threads share: public methods and properties take turns, copies are whole.

    `CHANGES` have the model for themselves, others see it as it is between two of these.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, value in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, FunctionType):
                turn = Turns.changing if name in CHANGES else Turns.reading
                setattr(cls, name, _in_turn(value, turn))
            elif isinstance(value, property) and value.fget is not None:
                setattr(cls, name, value.getter(_in_turn(value.fget, Turns.reading)))

    def __getstate__(self) -> Any:
        with turns_of(self).reading():
            return copy.deepcopy(super().__getstate__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = copied = type(self).__new__(type(self))
        with turns_of(self).reading():
            copied.__dict__.update(copy.deepcopy(vars(self), memo))
        return copied


def _in_turn(method: Callable[..., Any], turn: Callable[[Turns], Any]) -> Callable[..., Any]:
    @wraps(method)
    def in_turn(self: Any, *arguments: Any, **options: Any) -> Any:
        turns = turns_of(self)
        if turns.suffice(turn):
            return method(self, *arguments, **options)
        with turn(turns):
            return method(self, *arguments, **options)

    return in_turn


if hasattr(os, "register_at_fork"):  # threads that had a turn are not in the other process
    os.register_at_fork(after_in_child=_turns.clear)
