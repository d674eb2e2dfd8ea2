"""`ask keys`: keys are stored privately, used, and never printed."""

from __future__ import annotations

import json
import stat
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Home, run

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


def test_variables_that_a_vendor_names_are_listed_in_order_of_precedence(keyless: Ask, home: Home) -> None:
    def find_variable(*variables: str) -> dict[str, str]:
        result = keyless("keys", "--json", env={variable: f"{KEY}-{variable}" for variable in variables})
        assert (result.code, result.stderr) == (0, "")
        return {row["provider"]: row["from"] for row in json.loads(result.stdout)}

    assert find_variable("GOOGLE_API_KEY") == {"gemini": "GOOGLE_API_KEY"}
    assert find_variable("GOOGLE_API_KEY", "AI_GEMINI_API_KEY") == {"gemini": "GOOGLE_API_KEY"}
    assert find_variable("GOOGLE_API_KEY", "GEMINI_API_KEY") == {"gemini": "GEMINI_API_KEY"}
    assert find_variable("GROK_API_KEY") == {"xai": "GROK_API_KEY"}, "grok is another name of xai"
    home.configure('[providers.gemini]\nkey_env = "MINE"\n')
    assert find_variable("GOOGLE_API_KEY") == {}
    assert find_variable("GOOGLE_API_KEY", "MINE") == {"gemini": "MINE"}


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


@pytest.mark.slow
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


def test_a_key_as_an_argument_is_refused_without_repeating_it(keyless: Ask, home: Home) -> None:
    result = keyless("keys", "set", "openrouter", KEY)
    assert (result.code, result.stdout, result.stderr.count("\n"), kept(home)) == (2, b"", 1, {})
    assert KEY not in result.stderr
    assert "run ask keys set openrouter" in result.stderr
    for command in ("", "list", "remove openrouter"):
        result = keyless("keys", *command.split(), KEY)
        assert (result.code, "ask -- " in result.stderr) == (2, False)


@pytest.mark.parametrize("arguments", [["sett", "x"], ["set"], ["list", "all"], ["remove"]])
def test_invalid_arguments_are_a_usage_error(arguments: list[str], keyless: Ask) -> None:
    result = keyless("keys", *arguments)
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert "--help" in result.stderr


def test_an_unusable_key_file_is_a_one_line_error(keyless: Ask, home: Home) -> None:
    home.config.mkdir()
    path = home.config / "keys.toml"
    for content in ("openrouter = ", "\xff"):
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


# Key commands


def use_key_command(home: Home) -> Path:
    """Configure a key command; return the file to which it adds a line each time it runs."""
    runs = home.path / "runs"
    (home.path / "vault").write_text(f"#!/bin/sh\necho run >> {runs}\necho {KEY}\n")
    (home.path / "vault").chmod(0o755)
    home.configure(f"provider = 'openrouter'\n[providers.openrouter]\nkey_command = '{home.path}/vault show'\n")
    return runs


def test_a_key_command_is_run_once_for_a_run_and_its_key_is_redacted(
    keyless: Ask, home: Home, server: ModelServer
) -> None:
    runs = use_key_command(home)
    server.reply(wire.calls(("read_file", {"path": "notes"})), wire.says(f"It says {KEY}."))
    (home.work / "notes").write_text(f"key: {KEY}")
    result = keyless("--json", "hi", stdin=f"my key is {KEY}".encode())
    assert result.code == 0
    assert runs.read_text() == "run\n"
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {KEY}"] * 2
    sent = json.dumps([request.json for request in server.requests])
    stored = b"".join(path.read_bytes() for path in home.data.rglob("*") if path.is_file())
    assert KEY not in sent + result.text + result.stderr
    assert KEY.encode() not in stored


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-p", "demo", "hi"],
        ["--key", "sk-of-the-option", "hi"],
        ["keys", "list"],
        ["providers"],
        ["doctor", "--offline"],
        ["config", "list"],
        ["--complete", "ask", "-p", "op"],
        ["map", "--dry-run", "--no-tools", "x {{line}}", "rows.txt"],
    ],
)
def test_a_key_command_is_not_run_where_its_key_is_not_used(
    keyless: Ask, home: Home, server: ModelServer, arguments: list[str]
) -> None:
    runs = use_key_command(home)
    (home.work / "rows.txt").write_text("one\n")
    server.reply(wire.says("Hello."))
    keyless(*arguments)
    assert not runs.exists()


def test_the_environment_comes_before_the_key_command_and_that_before_a_saved_key(
    keyless: Ask, home: Home, server: ModelServer
) -> None:
    keyless("keys", "set", "openrouter", stdin=b"sk-saved-0123456789\n")
    use_key_command(home)
    server.reply(wire.says("1"), wire.says("2"), wire.says("3"))
    keyless("hi")
    keyless("hi", env={"OPENROUTER_API_KEY": "sk-env-0123456789"})
    keyless("--key", "sk-option-0123456789", "hi")
    keys = [request.headers["Authorization"].removeprefix("Bearer ") for request in server.requests]
    assert keys == [KEY, "sk-env-0123456789", "sk-option-0123456789"]


