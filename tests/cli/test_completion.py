"""`ask --complete`: the words for the completion scripts, none of which is harmful on a command line."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.completion import is_safe_word
from ask.client.models_cache import get_cache_file, read_models, write_models
from ask.mcp.completion_cache import write_addresses
from ask.plugin_api.types import ModelInfo
from tests import wire
from tests.history.saved import save, user
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.test_startup import HEAVY, observe

DAY = 86_400


def words(text: str) -> list[str]:
    return [line.partition("\t")[0] for line in text.splitlines()]


@pytest.fixture
def ask(ask: Ask) -> Ask:
    """The installed command, since its background process outlives it."""
    return replace(ask, installed=True)


def test_providers_are_installed_or_configured(ask: Ask, home: Home) -> None:
    home.configure(
        '[providers.groq]\nbase_url = "http://127.0.0.1:9/v1"\n[providers.openai]\nmodel = "m"\n'
        '[providers.x]\nmodel = "m"\n'
    )
    for _ in range(2):  # the second run reads the models list that the first has fetched
        found = words(ask("--complete", "providers").text)
        assert {"demo", "openai", "openrouter", "groq"} <= set(found)
        assert len(found) == len(set(found))
        assert "x" not in found


def test_models_are_completed_by_provider_or_prefix(ask: Ask, home: Home) -> None:
    home.configure('provider = "openrouter"\n[aliases]\nfast = "openrouter:vendor/b"')
    write_models(write_models_cache(home), [ModelInfo(id="vendor/a"), ModelInfo(id="vendor/b")])
    assert words(ask("--complete", "models", "", "openrouter").text) == ["vendor/a", "vendor/b"]
    assert words(ask("--complete", "models", "openrouter:v").text) == ["openrouter:vendor/a", "openrouter:vendor/b"]
    assert {"fast", "openrouter:", "demo:", "vendor/a"} <= set(words(ask("--complete", "models", "").text))
    assert not words(ask("--complete", "models", "", "deepseek").text)


def test_models_of_the_first_provider_with_a_key_are_completed(ask: Ask, home: Home) -> None:
    write_models(write_models_cache(home), [ModelInfo(id="vendor/a")])
    assert not home.config.exists()
    assert "vendor/a" in words(ask("--complete", "models", "").text)


@pytest.mark.slow
def test_fallbacks_are_models_of_the_provider_or_with_a_prefix(ask: Ask, home: Home) -> None:
    write_models(write_models_cache(home), [ModelInfo(id="vendor/a")])
    assert {"openrouter:", "vendor/a"} <= set(words(ask("--complete", "fallbacks", "", "openrouter").text))
    assert "vendor/a" not in words(ask("--complete", "fallbacks", "", "deepseek").text)
    assert "openrouter:vendor/a" in words(ask("--complete", "fallbacks", "openrouter:v", "deepseek").text)


def write_models_cache(home: Home) -> Path:
    return get_cache_file(Path(home.env["XDG_CACHE_HOME"], "ask"), "openrouter", "http://127.0.0.1:9")


@pytest.mark.slow
def test_an_old_list_is_offered_immediately_and_refreshed_in_the_background(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    server.reply(wire.whole_reply({"data": [{"id": "vendor/new"}]}))
    write_models(write_models_cache(home), [ModelInfo(id="vendor/old")], age=2 * DAY)
    assert words(ask("--complete", "models", "", "openrouter").text) == ["vendor/old"]
    server.wait_for_requests(1)
    fresh = get_cache_file(Path(home.env["XDG_CACHE_HOME"], "ask"), "openrouter", server.base_url)
    end = time.monotonic() + 20
    while not read_models(fresh).models and time.monotonic() < end:
        time.sleep(0.01)
    assert words(ask("--complete", "models", "", "openrouter").text) == ["vendor/new"]
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_failed_refresh_is_not_retried_immediately(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(500, "down"))
    ask("--complete", "models", "", "openrouter")
    server.wait_for_requests(1)
    came = len(server.requests)
    for _ in range(3):
        assert ask("--complete", "models", "", "openrouter").text == ""
    assert came <= len(server.requests) <= 4, "only the tries of one process"


def test_conversations_are_listed_with_titles_newest_first(ask: Ask, home: Home) -> None:
    assert ask("--complete", "conversations").text == ""
    assert not home.data.exists(), "nothing is made for want of it"
    save(home.data / "history.db", "aa11", user("one"), ago=10)
    save(home.data / "history.db", "bb22", user("two\nlines \x1b[31m"))
    assert ask("--complete", "conversations").text == "bb22\ttwo lines \\x1b[31m\naa11\tone\n"


@pytest.mark.slow
def test_addresses_of_mcp_servers_come_from_their_last_listing(ask: Ask, home: Home) -> None:
    home.configure(
        "".join(f'[mcp.servers.{name}]\ncommand = "touch"\nargs = ["started"]\n' for name in ("new", "notes", "off"))
        + "enabled = false\n"
    )
    cache = Path(home.env["XDG_CACHE_HOME"], "ask")
    write_addresses(cache, "notes", "prompts", [("proofread", "Find\tmistakes"), ("$(id)", "")])
    write_addresses(cache, "notes", "resources", [])
    found = ask("--complete", "prompts", "").text.splitlines()
    assert {"commit", "mcp://new/", "mcp://notes/"} <= set(words("\n".join(found)))
    assert "mcp://off/" not in words("\n".join(found))
    assert ask("--complete", "prompts", "mcp://notes/p").text.splitlines()[-1] == "mcp://notes/proofread\tFind mistakes"
    assert words(ask("--complete", "resources", "mcp://").text) == ["mcp://new/"]
    assert words(ask("--complete", "resources", "mcp://new/").text) == []
    assert not (home.work / "started").exists()


@pytest.mark.parametrize(
    "kind",
    ["providers", "models", "conversations", "jobs", "approvals", "skills", "servers", "resources", "nothing", ""],
)
def test_broken_files_offer_and_print_nothing(kind: str, ask: Ask, home: Home) -> None:
    home.configure("this is = not TOML")
    home.data.mkdir()
    (home.data / "history.db").write_text("no database")
    index = Path(home.env["XDG_CACHE_HOME"], "ask/plugins.json")
    index.parent.mkdir(exist_ok=True)
    index.write_text("[" * 100_000)
    result = ask("--complete", kind)
    assert (result.code, result.stderr) == (0, "")


@given(st.text())
def test_offered_words_have_no_special_characters(word: str) -> None:
    if is_safe_word(word):
        assert not set(word) & set(" \t\n'\"\\$`;&|<>(){}[]*?!#^")


@pytest.mark.slow
def test_completion_imports_neither_click_nor_providers_besides_the_table(home: Home) -> None:
    save(home.data / "history.db", "aa11", user("one"))
    write_models(write_models_cache(home), [ModelInfo(id="vendor/a")])
    observe(home, "--complete", "providers")  # which finds what the next ones read
    for arguments in (["providers"], ["models", "openrouter:"], ["conversations"], ["prompts", "mcp://"]):
        seen = observe(home, "--complete", *arguments)
        allowed = {"conversations": {"sqlite3"}, "providers": {"ask_providers"}}.get(arguments[0], set())
        assert seen.modules & (HEAVY | {"click", "ask_providers", "ask.cli.commands", "subprocess"}) <= allowed
        assert seen.providers <= {"services"}
        assert not seen.writing


@pytest.mark.parametrize(
    ("key", "word", "found"),
    [
        ("tools.confirm", "", ["true", "false"]),
        ("safe.level", "", ["sandbox", "files"]),
        ("max_rounds", "", ["10"]),
        ("max_cost", "", []),
        ("network.backoff", "", ["0.5"]),
        ("options.reasoning_effort", "", ["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        ("providers.groq.api", "", ["responses", "chat", "messages", "gemini"]),
        ("providers.openrouter.model", "", ["vendor/a"]),
        ("fallback", "openrouter:vendor/a,openrouter:", ["openrouter:vendor/a,openrouter:vendor/a"]),
        ("system", "", []),
        ("no.such.key", "", []),
    ],
)
def test_values_of_settings(key: str, word: str, found: list[str], ask: Ask, home: Home) -> None:
    write_models(write_models_cache(home), [ModelInfo(id="vendor/a")])
    assert words(ask("--complete", "values", word, key).text) == found


def test_ids_are_found_by_their_title_if_none_begins_with_the_word(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "aa11", user("Fix the bb test"), ago=10)
    save(home.data / "history.db", "bb22", user("über alles"))
    assert words(ask("--complete", "conversations", "bb").text) == ["bb22"]
    assert words(ask("--complete", "conversations", "the BB").text) == ["aa11"]
    assert words(ask("--complete", "conversations", "ÜBER").text) == ["bb22"]
    assert words(ask("--complete", "conversations", "neither").text) == []
