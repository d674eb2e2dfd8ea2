"""Providers with one mistake each, and how `ask.testing` reports it.

A faulty provider states in `fails` the test that must fail, and in `says` a regular expression for its message.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import signature
from types import ModuleType
from typing import Any, NamedTuple

from ask import (
    ChatCompletions,
    ChatRequest,
    Delta,
    FinishReason,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    ProviderError,
    RawEvent,
    RetryAction,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from ask.parsing import generate_call_id, parse_json, read_dict
from ask.plugin_api.chat_completions import ChatStreamReader
from tests.native_provider import INFO, SUITE, Wren, WrenReader, make_module


class Service(ChatCompletions):
    """A correct Chat Completions provider that sends reasoning back and accepts images."""

    suite: Mapping[str, Any] = {}
    reader = ChatStreamReader
    state_fields = ("reasoning_content",)

    def __init__(self) -> None:
        super().__init__(
            name="service",
            base_url="https://api.example.com/v1",
            key_env="SERVICE_API_KEY",
            attachments=("image/png", "image/jpeg"),
        )

    def provider_stream_reader(self) -> ChatStreamReader:
        return self.reader()


class Faulty:
    """The base class of providers with a mistake; its subclasses also inherit from a correct provider."""

    fails = ""
    says = ""


class Mistake(NamedTuple):
    """A change to what a hook of correct providers takes or returns, and how `ask.testing` reports it."""

    says: str
    change: Callable[..., Any]
    bases: Sequence[type] = (Service, Wren)


Planter = Callable[[Callable[..., Any], Callable[..., Any]], Callable[..., Any]]
"""Makes a faulty hook from the correct one and a change."""


def change_argument(correct: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook whose first argument is changed."""

    @wraps(correct)
    def hook(*arguments: Any, **named: Any) -> Any:
        bound = signature(correct).bind(*arguments, **named)
        name = list(bound.arguments)[1]
        bound.arguments[name] = change(bound.arguments[name])
        return correct(*bound.args, **bound.kwargs)

    return hook


