import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.datasets.lzw import uncompressed

from .compress import compressed


@given(st.binary(max_size=2000), st.integers(10, 16), st.none() | st.integers(1, 400))
def test_what_was_compressed_comes_back(content, max_width, clear_after):
    written = compressed(content, max_width=max_width, clear_after=clear_after)
    assert uncompressed(written) == content


@given(st.lists(st.sampled_from([b"0.", b"-0.", b"1", b"74", b", "]), max_size=4000).map(b"".join))
def test_repetitive_content_comes_back(content):
    assert uncompressed(compressed(content, max_width=11)) == content
    assert uncompressed(compressed(content, clear_after=700)) == content


def numbers(rng, n):
    return ", ".join(f"{value:.4f}" for value in rng.uniform(-1, 1, size=n)).encode()


@pytest.mark.parametrize("clear_after", [None, 9_000])
def test_a_full_table_comes_back(rng, clear_after):
    content = numbers(rng, 30_000)
    written = compressed(content, max_width=12, clear_after=clear_after)
    assert uncompressed(written) == content


@pytest.mark.parametrize("clear_after", [None, 2_000])
def test_gzip_reads_the_same(rng, clear_after):
    if shutil.which("gzip") is None:
        pytest.skip("gzip is not installed")
    content = numbers(rng, 40_000)
    written = compressed(content, clear_after=clear_after)
    theirs = subprocess.run(["gzip", "-dc"], input=written, capture_output=True, check=True)
    assert theirs.stdout == uncompressed(written) == content


@pytest.mark.parametrize("content", [b"", b"\x1f", b"\x1f\x9d", b"\x1f\x8b\x08more"])
def test_other_files_are_refused(content):
    with pytest.raises(ValueError, match="content must begin with 1f 9d and a byte of flags"):
        uncompressed(content)


def test_an_unknown_code_is_refused():
    damaged = bytes([0x1F, 0x9D, 0x90]) + (65 | 400 << 9).to_bytes(9, "little")
    with pytest.raises(ValueError, match="codes must be known ones, got 400"):
        uncompressed(damaged)
