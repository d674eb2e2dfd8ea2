"""Backups of the files that a run changes, for `ask undo`."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ask.app import AppContext
from ask.events import Event, Notice
from ask.process.terminal_identity import identify_terminal
from ask.text import decode_argument
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.undo.backups import BackupWriter

SLOW_BACKUP_SECONDS = 2.0
"""Seconds of copying after which a user at a terminal is notified."""


def _remove_results(path: Path) -> None:
    if path.is_dir():
        from ask.undo.retention import remove_folder

        remove_folder(path)


class RunBackups:
    """Backs up what a run changes.

    Args:
        app: the user's installation.
        conversation_id: the conversation of the run.
        directory: its working directory.
        on_event: receives notices.
        results_folder: the folder for long results of tools, which is deleted at the end of a run that is not saved.
        enabled: whether there are backups; a run that is not saved has none.
        folders: the folders that commands in a sandbox can change; () without a sandbox.
        list_protected_paths: returns the paths in them that no command can change.
    """

    def __init__(
        self,
        app: AppContext,
        conversation_id: str,
        directory: Path,
        on_event: Callable[[Event], None],
        *,
        results_folder: Path,
        enabled: bool,
        folders: Sequence[Path],
        list_protected_paths: Callable[[], set[str]],
    ) -> None:
        self._app = app
        self._conversation_id = conversation_id
        self._directory = directory
        self._on_event = on_event
        self._enabled = enabled
        self._folders = folders
        self._list_protected_paths = list_protected_paths
        self._has_tried_folder_backup = False
        if not enabled:
            app.cleanup.callback(_remove_results, results_folder)
        self._slow_time = math.inf
        """When to report that copying is slow, on the monotonic clock."""

    @cached_property
    def _backups(self) -> BackupWriter:
        from ask.undo.backups import BackupWriter
        from ask.undo.journal import JournalHeader

        header = JournalHeader(
            conversation=self._conversation_id,
            directory=decode_argument(str(self._directory)),
            terminal=identify_terminal(self._app.environment),
        )
        return BackupWriter(self._app.app_dirs.data, header, self._notify)

    def before_write(self, path: Path, new_content: bytes, folder_fd: int | None) -> None:
        """Back up a file before it is written. This is the `before_write` of the run's `RunToolContext`."""
        if self._enabled:
            self._backups.before_write(path, new_content, folder_fd)

    def before_tool_call(self, tool: Tool) -> None:
        """Back up the writable folders before the first call that may change them.

        This is done for a sandbox, where commands run; otherwise `before_write` backs up single files.
        """
        if self._has_tried_folder_backup or not (self._enabled and self._folders and tool.has_side_effects):
            return
        self._has_tried_folder_backup = True
        from ask.undo.backups import FoldersTooLargeError, format_folders

        folders, protected_paths = self._folders, self._list_protected_paths()
        if sys.stderr is not None and sys.stderr.isatty():
            self._slow_time = time.monotonic() + SLOW_BACKUP_SECONDS
        try:
            description = format_folders(self._backups.back_up_folders(folders, protected_paths, self._report_if_slow))
        except (FoldersTooLargeError, OSError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            description = f"{', '.join(map(str, folders))} ({reason})"
        if description:
            self._notify(f"cannot back up {description}; ask undo will not restore changes there")

    def _report_if_slow(self) -> None:
        """Notify a user at a terminal, once, if copying is slow."""
        if time.monotonic() > self._slow_time:
            self._slow_time = math.inf
            self._notify("backing up the folder so that ask undo can restore it")

    def _notify(self, text: str) -> None:
        self._on_event(Notice(text))

    def close(self) -> None:
        """Complete the backups at the end of the run, and remove old ones and old long results."""
        if "_backups" in self.__dict__:
            # If the final state cannot be recorded, undo reports that it is unknown.
            with suppress(OSError, ValueError, KeyboardInterrupt):
                self._backups.record_folder_changes()
            self._backups.close()
        elif self._app.app_dirs.results.exists():  # with backups, this has been done
            from ask.undo.retention import prune

            prune(self._app.app_dirs.data)
