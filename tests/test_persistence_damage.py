import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from similia import AROW
from similia.exceptions import ModelFileError
from similia.persistence import describe, load, reading, save, saving
from similia.registry import ALL_LEARNERS
from tests.fixtures.make import FOLDER, fitted

FILES = sorted(FOLDER.glob("*-float32.safetensors"))
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def refused(path, raw, match=None):
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert ";" in str(caught.value)  # what is wrong; what to do


def test_a_flipped_bit_is_noticed_in_every_byte(path):
    raw = FILES[0].read_bytes()
    for position in range(len(raw)):
        flipped = bytearray(raw)
        flipped[position] ^= 1 << (position % 8)
        refused(path, flipped)


@quick
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_any_changed_byte_is_noticed(path, file, place, change):
    raw = bytearray(file.read_bytes())
    raw[int(place * len(raw))] ^= change
    refused(path, raw)


@quick
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True))
def test_any_truncation_is_noticed(path, file, place):
    raw = file.read_bytes()
    refused(path, raw[: int(place * len(raw))])


@quick
@given(st.binary())
def test_any_other_bytes_are_refused(path, raw):
    refused(path, raw)
    refused(path, FILES[0].read_bytes() + raw + b".")


def sealed(raw_header, data=b""):
    return len(raw_header).to_bytes(8, "little") + raw_header + data


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"", "the file is empty"),
        (b"\x80\x04K\x01.", "not a model file"),
        (b"PK\x03\x04 a zip file", "not a model file"),
        (b"\xff" * 8 + b"{}", "not a model file"),
        ((10**7).to_bytes(8, "little") + b"{}", "ends inside its header"),
        (sealed(b"{" * 100_000), "header is not readable"),
        (sealed(b'{"__metadata__":' + b"[" * 100_000), "header is not readable"),
        (sealed(b'{"__metadata__":{"similia":"' + b"[" * 100_000 + b'"}}'), "not readable"),
        (sealed(b'{"__metadata__":{"similia":"7"}}'), "not readable"),
        (sealed(b'{"__metadata__":{"similia":"{}"}}'), "checksum"),
        (sealed(b'{"__metadata__":[]}'), "not readable"),
        (sealed(b"{}"), "no model of similia"),
    ],
)
def test_foreign_and_hostile_headers_are_refused(raw, match, path):
    refused(path, raw, match)
    with pytest.raises(ModelFileError, match=match):
        describe(path)


def test_places_without_a_file_are_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)


# -- files with valid checksums and wrong contents -----------------------------------------------


def forged(path, change):
    """Rewrite a model file with its document and tensors changed, and all checksums right."""
    tensors, document = load_file(path), reading.read_document(path)
    change(document, tensors)
    for name, tensor in tensors.items():
        if name not in document["tensors"]:
            continue
        document["tensors"][name] = saving.stored(tensor)[1]
    text = json.dumps({**document, "header_sha256": saving.UNSEALED}, separators=(",", ":"))
    save_file(tensors, path, metadata={saving.METADATA_KEY: text})
    with open(path, "r+b") as opened:
        saving.seal(opened)
    return os.fspath(path)


