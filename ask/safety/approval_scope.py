"""What an approval can be extended to: the same command, a program with any arguments, files, a tool, or a host."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from ask.safety.command_rules import RUNNERS, SHELLS, WRAPPERS, build_program_rule, find_allow_rules
from ask.safety.shell_syntax import parse_command_line
from ask.safety.tool_policy import COMMAND_TOOL, PendingToolCall
from ask.tools.definitions import FILE_TOOL_NAMES

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9_./+-]{1,60}")
_MAX_PROGRAMS = 4


class ApprovalScope(StrEnum):
    """The calls that an approval covers."""

    COMMAND = "command"
    """Exactly the same command line."""
    PROGRAM = "program"
    """Simple commands that run this program, with any arguments."""
    FILES = "files"
    """Calls of this tool for files in the working directory, without hidden ones and those that programs trust."""
    TOOL = "tool"
    """All calls of this tool."""
    HOST = "host"
    """All calls that reach this host."""


def list_approvable(pending_call: PendingToolCall) -> Mapping[ApprovalScope, Sequence[str]]:
    """Return what an approval of a call can be extended to, the narrowest scope first."""
    if pending_call.host:
        return {ApprovalScope.HOST: (pending_call.host,)}
    tool = {ApprovalScope.TOOL: (pending_call.tool_name,)}
    command = pending_call.command
    if _is_project_file(pending_call):
        return {ApprovalScope.FILES: (pending_call.tool_name,), **tool}
    if pending_call.tool_name != COMMAND_TOOL or command is None:
        return tool
    programs = _list_programs(command, str(pending_call.context.directory))
    return {ApprovalScope.COMMAND: (command,), **({ApprovalScope.PROGRAM: programs} if programs else {}), **tool}


def _is_project_file(pending_call: PendingToolCall) -> bool:
    """Check whether a call is about a file in the working directory with no name that other programs may trust."""
    path = pending_call.arguments.get("filepath")
    if pending_call.tool_name not in FILE_TOOL_NAMES or not isinstance(path, str):
        return False
    from ask.safety.protected_paths import is_project_file

    return is_project_file(path, pending_call.context)


def _list_programs(command: str, directory: str) -> Sequence[str]:
    """Return the programs of a command line; () if their approval would not cover it, or they can run any other."""
    programs = list(dict.fromkeys(words[0].text for words in parse_command_line(command).commands))
    runs_others = any(os.path.basename(program) in WRAPPERS | SHELLS | RUNNERS for program in programs)
    if runs_others or len(programs) > _MAX_PROGRAMS or not all(map(_PROGRAM_NAME.fullmatch, programs)):
        return ()
    return programs if find_allow_rules([*map(build_program_rule, programs)], command, directory) else ()
