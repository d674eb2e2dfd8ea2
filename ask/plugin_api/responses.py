"""The base class for providers that use OpenAI's Responses API, and its stream reader.

Requests are stateless: the service stores nothing, and the reasoning that it returns in encrypted form is sent back.
Response JSON is untrusted: every value's type is checked before use.
https://developers.openai.com/api/reference/resources/responses
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from itertools import takewhile
from typing import Any

from ask.errors import ProviderError
from ask.messages import (
    Attachment,
    Delta,
    FinishReason,
    Message,
    ModelResponse,
    ProviderState,
    RawEvent,
    ReasoningDelta,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    CHARACTERS_PER_MEDIA_CHARACTER,
    ITEM_OVERHEAD_CHARACTERS,
    CallIdMap,
    decode_arguments,
    find_error,
    format_unknown_reason,
    merge_usage,
    parse_event,
    read_dict,
    read_image,
    read_int,
    read_list,
    read_service_tier,
    read_str,
    read_tool_calls,
)
from ask.plugin_api.chat_completions import (
    MAX_TOP_LOGPROBS,
    ChatCompletions,
    ChatStreamReader,
    add_cache_writes,
    read_cost,
    sanitize_tool_name,
    shorten_call_id,
)
from ask.plugin_api.openai_citations import (
    describe_open_call,
    make_item_call,
    read_item_calls,
    read_item_citations,
)
from ask.plugin_api.provider import BatchApi, DecisionApi, Provider, format_tool_results
from ask.plugin_api.response_items import (
    IMAGE_ITEM,
    PART_SEPARATOR,
    PartialItem,
    clean_item,
    is_same_call_in,
    is_sendable_item,
    join_parts,
    list_call_ids,
    precedes_final_answer,
    read_image_data,
    read_image_refusal,
    read_items,
    read_reasoning,
    read_refusal,
    read_text,
    remove_images,
    restore_reasoning,
    select_sendable_items,
)
from ask.plugin_api.types import ChatRequest, HttpRequest, ModelInfo
from ask.profiles import TOKEN_LIMIT_OPTIONS, ModelProfile, merge_options

FINAL_EVENTS = ("response.completed", "response.incomplete", "response.failed", "response.done")
"""The last event; `response.done` is for any status: https://github.com/can1357/oh-my-pi/pull/4692"""
TEXT_EVENTS = {
    "response.output_text.delta": ("delta", "message"),
    "response.output_text.done": ("text", "message"),
    "response.refusal.delta": ("delta", "message"),
    "response.reasoning_summary_text.delta": ("delta", "reasoning"),
    "response.reasoning_text.delta": ("delta", "reasoning"),
    "response.function_call_arguments.delta": ("delta", "function_call"),
    "response.function_call_arguments.done": ("arguments", "function_call"),
}
"""The events with text: the name of its field, and the type of the item that it belongs to."""
TEXT_DIFFERS_NOTICE = "the streamed answer differs from the final answer"


