"""The original form of Reuters-21578: an archive of 22 files of stories between tags."""

import re
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

_STORY = re.compile(r"<REUTERS (.*?)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="(.*?)"')
_TEXT = re.compile(r"<TEXT.*?>(.*?)</TEXT>", re.DOTALL)
_INNER = re.compile(r"<(TITLE|AUTHOR|DATELINE)>.*?</\1>", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# LEWISSPLIT, for stories whose TOPICS is "YES"; every other story is outside of the split.
_HALVES = {"TRAIN": "train", "TEST": "test"}


class Story(NamedTuple):
    """One document; half is "train" or "test" of the "ModApte" split, or "unused"."""

    number: int
    half: str
    date: str
    topics: tuple[str, ...]
    title: str
    body: str


def archive_stories(path: Path) -> Iterator[Story]:
    """Stories of the .sgm files of a .tar.gz archive, in the order of the file names."""
    with tarfile.open(path, "r:gz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".sgm")]
        for member in sorted(members, key=lambda member: member.name):
            stream = archive.extractfile(member)
            if stream is not None:
                # Not all bytes are ASCII; Latin-1 reads any.
                yield from sgml_stories(stream.read().decode("latin-1"))


def sgml_stories(content: str) -> Iterator[Story]:
    """Stories of one .sgm file.

    A story without a body (of type BRIEF or UNPROC) gets the rest of its text, less title, author
    and dateline.
    """
    for attributes, inside in _STORY.findall(content):
        given = dict(_ATTRIBUTE.findall(attributes))
        found = _TEXT.search(inside)
        text = found[1] if found else ""
        half = _HALVES.get(given["LEWISSPLIT"], "unused")
        yield Story(
            int(given["NEWID"]),
            half if given["TOPICS"] == "YES" else "unused",
            _element("DATE", inside),
            tuple(re.findall("<D>(.*?)</D>", _element("TOPICS", inside))),
            _plain(_element("TITLE", text)),
            _plain(_element("BODY", text) if "<BODY>" in text else _INNER.sub("", text)),
        )


def _element(name: str, inside: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", inside, re.DOTALL)
    return found[1] if found else ""


def _plain(text: str) -> str:
    """Resolve character references and drop control characters."""
    return _CONTROL.sub("", unescape(text)).strip()
