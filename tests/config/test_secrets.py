"""Secrets in the environment: commands get them, but they are never sent, shown or stored."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ask.config.redaction import REDACTED
from ask.config.secrets import is_secret
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home
from tests.saved_history import history_file, read_saved_runs

TOKEN = 'ghp_0123/456"789é\\'
ENVIRONMENT = {"GITHUB_TOKEN": TOKEN, "MAX_TOKENS": "40960000"}
PROMPT = "Run this? "


def encoded_forms() -> list[bytes]:
    """Return the secret as it is, and as JSON and SQLite may encode it."""
    texts = (TOKEN, json.dumps(TOKEN)[1:-1], json.dumps(TOKEN, ensure_ascii=False)[1:-1])
    return [text.encode() for text in (*texts, TEST_KEY, json.dumps(json.dumps(TOKEN)[1:-1])[1:-1])]


def check_absent(*contents: bytes) -> None:
    for content in contents:
        for form in encoded_forms():
            assert form not in content


def read_stored_files(home: Home) -> bytes:
    """Return everything that ask has read_stored_data except file backups, which must be exact."""
    with sqlite3.connect(history_file(home)) as database:
        dump = "\n".join(database.iterdump())
    backups = home.data / "originals"
    files = [path for path in home.data.rglob("*") if path.is_file() and backups not in path.parents]
    files = [path for path in files if "history.db" not in path.name]
    return dump.encode() + b"".join(path.read_bytes() for path in files)


def check_all(ask: Ask, server: ModelServer, home: Home, *shown: bytes) -> None:
    """Check that no secret was sent, shown or read_stored_data."""
    check_absent(read_stored_files(home), *shown, *(request.body for request in server.requests))


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "ghp_0123456789", True),
        ("my_secret_thing", "0123-4567-89", True),
        ("PGPASSWORD", "correct horse", True),
        ("STRIPE_KEY", "/+aGVsbG8gd29ybGQ", True),
        ("STRIPE_KEY", "/9j4/aGVsbG8gd29ybGQ=", True),
        ("STRIPE_KEY", "0x8f2a559490a2", True),
        ("KEYBOARD", "de-latin1-nodeadkeys", False),
        ("GITHUB_TOKEN", "short", False),
        ("MAX_TOKENS", "40960000", False),
        ("TOKEN_LIMIT", "1,000,000.5", False),
        ("SECRET_SCANNING", "disabled", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("SSH_KEY", "/etc/no-such-folder/id_ed25519", False),
        ("SSH_KEY", "~/keys/id_ed25519", False),
        ("SSH_KEY", "../keys/id_ed25519", False),
    ],
)
def test_secrets_are_recognized(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


def test_a_relative_path_is_not_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_secret("TLS_KEY", "server.pem")
    (tmp_path / "server.pem").touch()
    assert not is_secret("TLS_KEY", "server.pem")


@pytest.mark.parametrize("options", [(), ("--json",), ("--events",), ("-v",)])
def test_commands_get_the_secret_and_their_output_is_redacted(
    ask: Ask, server: ModelServer, home: Home, options: Sequence[str]
) -> None:
    in_pieces = 'printf %s "${GITHUB_TOKEN:0:5}"; sleep 0.1; printf %s "${GITHUB_TOKEN:5}"'
    commands = ['printf %s "$GITHUB_TOKEN" > got; env', in_pieces]
    server.reply(wire.calls(*(("bash", {"command": command}) for command in commands)), wire.says("Done."))
    result = ask(*options, "go", env=ENVIRONMENT)
    assert result.code == 0
    assert (home.work / "got").read_text() == TOKEN
    check_all(ask, server, home, result.stdout, result.stderr.encode())
    assert b"MAX_TOKENS=40960000" in server.requests[1].body


def test_the_key_of_a_search_engine_that_a_command_prints_is_redacted(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    home.configure("[providers.brave]\nkey_command = 'echo brave-0123456789'\n")
    server.reply(wire.calls(("bash", {"command": "echo brave-''0123456789"})), wire.says("It is brave-0123456789."))
    result = ask("-v", "go")
    assert result.code == 0, result.stderr
    assert b"search_web" in server.requests[0].body
    outputs = (result.stdout, result.stderr.encode(), read_stored_files(home), server.requests[1].body)
    assert not any(b"brave-0123456789" in output for output in outputs)


def test_a_secret_in_a_prompt_a_system_prompt_and_a_file_is_not_sent(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "notes").write_text(f"export GITHUB_TOKEN={TOKEN}\n")
    server.reply(wire.says("Done."))
    result = ask(
        "-f", "notes", "-s", f"use {TOKEN}", f"is {TOKEN} valid?", env=ENVIRONMENT, stdin=f"and {TOKEN}".encode()
    )
    assert result.code == 0
    check_all(ask, server, home, result.stdout, result.stderr.encode())
    assert server.requests[0].body.count(REDACTED.encode()) == 4
    assert ask("--resume", result.conversation, "and now?", env=ENVIRONMENT).code == 0
    check_all(ask, server, home)


@pytest.mark.parametrize(
    "env",
    [
        {"LMSTUDIO_API_KEY": "lm-studio"},
        {"OPENROUTER_API_KEY": "lm-studio"},  # which the test's server on this machine gets
        {"MY_KEY": "lm-studio", "OPENROUTER_API_KEY": TEST_KEY},
    ],
)
def test_the_placeholder_key_of_a_local_server_is_not_a_secret(
    ask: Ask, server: ModelServer, home: Home, env: dict[str, str]
) -> None:
    home.configure('[providers.mine]\nbase_url = "http://gpu:1/v1"\nkey_env = "MY_KEY"\n')
    server.reply(wire.says("lm-studio it is"))
    assert ask("what is lm-studio?", env=env).text == "lm-studio it is\n"
    assert "what is lm-studio?" in json.dumps(server.requests[0].json)


def test_a_word_that_is_the_password_in_a_local_base_url_is_not_a_secret(ask: Ask, server: ModelServer) -> None:
    base_url = server.base_url.replace("//", "//me:password@")
    server.reply(wire.says("the password"))
    assert ask("-m", "m", "which password?", env={"OPENROUTER_BASE_URL": base_url}).text == "the password\n"
    assert "which password?" in json.dumps(server.requests[0].json)


def test_the_passwords_in_the_base_urls_of_other_providers_are_secrets(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    home.configure('[providers.mine]\nbase_url = ["https://a:1", "https://me:xyz-12345@b"]\n')
    server.reply(wire.says("xyz-12345 and xyz-67890"))
    env = {"OPENAI_BASE_URL": "https://me:xyz-67890@c"}
    assert ask("hi", env=env).text == f"{REDACTED} and {REDACTED}\n"


def test_a_word_that_is_the_key_of_a_public_service_is_a_secret(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("placeholder and placeholders"))
    assert ask("hi", env={"DEEPSEEK_API_KEY": "placeholder"}).text == f"{REDACTED} and placeholders\n"


def test_a_secret_in_the_prompt_of_a_map_job_is_not_stored(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Done."))
    prompt = f"is {TOKEN} valid for {{{{line}}}}?"
    assert ask("map", prompt, "-", "--input-format", "lines", env=ENVIRONMENT, stdin=b"x\n").code == 0
    assert REDACTED in ask("map", "--list", env=ENVIRONMENT).text
    check_absent(*(path.read_bytes() for path in home.data.glob("map.db*")))
    assert ask("map", prompt, "-", "--input-format", "lines", env=ENVIRONMENT, stdin=b"x\n").code == 0
    assert len(server.requests) == 1, "the job is still found"


def secret_answer(kind: str) -> Reply:
    """Return an answer that contains the secrets, in chunks of one character."""
    characters = f"The token is {TOKEN}, the key {TEST_KEY}."
    piece = wire.text if kind == "text" else wire.reasoning
    chunks = [piece(character) for character in characters]
    return wire.streams(*chunks, *([] if kind == "text" else [wire.text("Done.")]), wire.finish())


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_rows_contain_no_secret(ask: Ask, server: ModelServer, home: Home, kind: str) -> None:
    error = wire.fails(400, f"Invalid: {TOKEN} {TEST_KEY}")
    server.reply(secret_answer(kind), wire.says(f"It is {TOKEN}, and {TEST_KEY}."), error)
    arguments = ["map", "-j", "1", "{{line}}", "-", "--input-format", "lines", "--columns", "all"]
    result = ask(*arguments, env=ENVIRONMENT, stdin=b"1\n2\n3\n")
    assert result.code == 12
    assert REDACTED in result.text
    stored = [path.read_bytes() for path in home.data.rglob("*") if path.is_file()]
    check_absent(result.stdout, result.stderr.encode(), *stored)


@pytest.mark.parametrize("kind", ["text", "reasoning"])
@pytest.mark.parametrize("options", [(), ("--json",), ("--events",), ("-v",), ("--no-stream",)])
def test_a_secret_split_between_chunks_is_redacted(
    ask: Ask, server: ModelServer, home: Home, kind: str, options: Sequence[str]
) -> None:
    server.reply(secret_answer(kind))
    result = ask(*options, "go", env=ENVIRONMENT)
    assert result.code == 0
    shown = result.stdout.decode() + (result.stderr if "-v" in options else "")
    if kind == "text" and "--events" not in options:
        assert f"The token is {REDACTED}, the key {REDACTED}." in shown
    check_all(ask, server, home, result.stdout, result.stderr.encode())
    assert REDACTED in repr(read_saved_runs(home))


@pytest.mark.slow
def test_redaction_does_not_delay_the_stream(ask: Ask, server: ModelServer) -> None:
    is_shown = threading.Event()
    server.reply(wire.streams(wire.text("a short answer gh"), is_shown, wire.text("p"), wire.finish()))
    with ask.start("go", env=ENVIRONMENT) as running:
        running.wait_for("a short answer ")
        is_shown.set()
        assert running.finish().text == "a short answer ghp\n"


def test_an_incomplete_answer_shows_no_secret(ask: Ask, server: ModelServer, home: Home) -> None:
    from tests.model_server import DROP

    server.reply(wire.streams(wire.text(f"It is {TOKEN[:7]}"), wire.text(TOKEN[7:]), DROP))
    result = ask("go", env=ENVIRONMENT)
    assert result.text == f"It is {REDACTED}\n"
    check_all(ask, server, home, result.stdout, result.stderr.encode())


@pytest.mark.parametrize("options", [(), ("--json",), ("--events",), ("-v",)])
def test_a_secret_in_a_call_reaches_only_the_tool(
    ask: Ask, server: ModelServer, home: Home, options: Sequence[str]
) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in TOKEN)
    server.reply(
        wire.calls(
            ("bash", {"command": f"printf %s '{TEST_KEY}' > key"}),
            ("write_file", '{"filepath": "token", "content": "' + escaped + '"}'),
            (TEST_KEY, {"word": 1}),
            ("bash", '{"command": "' + TEST_KEY),
            ("fetch_url", {"url": f"http://{TEST_KEY}.invalid/"}),
        ),
        wire.says("Done."),
    )
    result = ask(*options, "go", env=ENVIRONMENT)
    assert result.code == 0
    assert (home.work / "key").read_text() == TEST_KEY
    assert (home.work / "token").read_text() == TOKEN
    check_all(ask, server, home, result.stdout, result.stderr.encode())
    audited = [json.loads(line) for line in (home.data / "audit.jsonl").read_text().splitlines()]
    assert audited[2]["tool"] == REDACTED
    assert json.loads(audited[1]["arguments"]) == {"filepath": "token", "content": REDACTED}
    assert json.loads(read_saved_runs(home)[0].entries[1].message.tool_calls[1].arguments)["content"] == REDACTED


def test_a_secret_in_a_call_is_not_shown_for_approval(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "f").write_text(f"old {TEST_KEY}\n")
    server.reply(
        wire.calls(
            ("bash", {"command": f"printf %s '{TEST_KEY}' > key"}),
            ("write_file", {"filepath": "f", "content": f"new {TEST_KEY}\n"}),
        ),
        wire.says("Done."),
    )
    result = ask.on_terminal("--confirm", "go", env=ENVIRONMENT, answers=[(PROMPT, "y"), ("Make this change? ", "y")])
    assert result.code == 0
    assert (home.work / "key").read_text() == TEST_KEY
    assert f"+new {REDACTED}" in result.text
    check_all(ask, server, home, result.stdout.replace(b"\r\n> ", b""))


def test_structured_answers_contain_no_secret(ask: Ask, server: ModelServer, home: Home) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in TEST_KEY)
    for options in ((), ("--json",)):
        server.reply(wire.says('{"key": "' + escaped + '"}'))
        result = ask("--schema", "key", *options, "go", env=ENVIRONMENT)
        assert result.code == 0
        check_absent(result.stdout)
        assert REDACTED in result.text
