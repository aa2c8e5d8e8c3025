import pytest

from similia.files import pieces


@pytest.fixture(params=["arrow", "plain"])
def parser(request, monkeypatch):
    """Blocks of text are parsed by Arrow, or as where it is not installed."""
    if request.param == "plain":
        monkeypatch.setattr(pieces, "find_spec", lambda name: None)
    return request.param
