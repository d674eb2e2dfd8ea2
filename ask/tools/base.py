"""The types that every tool uses: `Tool`, `ToolContext`, `ToolResult` and `ToolError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.config.redaction import NO_SECRETS, Redactor
from ask.config.settings import MAX_COMMAND_SECONDS
from ask.messages import EMPTY_MAPPING, Attachment, ToolSpec
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.text_diff import TextDiff

BUILTIN_ORIGIN = "ask"
"""The origin of the built-in tools, which safe mode confines."""


class ToolError(Exception):
    """An error in a tool call; the message is written for the model, which gets it as the result."""


def _skip_backup(path: Path, new_content: bytes, folder_fd: int | None) -> None:
    """Back up nothing: for runs without history, and for tools that cannot reach the backups."""


class ApprovedFile(NamedTuple):
    """A file whose new content the user was shown and approved.

    Attributes:
        path: its path, with symbolic links resolved.
        ids: device and inode of the innermost existing folder on the path, and of the file if it exists; () if only the
            path was shown.
        digest: SHA-256 of its content; "" if it does not exist; None if the content was not shown.
    """

    path: str
    ids: tuple[str, ...] = ()
    digest: str | None = None


class FolderConfinement(NamedTuple):
    """The folders that the file tools are confined to where there is no sandbox.

    Attributes:
        folders: a descriptor of each folder, by its path with symbolic links resolved.
        find_denial: returns why a path in the folders must not be read or, with True, written; "" if it may be.
        is_hidden_file: checks, by the status of an open file, whether it is a hidden file that has another name.
    """

    folders: Mapping[Path, int]
    find_denial: Callable[[Path, bool], str]
    is_hidden_file: Callable[[os.stat_result], bool]


class ToolContext(NamedTuple):
    """The parts of a run that a tool may use.

    Attributes:
        directory: the working directory, which is also that of the tool's process.
        environment: the environment variables for child processes, without the providers' keys.
        command_timeout: how long the call may take, in seconds.
        overflow_directory: a folder for files that a result names; long results are saved there.
        on_output: shows text to the user immediately. It is not part of the result.
    """

    directory: Path
    environment: Mapping[str, str]
    command_timeout: float
    overflow_directory: Path
    on_output: Callable[[str], None]


class RunToolContext(NamedTuple):
    """The fields of `ToolContext`, and what only ask's own tools and the code that calls them use.

    Attributes:
        before_write: called before a file changes, with its path (symbolic links resolved), its new content, and the
            descriptor of its folder, or None if the folder is yet to be created. Never raises because of a failed
            backup.
        max_result_length: the length to which commands shorten their own output, in characters; None for the usual one.
        redactor: replaces secrets in a command's output before it is shown or saved.
        restrict_hosts: None allows all hosts. Otherwise only public addresses may be reached, and a redirect may lead
            to another host only if it is in this set, in the form of `network_policy.HttpTarget.host`.
        niceness: added to the niceness of commands (0 to 19); higher means lower priority.
        approved_file: the only file that this call may write, as long as it is unchanged; None allows any file.
        keep_hard_links: rewrite a file with several hard links in place; otherwise the path written gets its own copy.
        placeholders: files and folders that safe mode creates for a run; they are not listed while they are empty.
        confinement: the folders that the file tools can access; None allows all that the process can access.
        hides_files: whether files that are hidden appear as the null device, as in the sandbox.
        max_command_timeout: how long a command may take for which the model has given more time, in seconds.
    """

    directory: Path
    environment: Mapping[str, str]
    command_timeout: float
    overflow_directory: Path
    on_output: Callable[[str], None]
    before_write: Callable[[Path, bytes, int | None], None] = _skip_backup
    max_result_length: int | None = None
    redactor: Redactor = NO_SECRETS
    restrict_hosts: frozenset[str] | None = None
    niceness: int = 0
    approved_file: ApprovedFile | None = None
    keep_hard_links: bool = True
    placeholders: Collection[Path] = frozenset()
    confinement: FolderConfinement | None = None
    hides_files: bool = False
    max_command_timeout: float = MAX_COMMAND_SECONDS

    def get_time_limit(self, arguments: Mapping[str, Any]) -> float:
        """Return how many seconds the command of a call may take: what the call's `timeout` says, up to the maximum.

        Raises:
            ToolError: it says no positive number.
        """
        seconds = arguments.get("timeout", self.command_timeout)
        if "timeout" in arguments and not seconds > 0:
            maximum = f"at most {self.max_command_timeout:g}"
            raise ToolError(f"nothing was run: timeout must be a positive number of seconds, {maximum}")
        return float(min(seconds, self.max_command_timeout))


class ToolResult(NamedTuple):
    """The result of a call.

    Attributes:
        text: the text for the model.
        failed: whether the call failed.
        exit_status: the exit status of a command, from 0 to 255; None for other tools.
        attachments: images, PDFs and audio for the model. Those that it does not accept are described to it instead.
        diff: how ask's `write_file` or `edit_file` has changed a file, for the user; None for other tools.
    """

    text: str
    failed: bool = False
    exit_status: int | None = None
    attachments: tuple[Attachment, ...] = ()
    diff: TextDiff | None = None


class Tool(NamedTuple):
    """A tool: its specification for the model, and the function that runs it.

    Attributes:
        spec: name, description and parameters, as the model sees them.
        run: called with arguments that match the specification's schema, and a `ToolContext`; raises `ToolError` if
            the call fails.
        has_side_effects: whether it has side effects, so that `--confirm` asks first. False for a tool that only reads.
        origin: the distribution that provides it; set by ask.
        get_host: of ask's own tools that change nothing locally but reach a host: returns that host for a call's
            arguments. Raises `ToolError` if there is none.
        needs_sandbox: of ask's own tools: whether safe mode runs it in the sandbox; False if `run` restricts itself.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], Any], ToolResult]
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
