"""The base class for providers that use OpenAI's Chat Completions API, as most services do, and its stream reader.

A provider states how it differs through constructor arguments or by overriding `build_headers`, `build_body` or a hook.
Response JSON is untrusted: every value's type is checked before use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from ask.errors import ProviderError, RetryAction
from ask.messages import (
    MAX_GENERATED_IMAGES,
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
    Usage,
)
from ask.parsing import (
    AUDIO_NOTICE,
    CHARACTERS_PER_MEDIA_CHARACTER,
    ITEM_OVERHEAD_CHARACTERS,
    MAX_FIELDS,
    AnswerAccumulator,
    AnswerPart,
    decode_arguments,
    find_error,
    fit_call_id,
    format_unknown_reason,
    merge_fields,
    merge_usage,
    parse_event,
    read_date,
    read_dict,
    read_first_choice,
    read_image,
    read_int,
    read_list,
    read_number,
    read_service_tier,
    read_str,
    read_tool_calls,
    to_object_list,
)
from ask.plugin_api.provider import Provider
from ask.plugin_api.types import (
    DEFAULT_STALL_SECONDS,
    EXECUTED_TOOLS,
    SERVER_CALL_DETAIL,
    ChatRequest,
    HttpRequest,
    ModelInfo,
    ProviderInfo,
    StreamReader,
)
from ask.text import format_checksum

CALL_FIELDS = ("extra_content", "thought_signature", "thoughtSignature")
"""A call's fields with a signature that Gemini 3 needs back: https://github.com/securo-finance/securo/issues/884"""
REASONING_FIELDS = ("reasoning", "reasoning_content")
TEXT_FIELDS = ("content", "refusal", *REASONING_FIELDS)
MEDIA_FIELDS = frozenset({"images", "audio", EXECUTED_TOOLS})


