"""A file is recognised by its first gigabyte and its last bytes, however it was read."""

from __future__ import annotations

import os
import zlib

import pytest

from ldmaps.door import read_at
from ldmaps.streaming import fingerprint
from ldmaps.streaming.fingerprint import Fingerprint

DATA = bytes(range(256)) * 100


@pytest.fixture
def opened(tmp_path):
    descriptors = []

    def write(data):
        path = tmp_path / f"{len(descriptors)}.bin"
        path.write_bytes(data)
        descriptors.append(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)))
        return descriptors[-1]

    yield write
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.fixture
def small(monkeypatch):
    """A head of 1,000 bytes and a tail of 100, read 64 at a time."""
    for name, size in (("_HEAD", 1000), ("TAIL", 100), ("_PIECE", 64)):
        monkeypatch.setattr(fingerprint, name, size)


def marked(descriptor, end, begin=0):
    one = Fingerprint(begin)
    one.add_from(descriptor, end)
    return one


def test_the_checksums_are_those_of_head_and_tail(opened, small):
    one = marked(opened(DATA), 5000, begin=10)
    assert one.end == 5000
    assert one.tail == DATA[4900:5000]
    # Beyond the head only the tail is read, so the head's checksum covers the whole pieces that began within it.
    assert one.mark() == [zlib.crc32(DATA[10:1010]), zlib.crc32(DATA[4900:5000])]


@pytest.mark.parametrize("sizes", [[5000], [1] * 300 + [4700], [999, 2, 3999], [3000, 60, 40, 1900]])
def test_bytes_added_by_hand_and_from_a_file_give_the_same(opened, small, sizes):
    one, begin = Fingerprint(), 0
    for size in sizes:
        one.add(DATA[begin : begin + size])
        begin += size
    other = marked(opened(DATA), 5000)
    assert (one.mark(), one.end, one.tail) == (other.mark(), other.end, other.tail)


@pytest.mark.parametrize("place", [0, 500, 999, 4900, 4999])
def test_a_change_in_head_or_tail_is_noticed(opened, small, place):
    changed = bytearray(DATA)
    changed[place] ^= 1
    assert marked(opened(bytes(changed)), 5000).mark() != marked(opened(DATA), 5000).mark()


def test_of_a_file_that_is_too_short_what_it_has_counts(opened, small):
    short = marked(opened(DATA[:700]), 5000)
    assert short.end == 700
    assert short.mark() == marked(opened(DATA), 700).mark()


def test_the_last_bytes_are_looked_at_again(opened, small):
    one = marked(opened(DATA), 5000)
    changed = bytearray(DATA)
    changed[4950] ^= 1
    assert one.is_at_end_of(opened(DATA))
    assert not one.is_at_end_of(opened(bytes(changed)))
    assert not one.is_at_end_of(opened(DATA[:4990]))


@pytest.mark.parametrize("has_pread", [True, False])
def test_reading_elsewhere_does_not_move_the_place(opened, monkeypatch, has_pread):
    if not has_pread:  # as on Windows
        monkeypatch.delattr(os, "pread", raising=False)
    descriptor = opened(DATA)
    os.lseek(descriptor, 33, os.SEEK_SET)
    assert read_at(descriptor, 1000, 50) == DATA[1000:1050]
    assert read_at(descriptor, len(DATA) - 5, 50) == DATA[-5:]
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 33
