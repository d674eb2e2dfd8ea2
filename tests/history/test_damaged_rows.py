"""Whatever bytes of the file are overwritten, a run goes on and says one line at most; reading is an error at worst."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from ask.errors import AskError
from ask.history.conversation_lookup import find_conversation
from ask.history.saved_messages import load_conversation
from ask.history.search import search_conversations
from ask.history.store import Store
from ask.messages import Message
from tests.history.test_recorder import EVENTS, play
from tests.saved_history import create_recorder

SAVED = 8


@cache
def whole() -> bytes:
    """A history of some conversations."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "history.db")
        for number in range(SAVED):
            save_one(path, f"a{number}", [])
        return path.read_bytes()


def save_one(path: Path, name: str, notices: list[str]) -> bool:
    run = create_recorder(path, name, notices=notices)
    run.begin(Message("user", "question " * 100))
    play(run, EVENTS)
    run.end(0)
    return run.is_saving


DAMAGE = st.lists(
    st.tuples(st.floats(0, 1) | st.floats(0, 0.1), st.binary(min_size=1, max_size=16)), min_size=1, max_size=8
)


@given(damage=DAMAGE)
def test_damage_is_an_error_and_no_crash(damage: list[tuple[float, bytes]]) -> None:
    data = bytearray(whole())
    for part, overwritten in damage:
        place = int(part * len(data))
        data[place : place + len(overwritten)] = overwritten
    with TemporaryDirectory() as folder:
        path = Path(folder, "history.db")
        path.write_bytes(data[: len(whole())])
        with suppress(AskError), Store(path) as store:
            for number in range(SAVED):
                with suppress(AskError):
                    load_conversation(store, find_conversation(store, f"a{number}"))
            with suppress(AskError):
                search_conversations(store, ["question"])
        notices: list[str] = []
        saved = save_one(path, "new", notices)
        assert len(notices) == (0 if saved else 1)
        assert all("cannot save " in notice for notice in notices)
