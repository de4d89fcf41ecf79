"""The container of model files: what is written comes back, and nothing else is read."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from ldmaps.archive import ArchiveError, read_archive, read_archive_header, write_archive

ARRAYS = {
    "single": np.arange(6, dtype=np.float32).reshape(2, 3),
    "folder/double": np.linspace(0, 1, 5),
    "whole": np.arange(4, dtype=np.int64),
    "short": np.arange(4, dtype=np.int32),
    "yes": np.array([True, False]),
    "none": np.empty((0, 3)),
    "one": np.array(3.5),
}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "some.archive"
    write_archive(path, {"kind": "test", "text": "λ"}, ARRAYS)
    return path


def rewrite(path, change=lambda name, content: content, extra=(), compression=zipfile.ZIP_STORED):
    """Copy a file with ``change(name, content) -> content or None`` applied to each member."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in [*members, *extra]:
            changed = change(name, content)
            if changed is not None:
                archive.writestr(name, changed)


def with_header(change):
    def changed(name, content):
        if name != "header.json":
            return content
        header = json.loads(content)
        change(header)
        return json.dumps(header)

    return changed


def test_equal_contents_make_equal_files(tmp_path, monkeypatch):
    for day, name in enumerate(("one.ldm", "two.ldm"), 1):
        monkeypatch.setattr(
            time, "localtime", lambda *_, day=day: time.struct_time((2026, 1, day, 0, 0, 0, 0, 1, 0))
        )
        write_archive(tmp_path / name, {"a": 1}, {"x": np.arange(3.0)})
    assert (tmp_path / "one.ldm").read_bytes() == (tmp_path / "two.ldm").read_bytes()


def test_comes_back_as_it_was(archive):
    header, arrays = read_archive(archive)
    assert header == {"kind": "test", "text": "λ"} == read_archive_header(archive)
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].flags.writeable


def test_numpy_reads_its_members(archive):
    with zipfile.ZipFile(archive) as members:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(np.load(io.BytesIO(members.read(f"{name}.npy"))), array)


def test_fortran_order_and_foreign_byte_order_are_put_right(tmp_path):
    path = tmp_path / "some.archive"
    square = np.arange(12.0).reshape(3, 4)
    write_archive(path, {}, {"fortran": np.asfortranarray(square), "big": square.astype(">f8")})
    for array in read_archive(path)[1].values():
        np.testing.assert_array_equal(array, square)
        assert array.flags.c_contiguous
        assert array.dtype == np.float64


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([1j]), np.array([object()])])
def test_only_numbers_are_written(tmp_path, array):
    with pytest.raises(TypeError, match="an archive holds"):
        write_archive(tmp_path / "some.archive", {}, {"odd": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, content: None if name == "header.json" else content, "no header.json"),
        (lambda name, content: None if name == "whole.npy" else content, "missing or does not belong"),
        (lambda name, content: b"[]" if name == "header.json" else content, "its header is list"),
        (lambda name, content: b"{" if name == "header.json" else content, "damaged"),
        (lambda name, content: b'{"x": NaN}' if name == "header.json" else content, "no JSON number"),
        (lambda name, content: b"[" * 100_000 if name == "header.json" else content, "damaged"),
        (lambda name, content: b"\xff\xfe" if name == "header.json" else content, "damaged"),
        (lambda name, content: content[:-1] if name == "whole.npy" else content, "not as long"),
        (lambda name, content: content[:-1] + b"x" if name == "whole.npy" else content, "was changed"),
        (with_header(lambda header: header.pop("members")), "lists no members"),
        (with_header(lambda header: header["members"].pop("whole")), "missing or does not belong"),
        (with_header(lambda header: header["members"].update(whole=None)), "is described as"),
        (with_header(lambda header: header["members"]["whole"].update(dtype="|O")), "is described as"),
        (
            with_header(lambda header: header["members"]["whole"].update(dtype=[["a", "<f8"]])),
            "is described as",
        ),
        (with_header(lambda header: header["members"]["whole"].update(shape=[-4])), "is described as"),
        (with_header(lambda header: header["members"]["whole"].update(shape=[True])), "is described as"),
        (with_header(lambda header: header["members"]["whole"].update(shape=[1] * 9)), "is described as"),
        (with_header(lambda header: header["members"]["whole"].update(shape=[10**30])), "not as long"),
        (with_header(lambda header: header["members"]["whole"].update(sha256="0")), "was changed"),
        (with_header(lambda header: header["members"]["whole"].update(dtype="<f8")), "was changed"),
    ],
)
def test_whatever_is_wrong_has_one_error(archive, change, words):
    rewrite(archive, change)
    with pytest.raises(ArchiveError, match=words):
        read_archive(archive)


