"""Tab completion in a chat: slash commands, their arguments, and file names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from ask.cli.chat.commands import SLASH_COMMANDS
from ask.cli.chat.session import ChatSession
from ask.completion import LOCK_TIMEOUT, MAX_CONVERSATIONS, SAFE_WORD, complete_models, list_model_ids
from ask.errors import AskError
from ask.history.listing import find_titles
from ask.history.store import Store
from ask.render.amounts import format_local_time
from ask.text import format_one_line

FILE_COMMANDS = ("file", "save")


class ChatCompleter(Completer):
    """Completes slash commands, and in messages words that begin with @ as file names."""

    def __init__(self, session: ChatSession) -> None:
        self._session = session
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        with suppress(AskError, OSError):
            if text.startswith("/") and "\n" not in text:
                yield from self._complete_command(text, complete_event)
            elif (word := text.split()[-1:] or [""])[0].startswith("@") and text.endswith(word[0]):
                yield from self._complete_path(word[0][1:], complete_event)

    def _complete_command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        name, space, typed = text[1:].partition(" ")
        if not space:
            for command_name, command in SLASH_COMMANDS.items():
                if command_name.startswith(name):
                    completion = f"/{command_name} " if command.arguments else f"/{command_name}"
                    yield Completion(
                        completion, -len(text), display=f"/{command_name}", display_meta=command.description
                    )
        elif name in FILE_COMMANDS:
            yield from self._complete_path(typed.lstrip(), event)
        elif name == "resume":
            yield from self._complete_conversation(typed)
        elif name == "system" and typed.startswith("@"):
            yield from self._complete_path(typed[1:], event)
        else:
            candidates = dict.fromkeys(self._list_arguments(name, typed))
            yield from (Completion(value, -len(typed)) for value in candidates if value.startswith(typed))

    def _list_arguments(self, name: str, typed: str) -> Iterator[str]:
        app = self._session.app
        if name == "provider":
            yield from app.provider_names
        elif name == "model":
            models = complete_models(app.app_dirs, app.environment, typed, "")
            names = [*list_model_ids(app.app_dirs, self._session.request.endpoint.provider_name), *dict(models)]
            yield from filter(SAFE_WORD.fullmatch, names)
        elif name in ("tools", "safe"):
            yield from SLASH_COMMANDS[name].arguments.strip("[]").split("|")

    def _complete_conversation(self, typed: str) -> Iterator[Completion]:
        """Complete an id by its beginning or by words of the title."""
        with Store(self._session.app.app_dirs.history_file, create=False, lock_timeout=LOCK_TIMEOUT) as store:
            by_title = find_titles(store, typed, MAX_CONVERSATIONS)
            by_id = [title for title in find_titles(store, "", MAX_CONVERSATIONS) if title.id.startswith(typed)]
        for conversation in dict.fromkeys([*by_id, *by_title]):
            title, date = format_one_line(conversation.title), format_local_time(conversation.updated)
            yield Completion(conversation.id, -len(typed), display=title or conversation.id, display_meta=date)

    def _complete_path(self, typed: str, event: CompleteEvent) -> Iterable[Completion]:
        return self._paths.get_completions(Document(typed, len(typed)), event)
