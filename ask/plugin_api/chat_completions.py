"""OpenAI's Chat Completions wire, spoken by most services: a provider that is one call to describe.

A service's own file states how it differs: through the arguments, or by overriding `headers`, `body` or a
hook. The JSON that comes in may have any shape at all; nothing here trusts a type it has not looked at.
"""

from __future__ import annotations

import json
import os
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Any

from ask.errors import ProviderError, Remedy
from ask.messages import Answer, Attachment, Finish, Message, Native, ToolCall, Usage
from ask.parsing import as_dict, as_int, as_list, as_number, as_text
from ask.plugin_api.chat_stream import ChatStreamReader, find_error, to_call_list
from ask.plugin_api.provider import ChatRequest, HttpRequest, ModelInfo, Provider, ProviderInfo, default_remedy

FINISH_REASONS = {
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    "error": Finish.ERROR,
}
"""Finish reasons that mean something; any other is a normal stop."""
STANDARD_MEDIA_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp"),
    *("application/pdf", "audio/wav", "audio/mpeg"),
)
"""What the wire itself has a form for. Which of it a service takes is another matter."""
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}
"""What the wire calls audio whose MIME type has another name."""
MAX_CALL_ID_LENGTH = 40
MAX_TOOL_NAME_LENGTH = 64
"""Of calls, in characters, where a service is as strict as OpenAI."""


