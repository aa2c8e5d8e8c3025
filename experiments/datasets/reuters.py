"""Reuters-21578: news of 1987 as a stream of documents with topics."""

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.datasets.fetch import DataFile, fetch, locate
from experiments.datasets.reuters_sgml import Story, archive_stories
from similia.validation import check_parameters, non_negative, one_of

N_TRAIN, N_TEST, N_UNUSED = 9_603, 3_299, 8_676
DOCUMENTS = ("modapte", "train", "test", "r90", "all")

PREPARED = DataFile(
    "reuters21578/reuters21578.jsonl.gz",
    "2f949aada7ef9a86d732adf41a568b5092abdeb42e41636819558c8a33ebe777",
    "The texts are those of Reuters-21578, Distribution 1.0.",
)
# The checksum is that of scikit-learn's example of out-of-core classification.
ARCHIVE = DataFile(
    "reuters21578/reuters21578.tar.gz",
    "3bae43c9b14e387f76a61b6d82bf98a4fb5d3ef99ef7e7075ff2ccbcf59f9d30",
    "The archive is described at https://kdd.ics.uci.edu/databases/reuters21578/; "
    f"{PREPARED.path} with the same texts will do as well.",
    "https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",
)

# "27-MAR-1987 00:02:59.13", sometimes with more behind it; one has an hour of "605".
_DATE = re.compile(r"(\d{1,2})-([A-Z]{3})-(\d{4})\s+\d*?(\d\d:\d\d:\d\d\.?\d*)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
# All that stands in place of a body where the title says everything.
_FILLER = re.compile(r"\**(Blah blah blah\.)?")


@dataclass(frozen=True)
class Reuters:
    """News in order of date.

    texts are n str, each the title, a line break and the body; dates (n,) datetime64, ids (n,) the
    numbers of the documents in the collection (NEWID); topics are n tuples of names, Y (n, 120)
    says the same as bool, with classes the names of its columns; train (n,) is True in the
    training half of the "ModApte" split.
    """

    texts: list[str]
    dates: NDArray[np.datetime64]
    ids: NDArray[np.intp]
    topics: list[tuple[str, ...]]
    Y: NDArray[np.bool_]
    classes: tuple[str, ...]
    train: NDArray[np.bool_]


class Catalog(NamedTuple):
    """Arrays about all documents, one entry a document but for the names of the topics."""

    ids: NDArray[np.intp]
    dates: NDArray[np.datetime64]
    Y: NDArray[np.bool_]
    classes: NDArray[np.str_]
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def rows(self, documents: str) -> NDArray[np.intp]:
        """Give the rows of the documents asked for, in order of date."""
        both = self.train | self.test
        common = self.Y[self.train].any(axis=0) & self.Y[self.test].any(axis=0)
        chosen = {
            "modapte": both,
            "train": self.train,
            "test": self.test,
            "r90": both & self.Y[:, common].any(axis=1),
            "all": np.ones_like(both),
        }
        rows = np.flatnonzero(chosen[documents])
        return rows[np.argsort(self.dates[rows], kind="stable")]


def load_reuters(documents: str = "modapte") -> Reuters:
    """Load news of Reuters from 1987, labelled by none, one or several of 120 topics.

    The texts come from ``reuters21578/reuters21578.jsonl.gz`` if there is one, else from the
    public archive, 8 MB, downloaded once.

    Parameters
    ----------
    documents : {"modapte", "train", "test", "r90", "all"}
        "train", "test": the halves of the "Modified Apte" split, 9,603 documents until 7 April
        and 3,299 since 8 April; "modapte": both. "r90": the 10,789 of them that have one of the
        90 topics found in both halves. "all": all 21,578, also those whose topics nobody checked.

    Returns
    -------
    Reuters
        Rows in order of date. Columns of Y are the topics of the whole collection by name, whatever
        the choice of documents.

    Notes
    -----
    Of the training half 1,828 documents have no topic, of the test half 280. Two documents name a
    topic twice; here they have it once. Some stories are their title: what the collection puts in
    place of a body ("******Blah blah blah.") is left out. A date is guesswork according to the
    collection itself (document 15370), and the hour "605" of another (17192) is read as 05; neither
    is in the split.

    Licence: copyright Reuters Ltd.; free for research only; publications should name the
    collection, "Reuters-21578, Distribution 1.0".

    References
    ----------
    D. D. Lewis, "Reuters-21578 text categorization test collection", 1997; C. Apte, F. Damerau,
    S. Weiss, "Automated learning of decision rules for text categorization", ACM Transactions on
    Information Systems 12, 1994.
    """
    check_parameters("load_reuters", {"documents": one_of(*DOCUMENTS)}, {"documents": documents})
    stories = read_stories(*source())
    known = catalog(stories)
    rows = known.rows(documents)
    return Reuters(
        [story_text(stories[row]) for row in rows],
        known.dates[rows],
        known.ids[rows],
        [stories[row].topics for row in rows],
        known.Y[rows],
        tuple(known.classes.tolist()),
        known.train[rows],
    )


def topics_by_ratio(
    Y: ArrayLike, classes: Iterable[str], *, low: float = 0.01, high: float = 0.1
) -> tuple[str, ...]:
    """Names of the topics with a ratio of relevant to irrelevant documents from `low` to `high`.

    Parameters
    ----------
    Y : array of shape (n, n_topics)
        Which documents have which topic.
    classes : iterable of str
        Names of the topics.
    low, high : float
        The range, ends included.

    Returns
    -------
    names : tuple of str
        By falling ratio.

    Examples
    --------
    >>> from experiments.datasets import topics_by_ratio
    >>> Y = [[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]]
    >>> topics_by_ratio(Y, ["earn", "acq", "tea"], low=0.3, high=0.4)
    ('acq',)
    """
    rules = {"low": non_negative, "high": non_negative}
    check_parameters("topics_by_ratio", rules, {"low": low, "high": high})
    relevant = np.asarray(Y, dtype=bool)
    names = tuple(classes)
    if relevant.ndim != 2 or relevant.shape[1] != len(names):
        raise ValueError(
            f"topics_by_ratio: Y must have one column for each of {len(names)} names, "
            f"got shape {relevant.shape}."
        )
    n_relevant = relevant.sum(axis=0)
    n_irrelevant = len(relevant) - n_relevant
    inside = (low * n_irrelevant <= n_relevant) & (n_relevant <= high * n_irrelevant)
    falling = np.argsort(-n_relevant, kind="stable")
    return tuple(names[j] for j in falling if inside[j] and n_relevant[j] > 0)


def source() -> tuple[DataFile, Path]:
    """Give the best local file of texts, else download the public one."""
    for file in (PREPARED, ARCHIVE):
        path = locate(file)
        if path is not None:
            return file, path
    return ARCHIVE, fetch(ARCHIVE)


def read_stories(file: DataFile, path: Path) -> list[Story]:
    """Read all documents of a local file, by number."""
    read = _prepared_stories if file is PREPARED else archive_stories
    stories = sorted(_tidy(story) for story in read(path))
    halves = [story.half for story in stories]
    found = tuple(halves.count(half) for half in ("train", "test", "unused"))
    if found != (N_TRAIN, N_TEST, N_UNUSED):
        raise ValueError(
            f"load_reuters: {path} must hold {N_TRAIN} + {N_TEST} + {N_UNUSED} documents, "
            f"got {found[0]} + {found[1]} + {found[2]}."
        )
    return stories


def catalog(stories: list[Story]) -> Catalog:
    """Give what is known about documents besides their words."""
    classes = sorted({topic for story in stories for topic in story.topics})
    column = {name: j for j, name in enumerate(classes)}
    Y = np.zeros((len(stories), len(classes)), dtype=bool)
    for row, story in enumerate(stories):
        Y[row, [column[topic] for topic in story.topics]] = True
    return Catalog(
        np.array([story.number for story in stories], dtype=np.intp),
        np.array([_date(story) for story in stories]),
        Y,
        np.array(classes),
        np.array([story.half == "train" for story in stories]),
        np.array([story.half == "test" for story in stories]),
    )


def story_text(story: Story) -> str:
    """Give title and body."""
    return f"{story.title}\n{story.body}".strip()


def _date(story: Story) -> np.datetime64:
    """Give when a story was sent, to the hundredth of a second."""
    found = _DATE.search(story.date)
    if found is None or found[2] not in _MONTHS:
        raise ValueError(
            f"load_reuters: the date of document {story.number} must look like "
            f"26-FEB-1987 15:01:01.79, got {story.date!r}."
        )
    month = _MONTHS.index(found[2]) + 1
    return np.datetime64(f"{found[3]}-{month:02}-{found[1]:0>2}T{found[4]}", "ms")


def _tidy(story: Story) -> Story:
    body = "" if _FILLER.fullmatch(story.body) else story.body
    return story._replace(topics=tuple(dict.fromkeys(story.topics)), body=body)


def _prepared_stories(path: Path) -> Iterable[Story]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield Story(
                record["id"],
                record["modapte"],
                record["date"],
                tuple(record["topics"]),
                record["title"],
                record["text"],
            )
