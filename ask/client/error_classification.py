"""What a provider's error is about, told from its words: the tools, the schema, the length, or a parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask.errors import AskError, ParameterError, ProviderError, Remedy
from ask.messages import ToolSpec

TOOLS_UNSUPPORTED_PATTERN = re.compile(
    r"not support (?:the use of )?(?:tools?|tool use|tool calling|function calling)\b"
    r"|(?:tools?|tool use|tool calling|function calling) (?:is|are) not (?:supported|enabled)",
    re.IGNORECASE,
)
"""How services say, each in its own words, that a model cannot call tools."""

SCHEMA_REJECTED_PATTERN = re.compile(
    r"schema|response.?(?:format|mime)|structured.?output|formatted output|output_(?:config|format)|grammar"
    r"|too many states",
    re.IGNORECASE,
)
"""How services say, each in its own words, that they cannot hold a model to a schema, or not to this one."""

CONTEXT_EXCEEDED_PATTERN = re.compile(
    r"context_length_exceeded|exceed_context_size|(?:prompt|input) is too long|prompt too long"
    r"|(?:maximum|available) (?:context|prompt) (?:length|size)|maximum number of tokens allowed"
    r"|exceed(?:s|ed)? (?:the |this |your |model(?:'s)? )*(?:available )?(?:context|token limit)"
    r"|context ?window ?exceeded|(?:than|with) (?:the )?context length|reduce the length of the messages",
    re.IGNORECASE,
)
"""How services say, each in its own words, that a conversation is longer than the model's context."""

TOOL_INDEX_PATTERNS = (
    re.compile(r"function_?declarations\[(\d+)\]", re.IGNORECASE),
    re.compile(r"\btools\[(\d+)\]"),
    re.compile(r"\btools\.(\d+)\b"),
)
"""How services say by its number which tool they refuse. Gemini's come first: its tools[0] holds them all."""
TOOL_NAME_PATTERN = re.compile(
    r"\b(?:function|tool|schema)\b[^'\"`]{0,20}['\"`](?:functions\.)?([\w-]{1,128})['\"`]", re.IGNORECASE
)
"""How services say by its name which tool they refuse."""

INPUT_UNSUPPORTED_PATTERN = re.compile(r"\binput is not supported\b", re.IGNORECASE)
"""How llama-server says, with a status that others retry, that its model takes no images, or no sound."""

_OPTION_NAME_PATTERN = (
    r"[\"'`](?:\w+\.)*{name}[\"'`]|(?:^|[\s.]){name}(?: ?[:=]|(?: value)? (?:is|must|does|should)\b)"
    r"|\b(?:parameters?|arguments?|options?|fields?|invalid|unsupported|unknown|unrecognized):? {name}\b|: {name}\.?$"
)
"""How services name what they refuse: quoted, with a colon, as the subject of what is said, or behind such a word."""


def classify_error(error: ProviderError) -> ProviderError:
    """The error, with a remedy where its words tell of one, and with advice where it has none."""
    if (
        error.remedy == Remedy.NONE
        and error.status in (400, 404, 422)
        and TOOLS_UNSUPPORTED_PATTERN.search(error.message)
    ):
        error.remedy = Remedy.WITHOUT_TOOLS
        error.advice = error.advice or "use --no-tools, or a model that can call tools"
    elif error.remedy == Remedy.NONE and (error.status == 413 or is_context_exceeded(error)):
        error.remedy = Remedy.SHORTER
        error.advice = error.advice or "send less, or use a model with a longer context"
    elif error.remedy.action == "retry" and INPUT_UNSUPPORTED_PATTERN.search(error.message):
        error.remedy = Remedy.NONE
        error.advice = error.advice or "use a model that takes such files"
    error.advice = error.advice or choose_hint(error)
    return error


def find_rejected_tool(error: ProviderError, tools: Sequence[ToolSpec]) -> str:
    """Return the name of the tool that a provider refuses a request for; "" where it is not about one."""
    if error.status not in (400, 422) or error.remedy != Remedy.NONE:
        return ""
    said = f"{error.parameter or ''} {error.message}"
    for place in TOOL_INDEX_PATTERNS:
        found = place.search(said)
        if found:
            number = int(found[1])
            return tools[number].name if number < len(tools) else ""
    names = {tool.name for tool in tools}
    return next((name for name in TOOL_NAME_PATTERN.findall(said) if name in names), "")


def set_rejected_tool_message(error: ProviderError, tool: str) -> None:
    """Say in an error which tool it is about, and how to do without."""
    error.message = f"the tool {tool} is refused: {error.message}"
    error.advice = f"--disable-tool {tool} leaves it out"


def is_schema_rejected(error: ProviderError) -> bool:
    """Whether a provider refuses a request for the schema in it."""
    return error.status in (400, 404, 422) and SCHEMA_REJECTED_PATTERN.search(error.message) is not None


def is_context_exceeded(error: ProviderError) -> bool:
    """Whether a provider refuses a request for its length."""
    return error.status in (None, 400, 422) and CONTEXT_EXCEEDED_PATTERN.search(error.message) is not None


def convert_to_parameter_error(error: ProviderError, options: Mapping[str, Any]) -> AskError:
    """The error as one about a parameter, where the provider refuses one that the user set."""
    refused = next((o for o in options if o == error.parameter or is_option_named(o, error.message)), "")
    if not refused or error.status not in (400, 422):
        return error
    return ParameterError(error.brief, f"leave out or change {refused}")


def is_option_named(option: str, message: str) -> bool:
    """Whether an error's text is about a parameter; many are called as an English word is, which says nothing."""
    name = re.escape(option)
    pattern = rf"\b{name}\b" if "_" in option else _OPTION_NAME_PATTERN.format(name=name)
    return re.search(pattern, message, re.IGNORECASE | re.MULTILINE) is not None


def choose_hint(error: ProviderError) -> str:
    """What helps against most errors of that status."""
    if error.status in (400, 404) and "model" in error.message.lower():
        return f"ask models -p {error.provider} lists the models"
    advice = {
        400: "change the prompt, the options (-o) or the model (-m)",
        401: f"check the key (ask keys set {error.provider})",
        402: "add credits to your account",
        403: "use another key or model",
        404: "check the model and the base URL",
        422: "change the prompt, the options (-o) or the model (-m)",
        429: "wait a while, or use another model",
    }
    return advice.get(error.status or 0, "ask again later, or use another model")
