import stat
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import similia
from similia.persistence import load, save, saving
from tests.fixtures.make import fitted


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_unsaveable_parameters_are_refused_before_anything_is_written(path):
    path.write_bytes(b"old")
    for parameters in ({"sampler": lambda *a: None}, {"random_state": np.random.RandomState(0)}):
        learner = fitted("OASIS").set_params(**parameters)
        with pytest.raises(ValueError, match=r"save: \w+ must be .*set_params\(\w+="):
            save(learner, path)
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_foreign_unfitted_or_broken_learners_are_refused(path):
    class OASIS(similia.OASIS):
        pass

    with pytest.raises(ValueError, match=r"learner must be one of .* got OASIS"):
        save(OASIS(), path)
    with pytest.raises(ValueError, match="got dict"):
        save({}, path)
    with pytest.raises(NotFittedError):
        save(similia.OASIS(), path)
    broken = fitted("OASIS")
    broken.W_[0, 0] = np.nan
    with pytest.raises(ValueError, match="W_ must be finite"):
        save(broken, path)
    broken.W_ = broken.W_.astype(np.longdouble)
    with pytest.raises(ValueError, match="W_ must be"):
        save(broken, path)
    assert not path.exists()


@pytest.mark.parametrize("step", ["save_file", "os.fsync", "os.replace", "seal"])
def test_an_error_while_writing_leaves_the_old_file(step, path, monkeypatch):
    save(fitted("OASIS"), path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(f"{saving.__name__}.{step}", fail)
    with pytest.raises(OSError, match="no space left"):
        save(fitted("OASIS", C=0.5), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_a_full_disk_leaves_the_old_file(path):
    save(fitted("OASIS"), path)
    before = path.read_bytes()
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from similia import load, save\n"
        f"learner = load({str(path)!r})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        f"try: save(learner, {str(path)!r})\n"
        "except OSError as error: assert 'could not be written' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-B", "-c", code], check=True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_follows_links_keeps_modes_and_names_bad_places(path):
    learner = fitted("OASIS")
    with pytest.raises(ValueError, match="path must be a file"):
        save(learner, path.parent)
    with pytest.raises(ValueError, match="path must be a file, got the device or pipe /dev/null"):
        save(learner, "/dev/null")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save(learner, path.parent / "nowhere" / "model")
    plain = path.with_name("plain")
    plain.touch()
    save(learner, path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path)
    save(learner.set_params(C=0.3), link)
    assert link.is_symlink()
    assert load(path).C == 0.3
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_equal_learners_give_equal_files(path):
    save(fitted("FactoredAROMA"), path)
    first = path.read_bytes()
    save(fitted("FactoredAROMA"), path)
    assert path.read_bytes() == first
