"""Durable files: whole or absent, synced in the right order, readable by whom they should be."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dprelease import durable
from dprelease.durable import TEMPORARY, make_folder, rename_durably, write_durably


def test_a_file_is_written_whole_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_durably(path, b"first")
    write_durably(path, b"second, and longer")
    assert path.read_bytes() == b"second, and longer"
    assert [found.name for found in path.parent.iterdir()] == ["file"]


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
