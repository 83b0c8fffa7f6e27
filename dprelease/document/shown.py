"""Results in an interpreter and in a notebook: whatever has a document is printed as text and displayed as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from dprelease.document.document import Document, json_text
from dprelease.document.text import text
from dprelease.files.durable import write_file
from dprelease.files.extras import installed


class Shown(ABC):
    """A result with a document, which `print` gives as text and a notebook as HTML."""

    @abstractmethod
    def document(self) -> Document:
        """All that it has to tell."""

    def summary(self, *, explain: bool = False) -> str:
        """The result as text.

        Args:
            explain: with all notes and details, and the whole guarantee.
        """
        return text(self.document(), explain=explain)

    def save(self, path: Path | str) -> None:
        """Write the result as JSON; a report takes such a file of an analysis (``learner report --analysis``).

        Raises:
            InvalidInput: the file cannot be written.
        """
        write_file(Path(path), f"{json_text(self.document().to_json())}\n")

    def __str__(self) -> str:
        """The result as text, without details."""
        return self.summary()

    def __repr__(self) -> str:
        """Class and title, in one line."""
        return f"{type(self).__name__}({self.document().title})"

    def _repr_html_(self) -> str | None:
        """The result as a notebook displays it; None without jinja2, and then the notebook takes `repr`."""
        if not installed("jinja2"):
            return None
        from dprelease.document.html import fragment  # it loads jinja2, which only pages and notebooks need

        return fragment(self.document())
