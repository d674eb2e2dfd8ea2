"""`ask map`: what prompt caches save, and prompts that no service can cache."""

from __future__ import annotations

import pytest

from tests import wire
from tests.cli.test_map import make_rows, write_rows
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home

RULES = "Apply each of these rules to the text. " * 200


@pytest.mark.parametrize(("cached", "has_savings"), [(900, True), (0, False)])
def test_the_summary_has_what_the_cache_saved(
    ask: Ask, server: ModelServer, home: Home, cached: int, has_savings: bool
) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 10, "input_tokens_details": {"cached_tokens": cached * 1_000}}
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
    response = {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}
    server.reply(lambda request: wire.whole_reply(response))
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url}
    command = ("map", "-p", "openai", "-m", "gpt-4.1", "Say {{text}}", write_rows(home.work, *make_rows(2)))
    result = ask(*command, env=env)
    # List prices of a million tokens: $2 for input, $0.50 for cached input.
    assert (result.code, "(1,800,000 from the cache, saving ~$2.70)" in result.stderr) == (0, has_savings), (
        result.stderr
    )
    assert ("saving" in ask(*command, env=env).stderr) is False, "nothing was sent"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "is_noticed"),
    [
        (("{{text}}\n\n" + RULES, 20), True),
        ((RULES + "\n\n{{text}}", 20), False),
        (("{{text}}\n\n" + RULES, 5), False),
        (("{{text}}: which language?", 20), False),
        (("\\{{text}} " + RULES, 20), False),
    ],
    ids=["row first", "rules first", "few rows", "short", "escaped"],
)
def test_a_row_before_a_long_text_is_noticed_on_a_terminal(
    ask: Ask, server: ModelServer, home: Home, job: tuple[str, int], is_noticed: bool
) -> None:
    prompt, count = job
    server.reply(lambda request: wire.whole_reply(wire.answer("yes")))
    command = ("map", "-p", "openrouter", "-m", "m", prompt, write_rows(home.work, *make_rows(count)), "-O", "o.jsonl")
    with ask.start_on_terminal(*command) as running:
        result = running.finish(30)
    assert (result.code, "no service caches" in " ".join(result.text.split())) == (0, is_noticed), result.text
    assert "caches" not in ask(*command, "--fresh").stderr, "without a terminal"
