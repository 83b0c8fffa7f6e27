"""Durable files: whole or absent, synced in the right order, readable by whom they should be."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from dprelease.errors import InvalidInput
from dprelease.files import durable
from dprelease.files.durable import TEMPORARY, keep_private, make_folder, rename_durably, write_durably


def test_a_file_is_written_whole_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_durably(path, b"first")
    write_durably(path, b"second, and longer")
    assert path.read_bytes() == b"second, and longer"
    assert [found.name for found in path.parent.iterdir()] == ["file"]


def test_two_threads_that_write_one_file_at_once_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, original = tmp_path / "file", os.fsync
    other = threading.Thread(target=write_durably, args=(path, b"of the other, and longer"))

    def overtaken(handle: int) -> None:
        if other.ident is None:
            other.start()
            other.join()
        original(handle)

    monkeypatch.setattr(durable.os, "fsync", overtaken)
    write_durably(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_permissions_are_as_asked_for(tmp_path: Path) -> None:
    write_durably(tmp_path / "secret", b"", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_the_bytes_are_synced_before_the_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen, original = tmp_path / "file", [], os.fsync

    def recording(handle: int) -> None:
        seen.append((os.path.realpath(f"/proc/self/fd/{handle}"), path.exists()))
        original(handle)

    monkeypatch.setattr(durable.os, "fsync", recording)
    write_durably(path, b"data")
    (file, named), (folder, named_then) = seen
    assert file.endswith(TEMPORARY)
    assert not named
    assert folder == str(tmp_path)
    assert named_then


def test_folders_and_renames(tmp_path: Path) -> None:
    make_folder(tmp_path / "one" / "two")
    make_folder(tmp_path / "one" / "two")
    source = tmp_path / "one" / "two" / "file"
    source.write_bytes(b"data")
    rename_durably(source, tmp_path / "three" / "file")
    assert (tmp_path / "three" / "file").read_bytes() == b"data"
    rename_durably(tmp_path / "one", tmp_path / "three" / "folder")
    assert (tmp_path / "three" / "folder" / "two").is_dir()


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.usefixtures("loose_umask")
@pytest.mark.parametrize("journal", ["WAL", "PERSIST"])
def test_a_database_and_the_files_beside_it_are_never_anybody_elses(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "x.sqlite"
    keep_private(path)
    assert modes(tmp_path) == {"x.sqlite": 0o600}
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode={journal}")
        db.execute("CREATE TABLE t (a)")
        found = modes(tmp_path)
        assert len(found) > 1
        assert set(found.values()) == {0o600}
        for name in found:
            (tmp_path / name).chmod(0o644)
        keep_private(path)
        assert modes(tmp_path) == found
        db.execute("INSERT INTO t VALUES (1)")
        assert db.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_looking_after_a_database_loses_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    keep_private(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (a)")
        db.execute("BEGIN IMMEDIATE")
        keep_private(path)
        attempt = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        other = subprocess.run([sys.executable, "-c", attempt, path], capture_output=True, text=True, check=False)
        assert "database is locked" in other.stderr


def test_a_file_that_another_user_must_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.sqlite"
    path.touch(0o644)

    def refuses(path: Path, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "chmod", refuses)  # root, as whom tests may run, is never refused
    with pytest.raises(InvalidInput, match=r"x\.sqlite can be read by others; its owner must run: chmod 600"):
        keep_private(path)


def test_two_may_remove_what_is_no_longer_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write_durably(tmp_path / "folder" / f".{name}{TEMPORARY}", b"half")
    unlink, rmtree = Path.unlink, shutil.rmtree

    def both(remove: Callable[[Path], None], path: Path) -> None:
        remove(path)
        remove(path)

    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: both(partial(unlink, missing_ok=missing_ok), path))
    durable.remove_leftovers(tmp_path)
    assert not list((tmp_path / "folder").iterdir())
    monkeypatch.setattr(durable.shutil, "rmtree", partial(both, rmtree))
    durable.remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
