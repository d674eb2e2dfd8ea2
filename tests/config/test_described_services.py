"""What a table `[providers.NAME]` can describe: the API, headers, several base URLs, and a key that expires."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ask.agent.provider_selection import ModelSelection, resolve_endpoint, resolve_fallbacks
from ask.app import AppContext
from ask.errors import ConfigError
from tests import wire
from tests.doc_pages import find_code_blocks
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home
from tests.providers import anthropic_wire, gemini_wire
from tests.recordings import Recording, recordings
from tests.slow_parameters import mark_others_slow

NONE = {"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def describe(home: Home, base_url: str | list[str], **values: Any) -> None:
    """Write config.toml with the provider `mine`."""
    table = {"base_url": base_url} | values
    lines = [f"{name} = {format_toml(value)}" for name, value in table.items()]
    home.configure("\n".join(["[providers.mine]", *lines]))


def format_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{name}" = {json.dumps(item)}' for name, item in value.items()) + "}"
    return json.dumps(value)


def root(server: ModelServer) -> str:
    return server.base_url.removesuffix("/api/v1")


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


# Anthropic's API


def test_a_service_with_the_messages_api_has_tools_thinking_and_files(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    describe(home, root(server), api="messages", key_env="MINE", model="other-1")
    (home.work / "one.png").write_bytes(PIXEL)
    server.reply(
        anthropic_wire.streams(
            anthropic_wire.begins(),
            anthropic_wire.thinking(0, "Two files.", signature=""),
            anthropic_wire.call(1, "bash", '{"command": "echo first"}'),
            anthropic_wire.call(2, "bash", '{"command": "echo second"}'),
            anthropic_wire.ends("tool_use"),
        ),
        anthropic_wire.says("Done."),
    )
    answered = ask("-p", "mine", "--yes", "-f", "one.png", "look", env=NONE | {"MINE": TEST_KEY})
    assert (answered.code, answered.stdout) == (0, b"Done.\n"), answered.stderr
    first, second = server.requests
    assert first.path == "/v1/messages"
    assert (first.headers["x-api-key"], first.headers["Authorization"]) == (TEST_KEY, None)
    assert [block["type"] for block in first.json["messages"][0]["content"]] == ["image", "text"]
    assert "cache_control" not in first.body.decode() + second.body.decode()
    assert second.json["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Two files.", "signature": ""}
    results = [block for block in second.json["messages"][2]["content"] if block["type"] == "tool_result"]
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2"]
    for request in server.requests:
        assert anthropic_wire.read_by_anthropic(request.json) == request.json


def test_claude_at_another_host_gets_cache_markers_but_no_fields_of_anthropic_alone(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    describe(home, root(server), api="messages", key_env="MINE", key_header="Authorization")
    server.reply(anthropic_wire.says("Hello."))
    assert ask("-m", "mine:claude-sonnet-5-5", "hi", env={"MINE": TEST_KEY}).code == 0
    (request,) = server.requests
    assert (request.headers["x-api-key"], request.headers["Authorization"]) == (None, f"Bearer {TEST_KEY}")
    assert "cache_control" in request.body.decode()
    assert "block_binding" not in request.body.decode()
    assert "anthropic-beta" not in request.headers


def test_what_a_server_with_the_messages_api_refuses_is_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, root(server), api="messages", model="claude-sonnet-4-5")

    def refuse(message: str) -> Reply:
        return Reply((json.dumps(anthropic_wire.error("invalid_request_error", message)).encode(),), status=400)

    server.reply(
        refuse("system.0.cache_control: Extra inputs are not permitted"),
        refuse("output_config: Extra inputs are not permitted"),
        anthropic_wire.says('{"name": "Ada"}'),
    )
    answered = ask("-p", "mine", "--schema", "name", "who?", env=NONE)
    assert (answered.code, json.loads(answered.stdout)) == (0, {"name": "Ada"}), answered.stderr
    *_, last = server.requests
    assert "cache_control" not in last.body.decode()
    assert "output_config" not in last.json


def test_models_and_errors_of_a_service_with_the_messages_api(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, f"{root(server)}/anthropic/v1/messages", api="messages")  # as people copy it
    models = {"data": [{"id": "other-1", "display_name": "Other"}], "has_more": False}
    error = anthropic_wire.error("authentication_error", "login fail")
    server.reply(Reply((json.dumps(models).encode(),)), Reply((json.dumps(error).encode(),), status=401))
    assert [row["id"] for row in json.loads(ask("models", "-p", "mine", "--json").stdout)] == ["other-1"]
    failed = ask("-m", "mine:other-1", "hi", env=NONE)
    assert (failed.code, "login fail" in failed.stderr, "claude.com" in failed.stderr) == (6, True, False)
    assert [request.path.partition("?")[0] for request in server.requests] == [
        "/anthropic/v1/models",
        "/anthropic/v1/messages",
    ]


@pytest.mark.parametrize("api", ["messages", "gemini"])
def test_a_batch_needs_the_service_of_the_apis_vendor(api: str, ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, root(server), api=api, model="x")
    refused = ask("map", "--batch", "say {it}", stdin=b'{"it": "a"}\n', env=NONE)
    assert (refused.code, server.requests) == (2, []), refused.stderr
    assert "mine" in refused.stderr


RECORDED = [
    recording
    for provider in ("anthropic", "gemini")
    for recording in recordings(provider)
    if recording.outcome == "ok" and recording.text and not recording.calls
]


@pytest.mark.parametrize("recording", mark_others_slow(RECORDED), ids=str)
def test_recorded_answers_are_read(recording: Recording, ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, root(server), api="messages" if recording.wire == "anthropic" else "gemini")
    server.reply(Reply((recording.body,), content_type=recording.content_type))
    options = [] if recording.streaming else ["--no-stream"]
    answered = ask("-m", f"mine:{recording.model or 'x'}", *options, "hi", env=NONE)
    assert (answered.code, answered.text.strip()) == (0, recording.text.strip()), answered.stderr


# Gemini's API


def test_a_service_with_the_gemini_api_calls_tools(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, f"{root(server)}/google", api="gemini", key_env="MINE", model="gemini-3-pro-preview")
    call = gemini_wire.call("bash", signature="c2ln", command="echo first")
    server.reply(
        gemini_wire.streamed(*gemini_wire.chunks(call)),
        gemini_wire.streamed(*gemini_wire.chunks(gemini_wire.text("Done."))),
    )
    answered = ask("-p", "mine", "--yes", "look", env=NONE | {"MINE": TEST_KEY})
    assert (answered.code, answered.stdout) == (0, b"Done.\n"), answered.stderr
    for request in server.requests:
        assert request.path == "/google/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"
        assert request.headers["x-goog-api-key"] == TEST_KEY
        gemini_wire.read_by_google(request.json)
    assert server.requests[1].json["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_vertex_has_the_api_below_the_project(ask: Ask, server: ModelServer) -> None:
    project = f"{root(server)}/v1/projects/mine/locations/global/publishers/google"
    env = NONE | {"VERTEX_BASE_URL": project, "VERTEX_ACCESS_TOKEN": TEST_KEY}
    names = ["publishers/google/models/gemini-4-argon", "publishers/google/models/imagen-4"]
    models = {"publisherModels": [{"name": name, "versionId": "default"} for name in names]}
    server.reply(
        Reply((json.dumps(models).encode(),)), gemini_wire.streamed(*gemini_wire.chunks(gemini_wire.text("Hello.")))
    )
    assert [row["id"] for row in json.loads(ask("models", "-p", "vertex", "--json", env=env).stdout)] == [
        "gemini-4-argon"
    ]
    answered = ask("-m", "vertex:gemini-4-argon", "hi", env=env)
    assert (answered.code, answered.stdout) == (0, b"Hello.\n"), answered.stderr
    listed, asked = server.requests
    assert listed.path.partition("?")[0] == "/v1beta1/publishers/google/models"
    assert asked.path.startswith(f"/{project.partition('/v1/')[1].strip('/')}/projects/mine/locations/global/")
    assert asked.path.endswith("/publishers/google/models/gemini-4-argon:streamGenerateContent?alt=sse")
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {TEST_KEY}"] * 2


# Headers


def test_headers_are_sent_and_their_secrets_are_redacted(ask: Ask, home: Home, server: ModelServer) -> None:
    secret, literal = "gw-9f8e7d6c5b4a39281706", "cred-0011223344556677"
    headers = {"X-Gateway-Token": "Bearer ${GATE}", "Cookie": literal, "X-Team": "blue team", "user-agent": "mine/1"}
    describe(home, server.base_url, model="x", headers=headers)
    server.reply(wire.calls(("bash", {"command": "echo gate=$GATE"})), wire.says(f"It is {secret}."))
    answered = ask("-p", "mine", "--yes", f"{secret} {literal} blue team", env=NONE | {"GATE": secret})
    assert answered.code == 0, answered.stderr
    for request in server.requests:
        assert request.headers["X-Gateway-Token"] == f"Bearer {secret}"
        assert (request.headers["Cookie"], request.headers["X-Team"]) == (literal, "blue team")
        assert request.headers.get_all("User-Agent") == ["mine/1"]
        assert not {secret, literal} & {*re.findall(r"[\w-]+", request.body.decode())}
    assert "blue team" in wire.asked(server.requests[0].json)
    assert server.requests[1].json["messages"][-1]["content"].strip().endswith("gate=")
    printed = ask("map", "-p", "mine", "--dry-run", f"{secret} {literal}", stdin=b"a\n", env=NONE | {"GATE": secret})
    assert printed.code == 0, printed.stderr
    listed = ask("config", "list", env=NONE | {"GATE": secret})
    saved = b"".join(file.read_bytes() for file in home.data.rglob("*") if file.is_file())
    for text in (answered.text, printed.text, printed.stderr, listed.text, saved.decode(errors="replace")):
        assert secret not in text
        assert literal not in text
    assert "X-Team" in listed.text


@pytest.mark.parametrize(
    ("header", "value"),
    [("Cookie", "team=blue; sid=${GATE}"), ("Authorization", "Key me:${GATE}"), ("x-protection-bypass", "${GATE}")],
)
def test_a_variable_in_a_header_s_secret_is_one_itself(
    ask: Ask, home: Home, server: ModelServer, header: str, value: str
) -> None:
    secret = "gw-9f8e7d6c5b4a39281706"
    describe(home, server.base_url, model="x", headers={header: value})
    server.reply(wire.fails(400, f"{secret} is not valid"))
    failed = ask("-p", "mine", "hi", env=NONE | {"GATE": secret})
    assert server.requests[0].headers[header] == value.replace("${GATE}", secret)
    assert (failed.code, secret in failed.stderr) == (6, False)


def test_headers_that_cannot_be_sent_are_named(ask: Ask, home: Home, server: ModelServer) -> None:
    for headers, expected in (
        ({"X-Token": "${GATE}"}, "GATE, which is not set"),
        ({"X-Token": "a\nb"}, "X-Token"),
        ({"X Token": "a"}, "X Token"),
    ):
        describe(home, server.base_url, headers=headers)
        failed = ask("-m", "mine:x", "hi", env=NONE | {"GATE": ""})
        assert (failed.code, expected in failed.stderr) == (4, True), failed.stderr
    describe(home, server.base_url, headers={"X-Token": ["hidden-0123456789"]})
    failed = ask("-m", "mine:x", "hi", env=NONE)
    assert (failed.code, "hidden" in failed.stderr, server.requests) == (4, False, [])


def test_a_recording_has_no_headers_and_needs_none(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, server.base_url, model="x", headers={"X-Token": "${GATE}"})
    server.reply(wire.says("Hello."))
    env = NONE | {"GATE": "gw-9f8e7d6c5b4a39281706"}
    assert ask("-p", "mine", "--record", "run.jsonl", "hi", env=env).code == 0
    assert "gw-9f8e7d6c5b4a39281706" not in (home.work / "run.jsonl").read_text()
    replayed = ask("-p", "mine", "hi", env=NONE | {"ASK_REPLAY": str(home.work / "run.jsonl"), "GATE": ""})
    assert (replayed.code, replayed.stdout) == (0, b"Hello.\n"), replayed.stderr


def test_headers_of_an_invalid_table_remain_secrets(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, server.base_url, api="other", headers={"X-Token": "${GATE}"})
    server.reply(wire.calls(("bash", {"command": "echo gate=$GATE"})), wire.says("Done."))
    assert ask("--yes", "run it", env={"GATE": "gw-9f8e7d6c5b4a39281706"}).code == 0
    assert "gate=" in server.requests[1].body.decode()
    assert "gw-9f8e7d6c5b4a39281706" not in server.requests[1].body.decode()


def test_headers_are_set_one_by_one_and_also_sent_by_builtin_providers(ask: Ask, server: ModelServer) -> None:
    assert ask("config", "set", "providers.openrouter.headers.X-Team", "blue").code == 0
    assert ask("config", "get", "providers.openrouter.headers").text == '{"X-Team": "blue"}\n'
    server.reply(wire.says("Hello."))
    assert ask("hi").code == 0
    assert server.requests[0].headers["X-Team"] == "blue"
    assert server.requests[0].headers["Authorization"] == f"Bearer {TEST_KEY}"
    server.reply(Reply((json.dumps({"data": [{"id": "x"}]}).encode(),)))
    assert ask("models").code == 0
    assert server.requests[1].headers["X-Team"] == "blue"


# Several base URLs


def test_the_first_server_that_can_be_reached_is_asked(ask: Ask, home: Home, server: ModelServer) -> None:
    closed = f"http://127.0.0.1:{closed_port()}/v1"
    describe(home, [closed, server.base_url], model="x")
    server.reply(wire.says("Hello."))
    answered = ask("-p", "mine", "hi", env=NONE)
    assert (answered.code, answered.stdout) == (0, b"Hello.\n"), answered.stderr
    assert closed.removesuffix("/v1") in answered.stderr
    server.reply(Reply((json.dumps({"data": [{"id": "x"}]}).encode(),)))
    assert ask("models", "-p", "mine", "--json").code == 0
    (row,) = [row for row in json.loads(ask("providers", "--json").stdout) if row["name"] == "mine"]
    assert row["base_url"] == closed
    checks = {check["check"]: check for check in json.loads(ask("doctor", "--json", env=NONE).stdout)}
    assert checks["mine"]["state"] == "warning"
    assert closed.removesuffix("/v1") in checks["mine"]["found"]
    describe(home, [closed, f"http://127.0.0.1:{closed_port()}/v1"], model="x")
    assert ask("-p", "mine", "hi", env=NONE).code == 5
    describe(home, [])
    assert "empty" in ask("-p", "mine", "-m", "x", "hi", env=NONE).stderr


def test_a_failing_server_is_not_asked_again_at_once(ask: Ask, home: Home, server: ModelServer) -> None:
    """https://github.com/BerriAI/litellm/issues/7619"""
    with ModelServer() as other:
        describe(home, [other.base_url, server.base_url], model="x")
        other.reply(wire.fails(503))
        server.reply(wire.says("Hello."))
        (home.config / "config.toml").open("a").write("\n[network]\nbackoff = 0.01\n")
        answered = ask("-p", "mine", "hi", env=NONE)
        assert (answered.code, answered.stdout, len(other.requests)) == (0, b"Hello.\n", 1), answered.stderr


