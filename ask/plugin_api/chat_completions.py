"""The base class for providers that use OpenAI's Chat Completions API, as most services do.

A provider states how it differs through constructor arguments or by overriding `headers`, `body` or a hook.
Response JSON is untrusted: every value's type is checked before use.
"""

from __future__ import annotations

import json
import os
import re
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Any

from ask.errors import ProviderError, Remedy
from ask.messages import Answer, Attachment, Finish, Message, Native, ToolCall, Usage
from ask.parsing import as_dict, as_int, as_list, as_number, as_text
from ask.plugin_api.chat_stream import ChatStreamReader, find_error, to_call_list
from ask.plugin_api.provider import ChatRequest, HttpRequest, ModelInfo, Provider, ProviderInfo
from ask.retries import default_remedy

FINISH_REASONS = {
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "content_filter": Finish.FILTER,
    "error": Finish.ERROR,
}
"""Finish reasons with a meaning of their own; any other is a normal stop."""
STANDARD_MEDIA_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp"),
    *("application/pdf", "audio/wav", "audio/mpeg"),
)
"""The MIME types that the API can represent; a service may accept fewer."""
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}
"""The API's names for audio formats whose MIME subtype differs."""
MAX_CALL_ID_LENGTH = 40
MAX_TOOL_NAME_LENGTH = 64
"""The limits for tool calls, in characters, on services as strict as OpenAI."""


