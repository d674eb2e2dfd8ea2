"""docs/decisions.md: examples print what they show, and the limits equal the code."""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ask.plugin_api.provider_loading import check_provider
from ask.profiles import ModelProfile
from ask.schemas.decision_questions import parse_questions
from ask.schemas.token_probabilities import TokenLogprob
from providers import gemini, openai, openrouter
from tests import logprob_wires, wire
from tests.decision_services import OpenAIDecisions
from tests.doc_pages import find_code_blocks, matches_documented_output, parse_console_steps, read_table
from tests.model_server import ModelServer, Request
from tests.program import TEST_KEY, Ask

PAGE = (Path(__file__).parents[1] / "docs/decisions.md").read_text()
EXAMPLES = [step for block in find_code_blocks(PAGE, "console") for step in parse_console_steps(block)]
PROVIDERS = {
    name: check_provider(module.provider, name, "")
    for name, module in (("openai", openai), ("openrouter", openrouter), ("gemini", gemini))
}
ANSWERS = {
    "urgent": {"true": 0.97},
    "spam": {"true": 0.95},
    "guilty": None,
    "kind": {"bug": 0.91, "order": 0.07, "other": 0.02},
    "anger": {"1": 0.05, "2": 0.05, "3": 0.2, "4": 0.6, "5": 0.1},
}


PARCEL = {"urgent": {"true": 0.3}, "kind": {"bug": 0.02, "order": 0.9, "other": 0.08}}
TOKENS = [
    TokenLogprob(b'{"kind": "', 0.0),
    TokenLogprob(b"b", math.log(0.7), [(b"b", math.log(0.7)), (b"other", math.log(0.3))]),
    TokenLogprob(b"illing", math.log(6 / 7), [(b"illing", math.log(6 / 7)), (b"ug", math.log(1 / 7))]),
    TokenLogprob(b'"}', 0.0),
]


def decide(text: str) -> Any:
    """Answer the questions of the page, and judge the answer about Deimos the best."""
    if "parcel" in text:
        return PARCEL
    labels = re.findall(r'<answer label="(#\d)">\n(.*?)\n</answer>', text, re.DOTALL)
    return {**ANSWERS, "best": {label: 0.85 if "Deimos" in answer else 0.15 for label, answer in labels}}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param(line, shown, id=line, marks=pytest.mark.slow if number else [])
        for number, (line, shown) in enumerate(EXAMPLES)
    ],
)
@pytest.mark.needs("jq")
def test_examples_print_the_documented_output(ask: Ask, server: ModelServer, line: str, shown: str) -> None:
    service = OpenAIDecisions(decide)

    def reply(request: Request) -> Any:
        if request.path == service.path:
            return service(request)
        if request.json["model"] == "gpt-4.1":
            return wire.whole_reply(logprob_wires.to_chat_answer(TOKENS))
        return wire.says("One." if request.json["model"] == "small/model" else "Two: Phobos and Deimos.")

    server.reply(reply)
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    result = ask.shell(f"{{ {line}; }} 2>&1 | grep -v '^· conversation'", env=env)
    assert matches_documented_output(result.text, shown)


def test_every_model_has_the_documented_limit() -> None:
    rows = read_table(PAGE, "model")
    documented = {name for row in rows for name in re.findall(r"`([^`*]+)`", row)}
    assert documented
    for row, limit in rows.items():
        names = [name.strip("`") for name in re.findall(r"`[^`]+`", row)]
        provider = PROVIDERS[names[0].partition(":")[0]]
        for name in names:
            api = provider.get_decision_api(name.partition(":")[2] or name.replace("*", "1"))
            assert api
            assert f"{api.max_questions:,}" == limit


def test_schema_with_descriptions_has_questions() -> None:
    [block] = find_code_blocks(PAGE, "json")
    [question] = parse_questions(json.loads(block))
    assert (question.kind, question.values) == ("choice", ("bug", "order"))
    assert all(question.descriptions)


def test_row_of_the_configuration_is_valid() -> None:
    [block] = find_code_blocks(PAGE, "toml")
    [row] = tomllib.loads(block)["providers"]["openai"]["models"]
    provider = PROVIDERS["openai"].with_profiles((ModelProfile(**row),), ())
    assert provider.get_decision_api("gpt-7-luna")
    assert not PROVIDERS["openai"].get_decision_api("gpt-7-luna")
