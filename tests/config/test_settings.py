"""Precedence of settings: option, environment, config.toml, default; and their errors."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from ask.agent.provider_selection import ModelSelection, resolve_endpoint
from ask.app import AppContext
from ask.config.config_file import Config, read_config
from ask.config.directories import AppDirs
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.config.settings import SETTINGS, Settings
from ask.errors import ConfigError
from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home


def read_config_text(tmp_path: Path, text: str | bytes) -> Config:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_config(path)


# Folders


def test_folders_are_those_of_xdg(home: Home) -> None:
    places = AppDirs.from_environment(
        {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/e", "HOME": "/h"}
    )
    assert (places.config, places.data, places.cache) == (Path("/c/ask"), Path("/d/ask"), Path("/e/ask"))


@pytest.mark.parametrize("xdg", [{}, {"XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": "not/absolute"}])
def test_without_xdg_the_platforms_folders_are_used(home: Home, xdg: Mapping[str, str]) -> None:
    env = {name: value for name, value in home.env.items() if not name.startswith("XDG_")}
    result = Ask({**env, **xdg}, home.work)("-p", "demo", "which files are here?")
    assert result.code == 0
    made = {path.name for path in Path(env["HOME"]).rglob("*") if path.is_file()}
    assert made == {"plugins.json", "audit.jsonl", "history.db"}
    assert not list(home.work.iterdir())


# Precedence

PICKED = [
    # flags, environment, config.toml, the setting and its value
    ({}, {}, "", "max_rounds", 10),
    ({}, {}, "max_rounds = 5", "max_rounds", 5),
    ({"max_rounds": 3}, {}, "max_rounds = 5", "max_rounds", 3),
    ({}, {}, "", "timeout", None),
    ({}, {}, "timeout = 20", "timeout", 20.0),
    ({}, {}, 'timeout = "5m"', "timeout", 300.0),
    ({}, {}, 'timeout = "90"', "timeout", 90.0),
    ({}, {}, 'tools.command_timeout = "2min"', "command_timeout", 120.0),
    ({}, {}, 'network.backoff = "1s"', "backoff", 1.0),
    ({"timeout": 7.5}, {}, "timeout = 20", "timeout", 7.5),
    ({}, {}, "", "command_timeout", 30.0),
    ({}, {}, "tools.command_timeout = 1.5", "command_timeout", 1.5),
    ({"command_timeout": 2.0}, {}, "tools.command_timeout = 1.5", "command_timeout", 2.0),
    ({}, {}, "", "max_command_timeout", 600.0),
    ({}, {}, "tools.max_command_timeout = 90", "max_command_timeout", 90.0),
    ({"max_command_timeout": 70.0}, {}, "tools.max_command_timeout = 90", "max_command_timeout", 70.0),
    ({"command_timeout": 5.0}, {}, "tools.max_command_timeout = 90", "max_command_timeout", 5.0),
    ({"command_timeout": 800.0}, {}, "tools.max_command_timeout = 90", "max_command_timeout", 800.0),
    ({"command_timeout": 5.0, "max_command_timeout": 70.0}, {}, "", "command_timeout", 5.0),
    ({"command_timeout": 5.0, "max_command_timeout": 70.0}, {}, "", "max_command_timeout", 70.0),
    ({"command_timeout": 80.0, "max_command_timeout": 70.0}, {}, "", "command_timeout", 70.0),
    ({"max_command_timeout": 7.0}, {}, "", "command_timeout", 7.0),
    ({}, {}, "tools.max_command_timeout = 7", "command_timeout", 7.0),
    ({}, {}, "tools.command_timeout = 900", "max_command_timeout", 900.0),
    ({}, {}, "tools.command_timeout = 900\ntools.max_command_timeout = 700", "command_timeout", 700.0),
    ({}, {}, "", "tools", True),
    ({}, {}, "tools.enabled = false", "tools", False),
    ({}, {"ASK_TOOLS": "1"}, "tools.enabled = false", "tools", True),
    ({}, {"ASK_TOOLS": "0"}, "tools.enabled = true", "tools", False),
    ({}, {"ASK_TOOLS": ""}, "tools.enabled = false", "tools", False),
    ({"no_tools": True}, {"ASK_TOOLS": "1"}, "tools.enabled = true", "tools", False),
    ({}, {}, "tools.disabled = ['bash']", "disabled_tools", frozenset({"bash"})),
    ({"disabled_tools": ("edit_file",)}, {}, "tools.disabled = ['bash']", "disabled_tools", {"bash", "edit_file"}),
    ({}, {}, "", "confirm", False),
    ({}, {}, "tools.confirm = true", "confirm", True),
    ({"confirm": True}, {}, "tools.confirm = false", "confirm", True),
    ({"yes": True}, {}, "tools.confirm = true", "assume_yes", True),
    ({}, {}, "", "stream", True),
    ({}, {}, "stream = false", "stream", False),
    ({"no_stream": True}, {}, "stream = true", "stream", False),
    ({}, {}, "", "tries", 4),
    ({}, {}, "network.tries = 1", "tries", 1),
    ({}, {}, "network.backoff = 0", "backoff", 0.0),
    ({}, {}, "stdin_limit = 5", "stdin_limit", 5),
    ({}, {}, "system = 'a'", "system", "a"),
    ({"system": "b"}, {}, "system = 'a'", "system", "a\n\nb"),
    ({}, {}, "options.seed = 1", "options", {"seed": 1}),
    ({"options": ("seed=2",)}, {}, "options.seed = 1\noptions.top_p = 0.5", "options", {"seed": 2, "top_p": 0.5}),
]


@pytest.mark.parametrize(("flags", "environment", "text", "name", "value"), PICKED, ids=itertools.count())
def test_options_override_the_environment_which_overrides_config_toml(
    tmp_path: Path, *, flags: dict[str, Any], environment: dict[str, str], text: str, name: str, value: object
) -> None:
    assert getattr(resolve_settings(RunOptions(**flags), environment, read_config_text(tmp_path, text)), name) == value


@pytest.mark.parametrize("text", ["safe.enabled = true", ""])
@pytest.mark.parametrize(
    ("words", "on"), [("1 true yes on TRUE Yes oN", True), ("0 false no off False NO oFF", False)], ids=["on", "off"]
)
def test_switch_variables_accept_the_usual_values(tmp_path: Path, words: str, on: bool, text: str) -> None:
    for word in words.split():
        settings = resolve_settings(
            RunOptions(), {"ASK_SAFE": word, "ASK_TOOLS": word}, read_config_text(tmp_path, text)
        )
        assert (settings.safe, settings.tools) == (on or bool(text), on), word


@pytest.mark.parametrize(
    ("flags", "variable", "text", "expected"),
    [
        ({}, "", "", (False, "sandbox")),
        ({"safe_files": True}, "", "", (True, "files")),
        ({"safe_files": True}, "1", "safe.enabled = true", (True, "files")),
        ({}, "", 'safe.level = "files"', (True, "files")),
        ({}, "0", 'safe.level = "files"', (True, "files")),
        ({}, "", 'safe.level = "files"\nsafe.enabled = false', (False, "files")),
        ({}, "1", 'safe.level = "files"\nsafe.enabled = false', (True, "files")),
        ({"safe": True}, "", 'safe.level = "files"', (True, "sandbox")),
        ({}, "", 'safe.level = "sandbox"', (True, "sandbox")),
    ],
)
def test_an_option_chooses_the_level_of_safe_mode_and_a_configured_level_enables_it(
    tmp_path: Path, flags: dict[str, Any], variable: str, text: str, expected: tuple[bool, str]
) -> None:
    settings = resolve_settings(RunOptions(**flags), {"ASK_SAFE": variable}, read_config_text(tmp_path, text))
    assert (settings.safe, settings.safe_level) == expected


def test_two_levels_of_safe_mode_are_an_error(ask: Ask, home: Home) -> None:
    assert ask("--safe", "--safe-files", "hi").code == 2
    home.configure('[safe]\nlevel = "kernel"\n')
    result = ask("hi")
    assert (result.code, "sandbox, files" in result.stderr) == (4, True)


@pytest.mark.parametrize("variable", ["ASK_SAFE", "ASK_TOOLS"])
@pytest.mark.parametrize("value", ["2", "enable", "y", "true false", "\u0661"])
def test_any_other_value_of_a_switch_variable_is_an_error(
    ask: Ask, server: ModelServer, variable: str, value: str
) -> None:
    result = ask("hello", env={variable: value})
    assert (result.code, server.requests) == (4, [])
    assert variable in result.stderr


def test_without_settings_the_defaults_apply() -> None:
    assert resolve_settings(RunOptions(), {}, Config()) == Settings()


CHOSEN: list[tuple[tuple[str | None, str | None], dict[str, str], str, str]] = [
    # -p and -m, environment, config.toml, the model that demo is asked for
    (("demo", None), {}, "", "demo"),
    ((None, "demo:x"), {}, "", "x"),
    ((None, "demo:"), {"ASK_PROVIDER": "openrouter", "ASK_MODEL": "e"}, "", "demo"),
    ((None, "llama3:8b"), {"ASK_PROVIDER": "demo"}, "", "llama3:8b"),
    (("demo", "openrouter:x"), {}, "", "openrouter:x"),
    ((None, None), {"ASK_PROVIDER": "demo"}, "provider = 'openrouter'", "demo"),
    ((None, None), {"ASK_PROVIDER": "demo", "ASK_MODEL": "e"}, "model = 'c'", "e"),
    ((None, "f"), {"ASK_PROVIDER": "demo", "ASK_MODEL": "e"}, "model = 'c'", "f"),
    (("demo", None), {"ASK_PROVIDER": "openrouter", "ASK_MODEL": "e"}, "", "demo"),
    (("demo", None), {"ASK_PROVIDER": "demo", "ASK_MODEL": "e"}, "", "e"),
    ((None, None), {"ASK_MODEL": "e"}, "provider = 'demo'\nmodel = 'c'", "e"),
    (("demo", None), {"ASK_MODEL": "e"}, "", "demo"),
    (("demo", None), {}, "model = 'c'", "demo"),
    ((None, None), {"ASK_PROVIDER": "demo"}, "model = 'c'", "demo"),
    ((None, None), {}, "provider = 'demo'\nmodel = 'c'", "c"),
    (("demo", None), {}, "provider = 'openrouter'\nmodel = 'c'", "demo"),
    ((None, None), {"ASK_PROVIDER": "demo"}, "provider = 'openrouter'\nmodel = 'c'", "demo"),
    (("demo", None), {}, "[providers.demo]\nmodel = 't'", "t"),
    ((None, None), {"ASK_PROVIDER": "demo", "ASK_MODEL": "e"}, "[providers.demo]\nmodel = 't'", "e"),
]


@pytest.mark.parametrize(("flags", "environment", "text", "model"), CHOSEN, ids=itertools.count())
def test_provider_and_model_are_selected_by_precedence(
    home: Home, flags: tuple[str | None, str | None], environment: Mapping[str, str], text: str, model: str
) -> None:
    home.configure(text)
    target = resolve_endpoint(AppContext({**home.env, **environment}), ModelSelection(*flags))
    assert (target.provider_name, target.model) == ("demo", model)


def test_the_default_provider_is_openrouter_or_else_the_first_with_a_key(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    home.configure(f"[providers.aaa]\nbase_url = '{server.base_url}'\nmodel = 'a'\n")
    server.reply(wire.says("hello"))
    env = {"AAA_API_KEY": "sk-aaa-12345678"}
    ask("hi", env=env)
    ask("hi", env={**env, "OPENROUTER_API_KEY": ""})
    assert [request.json["model"] for request in server.requests] == ["~anthropic/claude-sonnet-latest", "a"]
    (home.config / "config.toml").unlink()
    nobody = ask("hi", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""})
    assert nobody.code == 4
    assert "OPENROUTER_API_KEY" in nobody.stderr
    assert "-p demo" in nobody.stderr


@pytest.mark.parametrize("winner", ["flag", "environment", "config"])
def test_the_base_url_comes_from_option_environment_or_config_toml(
    home: Home, server: ModelServer, winner: str
) -> None:
    order = ["flag", "environment", "config"]
    url = {place: server.base_url if place == winner else "http://127.0.0.1:9" for place in order}
    weaker = order[order.index(winner) :]
    home.configure(f"[providers.openrouter]\nbase_url = '{url['config']}'\n")
    env = {**home.env, "OPENROUTER_API_KEY": "sk-12345678"}
    env |= {"OPENROUTER_BASE_URL": url["environment"]} if "environment" in weaker else {}
    server.reply(wire.says("reached"))
    flags = ["--base-url", url["flag"]] if "flag" in weaker else []
    assert Ask(env, home.work)("-p", "openrouter", *flags, "hi").text == "reached\n"


KEYS_IN_ORDER = ["--key", "WORK_KEY", "OPENROUTER_API_KEY", "AI_OPENROUTER_API_KEY", "keys.toml"]


@pytest.mark.parametrize("winner", KEYS_IN_ORDER)
def test_the_key_comes_from_option_environment_or_key_file(home: Home, server: ModelServer, winner: str) -> None:
    given_keys = {place: f"sk-from-{place}" for place in KEYS_IN_ORDER[KEYS_IN_ORDER.index(winner) :]}
    table = f"base_url = '{server.base_url}'\n" + ("key_env = 'WORK_KEY'\n" if "WORK_KEY" in given_keys else "")
    home.configure(f"[providers.openrouter]\n{table}")
    (home.config / "keys.toml").write_text(f"openrouter = '{given_keys['keys.toml']}'\n")
    server.reply(wire.says("hello"))
    env = {**home.env, **{name: key for name, key in given_keys.items() if name.isupper()}}
    flags = ["--key", given_keys["--key"]] if "--key" in given_keys else []
    assert Ask(env, home.work)("-p", "openrouter", *flags, "hi").code == 0
    assert server.requests[0].headers["Authorization"] == f"Bearer sk-from-{winner}"


# Errors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\nmodel\nb = 2", "(at line 2, column 6)"),
        ("a = 1\n[tools\n", "(at line 2, column 7)"),
        ("a = 1\na = 2\n", "(at line 2, column 6)"),
        (b"a = 1\nmodel = '\xff'", "not UTF-8 (at line 2)"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a = 1" + "0" * 5000, "digits"),
    ],
)
def test_invalid_toml_is_reported_with_file_and_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config_text(tmp_path, text)
    assert str(tmp_path / "config.toml") in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        *("provider = 1", "provider = {}", "provider.x = 1", "model = ['a']", "system = true", "stream = 1"),
        *("max_rounds = 1.5", "max_rounds = true", "max_rounds = 0", "max_rounds = -1", "timeout = 'long'"),
        *("timeout = 0", "timeout = nan", "timeout = inf", "timeout = 1e12", "timeout = 2020-01-01"),
        *("timeout = '-5m'", "timeout = '5 m'", "max_cost = '5m'", "tools.command_timeout = '0s'"),
        *("network.backoff = -1", "network.tries = 0", "stdin_limit = -1", "tools = 5", "tools.enabled = 'no'"),
        *("network = []", "tools.disabled = 'bash'", "tools.disabled = [1]", "options = 5", "providers = 'x'"),
        *("providers.x = 5", "providers.x.base_url = 5", "providers.x.model = []", "providers.x.key_env = ['A']"),
        *("providers.x.models = 5", "providers.x.models = {}", "providers.x.models = ['gpt']"),
        *(
            "providers.x.models = [{}]",
            "providers.x.models = [{pattern = 5}]",
            "providers.x.models = [{pattern = '{a}'}]",
        ),
        *(
            "providers.x.models = [{pattern = 'a', efforts = 'low'}]",
            "providers.x.models = [{pattern = 'a', output_limit = -1}]",
        ),
        "providers.x.models = [{pattern = 'a', effort_parameters = {none = 1}}]",
        *("options.when = 2020-01-01", "options.most = inf", "tools = [{enabled = true}]", "providers.x = [{}]"),
    ],
)
def test_an_invalid_value_is_reported_with_its_key(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config_text(tmp_path, line).check_entry("providers.x")
    key = line.partition(" = ")[0]
    assert str(caught.value).startswith(f"{tmp_path}/config.toml: ")
    assert key in str(caught.value) or f"[{key.partition('.')[0]}]" in str(caught.value) or key == "provider.x"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_of_windows_editors_are_read(
    ask: Ask, home: Home, server: ModelServer, encoding: str, newline: str
) -> None:
    def encode(text: str) -> bytes:
        return text.replace("\n", newline).encode(encoding)

    server.reply(wire.says("yes"))
    home.config.mkdir()
    (home.config / "config.toml").write_bytes(encode('# größe\nmodel = "test/größe"\n[options]\nseed = 1\n'))
    (home.config / "keys.toml").write_bytes(encode(f'openrouter = "{TEST_KEY}"\n'))
    assert ask("hi", env={"OPENROUTER_API_KEY": ""}).stderr == ""
    assert server.requests[-1].json["model"] == "test/größe"
    assert server.requests[-1].headers["Authorization"] == f"Bearer {TEST_KEY}"
    assert ask("config", "set", "max_rounds", "3").code == 0
    assert ask("config", "set", "options.top_p", "0.5").code == 0
    data = (home.config / "config.toml").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    assert data.count(newline.encode()) == data.count(b"\n")
    values = tomllib.loads(data.decode("utf-8-sig"))
    assert values == {"model": "test/größe", "max_rounds": 3, "options": {"seed": 1, "top_p": 0.5}}
    assert "# größe".encode() in data
    assert ask("keys", "set", "openai", stdin=b"sk-other-0123456789").code == 0
    assert tomllib.loads((home.config / "keys.toml").read_text()) == {
        "openrouter": TEST_KEY,
        "openai": "sk-other-0123456789",
    }


def test_an_invalid_config_toml_is_a_one_line_error(ask: Ask, home: Home) -> None:
    home.configure("model = 'x'\nmodle\n")
    for arguments in (["hi"], ["providers"]):
        result = ask(*arguments)
        assert (result.code, result.stdout) == (4, b"")
        assert f"{home.config}/config.toml" in result.stderr
        assert "line 2" in result.stderr
        assert result.stderr.count("\n") == 1


def test_an_unreadable_config_toml_is_a_one_line_error(ask: Ask, home: Home) -> None:
    (home.config / "config.toml").mkdir(parents=True)
    result = ask("-p", "demo", "hi")
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert f"{home.config}/config.toml (Is a directory)" in result.stderr


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("stdin_limt = 1", ["stdin_limt", "did you mean stdin_limit?"]),
        ("temperature = 0.2", ["temperature", "did you mean options.temperature?"]),
        ("[providers.x]\nbase-url = 'y'", ["base-url", "did you mean base_url?", "[providers.x]"]),
        ("[[providers.x.models]]\npattern = 'y'\neffort = ['low']", ["effort", "did you mean efforts?"]),
        ("zzz = 1", ["zzz"]),
        ("system = '@style'", ["'@style'", "only -s"]),
    ],
)
def test_an_unknown_key_is_a_warning_with_a_suggestion(ask: Ask, home: Home, text: str, warning: list[str]) -> None:
    home.configure(text)
    result = ask("-p", "demo", "--no-tools", "hi")
    assert (result.code, result.stderr.count("\n")) == (0, 1)
    assert all(expected in result.stderr for expected in (f"{home.config}/config.toml", *warning))


@pytest.mark.parametrize(
    ("text", "key", "suggestion"),
    [
        ("tools.enable = true", "tools.enable", "tools.enabled"),
        ("[tool]\ndeny = ['rm']", "tool.deny", "tools.deny"),
        ("[safe]\nenable = true", "safe.enable", "safe.enabled"),
        ("max_costs = 1", "max_costs", "max_cost"),
        ("confirm = true", "confirm", "tools.confirm"),
        ("[tools]\nbash = false", "tools.bash", ""),
        ("SAFE = true", "SAFE", ""),
        ("safe_mode = true", "safe_mode", ""),
        ("[histroy]\nsave = false", "histroy.save", ""),
        ("[[hook]]\nevent = 'before_tool'\ncommand = 'exit 2'", "hook", ""),
    ],
)
def test_a_misspelled_restriction_is_an_error(ask: Ask, home: Home, text: str, key: str, suggestion: str) -> None:
    home.configure(f"provider = 'demo'\n{text}\n")
    result = ask("-q", "run touch made")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (4, b"", 1)
    assert f"unknown key {key}" in result.stderr
    assert suggestion in result.stderr
    assert not (home.work / "made").exists()
    assert ask("config", "unset", key).code == 0
    assert ask("-q", "run touch made").code == 0


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("provder = 'ollama'", "provder"),
        ("modle = 'llama'", "modle"),
        ("[provider_s.lab]\nbase_url = 'http://127.0.0.1:1'", "provider_s.lab"),
        ("default_provider = 'ollama'", "default_provider"),
        ("default_model = 'ollama/llama'", "default_model"),
        ("base_url = 'http://127.0.0.1:1'", "base_url"),
        ("OPENAI_BASE_URL = 'http://127.0.0.1:1'", "OPENAI_BASE_URL"),
        ("[ollama]\nbase_url = 'http://127.0.0.1:1'", "ollama.base_url"),
        ("[alias]\nlocal = 'ollama/llama'", "alias.local"),
    ],
)
def test_a_misspelled_destination_is_an_error(ask: Ask, home: Home, text: str, key: str) -> None:
    home.configure(f"{text}\n")
    result = ask("-q", "-p", "demo", "hi")
    assert (result.code, result.stdout, f"unknown key {key}" in result.stderr) == (4, b"", True), result.stderr
    assert ask("config", "unset", key).code == 0
    assert ask("-q", "-p", "demo", "hi").code == 0


@pytest.mark.parametrize(
    "key", ["bas_url", "baseURL", "url", "uri", "api_base", "endpoint", "address", "header", "extra_headers"]
)
def test_a_provider_with_a_misspelled_destination_is_not_asked(
    ask: Ask, home: Home, server: ModelServer, key: str
) -> None:
    home.configure(f'[providers.openrouter]\n{key} = "http://127.0.0.1:9"\n')
    result = ask("-p", "openrouter", "-m", "vendor/model", "hi")
    assert (result.code, server.requests, f"unknown key {key}" in result.stderr) == (4, [], True), result.stderr
    assert ask("-p", "demo", "hi").code == 0, "other providers can be used"
    assert ask("config", "unset", f"providers.openrouter.{key}").code == 0
    assert not (home.config / "config.toml").read_text()


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("[options]\ntemperature = 0.2", "options.max_cost"),
        ("[aliases]\nfast = 'x'", "aliases.max_cost"),
        ("[tools]\nconfirm = false", "tools.max_cost"),
        ("[providers.lab]\nmodel = 'x'", "providers.lab.max_cost"),
        ("[mcp.servers.one]\ncommand = 'x'", "mcp.servers.one.max_cost"),
        ("[[hooks]]\nevent = 'run_end'\ncommand = 'true'", ""),
        ("[[providers.lab.models]]\npattern = 'x'", ""),
    ],
)
def test_a_limit_at_the_end_of_a_table_is_an_error(ask: Ask, home: Home, table: str, key: str) -> None:
    home.configure(f"provider = 'demo'\n{table}\nmax_cost = 1\n")
    result = ask("-q", "run touch made")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (4, b"", 1)
    assert "move it above all tables" in result.stderr
    assert f"ask config unset {key}\n" in result.stderr if key else "ask config edit" in result.stderr
    assert not (home.work / "made").exists()
    if key:
        assert ask("config", "unset", key).code == 0
        assert ask("-q", "run touch made").code == 0


def test_a_key_that_no_command_can_repeat_is_removed_in_the_editor(ask: Ask, home: Home) -> None:
    home.configure('[safe]\n"a; b\\nc" = 1\n')
    result = ask("-q", "hi")
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert result.stderr.endswith("remove it with ask config edit\n")


def test_several_misspelled_restrictions_are_removed_one_by_one(ask: Ask, home: Home) -> None:
    home.configure("provider = 'demo'\nmax_costs = 1\n[options]\nmax_cost = 1\n[safe]\nenable = true\n")
    for key, is_last in (("max_costs", False), ("options.max_cost", False), ("safe.enable", True)):
        assert ask("-q", "hi").code == 4
        result = ask("config", "unset", key)
        assert (result.code, result.stderr == "") == (0, is_last)
    assert (home.config / "config.toml").read_text() == "provider = 'demo'\n"
    assert ask("-q", "hi").code == 0


@pytest.mark.parametrize(("key", "option"), [("max_cost", "--max-cost"), ("max_rounds", "--max-rounds")])
def test_a_limit_is_not_sent_as_a_model_parameter(ask: Ask, key: str, option: str) -> None:
    for command in (("-o", f"{key}=1", "hi"), ("config", "set", f"options.{key}", "1")):
        result = ask(*command)
        assert (result.code, result.stderr.count("\n"), option in result.stderr) == (2, 1, True)


def test_a_missing_config_toml_means_the_defaults(tmp_path: Path) -> None:
    assert not read_config(tmp_path / "config.toml").values


SECTIONS = {key.partition(".")[0] for key in SETTINGS if "." in key} | {"options", "providers"}
NAMES = st.sampled_from(sorted({part for key in SETTINGS for part in key.split(".")} | SECTIONS)) | st.text(max_size=3)
LEAVES = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5) | st.dates() | st.datetimes()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))


@given(values=st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_toml_is_valid_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    try:
        text = tomli_w.dumps(values)
        tomllib.loads(text)
    except (UnicodeEncodeError, tomllib.TOMLDecodeError, ValueError):
        return  # a value that cannot occur in a file
    path.write_text(text, encoding="utf-8", newline="")
    try:
        config = read_config(path)
    except ConfigError as error:
        assert str(path) in str(error)
        return
    resolved = resolve_settings(RunOptions(), {}, config)
    assert {type(value) for value in (resolved.timeout or 1.0, resolved.command_timeout, resolved.backoff)} == {float}
    assert all(isinstance(table, dict) for table in config.providers.values())
    assert all("\n" not in warning for warning in config.warnings)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("text", "key", "using"),
    [
        ("providers.bad.base_url = 5", "providers.bad.base_url", ["-p", "bad"]),
        ("providers.bad = 5", "providers.bad", ["-p", "bad"]),
        ("providers.openai.base_url = 5", "providers.openai.base_url", ["-p", "openai"]),
        ("providers.bad = {base_url = 'http://x', models = [{}]}", "providers.bad.models", ["-m", "bad:x"]),
        ("aliases.bad = 5", "aliases.bad", ["-m", "bad"]),
        ("mcp.servers.bad = {command = 5}", "mcp.servers.bad.command", None),
        ("mcp.servers.bad = {}", "mcp.servers.bad", None),
    ],
)
def test_an_invalid_entry_is_an_error_only_when_it_is_used(
    ask: Ask, home: Home, server: ModelServer, text: str, *, key: str, using: list[str] | None
) -> None:
    home.configure(f"model = 'test/good'\n{text}\naliases.good = 'test/alias'\n")
    server.reply(wire.says("yes"))
    for arguments, model in (([], "test/good"), (["-m", "good"], "test/alias")):
        result = ask(*arguments, "hi")
        assert (result.code, result.text) == (0, "yes\n")
        assert key in result.stderr
        assert result.stderr.count("\n") == 1
        assert server.requests[-1].json["model"] == model
    if using:
        result = ask(*using, "hi", env={"OPENAI_API_KEY": TEST_KEY})
        assert (result.code, result.stdout) == (4, b"")
        assert key in result.stderr
    assert key in ask("doctor", "--offline").text


def test_the_key_of_an_invalid_provider_stays_a_secret(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure("providers.bad = {base_url = 5, key_env = 'MY_ACCESS'}\n")
    server.reply(wire.calls(("bash", {"command": "echo [$MY_ACCESS]"})), wire.says("yes"))
    assert ask("hi my-access-0123456789", env={"MY_ACCESS": "my-access-0123456789"}).code == 0
    assert "my-access" not in str(server.requests[-1].json)
    assert "[]" in str(server.requests[-1].json["messages"][-1])
