"""A page's walk through the commands of all roles, read from its blocks and followed word for word."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from demo.consortium import HOST, MODULES, CommandFailed, Consortium, wait_for

FOLDER = "/srv/dprelease"
STORE = "~/.local/share/dprelease"
ADDRESSES = {"coordinator": "office.example.org:7441", "hub": "hub.example.org:7443", "public": "hub.example.org:7444"}
"""What the page calls a listener of the consortium."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^(\w+)\$ (.*)$")
_FILE = re.compile(r"^# (?:in )?([\w.]+)(?:,.*)?\n")
_TABLE = re.compile(r"^(?=\[)", re.MULTILINE)
_KEYS = "keys.json"
"""The file that the office hands to every hospital."""
_QUESTION = re.compile(r"review approve|trust add")
_PRINTED = {
    "coordinator invite": ("TOKEN", r"(\S+)\s*\Z"),
    "alignment-key new": ("KEY", r"\A(\S+)"),
    "party keys": ("DIGEST", r"digest (\S+)"),
    "align start": ("RUN", r"([0-9a-f]{64})"),
    "release create": ("RELEASE", r"([0-9a-f]{64})"),
}
"""Commands to the word by which the page calls something that they print, and where it stands there."""


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        where: role that the prompt names, or the file; empty for what is only shown.
        text: the command line, or what the file holds.
        printed: what the page says the command prints.
    """

    where: str
    text: str
    printed: str = ""


def steps(page: str, section: str) -> Iterator[Step]:
    """What a section says is to be done, in its order: blocks with prompts, and of TOML that name their file."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    for language, block in _BLOCK.findall(text):
        if language == "toml":
            yield Step(_FILE.findall(block)[0], block)
        elif language == "text":
            yield Step("", block)
        else:
            typed: list[tuple[str, str, list[str]]] = []
            for line in block.splitlines():
                if prompt := _PROMPT.match(line):
                    typed.append((prompt[1], prompt[2], []))
                else:
                    typed[-1][2].append(line)
            yield from (Step(where, command, "\n".join(printed)) for where, command, printed in typed)


def fits(shown: str, said: str, *, exact: bool) -> bool:
    """Whether a text is what the page shows of it, where a line of three dots stands for any lines."""
    pieces = re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    parts = [piece.strip("\n") if exact else shape(piece) for piece in pieces]
    whole = said.strip("\n") if exact else shape(said)
    return re.fullmatch(r".*?".join(rf"\s*{re.escape(part)}\s*" for part in parts), whole, re.DOTALL) is not None


def shape(text: str) -> str:
    """A text without lines of tables, and with 0 for numbers, times, digests and keys: what neither noise nor keys decide."""
    text = re.sub(r"[─-╿=-]{2,}|[│┃]", " ", text)
    text = re.sub(r"<?-?\b\d[\d,.:eTZ+-]*\b|\b[0-9a-f]{8,}\b|\b(?:[A-Z2-7]{4}-){4,}[A-Z2-7]{4}\b", "0", text)
    text = re.sub(r"(?<=\s)-(?=\s+0)", "0", text)  # a number that a fit leaves out
    return " ".join(text.split())


@dataclass
class Walk:
    """Whoever follows a page, with all roles on this machine.

    What a hospital's daemon sends is kept in a file beside its log, ``NAME.sent``.

    Args:
        consortium: whose office and hub run.
        names: of the hospitals; the page shows the first one's files and screen.

    Attributes:
        known: what the page has a word in capitals for, by this word and whose it is.
    """

    consortium: Consortium
    names: tuple[str, ...]
    known: dict[tuple[str, str], str] = field(default_factory=dict)

    def home(self, where: str) -> Path:
        """The folder in which somebody types."""
        homes = {"office": self.consortium.office, "learner": self.consortium.folder / "learner"}
        return homes.get(where) or self.consortium.hospital(where)

    def write(self, step: Step) -> None:
        """Write a file, or put tables in the place of those of the same name."""
        path = self.home("office" if step.where == "request.toml" else self.names[0]) / step.where
        text = step.text
        if text.startswith("# in "):
            new = {table.partition("]")[0]: table for table in _TABLE.split(text)[1:]}
            text = "".join(new.get(old.partition("]")[0], old) for old in _TABLE.split(path.read_text()))
        path.write_text(text.replace(FOLDER, str(path.parent)))

    def type(self, step: Step) -> None:
        """Type a command everywhere where the page says so; a list is asked for until it is what the page shows.

        Raises:
            AssertionError: a command prints something else.
        """
        for where in self.names if step.where == "hospital" else (step.where,):
            others = [name for name in self.names if name != where]
            for name in others if "NAME" in step.text else [where]:
                self._type(step, where, name)

    def _type(self, step: Step, where: str, name: str) -> None:
        command, *words = shlex.split(self._filled(step.text, name))
        if words == ["run"]:
            kept = str(self.consortium.folder / f"{where}.sent")
            launcher = ("-m", "tests.support.recorded", kept, "--")
            self.consortium.start(where, command, *words, home=self.home(where), launcher=launcher)
            return
        words += ["--yes"] if _QUESTION.search(step.text) else []
        if where != "office" and _KEYS in words:
            shutil.copy(self.home("office") / _KEYS, self.home(where))
        said = ""

        def as_shown() -> bool:
            nonlocal said
            said = self.run(command, words, self.home(where))
            return self.matches(step, where, said, name)

        try:
            wait_for(as_shown, 60 if "list" in words else 0, "what the page shows")
        except CommandFailed:
            raise AssertionError(f"{where}$ {step.text}\n{said}\nthe page shows:\n{step.printed}") from None
        for line, (word, place) in _PRINTED.items():
            if line in step.text and (found := re.search(place, said)):
                self.known[word, name] = self.known[word, ""] = found[1]

    def _filled(self, text: str, name: str) -> str:
        """A command line with what its words in capitals stand for."""
        text = text.replace("NAME", name)
        for role, address in ADDRESSES.items():
            text = text.replace(address, f"{HOST}:{self.consortium.ports[role]}")
        for word in ("TOKEN", "KEY", "DIGEST", "RUN", "RELEASE"):
            if re.search(rf"\b{word}\b", text):
                text = re.sub(rf"\b{word}\b", self.known.get((word, name), self.known[word, ""]), text)
        return text

    def run(self, command: str, words: list[str], home: Path) -> str:
        """What a command shows on a terminal, with addresses and folders as on the page."""
        home.mkdir(exist_ok=True)
        store = str(self.consortium.folder / "store")
        environment = {**os.environ, "COLUMNS": "116", "LEARNER_HOME": store}
        with TemporaryFile() as shown:
            self.consortium.launch(["-m", MODULES[command], *words], home, environment, shown, shown).wait()
            shown.seek(0)
            said = shown.read().decode().replace(str(home), FOLDER).replace(store, STORE)
        for role, address in ADDRESSES.items():
            said = said.replace(f"{HOST}:{self.consortium.ports[role]}", address)
        return "\n".join(line.rstrip() for line in said.splitlines())

    def matches(self, step: Step, where: str, said: str, name: str) -> bool:
        """Whether a command printed what the page shows, which is the first hospital's screen."""
        if where in self.names[1:] and step.where == "hospital" and " list" not in step.text:
            return "error: " not in said and "PROBLEM" not in said
        shown = step.printed.replace("NAME", name)
        return fits(shown, said, exact=re.search("declare|--source", step.text) is not None)