class ResponsesStreamReader:
    """The `ask.StreamReader` for Responses API streams. It assembles the response of the non-streaming API.

    The final event contains the complete response, which replaces what was assembled from the deltas. Text that came
    without deltas, as some services send it, is returned as one delta.

    Args:
        open_chat_reader: creates the reader for a stream that turns out to be in the Chat Completions format.
    """

    def __init__(self, open_chat_reader: Callable[[], Any] = ChatStreamReader) -> None:
        self.complete = self.may_end = False
        self.size = 0
        self.notice = ""
        """Set if the streamed text differs from the final response."""
        self._open_chat_reader = open_chat_reader
        self._chat_reader: Any = None
        self._response: dict[str, Any] = {}
        self._error: Any = None
        self._final_response_seen = False
        self._items: list[PartialItem] = []
        self._items_by_index: dict[int, PartialItem] = {}
        self._text = StringIO()
        self._last_message: PartialItem | None = None
        """The item of the last text."""
        self._has_reasoning = False
        self._call_count = self._server_call_count = 0

    def feed(self, event: RawEvent) -> list[Delta]:
        if self._final_response_seen and self._chat_reader is None:
            return []
        fields = read_dict(parse_event(event.data, event.event))
        if self._chat_reader is not None or (isinstance(fields.get("choices"), list) and not self._items):
            return self._feed_chat_reader(event)
        event_type = read_str(fields.get("type")) or event.event or ""
        if event_type in FINAL_EVENTS and not fields.get("error"):
            return self._finish(read_dict(fields.get("response")))
        if event_type == "error" or fields.get("error"):
            self._set_error(find_error(fields) or fields)
        elif event_type in TEXT_EVENTS:
            return self._add_text(fields, *TEXT_EVENTS[event_type])
        elif event_type == "response.output_text.annotation.added":
            self.size += len(event.data)
            self._get_item(fields, "message").annotations.append(fields.get("annotation"))
        elif event_type in ("response.output_item.added", "response.output_item.done"):
            is_image = read_dict(fields.get("item")).get("type") == IMAGE_ITEM
            self.size += int(len(event.data) * (CHARACTERS_PER_MEDIA_CHARACTER if is_image else 1))
            return self._add_item(fields, is_done=event_type.endswith("done"))
        elif event_type == "response.image_generation_call.partial_image":
            self.size += ITEM_OVERHEAD_CHARACTERS  # which is progress; the complete image follows
        elif "response" in fields:
            self._set_response(read_dict(fields["response"]), is_final=False)
        return []

    def response(self) -> dict[str, Any]:
        if self._chat_reader is not None:
            return read_dict(self._chat_reader.response())
        final_items = read_list(self._response.get("output")) if self._final_response_seen else []
        response = self._response | {"output": self._complete_output(final_items)}
        return response | {"error": self._error} if self._error and not response.get("error") else response

    def _complete_output(self, final_items: list[Any]) -> list[Any]:
        """Return the items of the final response, with those that only the events before it had.

        Gateways send a final response without output, or with a part of it:
        https://github.com/BerriAI/litellm/pull/32724, https://github.com/maximhq/bifrost/issues/5149
        """
        streamed = [item.to_dict() for item in self._items]
        items = [item for item in final_items if read_str(read_dict(item).get("type"))]
        calls = {read_str(item.get("call_id")): item for item in streamed if item.get("type") == "function_call"}
        for index, item in enumerate(items):
            if item["type"] == "function_call" and not item.get("arguments"):
                items[index] = calls.get(read_str(item.get("call_id")), item)
        if not items:
            return streamed
        contains_text = any(map(read_text, items))
        missing = [
            item
            for item in streamed
            if (item.get("type") == "function_call" and not is_same_call_in(item, items))
            or (read_image_data(item) and not any(map(read_image_data, items)))
            or (not contains_text and read_text(item))
        ]
        items += missing
        if any(item["type"] == "reasoning" for item in items):
            return items
        received = [
            item
            for item, partial in zip(streamed, self._items, strict=True)
            if item.get("type") != "reasoning" or partial.is_done or partial.text.tell()
        ]
        return restore_reasoning(items, received)

    def _feed_chat_reader(self, event: RawEvent) -> list[Delta]:
        reader = self._chat_reader = self._chat_reader or self._open_chat_reader()
        deltas: list[Delta] = reader.feed(event)
        self.complete, self.may_end = reader.complete, getattr(reader, "may_end", False)
        self.size = getattr(reader, "size", self.size + len(event.data))
        return deltas

    def _set_response(self, response: dict[str, Any], *, is_final: bool) -> None:
        usage = dict(read_dict(self._response.get("usage")))
        merge_usage(usage, response.get("usage"), is_final=is_final)
        self._response = response | ({"usage": usage} if usage else {})

    def _set_error(self, error: Any) -> None:
        self._error = error
        self.complete = True

    def _get_item(self, fields: Mapping[str, Any], item_type: str, *, is_added: bool = False) -> PartialItem:
        """Return the item that an event belongs to, which is the last one if the event does not say.

        Gateways give several items the same index, or begin one without an event of its own:
        https://github.com/decolua/9router/issues/2611, https://github.com/maximhq/bifrost/issues/5169
        """
        index = read_int(fields.get("output_index"))
        last_item = self._items[-1] if self._items else None
        item = last_item if index is None else self._items_by_index.get(index)
        is_other_type = item is not None and item_type not in ("", item.fields.get("type"))
        if item is None or is_other_type or (is_added and item.is_added):
            item = PartialItem({"type": item_type})
            self._items.append(item)
            self.size += ITEM_OVERHEAD_CHARACTERS
        if index is not None:
            self._items_by_index[index] = item
        return item

    def _add_item(self, fields: Mapping[str, Any], *, is_done: bool) -> list[Delta]:
        value = read_dict(fields.get("item"))
        if not value:
            return []
        item = self._get_item(fields, read_str(value.get("type")), is_added=not is_done)
        item.fields = item.fields | value
        item.is_added = True
        item.is_done = is_done
        deltas = self._announce_call(item)
        if not is_done:
            return deltas
        call = make_item_call(item.fields, (other.fields for other in self._items))
        self._server_call_count += call is not None
        return [*deltas, *([ServerToolDelta(call)] if call else []), *self._show_missing_text(item)]

    def _announce_call(self, item: PartialItem) -> list[Delta]:
        if item.is_announced or item.fields.get("type") != "function_call":
            return []
        item.is_announced = True
        self._call_count += 1
        return [ToolCallDelta(self._call_count - 1, read_str(item.fields.get("name")) or "unnamed")]

    def _show_missing_text(self, item: PartialItem) -> list[Delta]:
        """Return what the deltas of a complete item left out; nothing if they differ from it."""
        if item.fields.get("type") == "reasoning":
            return [] if item.text.tell() else self._show_reasoning(read_reasoning(item.fields))
        streamed, text = item.text.getvalue(), read_text(item.fields)
        return self._show_text(text[len(streamed) :], item) if text.startswith(streamed) else []

    def _add_text(self, fields: Mapping[str, Any], name: str, item_type: str) -> list[Delta]:
        """Add a delta, or a complete text if it came without deltas, as some gateways send it.

        https://github.com/Wei-Shaw/sub2api/pull/6629
        """
        item = self._get_item(fields, item_type)
        if name != "delta" and item.text.tell():
            return []
        text = read_str(fields.get(name))
        part_index = read_int(fields.get("summary_index", fields.get("content_index")))
        is_new_part = part_index != item.part_index or not item.text.tell()
        item.part_index = part_index
        if item_type == "reasoning" and is_new_part and item.text.tell():
            item.text.write(PART_SEPARATOR)
        self.size += item.text.write(text)
        if item_type == "message":
            return self._show_text(text, item)
        if item_type == "reasoning":
            return self._show_reasoning(text, is_new_part=is_new_part)
        return self._announce_call(item) if item.fields.get("name") else []

    def _show_text(self, text: str, item: PartialItem | None = None) -> list[Delta]:
        """Return text to show, as a new paragraph if it begins another message than the last one."""
        if not text:
            return []
        if item is not None and item is not self._last_message:
            text = PART_SEPARATOR + text if self._last_message else text
            self._last_message = item
        self._text.write(text)
        return [TextDelta(text)]

    def _show_reasoning(self, text: str, *, is_new_part: bool = True) -> list[Delta]:
        """Return reasoning to show; parts are paragraphs."""
        if not text:
            return []
        separator = PART_SEPARATOR if is_new_part and self._has_reasoning else ""
        self._has_reasoning = True
        return [ReasoningDelta(separator + text)]

    def _finish(self, response: dict[str, Any]) -> list[Delta]:
        """Adopt the complete response, and return the text in it that was not streamed."""
        self.complete = self._final_response_seen = True
        self._set_response(response, is_final=True)
        items = list(read_items(response))
        if not items:  # ChatGPT's own service lists none; they are in the events before
            return []
        streamed, text = self._text.getvalue(), join_parts(list(map(read_text, items)))
        if not text.startswith(streamed):
            self.notice = "" if text.strip() == streamed.strip() else TEXT_DIFFERS_NOTICE
            text = streamed
        deltas: list[Delta] = []
        if not self._items:
            for item in items:
                deltas += self._show_reasoning(read_reasoning(item))
        deltas += map(ServerToolDelta, read_item_calls(items)[self._server_call_count :])
        deltas += self._show_text(text[len(streamed) :])
        calls = [item for item in items if item.get("type") == "function_call"]
        for call in calls[self._call_count :]:
            deltas += self._announce_call(PartialItem(call))
        return deltas


