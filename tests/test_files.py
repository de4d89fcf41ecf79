import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from ldmaps.files import written_whole


class InterruptedWriteError(Exception):
    pass


def test_new_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "map.ldm"
    with written_whole(path) as stream:
        stream.write(b"first ")
        assert not path.exists()
        stream.write(b"second")
    assert path.read_bytes() == b"first second"
    assert os.listdir(tmp_path) == ["map.ldm"]


def test_old_file_stands_until_the_block_ends(tmp_path):
    path = tmp_path / "map.ldm"
    path.write_bytes(b"old")
    with written_whole(path) as stream:
        stream.write(b"new and longer")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new and longer"
    assert os.listdir(tmp_path) == ["map.ldm"]


@pytest.mark.parametrize("error", [InterruptedWriteError, KeyboardInterrupt])
@pytest.mark.parametrize("before", [b"old", None])
def test_error_leaves_everything_as_it_was(tmp_path, error, before):
    path = tmp_path / "map.ldm"
    if before is not None:
        path.write_bytes(before)

    def write():
        with written_whole(path) as stream:
            stream.write(b"half of the n")
            raise error

    with pytest.raises(error):
        write()
    if before is None:
        assert os.listdir(tmp_path) == []
    else:
        assert os.listdir(tmp_path) == ["map.ldm"]
        assert path.read_bytes() == before


def test_failing_to_replace_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a directory"
    path.mkdir()
    (path / "inside").write_bytes(b"kept")

    def write():
        with written_whole(path) as stream:
            stream.write(b"x")

    with pytest.raises(OSError, match="directory"):
        write()
    assert os.listdir(tmp_path) == ["a directory"]
    assert (path / "inside").read_bytes() == b"kept"


def test_missing_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "nowhere" / "map.ldm"):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with written_whole(tmp_path / "ours") as stream:
            stream.write(b"x")
        (tmp_path / "plain").write_bytes(b"x")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    ours, plain = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain"))
    assert ours == plain == 0o666 & ~umask


def test_paths_of_any_kind_and_relative_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("plain.ldm", tmp_path / "path.ldm", "./dotted.ldm"):
        with written_whole(path) as stream:
            stream.write(b"x")
    assert sorted(os.listdir(tmp_path)) == ["dotted.ldm", "path.ldm", "plain.ldm"]


@pytest.mark.skipif(os.name != "posix", reason="flock tells who is alive")
def test_what_a_killed_process_left_behind_is_removed_by_the_next(tmp_path):
    path = tmp_path / "map.ldm"
    script = (
        "import os, sys; from ldmaps.files import written_whole\n"
        "with written_whole(sys.argv[1]): os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    others = [tmp_path / name for name in (".map.ldm.mine.part", ".other.ldm.abcdefgh.part", "map.ldm.part")]
    for other in others:
        other.write_bytes(b"not ours")
    for young in (True, False):
        for one in (left, *others):
            os.utime(one, (time.time() - (0 if young else 3600),) * 2)
        with written_whole(path) as stream:
            stream.write(b"whole")
        assert left.exists() == young
    assert path.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_what_another_process_is_still_writing_stays(tmp_path):
    path = tmp_path / "map.ldm"
    with written_whole(path) as slow:
        slow.write(b"slow")
        slow.flush()
        (part,) = tmp_path.iterdir()
        os.utime(part, (time.time() - 3600,) * 2)
        with written_whole(path) as quick:
            quick.write(b"quick")
        assert path.read_bytes() == b"quick"
        assert part.exists()
    assert path.read_bytes() == b"slow"
    assert os.listdir(tmp_path) == ["map.ldm"]
