import gzip
import hashlib
import io
import json
import tarfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from experiments.datasets import (
    DataNotFoundError,
    load_newsgroups,
    load_newsgroups_embeddings,
    load_newsgroups_terms,
    newsgroups,
)
from experiments.datasets.fetch import FILES
from experiments.datasets.newsgroups import ARCHIVE, EMBEDDINGS, GROUPS, PREPARED, message_part

MESSAGE = (
    "From: someone@somewhere\nSubject: Re: old\n  cars\nLines: 4\n\n"
    "In article <1> him@there writes:\n> I like cars.\n| So do I.\n\nMe too.\n"
)
KEPT = {"headers": False, "subject": False, "quotes": True}


def test_the_body_begins_after_the_first_empty_line():
    body = message_part(MESSAGE, **KEPT)
    assert body.startswith("In article")
    assert body.endswith("\n\nMe too.\n")
    assert message_part(MESSAGE, **{**KEPT, "headers": True}) == MESSAGE


def test_quotes_and_their_introductions_go():
    assert message_part(MESSAGE, **{**KEPT, "quotes": False}) == "\nMe too.\n"


def test_the_subject_may_stay_with_its_continuation():
    text = message_part(MESSAGE, **{**KEPT, "subject": True, "quotes": False})
    assert text == "Re: old\n  cars\n\n\nMe too.\n"


def test_a_subject_line_of_the_body_is_no_subject():
    text = message_part("From: me\n\nSubject: none\n", **{**KEPT, "subject": True})
    assert text == "Subject: none\n"


@pytest.fixture
def small(tmp_path, monkeypatch, rng):
    """Forty made-up messages, as prepared file and as public archive, in a folder of their own."""
    words = np.array(["orbit", "puck", "modem", "saint", "rifle", "noise", "paper", "river"])
    records = []
    for half, per_class in (("train", 3), ("test", 2)):
        for label, group in enumerate(GROUPS[:8]):
            for number in (9, 10, 100)[:per_class]:
                body = " ".join([words[label], *rng.choice(words[5:], size=4)])
                text = f"From: x\nSubject: caf\xe9 {number}\n\n{body}\n"
                records.append((half, group, number, text))
    folder = tmp_path / "data" / "20newsgroups"
    folder.mkdir(parents=True)
    with gzip.open(folder / "20news_bydate.jsonl.gz", "wt", encoding="utf-8") as lines:
        for half, group, _, text in records:
            lines.write(json.dumps({"split": half, "group": group, "text": text}) + "\n")
    with tarfile.open(folder / "20news-bydate.tar.gz", "w:gz") as archive:
        for place in rng.permutation(len(records)):
            half, group, number, text = records[place]
            member = tarfile.TarInfo(f"20news-bydate-{half}/{group}/{number}")
            content = text.encode("latin-1")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for path in (PREPARED, ARCHIVE):
        digest = hashlib.sha256((tmp_path / "data" / path).read_bytes()).hexdigest()
        url = (tmp_path / "absent").as_uri() if FILES[path].url else None
        monkeypatch.setitem(FILES, path, FILES[path]._replace(sha256=digest, url=url))
    monkeypatch.setattr(newsgroups, "N_TRAIN", 24)
    monkeypatch.setattr(newsgroups, "N_TEST", 16)
    monkeypatch.setenv("SIMILIA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_public_archive_gives_the_records_of_the_prepared_file(small):
    prepared = load_newsgroups(headers=True)
    (small / "20news_bydate.jsonl.gz").unlink()
    public = load_newsgroups(headers=True)
    assert public.texts == prepared.texts
    assert "caf\xe9" in public.texts[0]
    assert_array_equal(public.y, prepared.y)
    assert_array_equal(public.train, prepared.train)


def test_the_public_archive_is_downloaded_when_there_is_nothing(small, monkeypatch):
    moved = small.parent / "elsewhere"
    (small / "20news-bydate.tar.gz").rename(moved)
    (small / "20news_bydate.jsonl.gz").unlink()
    monkeypatch.setitem(FILES, ARCHIVE, FILES[ARCHIVE]._replace(url=moved.as_uri()))
    assert len(load_newsgroups().texts) == 40
    moved.unlink()
    assert len(load_newsgroups().texts) == 40


def test_without_file_and_network_the_error_says_what_to_do(small):
    for path in small.iterdir():
        path.unlink()
    with pytest.raises(DataNotFoundError, match=r"absent could not be downloaded.*SIMILIA_DATA"):
        load_newsgroups()


def test_another_number_of_messages_is_refused(small, monkeypatch):
    monkeypatch.setattr(newsgroups, "N_TRAIN", 25)
    with pytest.raises(ValueError, match=r"must hold 25 \+ 16 messages, got 24 \+ 16"):
        load_newsgroups()


def test_cached_counts_give_the_same_terms_without_reading_texts(small, monkeypatch):
    first = load_newsgroups_terms(n_terms=6)

    def fail(*args, **kwargs):
        raise AssertionError("texts were read again")

    monkeypatch.setattr(newsgroups, "read_messages", fail)
    again = load_newsgroups_terms(n_terms=6)
    assert (first.X != again.X).nnz == 0
    assert_array_equal(first.terms, again.terms)
    assert_array_equal(first.y, again.y)
    with pytest.raises(AssertionError, match="texts were read again"):
        load_newsgroups_terms(n_terms=6, quotes=False)


def test_damaged_cached_counts_are_refused(small):
    load_newsgroups_terms(n_terms=6)
    (cached,) = (small.parent.parent / "cache" / "20newsgroups").iterdir()
    cached.write_bytes(cached.read_bytes()[:-100])
    with pytest.raises(ValueError, match="are damaged"):
        load_newsgroups_terms(n_terms=6)


def test_a_cache_that_cannot_be_written_to_is_warned_of(small, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.warns(UserWarning, match="set SIMILIA_CACHE"):
        assert load_newsgroups_terms(n_terms=6).X.shape == (40, 6)


def test_class_words_are_the_most_informative(small):
    assert set(load_newsgroups_terms(n_terms=5).terms) == {
        "orbit", "puck", "modem", "saint", "rifle",
    }  # fmt: skip


def test_the_official_split_is_kept_and_random_ones_have_its_size(small):
    official = load_newsgroups_terms(n_terms=5)
    assert_array_equal(official.train, np.arange(24))
    assert_array_equal(official.test, np.arange(24, 40))
    a, b, c = (load_newsgroups_terms(n_terms=5, split="random", random_state=s) for s in (0, 0, 1))
    assert_array_equal(a.train, b.train)
    assert a.train.tolist() != c.train.tolist()
    assert len(a.train) == 24
    assert sorted([*a.train, *a.test]) == list(range(40))


@pytest.mark.parametrize(("train_size", "n_train"), [(0.65, 26), (np.float32(0.5), 20), (7, 7)])
def test_a_random_split_has_the_size_asked_for(small, train_size, n_train):
    data = load_newsgroups_terms(n_terms=2, split="random", train_size=train_size, random_state=0)
    assert len(data.train) == n_train


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "date"}, "split must be one of 'bydate', 'random', got 'date'"),
        ({"train_size": 0.5}, 'train_size must be None with split="bydate"'),
        ({"split": "random", "train_size": 40}, "must leave training and test rows out of 40"),
        ({"quotes": "no"}, "quotes must be True or False, got 'no'"),
        ({"random_state": -1}, "random_state must be an integer of at least 0"),
    ],
)
def test_wrong_options_are_refused(small, options, message):
    with pytest.raises(ValueError, match=message):
        load_newsgroups_terms(**options)


