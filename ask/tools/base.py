"""The types that every tool uses: `Tool`, `ToolContext`, `ToolResult` and `ToolError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ask.config.secrets import NO_SECRETS, Redactor
from ask.messages import EMPTY_MAPPING, Attachment, ToolSpec
from ask.records import NamedTuple

BUILTIN_ORIGIN = "ask"
"""The origin of the built-in tools, which safe mode confines."""
MAX_RESULT_LENGTH = 30_000
"""Maximum length of a result for the model, in characters."""


class ToolError(Exception):
    """An error in a tool call; the message is written for the model, which gets it as the result."""


def _skip_backup(path: Path, new_content: bytes, folder_fd: int | None) -> None:
    """Back up nothing: for runs without history, and for tools that cannot reach the backups."""


class ApprovedFile(NamedTuple):
    """A file whose new content the user was shown and approved.

    Attributes:
        path: Its path, with symbolic links resolved.
        ids: Device and inode of the innermost existing folder on the path, and of the file if it exists; () if only the
            path was shown.
        digest: SHA-256 of its content; "" if it does not exist; None if the content was not shown.
    """

    path: str
    ids: tuple[str, ...] = ()
    digest: str | None = None


class FolderConfinement(NamedTuple):
    """The folders that the file tools are confined to where there is no sandbox.

    Attributes:
        folders: A descriptor of each folder, by its path with symbolic links resolved.
        find_denial: Returns why a path in the folders must not be read or, with True, written; "" if it may be.
        is_hidden_file: Checks, by the status of an open file, whether it is a hidden file that has another name.
    """

    folders: Mapping[Path, int]
    find_denial: Callable[[Path, bool], str]
    is_hidden_file: Callable[[os.stat_result], bool]


class ToolContext(NamedTuple):
    """The parts of a run that its tools may use.

    Attributes:
        directory: The working directory: relative paths start here, and commands run here.
        environment: Environment variables for child processes, without the providers' keys.
        command_timeout: The longest time that a command may take, in seconds.
        overflow_directory: Where an output that is too long for a result is saved in full.
        on_output: Called with the output of a running command as it arrives.
        before_write: Called before a file changes, with its path (symbolic links resolved), its new content, and the
            descriptor of its folder, or None if the folder is yet to be created. Never raises because of a failed
            backup.
        max_result_length: The length to which commands shorten their own output, in characters.
        redactor: Replaces secrets in a command's output before it is shown or saved.
        restrict_hosts: None allows all hosts. Otherwise only public addresses may be reached, and a redirect may lead
            to another host only if it is in this set, in the form of `network_policy.HttpTarget.host`.
        niceness: Added to the niceness of commands (0 to 19); higher means lower priority.
        approved_file: The only file that this call may write, as long as it is unchanged; None allows any file.
        keep_hard_links: Rewrite a file with several hard links in place; otherwise the path written gets its own copy.
        placeholders: Files and folders that safe mode creates for a run; they are not listed while they are empty.
        confinement: The folders that the file tools can access; None allows all that the process can access.
        hides_files: Whether files that are hidden appear as the null device, as in the sandbox.
    """

    directory: Path
    environment: Mapping[str, str]
    command_timeout: float
    overflow_directory: Path
    on_output: Callable[[str], None]
    before_write: Callable[[Path, bytes, int | None], None] = _skip_backup
    max_result_length: int = MAX_RESULT_LENGTH
    redactor: Redactor = NO_SECRETS
    restrict_hosts: frozenset[str] | None = None
    niceness: int = 0
    approved_file: ApprovedFile | None = None
    keep_hard_links: bool = True
    placeholders: Collection[Path] = frozenset()
    confinement: FolderConfinement | None = None
    hides_files: bool = False


class ToolResult(NamedTuple):
    """The result of a call.

    Attributes:
        text: The text for the model.
        failed: Whether the call failed.
        exit_status: The exit status of a command, from 0 to 255; None for other tools.
        attachments: Images, PDFs and audio for the model. Those that it does not accept are described to it instead.
    """

    text: str
    failed: bool = False
    exit_status: int | None = None
    attachments: tuple[Attachment, ...] = ()


class Tool(NamedTuple):
    """A tool: its specification for the model, and the function that runs it.

    Attributes:
        spec: Name, description and parameters, as the model sees them.
        run: Called with arguments that match the specification's schema; raises `ToolError` if it fails.
        has_side_effects: Whether it has side effects, so that `--confirm` asks first. False for a tool that only reads.
        origin: The distribution that provides it; set by the host.
        get_host: For a tool that changes nothing locally but reaches a host: returns that host for a call's arguments.
            Raises `ToolError` if there is none.
        needs_sandbox: Whether safe mode runs it in the sandbox; False for a built-in tool whose `run` restricts itself.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], ToolResult]
    has_side_effects: bool = True
    origin: str = BUILTIN_ORIGIN
    get_host: Callable[[Mapping[str, Any]], str] | None = None
    needs_sandbox: bool = True


def build_parameters_schema(required: Mapping[str, Any], optional: Mapping[str, Any] = EMPTY_MAPPING) -> dict[str, Any]:
    """Build the schema of a tool's parameters from the schema of each."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }
