"""Backups of the files that a run changes, for `ask undo`."""

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
"""Seconds of copying after which a user at a terminal is notified."""


class RunBackups:
    """Backs up what a run changes. Leaving the context completes the backup. A run that is not saved has none."""

    def __init__(self, request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> None:
        self._request = request
        self._app = app
        self._on_event = on_event
        self._is_enabled = request.settings.save
        self._folder_backups: FolderBackups | None = None
        self._has_tried_folder_backup = False

    @cached_property
    def _file_backups(self) -> FileBackups:
        from ask.history.ids import identify_terminal
        from ask.undo.backups import FileBackups
        from ask.undo.journal import JournalHeader

        header = JournalHeader(
            conversation=self._request.conversation_id,
            directory=decode_argument(str(self._request.directory)),
            terminal=identify_terminal(self._app.environment),
        )
        return FileBackups(self._app.app_dirs.data, header, self._notify)

    def before_write(self, path: Path, new_content: bytes) -> None:
        """Back up a file before it is written. This is the `keep_original` of the run's `ToolContext`."""
        safe_mode = self._request.safe_mode
        is_in_folder_backup = (
            self._folder_backups
            and safe_mode
            and any(path.is_relative_to(folder) for folder in safe_mode.writable_folders)
        )
        if self._is_enabled and not is_in_folder_backup:
            self._file_backups.before_write(path, new_content)

    def before_tool_call(self, tool: Tool) -> None:
        """Back up the writable folders before the first call that may change them.

        This is done in safe mode only; otherwise `before_write` backs up single files.
        """
        safe_mode = self._request.safe_mode
        if safe_mode and self._is_enabled and tool.changes and not self._has_tried_folder_backup:
            self._has_tried_folder_backup = True
            self._back_up_folders(safe_mode)

    def _back_up_folders(self, safe_mode: SafeModeContext) -> None:
        from ask.undo.backups import FolderBackups
        from ask.undo.folder_copies import FoldersTooLargeError

        folder_backups = FolderBackups(self._file_backups.journal)
        try:
            folder_backups.back_up(
                safe_mode.writable_folders, safe_mode.list_protected_paths(), self._make_slow_backup_reporter()
            )
        except FoldersTooLargeError as error:
            reason = str(error)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
        else:
            self._folder_backups = folder_backups
            if folder_backups.uncopied_folders:
                from ask.undo.path_display import format_folders

                self._notify(f"no copy is made of {format_folders(folder_backups.uncopied_folders)}: {_NO_UNDO_HINT}")
            return
        folders = ", ".join(map(str, safe_mode.writable_folders))
        self._notify(f"no copy is made of {folders} ({reason}): {_NO_UNDO_HINT}")

    def _make_slow_backup_reporter(self) -> Callable[[], None]:
        """Return a function that notifies a user at a terminal, once, if copying is slow."""
        is_reported = sys.stderr is None or not sys.stderr.isatty()
        start_time = time.monotonic()

        def report_if_slow() -> None:
            nonlocal is_reported
            if not is_reported and time.monotonic() - start_time > SLOW_BACKUP_DELAY:
                is_reported = True
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
            # If the final state cannot be recorded, undo reports that it is unknown.
            with suppress(OSError, ValueError, KeyboardInterrupt):
                self._folder_backups.finish()
        if "_file_backups" in self.__dict__:
            self._file_backups.journal.close()
