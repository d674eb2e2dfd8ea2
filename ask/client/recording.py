"""Recordings of requests and answers: JSON Lines files from which scripts are tested without a network.

A request is described by what the model was asked: provider, model, the user's system prompt, messages, names of tools,
options and schema. The description has no ids and no default system prompt, which contains the date and the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ask import errors
from ask.atomic_files import create_private_folder, open_private_file
from ask.client.provider_client import ProviderClient, RequestResult
from ask.config.directories import AppDirs, get_working_directory
from ask.config.redaction import Redactor
from ask.config.symbolic_links import open_for_appending
from ask.config.type_checks import parse_value
from ask.errors import (
    AskError,
    BrokenOutputError,
    ConfigError,
    FileError,
    ProviderError,
    RetryAction,
    RunInterruptedError,
    UnrecordedRequestError,
)
from ask.messages import (
    Citation,
    DecisionAnswer,
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    ReasoningDelta,
    ServerToolCall,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import generate_call_id
from ask.plugin_api.types import ChatRequest, HttpRequest
from ask.process.terminal_identity import read_process_stat
from ask.records import NamedTuple

VERSION = 1
"""The version of the format, in every line."""
DIRECTORY_PLACEHOLDER = "{{directory}}"
"""Stands for the working directory in a recording, so that it applies to other checkouts."""
OVERFLOW_FILE_PATTERN = re.compile(r"/[^\n]*?-[0-9a-f]{16}\.txt")
"""Matches the random name of the file with the rest of a long tool result."""
MAX_STATE_AGE_SECONDS = 86_400.0
"""Seconds after which the counts of a run of a script are deleted."""
COUNTER_BYTES = 4
MAX_DIFFERENCES = 3
EXCERPT_CHARACTERS_BEFORE, EXCERPT_CHARACTERS = 20, 60
"""The characters of a text that an error shows before its first difference, and in total."""
MAX_COMPARED_CHARACTERS = 20_000


class RecordedRequest(NamedTuple):
    """One line of a recording."""

    line_number: int
    request: Mapping[str, Any]
    response: Mapping[str, Any]


class _RecordedCall(NamedTuple):
    """A tool call in a recording; arguments that are not a JSON object are text."""

    name: str
    arguments: str | Mapping[str, Any]


class _RecordedError(NamedTuple):
    """The error of a request in a recording, with the fields of a `ProviderError`."""

    type: str
    message: str
    hint: str = ""
    status: int | None = None
    retry: str = "none"
    delay: float | None = None
    parameter: str | None = None


class _RecordedResponse(NamedTuple):
    """A response in a recording, whose fields are those of a `ModelResponse`."""

    text: str = ""
    commentary: str = ""
    reasoning: str = ""
    tool_calls: tuple[_RecordedCall, ...] = ()
    finish_reason: FinishReason = FinishReason.STOP
    finish_message: str = ""
    usage: Usage = Usage()
    error: _RecordedError | None = None
    citations: tuple[Citation, ...] = ()
    server_calls: tuple[ServerToolCall, ...] = ()
    decisions: tuple[DecisionAnswer, ...] = ()


class DescribingClient(ProviderClient):
    """A client that describes its requests.

    Args:
        file: the recording.
        system: the user's addition to the system prompt.
        output_format: the format of the answer, such as "code"; "" for any.
    """

    def __init__(self, file: str, system: str, output_format: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file = file
        self._system = system
        self._output_format = output_format

    def describe_request(self, request: ChatRequest, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """Describe a request without secrets, as it is compared with others and written to a recording."""
        redact = self.redactor.redact_message
        messages = [_describe_message(redact(message)) for message in request.messages if message.role != "system"]
        description = {
            "provider": self.provider.info.name,
            "model": request.model,
            "system": self.redactor.redact(self._system.strip()),
            "format": self._output_format,
            "messages": [message for message in messages if len(message) > 1],
            "tools": sorted([*(tool.name for tool in tools), *request.server_tools]),
            "options": self.redactor.redact_value(dict(request.options)),
            "schema": request.schema,
        }
        filled = {name: field for name, field in description.items() if field or name == "messages"}
        return json.loads(json.dumps(_replace_directory(filled)))  # type: ignore[no-any-return]  # as it is read back


class RecordingClient(DescribingClient):
    """A client that adds each request and its final result to a recording."""

    def send(
        self, request: ChatRequest, on_delta: Callable[[Delta], None], tools: Sequence[ToolSpec] = ()
    ) -> RequestResult:
        description = self.describe_request(request, tools)
        with _open_recording(self._file):  # the error comes before the answer is paid for
            pass
        result = super().send(request, on_delta, tools)
        if isinstance(result.error, RunInterruptedError | BrokenOutputError):
            self._on_notice(f"the answer was interrupted and is not in {self._file}")
        else:
            _append_record(self._file, description, _describe_result(result, self.redactor))
        return result


class ReplayClient(DescribingClient):
    """A client that answers from a recording and never uses the network."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open_transport = self._get_transport = _refuse_network  # type: ignore[assignment]

    def _open_response(self, request: HttpRequest) -> NoReturn:
        _refuse_network()

    def _send(
        self, request: ChatRequest, on_delta: Callable[[Delta], None], tools: Sequence[ToolSpec], adjusted: int = 0
    ) -> RequestResult:
        prepared = self._prepare(request, tools)
        response = _find_response(self._file, self.describe_request(request, tools))
        try:
            result = _restore_result(response, self.provider.info.name)
        except (TypeError, ValueError, RecursionError) as error:
            raise FileError(f"{self._file} has an invalid answer", "record it again") from error
        result = self.separate_reasoning(prepared, result, is_stream=request.stream)
        try:
            for delta in _split_answer(result, is_stream=request.stream):
                on_delta(delta)
        except AskError as error:
            return result._replace(error=error)
        return result


