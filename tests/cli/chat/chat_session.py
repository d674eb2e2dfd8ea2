"""A user who chats: types on the terminal, and reads what comes until the next prompt."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import wire
from tests.model_server import ModelServer, Request
from tests.program import Ask, Result, Running
from tests.screen import lines_shown

PROMPT = "\x1b[J\x1b[0;1m>"
"""How a prompt begins: below it the screen is cleared."""
ENTER, CTRL_D, TAB, UP, ALT_ENTER, CTRL_J = "\r", "\x04", "\t", "\x1b[A", "\x1b\r", "\n"


class Chat:
    """`ask chat` on a terminal; a context that ends it."""

    def __init__(self, ask: Ask, *options: str, env: dict[str, str] | None = None) -> None:
        self.running: Running = ask.start_on_terminal("chat", *options, env=env)
        self._place = 0
        self._seen = 0

    def prompted(self) -> str:
        """Wait for the prompt; what was shown since the one before."""
        self._place = self.running.wait_for(PROMPT, after=self._place)
        shown = bytes(self.running.stdout[self._seen : self._place])
        self._seen = self._place
        return "\n".join(lines_shown(shown))

    def type_in(self, keys: str) -> None:
        """Press keys."""
        self.running.type_in(keys)

    def say(self, text: str) -> str:
        """Type a line, and wait for the next prompt; what was shown."""
        self.type_in(text + ENTER)
        return self.prompted()

    def complete(self, keys: str, shown: str) -> None:
        """Type something and press Tab; wait for what is then shown."""
        place = len(self.running.stdout)
        self.type_in(keys + TAB)
        self.running.wait_for(shown, after=place)

    def leave(self, keys: str = CTRL_D) -> Result:
        """Leave, and wait for the end."""
        self.type_in(keys)
        return self.running.finish()

    def __enter__(self) -> Self:
        self.running.__enter__()
        self.prompted()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.running.__exit__(kind, error, tb)


def conversation(request: Request) -> list[str]:
    """What was said before and in a request: all but the system prompt."""
    body = request.json
    return [
        wire.asked(body, n) if message["content"] else ""
        for n, message in enumerate(body["messages"])
        if message["role"] != "system"
    ]


def last(server: ModelServer) -> list[str]:
    return conversation(server.requests[-1])


def answering(request: Request) -> str:
    """An answer that tells which message it is for."""
    return f"Answer to {conversation(request)[-1].split()[-1]}."


def named(result: Result) -> str:
    """The conversation that is named in the end."""
    [*_, name] = re.findall(r"· conversation (\w+)", result.text)
    return str(name)


def kept(home: Path) -> str:
    """What is kept of what was typed."""
    return (home / "chat_history").read_text()
