import io
import sys

import pytest

from similia.progress import live_progress, progress


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


def test_a_notebook_sees_a_bar_that_changes_in_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown[-1] = data["text/html"]

    class Display:
        @staticmethod
        def display(data, raw, display_id):
            shown.append(data["text/html"])
            return Handle()

    class IPython:
        display = Display
        kernel = object()

        @classmethod
        def get_ipython(cls):
            return cls

    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "IPython", IPython)
    with progress("<learning>", 10) as advance:
        advance(4)
        advance(6)
    with live_progress("reading", None) as show:
        show(5, "5 rows")
    first, second = shown
    assert '&lt;learning&gt; <progress value="10" max="10"></progress> 10/10' in first
    assert second == "reading <progress></progress> 5 rows"
    assert screen.getvalue() == ""
    with progress("quiet", 10, enabled=False) as advance:
        advance(10)
    assert len(shown) == 2
