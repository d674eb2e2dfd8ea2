"""What keeps the originals of what a run changes, wired to that run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.events import Event, Notice
from ask.text import decode_argument
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.agent.safe_mode import SafeModeContext
    from ask.undo.backups import FileBackups, FolderBackups

_NO_UNDO_HINT = "ask undo will not put back what this run changes there"
SLOW_BACKUP_DELAY = 2.0
"""Seconds after which a user at a terminal is told what is waited for."""


class RunBackups:
    """Keeps what a run changes; a context that ends with the run. A run that is not saved keeps nothing.

    Args:
        question: what the run is about.
        workspace: where originals go.
        show: takes the events.
    """

    def __init__(self, request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> None:
        self._request = request
        self._app = app
        self._on_event = on_event
        self._is_enabled = request.settings.save
        self._folder_backups: FolderBackups | None = None
        self._has_tried_folder_backup = False

    @cached_property
    def _keeper(self) -> FileBackups:
        from ask.history.terminal_id import identify_terminal
        from ask.undo.backups import FileBackups
        from ask.undo.journal import JournalHeader

        about = JournalHeader(
            conversation=self._request.conversation_id,
            directory=decode_argument(str(self._request.directory)),
            terminal=identify_terminal(self._app.environment),
        )
        return FileBackups(self._app.app_dirs.data, about, self._notify)

    def before_write(self, path: Path, new_content: bytes) -> None:
        """The `keep_original` of the run's `ToolContext`."""
        confined = self._request.safe_mode
        copied = (
            self._folder_backups
            and confined
            and any(path.is_relative_to(folder) for folder in confined.writable_folders)
        )
        if self._is_enabled and not copied:
            self._keeper.before_write(path, new_content)

    def before_tool_call(self, tool: Tool) -> None:
        """A call of this tool is about to run: in safe mode, before the first that may change something, copy all."""
        confined = self._request.safe_mode
        if confined and self._is_enabled and tool.changes and not self._has_tried_folder_backup:
            self._has_tried_folder_backup = True
            self._back_up_folders(confined)

    def _back_up_folders(self, safe_mode: SafeModeContext) -> None:
        from ask.undo.backups import FolderBackups
        from ask.undo.folder_copies import FoldersTooLargeError

        keeper = FolderBackups(self._keeper.journal)
        try:
            keeper.back_up(
                safe_mode.writable_folders, safe_mode.list_protected_paths(), self._make_slow_backup_reporter()
            )
        except FoldersTooLargeError as error:
            reason = str(error)
        except OSError as fault:
            reason = os.strerror(fault.errno or 0)
        else:
            self._folder_backups = keeper
            if keeper.uncopied_folders:
                from ask.undo.path_display import format_folders

                self._notify(f"no copy is made of {format_folders(keeper.uncopied_folders)}: {_NO_UNDO_HINT}")
            return
        where = ", ".join(map(str, safe_mode.writable_folders))
        self._notify(f"no copy is made of {where} ({reason}): {_NO_UNDO_HINT}")

    def _make_slow_backup_reporter(self) -> Callable[[], None]:
        """Tells a user at a terminal, once, that it takes a while."""
        told = sys.stderr is None or not sys.stderr.isatty()
        started = time.monotonic()

        def report_if_slow() -> None:
            nonlocal told
            if not told and time.monotonic() - started > SLOW_BACKUP_DELAY:
                told = True
                self._notify("copying the folder before it may change, so that ask undo can put it back")

        return report_if_slow

    def _notify(self, text: str) -> None:
        self._on_event(Notice(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._folder_backups:
            # Whatever keeps it from being noted what the run left: undo then says that it does not know.
            with suppress(OSError, ValueError, KeyboardInterrupt):
                self._folder_backups.finish()
        if "_keeper" in self.__dict__:
            self._keeper.journal.close()
