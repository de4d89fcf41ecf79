import errno
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from ldmaps import door
from ldmaps.errors import LdmapsWarning
from ldmaps.files import lock, sync_folder, temporary_beside, written_whole


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


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, written_whole(tmp_path / "map.ldm"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "map.ldm")
    assert list(tmp_path.iterdir()) == []


# -- what file systems answer --------------------------------------------------------------


def answers(monkeypatch, call, number):
    """Let a call of the door fail."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(door, call, fail)


def test_a_folder_whose_fsync_fails_is_an_error(tmp_path, monkeypatch):
    """The new name may be gone after a power failure, and whoever wrote the file must hear of it."""
    path = tmp_path / "c"
    path.write_bytes(b"old")
    real = door.fsync

    def fail_for_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(door, "fsync", fail_for_folders)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), written_whole(path) as stream:
        stream.write(b"new")
    assert os.listdir(tmp_path) == ["c"]
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EBADF])
def test_file_systems_that_cannot_sync_folders_are_used(tmp_path, monkeypatch, number):
    answers(monkeypatch, "fsync", number)
    sync_folder(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, number):
    answers(monkeypatch, "flock", number)
    with (
        (tmp_path / "psi.csv").open("wb") as stream,
        pytest.warns(LdmapsWarning, match="psi.csv.* has no locks"),
    ):
        assert lock(stream.fileno(), "psi.csv")
    with written_whole(tmp_path / "c") as stream:  # which needs none
        stream.write(b"new")


def test_a_lock_that_fails_is_an_error(tmp_path, monkeypatch):
    answers(monkeypatch, "flock", errno.EIO)
    with (tmp_path / "psi.csv").open("wb") as stream, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        lock(stream.fileno(), "psi.csv")


def test_writing_changes_nothing_that_other_threads_see(tmp_path, monkeypatch):
    """A umask is the process's own: setting it to look at it would show in files of other threads."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))
    with written_whole(tmp_path / "c") as stream:
        stream.write(b"new")


@pytest.mark.parametrize("opened", [written_whole, temporary_beside])
def test_a_signal_right_after_a_file_was_created_leaves_nothing_behind(tmp_path, monkeypatch, opened):
    open_file = door.open

    def open_and_be_interrupted(*arguments):
        os.close(open_file(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "open", open_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt), opened(tmp_path / "map.ldm"):
        pass
    assert list(tmp_path.iterdir()) == []
