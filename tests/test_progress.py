import io
import sys

import pytest

from similia.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("learning", 10) as advance:
        advance(4)
        advance(6)
    assert "learning" in screen.getvalue()
    assert "10/10" in screen.getvalue()


@pytest.mark.parametrize(("stream", "enabled"), [(io.StringIO, True), (Terminal, False)])
def test_pipes_and_the_uninterested_see_nothing(monkeypatch, stream, enabled):
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("learning", 10, enabled=enabled) as advance:
        advance(10)
    assert screen.getvalue() == ""