class ChatStreamReader(AnswerAccumulator):
    """The `ask.StreamReader` for Chat Completions streams."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = False
        """Set by the chunk with the usage, which some gateways send last, without a finish reason before it.

        https://github.com/earendil-works/pi/pull/7441
        """
        self._first_index = self._last_index = -1
        self._numbers_chunks = True
        """Whether the index of each choice so far was larger than the one before."""
        self._top_level_fields: dict[str, Any] = {}
        self._choice_fields: dict[str, Any] = {}
        self._texts: dict[str, StringIO] = {}
        self._has_text = False
        self._content: list[AnswerPart] = []
        """The parts of a list in `content`, once it contains thinking."""
        self._reasoning_details: dict[Any, tuple[dict[str, Any], dict[str, StringIO]]] = {}
        self._has_reasoning_details = False
        self._media_fields: dict[str, Any] = {}
        self._annotations: list[Any] = []

    def feed(self, event: RawEvent) -> list[Delta]:
        chunk = parse_event(event.data, event.event, after_end=self.complete)
        error = _find_any_error(chunk)
        chunk = read_dict(chunk)
        merge_fields(self._top_level_fields, chunk, "choices", "error", "usage")
        if error is not None:
            self._top_level_fields["error"] = error
            self.complete = True
        choices = to_object_list(chunk.get("choices"))
        has_usage = not choices and bool(read_dict(chunk.get("usage")))
        self.may_end = not self.calls and (has_usage or (self.may_end and not choices)) and self._has_text
        self._deltas = []
        for choice in choices:
            self._read_choice(read_dict(choice), is_only=len(choices) == 1)
        if "usage" in chunk:
            merge_usage(self.usage, chunk["usage"], is_final=self.complete or not choices)
        return self._deltas

    def _read_choice(self, choice: dict[str, Any], *, is_only: bool) -> None:
        delta = read_dict(choice.get("delta"))
        if self._is_other_answer(choice, delta, is_only=is_only):
            return
        if not delta and (message := read_dict(choice.get("message"))):
            delta = self._remove_streamed(message)
        if not MEDIA_FIELDS.isdisjoint(delta):
            delta = self._read_media(delta)
        self._read_text_fields(delta)
        # Even if it is empty, DeepSeek's models on OpenRouter need the list back:
        # https://github.com/OpenRouterTeam/ai-sdk-provider/pull/487
        self._has_reasoning_details |= isinstance(delta.get("reasoning_details"), list)
        for annotation in read_list(delta.get("annotations")):
            if annotation not in self._annotations[-MAX_FIELDS:]:  # each chunk repeats them, or brings the next one
                self._annotations.append(annotation)
                self.size += len(str(annotation))
        for fragment in read_list(delta.get("reasoning_details")):
            self._add_reasoning_detail(read_dict(fragment))
        for fragment in map(read_dict, to_object_list(delta.get("tool_calls"))):
            function = read_dict(fragment.get("function")) or fragment
            self.add_call(
                fragment.get("index"),
                call_id=fragment.get("id"),
                name=function.get("name"),
                arguments=function.get("arguments"),
                **{field: fragment.get(field) or None for field in CALL_FIELDS},
            )
        finish_reason = choice.get("finish_reason") or None  # MiniMax sends "" until the answer ends
        fields = choice | {"finish_reason": finish_reason}
        merge_fields(self._choice_fields, fields, "delta", "message", "index", "usage")
        self.complete = self.complete or finish_reason is not None
        if "usage" in choice:  # Moonshot
            self.add_usage(choice["usage"])

    def _is_other_answer(self, choice: dict[str, Any], delta: dict[str, Any], *, is_only: bool) -> bool:
        """Check whether a choice belongs to another answer than the first, as with the option `n`.

        Other answers begin without content, or in the same chunk. Some servers number the chunks instead, as if each
        were another answer: https://github.com/microsoft/foundry-local/issues/263
        """
        index = read_int(choice.get("index")) or 0
        if index == self._first_index or self._last_index < 0:
            self._numbers_chunks = self._last_index < 0
            self._first_index = self._last_index = index
            return False
        has_content = any(map(delta.get, (*TEXT_FIELDS, "tool_calls"))) or bool(choice.get("finish_reason"))
        self._numbers_chunks &= is_only and has_content and index > self._last_index
        self._last_index = max(index, self._last_index)
        return not self._numbers_chunks

    def _remove_streamed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a complete message without what was already streamed.

        Some streams end with the whole message: https://github.com/abundantbeing/hermes-browser-extension/issues/11
        """
        has_parts = bool(self._content)
        streamed = {
            name: text.getvalue()
            for name, text in self._texts.items()
            if text.tell() or (name == "content" and has_parts)
        }
        texts = {name: read_str(message.get(name)) for name in streamed}
        new_texts = {
            name: text[len(streamed[name]) :] if text.startswith(streamed[name]) else None
            for name, text in texts.items()
        }
        return message | new_texts | ({"tool_calls": None} if self.calls else {})

    def _read_media(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Add images and calls of Groq's own tools, note audio, and return a delta whose text is that of the audio."""
        for tool in map(read_dict, read_list(delta.get(EXECUTED_TOOLS))):
            if tool.get("output") is not None:  # an earlier chunk has the call without it
                self._media_fields.setdefault(EXECUTED_TOOLS, []).append(tool)
                self._add_server_call(tool)
        for image in read_list(delta.get("images")):
            images = self._media_fields.setdefault("images", [])
            # A chunk may repeat the images of earlier ones.
            if image not in images and len(images) < MAX_GENERATED_IMAGES:
                images.append(image)
                self.size += ITEM_OVERHEAD_CHARACTERS
                self.size += int(len(_read_image_url(image)) * CHARACTERS_PER_MEDIA_CHARACTER)
        if audio := read_dict(delta.get("audio")):
            self._media_fields["audio"] = {"id": read_str(audio.get("id"))}
        return delta | {"content": delta.get("content") or audio.get("transcript")} if audio else delta

    def _read_text_fields(self, delta: dict[str, Any]) -> None:
        """Read text and reasoning; reasoning sent in two fields is returned once."""
        reasoning = ""
        for name, value in delta.items():
            if value is None or name not in TEXT_FIELDS:
                continue
            text = read_str(value)
            self.size += self._texts.setdefault(name, StringIO()).write(text)
            if name in REASONING_FIELDS:
                reasoning = reasoning or text
                continue
            self._has_text = self._has_text or text != ""
            if name == "content" and (self._content or (isinstance(value, list) and _has_thinking(value))):
                reasoning = reasoning or self._add_content(value)
            if text:
                self._deltas.append(TextDelta(text))
        if reasoning:
            self._deltas.insert(0, ReasoningDelta(reasoning))

    def _add_content(self, content: Any) -> str:
        """Add to the parts of `content`, and return the thinking that is new."""
        if not self._content and (text := self._texts["content"].getvalue().removesuffix(read_str(content))):
            content = [{"type": "text", "text": text}, *content]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else read_list(content)
        thinking = ""
        for part in map(read_dict, parts):
            is_thinking = part.get("type") == "thinking"
            text = _read_thinking([part]) if is_thinking else read_str(part.get("text"))
            if not (text or is_thinking):
                continue
            last = self._content[-1] if self._content else None
            # A signature belongs to the thinking before it.
            if last is None or (last.kind == "reasoning") is not is_thinking or (text and last.fields.get("signature")):
                last = AnswerPart("reasoning" if is_thinking else "text")
                self._content.append(last)
                self.size += ITEM_OVERHEAD_CHARACTERS
            last.buffer.write(text)
            merge_fields(last.fields, part, "text", "thinking")
            if is_thinking:
                thinking += text
                self.size += len(text) + len(read_str(part.get("signature")))
        return thinking

    def _add_reasoning_detail(self, fragment: dict[str, Any]) -> None:
        """Join fragments by type and index; the last may have only the signature.

        Encrypted data and calls with their result come in one piece and are never joined.
        """
        is_call = fragment.get("type") == SERVER_CALL_DETAIL and fragment.get("result") is not None
        if is_call:
            self._add_server_call(fragment)
        is_complete = is_call or fragment.get("data") is not None
        key = len(self._reasoning_details) if is_complete else (str(fragment.get("type")), str(fragment.get("index")))
        if key not in self._reasoning_details:
            self.size += ITEM_OVERHEAD_CHARACTERS
        fields, texts = self._reasoning_details.setdefault(key, ({}, {}))
        for name, value in fragment.items():
            if isinstance(value, str) and name in ("text", "summary"):
                self.size += texts.setdefault(name, StringIO()).write(value)
            elif (value is not None or name not in fields) and len(fields) < MAX_FIELDS:
                self.size += len(value) if name in ("data", "signature") and isinstance(value, str) else 0
                fields[name] = value

    def _add_server_call(self, call: dict[str, Any]) -> None:
        """Show a call of the service's own tool, which has its result."""
        from ask.plugin_api.openai_citations import make_message_call

        self.size += len(str(call))
        self._deltas.append(ServerToolDelta(make_message_call(call)))

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for name, text in self._texts.items():
            message[name] = text.getvalue()
        message |= self._media_fields
        if self._annotations:
            message["annotations"] = self._annotations
        if self._has_reasoning_details:
            message["reasoning_details"] = [
                fields | {name: text.getvalue() for name, text in texts.items()}
                for fields, texts in self._reasoning_details.values()
            ]
        if self._content:
            message["content"] = [
                {"thinking": [{"type": "text", "text": part.text}]} | part.fields
                if part.kind == "reasoning"
                else {"text": part.text} | part.fields
                for part in self._content
            ]
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                | call.fields
                for call in self.calls
            ]
        choice = {"index": 0, "finish_reason": None} | self._choice_fields | {"message": message}
        usage = {"usage": self.usage} if self.usage else {}
        return self._top_level_fields | usage | {"object": "chat.completion", "choices": [choice]}


