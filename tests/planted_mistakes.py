"""Providers with one mistake each in conversations, streams, files, usage and state, and how `ask.testing` reports it.

They complete those of `faulty_providers`. Most are mistakes that authors of provider plugins have made elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ask import (
    Attachment,
    ChatRequest,
    Delta,
    FinishReason,
    HttpRequest,
    Message,
    ModelResponse,
    Provider,
    ProviderInfo,
    RawEvent,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from ask.parsing import decode_arguments, read_dict, read_str
from ask.plugin_api.chat_completions import ChatStreamReader
from ask.testing import CHAT_COMPLETIONS_SAMPLES
from tests import faulty_providers
from tests.correct_providers import (
    FINCH_SUITE,
    HERON,
    HERON_SUITE,
    ROBIN,
    ROBIN_SUITE,
    Finch,
    FinchReader,
    Heron,
    HeronReader,
    Robin,
    RobinReader,
)
from tests.faulty_providers import (
    Faulty,
    Mistake,
    Service,
    change_argument,
    change_body,
    change_deltas,
    change_messages,
    change_result,
    keep_messages,
    move_results,
    plant,
    replace,
)
from tests.native_provider import INFO, SUITE, Wren, WrenReader


class FaultyRobin(Faulty, Robin):
    suite = ROBIN_SUITE

    def __init__(self) -> None:
        super().__init__(ROBIN.info)


class FaultyHeron(Faulty, Heron):
    suite = HERON_SUITE

    def __init__(self) -> None:
        super().__init__(HERON.info)


class FaultyFinch(Faulty, Finch):
    suite = FINCH_SUITE

    def __init__(self) -> None:
        super().__init__(
            ProviderInfo("finch", "Finch", "http://localhost:9999", "", needs_key=False, stream_format="ndjson")
        )


DONE = RawEvent(None, "[DONE]")
"""The end of many streams, which ask does not pass to a reader."""


# Text beside a call


class BlocksOfCallsOnly(FaultyHeron):
    fails, says = "test_each_part_keeps_its_place", r"'I shall look both up\.' 0 times.*message\.content"

    def format_blocks(self, message: Message, model: str) -> list[Any]:
        blocks = super().format_blocks(message, model)
        return [block for block in blocks if "text" not in block] if message.tool_calls else blocks


class TextDroppedAfterCall(FaultyRobin):
    fails, says = "test_streamed_answer_is_parsed", r"text of the sample 'text_and_call' is ''"

    class reader(RobinReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            if self.calls:
                self.parts.clear()
            return deltas


# Tools that the service runs itself


SUITE_WITHOUT_SOURCES: Mapping[str, Any] = {
    "samples": {kind: events for kind, events in CHAT_COMPLETIONS_SAMPLES.items() if kind != "sources"}
}


class Searching(Service):
    """A correct provider with a tool that the service runs itself."""

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return {"web_search": {"type": "search"}}


class ServerToolsAlwaysSent(Faulty, Searching):
    fails, says = "test_tools_of_the_service_are_sent_beside_others", "although ChatRequest.server_tools is empty"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request._replace(server_tools=self.provider_server_tools(request.model)))


class ServerToolsWithoutSample(Faulty, Searching):
    fails, says = "test_samples_are_complete", "samples lacks sources"
    suite = SUITE_WITHOUT_SOURCES


# Malformed and empty arguments


class MalformedArgumentsSentBack(Faulty, Service):
    fails, says = "test_malformed_arguments_are_not_sent", r"""'\{"a": 2, "b": '.*decode_arguments"""

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        formatted = super().format_message(message, model)
        for call, sent in zip(message.tool_calls, formatted.get("tool_calls", ()), strict=True):
            sent["function"]["arguments"] = call.arguments
        return formatted


class MalformedArgumentsSentBackByRobin(FaultyRobin):
    fails, says = "test_malformed_arguments_are_not_sent", r"""'\{"a": 2, "b": '.*decode_arguments"""

    def format_call(self, call: ToolCall) -> dict[str, Any]:
        formatted = super().format_call(call)
        return formatted | {"function": {"name": call.name, "arguments": call.arguments}}


class MalformedArgumentsReplacedInReader(FaultyRobin):
    fails, says = (
        "test_arguments_are_returned_as_the_model_wrote_them",
        r"provider_parse_tool_calls.*'\{\}'.*as the model",
    )

    class reader(RobinReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            response = super().response()
            for call in response["message"]["tool_calls"]:
                call["arguments"] = json.dumps(decode_arguments(call["arguments"]) or {})
            return response


class MalformedArgumentsReplacedByHeron(FaultyHeron):
    fails, says = (
        "test_arguments_are_returned_as_the_model_wrote_them",
        r"provider_parse_tool_calls.*'\{\}'.*as the model",
    )

    class reader(HeronReader):  # noqa: N801
        @staticmethod
        def _finish(block: Mapping[str, Any]) -> dict[str, Any]:
            if "toolUse" not in block:
                return HeronReader._finish(block)
            return {"toolUse": block["toolUse"] | {"input": decode_arguments(block["toolUse"]["input"]) or {}}}


# Names of tools


class NamesInHistoryChanged(FaultyRobin):
    fails, says = "test_tool_names_are_sent_unchanged", r"provider_build_request.*'Look-Up_2'.*call\.name"

    def format_call(self, call: ToolCall) -> dict[str, Any]:
        return super().format_call(call._replace(name=call.name.replace("-", "_")))


# `response()` twice


class ResponseClears(Faulty, Wren):
    fails, says = "test_response_can_be_called_at_any_time", r"response\(\).*sample 'call'.*called before"

    class reader(WrenReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            response = self.answer
            self.answer = {"text": "", "thought": "", "calls": []}
            return response


class ResponsePops(FaultyRobin):
    fails, says = "test_response_can_be_called_at_any_time", r"response\(\).*called before"

    class reader(RobinReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            response = super().response()
            self.calls.clear()
            return response


class ResponseJoinsOnce(FaultyFinch):
    fails, says = "test_response_can_be_called_at_any_time", r"response\(\).*called before"

    class reader(FinchReader):  # noqa: N801
        def response(self) -> dict[str, Any]:
            response = super().response()
            self._line["output"] = read_str(self._line.get("output")) + "\n"
            return response


class ResponseEndsTheReader(Faulty, Service):
    fails, says = "test_response_can_be_called_at_any_time", r"response\(\).*called before"

    class reader(ChatStreamReader):  # noqa: N801
        is_closed = False

        def response(self) -> dict[str, Any]:
            self.is_closed = True
            return super().response()

        def feed(self, event: RawEvent) -> list[Delta]:
            return [] if self.is_closed else super().feed(event)


# `size`


class SizeStaysZero(FaultyRobin):
    fails, says = "test_size_grows_with_the_answer", r"size of the stream reader is 0 .*--timeout"

    class reader(RobinReader):  # noqa: N801
        size = property(lambda self: 0, lambda self, value: None)


class SizeOfTheLastPiece(FaultyRobin):
    fails, says = "test_size_grows_with_the_answer", r"size of the stream reader is \d+ after \d+ characters"

    class reader(RobinReader):  # noqa: N801
        def add_text(self, kind: str, text: str) -> list[Delta]:
            self.size = 0
            return super().add_text(kind, text)


class SizeWithoutReasoning(FaultyRobin):
    fails, says = "test_size_grows_with_the_answer", r"size of the stream reader is 0 .*'reasoning'.*reasoning"

    class reader(RobinReader):  # noqa: N801
        def add_text(self, kind: str, text: str) -> list[Delta]:
            deltas = super().add_text(kind, text)
            self.size -= len(text) if kind == "thinking" else 0
            return deltas


class SizeWithoutArguments(FaultyRobin):
    fails, says = "test_size_grows_with_the_answer", r"size of the stream reader is 0 after the sample 'call'"

    class reader(RobinReader):  # noqa: N801
        def add_arguments(self, call: Mapping[str, Any]) -> None:
            self.calls[-1]["arguments"] += read_str(call.get("arguments"))


class SizeCountsEvents(FaultyRobin):
    fails, says = "test_keep_alives_do_not_add_to_the_size", r"grows from 1\d to 1\d with the event RawEvent.*ping"

    class reader(RobinReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            self.size += 1
            return super().feed(event)


class SizeIsText(FaultyFinch):
    fails, says = "test_size_grows_with_the_answer", r"size of the stream reader is '\d+'.*int"

    class reader(FinchReader):  # noqa: N801
        size = property(lambda self: str(len(self.response())))


# Spaces and characters outside of ASCII


class ResultsStripped(FaultyRobin):
    fails, says = "test_texts_are_sent_unchanged", r"indented.*'tool'.*strip"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return super().provider_format_tool_result(tool_call_id, tool_name, result.strip())


class ResultsInAscii(Faulty, Wren):
    fails, says = "test_each_tool_result_is_sent_once", r"möttled|result"

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        ascii_result = result.encode("ascii", "replace").decode()
        return super().provider_format_tool_result(tool_call_id, tool_name, ascii_result)


class EmptyMessagesLeftOut(FaultyHeron):
    fails, says = "test_empty_tool_results_are_sent", r"left out a tool result without text.*formatted_result"

    def format_blocks(self, message: Message, model: str) -> list[Any]:
        is_empty = not message.content and not message.tool_calls
        return [] if is_empty and not message.attachments else super().format_blocks(message, model)


# Files


class TypeFromName(Faulty, Service):
    fails, says = (
        "test_files_are_sent_with_their_media_type_and_content",
        r"image/jpeg for the file 'größe\.jpg'.*image/png",
    )

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        import mimetypes

        guessed = mimetypes.guess_type(attachment.name)[0] or attachment.media_type
        return super().format_attachment(attachment._replace(media_type=guessed))


class AlwaysPng(Faulty, Service):
    fails, says = "test_files_are_sent_with_their_media_type_and_content", r"image/png for the file.*image/jpeg"

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        return super().format_attachment(attachment._replace(media_type="image/png"))


class FormatFromName(FaultyHeron):
    fails, says = (
        "test_files_are_sent_with_their_media_type_and_content",
        r"image/jpeg for the file 'größe\.jpg'.*image/png",
    )

    def format_blocks(self, message: Message, model: str) -> list[Any]:
        blocks = super().format_blocks(message, model)
        for block, file in zip((b for b in blocks if "image" in b), message.attachments, strict=False):
            block["image"]["format"] = file.name.rpartition(".")[2]
        return blocks


class TypeOfTheFirstFile(Faulty, Wren):
    fails, says = "test_files_are_sent_with_their_media_type_and_content", r"image/png for the file.*image/jpeg"

    def format_turn(self, message: Message, model: str) -> dict[str, Any]:
        turn = super().format_turn(message, model)
        return turn | {"files": [file | {"type": "image/png"} for file in turn["files"]]} if "files" in turn else turn


class DataDecodedAsText(Faulty, Wren):
    fails, says = "test_files_are_sent_with_their_media_type_and_content", r"data of 'größe\.\w+'.*Base64"

    def format_turn(self, message: Message, model: str) -> dict[str, Any]:
        files = [file._replace(data=file.data.decode(errors="replace").encode()) for file in message.attachments]
        return super().format_turn(message._replace(attachments=tuple(files)), model)


class UrlSafeBase64(FaultyHeron):
    fails, says = "test_files_are_sent_with_their_media_type_and_content", r"data of 'größe\.\w+'.*Base64"

    def format_blocks(self, message: Message, model: str) -> list[Any]:
        import base64

        blocks = super().format_blocks(message, model)
        for block, file in zip((b for b in blocks if "image" in b), message.attachments, strict=False):
            block["image"]["source"] = {"bytes": base64.urlsafe_b64encode(file.data).decode()}
        return blocks


# Conversations with calls, without tools


class CallsOnlyWithTools(FaultyHeron):
    fails, says = (
        "test_tool_history_is_sent_without_tools",
        r"Without request.tools, provider_build_request sent 'lundi'.*0 times",
    )

    def format_messages(self, request: ChatRequest) -> list[dict[str, Any]]:
        change = lambda m: m if request.tools else m._replace(tool_calls=())  # noqa: E731
        return super().format_messages(change_messages(request, change))


class ToolsIndexed(FaultyRobin):
    fails, says = "test_tool_history_is_sent_without_tools", r"IndexError|once"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        if any(message.role == "tool" for message in request.messages):
            request.tools[0]
        return super().provider_build_request(request, key)


class ToolChoiceWithoutTools(Faulty, Service):
    fails, says = (
        "test_nothing_about_tools_is_sent_without_tools",
        r"Without request.tools, provider_build_request sent tool_choice",
    )

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        return super().build_body(request) | {"tool_choice": request.tool_choice}


# Usage


class InputWithoutCached(FaultyHeron):
    fails, says = "test_usage_is_reported", r"input_tokens=6.*12 input"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        tokens = read_dict(response.get("usage")).get("inputTokens")
        return answer._replace(usage=answer.usage._replace(input_tokens=tokens if isinstance(tokens, int) else None))


class InputWithoutWritten(FaultyHeron):
    fails, says = "test_usage_is_reported", r"input_tokens=10.*12 input"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        usage = {n: v for n, v in read_dict(response.get("usage")).items() if n != "cacheWriteInputTokens"}
        return super().provider_parse_response({**response, "usage": usage})


# Finish reasons


class ReasonFromCalls(FaultyHeron):
    fails, says = "test_unstreamed_answer_is_parsed", r"finish_reason of the sample 'length'.*LENGTH"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        finish = FinishReason.TOOL_CALLS if self.provider_parse_tool_calls(response) else FinishReason.STOP
        return answer._replace(finish_reason=finish, finish_message="")


# `complete`


class CompleteAtTheFirstCall(Faulty, Wren):
    fails, says = "test_complete_is_set_at_the_end", r"complete after event 1 of \d of the sample 'call'.*end marker"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = self.complete or bool(self.answer["calls"])
            return deltas


class CompleteAfterReasoning(FaultyRobin):
    fails, says = "test_complete_is_set_at_the_end", r"complete after event \d of \d of the sample 'reasoning"

    class reader(RobinReader):  # noqa: N801
        def add_text(self, kind: str, text: str) -> list[Delta]:
            deltas = super().add_text(kind, text)
            self.complete = kind == "thinking"
            return deltas


class CompleteAtABlockEnd(FaultyHeron):
    fails, says = "test_complete_is_set_at_the_end", r"complete after event \d of \d+ of the sample"

    class reader(HeronReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = self.complete or "contentBlockStop" in event.data
            return deltas


class CompleteOnlyWithText(Faulty, Wren):
    fails, says = "test_streamed_answer_is_parsed", r"not complete after the sample"

    class reader(WrenReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = self.complete and bool(self.answer["text"])
            return deltas


class WaitsForDone(Faulty, Service):
    fails, says = "test_streamed_answer_is_parsed", r"not complete after the sample"

    class reader(ChatStreamReader):  # noqa: N801
        def feed(self, event: RawEvent) -> list[Delta]:
            deltas = super().feed(event)
            self.complete = event.data == "[DONE]"
            return deltas


DONE_SUITE = {"samples": {kind: [*events, DONE] for kind, events in CHAT_COMPLETIONS_SAMPLES.items()}}


class FinishesAtDone(Faulty, Service):
    fails, says = "test_streamed_answer_is_parsed", r"text of the sample 'text' is ''"
    suite = DONE_SUITE

    class reader(ChatStreamReader):  # noqa: N801
        is_done = False

        def feed(self, event: RawEvent) -> list[Delta]:
            self.is_done = event == DONE
            return super().feed(event)

        def response(self) -> dict[str, Any]:
            return super().response() if self.is_done else {}


# Schemas beside tools


class SchemaForbidsCalls(Faulty, Service):
    fails, says = (
        "test_schema_leaves_the_tools_as_they_are",
        r"With a schema, .*tool_choice as 'none' instead of 'auto'",
    )

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        return body | {"tool_choice": "none"} if request.schema and request.tools else body


class SchemaAsForcedTool(Faulty, Wren):
    fails, says = "test_schema_leaves_the_tools_as_they_are", r"With a schema, .*may_call as 'answer' instead of True"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if request.schema is None or not request.tools:
            return body
        return body | {"tools": [*request.tools, {"tool": "answer", "takes": request.schema}], "may_call": "answer"}


class SchemaChangesTools(FaultyRobin):
    fails, says = (
        "test_schema_leaves_the_tools_as_they_are",
        r"provider_build_request sent the tool .*look_up.* changed",
    )

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        strict = [{**tool, "strict": True, "function": {"name": tool["function"]["name"]}} for tool in request.tools]
        marked = [{**tool, "function": tool["function"] | {"strict": True}} for tool in request.tools]
        del strict
        return super().provider_build_request(request._replace(tools=marked) if request.schema else request, key)


# Requests that are kept, and arguments that are changed


class MessagesChanged(Faulty, Service):
    fails, says = (
        "test_arguments_are_not_changed",
        r"provider_build_request changed its argument: messages\.\d+\.formatted",
    )

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        if message.formatted_result:
            message.formatted_result["cache"] = True  # type: ignore[index]
        return super().format_message(message, model)


class ToolsChanged(Faulty, Wren):
    fails, says = "test_arguments_are_not_changed", r"provider_build_request changed its argument: tools\.1\.cache"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        if request.tools:
            request.tools[-1]["cache"] = True  # type: ignore[index]
        return super().build_body(request)


class OptionsPopped(FaultyRobin):
    fails, says = "test_arguments_are_not_changed", r"provider_build_request changed its argument: options\.temperature"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        options: Any = request.options
        temperature = options.pop("temperature", None) if isinstance(options, dict) else None
        built = super().provider_build_request(request, key)
        return built._replace(body={**(built.body or {}), "temperature": temperature} if temperature else built.body)


class SchemaChanged(Faulty, Service):
    fails, says = "test_arguments_are_not_changed", r"provider_build_request changed its argument: schema\.title"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        if isinstance(request.schema, dict):
            request.schema["title"] = "answer"
        return super().build_body(request)


class ToolSpecsChanged(FaultyHeron):
    fails, says = "test_arguments_are_not_changed", r"provider_format_tools changed its argument: 0\.parameters\.strict"

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        for tool in tools:
            tool.parameters["strict"] = True  # type: ignore[index]
        return super().provider_format_tools(tools)


class ResponseChanged(FaultyHeron):
    fails, says = "test_arguments_are_not_changed", r"provider_parse_response changed its argument: usage"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        response.pop("usage", None)  # type: ignore[attr-defined]
        return answer


class ResponsePoppedByCalls(Faulty, Wren):
    fails, says = "test_arguments_are_not_changed", r"provider_parse_tool_calls changed its argument: calls"

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = super().provider_parse_tool_calls(response)
        if isinstance(response, dict) and isinstance(response.get("calls"), list):
            response["calls"].clear()
        return calls


class BodyKept(FaultyRobin):
    fails, says = "test_requests_are_not_changed_later", r"changed an earlier request: 0\.body"
    body: dict[str, Any]

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        built = super().provider_build_request(request, key)
        self.body = getattr(self, "body", {})
        self.body.clear()
        self.body.update(built.body or {})
        return built._replace(body=self.body)


class MessagesKept(Faulty, Wren):
    fails, says = "test_requests_are_not_changed_later", r"changed an earlier request: 0\.body\.turns"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        self.turns = getattr(self, "turns", [])
        self.turns[:] = body["turns"]
        return body | {"turns": self.turns}


class HeadersKept(FaultyHeron):
    fails, says = "test_requests_are_not_changed_later", r"headers|X-Heron-Key"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        built = super().provider_build_request(request, key)
        self.headers = getattr(self, "headers", {})
        self.headers.update(built.headers)
        return built._replace(headers=self.headers)


class ModelRemembered(Faulty, Service):
    fails, says = "test_requests_do_not_depend_on_earlier_calls", r"provider_build_request returns depends.*models_used"

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        self.models = {*getattr(self, "models", ()), request.model}
        return super().build_body(request) | {"models_used": sorted(self.models)}


class CallsOfTheLastResponse(Faulty, Service):
    fails, says = "test_calls_are_parsed_from_their_own_response", r"provider_parse_tool_calls.*another response"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        self.calls = super().provider_parse_tool_calls(response)
        return super().provider_parse_response(response)

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return getattr(self, "calls", None) or super().provider_parse_tool_calls(response)


# Calls at the end


class CallsMovedToTheEnd(FaultyFinch):
    fails, says = "test_tool_calls_are_sent_back", r"order"

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        built = super().provider_build_request(request, key)
        body = dict(built.body or {})
        calls = [call for entry in body["log"] for call in entry.pop("invoke", ())]
        return built._replace(body=body | {"invoked": calls} if calls else body)


# Threads


class RequestInAttribute(Faulty, Service):
    fails, says = "test_requests_are_built_in_several_threads", r"same time mix.*planted_mistakes\.py:\d+"
    request: ChatRequest

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        self.request = request
        body = super().build_body(request)
        return body | {"model": self.request.model}


class KeyInAttribute(FaultyHeron):
    fails, says = "test_requests_are_built_in_several_threads", r"same time mix.*X-Heron-Key"
    key = ""

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        self.key = key
        built = super().provider_build_request(request, key)
        return built._replace(headers={"X-Heron-Key": self.key} if key else {})


class SharedBuffer(FaultyRobin):
    fails, says = "test_requests_are_built_in_several_threads", r"same time mix: body\.messages"

    def __init__(self) -> None:
        super().__init__()
        self.buffer: list[Any] = []

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        self.buffer.clear()
        for message in request.messages:
            self.buffer.append(self.format_message(message, request.model))
        built = super().provider_build_request(request, key)
        return built._replace(body={**(built.body or {}), "messages": list(self.buffer)})


class SharedParser(Faulty, Wren):
    fails, says = "test_answers_are_read_in_several_threads", r"same time mix"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        self.current = response
        answer = super().provider_parse_response(response)
        return answer._replace(text=read_str(self.current.get("text")))


class ReaderStateInProvider(FaultyFinch):
    fails, says = "test_stream_readers_are_independent", r"share state.*new stream reader"

    def provider_stream_reader(self) -> FinchReader:
        provider = self

        class Reader(FinchReader):
            def __init__(self) -> None:
                super().__init__()
                provider.line = {}

            def feed(self, event: RawEvent) -> list[Delta]:
                deltas = super().feed(event)
                provider.line = self._line
                return deltas

            def response(self) -> dict[str, Any]:
                return dict(provider.line)

        return Reader()

    line: dict[str, Any]


# Reasoning


class ReasoningDeclaredUnsupported(FaultyRobin):
    fails = "test_reasoning_in_the_samples_is_declared"
    says = r"samples\['reasoning'\].*thinking: 'Let me think.*ModelResponse\.reasoning"
    suite = ROBIN_SUITE | {"unsupported": {"reasoning", "reasoning_and_call"}}


# Suites


class UnsupportedMisspelled(FaultyFinch):
    fails, says = "test_samples_are_complete", r"`unsupported` contains 'fliter'"
    suite = FINCH_SUITE | {"unsupported": {"attachments", "usage", "fliter", "schema"}}


class UnsupportedAsText(FaultyFinch):
    fails, says = "test_samples_are_complete", r"`unsupported` is 'usage'.*set"
    suite = FINCH_SUITE | {"unsupported": "usage"}


class SamplesAsTexts(Faulty, Wren):
    fails, says = "test_samples_are_complete", r"samples\['text'\] contains .*RawEvent"
    suite = SUITE | {"samples": {kind: [event.data for event in events] for kind, events in SUITE["samples"].items()}}


class ResponsesAsTexts(Faulty, Wren):
    fails, says = "test_samples_are_complete", r"unstreamed_samples\['text'\] is a str.*dict"
    suite = SUITE | {"unstreamed_samples": {kind: json.dumps(b) for kind, b in SUITE["unstreamed_samples"].items()}}


# Hooks whose argument or result is changed


def leave_out_history_without_tools(request: ChatRequest) -> ChatRequest:
    without_results = keep_messages(request, lambda message: bool(request.tools) or message.role != "tool")
    return change_messages(
        without_results, lambda message: message if request.tools else message._replace(tool_calls=())
    )


def rename_tools(tools: Sequence[ToolSpec], rename: Callable[[str], str]) -> list[ToolSpec]:
    return [tool._replace(name=rename(tool.name)) for tool in tools]


def change_citations(answer: ModelResponse) -> ModelResponse:
    return answer._replace(citations=tuple(citation._replace(end=99) for citation in answer.citations))


REQUEST_MISTAKES = {
    "test_each_part_keeps_its_place": {
        "TextBesideCallNotSent": Mistake(
            r"'I shall look both up\.' 0 times.*message\.content",
            lambda request: change_messages(
                request, lambda message: message._replace(content="") if message.tool_calls else message
            ),
        ),
        "ResultsMovedToTheEnd": Mistake(r"order", move_results),
    },
    "test_tools_of_the_service_are_sent_beside_others": {
        "ServerToolsNotSent": Mistake(
            "lacks the service's tool 'web_search'",
            lambda request: request._replace(server_tools={}) if request.tools else request,
            [Searching],
        ),
    },
    "test_texts_are_sent_unchanged": {
        "MessagesStripped": Mistake(
            r"the text ' .n☃ system 🙂.n' .*'system'.*strip",
            lambda request: change_messages(request, lambda message: message._replace(content=message.content.strip())),
            [Service],
        ),
        "SystemPromptStripped": Mistake(
            r"'system'.*strip",
            lambda request: change_messages(
                request, lambda each: each._replace(content=each.content.strip()) if each.role == "system" else each
            ),
            [FaultyHeron],
        ),
        "SpacesCollapsed": Mistake(
            r"text|result",
            lambda request: change_messages(
                request, lambda each: each._replace(content=" ".join(each.content.split()))
            ),
            [FaultyFinch],
        ),
    },
    "test_empty_tool_results_are_sent": {
        "EmptyResultsLeftOut": Mistake(
            r"left out a tool result without text.*formatted_result",
            lambda request: keep_messages(request, lambda message: bool(message.content) or message.role != "tool"),
            [Service],
        ),
    },
    "test_tool_history_is_sent_without_tools": {
        "HistoryOnlyWithTools": Mistake(
            r"Without request.tools, provider_build_request sent 'lundi'.*0 times",
            leave_out_history_without_tools,
            [Service],
        ),
    },
    "test_schema_changes_nothing_else": {
        "SchemaInPlaceOfTools": Mistake(
            r"schema does not contain the tools",
            lambda request: request._replace(tools=()) if request.schema else request,
            [FaultyRobin],
        ),
    },
}
BUILT_REQUEST_MISTAKES = {
    "test_nothing_about_tools_is_sent_without_tools": {
        "EmptyToolsSent": Mistake(
            r"tools: \[\].*Leave it out",
            lambda built: built if "tools" in built.body else change_body(built, tools=[]),
            [Wren],
        ),
    },
    "test_hooks_return_the_documented_types": {
        "MessagesAsGenerator": Mistake(
            r"provider_build_request.*generator.*JSON",
            lambda built: change_body(built, messages=(message for message in built.body["messages"])),
            [FaultyRobin],
        ),
    },
}
TOOL_MISTAKES = {
    "test_tool_names_are_sent_unchanged": {
        "NamesLowered": Mistake(
            r"provider_format_tools.*look-up_2.*'Look-Up_2'", lambda tools: rename_tools(tools, str.lower), [Service]
        ),
        "HyphensReplaced": Mistake(
            r"provider_format_tools.*Look_Up_2.*'Look-Up_2'",
            lambda tools: rename_tools(tools, lambda name: name.replace("-", "_")),
            [FaultyHeron],
        ),
        "NamesPrefixed": Mistake(
            r"provider_format_tools.*functions\.Look-Up_2.*'Look-Up_2'",
            lambda tools: rename_tools(tools, "functions.{}".format),
            [Wren],
        ),
    },
}
FORMATTED_TOOL_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "ToolsAsGenerator": Mistake(
            r"provider_format_tools must return list.*generator", lambda tools: (tool for tool in tools), [FaultyHeron]
        ),
    },
}
RESPONSE_MISTAKES = {
    "test_streamed_answer_is_parsed": {
        "SourcesLost": Mistake(
            r"citations of the sample 'sources' have the addresses \[\]",
            lambda answer: answer._replace(citations=()),
            [Service],
        ),
        "SourcesCountedInBytes": Mistake("is at 0 to 99.*Count in characters", change_citations, [Service]),
        "ReasoningNotParsed": Mistake(
            r"reasoning of the sample.*'Let me think\.'|ReasoningDelta",
            lambda answer: answer._replace(reasoning=""),
            [FaultyHeron],
        ),
    },
    "test_spaces_and_unusual_characters_in_an_answer_are_kept": {
        "TextStripped": Mistake(
            r"provider_parse_response returned the text.*☃.*strip",
            lambda answer: answer._replace(text=answer.text.strip()),
            [Service],
        ),
        "ReasoningStripped": Mistake(
            r"provider_parse_response returned the reasoning.*strip",
            lambda answer: answer._replace(reasoning=answer.reasoning.strip()),
            [FaultyRobin],
        ),
        "EmojiDropped": Mistake(
            r"🙂",
            lambda answer: answer._replace(text="".join(char for char in answer.text if ord(char) < 0x10000)),
            [Wren],
        ),
    },
    "test_cached_tokens_are_reported": {
        "CachedTokensLost": Mistake(
            r"cached_tokens is None.*(cacheReadInputTokens|cached_tokens) is 4",
            lambda answer: answer._replace(usage=answer.usage._replace(cached_tokens=None)),
            [FaultyHeron, Service],
        ),
        "WrittenTokensAsCached": Mistake(
            r"cached_tokens is 6.*cacheReadInputTokens is 4",
            lambda answer: answer._replace(usage=answer.usage._replace(cached_tokens=6)),
            [FaultyHeron],
        ),
    },
    "test_unknown_finish_reasons_are_reported": {
        "UnknownReasonIsSuccess": Mistake(
            r"provider_parse_response.*(end|finish_reason) is 'contract_reason'.*format_unknown_reason",
            lambda answer: answer._replace(finish_message=""),
            [Wren, FaultyRobin],
        ),
    },
    "test_result_is_sent_back_with_the_provider_state": {
        "SignaturesLost": Mistake(
            r"c2lnbg==.*provider_state", lambda answer: answer._replace(provider_state=None), [FaultyHeron]
        ),
    },
}
CALL_MISTAKES = {
    "test_arguments_are_returned_as_the_model_wrote_them": {
        "MalformedArgumentsReplaced": Mistake(
            r"provider_parse_tool_calls.*'\{\}'.*as the model",
            lambda calls: [
                call._replace(arguments=json.dumps(decode_arguments(call.arguments) or {})) for call in calls
            ],
            [Service],
        ),
        "MalformedCallsDropped": Mistake(
            r"provider_parse_tool_calls.*\[\].*every call",
            lambda calls: [call for call in calls if decode_arguments(call.arguments) is not None],
            [Service],
        ),
        "CallsWithoutArgumentsDropped": Mistake(
            r"provider_parse_tool_calls.*\[\].*every call",
            lambda calls: [call for call in calls if call.arguments],
            [FaultyRobin],
        ),
        "EmptyObjectsDropped": Mistake(
            r"provider_parse_tool_calls.*\[\].*every call",
            lambda calls: [call for call in calls if call.arguments not in ("{}", "null")],
            [FaultyFinch],
        ),
        "NonAsciiArgumentsLost": Mistake(
            r"provider_parse_tool_calls.*☃",
            lambda calls: [
                call._replace(arguments=call.arguments.encode("ascii", "ignore").decode()) for call in calls
            ],
            [FaultyRobin],
        ),
    },
    "test_tool_names_in_answers_are_returned_unchanged": {
        "ParsedNamesLowered": Mistake(
            r"'Look-Up_2'.*look-up_2", lambda calls: [call._replace(name=call.name.lower()) for call in calls], [Wren]
        ),
        "ParsedNamesCut": Mistake(
            r"'Look-Up_2'.*'Look'",
            lambda calls: [call._replace(name=call.name.partition("-")[0]) for call in calls],
            [Service],
        ),
    },
    "test_hooks_return_the_documented_types": {
        "CallsAsGenerator": Mistake(
            r"provider_parse_tool_calls.*(generator|bug)", lambda calls: (call for call in calls), [Wren]
        ),
    },
}
MODEL_MISTAKES = {
    "test_hooks_return_the_documented_types": {
        "ModelsAsGenerator": Mistake(
            r"provider_parse_models must return list.*generator",
            lambda models: (model for model in models),
            [FaultyHeron],
        ),
    },
}
DELTA_MISTAKES = {
    "test_streamed_answer_is_parsed": {
        "ServerCallsNotShown": Mistake(
            r"ServerToolDeltas of the sample 'sources' have \(\)",
            lambda deltas: [delta for delta in deltas if not isinstance(delta, ServerToolDelta)],
            [Service],
        ),
        "DeltasStripped": Mistake(
            r"TextDeltas of the sample 'text' add up to 'Hello,wörld!'",
            lambda deltas: [TextDelta(each.text.strip()) if isinstance(each, TextDelta) else each for each in deltas],
            [FaultyFinch],
        ),
    },
    "test_spaces_and_unusual_characters_in_an_answer_are_kept": {
        "BlankDeltasSkipped": Mistake(
            r"feed returned the text.*pieces that are only spaces",
            lambda deltas: [delta for delta in deltas if not isinstance(delta, TextDelta) or delta.text.strip()],
            [Wren],
        ),
    },
    "test_hooks_return_the_documented_types": {
        "FeedYields": Mistake(
            r"feed of its stream reader returned.*generator.*Return a list",
            lambda deltas: (delta for delta in deltas),
            [Wren],
        ),
        "FeedReturnsText": Mistake(
            r"feed of its stream reader returned Hello|returned 'Hello",
            lambda deltas: "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
            [FaultyFinch],
        ),
        "FeedReturnsOneDelta": Mistake(
            r"feed of its stream reader returned 'None'.*Return a list",
            lambda deltas: deltas[0] if deltas else None,
            [FaultyRobin],
        ),
    },
}
STATE_MISTAKES = {
    "test_result_is_sent_back_with_the_provider_state": {
        "ThinkingNotSentBack": Mistake(r"'Let me think\.'.*provider_state", lambda *_: {}, [FaultyRobin]),
    },
}
PLANTED = plant(
    (
        (change_argument, "provider_build_request", REQUEST_MISTAKES),
        (change_result, "provider_build_request", BUILT_REQUEST_MISTAKES),
        (change_argument, "provider_format_tools", TOOL_MISTAKES),
        (change_result, "provider_format_tools", FORMATTED_TOOL_MISTAKES),
        (change_result, "provider_parse_response", RESPONSE_MISTAKES),
        (change_result, "provider_parse_tool_calls", CALL_MISTAKES),
        (change_result, "provider_parse_models", MODEL_MISTAKES),
        (change_deltas, "provider_stream_reader", DELTA_MISTAKES),
        (replace, "find_provider_state", STATE_MISTAKES),
    )
)


# Named by a warning: the service may not want it


class ThinkingNotKept(FaultyRobin):
    warns = r"reasoning_and_call.*'Let me think\.'.*provider_state.*'reasoning_history'"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        return super().provider_parse_response(response)._replace(provider_state=None)


class ImagesRefused(FaultyRobin):
    warns = r"no attachment: provider_supports_attachment.*'robin-a'.*`model`.*'attachments'"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return "vision" in model


class ToolsRefused(FaultyHeron):
    warns = r"provider_supports_tools returned False for the model 'heron-1'.*`model`.*'tools'"

    def provider_supports_tools(self, model: str) -> bool:
        return model == "heron-2"


class OnlyPdf(Faulty, Wren):
    warns = r"no image: .*only application/pdf.*'images'"

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type == "application/pdf"


class WithoutToolHooks(Faulty, Provider):
    """Lacks the hooks for tools, without saying so."""

    suite = SUITE
    warns = r"no tools and no tool history.*provider_parse_tool_calls.*'tools'"
    provider_build_request = Wren.provider_build_request
    provider_stream_reader = Wren.provider_stream_reader
    provider_parse_response = Wren.provider_parse_response
    build_body, build_headers = Wren.build_body, Wren.build_headers
    format_turn, format_call = Wren.format_turn, Wren.format_call
    reader = WrenReader

    def __init__(self) -> None:
        super().__init__(INFO)

    def provider_supports_tools(self, model: str) -> bool:
        return False


WARNED = {each.__name__: each for each in list(globals().values()) if isinstance(each, type) and hasattr(each, "warns")}
CLASSES = [
    each
    for each in list(globals().values())
    if isinstance(each, type) and issubclass(each, Faulty) and each.fails and each.__module__ == __name__
]
FAULTY_PROVIDERS: dict[str, Any] = {
    **faulty_providers.FAULTY_PROVIDERS,
    **PLANTED,
    **{faulty.__name__: faulty() for faulty in CLASSES},
}
