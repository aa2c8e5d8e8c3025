import pytest

from similia.files import pieces


@pytest.fixture(params=["arrow", "plain"])
def parser(request, monkeypatch):
    """Parse text with Arrow, however short, or as if it were not installed."""
    if request.param == "arrow":
        monkeypatch.setattr(pieces, "TINY_TEXT", 0)
    else:
        monkeypatch.setattr(pieces, "find_spec", lambda name: None)
    return request.param
