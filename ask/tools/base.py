"""What a tool is, and the tools that come with `ask`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any, NamedTuple

from ask.messages import ToolSpec
from ask.redaction import NO_SECRETS, Redactor


class ToolError(Exception):
    """A call that could not be carried out; the text is written for the model, which gets it as the result."""


def skip_backup(path: Path, new_content: bytes) -> None:
    """Keeps no original: for a run that is not saved, and where a tool has no access to what is kept."""


class ApprovedFile(NamedTuple):
    """The file whose new content a user was shown and agreed to.

    Attributes:
        path: of the file, without links.
        folder_id: device and inode of the innermost folder on the path that exists; "" where only the path was shown.
        file_id: device and inode of the file; "" if it does not exist.
        digest: SHA-256 of its content; "" if that was not read.
    """

    path: str
    folder_id: str = ""
    file_id: str = ""
    digest: str = ""


class ToolContext(NamedTuple):
    """What a tool may use of the run it works for.

    Attributes:
        directory: relative paths start here, and commands run here.
        environment: the environment of child processes, without the providers' keys.
        command_timeout: seconds that a command may take at most.
        spill_directory: where an output too long for a result is kept whole.
        on_output: takes a running command's output, as it comes.
        keep_original: is called before a file changes, with its path, in which there is no link any more, and with
            what it will hold. It raises nothing because of what cannot be kept.
        open_spill: makes a new file in `spill_directory`; None makes it right there.
        redactor: replaces secrets in a command's output before it is shown or kept.
        restrict_hosts: None where any host may be reached; else only public addresses may, and a redirect may lead to
            another host only where that is one of these, in the form of `addresses.host_of`.
        niceness: what a command adds to its niceness (0 to 19): the higher, the more others go before it.
        approved_file: the only file that this call may write, and only as long as it is unchanged; None for any.
        keep_hard_links: write a file with several names in place; otherwise the name written gets a file of its own.
        placeholders: files and folders that are not listed while they are empty: safe mode creates them for a run.
    """

    directory: Path
    environment: Mapping[str, str]
    command_timeout: float
    spill_directory: Path
    on_output: Callable[[str], None]
    keep_original: Callable[[Path, bytes], None] = skip_backup
    open_spill: Callable[[Path], RawIOBase] | None = None
    redactor: Redactor = NO_SECRETS
    restrict_hosts: frozenset[str] | None = None
    niceness: int = 0
    approved_file: ApprovedFile | None = None
    keep_hard_links: bool = True
    placeholders: Collection[Path] = frozenset()


class ToolResult(NamedTuple):
    """What a call gave: the text for the model, and whether it failed.

    `exit_status` is a command's, None for anything else.
    """

    text: str
    failed: bool = False
    exit_status: int | None = None


class Tool(NamedTuple):
    """A tool: what the model sees, and the function that does the work.

    Attributes:
        run: takes the arguments, which fit the specification's schema; raises `ToolError` where it cannot.
        changes: whether it runs or writes something, so that `--confirm` asks first; a tool that only reads says so.
        origin: the distribution it comes from; filled in by the host.
        host_of: for a tool that touches nothing here but reaches a host: which, by a call's arguments; raises
            `ToolError` where none can be told.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], ToolResult]
    changes: bool = True
    origin: str = "ask"
    host_of: Callable[[Mapping[str, Any]], str] | None = None