@pytest.mark.parametrize("entry", [b"[],", b"{},", b"0,"])
def test_a_header_that_would_fill_the_memory_is_not_parsed(archive, entry):
    text = b'{"x": [' + (1 << 20) * entry + b"0]}"
    rewrite(archive, lambda name, content: text if name == "header.json" else content)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match="more than any that ldmaps writes"):
            read_archive_header(archive)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


def test_headers_as_long_as_they_get_are_read(tmp_path):
    """Bonds and elements are the densest there is: lists of two, and letters."""
    count = 100_000
    header = {
        "source": {"bonds": [[i, i + 1] for i in range(count)], "elements": ["C"] * count},
        "counts": [0] * count,
    }
    write_archive(tmp_path / "long.archive", header, {})
    assert read_archive_header(tmp_path / "long.archive") == header


def test_a_member_of_another_shape_is_noticed_though_signed(archive):
    """The manifest and NumPy's own header must tell the same."""

    def change(name, content):
        if name == "header.json":
            header = json.loads(content)
            entry = header["members"]["single"]
            entry["sha256"] = hashlib.sha256(forged).hexdigest()
            return json.dumps(header)
        return forged if name == "single.npy" else content

    with zipfile.ZipFile(archive) as members:
        forged = members.read("single.npy").replace(b"(2, 3)", b"(3, 2)")
    rewrite(archive, change)
    with pytest.raises(ArchiveError, match="was changed"):
        read_archive(archive)


def test_strangers_and_twins_are_refused(archive):
    rewrite(archive, extra=[("stranger.npy", b"x")])
    with pytest.raises(ArchiveError, match="stranger.npy"):
        read_archive(archive)
    with pytest.warns(UserWarning, match="Duplicate"):
        rewrite(
            archive, lambda name, content: None if name == "stranger.npy" else content, [("whole.npy", b"x")]
        )
    with pytest.raises(ArchiveError, match="twice"):
        read_archive(archive)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_never_inflated(archive, compression, monkeypatch):
    rewrite(archive, compression=compression)
    monkeypatch.setattr("zipfile.ZipFile.read", lambda *args: pytest.fail("a member was read"))
    with pytest.raises(ArchiveError, match="compressed"):
        read_archive(archive)


def test_a_bomb_takes_no_memory(tmp_path):
    """300 kB that would inflate to 300 MB are refused within the memory of the interpreter."""
    path = tmp_path / "bomb.archive"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("header.json", "w", force_zip64=True) as stream,
    ):
        for _ in range(300):
            stream.write(bytes(1 << 20))
    code = (
        "import sys, resource\n"
        "from ldmaps.archive import ArchiveError, read_archive\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    read_archive(sys.argv[1])\n"
        "except ArchiveError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000 * (1 if sys.platform != "darwin" else 1024)


def test_a_million_members_are_not_listed(tmp_path, monkeypatch):
    # Each takes 46 bytes and its name; the list alone takes a minute to read.
    path = tmp_path / "many.archive"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(3000):
            archive.writestr(str(number), b"")
    monkeypatch.setattr("zipfile.ZipFile.infolist", lambda *_: pytest.fail("the members were listed"))
    with pytest.raises(ArchiveError, match="its list of members has 1[0-9]{5} bytes"):
        read_archive(path)


def test_members_may_not_share_their_bytes(archive):
    """Entries of the directory that all point to one long member would be longer than the file together."""
    with zipfile.ZipFile(archive) as members:
        infos = members.infolist()
    longest = max(infos, key=lambda info: info.file_size)
    whole = bytearray(archive.read_bytes())
    # Every directory entry claims a length of its own; raise one beyond the file.
    name = longest.filename.encode()
    place = whole.rindex(name) - 46
    for offset in (20, 24):
        whole[place + offset : place + offset + 4] = (len(whole) + 1).to_bytes(4, "little")
    archive.write_bytes(bytes(whole))
    with pytest.raises(ArchiveError, match="longer than the file"):
        read_archive(archive)


def test_every_truncation_and_flipped_byte_is_noticed_or_harmless(archive):
    whole = archive.read_bytes()
    for length in range(0, len(whole), 37):
        archive.write_bytes(whole[:length])
        with pytest.raises(ArchiveError):
            read_archive(archive)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 400):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        archive.write_bytes(bytes(changed))
        try:
            arrays = read_archive(archive)[1]
        except ArchiveError:
            continue
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], array)


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_archive(tmp_path / "nowhere")
