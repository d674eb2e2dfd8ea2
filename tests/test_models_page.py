"""docs/models.md: its keys are those of the code, and its configuration does what it says."""

from __future__ import annotations

import pytest

from ask.profiles import ModelProfile
from tests import wire
from tests.doc_pages import find_code_blocks, read_table
from tests.model_server import ModelServer
from tests.model_table import PAGE
from tests.program import Ask, Home

TEXT = PAGE.read_text()


@pytest.fixture(autouse=True)
def configure(home: Home, server: ModelServer) -> None:
    _, *rows = find_code_blocks(TEXT, "toml")
    provider = f'[providers.vllm]\nbase_url = "{server.base_url}"\n'
    home.configure("\n".join([provider, *rows]))


def test_page_describes_all_keys() -> None:
    assert {key.strip("`") for key in read_table(TEXT, "key")} == set(ModelProfile._fields)


@pytest.mark.parametrize(("effort", "used"), [("none", False), ("low", True), ("max", True)])
def test_configured_row_changes_the_request(ask: Ask, server: ModelServer, effort: str, used: bool) -> None:
    server.reply(wire.says("Hello."))
    result = ask("-p", "vllm", "-m", "qwen3-8b", "-o", f"reasoning_effort={effort}", "hi")
    assert (result.code, result.text) == (0, "Hello.\n")
    assert ("; using 'high'" in result.stderr) == (effort not in ("none", "high"))
    body = server.requests[0].json
    assert body["chat_template_kwargs"] == {"enable_thinking": used}
    assert "reasoning_effort" not in body


def test_configured_row_is_only_for_the_models_that_it_names(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("-p", "vllm", "-m", "llama-4", "-o", "reasoning_effort=ultra", "hi").code == 0
    assert server.requests[0].json["reasoning_effort"] == "ultra"


@pytest.mark.parametrize("option", ["temperature=0.5", "reasoning_effort=fast"])
def test_refused_option_is_an_error_before_anything_is_sent(ask: Ask, server: ModelServer, option: str) -> None:
    arguments = ("-p", "openai", "--key", "k", "--base-url", server.base_url)
    result = ask(*arguments, "-m", "gpt-7-sol", "-o", option, "hi")
    assert (result.code, server.requests) == (7, [])
    assert option.partition("=")[0].split("_")[0] in result.stderr


@pytest.mark.parametrize("model", ["Qwen/QwQ-32B", "Qwen3-4B-Thinking-2507"])
def test_answers_of_the_models_that_begin_with_reasoning(ask: Ask, server: ModelServer, model: str) -> None:
    server.reply(wire.says("I look.\n</think>\n\nHello."))
    assert ask("-p", "vllm", "-m", model, "hi").text == "Hello.\n"


def test_configured_attachments_come_before_those_of_the_provider(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    result = ask("-p", "vllm", "-m", "qwen3-8b", "-f", "a.png", "hi")
    assert (result.code, server.requests) == (7, [])
    assert "images" in result.stderr
