"""Settings files: strict keys, paths beside the file, and errors that name what to mend."""

from pathlib import Path

import pytest

from dprelease.errors import InvalidInput
from dprelease.files.settings import LocalPath, Settings, read_settings


class Server(Settings):
    port: int
    keys: LocalPath


class Example(Settings):
    server: Server
    timeout_seconds: float = 30.0


def written(folder: Path, text: str) -> Path:
    path = folder / "example.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for text, expected in (
        ("keys", tmp_path / "keys"),
        ("../keys", tmp_path / "../keys"),
        ("/etc/keys", Path("/etc/keys")),
        ("~/keys", Path("/home/somebody/keys")),
    ):
        path = written(tmp_path, f'[server]\nport = 1\nkeys = "{text}"\n')
        assert read_settings(path, Example).server.keys == expected
    monkeypatch.chdir(tmp_path)
    assert read_settings(Path("example.toml"), Example).server.keys.is_absolute()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[server]\nport = 1\nkeys = "k"\nprot = 2\n', r"server\.prot"),
        ('timeout = 3\n[server]\nport = 1\nkeys = "k"\n', "timeout"),
        ('[server]\nkeys = "k"\n', r"server\.port: is missing"),
        ('[server]\nport = "one"\nkeys = "k"\n', r"server\.port"),
        ('timeout_seconds = nan\n[server]\nport = 1\nkeys = "k"\n', "timeout_seconds"),
        ("server = [", "not valid TOML"),
        ("a = '\udcff'", "not valid TOML"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"example\.toml.*{named}"):
        read_settings(written(tmp_path, text), Example)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read .*absent\.toml: No such file"):
        read_settings(tmp_path / "absent.toml", Example)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_settings(tmp_path, Example)