SOURCE_FIELDS = ("citations", "search_results")
FINISH_REASONS = {
    "tool_calls": FinishReason.TOOL_CALLS,
    **dict.fromkeys(("length", "max_tokens", "model_length", "model_context_window_exceeded"), FinishReason.LENGTH),
    **dict.fromkeys(("content_filter", "safety", "sensitive"), FinishReason.CONTENT_FILTER),
    **dict.fromkeys(("error", "network_error", "insufficient_system_resource", "abort"), FinishReason.ERROR),
}
"""Finish reasons with a meaning of their own, in lower case; any other is a stop, and reported if it is unknown.

Gateways pass on those of Gemini, in upper case: https://github.com/QwenLM/qwen-code/issues/9882. Mistral has
model_length, Z.ai sensitive, network_error and model_context_window_exceeded
(https://docs.z.ai/api-reference/llm/chat-completion), DeepSeek insufficient_system_resource, and vLLM and SGLang abort.
"""
STANDARD_MEDIA_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp"),
    *("application/pdf", "audio/wav", "audio/mpeg"),
)
"""The MIME types that the API can represent; a service may accept fewer."""
AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp4": "m4a"}
"""The API's names for audio formats whose MIME subtype differs."""
CONTEXT_FIELDS = ("context_length", "context_window", "max_model_len", "max_context_length")
"""What services call a model's context length: vLLM and SGLang `max_model_len`, Mistral `max_context_length`."""
MINIMAX_STATUSES = {1000: 500, 1001: 504, 1002: 429, 1004: 401, 1008: 402, 1024: 500, 1033: 500, 1039: 429, 2049: 401}
"""HTTP statuses for MiniMax's codes: https://platform.minimax.io/docs/api-reference/errorcode"""
CACHED_TOKENS_FIELDS = ("cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
"""The names of the cached tokens beside those of the prompt: Moonshot's, Mistral's, DeepSeek's and LiteLLM's."""
CACHE_WRITE_FIELDS = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
MAX_CALL_ID_CHARACTERS = 40
MAX_TOOL_NAME_CHARACTERS = 64
"""The limits for tool calls, on services as strict as OpenAI."""
MAX_TOP_LOGPROBS = 20
"""The limit for the alternatives of a token: https://developers.openai.com/api/reference/resources/chat"""
SIGNATURE_SEPARATOR = "__thought__"
"""Separates a call id from Gemini's signature in LiteLLM: https://github.com/BerriAI/litellm/pull/16895"""


class ChatCompletions(Provider):
    """A provider that uses the Chat Completions API.

    It implements every hook. A subclass overrides what differs: a hook, or one of the methods below, which the hooks
    call.

    Args:
        name: the provider's name, as passed to `-p`.
        base_url: the URL without the final "/chat/completions".
        key_env: the environment variable, or variables, that may contain the key.
        default_model: the model to use unless the user names one.
        title: the service's display name; defaults to `name`.
        needs_key: whether the service refuses requests without a key.
        reports_cost: whether answers report their cost.
        offline_hint: the hint to show if the service cannot be reached.
        no_models_hint: the hint to show if the service lists no models.
        attachments: the MIME types of the images, PDFs and audio that a message may contain, such as "image/png", if
            `profiles` do not say so; none by default.
        stall_timeout: the default of `--timeout` in seconds; longer if models may be silent for longer than usual.
    """

    openai_api = "chat"
    state_fields: tuple[str, ...] = ()
    """Fields of an assistant message to send back verbatim in later requests, such as "reasoning_content".

    "content" is sent back if it is a list with thinking in it, as Mistral wants it.
    """
    call_id_pattern = ""
    """A regular expression for the call ids that the service accepts; "" for any of at most 40 characters.

    Ids of other providers' calls that do not match it are replaced with nine letters and digits.
    """
    requests_usage = True
    """Whether requests for a stream ask for the usage, in `stream_options`. A few services refuse that."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key_env: str | tuple[str, ...] = (),
        default_model: str = "",
        title: str = "",
        needs_key: bool = True,
        reports_cost: bool = False,
        offline_hint: str = "",
        no_models_hint: str = "",
        attachments: Sequence[str] = (),
        stall_timeout: float = DEFAULT_STALL_SECONDS,
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
                reports_cost=reports_cost,
                offline_hint=offline_hint,
                no_models_hint=no_models_hint,
                stall_timeout=stall_timeout,
            )
        )

    # Requests

    def build_headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request: the key as a bearer token, if there is one."""
        return self.build_key_header(key)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat request; override to add a service's own parameters."""
        body: dict[str, Any] = {"model": request.model}
        body["messages"] = [self.format_message(message, request.model) for message in request.messages]
        if request.tools or request.server_tools:
            body["tools"] = [*request.server_tools.values(), *request.tools]
            body["tool_choice"] = request.tool_choice
        if request.schema is not None and self.supports_schema(request, request.schema):
            body["response_format"] = self.format_schema(request.schema)
        if request.stream:
            body["stream"] = True
            if self.requests_usage:
                body["stream_options"] = {"include_usage": True}
        return body | dict(request.options)

    def supports_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        """Check whether to send the schema in the request.

        Services reject schemas whose type is not an object. Most also reject a schema combined with callable tools, or
        stop calling the tools, unless the model's profile says otherwise.
        """
        is_compatible = not request.tools or request.tool_choice == "none" or request.profile.schema_with_tools
        return bool(is_compatible) and schema.get("type") == "object"

    def format_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the `response_format` that requests answers matching a schema."""
        from ask.plugin_api.strict_schema import to_strict_schema

        strict = to_strict_schema(schema)
        json_schema = {"name": "answer", "schema": strict or dict(schema), "strict": strict is not None}
        return {"type": "json_schema", "json_schema": json_schema}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Convert a message to the API's format, including its provider-specific parts."""
        formatted: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "tool":
            formatted = dict(message.formatted_result or {})
        if message.attachments:
            text_parts = [{"type": "text", "text": formatted["content"]}] if formatted.get("content") else []
            formatted["content"] = [*text_parts, *map(self.format_attachment, message.attachments)]
        if message.tool_calls:
            formatted["content"] = message.content or None
            formatted["tool_calls"] = [
                {
                    "id": self.format_call_id(call.id),
                    "type": "function",
                    "function": {
                        "name": sanitize_tool_name(call.name),
                        "arguments": "{}" if decode_arguments(call.arguments) is None else call.arguments,
                    },
                }
                for call in message.tool_calls
            ]
        # An imported conversation may contain any state; what is shown of the message must be what is sent.
        if message.provider_state:
            state = self.find_provider_state(message, model)
            fields = {name: state[name] for name in self.state_fields if name in state}
            if "content" in fields and read_str(fields["content"]) != message.content:
                del fields["content"]
            formatted |= fields
            calls = formatted.get("tool_calls", ())
            for name in CALL_FIELDS:
                values = read_list(state.get(name))
                for call, value in zip(calls, values, strict=True) if len(calls) == len(values) else ():
                    call.update({name: value} if value else {})
        return formatted

    def format_call_id(self, call_id: str) -> str:
        """Return the id under which a call of any provider is sent, with the call and with its result.

        Some services return longer ids than they accept. An id to which a gateway has added a signature is kept.
        """
        if self.call_id_pattern:
            return fit_call_id(self.call_id_pattern, call_id)
        return call_id if SIGNATURE_SEPARATOR in call_id else shorten_call_id(call_id)

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type in self.attachments or super().provider_supports_attachment(model, media_type)

    def format_attachment(self, attachment: Attachment) -> dict[str, Any]:
        """Convert an attachment to a content part: image, audio, video, or a named file."""
        main_type, _, subtype = attachment.media_type.partition("/")
        if main_type == "image":
            return {"type": "image_url", "image_url": {"url": attachment.data_url}}
        if main_type == "video":  # https://openrouter.ai/docs/guides/overview/multimodal/videos
            return {"type": "video_url", "video_url": {"url": attachment.data_url}}
        if main_type == "audio":
            audio_format = AUDIO_FORMATS.get(attachment.media_type) or subtype
            return {"type": "input_audio", "input_audio": {"data": attachment.base64, "format": audio_format}}
        return {"type": "file", "file": {"filename": attachment.name, "file_data": attachment.data_url}}

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self.format_call_id(tool_call_id), "content": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/chat/completions", {**self.build_body(request)}, self.build_headers(key))

    # Answers

    def provider_stream_reader(self) -> StreamReader:
        return ChatStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        choice = read_first_choice(response)
        message = read_dict(choice.get("message"))
        refusal = read_str(message.get("refusal"))
        content = message.get("content")
        groq_fields = read_dict(response.get("x_groq"))
        state = {name: message[name] for name in self.state_fields if message.get(name) is not None}
        if "content" in state and not (isinstance(content, list) and _has_thinking(content)):
            del state["content"]
        calls = list(map(read_dict, to_object_list(message.get("tool_calls"))))
        state |= {name: values for name in CALL_FIELDS if any(values := [call.get(name) for call in calls])}
        audio = read_dict(message.get("audio"))
        image_urls = list(map(_read_image_url, read_list(message.get("images"))))
        linked_images = ", ".join(url for url in image_urls if url.startswith(("http://", "https://")))
        answer = ModelResponse(
            text=(read_str(content) or read_str(audio.get("transcript"))) + refusal,
            reasoning=read_str(message.get("reasoning") or message.get("reasoning_content"))
            or (_read_thinking(content) if isinstance(content, list) else ""),
            finish_reason=FinishReason.CONTENT_FILTER
            if refusal
            else FINISH_REASONS.get(str(choice.get("finish_reason")).lower(), FinishReason.STOP),
            usage=self.parse_usage(
                read_dict(response.get("usage") or choice.get("usage") or groq_fields.get("usage"))
            )._replace(service_tier=read_service_tier(response.get("service_tier"))),
            provider_state=ProviderState(self.info.name, read_str(response.get("model")), state) if state else None,
            finish_message=(f"the answer has an image at {linked_images}" if linked_images else "")
            or (AUDIO_NOTICE if audio else "")
            or format_unknown_reason(read_str(choice.get("finish_reason")).lower(), FINISH_REASONS),
            attachments=tuple(filter(None, map(read_image, image_urls))),
            model=read_str(response.get("model")),
            **_read_sources(message, response),
        )
        return self.check_answer(answer, self.find_response_error(response, answer))

    def find_response_error(self, response: Mapping[str, Any], answer: ModelResponse) -> ProviderError | None:
        """Return the error inside a response with status 200, or None."""
        error = _find_any_error(response)
        if error is not None:
            return self.parse_embedded_error(error)
        if answer.finish_reason is FinishReason.ERROR:
            choice = read_first_choice(response)
            reason = read_str(choice.get("native_finish_reason") or choice.get("finish_reason"))
            return ProviderError(f"the model stopped with {reason}", None, RetryAction.retry())
        return None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        choices = list(map(read_dict, to_object_list(response.get("choices"))))
        # GitHub Copilot has the text and the calls in separate choices: https://github.com/HKUDS/nanobot/pull/1555
        if choices and choices[0].get("finish_reason") != "tool_calls":
            del choices[1:]
        entries = (read_dict(choice.get("message")).get("tool_calls") for choice in choices)
        return read_tool_calls(next(filter(None, entries), None))

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Parse the tokens and the cost, as far as they are reported."""
        details = read_dict(usage.get("prompt_tokens_details"))
        cached_counts = map(read_int, (details.get("cached_tokens"), *map(usage.get, CACHED_TOKENS_FIELDS)))
        parsed = Usage(
            # mlx-vlm has the names of the Responses API: https://github.com/earendil-works/pi/issues/2326
            input_tokens=read_int(usage.get("prompt_tokens") or usage.get("input_tokens")),
            output_tokens=read_int(usage.get("completion_tokens") or usage.get("output_tokens")),
            cached_tokens=next((count for count in cached_counts if count is not None), None),
            reasoning_tokens=read_int(read_dict(usage.get("completion_tokens_details")).get("reasoning_tokens")),
            cost=read_cost(usage),
        )
        parsed = add_cache_writes(parsed, {**usage, **details})  # LiteLLM has only those read from it in the details
        counted = (parsed.input_tokens or 0) + (parsed.output_tokens or 0)
        cached = (parsed.cached_tokens or 0) + (parsed.cache_write_tokens or 0)
        # Portkey's prompt tokens do not include Anthropic's cache: https://github.com/Portkey-AI/gateway/pull/1754
        is_left_out = cached and read_int(usage.get("total_tokens")) == counted + cached
        return parsed._replace(input_tokens=(parsed.input_tokens or 0) + cached) if is_left_out else parsed

    def provider_logprob_options(self) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": MAX_TOP_LOGPROBS}

    def provider_parse_logprobs(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(map(read_dict, read_list(read_dict(read_first_choice(response).get("logprobs")).get("content"))))

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = body if isinstance(body, list) else read_dict(body).get("data") or read_dict(body).get("models")
        models: dict[str, ModelInfo] = {}
        for entry in read_list(entries):  # gateways list a model once for each of its upstreams
            fields = {"id": entry} if isinstance(entry, str) else read_dict(entry)
            name = read_str(fields.get("id")) or read_str(fields.get("model"))
            if name and name not in models:
                models[name] = self.parse_model({**fields, "id": name})
        return list(models.values())

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        """Parse one entry of the models list."""
        return ModelInfo(
            id=read_str(entry.get("id")),
            title=read_str(entry.get("name")),
            context_length=read_int(next(filter(None, map(entry.get, CONTEXT_FIELDS)), None)),
            retirement_date=read_date(entry.get("shutdown_date")),  # OpenAI
            deprecation_date=read_date(entry.get("deprecation")),  # Mistral
        )


def _find_any_error(body: Any) -> Any:
    """Return the error in a response or chunk, also where only Groq and MiniMax have it; None if there is none."""
    error = find_error(body)
    if error is not None:
        return error
    fields = read_dict(body)
    status = read_dict(fields.get("base_resp"))  # https://github.com/adrianlyjak/obsidian-aloud-tts/pull/114
    if code := read_int(status.get("status_code")):
        return {"message": status.get("status_msg"), "code": MINIMAX_STATUSES.get(code, code)}
    return read_dict(fields.get("x_groq")).get("error") or None


def _read_image_url(image: Any) -> str:
    """Return the URL of an image in an answer, usually a `data:` URL; "" if there is none.

    https://openrouter.ai/docs/guides/overview/multimodal/image-generation
    """
    url = read_dict(image).get("image_url")
    return url if isinstance(url, str) else read_str(read_dict(url).get("url"))


def _has_thinking(parts: Sequence[Any]) -> bool:
    """Check whether there is thinking in the list that is the content of a message, as Mistral sends it."""
    return any(read_dict(part).get("type") == "thinking" for part in parts)


def _read_thinking(parts: Sequence[Any]) -> str:
    """Return the thinking in the list that is the content of a message.

    https://docs.mistral.ai/studio-api/conversations/reasoning
    """
    thinking = (part for part in map(read_dict, parts) if part.get("type") == "thinking")
    return "".join(read_str(part.get("thinking")) for part in thinking)


def add_cache_writes(usage: Usage, details: Mapping[str, Any]) -> Usage:
    """Return the usage with the tokens written to the cache, from the details of the input tokens.

    OpenAI keeps them for 30 minutes or, on request, 12 hours. Alibaba and LiteLLM have names like Anthropic's:
    https://www.alibabacloud.com/help/en/model-studio/context-cache
    """
    counts = [read_int(details.get(name)) for name in CACHE_WRITE_FIELDS]
    anthropic_lifetimes = read_dict(details.get("cache_creation") or details.get("cache_creation_token_details"))
    openai_lifetimes = read_dict(details.get("cache_write_tokens_details"))
    return usage._replace(
        cache_write_tokens=next((count for count in counts if count is not None), None),
        cache_write_1h_tokens=read_int(anthropic_lifetimes.get("ephemeral_1h_input_tokens")),
        cache_write_12h_tokens=read_int(openai_lifetimes.get("ttl_12h_tokens")),
    )


def read_cost(usage: Mapping[str, Any]) -> float | None:
    """Read the cost that a service reports: a number, Perplexity's object with the parts, or DeepInfra's field."""
    cost = usage.get("cost")
    reported = read_number(cost.get("total_cost") if isinstance(cost, dict) else cost)
    return read_number(usage.get("estimated_cost")) if reported is None else reported


def shorten_call_id(call_id: str, max_length: int = MAX_CALL_ID_CHARACTERS) -> str:
    """Shorten a call id to the length that services accept in requests.

    Some services return longer ids than they accept.
    """
    return call_id if len(call_id) <= max_length else f"{call_id[: max_length - 9]}_{format_checksum(call_id)}"


def sanitize_tool_name(name: str) -> str:
    """Replace the characters in a tool name that services reject in requests.

    Models may call tools by invented names.
    """
    sanitized = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return sanitized[:MAX_TOOL_NAME_CHARACTERS] or "_"


def _read_sources(message: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `ModelResponse` for the service's own tools and their sources, which few answers have."""
    names = ("annotations", "reasoning_details", EXECUTED_TOOLS)
    fields = (*map(message.get, names), *map(response.get, SOURCE_FIELDS))
    if not any(fields):
        return {}
    from ask.plugin_api.openai_citations import read_message_calls, read_message_citations

    return {"citations": read_message_citations(message, response), "server_calls": read_message_calls(message)}
