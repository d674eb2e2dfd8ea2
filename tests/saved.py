"""What is saved, read as the program reads it, and valid pieces of it for tests that begin with some."""

from __future__ import annotations

from pathlib import Path

from ask.history.entries import Conversation, Run, read_runs
from ask.history.recorder import Recorder, RunMetadata
from ask.history.store import Store
from ask.messages import Message
from tests.program import Home


def history(home: Home) -> Path:
    """The file."""
    return home.data / "history.db"


def conversations(path: Path) -> list[Conversation]:
    """All conversations in a file, the oldest first."""
    with Store(path, create=False) as store:
        return [Conversation(*row) for row in store.fetch_rows("SELECT * FROM conversations ORDER BY number")]


def runs_in(path: Path) -> list[Run]:
    """All runs in a file, conversation by conversation."""
    with Store(path, create=False) as store:
        return [run for conversation in conversations(path) for run in read_runs(store, conversation)]


def saved(home: Home) -> list[Run]:
    """All runs that a user has saved, conversation by conversation."""
    return runs_in(history(home))


def said(run: Run) -> list[tuple[str, str, bool]]:
    """Role and text of each message of a run, and whether it is whole."""
    return [(entry.message.role, entry.message.content, entry.complete) for entry in run.entries]


def recorder(path: Path, conversation: str = "abc", *, notices: list[str] | None = None, **about: str) -> Recorder:
    """A recorder of a run of that conversation."""
    filled = RunMetadata(**{"conversation": conversation, "provider": "openrouter", "model": "m"} | about)  # type: ignore[arg-type]
    return Recorder(path, filled, ([] if notices is None else notices).append)


def save_run(path: Path, conversation: str = "abc", asked: str = "hi", **about: str) -> None:
    """Save a run in which nothing was answered."""
    run = recorder(path, conversation, notices=None, **about)
    run.begin(Message("user", asked))
    run.end(0)
