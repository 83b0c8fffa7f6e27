"""Settings files: strict keys, named mistakes, paths that start where the file stands."""

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from dprelease.errors import InvalidInput
from dprelease.files.settings import LocalPath, Settings, read_settings


class Inner(Settings):
    seconds: Annotated[float, Field(gt=0)] = 5.0
    names: tuple[str, ...] = ()


class Outer(Settings):
    name: str
    folder: LocalPath = Field(default=Path("state"), validate_default=True)
    inner: Inner = Inner()


def read(folder: Path, text: str | bytes) -> Outer:
    path = folder / "role.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_settings(path, Outer)


def test_a_whole_file(tmp_path: Path) -> None:
    text = 'name = "north"\nfolder = "/var/lib/x"\n[inner]\nseconds = 2\nnames = ["a", "b"]\n'
    expected = Outer(name="north", folder=Path("/var/lib/x"), inner=Inner(seconds=2.0, names=("a", "b")))
    assert read(tmp_path, text) == expected


def test_defaults_and_relative_paths_start_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert read(tmp_path, 'name = "north"').folder == tmp_path.resolve() / "state"
    assert read(tmp_path, 'name = "n"\nfolder = "a/b"').folder == tmp_path.resolve() / "a" / "b"


def test_a_relative_file_gives_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "role.toml").write_text('name = "north"')
    monkeypatch.chdir(tmp_path)
    assert read_settings(Path("role.toml"), Outer).folder == tmp_path.resolve() / "state"


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of-it")
    assert read(tmp_path, 'name = "n"\nfolder = "~/x"').folder == Path("/home/of-it/x")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('name = "n"\nnmae = "x"', "nmae"),
        ('name = "n"\n[inner]\nsecond = 3', r"inner\.second"),
        ('name = "n"\n[inner]\nseconds = 0', r"inner\.seconds"),
        ('name = "n"\n[inner]\nseconds = inf', r"inner\.seconds"),
        ('name = "n"\n[inner]\nseconds = nan', r"inner\.seconds"),
        ('name = "n"\n[inner]\nnames = "a"', r"inner\.names"),
        ("name = 5", "name"),
        ("", "name"),
        ('name = "n"\nfolder = 5', "folder"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"role\.toml: .*{named}"):
        read(tmp_path, text)


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"(?=.*nmae)(?=.*inner\.second)(?=.*name: is missing)"):
        read(tmp_path, 'nmae = "x"\n[inner]\nsecond = 3')


@pytest.mark.parametrize("text", ["name = ", 'name = "a"\nname = "b"', b'name = "caf\xe9"', "[inner"])
def test_what_is_not_toml_is_refused(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="is not valid TOML"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        read_settings(tmp_path / "absent.toml", Outer)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_settings(tmp_path, Outer)


def test_settings_do_not_change(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(tmp_path, 'name = "n"').name = "m"
