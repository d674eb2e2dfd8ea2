"""The selection of model, API key and base URL."""

from __future__ import annotations

import json

import pytest

from ask.config.base_url import complete_base_url, is_local_url
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home

KEYS = ("sk-first-0123456789", "sk-second-0123456789", "sk-third-0123456789")
LOCAL = '[providers.local]\nbase_url = "{url}"\n'


def models_response(*entries: dict[str, object]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


# Models


@pytest.mark.parametrize(
    ("arguments", "model"), [(["-m", "fast"], "a/model"), (["-p", "openrouter", "-m", "fast"], "fast")]
)
def test_an_alias_is_resolved_unless_a_provider_is_named(
    arguments: list[str], model: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    home.configure('[aliases]\nfast = "openrouter:a/model"')
    server.reply(wire.says("Hello."))
    assert ask(*arguments, "hi").code == 0
    assert server.requests[0].json["model"] == model


@pytest.mark.parametrize("value", ["fast", "openrouter:a/model"])
@pytest.mark.parametrize("in_config", [False, True])
def test_a_default_model_may_name_its_provider_or_be_an_alias(
    value: str, in_config: bool, ask: Ask, home: Home, server: ModelServer
) -> None:
    default = f'provider = "openai"\nmodel = "{value}"\n' if in_config else ""
    home.configure(f'{default}[aliases]\nfast = "openrouter:a/model"')
    env = {} if in_config else {"ASK_PROVIDER": "openai", "ASK_MODEL": value}
    server.reply(wire.says("Hello."))
    result = ask("hi", env={**env, "OPENAI_API_KEY": KEYS[0]})
    assert result.code == 0, result.stderr
    assert server.requests[0].json["model"] == "a/model"


def test_a_line_end_in_a_variable_is_ignored(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    result = ask("hi", env={"ASK_PROVIDER": "openrouter\r", "ASK_MODEL": " a/model\r"})
    assert result.code == 0, result.stderr
    assert server.requests[0].json["model"] == "a/model"


def test_the_provider_of_a_default_model_does_not_apply_to_a_named_provider(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("-p", "openrouter", "--json", "hi", env={"ASK_MODEL": "openai:gpt-5"}).code == 0
    assert server.requests[0].json["model"] != "gpt-5"


def test_without_a_model_the_first_listed_one_is_used(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure(LOCAL.format(url=server.base_url))
    server.reply(models_response({"id": "loaded"}, {"id": "another"}), wire.says("Hello."))
    result = ask("-p", "local", "--json", "hi")
    assert (result.code, '"model": "loaded"' in result.text) == (0, True)
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert server.requests[1].json["model"] == "loaded"


def test_a_provider_that_lists_no_model_is_a_config_error(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure(LOCAL.format(url=server.base_url))
    server.reply(models_response())
    result = ask("-p", "local", "hi")
    assert (result.code, result.stdout) == (4, b"")
    assert all(told in result.stderr for told in ("local", "-m", "ask models -p local"))


# Keys


@pytest.mark.parametrize(
    ("variable", "provider"),
    [("GEMINI_API_KEY", "gemini"), ("GOOGLE_API_KEY", "gemini"), ("GROK_API_KEY", "xai"), ("MY_TOKEN", "mine")],
)
def test_the_default_provider_is_the_one_that_has_a_key(variable: str, provider: str, home: Home) -> None:
    home.configure('[providers.mine]\nbase_url = "https://mine.example"\nkey_env = "MY_TOKEN"\nmodel = "x"')
    ask = Ask({**home.env, variable: KEYS[0], "HTTPS_PROXY": "http://127.0.0.1:1"}, home.work)
    result = ask("--json", "hi")
    assert json.loads(result.text)["provider"] == provider, result.stderr


@pytest.mark.parametrize("status", [401, 402, 429])
def test_several_keys_are_tried_in_turn(status: int, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(status, f"not {KEYS[0]}"), wire.fails(status), wire.says("Hello."))
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": " | ".join(KEYS)})
    assert (result.code, result.text) == (0, "Hello.\n")
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {key}" for key in KEYS]
    assert result.stderr.count("next key") == 2
    assert not any(key in result.stderr for key in KEYS)


def test_the_key_that_worked_is_used_for_the_rounds_that_follow(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401), wire.calls(("list_dir", {"dirpath": "."})), wire.says("Nothing."))
    assert ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": "|".join(KEYS)}).code == 0
    assert [request.headers["Authorization"][7:] for request in server.requests] == [KEYS[0], KEYS[1], KEYS[1]]


def test_when_the_last_key_fails_its_error_is_reported(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "User not found."))
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": "|".join(KEYS)})
    assert result.code == 6
    assert "User not found (openrouter, 401)" in result.stderr.splitlines()[-1]
    assert len(server.requests) == 3


# Addresses


@pytest.mark.parametrize(
    ("provider", "variable", "end"),
    [("openai", "OPENAI_API_BASE", "/v1"), ("gemini", "GOOGLE_GEMINI_BASE_URL", "/v1beta")],
)
def test_base_urls_of_other_programs_are_used(
    provider: str, variable: str, end: str, home: Home, server: ModelServer
) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.fails(400, "no"))
    origin = server.base_url.removesuffix("/api/v1")
    ask("-p", provider, "-m", "m", "hi", env={variable: origin + end, "GEMINI_API_KEY": KEYS[0]})
    assert server.requests[0].path.startswith(f"{end}/")
    assert server.requests[0].path.count(end) == 1


@pytest.mark.parametrize(
    ("told", "reached"),
    [
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        (":8000", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:2", "http://[::1]:2"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("::", "http://[::1]:11434"),
        ('"gpu:8080"', "http://gpu:8080"),
        ("gpu:x", "http://gpu:11434"),
        ("https://box.example", "https://box.example"),
        ("http://0.0.0.0:3/path", "http://127.0.0.1:3/path"),
        ("http://me:secret@box:80/path", "http://me:secret@box:80/path"),
        ("me:secret@[::1]", "http://me:secret@[::1]:11434"),
    ],
)
def test_an_address_without_scheme_or_port_gets_the_providers_defaults(told: str, reached: str) -> None:
    assert complete_base_url(told, "http://localhost:11434") == reached


# Local servers


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:8080", "api.localhost", "127.0.0.1:8080", "127.9.9.9", "[::1]:1", "0.0.0.0"),
        *(
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.5:11434",
            "[fe80::1]",
            "[fd00::1]",
            "gpu-box",
            "nas.local",
            "nas.local.",
        ),
    ],
)
def test_local_addresses_are_recognized(host: str) -> None:
    assert is_local_url(f"http://{host}/v1")


@pytest.mark.parametrize(
    "url",
    [
        *("http://8.8.8.8/v1", "https://api.example.com/v1", "http://172.32.0.1", "http://[2606:4700::1]/", ""),
        *("http://localhost.example.com", "http://local", "http://127.0.0.1@example.com/", "http://[bad", "nonsense"),
    ],
)
def test_public_addresses_are_not_local(url: str) -> None:
    assert is_local_url(url) == (url == "http://local")


@pytest.mark.parametrize("provider", [[], ["-p", "openai"], ["-p", "anthropic"]])
def test_a_local_server_needs_no_key(provider: list[str], home: Home, server: ModelServer) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.says("Hello."))
    ask(*provider, "--base-url", server.base_url, "-m", "m", "hi")
    assert len(server.requests) >= 1
    assert not {"Authorization", "x-api-key"}.intersection(server.requests[0].headers)
    for line in (["--base-url", "https://api.invalid/v1"], []):
        assert ask(*provider, *line, "hi").code == 4


def test_a_password_in_the_base_url_replaces_the_key_and_is_redacted(home: Home, server: ModelServer) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.calls(("bash", {"command": "echo $OPENROUTER_BASE_URL"})), wire.says("Hello."))
    base_url = server.base_url.replace("//", "//me:correct-horse@")
    assert ask("-m", "m", "hi", env={"OPENROUTER_BASE_URL": base_url}).code == 0
    assert server.requests[1].headers["Authorization"].startswith("Basic ")
    assert (b"//me:" in server.requests[1].body, b"horse" in server.requests[1].body) == (True, False)
    home.configure("[network]\ntries = 1\n")
    assert ask("-p", "openai", "--base-url", "https://me:correct-horse@api.invalid/v1", "hi").code == 5


def test_a_local_address_in_the_environment_or_config_toml_needs_no_key(home: Home, server: ModelServer) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.says("Hello."))
    assert ask("-m", "m", "hi", env={"OPENROUTER_BASE_URL": server.base_url}).code == 0
    home.configure(f'[providers.openrouter]\nbase_url = "{server.base_url}"\n')
    assert ask("-m", "m", "hi").code == 0
