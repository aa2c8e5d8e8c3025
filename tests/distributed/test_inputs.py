"""Vectors and judgements in many forms: what is learnt is that of files, bit for bit."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from similia.distributed import VectorPath, evaluate_parts, learn_shares, search_ranges
from similia.distributed.folders import WorkFolder
from similia.distributed.inputs import located, located_source
from tests.distributed.test_learning import learnt

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


def table_of(X, start=0):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    return pa.table({"id": np.arange(start, start + len(X)), "vector": vectors})


def in_parts(folder, X, n=3):
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(X)), n)):
        table = table_of(X[part], part[0])
        parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=20)
    (folder / "_SUCCESS").touch()
    return folder


def dask_array(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(50, 4))


def dask_table(table):
    return pytest.importorskip("dask.dataframe").from_pandas(table.to_pandas(), npartitions=3)


VECTORS = {
    "array": lambda X, folder: X,
    "mapped": lambda X, folder: np.load(folder / "vectors.npy", mmap_mode="r"),
    "pandas": lambda X, folder: pd.DataFrame({"id": range(len(X)), "vector": list(X)}),
    "columns": lambda X, folder: pd.DataFrame(X, columns=list("abcdef")),
    "polars": lambda X, folder: pl.from_arrow(table_of(X)),
    "arrow": lambda X, folder: table_of(X),
    "dask array": lambda X, folder: dask_array(X),
    "folder": lambda X, folder: in_parts(folder / "x.parquet", X),
    "glob": lambda X, folder: str(in_parts(folder / "x", X) / "part-*.parquet"),
    "list": lambda X, folder: sorted(in_parts(folder / "x", X).glob("*.parquet")),
    "of a folder": lambda X, folder: VectorPath(str(in_parts(folder / "x", X)), None, "vector"),
}
JUDGEMENTS = {
    "array": lambda rows, folder: rows,
    "dictionary": lambda rows, folder: dict(zip(("query", "better", "worse"), rows.T, strict=True)),
    "pandas": lambda rows, folder: pd.DataFrame(rows, columns=["query", "better", "worse"]),
    "dask": lambda rows, folder: dask_table(
        pa.table(dict(zip(("query", "better", "worse"), rows.T, strict=True)))
    ),
}


@pytest.mark.parametrize("form", VECTORS)
def test_vectors_come_in_many_forms(problem, inline, form):
    expected = learnt(problem, inline)
    given = VECTORS[form](problem.X, problem.folder)
    output, work = problem.output("again"), problem.folder / "kept"
    options = {"executor": inline, "shares": 4, "output": output, "work": work}
    learn_shares(problem.learner(), given, problem.feedback, **options)
    assert output.read_bytes() == expected
    output.unlink()  # the same call goes on from what is finished, and writes nothing twice
    before = {path: path.stat().st_mtime_ns for path in work.glob("fetched-*")}
    learn_shares(problem.learner(), given, problem.feedback, **options)
    assert output.read_bytes() == expected
    assert before == {path: path.stat().st_mtime_ns for path in work.glob("fetched-*")}
    assert len(before) <= 3


@pytest.mark.parametrize("form", JUDGEMENTS)
def test_judgements_come_in_many_forms(problem, inline, form):
    expected = learnt(problem, inline)
    given = JUDGEMENTS[form](problem.triplets, problem.folder)
    output = problem.output("again")
    options = {"executor": inline, "shares": 4, "output": output}
    learn_shares(problem.learner(), problem.vectors, given, **options)
    assert output.read_bytes() == expected


def test_judgements_in_parts_are_joined_in_the_order_of_their_names(problem, inline):
    folder = problem.folder / "judged"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(problem.triplets, 3)):
        columns = dict(zip(("query", "better", "worse"), rows.T, strict=True))
        parquet.write_table(pa.table(columns), folder / f"part-{number}.parquet")
    output = problem.output("again")
    learn_shares(
        problem.learner(), problem.vectors, folder, executor=inline, shares=4, output=output
    )
    assert output.read_bytes() == learnt(problem, inline)


def test_ids_of_parts_name_the_rows_of_all(problem, inline, tmp_path):
    for number, names in enumerate((["a", "b"], ["c"])):
        X = problem.X[: len(names)] + number
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        parquet.write_table(
            pa.table({"id": names, "vector": vectors}), tmp_path / f"{number}.parquet"
        )
    where = located([tmp_path / "0.parquet", tmp_path / "1.parquet"], WorkFolder(tmp_path / "work"))
    file = where.read()
    assert file.ids.names() == ["a", "b", "c"]
    np.testing.assert_array_equal(file.X[2], problem.X[0] + 1)


def test_ids_beyond_int64_are_texts_of_their_digits(problem, tmp_path):
    ids = np.array([1, 2**63, 2**64 - 1], np.uint64)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(problem.X[:3].ravel()), 6)
    parquet.write_table(pa.table({"id": ids, "vector": vectors}), tmp_path / "x.parquet")
    file = located(tmp_path / "x.parquet", WorkFolder(tmp_path / "work")).read()
    assert file.ids.names() == [str(value) for value in ids.tolist()]


def test_a_dataset_of_ray_is_read_batch_by_batch(problem, inline):
    class Dataset:
        """As one of Ray looks from outside."""

        def iter_batches(self, *, batch_format, batch_size):
            assert batch_format == "pyarrow"
            for start in range(0, len(problem.X), 50):
                yield table_of(problem.X[start : start + 50], start)

    output = problem.output("again")
    options = {"executor": inline, "shares": 4, "output": output}
    learn_shares(problem.learner(), Dataset(), problem.feedback, **options)
    assert output.read_bytes() == learnt(problem, inline)


def test_search_and_evaluation_take_them_too(problem, inline):
    work = problem.folder
    expected, _ = search_ranges(
        "cosine", problem.vectors, problem.vectors, 3, work=work / "a", executor=inline
    )
    found, _ = search_ranges(
        "cosine", problem.X[:20], table_of(problem.X), 3, work=work / "b", executor=inline
    )
    np.testing.assert_array_equal(found, expected[:20])
    whole, parted = (
        evaluate_parts({"": "cosine"}, X, judged, work=work / name, executor=inline)[""].means
        for name, X, judged in (
            ("c", problem.vectors, problem.feedback),
            ("d", table_of(problem.X), JUDGEMENTS["pandas"](problem.triplets, work)),
        )
    )
    assert whole == parted


def test_wrong_forms_are_errors_in_words(problem, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        located(str(tmp_path / "empty" / "*.parquet"), WorkFolder(tmp_path / "work"))
    with pytest.raises(ValueError, match="files must be at least one"):
        located([], WorkFolder(tmp_path / "work"))
    with pytest.raises(TypeError, match="judgements must be a path"):
        located_source(7, WorkFolder(tmp_path / "work"))
    in_parts(tmp_path / "x", problem.X)
    narrow = table_of(problem.X[:, :4])
    parquet.write_table(narrow, tmp_path / "x" / "part-9.parquet")
    with pytest.raises(ValueError, match=r"must have 6 numbers, as those of .*part-0"):
        located(tmp_path / "x", WorkFolder(tmp_path / "work"))
    assert not list((tmp_path / "work").glob("fetched-*.npy"))
