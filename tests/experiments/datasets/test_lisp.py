import gzip
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.datasets import clicks, load_lisp
from experiments.datasets.clicks import ARCHIVE, PAGE, PREPARED

EVENTS = """\
{"type": "TaskStarted", "topic": "Is golf a sport?", "uid": "someone"}
{"type": "querySubmitted", "query": "golf"}
{"docno": "a", "score": 2.00004}
{"docno": "b", "score": 1.5}

{"type": "toggleArgument", "doc": "b", "action": "expand"}
{"type": "toggleArgument", "doc": "b", "action": "reduce"}
{"type": "StanceClicked", "doc": "b", "action": "chooseStance", "stance": "pro"}
{"type": "querySubmitted", "query": "golf sport"}
{"docno": "b", "score": 3.0}
{"type": "StanceClicked", "doc": "b", "action": "chooseStance", "stance": "pro"}
{"type": "StanceClicked", "doc": "b", "action": "removeStance", "stance": "pro"}
"""


@pytest.fixture
def log(need):
    need(PREPARED)
    return load_lisp()


def test_the_log_has_the_stated_sizes(log):
    assert len(log.doc) == 40_753
    assert len(np.unique(log.list)) == 410
    assert len(np.unique(log.user)) == 61
    assert (log.seen.sum(), log.opened.sum(), log.saved.sum()) == (8048, 2610, 1456)


def test_ranks_count_through_each_list(log):
    starts = np.flatnonzero(np.diff(log.list, prepend=-1))
    assert (log.rank[starts] == 1).all()
    within = np.diff(log.list) == 0
    assert (np.diff(log.rank)[within] == 1).all()
    assert (np.diff(log.bm25)[within] <= 0).all()


def test_people_look_again_on_the_second_page(log):
    rates = [log.opened[log.seen & (log.rank == rank)].mean() for rank in (1, PAGE, PAGE + 1)]
    assert rates[1] < 0.6 * rates[0]
    assert rates[2] > 1.5 * rates[1]


def test_the_log_files_say_what_the_prepared_table_says(tmp_path, monkeypatch):
    made = {}
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("logs/Participant7_task2_2025.log", EVENTS)
        archive.writestr("logs/readme.txt", "not a log")
    header = "user,topic,query,doc,list,rank,bm25,page_seen,expanded,saved\n"
    lines = ["golf,a,1,1,2.0,1,0,0", "golf,b,1,2,1.5,1,1,1", "golf sport,b,2,1,3.0,1,0,0"]
    text = header + "".join(f"Participant7,Is golf a sport?,{line}\n" for line in lines)
    (tmp_path / "clicks.csv.gz").write_bytes(gzip.compress(text.encode()))
    for path, name in ((ARCHIVE, "logs.zip"), (PREPARED, "clicks.csv.gz")):
        monkeypatch.setattr(clicks, "fetch_first", lambda *_, p=path, n=name: (p, tmp_path / n))
        made[path] = load_lisp()
    for field in ("user", "topic", "query", "doc", "list", "rank", "bm25", "opened", "saved"):
        assert_array_equal(getattr(made[ARCHIVE], field), getattr(made[PREPARED], field))


def test_only_pages_that_were_opened_are_seen():
    events = [{"docno": str(i), "score": 1.0} for i in range(3 * PAGE)]
    events.insert(0, {"type": "querySubmitted", "query": "q"})
    events.append({"type": "pageNavigationClicked", "toPage": 3})
    (shown,) = clicks._lists(events)
    assert [row["rank"] for row in shown if row["page_seen"]] == [*range(1, 11), *range(21, 31)]
