"""Words of texts are a further view where the items have vectors and texts."""

import json

import numpy as np
import pytest

from similia.cli.serve import _embedder_of
from similia.client import Client, ServiceProblem
from similia.service.http.app import Service
from similia.service.settings import Settings
from similia.service.tenants import files
from similia.service.tenants.files import ItemFile, QueryFile, TableFile
from similia.service.tenants.tenants import Tenants
from similia.tabular import embedding
from similia.tabular.layout import ViewLayout
from similia.tabular.words import WordVectors
from tests.service.conftest import PATIENCE, Running, until
from tests.service.problems import bits, learner
from tests.service.tenants.test_tables import loaded, views_of, write

TITLES = [f"{a} {b}" for a in ("red", "blue", "green", "old") for b in ("lamp", "chair", "bowl")]
#: more than the first ones of a search, among which the start compares views
N = 360
#: each title has a word that no other has
ALL = [f"{TITLES[i % len(TITLES)]} mark{i}" for i in range(N)]
IDS = [f"p{i}" for i in range(N)]
#: vectors that tell titles apart, but not their rare words
VECTORS = np.random.default_rng(1).normal(size=(len(TITLES), 6)).astype(np.float32)
OF_ITEMS = VECTORS[np.arange(N) % len(TITLES)]


@pytest.fixture
def by_model(tmp_path, monkeypatch):
    """A table of texts, with a model that knows the words of titles and no rare ones."""
    known = sorted(set(" ".join(TITLES).split()))

    def encode(texts):
        return np.array([[float(word in text.split()) for word in known] for text in texts])

    monkeypatch.setattr(embedding, "load_embedder", lambda model: encode)
    path = write(tmp_path / "things.csv", zip(IDS, ALL, strict=True), ("id", "title"))
    return TableFile(path, layout=ViewLayout.found_in(path, {}, "model"))


@pytest.fixture
def by_column(tmp_path):
    """A table of texts and vectors."""
    rows = zip(IDS, ALL, map(json.dumps, OF_ITEMS.tolist()), strict=True)
    path = write(tmp_path / "things.csv", rows, ("id", "title", "embedding"))
    return TableFile(path, layout=ViewLayout.found_in(path))


