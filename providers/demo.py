"""The embedded demo: a provider without account, network or language model.

It answers in this process with a Chat Completions stream, so that a first run or a script's tests exercise the entire
program but the network. `demo_rules` decides what the demo understands and answers.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ask import ChatCompletions, ChatRequest, HttpRequest, RawEvent
from ask.parsing import read_list, read_str

from .demo_rules import (
    EndlessValueError,
    PlannedCall,
    answer_small_talk,
    describe_input,
    describe_result,
    find_command,
    find_program,
    is_error_result,
    make_value,
    parse_prompt,
    plan_calls,
)

MODEL = {"id": "demo", "object": "model", "created": 0, "owned_by": "ask", "name": "Rules, no language model"}
TEXT_CHUNK_SIZE = 24
ARGUMENTS_CHUNK_SIZE = 8
"""Characters per streamed fragment."""
FILES_INTRODUCTION = "I am the embedded demo, not a language model: I cannot look at files, but I received these:"


class Demo(ChatCompletions):
    """Chat Completions answered in this process."""

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type.startswith(("image/", "audio/")) or media_type == "application/pdf"

    def supports_schema(self, request: ChatRequest, schema: Mapping[str, Any]) -> bool:
        return True

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent]:
        if request.body is None:
            return iter([RawEvent(None, json.dumps({"object": "list", "data": [MODEL]}))])
        text, calls = choose_answer(request.body)
        return (RawEvent(None, json.dumps(chunk)) for chunk in iter_chunks(request.body, text, calls))


provider = Demo(
    name="demo",
    title="demo (embedded, no network)",
    base_url="",
    default_model="demo",
    needs_key=False,
    reports_cost=True,
)


# Answers


def choose_answer(body: Mapping[str, Any]) -> tuple[str, Sequence[PlannedCall]]:
    """Choose the text or the calls that answer a request, from the last user message and what followed it."""
    messages = body["messages"]
    system_prompt = "".join(read_str(message["content"]) for message in messages if message["role"] == "system")
    last_user_index = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=0)
    content = messages[last_user_index]["content"]
    prompt, blocks = parse_prompt(read_str(content))
    output_format = re.search(r"^The user wants (one shell command|code)\b", system_prompt, re.MULTILINE)
    if output_format:
        return find_program(prompt) if output_format[1] == "code" else find_command(prompt), ()
    later_messages = messages[last_user_index + 1 :]
    results = list_finished_calls(later_messages)
    paragraphs = [describe_result(call, result) for call, result in results]
    rounds = plan_calls(prompt)[sum("tool_calls" in message for message in later_messages) :]
    if rounds and not any(is_error_result(result) for _, result in results):
        offered_tools = {tool["function"]["name"] for tool in body.get("tools", ())}
        missing = [call.tool_name for call in rounds[0] if call.tool_name not in offered_tools]
        if not missing and body["tool_choice"] == "auto":
            return "", rounds[0]
        paragraphs.append(f"I would have called `{rounds[0][0].tool_name}`, but this request does not allow it.")
    if "response_format" in body:
        try:
            value = make_value(body["response_format"]["json_schema"]["schema"], prompt)
        except EndlessValueError:
            return "No value matches this schema: it would be infinite.", ()
        return json.dumps(value, ensure_ascii=False), ()
    if not paragraphs:
        descriptions = (describe_files(content), describe_input(prompt, blocks) if blocks else "")
        paragraphs = [part for part in descriptions if part] or [answer_small_talk(prompt)]
    return "\n\n".join(paragraphs), ()


def describe_files(content: str | list[dict[str, Any]]) -> str:
    """Describe the type and size of the files in a message's content, one per line; "" if there are none."""
    lines = [FILES_INTRODUCTION, ""]
    for part in read_list(content):
        match part:
            case {"file": {"filename": name, "file_data": url}}:
                lines.append(f"- file {name}: {describe_data_url(url)}")
            case {"image_url": {"url": url}}:
                lines.append(f"- image: {describe_data_url(url)}")
            case {"input_audio": {"format": audio_format, "data": data}}:
                lines.append(f"- audio: {audio_format}, {len(a2b_base64(data)):,} bytes")
    return "\n".join(lines) if len(lines) > 2 else ""


def describe_data_url(url: str) -> str:
    head, _, data = url.partition(";base64,")
    return f"{head.removeprefix('data:')}, {len(a2b_base64(data)):,} bytes"


def list_finished_calls(messages: Sequence[Mapping[str, Any]]) -> list[tuple[PlannedCall, str]]:
    """Return the calls among these messages that have a result, each with its result."""
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    return [
        (PlannedCall(call["function"]["name"], json.loads(call["function"]["arguments"])), results[call["id"]])
        for message in messages
        for call in message.get("tool_calls", ())
        if call["id"] in results
    ]


# Wire format


def iter_chunks(body: Mapping[str, Any], text: str, calls: Sequence[PlannedCall]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer: fragments, then the usage. Each word counts as one token."""
    head = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    for delta in iter_deltas(body, text, calls):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    prompt_tokens = sum(len(read_str(message["content"]).split()) for message in body["messages"])
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text.split()), "cost": 0}
    yield head | {"choices": [], "usage": usage}


def iter_deltas(body: Mapping[str, Any], text: str, calls: Sequence[PlannedCall]) -> Iterator[dict[str, Any]]:
    """Yield an answer in fragments."""
    for piece in split_chunks(text, TEXT_CHUNK_SIZE):
        yield {"content": piece}
    # Continue the numbering of earlier calls, so that ids are unique in the conversation.
    call_count = sum(len(message.get("tool_calls", ())) for message in body["messages"])
    for index, call in enumerate(calls):
        function = {"name": call.tool_name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": f"call_{call_count + index + 1}", "function": function}]}
        for piece in split_chunks(json.dumps(call.arguments, ensure_ascii=False), ARGUMENTS_CHUNK_SIZE):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def split_chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