def test_a_failing_key_command_is_a_one_line_error(keyless: Ask, home: Home, server: ModelServer) -> None:
    home.configure("[providers.openrouter]\nkey_command = 'echo the vault is locked >&2; exit 9'")
    result = keyless("-p", "openrouter", "hi")
    assert (result.code, result.stderr.count("\n"), server.requests) == (4, 1, [])
    assert "exit code 9 (the vault is locked)" in result.stderr
    checks = {check["check"]: check for check in json.loads(keyless("doctor", "--json").stdout)}
    assert checks["openrouter"]["state"] == "problem"
    assert "the vault is locked" in checks["openrouter"]["found"]


def test_the_source_of_a_key_is_shown_without_the_key(keyless: Ask, home: Home) -> None:
    use_key_command(home)
    shown = [keyless("keys", "list"), keyless("providers"), keyless("doctor", "--offline")]
    assert all("key_command" in result.text and KEY not in result.text + result.stderr for result in shown)


def test_a_key_command_can_ask_for_a_passphrase_on_the_terminal(keyless: Ask, home: Home, server: ModelServer) -> None:
    command = "printf Passphrase: > /dev/tty; read p; echo sk-$p"
    home.configure(f"provider = 'openrouter'\n[providers.openrouter]\nkey_command = '{command}'")
    server.reply(wire.says("Hello."))
    result = keyless.on_terminal("hi", answers=[("Passphrase:", "opensesame\n")])
    assert "Hello." in result.text
    assert server.requests[0].headers["Authorization"] == "Bearer sk-opensesame"


def test_piped_input_is_not_read_by_the_key_command(keyless: Ask, home: Home, server: ModelServer) -> None:
    home.configure("provider = 'openrouter'\n[providers.openrouter]\nkey_command = 'cat; echo sk-0123456789'")
    server.reply(wire.says("Hello."))
    assert keyless("hi", stdin=b"from the pipe\n").text == "Hello.\n"
    assert "from the pipe" in json.dumps(server.requests[0].json)


# The keyring

KEYRING = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}


@pytest.mark.slow
def test_a_key_in_the_keyring_is_used_listed_and_removed(keyless: Ask, home: Home, server: ModelServer) -> None:
    saved = keyless("keys", "set", "--keyring", "openrouter", stdin=f"{KEY}\n".encode(), env=KEYRING)
    assert saved.code == 0
    assert kept(home) == {"openrouter": {"keyring": True}}
    assert b64encode(KEY.encode()) in (home.data.parent / "python_keyring" / "keyring_pass.cfg").read_bytes()
    server.reply(wire.says(f"Hello {KEY}."))
    shown = [
        keyless("hi", env=KEYRING),
        keyless("keys", "list"),  # without opening the keyring
        keyless("providers"),
        keyless("doctor", "--offline", env=KEYRING),
    ]
    assert [result.code for result in shown[:3]] == [0, 0, 0]
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert all("keyring" in result.text for result in shown[1:])
    assert not any(KEY in result.text + result.stderr for result in [saved, *shown])
    assert keyless("keys", "remove", "openrouter", env=KEYRING).code == 0
    assert kept(home) == {}
    assert b64encode(KEY.encode()) not in (home.data.parent / "python_keyring" / "keyring_pass.cfg").read_bytes()


@pytest.mark.slow
def test_saving_a_key_in_the_file_removes_it_from_the_keyring(keyless: Ask, home: Home) -> None:
    keyless("keys", "set", "groq-of-config", stdin=b"x\n", env=KEYRING)
    keyless("keys", "set", "--keyring", "openrouter", stdin=f"{KEY}\n".encode(), env=KEYRING)
    keyless("keys", "set", "openai", stdin=b"sk-file-0123456789\n", env=KEYRING)
    keyless("keys", "set", "openrouter", stdin=b"sk-other-0123456789\n", env=KEYRING)
    assert kept(home) == {"openai": "sk-file-0123456789", "openrouter": "sk-other-0123456789"}
    assert b64encode(KEY.encode()) not in (home.data.parent / "python_keyring" / "keyring_pass.cfg").read_bytes()


def test_a_keyring_that_does_not_work_is_a_one_line_error(keyless: Ask, home: Home) -> None:
    failing = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    result = keyless("keys", "set", "--keyring", "openrouter", stdin=b"sk-0123456789\n", env=failing)
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert kept(home) == {}


@pytest.mark.slow
def test_a_key_that_is_no_longer_in_the_keyring_is_an_error(keyless: Ask, home: Home) -> None:
    keyless("keys", "set", "--keyring", "openrouter", stdin=f"{KEY}\n".encode(), env=KEYRING)
    (home.data.parent / "python_keyring" / "keyring_pass.cfg").unlink()
    result = keyless("hi", env=KEYRING)
    assert result.code == 4
    assert "ask keys set --keyring openrouter" in result.stderr


def test_without_the_package_the_error_says_how_to_install_it(keyless: Ask, home: Home) -> None:
    command = [*make_command_without("keyring", home), "keys", "set", "--keyring", "openrouter"]
    result = run(command, env=home.env, cwd=home.work, stdin=b"sk-0123456789\n")
    assert result.code == 3
    assert "keyring" in result.stderr
