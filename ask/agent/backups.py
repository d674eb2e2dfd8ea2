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

from ask.agent.request import Question
from ask.agent.workspace import Workspace
from ask.events import Event, Notice
from ask.text import as_text
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.agent.safe_mode import Confined
    from ask.undo.backups import FolderKeeper, Keeper

_NOT_PUT_BACK = "ask undo will not put back what this run changes there"
PATIENCE = 2.0
"""Seconds after which a user at a terminal is told what is waited for."""


class Originals:
    """Keeps what a run changes; a context that ends with the run. A run that is not saved keeps nothing.

    Args:
        question: what the run is about.
        workspace: where originals go.
        show: takes the events.
    """

    def __init__(self, question: Question, workspace: Workspace, show: Callable[[Event], None]) -> None:
        self._question = question
        self._workspace = workspace
        self._show = show
        self._saving = question.settings.save
        self._folders: FolderKeeper | None = None
        self._tried = False

    @cached_property
    def _keeper(self) -> Keeper:
        from ask.history.terminal_id import this_terminal
        from ask.undo.backups import Keeper
        from ask.undo.journal import About

        about = About(
            conversation=self._question.conversation,
            directory=as_text(str(self._question.directory)),
            terminal=this_terminal(self._workspace.environment),
        )
        return Keeper(self._workspace.places.data, about, self._say)

    def keep(self, path: Path, data: bytes) -> None:
        """The `keep_original` of the run's `ToolContext`."""
        confined = self._question.confined
        copied = self._folders and confined and any(path.is_relative_to(folder) for folder in confined.folders)
        if self._saving and not copied:
            self._keeper.keep(path, data)

    def prepare(self, tool: Tool) -> None:
        """A call of this tool is about to run: in safe mode, before the first that may change something, copy all."""
        confined = self._question.confined
        if confined and self._saving and tool.changes and not self._tried:
            self._tried = True
            self._copy(confined)

    def _copy(self, confined: Confined) -> None:
        from ask.undo.backups import FolderKeeper
        from ask.undo.folder_copies import TooMuch

        keeper = FolderKeeper(self._keeper.record)
        try:
            keeper.copy(confined.folders, confined.untouched(), self._patient())
        except TooMuch as error:
            reason = str(error)
        except OSError as fault:
            reason = os.strerror(fault.errno or 0)
        else:
            self._folders = keeper
            if keeper.uncopied:
                from ask.undo.path_display import named_folders

                self._say(f"no copy is made of {named_folders(keeper.uncopied)}: {_NOT_PUT_BACK}")
            return
        where = ", ".join(map(str, confined.folders))
        self._say(f"no copy is made of {where} ({reason}): {_NOT_PUT_BACK}")

    def _patient(self) -> Callable[[], None]:
        """Tells a user at a terminal, once, that it takes a while."""
        told = sys.stderr is None or not sys.stderr.isatty()
        started = time.monotonic()

        def going_on() -> None:
            nonlocal told
            if not told and time.monotonic() - started > PATIENCE:
                told = True
                self._say("copying the folder before it may change, so that ask undo can put it back")

        return going_on

    def _say(self, text: str) -> None:
        self._show(Notice(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._folders:
            # Whatever keeps it from being noted what the run left: undo then says that it does not know.
            with suppress(OSError, ValueError, KeyboardInterrupt):
                self._folders.end()
        if "_keeper" in self.__dict__:
            self._keeper.record.close()
