"""Tool calls that the user has approved in advance: for the run, for a folder, or everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from ask.app import AppContext
from ask.atomic_files import lock_file, read_decisions, write_decisions
from ask.config.directories import SAFE_STATE_FOLDER, SCAN_RECORD_NAME
from ask.config.settings import FILES_LEVEL, SANDBOX_LEVEL
from ask.config.symbolic_links import read_changeable_folders, resolve_links
from ask.errors import FileError
from ask.records import Constraint, NamedTuple
from ask.safety.approval_scope import ApprovalScope, list_approvable
from ask.safety.command_rules import CallRule, build_program_rule, find_allow_rules
from ask.safety.git_commands import find_executed_files, find_existing_files
from ask.safety.shell_syntax import list_search_path
from ask.safety.tool_policy import NETWORK_LEVEL, PendingToolCall
from ask.tools.base import RunToolContext

_COMMAND_SCOPES = frozenset({"command", "program"})
_PROGRAM_NAME, _QUOTE = re.compile(r"[\w.+-]+"), re.compile(r"[\"'\\]")
_LEVELS = ("", FILES_LEVEL, NETWORK_LEVEL, SANDBOX_LEVEL)
"""The levels of safe mode; each is stricter than the one before."""


class ApprovalDuration(StrEnum):
    """The time for which an approval is remembered, and the folders in which it applies."""

    RUN = "run"
    FOLDER = "folder"
    ALWAYS = "always"


class Approval(NamedTuple):
    """A remembered approval.

    Attributes:
        scope: what it applies to.
        value: the command, program, tool or host.
        folder: the working directory that it applies in; "" for all.
        time: when it was given, in seconds since the epoch.
        level: the level of safe mode in which it was given, "" for none. It also applies at stricter ones, but not at
            others: there, the call could do more than the user has approved.
    """

    scope: ApprovalScope
    value: str
    folder: str
    time: float
    level: Annotated[str, Constraint("a level of safe mode", _LEVELS.__contains__)]

    @property
    def id(self) -> str:
        """A short id, the same as long as the approval exists."""
        return hashlib.sha256(json.dumps([*self[:3], self.level]).encode()).hexdigest()[:8]

    def applies_at(self, level: str) -> bool:
        """Check whether it applies at a level of safe mode."""
        return _LEVELS.index(self.level) <= _LEVELS.index(level)


def open_approvals(app: AppContext) -> ApprovalStore:
    return ApprovalStore(app.app_dirs.approvals_file)


class ApprovalStore:
    """The approvals of a run, and the file of those that outlive it.

    The file is read for every question, so that parallel runs share it. The methods raise `FileError` if it cannot be
    read or written, or if the record of the folders in which runs in safe mode could write cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scan_record = path.parent / SAFE_STATE_FOLDER / SCAN_RECORD_NAME
        self._run_approvals: list[Approval] = []

    def find(self, pending_call: PendingToolCall, allow: Sequence[CallRule] = ()) -> str:
        """Describe the approval that covers a call; "" if there is none.

        Parts of a compound command may also be covered by the rules of the allowlist.
        """
        approvals = self._find_applicable(pending_call)
        approvable = list_approvable(pending_call)
        for approval in approvals:
            if approval.scope is not ApprovalScope.PROGRAM and approval.value in approvable.get(approval.scope, ()):
                return approval.scope if approval.scope is ApprovalScope.COMMAND else " ".join(approval[:2])
        if ApprovalScope.COMMAND not in approvable:
            return ""
        programs = [approval.value for approval in approvals if approval.scope is ApprovalScope.PROGRAM]
        rules = [*allow, *map(build_program_rule, programs)]
        return ", ".join(find_allow_rules(rules, pending_call.command or "", str(pending_call.context.directory)))

    def _find_applicable(self, pending_call: PendingToolCall) -> list[Approval]:
        """Return the approvals for the folder and the level of a call.

        Outside the sandbox, or if commands have a network, those of commands and programs do not outlive a change of
        what the call runs, unless they are of this run: a run in safe mode may have changed it.
        """
        stored, command = self.read(), pending_call.command
        if (
            command
            and pending_call.level != SANDBOX_LEVEL
            and any(approval.scope in _COMMAND_SCOPES for approval in stored)
        ):
            folders = read_changeable_folders(self._scan_record)
            change_time = _find_change_time(command, pending_call.context, folders)
            now = time.time()  # an approval of a clock that was ahead would outlive all changes
            stored = [
                approval
                for approval in stored
                if approval.scope not in _COMMAND_SCOPES or not change_time or change_time <= approval.time <= now
            ]
        folder = str(pending_call.context.directory)
        return [
            approval
            for approval in (*self._run_approvals, *stored)
            if approval.folder in ("", folder) and approval.applies_at(pending_call.level)
        ]

    def add(self, pending_call: PendingToolCall, scope: ApprovalScope, duration: ApprovalDuration) -> None:
        """Remember the approval of a call. Values that contain a secret are not written to the file.

        Raises:
            FileError: they are only remembered for this run, because of a secret or because the file cannot be written.
        """
        folder = str(pending_call.context.directory) if duration is ApprovalDuration.FOLDER else ""
        values, level = list_approvable(pending_call)[scope], pending_call.level
        approvals = [Approval(scope, value, folder, time.time(), level) for value in values]
        self._run_approvals += approvals
        if duration is ApprovalDuration.RUN:
            return
        if any(pending_call.context.redactor.redact(approval.value) != approval.value for approval in approvals):
            raise FileError("the command contains a secret, so its approval is remembered for this run only")
        with lock_file(self.path):
            rows = self._read_rows()
            new_ids = {approval.id for approval in approvals}
            self._write([*(row for row in rows if not (isinstance(row, Approval) and row.id in new_ids)), *approvals])

    def remove(self, ids: Collection[str]) -> int:
        """Forget the approvals with these ids; return how many there were."""
        with lock_file(self.path):
            rows = self._read_rows()
            remaining = [row for row in rows if not (isinstance(row, Approval) and row.id in ids)]
            if len(remaining) < len(rows):
                self._write(remaining)
        return len(rows) - len(remaining)

    def read(self) -> list[Approval]:
        """Return the approvals in the file."""
        return [row for row in self._read_rows() if isinstance(row, Approval)]

    def _read_rows(self) -> list[Approval | Any]:
        return read_decisions(self.path, _parse_rows) or []

    def _write(self, rows: Sequence[Approval | Any]) -> None:
        write_decisions(self.path, [row._asdict() if isinstance(row, Approval) else row for row in rows])