CHANGES = {
    "is none of": lambda d, t: d.update({"class": "os.system"}),
    "has format 99": lambda d, t: d.update(format=99),
    "no valid format": lambda d, t: d.update(format="1"),
    "list of entries": lambda d, t: d.update(more=1),
    "r must be .auto. or a positive number": lambda d, t: d["parameters"].update(r=-1.0),
    "unexpected keyword": lambda d, t: d["parameters"].update(surprise=1),
    "W_ must be finite": lambda d, t: t["W_"].__setitem__((0, 0), np.nan),
    "more is missing or unknown": lambda d, t: t.update(more=np.ones(2)),
    "W_ is missing or unknown": lambda d, t: t.pop("W_"),
    "belongs to nothing": lambda d, t: d["attributes"].pop("W_"),
    "unknown kind": lambda d, t: d["attributes"].update(n_seen_={"exec": "1"}),
    "bare list": lambda d, t: d["attributes"].update(n_seen_=[1]),
    "not a count": lambda d, t: d["attributes"].update(n_seen_=-1),
    "is -1, not a count": lambda d, t: d["attributes"].update(n_features_in_=-1),
    "'9', not a count": lambda d, t: d["attributes"].update(n_updates_="9"),
    "prior_scale_ is of type int": lambda d, t: d["attributes"].update(prior_scale_=1),
    "'n_seen_'. is missing": lambda d, t: d["attributes"].pop("n_seen_"),
    "'Z_'. is unknown": lambda d, t: d["attributes"].update(Z_=0),
    "W_ is of shape .4, 4.": lambda d, t: d["attributes"].update(
        n_features_in_=10**9, n_item_features_=10**9
    ),
    "Lambda_ is of shape .4, 3.": lambda d, t: t.update(Lambda_=np.ones((4, 3))),
    "Omega_ is of shape .16,.": lambda d, t: t.update(Omega_=np.ones(16)),
    "moment_ is of shape .0, 0.": lambda d, t: t.update(moment_=np.ones((0, 0))),
    "dtype float32, not": lambda d, t: t.update(Omega_=t["Omega_"].astype(np.float32)),
    "feature names": lambda d, t: d["attributes"].update(
        feature_names_in_={"strings": ["a"], "dtype": "object"}
    ),
    "strings of dtype": lambda d, t: d["attributes"].update(
        feature_names_in_={"strings": ["a"], "dtype": "U99999999"}
    ),
    "short strings with room for 65536": lambda d, t: d["attributes"].update(
        feature_names_in_={"strings": [""] * 16_000, "dtype": "U65536"}
    ),
    "the number nan": lambda d, t: d["attributes"].update(prior_scale_=float("nan")),
    "the number inf": lambda d, t: d["attributes"].update(prior_scale_=float("inf")),
    "the number 1e.300 of dtype float32": lambda d, t: d["attributes"].update(
        prior_scale_={"number": 1e300, "dtype": "float32"}
    ),
    "the number 1000000": lambda d, t: d["attributes"].update(n_seen_=10**30),
    "is 9223372036854775807, not": lambda d, t: d["attributes"].update(n_seen_=2**63 - 1),
}


@pytest.mark.parametrize("match", CHANGES)
def test_wrong_contents_are_refused_even_with_right_checksums(match, path):
    save(fitted("FactoredAROMA"), path)
    with pytest.raises(ModelFileError, match=match):
        load(forged(path, CHANGES[match]))


@pytest.mark.parametrize(
    ("match", "change"),
    {
        "widths_ must be": lambda a: a.update(widths_={"list": []}),
        "names_ and the numbers": lambda a: a.update(names_={"list": ["a", "b"]}),
        "got 7": lambda a: a.update(widths_=7),
        "of features what follows": lambda a: a.update(n_item_features_=10**9),
        "memory_stretch_ is of type": lambda a: a.update(memory_stretch_=1),
        "clicks_theta_ is of shape": lambda a: a.update(nuisances_={"list": ["a"]}),
        "'memory_stretch_' is missing": lambda a: a.pop("memory_stretch_"),
    }.items(),
)
def test_a_blend_that_contradicts_itself_is_refused(match, change, path):
    save(fitted("Blend"), path)
    with pytest.raises(ModelFileError, match=match):
        load(forged(path, lambda d, t: change(d["attributes"])))


@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_every_array_of_every_learner_has_its_shape_checked(name, path):
    save(fitted(name), path)
    for tensor in load_file(path):
        save(fitted(name), path)
        forged(path, lambda d, t, tensor=tensor: t.update({tensor: np.ones((2, 7, 3))}))
        with pytest.raises(ModelFileError):
            load(path)


def test_an_unchanged_forgery_is_accepted(path):
    save(fitted("FactoredAROMA"), path)
    load(forged(path, lambda d, t: None))


def test_what_could_not_be_loaded_is_not_saved(path):
    learner = AROW().partial_fit(np.eye(2), ["a", "b"], classes=["a", "b"])
    learner.classes_ = np.array(["", "b" * 60_000] + [""] * 9000)
    with pytest.raises(ValueError, match=r"^save: classes_ must be strings of similar lengths"):
        save(learner, path)