@pytest.fixture(scope="session")
def terms(need):
    need(PREPARED)
    return load_newsgroups_terms()


def test_the_real_set_has_the_published_sizes(need):
    need(PREPARED)
    data = load_newsgroups()
    assert (data.train.sum(), (~data.train).sum()) == (11_314, 7_532)
    assert len(data.texts) == len(data.y) == 18_846
    assert_array_equal(np.unique(data.y), np.arange(20))
    assert not any(text.startswith("From: ") for text in data.texts[:1000])


def test_the_protocol_on_the_real_set(terms):
    assert terms.X.shape == (18_846, 1000)
    assert (len(terms.train), len(terms.test)) == (11_314, 7_532)
    assert {"god", "windows", "hockey", "encryption"} <= set(terms.terms[:20])
    assert np.all(np.diff(terms.gain) <= 0)
    lengths = np.sqrt(terms.X.multiply(terms.X).sum(axis=1))
    assert np.all(np.isclose(lengths, 1) | (lengths == 0))
    assert (lengths[terms.test] == 0).sum() == 43


def test_float32_and_seed_on_the_real_set(terms):
    data = load_newsgroups_terms(
        split="random", random_state=0, n_terms=50, tf="log", dtype=np.float32
    )
    assert data.X.dtype == np.float32
    assert len(data.train) == 11_314
    assert_array_equal(data.y, terms.y)


@pytest.mark.parametrize(("kind", "n_features"), [("minilm", 384), ("glove", 100)])
def test_vectors_share_the_rows_of_the_texts(need, kind, n_features, terms):
    need(EMBEDDINGS[kind])
    data = load_newsgroups_embeddings(kind)
    assert data.X.shape == (18_846, n_features)
    assert data.X.dtype == np.float32
    assert_array_equal(data.y, terms.y)
    assert_array_equal(np.flatnonzero(data.train), terms.train)
    if kind == "minilm":
        assert_allclose(np.linalg.norm(data.X, axis=1), 1, atol=2e-3)


def test_vectors_that_are_not_there_are_explained(monkeypatch):
    monkeypatch.delenv("SIMILIA_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match=r"no public copy.*GloVe.*Set SIMILIA_DATA"):
        load_newsgroups_embeddings("glove")