def _find_change_time(command: str, context: RunToolContext, folders: Sequence[Path]) -> float:
    """Return when a program or script in one of the folders that a command names has last changed; 0 if there is none.

    No call can set the time of the last status change, which is also that of renaming a file, or a folder around it.
    """
    if not folders:
        return 0.0
    home = os.path.expanduser("~")
    files, is_unclear = find_executed_files(command, context.directory, home)
    if is_unclear:  # such as `uv run tools/check.py`
        files = (*files, *find_existing_files(command, context.directory, home))
    programs = map(resolve_links, (*(file.path for file in files), *_find_programs(command, context)))
    paths = {step for path, links in programs for step in (*links, path)}
    steps = paths | {path.parent for path in paths}  # a script imports what is beside it
    outer_folders = {folder for path in paths for folder in path.parent.parents}

    def is_changeable(path: Path) -> bool:
        return any(path != folder and path.is_relative_to(folder) for folder in folders)

    times = [_read_change_time(step) for step in filter(is_changeable, steps)]
    # A new file changes only its folder. Renaming a folder also changes the one around it.
    times += [min(map(_read_change_time, (path, path.parent))) for path in filter(is_changeable, outer_folders)]
    return max(times, default=0.0)


def _read_change_time(path: Path) -> float:
    with suppress(OSError):  # it does not exist
        return os.lstat(path).st_ctime
    return 0.0


def _find_programs(command: str, context: RunToolContext) -> Iterator[Path]:
    """Yield the programs on PATH that words of a command may name: a virtual environment may be there."""
    words = frozenset(_PROGRAM_NAME.findall(f"{command} {_QUOTE.sub('', command)}"))
    for entry in list_search_path(context.environment):
        folder = context.directory / entry
        with suppress(OSError):
            paths = (folder / name for name in words.intersection(os.listdir(folder)))
            yield from (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))


def _parse_rows(content: Any) -> list[Approval | Any]:
    """Parse the rows of the file; one that is damaged, or from a newer version, approves nothing and stays as it is."""
    from ask.config.type_checks import WrongTypeError, parse_value

    rows = parse_value(content, list[Any])
    for position, row in enumerate(rows):
        with suppress(WrongTypeError):
            # Earlier versions did not write the level.
            rows[position] = parse_value({"level": SANDBOX_LEVEL, **row} if isinstance(row, dict) else row, Approval)
    return rows
