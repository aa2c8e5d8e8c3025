"""What is taken as executors, files and folders, and what is refused in words."""

import doctest

import pytest

from similia import distributed
from similia.distributed import evaluate_parts, learn_shares, search_ranges
from similia.distributed.engines import Engine, engine_named


class Client:
    """As a client or cluster of Dask looks from outside."""

    scheduler_address = "tcp://127.0.0.1:1"


def test_clients_clusters_and_addresses_of_dask_are_taken():
    pytest.importorskip("distributed")
    for given in (Client(), "tcp://127.0.0.1:1", "dask://127.0.0.1:1"):
        assert isinstance(engine_named(given), Engine)


@pytest.mark.parametrize("given", [None, 3, ["processes"]])
def test_other_executors_are_refused(given):
    with pytest.raises(TypeError, match=r"executor must be .*Client or cluster of Dask, got"):
        engine_named(given)


@pytest.mark.parametrize("value", [None, 3, {1, 2}, object()])
@pytest.mark.parametrize("name", ["vectors", "judgements"])
def test_what_no_worker_could_read_is_refused_with_what_is_taken(name, value, problem, inline):
    given = {"vectors": problem.vectors, "judgements": problem.feedback, name: value}
    options = {"executor": inline, "work": problem.folder / "work"}
    message = rf"{name} must be a path.*a dataset of Ray, got {type(value).__name__}"
    with pytest.raises(TypeError, match=message):
        learn_shares(problem.learner(), *given.values(), **options)
    with pytest.raises(TypeError, match=message):
        evaluate_parts({"base": "cosine"}, *given.values(), **options)


@pytest.mark.parametrize("name", ["output", "work"])
def test_urls_of_unknown_schemes_are_refused_and_make_no_folder(
    name, problem, inline, tmp_path, monkeypatch
):
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    sides, given = (problem.vectors, problem.vectors), {"executor": inline, name: "nowhere://b/x"}
    with pytest.raises(ValueError, match=r"nowhere://b/x.*: the scheme must be one that fsspec"):
        learn_shares(problem.learner(), problem.vectors, problem.feedback, **given)
    with pytest.raises(ValueError, match="the scheme must be one that fsspec"):
        search_ranges("cosine", *sides, 3, work="nowhere://b/x", executor=inline)
    assert set(tmp_path.iterdir()) == before


def test_everything_public_has_an_example_and_the_examples_run():
    """As a newcomer would paste them."""
    pytest.importorskip("qdrant_client")
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for name in distributed.__all__:
        (example,) = finder.find(getattr(distributed, name), name)
        assert example.examples, name
        runner.run(example)
    assert runner.failures == 0