@pytest.fixture
def by_file(tmp_path):
    """A file of vectors, one of ids and one of texts."""
    np.save(tmp_path / "items.npy", OF_ITEMS)
    for name, lines in (("ids", IDS), ("texts", ALL)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    texts = tmp_path / "texts.txt"
    return ItemFile(tmp_path / "items.npy", tmp_path / "ids.txt", texts=texts)


@pytest.fixture
def file(request):
    """Items in one of these forms."""
    return request.getfixturevalue(request.param)


any_form = pytest.mark.parametrize("file", ["by_model", "by_column", "by_file"], indirect=True)


@pytest.fixture
def tenants(tmp_path):
    found = Tenants(tmp_path / "store")
    yield found
    found.close()


@pytest.fixture
def serving(tmp_path):
    """Start a service with items, on a store of this test."""

    def start(file, queries=None, **given):
        embedder = _embedder_of(file) if isinstance(file, TableFile) else ""
        settings = {"store": str(tmp_path / "store"), "port": 0, "warm_up": "never", **given}
        return Running(
            Service(Settings(embedder=embedder, **settings), items=file, queries=queries)
        )

    return start


def typed(file, text):
    """A typed query, with a vector where the service makes none."""
    if isinstance(file, TableFile) and file.layout.embedder:
        return {"text": text}
    place = next(i for i, title in enumerate(TITLES) if text.startswith(title))
    return {"text": text, "vectors": {"vectors": VECTORS[place].tolist()}}


def judged(file):
    """Triplets about typed queries: the item with the rare word is the better one."""
    return [
        {"kind": "triplet", "query": typed(file, ALL[i]), "better": IDS[i], "worse": IDS[i - 12]}
        for i in range(12, 72)
    ]


def first_of(client, query, **given):
    """Ids of the best five."""
    return [one.id for one in client.rank(query, k=5, **given).results]


# -- queries -----------------------------------------------------------------------------------


@any_form
def test_rare_words_of_typed_queries_find_their_item(file, serving):
    with serving(file) as running, Client(running.url) as client:
        seq = client.feedback(judged(file)[:1])[0].seq
        query = typed(file, ALL[58])
        assert first_of(client, query, min_seq=seq)[0] == IDS[58]
        assert first_of(client, query, model="base")[0] != IDS[58]  # vectors alone
        status = client.status()
        assert list(status.weights) == ["vectors", "words"]
        assert status.weights["words"] > 0
        found = WordVectors.load(file.words)
        tenant = running.service.tenants.get("default")
        logged = tenant.judgements()[0].record.query
        assert list(logged.vectors) == ["vectors", "words"]
        expected = found.queries([logged.text])[0]
        assert np.array_equal(np.float32(logged.vectors["words"]), expected)
        assert np.array_equal(views_of(tenant, IDS)["words"], found.items(ALL))


def test_a_text_alone_is_ranked_by_words_as_before_without_an_embedder(by_column, serving):
    with serving(by_column) as running, Client(running.url) as client:
        assert first_of(client, "mark17") == ["p17"]
        with pytest.raises(ServiceProblem, match="set up an embedder"):
            client.feedback([{**judged(by_column)[0], "query": {"text": "mark17"}}])


def test_queries_of_a_file_have_their_words(by_file, serving, tmp_path):
    np.save(tmp_path / "q.npy", VECTORS[:2])
    (tmp_path / "q.txt").write_text("red lamp mark24\nred chair\n")
    queries = QueryFile(tmp_path / "q.npy", texts=tmp_path / "q.txt")
    with serving(by_file, queries) as running, Client(running.url) as client:
        pool = running.service.queries["default"].pool()
        assert [list(query.vectors) for query in pool] == [["vectors", "words"]] * 2
        seq = client.feedback(judged(by_file)[:1])[0].seq
        assert first_of(client, {"id": "0"}, min_seq=seq)[0] == "p24"


# -- items that come later ---------------------------------------------------------------------


@any_form
def test_items_that_come_later_have_their_words(file, serving):
    with serving(file) as running, Client(running.url) as client:
        vectors = {"vectors": client.item("p3").vectors["vectors"]}
        given = [
            {"id": "same", "text": ALL[3], "vectors": vectors},
            {"id": "untold", "vectors": vectors},
            {"id": "own", "text": "red", "vectors": client.item("p3").vectors},
        ]
        if "text" in typed(file, ALL[0]) and "vectors" not in typed(file, ALL[0]):
            given.append({"id": "text", "text": ALL[3]})
        put = client.put_items(given)
        client.rank(typed(file, ALL[3]), min_seq=put.seq)
        tenant = running.service.tenants.get("default")
        found = views_of(tenant, ["p3", *(item["id"] for item in given)])["words"]
        assert np.allclose(found[1], found[0], atol=1e-6)
        assert not found[2].any()
        assert np.allclose(found[3:], found[0], atol=1e-6)
        wrong = {"id": "wrong", "vectors": {**vectors, "words": [1.0]}, "text": "red"}
        with pytest.raises(ServiceProblem, match="words must be"):
            client.put_items([wrong])


# -- restarts, other stores --------------------------------------------------------------------


@any_form
def test_a_replay_needs_no_file_of_words(file, serving, tmp_path):
    with serving(file) as running, Client(running.url) as client:
        seq = client.feedback(judged(file))[-1].seq
        until(lambda: client.status().learnt_seq >= seq)
        tenant = running.service.tenants.get("default")
        before, last = bits(learner(tenant)), tenant.log.last
        views = views_of(tenant, IDS)
        asked = client.rank(typed(file, ALL[40]))
    kept = file.words.read_bytes()
    file.words.unlink()
    alone = Tenants(tmp_path / "store")
    try:
        tenant = alone.get("default")
        assert bits(learner(tenant)) == before
        found = views_of(tenant, IDS)
        assert all(np.array_equal(found[name], views[name]) for name in views)
    finally:
        alone.close()
    file.words.write_bytes(kept)
    with serving(file) as running, Client(running.url) as client:
        assert client.status().seq == last  # nothing was put again
        assert client.rank(typed(file, ALL[40])).results == asked.results


@any_form
def test_a_store_begun_without_the_view_goes_on_without_it(file, serving, tenants, caplog):
    with serving(file, words="none") as running, Client(running.url) as client:
        assert [view.name for view in client.status().views] == ["vectors"]
        seq = client.feedback(judged(file)[:1])[0].seq
        client.rank(typed(file, ALL[1]), min_seq=seq)
    assert "words" not in caplog.text
    assert not file.words.exists()
    with serving(file) as running, Client(running.url) as client:
        assert "words were no view when this store began, so texts are only shown" in caplog.text
        assert client.status().seq == seq
        last = client.feedback(judged(file)[1:3])[-1].seq
        client.rank(typed(file, ALL[1]), min_seq=last)
        assert list(client.status().weights) == ["vectors"]
        client.put_items([{"id": "x", "text": "a", "vectors": client.item("p3").vectors}])
    assert not file.words.exists()


def test_a_store_with_the_view_keeps_it(by_file, tenants):
    tenant = loaded(tenants, by_file)
    last = tenant.log.last
    assert by_file.load(tenant, words=False) == (N, 0)
    assert tenant.log.last == last
    (by_file.texts).write_text("".join(f"{title}\n" for title in ["blue", *ALL[1:]]))
    assert by_file.load(tenant) == (N, 1)
    without = ItemFile(by_file.path, by_file.ids)
    assert without.load(tenant) == (N, N)
    tenant.learner.wait(tenant.log.last, PATIENCE)
    assert not views_of(tenant, IDS)["words"].any()


def test_a_process_without_the_items_needs_the_file(by_file, serving, caplog):
    with serving(by_file) as running, Client(running.url) as client:
        before = client.rank(typed(by_file, ALL[40]))
    with serving(None) as running:
        assert "typed queries lack the view of words" in caplog.text
    caplog.clear()
    with serving(None, words=str(by_file.words)) as running, Client(running.url) as client:
        assert "lack" not in caplog.text
        assert client.rank(typed(by_file, ALL[40])) == before


# -- no view -----------------------------------------------------------------------------------


def test_texts_without_words_enough_are_only_shown(by_file, tenants, caplog):
    by_file.texts.write_text("text\n" * N)
    tenant = loaded(tenants, by_file)
    assert [view.name for view in tenant.status().views] == ["vectors"]
    assert "words are no view, and texts only shown: texts must have several words" in caplog.text
    assert tenant.item("p1").text == "text"


def test_words_of_very_many_items_are_no_view(by_file, tenants, caplog, monkeypatch):
    monkeypatch.setattr(files, "MAX_WORDED", N - 1)
    tenant = loaded(tenants, by_file)
    assert [view.name for view in tenant.status().views] == ["vectors"]
    assert f"items must be at most {N - 1}, got {N}" in caplog.text


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(
    by_column, tenants, caplog, monkeypatch
):
    def save(self, path):
        raise OSError("read-only file system")

    monkeypatch.setattr(WordVectors, "save", save)
    tenant = loaded(tenants, by_column)
    assert [view.name for view in tenant.status().views] == ["vectors"]
    assert "words are no view, and texts only shown: read-only file system" in caplog.text


def test_a_column_called_words_is_the_view(tenants, tmp_path):
    rows = [
        [id, title, json.dumps(vector), 10 * i]
        for i, (id, title, vector) in enumerate(zip(IDS, ALL, OF_ITEMS.tolist(), strict=True))
    ]
    path = write(tmp_path / "t.csv", rows, ("id", "title", "embedding", "words"))
    table = TableFile(path, layout=ViewLayout.found_in(path, {"words": "number"}))
    tenant = loaded(tenants, table)
    assert [(view.name, view.width) for view in tenant.status().views] == [
        ("vectors", 6),
        ("words", 1),
    ]
    assert not tenant.has_words


def test_vectors_without_texts_have_no_words(by_file, tenants):
    tenant = loaded(tenants, ItemFile(by_file.path, by_file.ids))
    assert [view.name for view in tenant.status().views] == ["vectors"]
    assert not by_file.words.exists()


# -- several tenants, several processes --------------------------------------------------------


def test_teams_have_the_view_and_other_tenants_have_not(by_file, serving):
    with (
        serving(by_file) as running,
        Client(running.url) as client,
        Client(running.url, "team") as team,
        Client(running.url, "other") as other,
    ):
        team.create(shares="default")
        seq = team.feedback(judged(by_file)[:5])[-1].seq
        until(lambda: team.status().learnt_seq >= seq)
        assert list(team.status().weights) == ["vectors", "words"]
        assert first_of(team, typed(by_file, ALL[58]))[0] == IDS[58]
        other.create()
        vectors = {"vectors": client.item("p1").vectors["vectors"]}
        other.put_items([{"id": "a", "text": "red lamp", "vectors": vectors}])
        assert list(other.item("a").vectors) == ["vectors"]
        assert first_of(other, typed(by_file, ALL[0])) == ["a"]


def test_a_follower_has_the_same_view(by_file, server, name, tmp_path):
    pytest.importorskip("psycopg", reason="needs psycopg")
    settings = {
        "store": server.database(name.replace("-", "_")),
        "port": 0,
        "warm_up": "never",
        "words": str(by_file.words),
    }
    writes = Service(Settings(**settings, cache=str(tmp_path / "w")), items=by_file)
    follows = Service(Settings(**settings, cache=str(tmp_path / "f"), follow=True))
    with (
        Running(writes) as one,
        Running(follows) as other,
        Client(one.url) as writer,
        Client(other.url) as follower,
    ):
        for client, some in ((writer, judged(by_file)[:20]), (follower, judged(by_file)[20:])):
            seq = client.feedback(some)[-1].seq
        for client in (writer, follower):
            until(lambda client=client: client.status().learnt_seq >= seq)
        states = [each.tenants.get("default").learner.live for each in (writes, follows)]
        assert bits(states[0].learner) == bits(states[1].learner)
        asked = typed(by_file, ALL[58])
        assert writer.rank(asked) == follower.rank(asked)
        assert first_of(follower, asked)[0] == IDS[58]