MAX_CALL_ID_CHARACTERS = 64
WITHOUT_REASONING = ModelProfile("gpt-3.5*|gpt-4*|chatgpt-*|gpt-{5}-chat*", efforts=())
"""OpenAI's models without reasoning, which other services offer, too."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
OPTION_NAMES = {
    "max_output_tokens": "max_tokens",
    "reasoning.effort": "reasoning_effort",
    "text.verbosity": "verbosity",
}
"""Option names by the API parameter that they become, to explain errors about that parameter."""
NO_SUMMARY_HINT = "remove -v, which requests reasoning summaries"


class Responses(Provider):
    """A provider that uses the Responses API, in which services accept the reasoning of earlier answers.

    The headers, the models list, the formats of tools and schemas, and the parsing of errors come from a
    `ChatCompletions`. ask uses that provider instead if a base URL other than the service's own has no Responses API.

    Requests are stateless: they set `store` to false, and encrypted reasoning is sent back verbatim, but only to the
    same provider and model family. `prompt_cache_key` is the conversation's id. With `-v`, requests ask for summaries
    of the reasoning. The options `max_tokens`, `reasoning_effort` and `verbosity` are translated to this API's names;
    all others are sent unchanged.

    Args:
        chat: the same service on Chat Completions.
    """

    openai_api = "responses"

    def __init__(self, chat: ChatCompletions) -> None:
        self.chat = chat
        super().__init__(chat.info)

    @property
    def profiles(self) -> Sequence[ModelProfile]:  # type: ignore[override]  # computed here
        """What is known about the models on Chat Completions, except how that API expresses an effort."""
        return (*map(_remove_effort_parameters, self.chat.profiles), WITHOUT_REASONING)

    @property
    def state_owner(self) -> str:
        """The `ProviderState.provider` of answers: the same service has other provider state on Chat Completions."""
        return f"{self.info.name}:responses"

    # Requests

    def build_headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request."""
        return self.chat.build_headers(key)

    def requires_chat(self, model: str) -> bool:
        """Check whether the service offers a model on Chat Completions only."""
        return False

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a request; override to add a service's own parameters."""
        body: dict[str, Any] = {"model": request.model, "input": self.format_input(request), "store": False}
        if request.tools or request.server_tools:
            body["tools"] = [*request.server_tools.values(), *request.tools]
            body["tool_choice"] = request.tool_choice
        # Otherwise OpenAI rejects it: https://github.com/pydantic/pydantic-ai/issues/3326
        if request.profile.can_reason:
            body["include"] = [ENCRYPTED_REASONING]
            if request.show_reasoning:
                body["reasoning"] = {"summary": "auto"}
        if request.conversation_id:
            body["prompt_cache_key"] = request.conversation_id
        if request.stream:
            body["stream"] = True
        if request.schema is not None and self.chat.supports_schema(request, request.schema):
            json_schema = read_dict(self.chat.format_schema(request.schema).get("json_schema"))
            body["text"] = {"format": {"type": "json_schema", **json_schema}}
        return merge_options(body, _to_api_parameters(request.options))

    def format_input(self, request: ChatRequest) -> list[dict[str, Any]]:
        """Convert the conversation to input items."""
        items: list[dict[str, Any]] = []
        call_ids = CallIdMap(partial(shorten_call_id, max_length=MAX_CALL_ID_CHARACTERS))
        for message in request.messages:
            if message.role == "tool":
                items.append(self.format_result_item(message, call_ids))
            elif message.role == "assistant":
                items += self.format_assistant_items(message, request.model, call_ids)
            else:
                items.append(self.format_message(message))
        return items

    def format_message(self, message: Message) -> dict[str, Any]:
        """Convert a system or user message to an input item."""
        return {"role": message.role, "content": self._format_content(message.content, message)}

    def format_result_item(self, message: Message, call_ids: CallIdMap) -> dict[str, Any]:
        """Convert a tool result to an input item, with its files if the service takes them there.

        By default, none does: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2248
        """
        item = {**(message.formatted_result or {}), "call_id": call_ids.get_id(message.tool_call_id)}
        return item | {"output": self._format_content(read_str(item.get("output")), message)}

    def _format_content(self, text: str, message: Message) -> str | list[dict[str, Any]]:
        """Return a text, as a list with the message's files if it has any."""
        if not message.attachments:
            return text
        text_parts = [{"type": "input_text", "text": text}] if text else []
        return [*text_parts, *map(self.format_attachment, message.attachments)]

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        """Convert an attachment to a content part: an image or a named file."""
        if attachment.media_type.startswith("image/"):
            return {"type": "input_image", "image_url": attachment.data_url, "detail": "auto"}
        return {"type": "input_file", "filename": attachment.name, "file_data": attachment.data_url}

    def format_assistant_items(self, message: Message, model: str, call_ids: CallIdMap) -> list[dict[str, Any]]:
        """Convert an assistant message to items.

        The service's own items are sent back verbatim if they match the message; otherwise items are built from its
        text and calls.
        """
        calls = [
            {
                "type": "function_call",
                "call_id": call_ids.assign_id(call.id),
                "name": sanitize_tool_name(call.name),
                "arguments": "{}" if decode_arguments(call.arguments) is None else call.arguments,
            }
            for call in message.tool_calls
        ]
        items = [read_dict(item) for item in read_list(self.find_provider_state(message, model).get("output"))]
        items = remove_images(items)  # an earlier version stored them
        is_same_text = join_parts(list(map(read_text, items))) == message.content
        if not items or not is_same_text or list_call_ids(items) != [call.id for call in message.tool_calls]:
            return [{"role": "assistant", "content": message.content}, *calls] if message.content else calls
        remaining_calls = iter(calls)
        return [
            item | next(remaining_calls) if item.get("type") == "function_call" else item
            for item in map(clean_item, select_sendable_items(items))  # an earlier version stored them as they came
        ]

    def provider_supports_tools(self, model: str) -> bool:
        return self.chat.provider_supports_tools(model)

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        is_audio = media_type.startswith("audio/") and not self.requires_chat(model)
        return not is_audio and self.chat.provider_supports_attachment(model, media_type)

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        # Unless told otherwise, the API treats tools as strict, which would make optional parameters required.
        functions = [read_dict(tool.get("function")) for tool in self.chat.provider_format_tools(tools)]
        deferred = ({"defer_loading": True} if tool.is_deferred else {} for tool in tools)
        return [
            {"type": "function", **function, "strict": False, **fields}
            for function, fields in zip(functions, deferred, strict=True)
        ]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": tool_call_id, "output": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        if self.requires_chat(request.model):
            return self.chat.provider_build_request(self.to_chat_request(request), key)
        return HttpRequest("/responses", {**self.build_body(request)}, self.build_headers(key))

    def to_chat_request(self, request: ChatRequest) -> ChatRequest:
        """Convert the formatted tools and tool results of a request to those of Chat Completions."""
        tools = [
            {"type": "function", "function": {name: tool[name] for name in ("name", "description", "parameters")}}
            for tool in request.tools
        ]
        messages = format_tool_results(request.messages, self.chat)
        return request._replace(tools=tools, messages=messages, server_tools={})

    # Answers

    def provider_stream_reader(self) -> ResponsesStreamReader:
        return ResponsesStreamReader(self.chat.provider_stream_reader)

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        if "choices" in response:
            return self.chat.provider_parse_response(response)
        items = list(read_items(response))
        text = join_parts(list(map(read_text, items)))
        commentary = join_parts(list(map(read_text, takewhile(precedes_final_answer, items))))
        answer = ModelResponse(
            text=text,
            reasoning=join_parts(list(map(read_reasoning, items))),
            finish_reason=_read_finish(response, items),
            usage=self.parse_usage(read_dict(response.get("usage")))._replace(
                service_tier=read_service_tier(response.get("service_tier"))
            ),
            provider_state=self.build_provider_state(response, items),
            finish_message=format_unknown_reason(response.get("status"), KNOWN_STATUSES)
            or next(filter(None, map(read_image_refusal, items)), "" if text else describe_open_call(items)),
            attachments=tuple(filter(None, (read_image(read_image_data(item)) for item in items))),
            citations=read_item_citations(items, response),
            server_calls=read_item_calls(items),
            commentary=f"{commentary}{PART_SEPARATOR}" if commentary and commentary != text else "",
        )
        return self.check_answer(answer, self.find_response_error(response))

    def find_response_error(self, response: Mapping[str, Any]) -> ProviderError | None:
        """Return the error inside a response with status 200, or None."""
        error = response.get("error") if "output" in response else find_error(dict(response))
        if not error and response.get("status") == "failed":
            error = UNEXPLAINED_ERROR
        return self.parse_embedded_error(error) if error else None

    def build_provider_state(
        self, response: Mapping[str, Any], items: Sequence[dict[str, Any]]
    ) -> ProviderState | None:
        """Keep the items of a complete response, if they contain more than one text and calls.

        None is kept if the reasoning is lost: OpenAI rejects items without the reasoning before them.
        """
        is_complete = response.get("status") in ("completed", None)
        types = [item.get("type") for item in items]
        is_reasoning_lost = "reasoning" in types and not any(
            is_sendable_item(item) for item in items if item.get("type") == "reasoning"
        )
        has_own_parts = types.count("message") > 1 or any(
            item.get("phase") or item.get("type") not in ("message", "function_call") for item in remove_images(items)
        )
        if not is_complete or is_reasoning_lost or not has_own_parts:
            return None
        return ProviderState(
            self.state_owner,
            read_str(response.get("model")),
            {"output": list(map(clean_item, remove_images(items)))},
        )

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        if "choices" in response:
            return self.chat.provider_parse_tool_calls(response)
        calls = [item for item in read_items(response) if item.get("type") == "function_call"]
        return read_tool_calls([{"id": call.get("call_id") or call.get("id"), "function": call} for call in calls])

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Parse the tokens and the cost, as far as they are reported."""
        details = read_dict(usage.get("input_tokens_details"))
        parsed = Usage(
            input_tokens=read_int(usage.get("input_tokens")),
            output_tokens=read_int(usage.get("output_tokens")),
            cached_tokens=read_int(details.get("cached_tokens")),
            reasoning_tokens=read_int(read_dict(usage.get("output_tokens_details")).get("reasoning_tokens")),
            cost=read_cost(usage),
        )
        return add_cache_writes(parsed, details) if details else parsed

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = self.chat.provider_parse_error(status, headers, body)
        if error.parameter == "reasoning.summary":  # OpenAI has summaries for verified organizations only
            error.hint = NO_SUMMARY_HINT
        error.parameter = OPTION_NAMES.get(error.parameter or "", error.parameter)
        return error

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        return self.chat.provider_notice(request, answer)

    def provider_batch(self) -> BatchApi | None:
        return self.chat.provider_batch()

    def provider_decisions(self) -> DecisionApi | None:
        return self.chat.provider_decisions()

    def provider_logprob_options(self) -> dict[str, Any]:
        top = self.chat.provider_logprob_options().get("top_logprobs", MAX_TOP_LOGPROBS)
        return {"include": [LOGPROBS], "top_logprobs": top}

    def provider_parse_logprobs(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        messages = [item for item in read_items(response) if item.get("type") == "message"]
        parts = (read_dict(part) for message in messages for part in read_list(message.get("content")))
        return [read_dict(token) for part in parts for token in read_list(part.get("logprobs"))]

    # Models

    def provider_models_request(self, key: str) -> HttpRequest | None:
        return self.chat.provider_models_request(key)

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        return self.chat.provider_parse_models(body)


def _remove_effort_parameters(profile: ModelProfile) -> ModelProfile:
    """Remove the parameters that an effort becomes on Chat Completions; an effort that is left out still is."""
    if profile.effort_parameters is None:
        return profile
    empty = {effort: parameters for effort, parameters in profile.effort_parameters.items() if not parameters}
    return profile._replace(effort_parameters=empty)


UNEXPLAINED_ERROR = {"code": "server_error", "message": "the model stopped with an error"}
KNOWN_STATUSES = ("completed", "incomplete", "in_progress", "queued", "failed", "cancelled")


def _read_finish(response: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> FinishReason:
    """Return why a response ended. A call that was cut off makes it incomplete, whatever its status."""
    status = read_str(response.get("status"))
    reason = read_str(read_dict(response.get("incomplete_details")).get("reason"))
    calls = [item for item in items if item.get("type") == "function_call"]
    if status in ("failed", "cancelled"):
        return FinishReason.ERROR
    if status == "incomplete" or any(call.get("status") == "incomplete" for call in calls):
        return FinishReason.CONTENT_FILTER if reason == "content_filter" else FinishReason.LENGTH
    has_answer = bool(calls) or any(read_text(item) or read_image_data(item) for item in items)
    if any(map(read_refusal, items)) or (any(map(read_image_refusal, items)) and not has_answer):
        return FinishReason.CONTENT_FILTER
    return FinishReason.TOOL_CALLS if calls else FinishReason.STOP


def _to_api_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the user's parameters to the API's names."""
    parameters = dict(options)
    limits = [parameters.pop(name) for name in TOKEN_LIMIT_OPTIONS if name in parameters]
    if limits:
        parameters["max_output_tokens"] = limits[0]
    for option, name, field in (("reasoning_effort", "reasoning", "effort"), ("verbosity", "text", "verbosity")):
        if option in parameters:
            value = parameters.pop(option)
            parameters[name] = {field: value} | read_dict(parameters.get(name))
    return parameters
