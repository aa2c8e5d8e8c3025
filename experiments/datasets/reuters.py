"""Reuters-21578: news of 1987 in order of date, as texts and as the stream that POLA filters."""

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from experiments.datasets.fetch import FILES, fetch_first
from experiments.datasets.reuters_sgml import Story, archive_stories
from experiments.datasets.terms import (
    best_tfidf,
    cached_counts,
    document_frequency,
    informative_tfidf,
)
from similia.contract import Array, Indices
from similia.validation import array, check_parameters, non_negative, one_of, positive_integer

N_TRAIN, N_TEST, N_UNUSED = 9_603, 3_299, 8_676
DOCUMENTS = ("modapte", "train", "test", "r90", "all")
PREPARED = "reuters21578/reuters21578.jsonl.gz"
ARCHIVE = "reuters21578/reuters21578.tar.gz"

# "27-MAR-1987 00:02:59.13", sometimes with more behind it; one has an hour of "605".
_DATE = re.compile(r"(\d{1,2})-([A-Z]{3})-(\d{4})\s+\d*?(\d\d:\d\d:\d\d\.?\d*)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
# All that stands in place of a body where the title says everything.
_FILLER = re.compile(r"\**(Blah blah blah\.)?")


@dataclass(frozen=True, kw_only=True)
class DatedNews:
    """What is known about documents besides their words.

    ids (n,) are the numbers of the documents in the collection (NEWID), dates (n,) datetime64;
    Y (n, 120) bool says which document has which topic, classes are the names of its columns; train
    and test (n,) are True in the halves of the "ModApte" split.
    """

    ids: Indices
    dates: NDArray[np.datetime64]
    Y: NDArray[np.bool_]
    classes: tuple[str, ...]
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def rows(self, documents: str) -> Indices:
        """Rows of the chosen documents, in order of date."""
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

    def taken(self, rows: Indices) -> dict[str, Any]:
        """Fields of these rows, by name."""
        facts = {name: values[rows] for name, values in vars(self).items() if name != "classes"}
        return {**facts, "classes": tuple(map(str, self.classes))}


@dataclass(frozen=True, kw_only=True)
class Reuters(DatedNews):
    """News in order of date: texts are n str of title, line break and body, topics n tuples."""

    texts: list[str]
    topics: list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class ReutersTerms(DatedNews):
    """News in order of date, as weighted terms X (n, n_terms).

    terms (n_terms,) are the words by falling score (n_terms,), idf (n_terms,) their weights.
    """

    X: sparse.csr_array
    terms: NDArray[np.str_]
    score: NDArray[np.float64]
    idf: NDArray[np.float64]


def load_reuters(documents: str = "modapte") -> Reuters:
    """Load news of Reuters from 1987, labeled by none, one or several of 120 topics.

    Without ``reuters21578/reuters21578.jsonl.gz`` the public archive is downloaded.

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
    """
    check_parameters("load_reuters", {"documents": one_of(*DOCUMENTS)}, locals())
    stories = read_stories(*fetch_first(PREPARED, ARCHIVE))
    known = catalog(stories)
    rows = known.rows(documents)
    return Reuters(
        **known.taken(rows),
        texts=[story_text(stories[row]) for row in rows],
        topics=[stories[row].topics for row in rows],
    )


def load_reuters_terms(
    documents: str = "modapte",
    *,
    n_terms: int = 500,
    select: str = "frequency",
    fit_on: str | int | Indices = "train",
    **weighting: Any,
) -> ReutersTerms:
    """Load Reuters-21578 as tf-idf weights of selected words, in order of date.

    The representation of the POLA paper, section 7: the "standard vector-space model with
    length-normalized tfidf after selecting 500 words". Stop words (scikit-learn's English list) go,
    there is no stemming; title and body count alike. Documents with none of the words stay as empty
    rows. docs/datasets.md discusses what the paper leaves open: hence the parameters.

    Parameters
    ----------
    documents : {"modapte", "train", "test", "r90", "all"}
        Which documents, see `load_reuters`.
    n_terms : int
        How many words to keep.
    select : {"frequency", "gain"}
        The words that occur in most documents; or those of largest information gain, summed over
        the topics, which looks at the topics of the documents of `fit_on`.
    fit_on : {"train", "documents"}, int or array of int
        The only documents that selection and idf may look at: "train", the training half of the
        split, loaded or not; "documents", all that are loaded; a number, the first so many of the
        stream; an array, these rows of it. Online, predictions count from the document after.
    weighting : tf, smooth_idf, unit_length, dtype
        See `tfidf`.
    """
    rules = {
        "documents": one_of(*DOCUMENTS),
        "select": one_of("frequency", "gain"),
        "fit_on": one_of("train", "documents") | positive_integer | array,
    }
    check_parameters("load_reuters_terms", rules, locals())
    path, found = fetch_first(PREPARED, ARCHIVE)

    def read() -> tuple[list[str], dict[str, Array]]:
        stories = read_stories(path, found)
        return [story_text(story) for story in stories], vars(catalog(stories))

    counts, vocabulary, about = cached_counts("reuters21578", {"source": FILES[path].sha256}, read)
    known = DatedNews(**about)
    rows = known.rows(documents)
    seen = _seen(fit_on, rows, np.flatnonzero(known.train))
    if select == "gain":
        best = informative_tfidf(counts, known.Y, seen, n_terms=n_terms, **weighting)
    else:
        frequency = document_frequency(counts[seen])
        best = best_tfidf(counts, seen, frequency, n_terms=n_terms, **weighting)
    return ReutersTerms(
        **known.taken(rows),
        X=best.X[rows],
        terms=np.array([vocabulary[j] for j in best.columns]),
        score=best.score,
        idf=best.idf,
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
    check_parameters("topics_by_ratio", {"low": non_negative, "high": non_negative}, locals())
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


def read_stories(path: str, found: Path) -> list[Story]:
    """Read all documents of the prepared file or the archive, by number."""
    read = _prepared_stories if path == PREPARED else archive_stories
    stories = sorted(_tidy(story) for story in read(found))
    halves = [story.half for story in stories]
    sizes = tuple(halves.count(half) for half in ("train", "test", "unused"))
    if sizes != (N_TRAIN, N_TEST, N_UNUSED):
        raise ValueError(
            f"load_reuters: {found} must hold {N_TRAIN} + {N_TEST} + {N_UNUSED} documents, "
            f"got {sizes[0]} + {sizes[1]} + {sizes[2]}."
        )
    return stories


def catalog(stories: list[Story]) -> DatedNews:
    """What is known about stories besides their words, in their order."""
    classes = sorted({topic for story in stories for topic in story.topics})
    column = {name: j for j, name in enumerate(classes)}
    Y = np.zeros((len(stories), len(classes)), dtype=bool)
    for row, story in enumerate(stories):
        Y[row, [column[topic] for topic in story.topics]] = True
    return DatedNews(
        ids=np.array([story.number for story in stories], dtype=np.intp),
        dates=np.array([_date(story) for story in stories]),
        Y=Y,
        classes=tuple(classes),
        train=np.array([story.half == "train" for story in stories]),
        test=np.array([story.half == "test" for story in stories]),
    )


def story_text(story: Story) -> str:
    """Title and body."""
    return f"{story.title}\n{story.body}".strip()


def _seen(fit_on: str | int | Indices, rows: Indices, train: Indices) -> Indices:
    """Documents that selection and idf may look at."""
    if isinstance(fit_on, str):
        return train if fit_on == "train" else rows
    if isinstance(fit_on, np.ndarray):
        wrong = fit_on.dtype.kind not in "iu" or fit_on.ndim != 1 or len(fit_on) == 0
        if wrong or fit_on.min() < 0 or fit_on.max() >= len(rows):
            raise ValueError(
                f"load_reuters_terms: fit_on must be row indices between 0 and {len(rows) - 1}, "
                f"got an array of shape {fit_on.shape} and dtype {fit_on.dtype}."
            )
        return rows[fit_on]
    if fit_on > len(rows):
        raise ValueError(
            f"load_reuters_terms: fit_on must be at most the {len(rows)} documents loaded, "
            f"got {fit_on}."
        )
    return rows[:fit_on]


def _date(story: Story) -> np.datetime64:
    """When a story was sent, to the hundredth of a second."""
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
