"""The user's decisions on which projects' instructions are sent, in a private file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import lock_file, read_decisions, write_decisions
from ask.config.type_checks import WrongTypeError, parse_value
from ask.records import NamedTuple


class TrustDecision(NamedTuple):
    """The user's decision about a project, and when it was made, in seconds since the epoch."""

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
        write_decisions(self._path, {str(root): decision._asdict() for root, decision in decisions.items()})


def _parse_decisions(content: Any) -> dict[Path, TrustDecision]:
    decisions = {}
    for root, value in sorted(parse_value(content, dict[str, Any]).items()):
        with suppress(WrongTypeError):  # the user is asked again
            decisions[Path(root)] = parse_value(value, TrustDecision)
    return decisions
