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
    information_gain,
    load_reuters,
    load_reuters_terms,
    reuters,
    topics_by_ratio,
)
from experiments.datasets.fetch import FILES, locate
from experiments.datasets.reuters import ARCHIVE, DOCUMENTS, PREPARED
from experiments.datasets.reuters_sgml import sgml_stories

SIZES = {"modapte": 12_902, "train": 9_603, "test": 3_299, "r90": 10_789, "all": 21_578}
N_TOPICS = {"modapte": 14, "train": 14, "test": 15, "r90": 17, "all": 9}


def sgml(number, half, date, topics, text, kind=""):
    """One story as in the original files; `half` is LEWISSPLIT and TOPICS."""
    split, checked = half
    names = "".join(f"<D>{topic}</D>" for topic in topics)
    return (
        f'<REUTERS TOPICS="{checked}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" '
        f'OLDID="{number + 5000}" NEWID="{number}">\n<DATE>{date}</DATE>\n'
        f"<TOPICS>{names}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n<PEOPLE></PEOPLE>\n"
        f"<UNKNOWN> \n&#5;&#5;&#5;C T\n&#22;&#22;&#1;f0704&#31;reute\nBC-NEWS</UNKNOWN>\n"
        f"<TEXT{kind}>&#2;\n{text}</TEXT>\n</REUTERS>\n"
    )


def normal(title, body):
    return (
        f"<TITLE>{title}</TITLE>\n<AUTHOR>  by A. Writer</AUTHOR>\n"
        f"<DATELINE>    BAHIA, Feb 26 - </DATELINE><BODY>{body}\n Reuter\n&#3;</BODY>"
    )


