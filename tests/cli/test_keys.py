"""`ask keys`: keys are stored privately, used, and never printed."""

from __future__ import annotations

import json
import stat
import tomllib
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Home

KEY = "sk-or-v1-very-secret"


@pytest.fixture
def keyless(home: Home, server: ModelServer) -> Ask:
    """`ask` with the URL of the test server but without a key."""
    return Ask({**home.env, "OPENROUTER_BASE_URL": server.base_url}, home.work)


def kept(home: Home) -> dict[str, Any]:
    path = home.config / "keys.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def test_a_piped_key_is_saved_with_private_permissions_and_used(keyless: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = keyless("keys", "set", "openrouter", stdin=f" {KEY} \nmore\n".encode())
    path = home.config / "keys.toml"
    assert (result.code, result.stdout) == (0, b"")
    assert "openrouter" in result.stderr
    assert str(path) in result.stderr
    assert kept(home) == {"openrouter": KEY}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in home.config.iterdir()] == ["keys.toml"]
    assert keyless("hi").text == "yes\n"
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_typed_key_is_not_echoed(keyless: Ask, home: Home) -> None:
    result = keyless.on_terminal("keys", "set", "openrouter", answers=[("Key for openrouter: ", f"{KEY}\n")])
    assert result.code == 0
    assert "very-secret" not in result.text
    assert kept(home) == {"openrouter": KEY}


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        *(("\n", 2), (CTRL_C, 130)),
        *(pytest.param(keys, code, marks=pytest.mark.slow) for keys, code in (("  \n", 2), ("\x04", 130))),
    ],
)
def test_an_empty_key_is_not_saved(keys: str, code: int, keyless: Ask, home: Home) -> None:
    result = keyless.on_terminal("keys", "set", "openrouter", answers=[("Key for openrouter: ", keys)])
    assert result.code == code
    assert kept(home) == {}
    assert "Traceback" not in result.text


