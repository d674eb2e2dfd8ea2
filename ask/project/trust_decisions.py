"""The user's decisions on which projects' instructions are sent, in a private file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from ask.atomic_files import lock_file, read_decisions, write_decisions
from ask.config.type_checks import WrongTypeError, parse_value
from ask.records import NamedTuple


class TrustDecision(NamedTuple):
    """The user's decision about a project, and when it was made, in seconds since the epoch."""

    is_trusted: bool
    time: float


class _StoredDecision(TypedDict):
    trusted: bool
    time: float


class TrustStore:
    """The user's decisions by the real path of the project's root.

    Its methods raise `FileError` if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[Path, TrustDecision]:
        """Return all decisions, sorted by path."""
        return read_decisions(self._path, _parse_decisions) or {}

    def remember(self, root: Path, *, trusted: bool) -> None:
        """Record the decision about a project."""
        with lock_file(self._path):
            self._write({**self.read(), root: TrustDecision(trusted, time.time())})

    def forget(self, root: Path) -> bool:
        """Delete the decision about a project; return whether there was one."""
        with lock_file(self._path):
            decisions = self.read()
            if decisions.pop(root, None) is None:
                return False
            self._write(decisions)
            return True

    def _write(self, decisions: Mapping[Path, TrustDecision]) -> None:
        content = {
            str(root): {"trusted": decision.is_trusted, "time": decision.time} for root, decision in decisions.items()
        }
        write_decisions(self._path, content)


def _parse_decisions(content: Any) -> dict[Path, TrustDecision]:
    decisions = {}
    for root, value in sorted(parse_value(content, dict[str, Any]).items()):
        with suppress(WrongTypeError):  # the user is asked again
            stored = parse_value(value, _StoredDecision)
            decisions[Path(root)] = TrustDecision(stored["trusted"], stored["time"])
    return decisions