def _refuse_network() -> NoReturn:
    raise ConfigError("with ASK_REPLAY, only recorded requests are answered", "unset ASK_REPLAY for this command")


# Descriptions


def _describe_message(message: Message) -> dict[str, Any]:
    content = message.content
    if message.role == "tool":
        content = OVERFLOW_FILE_PATTERN.sub("{{file}}", content)
    description = {
        "role": message.role,
        "tool": message.tool_name,
        "content": content,
        "attachments": [
            {"name": file.name, "type": file.media_type, "sha256": hashlib.sha256(file.data).hexdigest()}
            for file in message.attachments
        ],
        "tool_calls": [_describe_call(call) for call in message.tool_calls],
    }
    return {name: field for name, field in description.items() if field}


def _describe_call(call: ToolCall) -> dict[str, Any]:
    """Describe a tool call; arguments that are not a JSON object stay text."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    return {"name": call.name, "arguments": arguments if isinstance(arguments, dict) else call.arguments}


def _describe_result(result: RequestResult, redactor: Redactor) -> Any:
    """Describe a result without secrets."""
    answer = result.answer
    description = {
        "text": result.tagged_text or answer.text,
        "commentary": answer.commentary,
        "reasoning": answer.reasoning,
        "tool_calls": [_describe_call(redactor.redact_call(call)) for call in result.tool_calls],
        "finish_reason": str(answer.finish_reason),
        "finish_message": answer.finish_message,
        "usage": {name: amount for name, amount in answer.usage._asdict().items() if amount is not None},
        "error": redactor.redact_value(_describe_error(result.error)) if result.error else None,
        **{
            name: [
                {field: value for field, value in record._asdict().items() if value is not None} for record in records
            ]
            for name, records in (
                ("citations", answer.citations),
                ("server_calls", answer.server_calls),
                ("decisions", answer.decisions),
            )
        },
    }
    return _replace_directory({name: field for name, field in description.items() if field})


def _describe_error(error: AskError) -> dict[str, Any]:
    description: dict[str, Any] = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
    if isinstance(error, ProviderError):
        action = error.retry_action
        more = {"status": error.status, "retry": action.kind, "delay": action.delay, "parameter": error.parameter}
        description |= {name: value for name, value in more.items() if value not in (None, "none")}
    return description


def _map_strings(value: Any, convert: Callable[[str], str]) -> Any:
    """Convert all strings of a JSON value except object keys."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, Mapping):
        return {name: _map_strings(member, convert) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(item, convert) for item in value]
    return value


def _replace_directory(value: Any) -> Any:
    """Replace the working directory in a JSON value by its placeholder, unless it is the root."""
    directory = str(get_working_directory())
    if len(directory) < 2:
        return value
    pattern = re.compile(rf"{re.escape(directory)}(?![\w-])")
    return _map_strings(value, lambda text: pattern.sub(DIRECTORY_PLACEHOLDER, text))


# Files


