"""What another program has saved, in a form that ask can add to its own data."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ask.app import AppContext
from ask.history.importer import SourceConversation
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.render.amounts import format_count

SCALAR_PATTERNS = {
    "null": (r"(?:null|~|)\Z", ["", "n", "~"]),
    "bool": (r"(?:true|false)\Z", [*"tf"]),
    "int": (r"(?:0|-?[1-9][0-9]*)\Z", [*"-0123456789"]),
    "float": (r"-?[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?\Z", [*"-0123456789"]),
}
"""The scalars of YAML 1.2 that are not text, with the characters with which they can begin."""


class SourceTemplate(NamedTuple):
    """A template or role of another program; the texts already have ask's placeholders."""

    name: str
    prompt: str = ""
    system: str = ""
    model: str = ""
    options: Mapping[str, Any] = EMPTY_MAPPING


class ImportNotes:
    """Collects what cannot be imported."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []
        """What is damaged or cannot be read."""

    def add(self, line: str) -> None:
        """Add something that has no equivalent, once."""
        self._lines[line] = None

    def count(self, noun: str, rest: str) -> None:
        """Count one of several, such as ("attachment", "of which only the URL is saved")."""
        self._counts[noun, rest] += 1

    @property
    def lines(self) -> list[str]:
        """The notes, one for each line of the summary."""
        return [*self._lines, *(f"{format_count(count, noun)} {rest}" for (noun, rest), count in self._counts.items())]


class SourceData(NamedTuple):
    """The data of a program. Models are in the format of `-m`, with their providers."""

    conversations: Generator[SourceConversation, None, None]
    templates: Sequence[SourceTemplate]
    aliases: Mapping[str, str]
    default_model: str
    keys: Mapping[str, str]
    """Keys by ask's names of the providers."""


class SourceFolder(NamedTuple):
    """The folder of a program, and what its readers share."""

    path: Path
    app: AppContext
    notes: ImportNotes
    is_foreign: bool = False
    """Not the user's usual folder: its symbolic links may lead to private files."""

    def read_text(self, path: Path) -> str | None:
        """Read a text file; None if it does not exist or cannot be read, which is noted."""
        try:
            if not path.is_file():
                return None
            is_inside = path.resolve().is_relative_to(self.path.resolve())
            if self.is_foreign and path.is_relative_to(self.path) and not is_inside:
                self.notes.problems.append(f"cannot read {path} (a symbolic link to a file outside of the folder)")
                return None
            return path.read_bytes().decode("utf-8-sig", errors="replace")
        except OSError as error:
            self.notes.problems.append(f"cannot read {path} ({error.strerror})")
            return None

    def read_yaml(self, path: Path) -> Any:
        """Read a YAML file; None if it does not exist or is invalid, which is noted."""
        text = self.read_text(path)
        if text is None:
            return None
        try:
            return parse_yaml(text)
        except ValueError as error:
            self.notes.problems.append(f"cannot read {path} ({error})")
            return None


def parse_yaml(text: str) -> Any:
    """Parse YAML 1.2, in which `no`, `12:30` and `2026-11-27` are text.

    Raises:
        ValueError: it is invalid, or has aliases, which can stand for billions of values. The message contains no text
            of the file, which may be a key.
    """
    import yaml

    try:
        events = yaml.parse(text, Loader=_get_loader()) if "*" in text else ()
        has_aliases = any(isinstance(event, yaml.AliasEvent) for event in events)
        value = None if has_aliases else yaml.load(text, Loader=_get_loader())  # noqa: S506 - derived from a safe one
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"invalid YAML{f' at line {mark.line + 1}' if mark else ''}") from error
    if has_aliases:
        raise ValueError("YAML aliases are not supported")
    return value


@cache
def _get_loader() -> Any:
    """Return the loader in C, if it is available: a session may contain images of many megabytes."""
    import yaml

    loader: Any = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": {}})
    for name, (pattern, first_characters) in SCALAR_PATTERNS.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(pattern), first_characters)
    return loader


def to_text(value: Any) -> str:
    """Convert a scalar to text; "" for anything else, whose text may be endless because of YAML's aliases."""
    return str(value) if isinstance(value, str | int | float) and value else ""


def make_conversation_id(*parts: str) -> str:
    """Make the id of an imported conversation, which is the same each time it is imported."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()
    return "abcdef"[digest[0] % 6] + digest[1:7].hex()[1:]
