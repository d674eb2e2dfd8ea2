"""The embedded demo: a provider without account, network or language model.

A transport adapter answers in this process with Chat Completions, streamed or not, so that a first run or a script's
tests exercise the entire program. `demo_rules` decides what the demo understands and answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ask import ChatCompletions, ChatRequest, as_dict, as_list, as_text, parse_json

from .demo_rules import (
    PlannedCall,
    answer_small_talk,
    describe_input,
    describe_result,
    explain_blocked_calls,
    is_error_result,
    parse_prompt,
    plan_calls,
)

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from requests.adapters import BaseAdapter

TEXT_CHUNK_SIZE = 24
ARGUMENTS_CHUNK_SIZE = 8
"""Characters per streamed fragment."""


class Demo(ChatCompletions):
    """Chat Completions answered in this process."""

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        from .demo_files import ATTACHMENT_TYPES

        return media_type in ATTACHMENT_TYPES

    def takes_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        return True

    def provider_adapter(self) -> BaseAdapter:
        from requests.adapters import BaseAdapter

        class DemoAdapter(BaseAdapter):
            def send(self, request: PreparedRequest, *_: object, **__: object) -> Response:
                return handle_request(request)

            def close(self) -> None:
                pass

        return DemoAdapter()


provider = Demo(
    name="demo",
    title="demo (embedded, no network)",
    base_url="http://demo.invalid/v1",
    default_model="demo",
    needs_key=False,
    tells_cost=True,
)


# Answers


def handle_request(request: PreparedRequest) -> Response:
    """Return the response to any request."""
    path = (request.url or "").partition("?")[0]
    if path.endswith("/models"):
        model = {"id": "demo", "object": "model", "created": 0, "owned_by": "ask", "name": "Rules, no language model"}
        return to_response(request, {"object": "list", "data": [model]})
    if not path.endswith("/chat/completions"):
        return make_error_response(request, HTTPStatus.NOT_FOUND, "the demo has no such address")
    try:
        body = as_dict(json.loads(request.body or b""))
    except (ValueError, RecursionError):
        body = {}
    if not as_list(body.get("messages")):
        return make_error_response(request, HTTPStatus.BAD_REQUEST, "the body is not a JSON object with messages")
    completion = choose_completion(body)
    return to_response(request, "".join(iter_sse_events(completion)) if body.get("stream") else completion)


def choose_completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the completion for a request, from the last user message and what followed it."""
    original_messages = [as_dict(message) for message in as_list(body["messages"])]
    messages = [flatten_content(message) for message in original_messages]
    output_format = find_output_format(
        "".join(as_text(message.get("content")) for message in messages if message.get("role") == "system")
    )
    last_user_index = max(
        (i for i, message in enumerate(messages) if message.get("role") == "user"), default=len(messages)
    )
    prompt, blocks = parse_prompt(
        "".join(as_text(message.get("content")) for message in messages[last_user_index : last_user_index + 1])
    )
    if output_format:
        from .demo_code import find_command, find_program

        return make_completion(body, find_command(prompt) if output_format == "command" else find_program(prompt), [])
    later_messages = messages[last_user_index + 1 :]
    results = list_finished_calls(later_messages)
    paragraphs = [describe_result(call, result) for call, result in results]
    rounds = plan_calls(prompt)[sum(bool(message.get("tool_calls")) for message in later_messages) :]
    if rounds and not any(is_error_result(result) for _, result in results):
        blocked_reason = explain_blocked_calls(rounds[0], list_offered_tools(body), as_text(body.get("tool_choice")))
        if not blocked_reason:
            return make_completion(body, "", rounds[0])
        paragraphs.append(blocked_reason)
    schema = as_dict(as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema"))
    if schema:
        from .demo_schema import make_value

        return make_completion(body, json.dumps(make_value(schema, prompt), ensure_ascii=False), [])
    if not paragraphs:
        descriptions = (
            describe_message_files(original_messages[last_user_index : last_user_index + 1]),
            describe_input(prompt, blocks) if blocks else "",
        )
        paragraphs = [part for part in descriptions if part] or [answer_small_talk(prompt)]
    return make_completion(body, "\n\n".join(paragraphs), [])


def flatten_content(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with its content parts reduced to their text."""
    if not isinstance(message.get("content"), list):
        return message
    from .demo_files import extract_text

    return message | {"content": extract_text(message["content"])}


def describe_message_files(messages: Sequence[Mapping[str, Any]]) -> str:
    """Describe the files in the messages; "" if there are none."""
    contents = [message["content"] for message in messages if isinstance(message.get("content"), list)]
    if not contents:
        return ""
    from .demo_files import describe_files

    return "\n\n".join(filter(None, map(describe_files, contents)))


def find_output_format(system_prompt: str) -> str:
    """Return the output format that the system prompt asks for, "command" or "code"; "" if none."""
    match = re.search(r"^The user wants (?:one shell (command)|(code))\b", system_prompt, re.MULTILINE)
    return match[match.lastindex or 0] if match else ""


def list_finished_calls(messages: Sequence[Mapping[str, Any]]) -> list[tuple[PlannedCall, str]]:
    """Return the calls among these messages that have a result, each with its result."""
    results = {as_text(m.get("tool_call_id")): as_text(m.get("content")) for m in messages if m.get("role") == "tool"}
    calls = [call for m in messages for call in provider.provider_parse_tool_calls({"choices": [{"message": m}]})]
    return [
        (PlannedCall(call.name, as_dict(parse_json(call.arguments))), results[call.id])
        for call in calls
        if call.id in results
    ]


def list_offered_tools(body: Mapping[str, Any]) -> set[str]:
    """Return the names of the tools that a request offers."""
    return {as_text(as_dict(as_dict(tool).get("function")).get("name")) for tool in as_list(body.get("tools"))}


# Wire format


def make_completion(body: Mapping[str, Any], text: str, calls: Sequence[PlannedCall]) -> dict[str, Any]:
    """Build a Chat Completions response. Each word counts as one token."""
    messages = [as_dict(message) for message in as_list(body["messages"])]
    # Continue the numbering of earlier calls, so that ids are unique in the conversation.
    call_count = sum(len(as_list(message.get("tool_calls"))) for message in messages)
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": call.tool_name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for number, call in enumerate(calls, call_count + 1)
        ]
    prompt_tokens = sum(len(as_text(flatten_content(m).get("content")).split()) for m in messages)
    completion_tokens = len(text.split())
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": 0,
        "model": as_text(body.get("model")) or "demo",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "cost": 0,
        },
    }


def iter_sse_events(completion: Mapping[str, Any]) -> Iterator[str]:
    """Yield a completion as SSE events: fragments, the usage, then the end marker."""
    head = {"id": completion["id"], "object": "chat.completion.chunk", "created": 0, "model": completion["model"]}
    choice = completion["choices"][0]
    for delta in iter_deltas(choice["message"]):
        yield format_sse_event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield format_sse_event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    yield format_sse_event(head | {"choices": [], "usage": completion["usage"]})
    yield "data: [DONE]\n\n"


def format_sse_event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def iter_deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message in fragments."""
    yield {"role": "assistant", "content": ""}
    for piece in split_chunks(message["content"] or "", TEXT_CHUNK_SIZE):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", [])):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield {"tool_calls": [call | {"index": index, "function": {"name": name, "arguments": ""}}]}
        for piece in split_chunks(arguments, ARGUMENTS_CHUNK_SIZE):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def split_chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def make_error_response(request: PreparedRequest, status: HTTPStatus, message: str) -> Response:
    """Build an error response in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return to_response(request, {"error": error}, status)


def to_response(
    request: PreparedRequest, body: Mapping[str, Any] | str, status: HTTPStatus = HTTPStatus.OK
) -> Response:
    """Build a response as a connection would; a string body is an event stream, anything else JSON."""
    from requests import Response
    from urllib3.response import HTTPResponse

    text, content_type = (
        (body, "text/event-stream") if isinstance(body, str) else (json.dumps(body), "application/json")
    )
    headers = {"Content-Type": content_type}
    response = Response()
    response.status_code, response.reason = status, status.phrase
    response.request, response.url = request, request.url or ""
    response.headers.update(headers)
    response.encoding = "utf-8"
    response.raw = HTTPResponse(BytesIO(text.encode()), headers=headers, status=status, preload_content=False)
    return response
