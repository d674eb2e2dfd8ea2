"""Generates the tables of the built-in providers and of the services from their code.

`make generated` writes them into docs/built-in-providers.md and docs/services.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from ask import ChatCompletions, ChatRequest, Message, ModelResponse, Provider, Responses, ToolSpec
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.plugin_api.installed_plugins import PROVIDER_GROUP
from providers.services import SERVICES
from tests import wire
from tests.host_requests import prepare_request
from tests.sample_answers import CALLS, SAMPLE_ANSWERS

PAGE = Path(__file__).parents[1] / "docs" / "built-in-providers.md"
SERVICES_PAGE = PAGE.with_name("services.md")
BEGIN = "<!-- make generated writes from here -->\n"
END = "<!-- to here -->\n"
WHO = "provider | service | default model | key | base URL"
SERVICE = "name | service | API | default model | key | base URL | page, read on"
WHAT = (
    "name | API | tools | parallel calls | streaming | reasoning sent back | prompt cache | models list | reports cost"
)
QUESTION = Message("user", "hi")
TOOL = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
FRAMINGS = {"sse": "SSE", "ndjson": "NDJSON"}
CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
CHAT_ANSWER = wire.answer(
    "Hello.",
    CALLS,
    reasoning_content="Hm.",
    reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "Hm."}],
) | {"usage": CHAT_USAGE}
"""An answer with everything that a Chat Completions service may send."""
CACHED = {"prompt_eval_cached_count": 4, "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4}}
"""Cache fields of the other wire formats that are missing in their sample answers."""


class Sample:
    """A provider and its default model, with a parsed answer that contains reasoning and two tool calls."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.info = provider.provider_info()
        self.model = self.info.default_model or "m"
        own = SAMPLE_ANSWERS.get("openai-responses" if isinstance(provider, Responses) else self.info.name)
        response = (own.whole | CACHED if own else CHAT_ANSWER) | {"model": self.model}
        self.answer: ModelResponse = provider.provider_parse_response(response)
        self.calls = provider.provider_parse_tool_calls(response)

    def body(self, messages: Sequence[Message] = (QUESTION,), *, stream: bool = True) -> Mapping[str, Any]:
        """Return the body of a request with tools."""
        request = prepare_request(self.provider, self.model, messages, [TOOL], stream=stream)
        return self.provider.provider_build_request(request, "key").body or {}

    def second_body(self) -> str:
        """Return the JSON of the request that follows the answer, with the results "result 0" and "result 1"."""
        assistant_message = Message(
            "assistant", self.answer.text, tuple(self.calls), provider_state=self.answer.provider_state
        )
        results = [Message("tool", f"result {i}", (), call.id, call.name) for i, call in enumerate(self.calls)]
        return json.dumps(self.body([QUESTION, assistant_message, *results]))

    # Table columns

    def key(self) -> str:
        if self.info.name in SIGN_IN_SERVICES:
            return f"[`ask login {self.info.name}`](login.md)"
        names = ", ".join(f"`{name}`" for name in self.info.key_env)
        return names if self.info.needs_key else f"optional ({names})"

    def api(self) -> str:
        if isinstance(self.provider, Responses):
            return "Responses"
        return "Chat Completions" if isinstance(self.provider, ChatCompletions) else "its own"

    def tools(self) -> bool:
        return self.provider.provider_supports_tools(self.model) and TOOL.description in json.dumps(self.body())

    def parallel_calls(self) -> bool:
        second = self.second_body()
        return len(self.calls) > 1 and all(f'"result {i}"' in second for i in range(len(self.calls)))

    def streaming(self) -> str:
        def asked(stream: bool) -> Any:
            return self.provider.provider_build_request(ChatRequest(self.model, [QUESTION], stream=stream), "key")

        is_stream = asked(True) != asked(False) or (asked(False).body or {}).get("stream")
        return FRAMINGS[self.info.stream_format] if is_stream else "no"

    def reasoning_goes_back(self) -> bool:
        state = self.answer.provider_state
        return state is not None and any(part in self.second_body() for part in find_reasoning_texts(state.data))

    def caching(self) -> str:
        if '"cache_control"' in json.dumps(self.body()):
            return "marked in requests"
        return "automatic" if self.answer.usage.cached_tokens else "none"

    def models(self) -> bool:
        return self.provider.provider_models_request("key") is not None


def find_reasoning_texts(value: Any) -> Iterator[str]:
    """Return the strings in a JSON value that are reasoning or its signature, as JSON."""
    if isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, str) and ("signature" in name.lower() or part == "Hm."):
                yield json.dumps(part)
            else:
                yield from find_reasoning_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from find_reasoning_texts(part)


# Tables


def list_providers() -> Iterator[tuple[list[str], Provider]]:
    """Return the built-in providers of real services, each with its names, the primary name first."""
    entry_points = [entry for entry in distribution("ask-gents").entry_points if entry.group == PROVIDER_GROUP]
    for target in sorted({entry.value for entry in entry_points}):
        named = [entry for entry in entry_points if entry.value == target]
        provider = named[0].load()
        own = provider.provider_info().name
        if provider.provider_info().base_url:
            yield [own, *sorted({entry.name for entry in named} - {own})], provider


def build_tables() -> str:
    """Return the table of providers and the table of their features."""
    who, what = [], []
    for (name, *others), provider in list_providers():
        sample = Sample(provider)
        info = sample.info
        names = f"`{name}`" + "".join(f", `{other}`" for other in others)
        model = f"`{info.default_model}`" if info.default_model else "the first in its list"
        who.append((names, info.title, model, sample.key(), f"`{info.base_url}`"))
        facts = (sample.tools(), sample.parallel_calls(), sample.streaming(), sample.reasoning_goes_back())
        rest = (sample.caching(), sample.models(), info.reports_cost)
        what.append((f"`{name}`", sample.api(), *map(format_cell, facts), *map(format_cell, rest)))
    return f"{table(WHO, who)}\n{table(WHAT, what)}"


def format_cell(fact: object) -> str:
    return fact if isinstance(fact, str) else "yes" if fact else "no"


def table(heading: str, rows: Sequence[Sequence[str]]) -> str:
    columns = heading.count(" | ") + 1
    lines = [f"| {heading} |", "|---" * columns + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


API_TITLES = {"chat": "Chat Completions", "responses": "Responses", "messages": "Messages", "gemini": "Gemini"}


def build_service_table() -> str:
    rows = [
        (
            f"`{name}`",
            row["title"],
            API_TITLES[row.get("api", "chat")],
            f"`{row['model']}`" if "model" in row else "",
            ", ".join(f"`{variable}`" for variable in row.get("key_env", ())) or "not needed",
            f"`{row['base_url']}`",
            f"[{row['read']}]({row['page']})",
        )
        for name, row in SERVICES.items()
    ]
    return table(SERVICE, rows)


def generate() -> dict[Path, str]:
    """Return the pages with their tables replaced."""
    pages = ((PAGE, build_tables()), (SERVICES_PAGE, build_service_table()))
    return {page: insert_tables(page, tables) for page, tables in pages}


def insert_tables(page: Path, tables: str) -> str:
    before, _, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{page} has no place for the tables"
    return before + BEGIN + "\n" + tables + "\n" + END + after
