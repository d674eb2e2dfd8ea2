"""`ask providers`: the available providers and the settings they would use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home

CONFIG = """
[providers.groq]
base_url = "https://api.groq.test/v1"
key_env = "GROQ_KEY"
model = "llama"

[providers.local]
base_url = "http://localhost:9999/v1"

[providers.openrouter]
model = "vendor/mine"
"""


def rows(ask: Ask, **env: str) -> dict[str, dict[str, Any]]:
    """Return the rows by provider name."""
    listed = json.loads(ask("providers", "--json", env=env).stdout)
    assert [row["name"] for row in listed] == sorted(row["name"] for row in listed)
    return {row.pop("name"): row for row in listed}


def test_built_in_providers_are_listed_with_model_url_and_key_source(ask: Ask, server: ModelServer) -> None:
    listed = rows(ask, OPENROUTER_API_KEY="")
    assert rows(ask, OPENROUTER_API_KEY="", OPENROUTER_BASE_URL="")["openrouter"]["key"] == "missing"
    assert {"demo", "openrouter"} <= set(listed)
    assert listed["openrouter"] == {
        "title": "OpenRouter",
        "default_model": "~anthropic/claude-sonnet-latest",
        "key": "not needed",
        "base_url": server.base_url,
        "from": "ask-gents",
    }
    assert listed["demo"]["key"] == "not needed"
    assert rows(ask)["openrouter"]["key"] == "OPENROUTER_API_KEY"


def test_config_toml_adds_and_changes_providers(ask: Ask, home: Home) -> None:
    home.configure(CONFIG)
    listed = rows(ask, GROQ_KEY=TEST_KEY)
    assert listed["groq"] == {
        "title": "Groq",
        "default_model": "llama",
        "key": "GROQ_KEY",
        "base_url": "https://api.groq.test/v1",
        "from": "config.toml",
    }
    assert (listed["local"]["key"], listed["local"]["default_model"]) == ("not needed", "")
    assert listed["openrouter"]["default_model"] == "vendor/mine"
    assert rows(ask)["groq"]["key"] == "missing"


def test_no_part_of_a_key_is_printed(ask: Ask) -> None:
    for shown in (ask("providers"), ask("providers", "--json"), ask.on_terminal("providers")):
        assert shown.code == 0
        assert TEST_KEY not in shown.text + shown.stderr


@pytest.mark.parametrize(
    ("base_url", "shown"),
    [
        ("https://me:hunter2@models.test/v1", "https://***@models.test/v1"),
        (
            "https://models.test/v1?api-version=3&subscription-key=hunter2",
            "https://models.test/v1?api-version=3&subscription-key=***",
        ),
    ],
)
def test_a_secret_in_a_base_url_is_hidden(ask: Ask, base_url: str, shown: str) -> None:
    listed = rows(ask, OLLAMA_BASE_URL=base_url)
    assert listed["ollama"]["base_url"] == shown


def test_the_list_has_a_heading_on_a_terminal_only(ask: Ask) -> None:
    piped = ask("providers").text.splitlines()
    shown = ask.on_terminal("providers", env={"COLUMNS": "200"}).text.splitlines()
    assert all(line.count("\t") == 5 for line in piped)
    assert shown[0].split("  ")[0] == "NAME"
    assert [line.split()[0] for line in shown[1:]] == [line.split("\t")[0] for line in piped]


def test_invalid_arguments_are_a_usage_error(ask: Ask) -> None:
    result = ask("providers", "of", "food")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