class ChatCompletions(Provider):
    """A service that speaks Chat Completions.

    Args:
        name: what `-p` takes.
        base_url: the address up to and without "/chat/completions".
        key_env: the environment variable, or variables, that may hold the key.
        default_model: the model to ask where none is named.
        title: how people write the service's name; the name if left out.
        needs_key: whether the service refuses requests without a key.
        docs: the address of its API's documentation.
        tells_cost: whether its answers tell what they cost.
        offline_advice: what to do where it does not answer.
        no_model_advice: what to do where it lists no model.
        attachments: the MIME types of files that a message may hold, of images, PDF and audio; none by default.
    """

    native_fields: tuple[str, ...] = ()
    """Fields of an assistant message that the model needs back verbatim in later requests."""
    schema_beside_tools = False
    """Whether the service takes a schema in a request with tools that may be called, and they still are called."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key_env: str | tuple[str, ...] = (),
        default_model: str = "",
        title: str = "",
        needs_key: bool = True,
        docs: str = "",
        tells_cost: bool = False,
        offline_advice: str = "",
        no_model_advice: str = "",
        attachments: Sequence[str] = (),
    ) -> None:
        self.attachments = frozenset(attachments)
        names = (key_env,) if isinstance(key_env, str) else tuple(key_env)
        super().__init__(
            ProviderInfo(
                name=name,
                title=title or name,
                base_url=base_url,
                default_model=default_model,
                key_env=names,
                needs_key=needs_key,
                docs=docs,
                tells_cost=tells_cost,
                offline_advice=offline_advice,
                no_model_advice=no_model_advice,
            )
        )

    # Requests

    def headers(self, key: str) -> dict[str, str]:
        """The headers of every request: the key as a bearer token, if there is one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The body of a chat request; a place for a service's own parameters."""
        body: dict[str, Any] = {"model": request.model}
        body["messages"] = [self.format_message(message, request.model) for message in request.messages]
        if request.tools:
            body["tools"] = self.provider_format_tools(request.tools)
            body["tool_choice"] = request.tool_choice
        if request.schema is not None and self.takes_schema(request, request.schema):
            body["response_format"] = self.response_format(request.schema)
        if request.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | dict(request.options)

    def takes_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        """Whether a request carries its schema: one of an object, and where no tools may be called beside it.

        Elsewhere services refuse it, or let no tools be called for it.
        """
        free = not request.tools or request.tool_choice == "none" or self.schema_beside_tools
        return free and schema.get("type") == "object"

    def response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """How this service is told of a schema."""
        from ask.plugin_api.strict_schema import to_strict_schema

        strict = to_strict_schema(schema)
        described = {"name": "answer", "schema": strict or dict(schema), "strict": strict is not None}
        return {"type": "json_schema", "json_schema": described}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """One message in this wire, with the native parts that its model needs back."""
        if message.role == "tool":
            return self.provider_format_tool_result(message.tool_call_id, message.tool_name, message.content)
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.attachments:
            text = [{"type": "text", "text": message.content}] if message.content else []
            wire["content"] = [*text, *map(self.format_attachment, message.attachments)]
        if message.tool_calls:
            wire["content"] = message.content or None
            wire["tool_calls"] = [
                {
                    "id": shorten_call_id(call.id),
                    "type": "function",
                    "function": {
                        "name": sanitize_tool_name(call.name),
                        "arguments": "{}" if arguments_object(call.arguments) is None else call.arguments,
                    },
                }
                for call in message.tool_calls
            ]
        return wire | dict(self.native_for(message, model))

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        return media_type in self.attachments

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        """One file as a content part: an image, audio, or any other file under its name."""
        group = attachment.media_type.partition("/")[0]
        if group == "image":
            return {"type": "image_url", "image_url": {"url": attachment.data_url}}
        if group == "audio":
            name = AUDIO_FORMATS.get(attachment.media_type) or attachment.media_type.partition("/")[2]
            return {"type": "input_audio", "input_audio": {"data": attachment.base64, "format": name}}
        return {"type": "file", "file": {"filename": attachment.name, "file_data": attachment.data_url}}

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": shorten_call_id(tool_call_id), "content": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/chat/completions", self.body(request), self.headers(key))

    # Answers

    def provider_stream_reader(self) -> ChatStreamReader:
        return ChatStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:
        choice = first_choice(response)
        message = as_dict(choice.get("message"))
        refusal = as_text(message.get("refusal"))
        kept = {name: message[name] for name in self.native_fields if message.get(name) is not None}
        answer = Answer(
            text=as_text(message.get("content")) + refusal,
            reasoning=as_text(message.get("reasoning") or message.get("reasoning_content")),
            finish=Finish.FILTER if refusal else FINISH_REASONS.get(str(choice.get("finish_reason")), Finish.STOP),
            usage=self.parse_usage(as_dict(response.get("usage") or choice.get("usage"))),
            native=Native(self.info.name, as_text(response.get("model")), kept) if kept else None,
        )
        failure = self.failure(response, answer)
        if failure:
            failure.answer = answer
            raise failure
        return answer

    def failure(self, response: Mapping[str, Any], answer: Answer) -> ProviderError | None:
        """The error that a response holds despite its status of 200, if any."""
        error = find_error(response)
        if error is not None:
            code = as_int(as_dict(error).get("code") or as_dict(error).get("status"))
            status = code if code and 400 <= code <= 599 else 200
            return self.provider_parse_error(status, {}, json.dumps({"error": error}))
        if answer.finish is Finish.ERROR:
            reason = as_text(first_choice(response).get("native_finish_reason")) or "error"
            return ProviderError(f"the model stopped with {reason}", None, Remedy.RETRY())
        return None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        message = as_dict(first_choice(response).get("message"))
        old = message.get("function_call")  # the form before tools, in which there is one call at most
        return read_tool_calls(message.get("tool_calls") or ([{"function": old}] if as_dict(old).get("name") else []))

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Tokens and cost, where told."""
        return Usage(
            input_tokens=as_int(usage.get("prompt_tokens")),
            output_tokens=as_int(usage.get("completion_tokens")),
            cached_tokens=as_int(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
            cost=as_number(usage.get("cost")),
        )

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = find_error(parse_json(body))
        return ProviderError(
            error_text(error) or page_text(body) or "no explanation",
            None if status == 200 else status,
            default_remedy(status, headers),
            parameter=as_text(as_dict(error).get("param")) or None,
        )

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = as_list(body if isinstance(body, list) else as_dict(body).get("data"))
        return [self.parse_model(as_dict(entry)) for entry in entries if as_text(as_dict(entry).get("id"))]

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        """One entry of the models list."""
        return ModelInfo(
            id=as_text(entry.get("id")),
            title=as_text(entry.get("name")),
            context_length=as_int(entry.get("context_length") or entry.get("context_window")),
        )


def first_choice(response: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice of a response; {} where there is none."""
    return as_dict(next(iter(as_list(response.get("choices"))), None))


