"""Drives `ask chat` on a terminal: types input and waits for the next prompt."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import wire
from tests.model_server import ModelServer, Request
from tests.program import Ask, Result, Running
from tests.screen import render_lines

PROMPT = "\x1b[J\x1b[0;1m>"
"""The start of a prompt, which clears the screen below it."""
CLEAR_LINE = "\x15"
ENTER, CTRL_D, TAB, UP, ALT_ENTER, CTRL_J = "\r", "\x04", "\t", "\x1b[A", "\x1b\r", "\n"


class Chat:
    """`ask chat` on a terminal, killed at the end of the context."""

    def __init__(self, ask: Ask, *options: str, env: dict[str, str] | None = None) -> None:
        self.running: Running = ask.start_on_terminal("chat", *options, env=env)
        self._place = 0
        self._seen = 0

    def wait_for_prompt(self) -> str:
        """Wait for the prompt; return what was shown since the previous one."""
        self._place = self.running.wait_for(PROMPT, after=self._place)
        shown = bytes(self.running.stdout[self._seen : self._place])
        self._seen = self._place
        return "\n".join(render_lines(shown))

    def type_in(self, keys: str) -> None:
        self.running.type_in(keys)

    def send(self, text: str) -> str:
        """Type a line and wait for the next prompt; return what was shown."""
        self.type_in(text + ENTER)
        return self.wait_for_prompt()

    def send_alone(self, text: str, *, answer: str = "n") -> str:
        """Send a line after one without an answer, and answer whether to send that, too."""
        place = len(self.running.stdout)
        self.type_in(text + ENTER)
        self.running.wait_for("Send the unanswered question too? [y/N]", after=place)
        return self.send(answer)

    def complete(self, keys: str, shown: str) -> None:
        """Type something and press Tab; wait until `shown` appears."""
        place = len(self.running.stdout)
        self.type_in(keys + TAB)
        self.running.wait_for(shown, after=place)

    def quit(self, keys: str = CTRL_D) -> Result:
        """Leave the chat and wait for its end."""
        self.type_in(keys)
        return self.running.finish()

    def __enter__(self) -> Self:
        self.running.__enter__()
        self.wait_for_prompt()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.running.__exit__(kind, error, tb)


def read_conversation(request: Request) -> list[str]:
    """Return the messages of a request without the system prompt."""
    body = request.json
    return [
        wire.asked(body, n) if message["content"] else ""
        for n, message in enumerate(body["messages"])
        if message["role"] != "system"
    ]


def read_last_conversation(server: ModelServer) -> list[str]:
    return read_conversation(server.requests[-1])


def answer_with_last_word(request: Request) -> str:
    """Answer with the last word of the message, which shows what is being answered."""
    return f"Answer to {read_conversation(request)[-1].split()[-1]}."


def answer_with_last_words(server: ModelServer) -> None:
    """Answer every message with its last word."""
    server.reply(lambda request: wire.says(answer_with_last_word(request)))


def read_conversation_id(result: Result) -> str:
    """Return the conversation id printed at the end of the chat."""
    [*_, name] = re.findall(r"· conversation (\w+)", result.text)
    return str(name)


def read_input_history(home: Path) -> str:
    return (home / "chat_history").read_text()