class ChatCompletions(Provider):
    """A provider that uses the Chat Completions API.

    Args:
        name: the provider's name, as passed to `-p`.
        base_url: the URL without the final "/chat/completions".
        key_env: the environment variable, or variables, that may contain the key.
        default_model: the model to use unless the user names one.
        title: the service's display name; defaults to `name`.
        needs_key: whether the service refuses requests without a key.
        docs: the URL of the API documentation.
        tells_cost: whether answers report their cost.
        offline_advice: the hint to show if the service cannot be reached.
        no_model_advice: the hint to show if the service lists no models.
        attachments: the MIME types of the images, PDFs and audio that a message may contain; none by default.
        stall_timeout: the default of `--timeout` in seconds, if models may be silent for longer than usual.
    """

    native_fields: tuple[str, ...] = ()
    """Fields of an assistant message to send back verbatim in later requests."""
    schema_beside_tools = False
    """Whether a request may combine a schema with callable tools, and the model still calls them."""

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
        stall_timeout: float | None = None,
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
                stall_timeout=stall_timeout,
            )
        )

    # Requests

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request: the key as a bearer token, if there is one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat request; override to add a service's own parameters."""
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
        """Check whether to send the schema in the request.

        Services reject schemas whose type is not an object. Most also reject a schema combined with callable tools, or
        stop calling the tools (see `schema_beside_tools`).
        """
        is_compatible = not request.tools or request.tool_choice == "none" or self.schema_beside_tools
        return is_compatible and schema.get("type") == "object"

    def response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `response_format` that requests answers matching a schema."""
        from ask.plugin_api.strict_schema import to_strict_schema

        strict = to_strict_schema(schema)
        json_schema = {"name": "answer", "schema": strict or dict(schema), "strict": strict is not None}
        return {"type": "json_schema", "json_schema": json_schema}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Convert a message to the API's format, including its provider-specific parts."""
        if message.role == "tool":
            return self.provider_format_tool_result(message.tool_call_id, message.tool_name, message.content)
        formatted: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.attachments:
            text_parts = [{"type": "text", "text": message.content}] if message.content else []
            formatted["content"] = [*text_parts, *map(self.format_attachment, message.attachments)]
        if message.tool_calls:
            formatted["content"] = message.content or None
            formatted["tool_calls"] = [
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
        return formatted | dict(self.native_for(message, model))

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        return media_type in self.attachments

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        """Convert an attachment to a content part: image, audio, or a named file."""
        main_type, _, subtype = attachment.media_type.partition("/")
        if main_type == "image":
            return {"type": "image_url", "image_url": {"url": attachment.data_url}}
        if main_type == "audio":
            audio_format = AUDIO_FORMATS.get(attachment.media_type) or subtype
            return {"type": "input_audio", "input_audio": {"data": attachment.base64, "format": audio_format}}
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
        native = {name: message[name] for name in self.native_fields if message.get(name) is not None}
        answer = Answer(
            text=as_text(message.get("content")) + refusal,
            reasoning=as_text(message.get("reasoning") or message.get("reasoning_content")),
            finish=Finish.FILTER if refusal else FINISH_REASONS.get(str(choice.get("finish_reason")), Finish.STOP),
            usage=self.parse_usage(as_dict(response.get("usage") or choice.get("usage"))),
            native=Native(self.info.name, as_text(response.get("model")), native) if native else None,
        )
        error = self.failure(response, answer)
        if error:
            error.answer = answer
            raise error
        return answer

    def failure(self, response: Mapping[str, Any], answer: Answer) -> ProviderError | None:
        """Return the error inside a response with status 200, or None."""
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
        # The deprecated predecessor of `tool_calls`, with at most one call:
        # https://platform.openai.com/docs/api-reference/chat/object
        legacy_call = message.get("function_call")
        legacy_calls = [{"function": legacy_call}] if as_dict(legacy_call).get("name") else []
        return read_tool_calls(message.get("tool_calls") or legacy_calls)

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Parse the tokens and the cost, as far as they are reported."""
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
        """Parse one entry of the models list."""
        return ModelInfo(
            id=as_text(entry.get("id")),
            title=as_text(entry.get("name")),
            context_length=as_int(entry.get("context_length") or entry.get("context_window")),
        )


def first_choice(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a response, or {} if there is none."""
    return as_dict(next(iter(as_list(response.get("choices"))), None))


def read_tool_calls(entries: Any) -> list[ToolCall]:
    """Parse a `tool_calls` array, or a single call in its place.

    Missing and duplicate ids are replaced with generated ones. Arguments sent as an object are serialized to JSON.
    """
    calls: list[ToolCall] = []
    seen_ids: set[str] = set()
    for entry in to_call_list(entries):
        function = as_dict(as_dict(entry).get("function"))
        arguments = function.get("arguments")
        arguments_json = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        call_id = as_text(as_dict(entry).get("id"))
        if not call_id or call_id in seen_ids:
            call_id = invent_id()
        seen_ids.add(call_id)
        calls.append(ToolCall(call_id, as_text(function.get("name")) or "unnamed", arguments_json))
    return calls


def invent_id() -> str:
    """Generate a random id for a tool call that came without one."""
    return f"call_{os.urandom(8).hex()}"


def shorten_call_id(call_id: str) -> str:
    """Shorten a call id to the length that services accept in requests.

    Some services return longer ids than they accept.
    """
    return (
        call_id
        if len(call_id) <= MAX_CALL_ID_LENGTH
        else f"{call_id[: MAX_CALL_ID_LENGTH - 9]}_{crc32(call_id.encode()):08x}"
    )


def sanitize_tool_name(name: str) -> str:
    """Replace the characters in a tool name that services reject in requests.

    Models may call tools by invented names.
    """
    sanitized = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return sanitized[:MAX_TOOL_NAME_LENGTH] or "_"


def arguments_object(text: str) -> dict[str, Any] | None:
    """Parse a call's arguments; None unless they are an object that can be sent.

    Objects with NaN, infinity or a lone surrogate cannot be sent. Services reject requests that contain a call with
    any such arguments.
    """
    value = parse_json(text)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str) -> Any:
    """Parse JSON; return None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def error_text(error: Any) -> str:
    """Return an error's message as one line.

    An error passed on by a gateway yields the upstream provider's message, prefixed with that provider's name.
    """
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
    """Format the `detail` of an error: a string, or FastAPI's validation errors."""
    messages = []
    for entry in map(as_dict, as_list(detail)):
        location = ".".join(str(part) for part in as_list(entry.get("loc")) if part != "body")
        messages.append(": ".join(filter(None, (location, as_text(entry.get("msg"))))))
    return "; ".join(filter(None, messages)) or as_text(detail)


def unwrap_nested_error(text: str) -> str:
    """Replace a nested JSON error at the end of a message with its text."""
    start = text.find("{")
    inner = find_error(parse_json(text[start:])) if start >= 0 else None
    return text if inner is None else text[:start] + error_text(inner)


def page_text(body: str) -> str:
    """Return the message of a body that is not JSON.

    This is the title of an HTML page, or the start of the text.
    """
    title = re.search(r"<title[^>]*>(.*?)</title>", body, re.IGNORECASE | re.DOTALL)
    text = title.group(1) if title else re.sub(r"<[^>]*>", " ", body)
    return " ".join(text.split())[:300]