def test_a_fallback_of_the_same_service_has_its_servers(home: Home) -> None:
    describe(home, ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"], headers={"X-Team": "blue"})
    app = AppContext(home.env)
    endpoint = resolve_endpoint(app, ModelSelection("mine", "x"))
    (fallback,) = resolve_fallbacks(app, ["y"], endpoint)
    assert (fallback.model, fallback.base_urls, fallback.headers) == ("y", endpoint.base_urls, {"X-Team": "blue"})


def test_lists_of_settings_and_providers_show_no_password(ask: Ask, home: Home) -> None:
    urls = ["https://me:pa55w0rd@gpu1.test/v1", "https://me:pa55w0rd@gpu2.test/v1"]
    for value in (urls, urls[0]):
        describe(home, value, model="x")
        for command in (["config", "list"], ["config", "list", "--json"], ["providers", "--json"]):
            shown = ask(*command, env=NONE)
            assert (shown.code, "gpu1.test" in shown.text, "pa55w0rd" in shown.text) == (0, True, False)


def test_an_option_replaces_all_base_urls(ask: Ask, home: Home, server: ModelServer) -> None:
    describe(home, [server.base_url, server.base_url], model="x")
    failed = ask("-p", "mine", "--base-url", f"http://127.0.0.1:{closed_port()}/v1", "hi", env=NONE)
    assert (failed.code, server.requests) == (5, [])


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "not a url", ""])
def test_each_base_url_is_checked_before_anything_is_sent(ask: Ask, home: Home, server: ModelServer, url: str) -> None:
    describe(home, [server.base_url, url], model="x")
    failed = ask("-p", "mine", "hi", env=NONE)
    assert (failed.code, server.requests) == (4, [])
    assert repr(url) in failed.stderr
    assert "base_url in [providers.mine]" in failed.stderr