TRAIN, TEST, UNUSED = ("TRAIN", "YES"), ("TEST", "YES"), ("TRAIN", "NO")
HALVES = {TRAIN: "train", TEST: "test", UNUSED: "unused"}
BRIEF, UNPROC = ' TYPE="BRIEF"', ' TYPE="UNPROC"'
# number, half, date, topics, title and body as read, text as written, type
STORIES = [
    (1, TRAIN, "26-FEB-1987 15:01:01.79", ["cocoa"], "BAHIA COCOA", "cocoa beans\n   rain\n Reuter",
     normal("BAHIA COCOA", "cocoa beans\n   rain"), ""),
    (2, TRAIN, " 1-MAR-1987 09:00:00.00", [], "STANDARD <SRD> & CO", "a unit of AT&T <T>\n Reuter",
     normal("STANDARD &lt;SRD> &amp; CO", "a unit of AT&amp;T &lt;T>"), ""),
    (3, UNUSED, "27-MAR-1987 00:02:59.13&#5;&#5;&#5;RM", ["earn"], "SHR UP", "*****Blah blah blah.",
     "*****<TITLE>SHR UP\n</TITLE>Blah blah blah.\n&#3;\n\n", BRIEF),
    (4, TRAIN, "27-FEB-1987  10:00:00.5", ["grain", "wheat", "grain"], "", "WHEAT TABLE\n caf\xe9",
     "WHEAT TABLE\n caf\xe9\n&#3;\n\n", UNPROC),
    (5, TEST, "8-APR-1987 605:12:19.12", ["cocoa", "ship"], "COCOA SHIP", "cocoa at sea\n Reuter",
     normal("COCOA SHIP", "cocoa at sea"), ""),
    (6, TEST, "7-APR-1987 16:22:00.0", ["ship"], "PORT", "ship beans\n Reuter",
     normal("PORT", "ship beans"), ""),
    (7, ("NOT-USED", "YES"), "19-OCT-1987 20:57:33.31", ["tea"], "TEA", "tea\n Reuter",
     normal("TEA", "tea"), ""),
]  # fmt: skip
BY_DATE = [1, 4, 2, 3, 6, 5, 7]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Seven made-up stories, as prepared file and as public archive, in a folder of their own."""
    folder = tmp_path / "data" / "reuters21578"
    folder.mkdir(parents=True)
    with gzip.open(folder / "reuters21578.jsonl.gz", "wt", encoding="utf-8") as lines:
        for number, half, date, topics, title, body, *_ in STORIES:
            record = {"id": number, "modapte": HALVES.get(half, "unused"), "date": date}
            lines.write(json.dumps({**record, "topics": topics, "title": title, "text": body}))
            lines.write("\n")
    written = [sgml(*story[:4], *story[6:]) for story in STORIES]
    files = {
        "reut2-001.sgm": "<!DOCTYPE lewis>\n" + "".join(written[4:]),
        "reut2-000.sgm": "<!DOCTYPE lewis>\n" + "".join(written[:4]),
        "README.txt": "<REUTERS >not a story</REUTERS>",
    }
    with tarfile.open(folder / "reuters21578.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("latin-1")))
    for path in (PREPARED, ARCHIVE):
        digest = hashlib.sha256((tmp_path / "data" / path).read_bytes()).hexdigest()
        url = (tmp_path / "absent").as_uri() if FILES[path].url else None
        monkeypatch.setitem(FILES, path, FILES[path]._replace(sha256=digest, url=url))
    for name, size in (("N_TRAIN", 3), ("N_TEST", 2), ("N_UNUSED", 2)):
        monkeypatch.setattr(reuters, name, size)
    monkeypatch.setenv("SIMILIA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SIMILIA_CACHE", str(tmp_path / "cache"))
    return folder


def test_stories_are_read_from_their_tags():
    written = "".join(sgml(*story[:4], *story[6:]) for story in STORIES)
    for story, expected in zip(sgml_stories(written), STORIES, strict=True):
        number, half, date, topics, title, body, *_ = expected
        assert story == (number, HALVES.get(half, "unused"), date, tuple(topics), title, body)


def test_the_public_archive_gives_what_the_prepared_file_gives(small):
    prepared = load_reuters("all")
    (small / "reuters21578.jsonl.gz").unlink()
    public = load_reuters("all")
    assert public.texts == prepared.texts
    assert public.topics == prepared.topics
    for name in ("dates", "ids", "Y", "train", "test"):
        assert_array_equal(getattr(public, name), getattr(prepared, name))
    assert public.classes == prepared.classes == ("cocoa", "earn", "grain", "ship", "tea", "wheat")


def test_documents_come_in_order_of_date(small):
    data = load_reuters("all")
    assert data.ids.tolist() == BY_DATE
    assert np.all(np.diff(data.dates) >= np.timedelta64(0))
    assert data.dates[0] == np.datetime64("1987-02-26T15:01:01.790")
    assert data.dates[5] == np.datetime64("1987-04-08T05:12:19.120")


@pytest.mark.parametrize(
    ("documents", "ids"),
    [("modapte", [1, 4, 2, 6, 5]), ("train", [1, 4, 2]), ("test", [6, 5]), ("r90", [1, 5])],
)
def test_documents_are_chosen_by_the_split(small, documents, ids):
    data = load_reuters(documents)
    assert data.ids.tolist() == ids
    assert_array_equal(data.train, [number < 5 for number in ids])
    assert len(data.classes) == data.Y.shape[1] == 6
    for topics, row in zip(data.topics, data.Y, strict=True):
        assert set(topics) == {name for name, has in zip(data.classes, row, strict=True) if has}


def test_repeated_topics_and_fillers_go(small):
    data = load_reuters("all")
    assert data.topics[BY_DATE.index(4)] == ("grain", "wheat")
    assert data.texts[BY_DATE.index(3)] == "SHR UP"
    assert data.texts[BY_DATE.index(4)] == "WHEAT TABLE\n caf\xe9"


def test_the_public_archive_is_downloaded_when_there_is_nothing(small, monkeypatch):
    moved = small.parent / "elsewhere"
    (small / "reuters21578.tar.gz").rename(moved)
    (small / "reuters21578.jsonl.gz").unlink()
    monkeypatch.setitem(FILES, ARCHIVE, FILES[ARCHIVE]._replace(url=moved.as_uri()))
    assert len(load_reuters().texts) == 5


def test_without_file_and_network_the_error_says_what_to_do(small):
    for path in small.iterdir():
        path.unlink()
    with pytest.raises(DataNotFoundError, match=r"absent could not be downloaded.*SIMILIA_DATA"):
        load_reuters()


def test_another_number_of_documents_is_refused(small, monkeypatch):
    monkeypatch.setattr(reuters, "N_TRAIN", 4)
    with pytest.raises(ValueError, match=r"must hold 4 \+ 2 \+ 2 documents, got 3 \+ 2 \+ 2"):
        load_reuters()


@pytest.mark.parametrize("date", ["", "26-FEB-1987", "26-FEV-1987 15:01:01.79"])
def test_a_date_that_cannot_be_read_is_named(date):
    story = next(sgml_stories(sgml(8, TRAIN, date, [], "")))
    with pytest.raises(ValueError, match="the date of document 8 must look like"):
        reuters.catalog([story])


def test_topics_are_found_by_their_ratio_ends_included(rng):
    names = ["none", "one", "nine", "ten", "half", "all"]
    sizes = np.array([0, 1, 9, 10, 55, 110])
    Y = rng.permuted(np.arange(110)[:, None] < sizes, axis=0)
    assert topics_by_ratio(Y, names, low=0.1, high=1) == ("half", "ten")
    assert topics_by_ratio(Y, names, low=0.09, high=0.1) == ("ten",)
    assert topics_by_ratio(Y, names) == ("ten", "nine")
    assert topics_by_ratio(Y, names, low=0, high=0.05) == ("one",)


def test_topics_need_a_column_for_each_name():
    with pytest.raises(ValueError, match=r"one column for each of 2 names, got shape \(3, 1\)"):
        topics_by_ratio(np.ones((3, 1)), ["a", "b"])
    with pytest.raises(ValueError, match="low must be a number of at least 0, got -1"):
        topics_by_ratio(np.ones((3, 1)), ["a"], low=-1)


def test_frequent_words_are_counted_in_the_documents_that_may_be_seen(small):
    words = load_reuters_terms("all", n_terms=4, fit_on="documents")
    assert words.terms.tolist() == ["reuter", "beans", "cocoa", "ship"]
    assert words.score.tolist() == [5, 2, 2, 2]
    assert words.ids.tolist() == BY_DATE
    first = load_reuters_terms("all", n_terms=3, fit_on=2)
    assert set(first.terms) <= {
        "bahia",
        "cocoa",
        "beans",
        "rain",
        "reuter",
        "wheat",
        "table",
        "caf\xe9",
    }
    assert first.score.tolist() == [1, 1, 1]
    assert_allclose(first.idf, np.log(2))


def test_words_and_weights_of_the_training_half_serve_the_test_half(small):
    test, both = load_reuters_terms("test", n_terms=4), load_reuters_terms("modapte", n_terms=4)
    assert_array_equal(test.terms, both.terms)
    assert_array_equal(test.idf, both.idf)
    assert_array_equal(test.X.toarray(), both.X.toarray()[~both.train])
    assert_array_equal(test.ids, [6, 5])


def test_rows_of_the_stream_may_be_named(small):
    a = load_reuters_terms("modapte", n_terms=4, fit_on=np.array([0, 1, 2]))
    b = load_reuters_terms("modapte", n_terms=4, fit_on="train")
    c = load_reuters_terms("modapte", n_terms=4, fit_on=3)
    for other in (b, c):
        assert_array_equal(a.terms, other.terms)
        assert_array_equal(a.X.toarray(), other.X.toarray())


def test_informative_words_depend_on_the_topics_that_may_be_seen(small):
    data = load_reuters_terms(
        "all", n_terms=5, select="gain", fit_on="documents", unit_length=False
    )
    counts = load_reuters_terms(
        "all", n_terms=16, fit_on="documents", unit_length=False, smooth_idf=True
    )
    gain = dict(zip(counts.terms, information_gain(counts.X, data.Y), strict=True))
    assert data.score[0] == pytest.approx(max(gain.values()))
    assert np.all(np.diff(data.score) <= 0)
    assert_allclose(data.score, [gain[term] for term in data.terms])


def test_cached_counts_serve_all_choices_without_reading_texts(small, monkeypatch):
    first = load_reuters_terms("test", n_terms=4)

    def fail(*args, **kwargs):
        raise AssertionError("texts were read again")

    monkeypatch.setattr(reuters, "read_stories", fail)
    again = load_reuters_terms("test", n_terms=4)
    assert (first.X != again.X).nnz == 0
    for name in ("Y", "classes", "dates", "ids", "train", "test", "terms", "idf"):
        assert_array_equal(getattr(first, name), getattr(again, name))
    assert load_reuters_terms("all", n_terms=2, select="gain").X.shape == (7, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"documents": "apte"},
            "documents must be one of 'modapte', 'train', 'test', 'r90', 'all'",
        ),
        ({"select": "idf"}, "select must be one of 'frequency', 'gain', got 'idf'"),
        ({"fit_on": 0}, "fit_on must be one of 'train', 'documents' or a positive integer or an"),
        ({"fit_on": 6}, "fit_on must be at most the 5 documents loaded, got 6"),
        ({"fit_on": np.array([5])}, "fit_on must be row indices between 0 and 4"),
        ({"fit_on": np.array([0.5])}, "fit_on must be row indices between 0 and 4"),
        ({"fit_on": np.array([], dtype=int)}, "fit_on must be row indices between 0 and 4"),
        ({"n_terms": 50}, "best_tfidf: n_terms must be at most the 16 terms there are"),
        ({"n_terms": 0}, "n_terms must be a positive integer"),
    ],
)
def test_wrong_options_are_refused(small, options, message):
    with pytest.raises(ValueError, match=message):
        load_reuters_terms(**options)
    with pytest.raises(ValueError, match="documents must be one of"):
        load_reuters("apte")


@pytest.fixture(scope="session")
def real(need):
    need(PREPARED)
    return {documents: load_reuters(documents) for documents in DOCUMENTS}


def test_the_real_set_has_the_published_sizes(real):
    assert {name: len(data.texts) for name, data in real.items()} == SIZES
    train, test = real["train"], real["test"]
    assert train.dates.max() < test.dates.min()
    published = {"earn": (2877, 1087), "acq": (1650, 719), "money-fx": (538, 179),
                 "grain": (433, 149), "crude": (389, 189)}  # fmt: skip
    for topic, sizes in published.items():
        column = train.classes.index(topic)
        assert (train.Y[:, column].sum(), test.Y[:, column].sum()) == sizes
    assert (train.Y.any(axis=0) & test.Y.any(axis=0)).sum() == 90
    assert ((~train.Y.any(axis=1)).sum(), (~test.Y.any(axis=1)).sum()) == (1828, 280)


def test_the_real_set_has_as_many_rare_topics_as_documented(real):
    found = {name: len(topics_by_ratio(data.Y, data.classes)) for name, data in real.items()}
    assert found == N_TOPICS


def test_no_filler_is_left(real):
    assert not any("Blah blah" in text for text in real["all"].texts)


def test_stories_of_the_real_set_survive_their_original_form(need):
    need(PREPARED)
    stories = reuters.read_stories(PREPARED, locate(PREPARED))[:4000]

    def escaped(text):
        return text.replace("&", "&amp;").replace("<", "&lt;")

    written = "".join(
        sgml(
            story.number,
            {name: half for half, name in HALVES.items()}[story.half],
            story.date,
            story.topics,
            f"<TITLE>{escaped(story.title)}</TITLE>\n<BODY>{escaped(story.body)}\n&#3;</BODY>",
        )
        for story in stories
    )
    assert list(sgml_stories(written)) == stories


def test_the_words_of_the_real_set(need):
    need(PREPARED)
    data = load_reuters_terms()
    assert data.X.shape == (12_902, 500)
    lengths = np.sqrt(data.X.multiply(data.X).sum(axis=1))
    assert np.all(np.isclose(lengths, 1) | (lengths == 0))
    assert (lengths == 0).sum() == 4
    assert {"said", "mln", "dlrs", "oil", "bank"} <= set(data.terms)
    gain = load_reuters_terms("train", select="gain", fit_on=1000, dtype=np.float32)
    assert gain.X.shape == (9_603, 500)
    assert gain.X.dtype == np.float32
    assert {"vs", "cts", "wheat", "oil", "tonnes"} <= set(gain.terms[:20])