def test_setting_a_key_keeps_the_others(keyless: Ask, home: Home) -> None:
    home.config.mkdir()
    path = home.config / "keys.toml"
    path.write_text('openrouter = "old"\nother = "kept"\n')
    path.chmod(0o644)
    assert keyless("keys", "set", "openrouter", stdin=KEY.encode()).code == 0
    assert kept(home) == {"openrouter": KEY, "other": "kept"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("source", ["</dev/null", "<&-", "<<< ''", r"< <(printf '\xff\xfe')", r"< <(printf 'a\tb')"])
def test_an_invalid_key_is_a_usage_error(source: str, keyless: Ask, home: Home) -> None:
    result = keyless.shell(f"ask keys set openrouter {source}")
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr.startswith("ask: ")
    assert result.stderr.count("\n") == 1
    assert kept(home) == {}


def test_the_environment_overrides_a_saved_key(keyless: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    keyless("keys", "set", "openrouter", stdin=KEY.encode())
    path = f"{keyless.env['XDG_CONFIG_HOME']}/ask/keys.toml"
    assert keyless("keys", "list").text == f"openrouter\t{path}\n"
    for variable in ("OPENROUTER_API_KEY", "AI_OPENROUTER_API_KEY"):
        assert keyless("hi", env={variable: "sk-environment"}).code == 0
        assert server.requests[-1].headers["Authorization"] == "Bearer sk-environment"
        assert keyless("keys", "list", env={variable: "sk-environment"}).text == f"openrouter\t{variable}\n"


def test_keys_are_listed_with_their_source(keyless: Ask, home: Home) -> None:
    home.config.mkdir()
    path = home.config / "keys.toml"
    path.write_text(f'stranger = "{KEY}"\n')
    env = {"OPENROUTER_API_KEY": f"{KEY}-2"}
    rows = [{"provider": "openrouter", "from": "OPENROUTER_API_KEY"}, {"provider": "stranger", "from": str(path)}]
    assert json.loads(keyless("keys", "list", "--json", env=env).stdout) == rows
    assert json.loads(keyless("keys", "--json", env=env).stdout) == rows
    assert keyless("keys", env=env).text == keyless("keys", "list", env=env).text
    shown = keyless.on_terminal("keys", "list", env=env).text
    assert shown.startswith("PROVIDER    FROM\nopenrouter  OPENROUTER_API_KEY\nstranger    /")


def test_removed_keys_are_no_longer_used(keyless: Ask, home: Home) -> None:
    keyless("keys", "set", "openrouter", stdin=KEY.encode())
    assert "openrouter" in keyless("keys", "remove", "openrouter").stderr
    assert kept(home) == {}
    again = keyless("keys", "remove", "openrouter")
    assert (again.code, again.stderr.count("\n")) == (4, 1)
    assert keyless("--base-url", "https://api.invalid", "hi").code == 4


def test_concurrently_set_keys_are_all_saved(keyless: Ask, home: Home) -> None:
    providers = ("anthropic", "brave", "openai", "openrouter", "xai")
    commands = " ".join(f"echo key-of-{name} | ask keys set {name} &" for name in providers)
    keyless.shell(f"{commands} wait", timeout=120)
    assert kept(home) == {name: f"key-of-{name}" for name in providers}


def test_a_symlinked_key_file_stays_a_symlink(keyless: Ask, home: Home) -> None:
    home.config.mkdir()
    link, target = home.config / "keys.toml", home.work / "dotfiles.toml"
    target.write_text('other = "kept"\n')
    target.chmod(0o644)
    link.symlink_to(target)
    assert keyless("keys", "set", "openrouter", stdin=KEY.encode()).code == 0
    assert keyless("keys", "remove", "other").code == 0
    assert link.readlink() == target
    assert tomllib.loads(target.read_text()) == {"openrouter": KEY}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_an_unknown_provider_is_an_error_with_a_suggestion(keyless: Ask, home: Home) -> None:
    result = keyless("keys", "set", "opnrouter", stdin=KEY.encode())
    assert result.code == 4
    assert "'opnrouter'" in result.stderr
    assert "did you mean openrouter?" in result.stderr
    assert kept(home) == {}


@pytest.mark.parametrize("arguments", [["sett", "x"], ["set"], ["set", "a", "b"], ["list", "all"], ["remove"]])
def test_invalid_arguments_are_a_usage_error(arguments: list[str], keyless: Ask) -> None:
    result = keyless("keys", *arguments)
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert "--help" in result.stderr


def test_an_unusable_key_file_is_a_one_line_error(keyless: Ask, home: Home) -> None:
    home.config.mkdir()
    path = home.config / "keys.toml"
    for content in ("openrouter = ", "openrouter = 1", "\xff"):
        path.write_text(content, encoding="latin-1")
        for arguments in (["keys", "list"], ["keys", "set", "openrouter"], ["hi"]):
            result = keyless(*arguments, stdin=KEY.encode())
            assert (result.code, result.stderr.count("\n")) == (4, 1)
            assert str(path) in result.stderr
    result = keyless("keys", "set", "openrouter", stdin=KEY.encode(), env={"XDG_CONFIG_HOME": "/proc/none"})
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert KEY not in result.stderr


def test_keys_are_in_no_output_log_or_history(keyless: Ask, home: Home, server: ModelServer) -> None:
    keyless("keys", "set", "openrouter", stdin=KEY.encode())
    path = home.config / "keys.toml"
    command = {"command": f"env; cat {path}; echo {KEY}"}
    server.reply(wire.calls(("bash", command)), wire.fails(401, f"{KEY} is bad"))
    for flag in ("-v", "--json", "--events"):
        result = keyless(flag, "hi")
        assert result.code == 6
        text = result.text + result.stderr
        assert KEY not in text.replace(f"echo {KEY}", "").replace(f'echo {KEY}\\"', "")
    assert KEY not in wire.asked(server.requests[1].json)
    assert KEY not in (home.data / "audit.jsonl").read_text()
