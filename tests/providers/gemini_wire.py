"""Responses in Gemini's format, and a check of our requests with Google's own SDK."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

from ask import RawEvent
from tests.model_server import Reply

Json = dict[str, Any]

MODEL = "gemini-3-flash-preview"
SIGNATURE = "c2lnbmVk"
ENUMS = {"type", "mode", "thinking_level", "thinkingLevel"}
USAGE = {
    "promptTokenCount": 12,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 19,
    "cachedContentTokenCount": 4,
}


def text(piece: str, **more: Any) -> Json:
    return {"text": piece, **more}


def thought(piece: str) -> Json:
    return {"text": piece, "thought": True}


def call(name: str = "add", *, signature: str = "", id: str = "", **args: Any) -> Json:  # noqa: A002 - the wire's name
    made: Json = {"name": name, "args": args} | ({"id": id} if id else {})
    return {"functionCall": made} | ({"thoughtSignature": signature} if signature else {})


def whole(*parts: Json, finish: Any = "STOP", **candidate: Any) -> Json:
    """Build a complete response; `candidate` adds fields to its candidate."""
    content = {"role": "model", "parts": list(parts)} if parts else {"role": "model"}
    one = {"content": content, "finishReason": finish, "index": 0} | candidate
    return {"candidates": [one], "usageMetadata": USAGE, "modelVersion": MODEL, "responseId": "r1"}


def chunks(*parts: Json, finish: Any = "STOP") -> list[Json]:
    """Build a stream with one event per part, then one with the finish reason, if any."""
    begun = [{"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    ended = [{"candidates": [{"content": {"role": "model"}, "finishReason": finish, "index": 0}]}] if finish else []
    return [chunk | {"usageMetadata": USAGE, "modelVersion": MODEL, "responseId": "r1"} for chunk in (*begun, *ended)]


def events(*bodies: Json) -> list[RawEvent]:
    return [RawEvent(None, json.dumps(body)) for body in bodies]


def stream(*parts: Json, finish: Any = "STOP") -> list[RawEvent]:
    return events(*chunks(*parts, finish=finish))


def streamed(*bodies: Json) -> Reply:
    """Build a streamed reply, framed like Google's."""
    return Reply([f"data: {json.dumps(body)}\r\n\r\n".encode() for body in bodies], content_type="text/event-stream")


def read_by_google(body: Mapping[str, Any]) -> Json:
    """Return what Google's SDK would send for the same request; it equals the body if all fields are known.

    Enum names are normalized to lower case, field names to camel case and bytes to URL-safe base64, because the API
    accepts every form.
    """
    from google.genai import _common, models, types

    beside = {name: body[name] for name in body if name not in ("contents", "generationConfig")}
    config = types.GenerateContentConfig.model_validate(beside | body.get("generationConfig", {}))
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    asked = types._GenerateContentParameters(model=MODEL, contents=list(contents), config=config)
    sent = _common.convert_to_dict(models._GenerateContentParameters_to_mldev(google_client(), asked))
    sent = _common.encode_unserializable_types({name: sent[name] for name in sent if name != "_url"})
    return plain({name: value for name, value in sent.items() if value})


@cache
def google_client() -> Any:
    from google import genai

    return genai.Client(api_key="none")._api_client


def plain(body: Mapping[str, Any]) -> Json:
    """Normalize a body like `read_by_google`."""
    return {camel(name): plain_value(value, name) for name, value in body.items()}


def plain_value(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, list):
        return [plain_value(part) for part in value]
    value = value.value if isinstance(value, Enum) else value
    if name in ("thoughtSignature", "data"):
        return value.replace("+", "-").replace("/", "_")
    return value.lower() if name in ENUMS and isinstance(value, str) else value


def camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
