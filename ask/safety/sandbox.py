"""The sandbox of a run: opened and tested before anything is sent, then every call is carried out in it.

How it looks is in `profile`, what it shows in `places`, who works in it in `worker`.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ask import worker_channel
from ask.atomic_files import create_private_folder
from ask.errors import SafetyError
from ask.parsing import as_dict
from ask.safety.bubblewrap import PROGRAMS, find_bubblewrap
from ask.safety.confinement import Confinement, View
from ask.safety.folder_scan import NOTHING, survey
from ask.safety.overflow_files import BadSpill, Spills
from ask.safety.path_policy import check_unmoved
from ask.safety.placeholders import MountPlaceholders
from ask.safety.sandbox_process import Inmate
from ask.safety.self_test import Finding, Outside
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.worker_channel import WorkerLate, WorkerLost

_START_TIME = 10.0
_LATER = 7.0
"""Seconds after its time-out in which a call may still end by itself: what ignores TERM, and what hangs in a KILL."""
_AFRESH = "The sandbox starts afresh: /tmp and the home directory are empty again"


class Sandbox:
    """A sandbox; a context that closes it.

    Args:
        confinement: what the calls are confined to.
        programs: where bubblewrap may be.
        meanwhile: is done while a worker starts, which takes about as long as loading `requests`.

    Attributes:
        findings: what the last self-test found.
        warnings: what is not covered in this case.

    Raises:
        SafetyError: there can be none, or it does not hold.
    """

    def __init__(
        self, confinement: Confinement, programs: Sequence[str] = PROGRAMS, meanwhile: Callable[[], object] = bool
    ) -> None:
        self._program = find_bubblewrap(programs)
        self._confinement = confinement
        self._meanwhile = meanwhile
        self._inmate: Inmate | None = None
        self._seen = NOTHING
        self._closed = False
        self.findings: list[Finding] = []
        self.warnings: list[str] = []
        try:
            create_private_folder(confinement.spill.parent)
            self._placeholders = MountPlaceholders(confinement.state, confinement.spill)
        except OSError as fault:
            place = fault.filename or confinement.state
            raise SafetyError(f"--safe cannot use {place} ({fault.strerror})", "make it writable for you") from fault
        try:
            self._inmate = self._start()
            self._placeholders.start_cleaner()
        except BaseException:
            self.close()
            raise

    def confine(self, tool: Tool) -> Tool:
        """The same tool, one of ask's own, whose calls take place in here."""
        name = tool.spec.name

        def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return self._call(name, arguments, context)

        return tool._replace(run=run)

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders that exist only because of this sandbox, or of another one in its folders."""
        return self._placeholders.paths

    @property
    def protected(self) -> Sequence[Path]:
        """The files and folders in the writable directories that no call can change."""
        return self._seen.protected

    def close(self) -> None:
        """End all that is in it, and remove what it left; nothing is run any more."""
        self._closed = True
        try:
            self._end()
        finally:
            self._placeholders.release()
            with suppress(OSError):  # unless something was spilled
                self._confinement.spill.rmdir()

    def _start(self) -> Inmate:
        """A worker that has passed the self-test."""
        if self._closed:
            raise SafetyError("the sandbox is closed")
        self._survey()
        view = self._seen
        try:
            return self._tested(view)
        except SafetyError:
            self._survey()
            if self._seen == view:
                raise
            return self._tested(self._seen)  # what was to be hidden came or went while it started

    def _survey(self) -> None:
        """Find what to show, to protect and to hide right now, and create the placeholders."""
        try:
            check_unmoved(self._confinement)
            self._seen, self.warnings = survey(self._confinement, self._placeholders.hold, self._seen)
        except OSError as error:  # such as a link that became a folder between two looks at it
            path = error.filename or self._confinement.directory
            raise SafetyError(f"--safe cannot examine {path} ({error.strerror})", "run it again") from None

    def _tested(self, view: View) -> Inmate:
        """A worker that is shown this, and has passed the self-test."""
        with Outside(self._confinement) as outside:
            inmate = Inmate(self._program, self._confinement, view)
            try:
                self.findings = outside.judge(self._introduce(inmate, outside.tasks))
            except BaseException:
                inmate.end()
                raise
        broken = [finding for finding in self.findings if not finding.held]
        if broken:
            inmate.end()
            what = "; ".join(f"{finding.name}: {finding.detail}" for finding in broken)
            raise SafetyError(
                f"the sandbox does not hold here ({what})", "go on without --safe only if you trust the model"
            )
        return inmate

    def _introduce(self, inmate: Inmate, tasks: Mapping[str, Any]) -> Any:
        """Tell a worker what it must know; what it found in the self-test."""
        start = {
            "directory": str(self._confinement.directory),
            "spill": str(self._confinement.spill),
            "limits": list(self._confinement.limits),
            "placeholders": [str(path) for path in self._placeholders.paths],
            "tasks": tasks,
        }
        try:
            replies = inmate.exchange(worker_channel.START, json.dumps(start).encode(), _START_TIME)
            self._meanwhile()
            for kind, payload in replies:
                return json.loads(payload) if kind == worker_channel.READY else None
        except (WorkerLost, WorkerLate):
            raise inmate.complaint() from None
        except ValueError:
            pass
        return None

    def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Carry out a call inside.

        Raises:
            ToolError: it failed there, took too long, or no sandbox can be had any more.
        """
        try:
            self._inmate = inmate = self._inmate or self._start()
        except SafetyError as error:
            raise ToolError(f"nothing was run: {error}") from None
        call = {
            "tool": name,
            "arguments": arguments,
            "timeout": context.command_timeout,
            "approved_file": context.approved_file,
        }
        seconds = context.command_timeout + _LATER
        with self._kept_whole(context) as spills:
            return self._answer(
                inmate.exchange(worker_channel.CALL, json.dumps(call).encode(), seconds), spills, context
            )

    @contextmanager
    def _kept_whole(self, context: ToolContext) -> Iterator[Spills]:
        """The spilled files of a call; whatever goes wrong in it ends the worker and removes them."""
        spills = Spills(self._confinement.spill, self._confinement.limits.output, context.redactor)
        whole = False
        try:
            yield spills
            whole = True
        except ToolError:
            whole = True
            raise
        except WorkerLate:
            raise ToolError(
                f"stopped after {context.command_timeout:g} s: it could not be ended alone. {_AFRESH}"
            ) from None
        except (WorkerLost, BadSpill):
            raise ToolError(f"the sandbox ended during this call. {_AFRESH}") from None
        finally:
            if not whole:
                self._end()
            spills.close(keep=whole)

    def _answer(self, replies: Iterator[tuple[bytes, bytes]], spills: Spills, context: ToolContext) -> ToolResult:
        left = self._confinement.limits.output + 4096
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        redacted = context.redactor.open_stream()
        for kind, payload in replies:
            if kind == worker_channel.OUTPUT and len(payload) <= left:
                left -= len(payload)
                tell(context, redacted.feed(decode(payload)))
            elif kind == worker_channel.OPEN:
                spills.open(payload)
            elif kind == worker_channel.SPILL:
                spills.write(payload)
            elif kind == worker_channel.DONE:
                tell(context, redacted.finish())
                return read_result(payload)
            else:
                raise WorkerLost
        raise WorkerLost

    def _end(self) -> None:
        inmate, self._inmate = self._inmate, None
        if inmate is not None:
            inmate.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def tell(context: ToolContext, text: str) -> None:
    """Pass on what a command has said, if anything."""
    if text:
        context.on_output(text)


def read_result(payload: bytes) -> ToolResult:
    """The result that a worker tells of.

    Raises:
        ToolError: it tells of an error.
        WorkerLost: it tells nonsense.
    """
    try:
        told = as_dict(json.loads(payload))
    except (ValueError, RecursionError):
        raise WorkerLost from None
    text, failed, status, error = (told.get(key) for key in ("text", "failed", "exit_status", "error"))
    if isinstance(error, str):
        raise ToolError(error)
    if not isinstance(text, str) or not isinstance(failed, bool):
        raise WorkerLost
    return ToolResult(text, failed, status if type(status) is int and 0 <= status <= 255 else None)
