"""20 Newsgroups: texts, sentence vectors, and the weighted terms of the AROMA paper."""

import gzip
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from experiments.datasets.fetch import FILES, dequantized, fetch_first, read_npz
from experiments.datasets.labeled import LabeledRows, SplitRows
from experiments.datasets.terms import cached_counts, informative_tfidf
from similia.contract import Indices
from similia.validation import (
    between,
    boolean,
    check_parameters,
    none,
    one_of,
    positive_integer,
    seed,
)

GROUPS = (
    "alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles",
    "rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med",
    "sci.space", "soc.religion.christian", "talk.politics.guns", "talk.politics.mideast",
    "talk.politics.misc", "talk.religion.misc",
)  # fmt: skip
N_TRAIN, N_TEST = 11_314, 7_532
PREPARED = "20newsgroups/20news_bydate.jsonl.gz"
ARCHIVE = "20newsgroups/20news-bydate.tar.gz"
EMBEDDINGS = {
    "minilm": "20newsgroups/20news_minilm384.npz",
    "glove": "20newsgroups/20news_glove100.npz",
}
PARTS = {"headers": boolean, "subject": boolean, "quotes": boolean}
_QUOTED = re.compile(
    r"writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>", re.MULTILINE
)
_SUBJECT = re.compile(r"^Subject:[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Newsgroups:
    """Texts (list of n str), labels y (n,), names of the 20 classes, train (n,) bool."""

    texts: list[str]
    y: Indices
    classes: tuple[str, ...]
    train: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class NewsgroupsTerms(LabeledRows):
    """Documents as weighted terms, and their split.

    X (n, n_terms) is a csr_array, train and test are the sorted row indices of the split, terms
    (n_terms,) the words by falling gain, gain (n_terms,) their information gain in nats and idf
    (n_terms,) their weights, both from the training rows.
    """

    X: sparse.csr_array
    train: Indices
    test: Indices
    terms: NDArray[np.str_]
    gain: NDArray[np.float64]
    idf: NDArray[np.float64]


def load_newsgroups(
    *, headers: bool = False, subject: bool = False, quotes: bool = True
) -> Newsgroups:
    """Load 18,846 Usenet messages of 20 groups, 11,314 for training and 7,532 later ones for test.

    Rows are ordered by half (training first), class and message number. Without
    ``20newsgroups/20news_bydate.jsonl.gz`` the public archive is downloaded.

    Parameters
    ----------
    headers : bool
        Keep the header lines, which end at the first empty line. They name people and
        organizations, and so give the class away.
    subject : bool
        Put the subject before the body when the headers go.
    quotes : bool
        Keep quoted lines and the lines that introduce them ("In article ... writes:"), found by
        the rule of scikit-learn's `fetch_20newsgroups`. They repeat messages of the same group.
    """
    parts = {"headers": headers, "subject": subject, "quotes": quotes}
    check_parameters("load_newsgroups", PARTS, parts)
    return read_messages(*fetch_first(PREPARED, ARCHIVE), **parts)


def load_newsgroups_embeddings(kind: str = "minilm") -> SplitRows:
    """Load one vector for each of the messages of `load_newsgroups`, in the same order.

    Parameters
    ----------
    kind : {"minilm", "glove"}
        "minilm": 384 dimensions, all-MiniLM-L6-v2 (sentence-transformers) on the body without
        headers, quoted lines and attributions, cut at 128 tokens, unit length. "glove": 100
        dimensions, mean of GloVe 6B vectors over subject and body, word w weighted by
        1e-3 / (1e-3 + p(w)).

    Returns
    -------
    SplitRows
        Stored as float16 and returned as float32, so minilm rows have unit length up to about 1e-3.
    """
    check_parameters("load_newsgroups_embeddings", {"kind": one_of(*EMBEDDINGS)}, locals())
    X, y, train = read_npz(EMBEDDINGS[kind], "X", "y", "train")
    return SplitRows(X=dequantized(X), y=y.astype(np.intp), classes=GROUPS, train=train)


def load_newsgroups_terms(
    *,
    n_terms: int = 1000,
    split: str = "bydate",
    train_size: float | None = None,
    random_state: int | np.random.RandomState | None = None,
    headers: bool = False,
    subject: bool = False,
    quotes: bool = True,
    **weighting: Any,
) -> NewsgroupsTerms:
    """Load 20 Newsgroups as tf-idf weights of the terms that tell most about the class.

    The protocol of the AROMA paper, section 5.2: stop words (scikit-learn's English list) go, no
    stemming, the `n_terms` terms of largest information gain about the class, tf-idf. Terms and
    idf come from the training rows alone. Documents with none of the terms stay as empty rows.
    docs/datasets.md discusses what the paper leaves open: hence the parameters.

    Parameters
    ----------
    n_terms : int
        How many terms to keep.
    split : {"bydate", "random"}
        The official split, in which all test messages are later, or a random one.
    train_size : int, float between 0 and 1, or None
        Training rows of a random split, as a number or a share; None is 11,314, the official size.
    random_state : int, RandomState or None
        Seed of a random split; the paper repeats with five.
    headers, subject, quotes : bool
        What to keep of a message, see `load_newsgroups`.
    weighting : tf, smooth_idf, unit_length, dtype
        See `tfidf`.
    """
    rules = {
        **PARTS,
        "split": one_of("bydate", "random"),
        "train_size": positive_integer | between(0, 1) | none,
        "random_state": seed,
    }
    check_parameters("load_newsgroups_terms", rules, locals())
    if split == "bydate" and train_size is not None:
        raise ValueError(
            f'load_newsgroups_terms: train_size must be None with split="bydate", got {train_size}.'
        )
    path, found = fetch_first(PREPARED, ARCHIVE)
    parts = {"headers": headers, "subject": subject, "quotes": quotes}

    def read() -> tuple[list[str], dict[str, Any]]:
        data = read_messages(path, found, **parts)
        return data.texts, {"y": data.y, "train": data.train}

    recipe = {"source": FILES[path].sha256, **parts}
    counts, vocabulary, about = cached_counts("20newsgroups", recipe, read)
    y = about["y"]
    if split == "bydate":
        train, test = np.flatnonzero(about["train"]), np.flatnonzero(~about["train"])
    else:
        train, test = _random_split(len(y), train_size or N_TRAIN, random_state)
    X, columns, gain, idf = informative_tfidf(counts, y, train, n_terms=n_terms, **weighting)
    return NewsgroupsTerms(
        X=X,
        y=y,
        classes=GROUPS,
        train=train,
        test=test,
        terms=np.array([vocabulary[j] for j in columns]),
        gain=gain,
        idf=idf,
    )


def message_part(text: str, *, headers: bool, subject: bool, quotes: bool) -> str:
    """The parts of a message to keep; see `load_newsgroups`."""
    head, _, body = text.partition("\n\n")
    if not quotes:
        body = "\n".join(line for line in body.split("\n") if not _QUOTED.search(line))
    if headers:
        return f"{head}\n\n{body}"
    if subject and (found := _SUBJECT.search(head)):
        return f"{found[1]}\n\n{body}"
    return body


def read_messages(path: str, found: Path, **parts: bool) -> Newsgroups:
    """Read all messages of the prepared file or the archive, keeping the given parts."""
    records = _prepared_records(found) if path == PREPARED else _archive_records(found)
    train, y, texts = [], [], []
    for is_train, group, text in records:
        train.append(is_train)
        y.append(GROUPS.index(group))
        texts.append(message_part(text, **parts))
    if (sum(train), len(train) - sum(train)) != (N_TRAIN, N_TEST):
        raise ValueError(
            f"load_newsgroups: {found} must hold {N_TRAIN} + {N_TEST} messages, "
            f"got {sum(train)} + {len(train) - sum(train)}."
        )
    return Newsgroups(texts, np.array(y, dtype=np.intp), GROUPS, np.array(train))


def _prepared_records(path: Path) -> Iterable[tuple[bool, str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            yield record["split"] == "train", record["group"], record["text"]


def _archive_records(path: Path) -> list[tuple[bool, str, str]]:
    """Read 20news-bydate-{train,test}/<group>/<number>, in the order of the prepared file."""
    found = []
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None:
                half, group, number = member.name.split("/")[-3:]
                text = stream.read().decode("latin-1")
                found.append((half.endswith("test"), group, int(number), text))
    return [(not is_test, group, text) for is_test, group, _, text in sorted(found)]


def _random_split(
    n: int, train_size: float, random_state: int | np.random.RandomState | None
) -> tuple[Indices, Indices]:
    n_train = int(train_size) if train_size >= 1 else round(train_size * n)
    if not 0 < n_train < n:
        raise ValueError(
            f"load_newsgroups_terms: train_size must leave training and test rows out of {n}, "
            f"got {train_size}."
        )
    order = check_random_state(random_state).permutation(n)
    return np.sort(order[:n_train]), np.sort(order[n_train:])