def _append_record(file: str, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    """Add a line to a recording, which is created with the user's umask: it is made to be committed.

    Raises:
        FileError: it cannot be written.
    """
    line = json.dumps({"version": VERSION, "request": request, "response": response}, ensure_ascii=False)
    with _open_recording(file) as recording:
        fcntl.flock(recording, fcntl.LOCK_EX)
        recording.write(f"{line}\n".encode("utf-8", "backslashreplace"))
        recording.flush()


@contextmanager
def _open_recording(file: str) -> Iterator[BinaryIO]:
    """Open a recording to append to it.

    Raises:
        FileError: it cannot be written.
    """
    try:
        with open(open_for_appending(file, AppDirs.from_environment(os.environ)), "ab") as recording:
            yield recording
    except OSError as error:
        raise FileError(f"cannot write {file} ({error.strerror})") from error


@cache
def _read_recording(file: str) -> Sequence[RecordedRequest]:
    """Read a recording.

    Raises:
        FileError: it cannot be read, or is not a recording of this version.
    """
    try:
        lines = Path(file).read_bytes().splitlines()
    except OSError as error:
        raise FileError(
            f"cannot read the recording {file} ({error.strerror})", f"ASK_RECORD={file} records requests"
        ) from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if record["version"] != VERSION:
                raise FileError(f"{file}:{number} has version {record['version']}", "record it again")
            records.append(RecordedRequest(number, dict(record["request"]), dict(record["response"])))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileError(f"{file}:{number} is not a recorded request", "record it again") from error
    return records


def find_recorded_provider(file: str) -> str:
    """Return the provider of the first request in a recording; "" if it is empty."""
    records = _read_recording(file)
    return str(records[0].request.get("provider", "")) if records else ""


def find_recorded_model(file: str, provider: str) -> str:
    """Return the model of the first request to a provider in a recording; "" if there is none."""
    requests = (record.request for record in _read_recording(file))
    return next((str(request.get("model", "")) for request in requests if request.get("provider") == provider), "")


def _find_response(file: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recorded response to a request; each answers once in a run of a script, in the recorded order.

    Raises:
        UnrecordedRequestError: it was not recorded, or not as often as it was sent.
    """
    records = _read_recording(file)
    matching = [record for record in records if record.request == request]
    if not matching:
        raise UnrecordedRequestError(
            f"{file} has no answer to this request{_describe_nearest(records, request)}",
            f"record it with ASK_RECORD={file}",
        )
    position = _count_request(file, matching[0].line_number)
    if position >= len(matching):
        prompt = next((message["content"] for message in reversed(request["messages"]) if "content" in message), "")
        raise UnrecordedRequestError(
            f"this run has used every answer to {_format_excerpt(prompt, '')} in {file};"
            f" the last was line {matching[-1].line_number}",
            "record the script again, or add answers by copying lines",
        )
    return matching[position].response


def _count_request(file: str, line_number: int) -> int:
    """Count a request, first recorded in that line; return how often this run of a script has sent it before.

    Raises:
        FileError: the count cannot be stored.
    """
    folder = AppDirs.from_environment(os.environ).cache / "replay"
    name = hashlib.sha256(f"{os.path.realpath(file)}\n{_identify_run()}".encode()).hexdigest()[:16]
    try:
        create_private_folder(folder)
        for old_file in folder.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - old_file.stat().st_mtime > MAX_STATE_AGE_SECONDS:
                    old_file.unlink()
        # One counter per line of the recording: a job of many rows updates it for each.
        descriptor = open_private_file(folder / name, os.O_RDWR)
        with open(descriptor, "r+b", buffering=0) as counters:
            fcntl.flock(counters, fcntl.LOCK_EX)
            counters.seek(COUNTER_BYTES * line_number)
            count = int.from_bytes(counters.read(COUNTER_BYTES), "little")
            counters.seek(COUNTER_BYTES * line_number)
            counters.write((count + 1).to_bytes(COUNTER_BYTES, "little"))
    except OSError as error:
        raise FileError(f"cannot write {folder} ({error.strerror})") from error
    return count


def _identify_run() -> str:
    """Return the process that a run of a script began with, as its id and start time.

    This is the outermost ancestor that was started with the same ASK_REPLAY. If there is none, because the script
    sets the variable itself, it is the leader of the process group; also where there is no /proc.
    """
    variable = b"ASK_REPLAY=" + os.fsencode(os.environ.get("ASK_REPLAY", ""))
    process, ancestor = os.getpgrp(), os.getppid()
    with suppress(OSError, IndexError):  # it belongs to another user, or has just ended
        while variable in Path(f"/proc/{ancestor}/environ").read_bytes().split(b"\0"):
            process = ancestor
            ancestor = int(read_process_stat(str(process))[1])  # the parent, field 4 of proc(5)
    # The start time tells a process from an earlier one with the same id.
    return " ".join((str(process), *read_process_stat(str(process))[19:20]))


# Differences


def _describe_nearest(records: Sequence[RecordedRequest], request: Mapping[str, Any]) -> str:
    """Describe how the most similar recorded request differs from a request."""
    if not records:
        return ": it is empty"
    matcher = SequenceMatcher(b=json.dumps(request, ensure_ascii=False)[-MAX_COMPARED_CHARACTERS:], autojunk=False)

    def measure_distance(record: RecordedRequest) -> tuple[int, bool, float]:
        matcher.set_seq1(json.dumps(record.request, ensure_ascii=False)[-MAX_COMPARED_CHARACTERS:])
        has_other_messages = record.request.get("messages") != request["messages"]
        return len([*_iter_differences(record.request, request)]), has_other_messages, -matcher.quick_ratio()

    nearest = min(records, key=measure_distance)
    parts = [*_iter_differences(nearest.request, request)]
    more = f" and {len(parts) - MAX_DIFFERENCES} more" if len(parts) > MAX_DIFFERENCES else ""
    return f"; the most similar is line {nearest.line_number}, where {'; '.join(parts[:MAX_DIFFERENCES])}{more}"


def _iter_differences(recorded: Any, asked: Any, path: str = "") -> Iterator[str]:
    """Yield the places where two JSON values differ, each with both values."""
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        for name in dict.fromkeys((*recorded, *asked)):
            yield from _iter_differences(recorded.get(name), asked.get(name), f"{path}.{name}" if path else name)
    elif path == "tools":
        old, new = set(recorded or ()), set(asked or ())
        for label, names in (("additional", new - old), ("missing", old - new)):
            if names:
                yield f"{label} tools are {', '.join(sorted(names))}"
    elif isinstance(recorded, list) and isinstance(asked, list):
        for index, (left, right) in enumerate(zip_longest(recorded, asked)):
            yield from _iter_differences(left, right, f"{path}[{index}]")
    elif recorded != asked:
        yield f"{path} is {_format_excerpt(asked, recorded)} instead of the recorded {_format_excerpt(recorded, asked)}"


def _format_excerpt(value: Any, other: Any) -> str:
    """Format a value as JSON, cut to the part that begins to differ from the other value."""
    if value is None:
        return "missing"
    text, other_text = (json.dumps(each, ensure_ascii=False) for each in (value, other))
    start = max(0, len(os.path.commonprefix([text, other_text])) - EXCERPT_CHARACTERS_BEFORE)  # noqa: RUF071 - not a path
    excerpt = text[start : start + EXCERPT_CHARACTERS]
    return ("…" if start else "") + excerpt + ("…" if start + EXCERPT_CHARACTERS < len(text) else "")


# Results


def _restore_result(response: Mapping[str, Any], provider: str) -> RequestResult:
    """Return the result that a response in a recording describes. Its calls get new ids.

    Raises:
        ValueError: a field has the wrong type: recordings are edited by hand.
    """
    directory = str(get_working_directory())
    response = _map_strings(response, lambda text: text.replace(DIRECTORY_PLACEHOLDER, directory))
    recorded = parse_value(response, _RecordedResponse)
    answer = ModelResponse(
        recorded.text,
        recorded.reasoning,
        recorded.finish_reason,
        recorded.usage,
        finish_message=recorded.finish_message,
        citations=recorded.citations,
        server_calls=recorded.server_calls,
        decisions=recorded.decisions,
        commentary=recorded.commentary,
    )
    calls = []
    for name, arguments in recorded.tool_calls:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(ToolCall(generate_call_id(), name, text))
    return RequestResult(answer, tuple(calls), _restore_error(recorded.error, provider) if recorded.error else None)


def _restore_error(recorded: _RecordedError, provider: str) -> AskError:
    if recorded.type == ProviderError.__name__:
        action = RetryAction(recorded.retry, recorded.delay)
        parameter = recorded.parameter
        error = ProviderError(recorded.message, recorded.status, action, hint=recorded.hint, parameter=parameter)
        error.provider = provider
        return error
    error_class = getattr(errors, recorded.type, AskError)
    restored: AskError = error_class(recorded.message, recorded.hint)
    return restored


def _split_answer(result: RequestResult, *, is_stream: bool) -> Iterator[Delta]:
    """Yield an answer as deltas: word by word if it is streamed."""
    answer = result.answer
    yield from map(ServerToolDelta, answer.server_calls)
    for delta_type, text in ((ReasoningDelta, answer.reasoning), (TextDelta, answer.text)):
        for chunk in re.findall(r"\s*\S+\s*|\s+", text) if is_stream else filter(None, [text]):
            yield delta_type(chunk)
    for index, call in enumerate(result.tool_calls if is_stream else ()):
        yield ToolCallDelta(index, call.name)
