"""20 Newsgroups: the texts and their sentence vectors."""

import gzip
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import (
    DataFile,
    dequantized,
    fetch,
    locate,
    read_npz,
)
from similia.validation import (
    boolean,
    check_parameters,
    one_of,
)

GROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
N_TRAIN, N_TEST = 11_314, 7_532

PREPARED = DataFile(
    "20newsgroups/20news_bydate.jsonl.gz",
    "64c049f0576787413fb03f82b0f65868b99ef96777bf7ed4e1ec9477ea67777b",
    "The texts are the sorted-by-date version of http://qwone.com/~jason/20Newsgroups/.",
)
# Address and checksum are those of sklearn.datasets.fetch_20newsgroups, whose own copy on disk is
# a pickle; the archive itself is read instead.
ARCHIVE = DataFile(
    "20newsgroups/20news-bydate.tar.gz",
    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    "The archive is described at http://qwone.com/~jason/20Newsgroups/; "
    f"{PREPARED.path} with the same texts will do as well.",
    "https://ndownloader.figshare.com/files/5975967",
)
_OURS = "It was computed for this library from the texts of http://qwone.com/~jason/20Newsgroups/"
EMBEDDINGS = {
    "minilm": DataFile(
        "20newsgroups/20news_minilm384.npz",
        "1d98087396f827c418073b040e2932e651a09f0a7c650060a230f75b68fd7fd2",
        f"{_OURS} with the sentence-transformers model all-MiniLM-L6-v2.",
    ),
    "glove": DataFile(
        "20newsgroups/20news_glove100.npz",
        "3bfc5510f61c753d2d0464c471d3798067b8ea5ec7655f14d77dd45c81a106d6",
        f"{_OURS} with the GloVe 6B vectors of https://nlp.stanford.edu/projects/glove/.",
    ),
}

_QUOTED = re.compile(
    r"writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>", re.MULTILINE
)
_SUBJECT = re.compile(r"^Subject:[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
PARTS = {"headers": boolean, "subject": boolean, "quotes": boolean}


@dataclass(frozen=True)
class Newsgroups:
    """Texts (list of n str), labels y (n,), names of the 20 classes, train (n,) bool."""

    texts: list[str]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    train: NDArray[np.bool_]


@dataclass(frozen=True)
class NewsgroupsEmbeddings:
    """Vectors X (n, d) float32, labels y (n,), names of the 20 classes, train (n,) bool."""

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    train: NDArray[np.bool_]


def load_newsgroups(
    *, headers: bool = False, subject: bool = False, quotes: bool = True
) -> Newsgroups:
    """Load 18,846 Usenet messages of 20 groups, 11,314 for training and 7,532 later ones for test.

    Rows are ordered by half (training first), class and message number. The texts come from
    ``20newsgroups/20news_bydate.jsonl.gz`` if there is one, else from the public archive that
    scikit-learn also uses, 14 MB, downloaded once.

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

    Returns
    -------
    Newsgroups

    Notes
    -----
    The makers had already removed duplicates and the headers that name the group. Signatures are
    kept. Licence of the texts: none stated; public messages in research use since 1995.

    References
    ----------
    K. Lang, "NewsWeeder: learning to filter netnews", ICML 1995; version sorted by date by
    J. Rennie.
    """
    parts = {"headers": headers, "subject": subject, "quotes": quotes}
    check_parameters("load_newsgroups", PARTS, parts)
    file, path = source()
    return read_messages(file, path, **parts)


def load_newsgroups_embeddings(kind: str = "minilm") -> NewsgroupsEmbeddings:
    """Load one vector for each of the messages of `load_newsgroups`, in the same order.

    Parameters
    ----------
    kind : {"minilm", "glove"}
        "minilm": 384 dimensions, all-MiniLM-L6-v2 (sentence-transformers, Apache-2.0) on the body
        without headers, quoted lines and attributions, cut at 128 tokens, unit length. "glove":
        100 dimensions, mean of GloVe 6B vectors (public domain) over subject and body, word w
        weighted by 1e-3 / (1e-3 + p(w)).

    Returns
    -------
    NewsgroupsEmbeddings
        Stored as float16 and given as float32, so minilm rows have unit length up to about 1e-3.

    Notes
    -----
    Computed for this library; no public copy exists, so ``SIMILIA_DATA`` must hold the file.

    References
    ----------
    K. Lang, ICML 1995; N. Reimers, I. Gurevych, "Sentence-BERT", EMNLP 2019; J. Pennington,
    R. Socher, C. Manning, "GloVe", EMNLP 2014.
    """
    check_parameters("load_newsgroups_embeddings", {"kind": one_of(*EMBEDDINGS)}, {"kind": kind})
    X, y, train = read_npz(EMBEDDINGS[kind], "X", "y", "train")
    return NewsgroupsEmbeddings(dequantized(X), y.astype(np.intp), GROUPS, train)


def message_part(text: str, *, headers: bool, subject: bool, quotes: bool) -> str:
    """Give what is to be kept of a message; see `load_newsgroups`."""
    head, _, body = text.partition("\n\n")
    if not quotes:
        body = "\n".join(line for line in body.split("\n") if not _QUOTED.search(line))
    if headers:
        return f"{head}\n\n{body}"
    if subject and (found := _SUBJECT.search(head)):
        return f"{found[1]}\n\n{body}"
    return body


def source() -> tuple[DataFile, Path]:
    """Give the best local file of texts, else download the public one."""
    for file in (PREPARED, ARCHIVE):
        path = locate(file)
        if path is not None:
            return file, path
    return ARCHIVE, fetch(ARCHIVE)


def read_messages(file: DataFile, path: Path, **parts: bool) -> Newsgroups:
    """Read all messages of a local file, keeping the parts that are asked for."""
    records = _prepared_records(path) if file is PREPARED else _archive_records(path)
    train, y, texts = [], [], []
    for is_train, group, text in records:
        train.append(is_train)
        y.append(GROUPS.index(group))
        texts.append(message_part(text, **parts))
    if (sum(train), len(train) - sum(train)) != (N_TRAIN, N_TEST):
        raise ValueError(
            f"load_newsgroups: {path} must hold {N_TRAIN} + {N_TEST} messages, "
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