def read_tool_calls(entries: Any) -> list[ToolCall]:
    """The calls in a `tool_calls` array, or the one that stands in its place, under ids that differ.

    Arguments that came as an object become its text.
    """
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for entry in to_call_list(entries):
        function = as_dict(as_dict(entry).get("function"))
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        call_id = as_text(as_dict(entry).get("id"))
        if not call_id or call_id in seen:
            call_id = invent_id()
        seen.add(call_id)
        calls.append(ToolCall(call_id, as_text(function.get("name")) or "unnamed", text))
    return calls


def invent_id() -> str:
    """An id for a call that came without one of its own."""
    return f"call_{os.urandom(8).hex()}"


def shorten_call_id(call_id: str) -> str:
    """A call's id for the history: services take no longer one, though some make them."""
    return (
        call_id
        if len(call_id) <= MAX_CALL_ID_LENGTH
        else f"{call_id[: MAX_CALL_ID_LENGTH - 9]}_{crc32(call_id.encode()):08x}"
    )


def sanitize_tool_name(name: str) -> str:
    """A tool's name for the history: what a model made up may hold characters that services refuse."""
    legal = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    return legal[:MAX_TOOL_NAME_LENGTH] or "_"


def arguments_object(text: str) -> dict[str, Any] | None:
    """A call's arguments; None where they are no JSON object, or one that no request can hold: NaN, half a character.

    Services refuse a history that holds anything else.
    """
    value = parse_json(text)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str) -> Any:
    """The JSON value in a text, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def error_text(error: Any) -> str:
    """What an error says, one line: its message, or the upstream provider's own words with its name before them."""
    if isinstance(error, str):
        return " ".join(unwrap_nested_error(error).split())
    fields = as_dict(error)
    metadata = as_dict(fields.get("metadata"))
    raw = metadata.get("raw")
    inner = find_error(parse_json(raw) if isinstance(raw, str) else raw)
    upstream = error_text(raw if inner is None else inner) if raw else ""
    if not upstream:
        return error_text(as_text(fields.get("message")) or format_error_detail(fields.get("detail")))
    name = " ".join(as_text(metadata.get("provider_name")).split())
    return f"{name}: {upstream}" if name else upstream


def format_error_detail(detail: Any) -> str:
    """What a service says under `detail`: a text, or what does not fit and where, as FastAPI does."""
    lines = []
    for entry in map(as_dict, as_list(detail)):
        where = ".".join(str(part) for part in as_list(entry.get("loc")) if part != "body")
        lines.append(": ".join(filter(None, (where, as_text(entry.get("msg"))))))
    return "; ".join(filter(None, lines)) or as_text(detail)


def unwrap_nested_error(text: str) -> str:
    """A message that ends in another service's error, as it came, with what that says in its place."""
    start = text.find("{")
    inner = find_error(parse_json(text[start:])) if start >= 0 else None
    return text if inner is None else text[:start] + error_text(inner)


def page_text(body: str) -> str:
    """What a body that is no JSON says: a page's title, or the start of the text."""
    import re

    title = re.search(r"<title[^>]*>(.*?)</title>", body, re.IGNORECASE | re.DOTALL)
    text = title.group(1) if title else re.sub(r"<[^>]*>", " ", body)
    return " ".join(text.split())[:300]
