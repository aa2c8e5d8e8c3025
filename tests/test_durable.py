import os
import stat

import pytest

from similia.safety.whole import replace_text, replacing


def test_a_finished_block_replaces_the_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    replace_text(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_block_leaves_the_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "a.json", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    replace_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