def change_result(correct: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook whose result is changed."""
    return wraps(correct)(lambda *arguments, **named: change(correct(*arguments, **named)))


def change_deltas(correct: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    """Return `provider_stream_reader` with a reader whose deltas are changed."""

    def hook(self: Provider) -> Any:
        reader = correct(self)
        reader.feed = change_result(reader.feed, change)
        return reader

    return hook


def replace(correct: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    """Return what is used in place of a correct method."""
    return wraps(correct)(change)


def plant(mistakes: Iterable[tuple[Planter, str, Mapping[str, Mapping[str, Mistake]]]]) -> dict[str, Any]:
    """Return a faulty provider for each mistake in a hook and each correct provider that it is planted in.

    The mistakes in a hook are grouped by the test that fails.
    """
    return {
        f"{name}In{base.__name__}": type(
            f"{name}In{base.__name__}",
            (base,),
            {"fails": fails, "says": mistake.says, hook: planter(getattr(base, hook), mistake.change)},
        )()
        for planter, hook, by_test in mistakes
        for fails, by_name in by_test.items()
        for name, mistake in by_name.items()
        for base in mistake.bases
    }


def change_messages(request: ChatRequest, change: Callable[[Message], Message]) -> ChatRequest:
    return request._replace(messages=[change(message) for message in request.messages])


def keep_messages(request: ChatRequest, is_kept: Callable[[Message], bool]) -> ChatRequest:
    return request._replace(messages=list(filter(is_kept, request.messages)))


def change_body(request: HttpRequest, **fields: Any) -> HttpRequest:
    return request._replace(body={**(request.body or {}), **fields})


def move_results(request: ChatRequest, step: int = 1) -> ChatRequest:
    """Move the results of tools to the end; with a step of -1, in reverse order."""
    head = [message for message in request.messages if message.role != "tool"]
    tail = [message for message in request.messages if message.role == "tool"]
    return request._replace(messages=[*head, *tail[::step]])


# Structure: one failure each, and no other test runs


class ClassInsteadOfInstance(Faulty, Wren):
    fails, says = "test_provider_can_be_loaded", r"ClassInsteadOfInstance is a class.*instance"


class NotAProvider(Faulty):
    suite = SUITE
    fails, says = "test_provider_can_be_loaded", r"instance of ask\.Provider"


class MisspelledHook(Faulty, Service):
    fails, says = "test_provider_can_be_loaded", r"provider_parse_eror.*did you mean provider_parse_error"

    def provider_parse_eror(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError("no", status)


class MisspelledRequiredHook(Faulty, Provider):
    suite = SUITE
    fails, says = "test_provider_can_be_loaded", r"provider_build_requests.*did you mean provider_build_request"

    def __init__(self) -> None:
        super().__init__(INFO)

    provider_stream_reader = Wren.provider_stream_reader
    provider_parse_response = Wren.provider_parse_response
    provider_parse_tool_calls = Wren.provider_parse_tool_calls
    provider_format_tool_result = Wren.provider_format_tool_result
    provider_build_requests = Wren.provider_build_request


class MisspelledPrefix(Faulty, Wren):
    fails, says = "test_provider_can_be_loaded", r"providers_parse_error.*did you mean provider_parse_error"

    def providers_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError("no", status)


class MissingHook(Faulty, Provider):
    suite = SUITE
    fails, says = (
        "test_provider_can_be_loaded",
        r"provider_stream_reader.*missing|missing.*provider_stream_reader",
    )

    def __init__(self) -> None:
        super().__init__(INFO)

    provider_build_request = Wren.provider_build_request
    provider_parse_response = Wren.provider_parse_response
    provider_parse_tool_calls = Wren.provider_parse_tool_calls
    provider_format_tool_result = Wren.provider_format_tool_result


class RenamedParameter(Faulty, Service):
    fails, says = "test_provider_can_be_loaded", r"provider_build_request has the parameter req.*did you mean request"

    def provider_build_request(self, req: ChatRequest, key: str) -> HttpRequest:
        return super().provider_build_request(req, key)


class RenamedToolParameter(Faulty, Wren):
    fails, says = "test_provider_can_be_loaded", r"provider_format_tool_result has the parameter call_id"

    def provider_format_tool_result(self, call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return super().provider_format_tool_result(call_id, tool_name, result)


class DefaultValue(Faulty, Wren):
    fails, says = "test_provider_can_be_loaded", r"provider_build_request.*key.*default"

    def provider_build_request(self, request: ChatRequest, key: str = "") -> HttpRequest:
        return super().provider_build_request(request, key)


class MissingToolHook(Faulty, Service):
    fails, says = "test_provider_can_be_loaded", r"missing.*provider_parse_tool_calls"
    provider_parse_tool_calls = Provider.provider_parse_tool_calls


class SlashAtTheEnd(Faulty, Service):
    fails, says = "test_info_is_valid", r"base_url.*/v1/"

    def __init__(self) -> None:
        super().__init__()
        self.info = self.info._replace(base_url="https://api.example.com/v1/")


class KeyEnvIsText(Faulty, Wren):
    fails, says = "test_provider_can_be_loaded", r"key_env.*tuple"

    def __init__(self) -> None:
        super().__init__(INFO._replace(key_env="WREN_API_KEY"))  # type: ignore[arg-type]


class PrintsInHook(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"printed in provider_build_request: building"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        print("building")  # noqa: T201
        return super().build_body(request)


class PrintsInReader(Faulty, Service):
    fails, says = "test_hooks_return_the_documented_types", r"printed in feed.*RawEvent"

    class reader(ChatStreamReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            print(event)  # noqa: T201
            return super().feed(event)


class KeyOnStderr(Faulty, Service):
    fails, says = "test_hooks_return_the_documented_types", r"provider_build_request printed the API key"

    def build_headers(self, key: str) -> dict[str, str]:
        print("using", key, file=sys.stderr)  # noqa: T201
        return super().build_headers(key)


class NetworkInHook(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"provider_supports_tools.*network"

    def provider_supports_tools(self, model: str) -> bool:
        with socket.socket() as connection:
            connection.settimeout(0.1)
            return connection.connect_ex(("127.0.0.1", 9)) != 1


class SwallowedNetworkInHook(Faulty, Service):
    fails, says = "test_hooks_return_the_documented_types", r"provider_build_request.*network"

    def build_headers(self, key: str) -> dict[str, str]:
        with suppress(OSError):
            socket.create_connection(("localhost", 9), 0.1).close()
        return super().build_headers(key)


class SleepInHook(Faulty, Service):
    fails, says = "test_hooks_return_the_documented_types", r"provider_parse_response.*(waited|sleep)"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        time.sleep(0.1)
        return super().provider_parse_response(response)


class EndlessHook(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"provider_format_tools.*longer than"

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        threading.Event().wait(60)
        return super().provider_format_tools(tools)


class ExitsInHook(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"provider_supports_attachment failed with SystemExit"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        sys.exit(3)


class ErrorRaisedNotReturned(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"provider_parse_error raised.*[Rr]eturn"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        raise super().provider_parse_error(status, headers, body)


class HttpErrorSwallowed(Faulty, Service):
    fails, says = "test_hooks_return_the_documented_types", r"provider_parse_error.*ProviderError.*None"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> Any:
        return None


class AnswerOfNativeReaderLost(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"response.*dict.*None"

    class reader(WrenReader):  # noqa: N801
        def response(self) -> Any:
            return None


# Requests


class ToolsFormattedAgain(Faulty, Service):
    fails, says = "test_formatted_tools_are_sent_unchanged", r"provider_format_tools.*request\.tools"
    tools: Sequence[Mapping[str, Any]] = ()

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        formatted = super().provider_format_tools(tools)
        self.tools = formatted
        return formatted

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(tools=self.tools) if request.tools else request)


class DescriptionsDropped(Faulty, Service):
    fails, says = "test_formatted_tools_are_complete", r"description.*look_up"

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [{"name": tool.name, "parameters": dict(tool.parameters)} for tool in tools]


class ResultUnnamed(Faulty, Service):
    fails, says = "test_tool_result_names_its_call", r"call_1"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "content": result}


class ResultNamesTheTool(Faulty, Service):
    fails, says = "test_tool_result_names_its_call", r"tool_call_id.*'look_up'|'look_up'.*tool_call_id"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": tool_name, "content": result}


class NativeResultNamesTheTool(Faulty, Wren):
    fails, says = "test_tool_result_names_its_call", r"tool_call_id.*'look_up'|'look_up'.*tool_call_id"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return super().provider_format_tool_result(tool_name, tool_name, result)


class ResultTruncated(Faulty, Wren):
    fails, says = "test_tool_result_names_its_call", r"result.*complete"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return super().provider_format_tool_result(tool_call_id, tool_name, result[:10])


class ResultFormattedAgain(Faulty, Service):
    fails, says = "test_formatted_results_are_sent_unchanged", r"formatted_result"

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        if message.role == "tool":
            return self.provider_format_tool_result(message.tool_call_id, message.tool_name, message.content)
        return super().format_message(message, model)


class ArgumentsSentAsDict(Faulty, Service):
    fails, says = "test_tool_calls_are_sent_back", r"arguments.*JSON text"

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        formatted = super().format_message(message, model)
        for call in formatted.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return formatted


class ArgumentsSentAsText(Faulty, Wren):
    fails, says = "test_tool_calls_are_sent_back", r"arguments.*object"

    def format_call(self, call: ToolCall) -> dict[str, Any]:
        return super().format_call(call) | {"with": call.arguments}


class ArgumentsTrusted(Faulty, Service):
    fails, says = "test_malformed_arguments_in_the_history_are_accepted", r"JSONDecodeError|arguments"

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        for call in message.tool_calls:
            json.loads(call.arguments)
        return super().format_message(message, model)


class ResultAttachmentsDropped(Faulty, Wren):
    fails, says = "test_files_of_tool_results_are_sent_once", r"provider_supports_result_attachment.*image/png.*lacks"

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return True


class ResultAttachmentsMoved(Faulty, Service):
    fails, says = "test_files_of_tool_results_are_sent_once", r"order"

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return True

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        files = tuple(file for m in request.messages if m.role == "tool" for file in m.attachments)
        moved = Message("user", "Files.", attachments=files)
        emptied = [m._replace(attachments=()) if m.role == "tool" else m for m in request.messages]
        messages = [*emptied, moved] if files else request.messages
        return super().build_body(request._replace(messages=messages))


class EveryFileAccepted(Faulty, Service):
    fails, says = "test_unknown_attachments_are_not_supported", r"application/x-unknown"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return True


class KeyInBody(Faulty, Service):
    fails, says = "test_key_is_sent_only_in_a_header", r"API key.*body"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request) | {"api_key": self.key}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        self.key = key
        return super().provider_build_request(request, key)


class KeyInUrl(Faulty, Wren):
    fails, says = "test_key_is_sent_only_in_a_header", r"API key.*path"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return super().provider_build_request(request, key)._replace(path=f"/talk?key={key}")


class KeyInModelsUrl(Faulty, Service):
    fails, says = "test_key_is_sent_only_in_a_header", r"API key.*path"

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest(f"/models?key={key}", None, self.build_headers(key), "GET")


class KeyNotSent(Faulty, Service):
    fails, says = "test_key_is_sent_only_in_a_header", r"no header"

    def build_headers(self, key: str) -> dict[str, str]:
        return {}


class EmptyToken(Faulty, Service):
    fails, says = "test_no_header_is_sent_for_an_empty_key", r"Authorization"

    def build_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}


class RandomRequest(Faulty, Service):
    fails, says = "test_same_conversation_builds_the_same_request", r"differ"
    count = itertools.count()

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return {**super().build_body(request), "user": f"request {next(self.count)}"}


class PrefixChanged(Faulty, Service):
    fails, says = "test_longer_conversation_extends_the_shorter_one", r"prefix"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        body["messages"][0]["content"] += f" This is message {len(request.messages)}."
        return body


class ModelsPosted(Faulty, Service):
    fails, says = "test_models_request_is_a_get", r"POST"

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.build_headers(key))


# Provider state


# Answers


class CumulativeDeltas(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"Hello, Hello, "

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            text = self.answer["text"]
            return [TextDelta(text) if isinstance(delta, TextDelta) else delta for delta in deltas]


class EndNotSeen(Faulty, Service):
    fails, says = "test_streamed_answer_is_parsed", r"complete"

    class reader(ChatStreamReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = False
            return deltas


class CutNotSeen(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"complete"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = bool(self.answer["text"])
            return deltas


class ParallelCallsMerged(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"calls"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            calls = self.answer["calls"]
            if len(calls) > 1:
                calls[:] = [read_dict(calls[0]) | {"with": read_dict(calls[0]).get("with")}]
            return deltas


class IdsLostInStream(Faulty, Wren):
    fails, says = "test_call_ids_are_those_of_the_service", r"stream.*w-2"

    class reader(WrenReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            calls = [read_dict(call) | {"ref": ""} for call in self.answer["calls"]]
            return self.answer | {"calls": calls}


class UsageOnlyStreamed(Faulty, Service):
    fails, says = "test_usage_is_reported", r"without streaming|unstreamed"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        return answer if response.get("object") else answer._replace(usage=Usage())


class UsageOnlyUnstreamed(Faulty, Wren):
    fails, says = "test_usage_is_reported", r"stream"

    class reader(WrenReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            return {name: self.answer[name] for name in self.answer if name != "tokens"}


class FormsDiffer(Faulty, Service):
    fails, says = "test_both_forms_of_an_answer_are_parsed_alike", r"provider_state|usage"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        return answer if response.get("object") else answer._replace(usage=answer.usage + answer.usage)


class SharedReader(Faulty, Service):
    fails, says = "test_stream_readers_are_independent", r"new stream reader"
    shared = ChatStreamReader()

    def provider_stream_reader(self) -> ChatStreamReader:
        return self.shared


class SharedReaderState(Faulty, Wren):
    fails, says = "test_hooks_return_the_documented_types", r"unique ids"

    class reader(WrenReader):  # noqa: N801
        shared: dict[str, Any] = {"text": "", "thought": "", "calls": []}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            self.answer = self.shared

        def feed(self, event: RawEvent) -> list[Delta]:
            self.answer.pop("end", None)
            return super().feed(event)


# Errors


class StreamErrorIgnored(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"error.*ProviderError"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        return super().provider_parse_response({name: response[name] for name in response if name != "fault"})


class StreamErrorIgnoredInChat(Faulty, Service):
    fails, says = "test_streamed_answer_is_parsed", r"error.*ProviderError"

    def find_response_error(self, response: Mapping[str, Any], answer: ModelResponse) -> ProviderError | None:
        return None


class TextBeforeErrorLost(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"partial_response"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        try:
            return super().provider_parse_response(response)
        except ProviderError as error:
            error.partial_response = None
            raise


class ErrorTextSwallowed(Faulty, Wren):
    fails, says = "test_error_contains_the_message_of_the_service", r"overloaded"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError(
            "the request failed", status, super().provider_parse_error(status, headers, body).retry_action
        )


class RefusalRetried(Faulty, Service):
    fails, says = "test_rejected_requests_are_not_retried", r"400.*retry"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.retry_action = RetryAction.retry()
        return error


class TooManyRequestsNotRetried(Faulty, Wren):
    fails, says = "test_temporary_errors_are_retried", r"429.*retr"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.retry_action = RetryAction.NONE
        return error


class RetryAfterIgnored(Faulty, Service):
    fails, says = "test_temporary_errors_are_retried", r"Retry-After"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return super().provider_parse_error(status, {}, body)


class StatusLost(Faulty, Service):
    fails, says = "test_error_keeps_its_status", r"status"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return super().provider_parse_error(500, headers, body)


class ErrorOfManyLines(Faulty, Service):
    fails, says = "test_error_message_is_one_line_without_the_key", r"one line"

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return ProviderError(body or "empty", status)


class KeyInError(Faulty, Service):
    fails, says = "test_error_message_is_one_line_without_the_key", r"API key"
    used = ""

    def build_headers(self, key: str) -> dict[str, str]:
        self.used = key
        return super().build_headers(key)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.message = f"{error.message} (with the key {self.used})"
        return error


class KeyInHint(Faulty, Wren):
    fails, says = "test_error_message_is_one_line_without_the_key", r"API key"
    used = ""

    def build_headers(self, key: str) -> dict[str, str]:
        self.used = key
        return super().build_headers(key)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.hint = f"check {self.used}"
        return error


class ResponseTrusted(Faulty, Service):
    fails, says = "test_values_of_wrong_types_in_a_response_are_handled", r"KeyError|TypeError|IndexError"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        response["choices"][0]["message"]["content"]
        return answer


class EventsTrusted(Faulty, Wren):
    fails, says = "test_malformed_events_are_handled", r"JSONDecodeError"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            json.loads(event.data)
            return super().feed(event)


class ModelsTrusted(Faulty, Wren):
    fails, says = "test_values_of_wrong_types_in_a_models_list_are_handled", r"TypeError|KeyError|AttributeError"

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        return [ModelInfo(model["name"]) for model in body["models"]]


class PrintsOnGarbage(Faulty, Wren):
    fails, says = "test_malformed_events_are_handled", r"printed in feed.*bad event"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            if parse_json(event.data) is None:
                print("bad event", file=sys.stderr)  # noqa: T201
            return super().feed(event)


# Hooks whose argument or result is changed


def drop_first_results(request: ChatRequest) -> ChatRequest:
    dropped = [message for message in request.messages if message.role == "tool"][1:]
    return keep_messages(request, lambda message: message not in dropped)


def drop_earlier_attachments(request: ChatRequest) -> ChatRequest:
    last = request.messages[-1]
    return change_messages(request, lambda message: message if message is last else message._replace(attachments=()))


def drop_user_messages_after_results(request: ChatRequest) -> ChatRequest:
    roles = [None, *(message.role for message in request.messages)]
    pairs = zip(request.messages, roles, strict=False)
    kept = [message for message, previous in pairs if (message.role, previous) != ("user", "tool")]
    return request._replace(messages=kept)


REQUEST_MISTAKES = {
    "test_request_contains_each_message_once": {
        "SystemPromptDropped": Mistake(
            r"system prompt", lambda request: keep_messages(request, lambda message: message.role != "system")
        ),
    },
    "test_request_depends_on_stream": {
        "StreamIgnored": Mistake(r"stream", lambda request: request._replace(stream=True)),
    },
    "test_options_are_sent": {
        "OptionsDropped": Mistake(r"temperature.*options", lambda request: request._replace(options={})),
    },
    "test_tools_are_sent_only_when_offered": {
        "ToolsNotSent": Mistake(r"look_up.*request\.tools", lambda request: request._replace(tools=())),
    },
    "test_tool_choice_changes_the_request": {
        "ToolChoiceIgnored": Mistake(r"tool_choice", lambda request: request._replace(tool_choice="auto")),
    },
    "test_schema_changes_the_request": {
        "SchemaIgnored": Mistake(r"schema", lambda request: request._replace(schema=None)),
    },
    "test_each_tool_result_is_sent_once": {
        "ResultDropped": Mistake(r"tool result.*0 times", drop_first_results, [Service]),
        "ResultDoubled": Mistake(
            r"tool result.*2 times",
            lambda request: request._replace(
                messages=[each for each in request.messages for _ in range(2 if each.role == "tool" else 1)]
            ),
            [Wren],
        ),
        "ResultsSwapped": Mistake(r"order", lambda request: move_results(request, -1), [Service]),
    },
    "test_tool_calls_are_sent_back": {
        "CallDropped": Mistake(
            r"call",
            lambda request: change_messages(
                request, lambda message: message._replace(tool_calls=message.tool_calls[:1])
            ),
            [Wren],
        ),
    },
    "test_supported_attachments_are_sent_once": {
        "AttachmentsDropped": Mistake(
            r"image/png.*0 times",
            lambda request: change_messages(request, lambda message: message._replace(attachments=())),
        ),
        "EarlierAttachmentsDropped": Mistake(r"image/png.*0 times", drop_earlier_attachments, [Service]),
    },
    "test_files_of_tool_results_are_sent_once": {
        "UserMessageAfterResultsDropped": Mistake(r"image/png.*0 times", drop_user_messages_after_results, [Service]),
    },
    "test_several_attachments_keep_their_order": {
        "AttachmentsReversed": Mistake(
            r"order",
            lambda request: change_messages(
                request, lambda message: message._replace(attachments=message.attachments[::-1])
            ),
            [Service],
        ),
    },
}
BUILT_REQUEST_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "RequestAsDict": Mistake(r"provider_build_request.*HttpRequest.*dict", lambda built: built._asdict(), [Wren]),
        "RequestNotJson": Mistake(
            r"provider_build_request.*JSON", lambda built: change_body(built, modalities={"text"}), [Service]
        ),
    },
    "test_request_names_the_model": {
        "ModelIgnored": Mistake(r"model.*ChatRequest.model", lambda built: change_body(built, model="wren-1"), [Wren]),
    },
}
RESPONSE_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "RawFinishReason": Mistake(
            r"finish_reason.*'stop'.*FinishReason",
            lambda answer: answer._replace(finish_reason=str(answer.finish_reason)),
        ),
    },
    "test_result_is_sent_back_with_the_provider_state": {
        "StateNotParsed": Mistake(r"provider_state", lambda answer: answer._replace(provider_state=None)),
        "StateOfAnotherName": Mistake(
            r"provider='Wren'.*own name",
            lambda answer: answer._replace(
                provider_state=answer.provider_state and answer.provider_state._replace(provider="Wren")
            ),
            [Wren],
        ),
    },
    "test_streamed_answer_is_parsed": {
        "ReasoningInText": Mistake(
            r"reasoning", lambda answer: answer._replace(text=answer.reasoning + answer.text, reasoning=""), [Wren]
        ),
    },
    "test_unstreamed_answer_is_parsed": {
        "WrongFinishReason": Mistake(
            r"finish_reason.*LENGTH", lambda answer: answer._replace(finish_reason=FinishReason.STOP)
        ),
        "TextBesideCallDropped": Mistake(
            r"text.*Hello",
            lambda answer: answer._replace(text="") if answer.finish_reason == FinishReason.TOOL_CALLS else answer,
        ),
    },
    "test_usage_is_reported": {
        "UsageMissing": Mistake(r"usage", lambda answer: answer._replace(usage=Usage())),
        "UsageSwapped": Mistake(
            r"swapped",
            lambda answer: answer._replace(usage=Usage(answer.usage.output_tokens, answer.usage.input_tokens)),
        ),
    },
}
CALL_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "ArgumentsAsDict": Mistake(
            r"provider_parse_tool_calls.*arguments is the dict.*str",
            lambda calls: [call._replace(arguments=json.loads(call.arguments)) for call in calls],
        ),
        "CallsAsDicts": Mistake(
            r"provider_parse_tool_calls.*ToolCall.*dict", lambda calls: [call._asdict() for call in calls], [Wren]
        ),
        "SharedIds": Mistake(r"unique ids", lambda calls: [call._replace(id="call") for call in calls], [Wren]),
        "LostIds": Mistake(r"unique ids", lambda calls: [call._replace(id="") for call in calls], [Service]),
    },
    "test_unstreamed_answer_is_parsed": {
        "ParallelCallsDropped": Mistake(r"calls", lambda calls: calls[:1], [Service]),
    },
    "test_call_ids_are_those_of_the_service": {
        "RandomIds": Mistake(r"w-2|call_1", lambda calls: [call._replace(id=generate_call_id()) for call in calls]),
        "NumberedIds": Mistake(
            r"w-2", lambda calls: [call._replace(id=str(number)) for number, call in enumerate(calls)], [Wren]
        ),
    },
}
MODEL_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "ModelsAsDicts": Mistake(
            r"provider_parse_models.*ModelInfo.*dict", lambda models: [model._asdict() for model in models]
        ),
    },
}
DELTA_MISTAKES = {
    "test_streamed_answer_is_parsed": {
        "NoTextDeltas": Mistake(
            r"TextDelta", lambda deltas: [delta for delta in deltas if not isinstance(delta, TextDelta)]
        ),
        "DoubledDeltas": Mistake(r"Hello, Hello, ", lambda deltas: [delta for delta in deltas for _ in range(2)]),
        "NoCallDeltas": Mistake(
            r"ToolCallDelta", lambda deltas: [delta for delta in deltas if hasattr(delta, "text")], [Wren]
        ),
        "ReasoningInTextDeltas": Mistake(
            r"ReasoningDelta",
            lambda deltas: [TextDelta(delta.text) if hasattr(delta, "text") else delta for delta in deltas],
            [Service],
        ),
    },
    "test_hooks_return_the_documented_types": {
        "TextAsDelta": Mistake(
            r"feed.*TextDelta.*str",
            lambda deltas: [delta.text if isinstance(delta, TextDelta) else delta for delta in deltas],
            [Wren],
        ),
    },
}


def find_state_of_any_family(provider: Provider, message: Message, model: str) -> Mapping[str, Any]:
    state = message.provider_state
    return state.data if state and state.provider == provider.info.name else {}


STATE_MISTAKES = {
    "test_result_is_sent_back_with_the_provider_state": {
        "StateNeverSentBack": Mistake(r"provider_state", lambda *_: {}),
    },
    "test_state_is_not_sent_to_another_provider": {
        "StateSentToAnotherProvider": Mistake(
            r"another provider", lambda _, message, model: message.provider_state.data if message.provider_state else {}
        ),
    },
    "test_state_is_not_sent_to_another_model_family": {
        "StateSentToAnotherFamily": Mistake(r"family", find_state_of_any_family),
    },
}
PLANTED = plant(
    (
        (change_argument, "provider_build_request", REQUEST_MISTAKES),
        (change_result, "provider_build_request", BUILT_REQUEST_MISTAKES),
        (change_result, "provider_parse_response", RESPONSE_MISTAKES),
        (change_result, "provider_parse_tool_calls", CALL_MISTAKES),
        (change_result, "provider_parse_models", MODEL_MISTAKES),
        (change_deltas, "provider_stream_reader", DELTA_MISTAKES),
        (replace, "find_provider_state", STATE_MISTAKES),
    )
)


# Modules


def list_faulty_modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield modules with a mistake, with their `fails` and `says`."""
    mistakes: dict[str, tuple[str, str, Any]] = {
        "ModuleWithoutInfo": ("test_provider_can_be_loaded", "provider_info", ("provider_info", None)),
        "ModuleWithMisspelledHook": (
            "test_provider_can_be_loaded",
            "provider_parse_modles.*did you mean provider_parse_models",
            ("provider_parse_modles", lambda body: []),
        ),
        "ModuleWithRenamedParameter": (
            "test_provider_can_be_loaded",
            "provider_supports_tools has the parameter name",
            ("provider_supports_tools", lambda name: True),
        ),
        "ModuleThatPrints": (
            "test_hooks_return_the_documented_types",
            "printed in provider_format_tools",
            ("provider_format_tools", lambda tools: print(tools) or []),  # noqa: T201
        ),
        "ModuleThatDropsCalls": (
            "test_unstreamed_answer_is_parsed",
            "calls",
            ("provider_parse_tool_calls", lambda response: []),
        ),
    }
    for name, (fails, says, (hook, function)) in mistakes.items():
        module = make_module(Wren())
        if function is None:
            delattr(module, hook)
        else:
            setattr(module, hook, function)
        module.fails, module.says, module.suite = fails, says, SUITE  # type: ignore[attr-defined]
        yield name, module


FAULTY_CLASSES = {
    faulty.__name__: faulty
    for faulty in list(globals().values())
    if isinstance(faulty, type) and issubclass(faulty, Faulty) and faulty is not Faulty
}
FAULTY_PROVIDERS: dict[str, Any] = {
    **{name: faulty if faulty is ClassInsteadOfInstance else faulty() for name, faulty in FAULTY_CLASSES.items()},
    **PLANTED,
    **dict(list_faulty_modules()),
}