def test_map_shares_the_rows_among_the_servers(ask: Ask, home: Home, server: ModelServer) -> None:
    rows = "".join(f'{{"it": {number}}}\n' for number in range(12)).encode()
    with ModelServer() as other:
        describe(home, [server.base_url, other.base_url], model="x")
        for one in (server, other):
            one.reply(*(wire.says("yes", whole=True) for _ in range(12)))
        mapped = ask("map", "-p", "mine", "say {it}", "-j", "4", stdin=rows, env=NONE)
        assert mapped.code == 0, mapped.stderr
        assert len(server.requests) + len(other.requests) == 12
        assert min(len(server.requests), len(other.requests)) >= 2
    describe(home, [f"http://127.0.0.1:{closed_port()}/v1", server.base_url], model="x")
    server.reply(*(wire.says("yes", whole=True) for _ in range(12)))
    mapped = ask("map", "-p", "mine", "repeat {it}", "-j", "4", stdin=rows, env=NONE)
    assert (mapped.code, mapped.stdout.count(b"yes")) == (0, 12), mapped.stderr


@pytest.mark.slow
def test_a_row_with_tools_uses_the_next_server_if_one_cannot_be_reached(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    describe(home, [f"http://127.0.0.1:{closed_port()}/v1", server.base_url], model="x")
    server.reply(wire.says("yes"), wire.says("yes"))
    (home.work / "rows.jsonl").write_text('{"it": 1}\n{"it": 2}\n')
    mapped = ask.process("map", "-p", "mine", "--tools", "say {{it}}", "rows.jsonl", "-j", "1", env=NONE, timeout=60)
    assert (mapped.code, mapped.stdout.count(b"yes")) == (0, 2), mapped.stderr


# Keys that expire


def write_key_command(home: Home, *keys: str) -> str:
    """Return a command that prints these keys in turn, and then the last; `count` has a line for each time it ran."""
    (home.path / "keys").write_text("\n".join(keys) + "\n")
    count = home.path / "count"
    return f"echo >> {count}; sed -n $(wc -l < {count})p {home.path}/keys | grep . || tail -n 1 {home.path}/keys"


def count_runs(home: Home) -> int:
    return (home.path / "count").read_text().count("\n")


def by_key(*valid: str) -> Any:
    """Return a script that accepts only these keys."""

    def answer(request: Any) -> Reply:
        key = request.headers["Authorization"].removeprefix("Bearer ")
        return wire.says("Hello.", whole=b'"stream":true' not in request.body) if key in valid else wire.fails(401)

    return answer


def test_a_key_command_runs_again_once_after_a_401(ask: Ask, home: Home, server: ModelServer) -> None:
    old, new = "ya29.token-one-0123456789", "ya29.token-two-0123456789"
    describe(home, server.base_url, model="x", key_command=write_key_command(home, old, new))
    server.reply(wire.fails(401, f"token {old} expired"), wire.says(f"Hello {new}."))
    answered = ask("-p", "mine", "hi", env=NONE)
    assert (answered.code, answered.stdout) == (0, b"Hello [key removed].\n"), answered.stderr
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {old}", f"Bearer {new}"]
    assert count_runs(home) == 2
    assert old not in answered.stderr
    server.reply(wire.fails(401), wire.fails(401))
    assert ask("-p", "mine", "hi", env=NONE).code == 6
    assert count_runs(home) == 4
    assert len(server.requests) == 3, "the command still printed the rejected key"


def test_a_403_counts_only_if_the_token_has_expired(ask: Ask, home: Home, server: ModelServer) -> None:
    """Bedrock's wording: https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html"""
    describe(home, server.base_url, model="x", key_command=write_key_command(home, "one-0123456789", "two-0123456789"))
    expired = Reply((json.dumps({"Message": "Bearer Token has expired"}).encode(),), status=403)
    server.reply(expired, wire.says("Hello."), wire.fails(403, "not allowed"))
    assert ask("-p", "mine", "hi", env=NONE).code == 0
    assert ask("-p", "mine", "hi", env=NONE).code == 6
    assert (len(server.requests), count_runs(home)) == (3, 3)


def test_the_token_of_a_key_command_is_kept_for_the_run(ask: Ask, home: Home, server: ModelServer) -> None:
    rows = "".join(f'{{"it": {number}}}\n' for number in range(8)).encode()
    describe(
        home, server.base_url, model="x", key_command=write_key_command(home, "first-0123456789", "second-01234567")
    )
    server.reply(*[by_key("second-01234567")] * 20)
    mapped = ask("map", "-p", "mine", "say {it}", "-j", "3", stdin=rows, env=NONE)
    assert (mapped.code, mapped.stdout.count(b"Hello.")) == (0, 8), mapped.stderr
    assert count_runs(home) == 2


@pytest.mark.slow
def test_a_row_with_tools_gets_a_new_key_when_that_of_the_job_has_expired(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    old, new = "first-0123456789", "second-01234567"
    describe(home, server.base_url, model="x", key_command=write_key_command(home, old, new))
    server.reply(*[by_key(new)] * 8)
    (home.work / "rows.jsonl").write_text('{"it": 1}\n{"it": 2}\n')
    mapped = ask.process("map", "-p", "mine", "--tools", "say {{it}}", "rows.jsonl", "-j", "1", env=NONE, timeout=60)
    assert (mapped.code, mapped.stdout.count(b"Hello.")) == (0, 2), mapped.stderr
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {old}", f"Bearer {new}"] * 2


# The setting `api` and the vendors' own URLs


def test_a_provider_with_an_api_of_its_own_cannot_get_another(ask: Ask, home: Home) -> None:
    for name, values, expected in (
        ("anthropic", 'api = "chat"', "does not use one of OpenAI's APIs"),
        ("openai", 'api = "messages"', "responses or chat"),
        ("openai", 'key_header = "x"', "key_header"),
        ("mine", 'base_url = "http://localhost/v1"\nkey_header = "Api Key"', "Api Key"),
        ("mine", 'base_url = "http://localhost/v1"\napi = "other"', "api"),
    ):
        home.configure(f"[providers.{name}]\n{values}\n")
        failed = ask("-p", name, "-m", "x", "hi", env={f"{name.upper()}_API_KEY": TEST_KEY})
        assert (failed.code, expected in failed.stderr) == (4, True), failed.stderr


@pytest.mark.parametrize(
    ("base_url", "is_own"),
    [
        ("https://${NAME}.openai.azure.com/openai/v1", True),
        ("https://api.openai.com/v1", True),
        ("https://openai.azure.com.evil.test/v1", False),
        ("https://notopenai.azure.com/v1", False),
        ("https://gateway.test/v1", False),
        (["https://api.openai.com/v1", "https://eu.api.openai.com/v1"], True),
        (["https://api.openai.com/v1", "https://gateway.test/v1"], False),
    ],
)
def test_only_the_vendors_own_url_gets_its_own_fields(base_url: str | list[str], is_own: bool, home: Home) -> None:
    describe(home, base_url, api="responses", key_env="MINE")
    app = AppContext({**home.env, "MINE": TEST_KEY, "NAME": "my-resource"})
    assert resolve_endpoint(app, ModelSelection("mine", "gpt-6-sol")).is_own_url is is_own


def test_azure_gets_the_cache_key_and_a_resource_cannot_change_the_host(home: Home) -> None:
    env = {**home.env, "AZURE_OPENAI_API_KEY": TEST_KEY}
    endpoint = resolve_endpoint(AppContext(env | {"AZURE_RESOURCE_NAME": "mine"}), ModelSelection("azure", "gpt-6-sol"))
    assert (endpoint.base_url, endpoint.is_own_url) == ("https://mine.openai.azure.com/openai/v1", True)
    for value in ("evil.test/", "evil.test#", "evil.test?", "me@evil.test", "evil\u3002test", "evil.test\\"):
        with pytest.raises(ConfigError, match="AZURE_RESOURCE_NAME is"):
            resolve_endpoint(AppContext(env | {"AZURE_RESOURCE_NAME": value}), ModelSelection("azure", "gpt-6-sol"))


def test_the_tables_on_the_page_about_services_are_valid(home: Home) -> None:
    gateway, several = find_code_blocks((Path(__file__).parents[2] / "docs" / "services.md").read_text(), "toml")
    home.configure(f"{gateway}\n{several}")
    app = AppContext({**home.env, "GATEWAY_KEY": TEST_KEY, "TENANT": "mine", "TENANT_SECRET": "s-0123456789"})
    assert not app.config.warnings
    endpoint = resolve_endpoint(app, ModelSelection("gateway"))
    assert (endpoint.base_url, endpoint.model) == ("https://llm.example.com/mine", "claude-sonnet-5-5")
    assert endpoint.headers == {"X-Tenant-Secret": "s-0123456789", "X-Team": "blue"}
    assert len(resolve_endpoint(app, ModelSelection("gpu", "x")).base_urls) == 2
