"""The table of services: the shape of each row, and a service in use from its key to its answer."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any
from urllib.parse import urlsplit

import pytest

from ask.app import AppContext
from ask.client.endpoint import CALL_ID_PATTERNS, load_provider
from ask.config.base_url import is_local_url
from ask.config.key_store import list_key_variables
from ask.config.secrets import VENDOR_NAMES
from ask.config.type_checks import check_value, parse_value
from ask.profiles import ModelProfile, find_pattern_problem
from providers.services import SERVICES
from tests import responses_wire, wire
from tests.config.service_samples import COMMON, PLAIN, REASON, SAMPLES, TEXT, chunk, stream, words
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home
from tests.providers import anthropic_wire
from tests.test_startup import observe
from tests.test_third_party_plugins import with_packages
from tests.third_party_plugins import install_provider

BUILTIN = ("anthropic", "deepseek", "demo", "gemini", "grok", "lmstudio", "moonshot", "ollama", "openai", "openrouter")
HINTS = {
    "title": str,
    "base_url": str,
    "key_env": tuple[str, ...],
    "page": str,
    "read": str,
    "api": str,
    "model": str,
    "is_local": bool,
    "call_id": str,
    "requests_usage": bool,
    "state_fields": tuple[str, ...],
    "attachments": tuple[str, ...],
    "key_header": str,
    "caches_all_models": bool,
    "models": tuple[Any, ...],
}
REQUIRED = {"title", "base_url", "page", "read"}


@pytest.mark.parametrize("name", SERVICES)
def test_each_row_has_the_right_shape_and_its_page(name: str) -> None:
    row = SERVICES[name]
    assert re.fullmatch("[a-z][a-z0-9-]*", name)
    assert name not in BUILTIN
    assert REQUIRED <= row.keys() <= HINTS.keys()
    for key, value in row.items():
        if key == "models":
            continue
        assert parse_value(list(value) if isinstance(value, tuple) else value, HINTS[key]) == value, key
    assert date.fromisoformat(row["read"]) <= date.today()
    assert urlsplit(row["page"]).scheme == "https"
    assert row["base_url"] == row["base_url"].rstrip("/")
    assert is_local_url(row["base_url"]) or row["base_url"].startswith("https://")
    assert ("key_env" in row) != is_local_url(row["base_url"])
    assert row.get("call_id", "") in CALL_ID_PATTERNS
    assert row.get("api", "responses") in ("responses", "messages", "gemini")
    for facts in row.get("models", ()):
        check_value(ModelProfile(**facts), ModelProfile)
        assert not find_pattern_problem(facts["pattern"])


@pytest.mark.parametrize("name", SERVICES)
def test_keys_of_services_are_kept_from_child_processes(name: str) -> None:
    """Also if the table was not read. Other variables, such as HF_TOKEN, are only kept back if the service is used."""
    withheld = {variable for vendor in VENDOR_NAMES for variable in list_key_variables(vendor)}
    assert set(list_key_variables(name)) <= withheld
    assert {one for one in SERVICES[name].get("key_env", ()) if one.endswith("_API_KEY")} <= withheld


def prefix(name: str) -> str:
    return name.upper().replace("-", "_")


def settings(name: str, server: ModelServer) -> dict[str, str]:
    """Return the environment of a user who has a key and whose service is at `server`."""
    row = SERVICES[name]
    keys = dict.fromkeys(row.get("key_env", ()), TEST_KEY)
    return keys | {f"{prefix(name)}_BASE_URL": f"{server.base_url}", "OPENROUTER_API_KEY": ""}


PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/v1/messages",
    "gemini": ":streamGenerateContent?alt=sse",
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_stream_and_an_error_of_each_service_are_read(name: str, ask: Ask, server: ModelServer) -> None:
    row, env = SERVICES[name], settings(name, server)
    server.reply(*SAMPLES[name])
    answered = ask("-p", name, "-m", "some/model", "--json", "hi", env=env)
    assert answered.code == 0, answered.stderr
    answer = json.loads(answered.stdout)
    assert (answer["text"], answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (TEXT, 9, 3)
    assert answer["reasoning"] in ("", "Hm.")
    assert "incomplete" not in answered.stderr
    assert server.requests[0].path.endswith(PATHS[row.get("api", "chat")])
    assert server.requests[0].headers.get("Authorization") == (f"Bearer {TEST_KEY}" if "key_env" in row else None)
    assert "x-api-key" not in server.requests[0].headers
    failed = ask("-p", name, "-m", "some/model", "hi", env=env)
    assert failed.code != 0
    assert REASON in failed.stderr
    assert not failed.stderr.count("{"), "the message of the error, not its JSON"


def test_each_service_has_samples_and_the_common_shape_is_declared() -> None:
    assert SAMPLES.keys() == SERVICES.keys()
    assert {name for name, (stream, _) in SAMPLES.items() if stream is PLAIN} == {*COMMON}


def test_what_minimax_documents_is_sent(ask: Ask, server: ModelServer) -> None:
    env = settings("minimax", server)
    server.reply(anthropic_wire.says("Hello."), anthropic_wire.says("Hello."))
    assert ask("-p", "minimax", "-o", "reasoning_effort=none", "hi", env=env).code == 0
    assert ask("-p", "minimax", "-o", "reasoning_effort=low", "hi", env=env).code == 0
    first, second = (request.json for request in server.requests)
    assert (first["model"], first["thinking"], second["thinking"]) == (
        "MiniMax-M3",
        {"type": "disabled"},
        {"type": "adaptive"},
    )
    assert first["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "output_config" not in second
    (pixel := ask.cwd / "one.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused = ask("-m", "minimax:MiniMax-M2.7", "-f", str(pixel), "hi", env=env)
    assert (refused.code, len(server.requests)) == (7, 2), refused.stderr


def test_what_mistral_refuses_is_not_sent(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "true"})), wire.says("done"), wire.says("done"))
    assert ask("-p", "openrouter", "use it", env={"ASK_SESSION": "one"}).code == 0
    assert ask("-c", "-p", "mistral", "hi", env=settings("mistral", server) | {"ASK_SESSION": "one"}).code == 0
    body = server.requests[-1].json
    assert "stream_options" not in body
    (call,) = [one for message in body["messages"] for one in message.get("tool_calls", ())]
    assert re.fullmatch("[a-zA-Z0-9]{9}", call["id"])
    assert call["id"] in {message.get("tool_call_id") for message in body["messages"]}


SIGNED_CALL = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "c2ln"},
    {"type": "reasoning.encrypted", "data": "ZGF0YQ=="},
]


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_a_service_wants_back_goes_back_with_the_calls(ask: Ask, server: ModelServer, is_whole: bool) -> None:
    """Gemini 3 refuses calls without their signature, which some services have in the call, others beside it."""
    ways: dict[str, tuple[Any, Any]] = {
        "vercel": ({"reasoning_details": DETAILS}, {}),
        "zai": ({"reasoning_content": "Hm."}, {}),
        "litellm": ({"reasoning_details": DETAILS[1:]}, SIGNED_CALL),
    }
    function = {"type": "function", "function": {"name": "nothing", "arguments": "{}"}}
    for name, (fields, call_fields) in ways.items():
        calls = [{"id": "call_0", **function} | call_fields, {"id": "call_1", **function}]
        fragments = [call | {"index": index} for index, call in enumerate(calls)]
        message = {"role": "assistant", "content": "Let me see.", "tool_calls": calls} | fields
        last = {"tool_calls": fragments} | fields
        streamed = stream(*words(), chunk(last, finish="tool_calls"), chunk() | {"choices": []})
        whole = wire.whole_reply(wire.answer("Let me see.", tool_calls=calls, **fields))
        server.reply(whole if is_whole else streamed, wire.says("Done.", whole=is_whole))
        options = ["-m", wire.MODEL, "--no-stream"] if is_whole else ["-m", "some/model"]
        assert ask("-p", name, *options, "hi", env=settings(name, server)).code == 0
        sent = server.requests[-1].json["messages"][-3]
        content = message["content"] if is_whole else TEXT
        assert sent == message | {"content": content}, name


# https://github.com/earendil-works/pi/pull/9443, https://github.com/ollama/ollama/pull/14568
@pytest.mark.parametrize("field", ["thoughtSignature", "thought_signature"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_signatures_go_back_in_the_field_of_the_service(
    ask: Ask, server: ModelServer, field: str, *, is_whole: bool
) -> None:
    function = {"type": "function", "function": {"name": "nothing", "arguments": "{}"}}
    calls = [{"id": "call_0", field: "c2ln", **function}, {"id": "call_1", **function}]
    first = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "nothing", "arguments": "{"}}
    # https://github.com/vertesia/llumiverse/pull/470: it comes later, or is followed by an empty one
    rest = [{"index": 0, field: "c2ln"}, {"index": 0, field: "", "function": {"arguments": "}"}}]
    fragments = [first, *rest, {"index": 1} | calls[1]]
    streamed = stream(*words(), chunk({"tool_calls": fragments}, finish="tool_calls"), chunk() | {"choices": []})
    server.reply(wire.whole_reply(wire.answer(TEXT, tool_calls=calls)) if is_whole else streamed)
    server.reply(wire.says("Done.", whole=is_whole))
    options = ["-m", wire.MODEL, "--no-stream"] if is_whole else ["-m", "some/model"]
    assert ask("-p", "litellm", *options, "hi", env=settings("litellm", server)).code == 0
    assert server.requests[-1].json["messages"][-3]["tool_calls"] == calls


@pytest.mark.parametrize(
    ("requested", "answered", "is_sent"),
    [
        ("gemini-3-pro", "google/gemini-3-pro-001", True),
        ("vertex_ai/gemini-3-pro", "gemini-3-pro-001", True),
        ("smart", "gemini-3-pro-001", True),
        ("google/gemini-3-pro", "google/gemini-3-pro-001", True),
        ("anthropic/claude-x", "google/gemini-3-pro", False),  # a fallback of the gateway
    ],
)
def test_a_gateway_may_name_models_in_two_ways(
    ask: Ask, server: ModelServer, requested: str, answered: str, *, is_sent: bool
) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "nothing", "arguments": "{}"}}
    delta = {"tool_calls": [call | SIGNED_CALL | {"index": 0}], "reasoning_details": DETAILS[1:]}
    server.reply(stream(chunk(delta, finish="tool_calls", model=answered)))
    server.reply(wire.says("Done."))
    assert ask("-p", "litellm", "-m", requested, "hi", env=settings("litellm", server)).code == 0
    sent = server.requests[-1].json["messages"][-2]
    assert ("reasoning_details" in sent, "extra_content" in sent["tool_calls"][0]) == (is_sent, is_sent)


def test_what_the_tools_of_groq_found_is_reported(ask: Ask, server: ModelServer) -> None:
    """A stream announces a call before it has the result: https://console.groq.com/docs/compound/built-in-tools"""
    source = {"title": "Bergen", "url": "https://yr.test/bergen", "content": "Rain.", "score": 0.9}
    search = {"index": 0, "type": "search", "arguments": '{"query": "rain"}'}
    found = search | {"output": "Title: Bergen\n", "search_results": {"results": [source]}}
    code = {"index": 1, "type": "python", "arguments": '{"code": "1 + 1"}', "output": "2"}
    others = [code, {"index": 2, "type": "wolfram", "output": None}]
    announced = search | {"search_results": {"results": []}}
    pieces = [chunk({"executed_tools": tools}) for tools in ([announced], [found], others)]
    server.reply(stream(*pieces, *words(), chunk(finish="stop")))
    server.reply(wire.whole_reply(wire.answer(TEXT, executed_tools=[found, *others[:1], "?"])))
    for options in ([], ["--no-stream"]):
        done = ask("-p", "groq", "-m", "groq/compound", *options, "--json", "hi", env=settings("groq", server))
        result = json.loads(done.stdout)
        calls = [(call["name"], call["arguments"], call["result"]) for call in result["server_calls"]]
        assert calls == [
            ("web_search", '{"query": "rain"}', "Title: Bergen\n"),
            ("code_execution", '{"code": "1 + 1"}', "2"),
        ]
        sources = [(citation["url"], citation["title"]) for citation in result["citations"]]
        assert (result["text"], sources) == (TEXT, [("https://yr.test/bergen", "Bergen")])


def test_an_error_in_the_middle_of_a_stream_of_groq_is_reported(ask: Ask, server: ModelServer) -> None:
    """`x_groq.error` says why a stream was stopped early: https://console.groq.com/docs/api-reference#chat-create"""
    first, *_ = words()
    server.reply(stream(first, chunk({"content": "Hello"}), chunk(x_groq={"id": "req_1", "error": "over capacity"})))
    failed = ask("-p", "groq", "hi", env=settings("groq", server))
    assert (failed.code != 0, "over capacity" in failed.stderr) == (True, True), failed.stderr


def test_what_perplexity_found_is_not_sent_back(ask: Ask, server: ModelServer) -> None:
    """Its SDK has messages, calls and their results as items of the input."""
    env = settings("perplexity", server) | {"ASK_SESSION": "one"}
    server.reply(SAMPLES["perplexity"][0], SAMPLES["perplexity"][0])
    assert ask("-p", "perplexity", "-m", "x", "hi", env=env).code == 0
    assert ask("-c", "again", env=env).code == 0
    assert {item.get("type", "message") for item in server.requests[1].json["input"]} == {"message"}


def test_a_key_is_saved_listed_and_used(ask: Ask, server: ModelServer) -> None:
    env = {"GROQ_BASE_URL": "https://api.groq.test/v1", "OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}
    assert ask("keys", "set", "groq", stdin=TEST_KEY.encode(), env=env).code == 0
    assert [row["provider"] for row in json.loads(ask("keys", "list", "--json", env=env).stdout)] == ["groq"]
    listed = {row["name"]: row for row in json.loads(ask("providers", "--json", env=env).stdout)}
    assert listed["groq"]["key"].endswith("keys.toml")
    assert listed["groq"]["from"] == "ask-gents"
    assert "mistral" not in listed
    everything = {row["name"] for row in json.loads(ask("providers", "--all", "--json", env=env).stdout)}
    assert SERVICES.keys() <= everything
    assert "groq" in ask("doctor", "--offline", env=env).text
    server.reply(wire.says("Hello."))
    env["GROQ_BASE_URL"] = server.base_url
    assert ask("-m", "groq:x", "hi", env=env).code == 0
    assert server.requests[-1].headers["Authorization"] == f"Bearer {TEST_KEY}"


def test_models_of_a_service_are_listed_with_their_prices(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((json.dumps({"data": [{"id": "mistral-medium-latest"}]}).encode(),)))
    (row,) = json.loads(ask("models", "-p", "mistral", "--json", env=settings("mistral", server)).stdout)
    assert row["id"] == "mistral-medium-latest"
    assert row["input_price"] > 0


def test_a_variable_in_a_base_url_is_named_if_it_is_missing_and_cannot_change_the_host(ask: Ask) -> None:
    env = {"CLOUDFLARE_API_KEY": TEST_KEY, "HTTPS_PROXY": "http://127.0.0.1:9", "CLOUDFLARE_ACCOUNT_ID": ""}
    missing = ask("-p", "cloudflare", "-m", "x", "hi", env=env)
    assert (missing.code, "CLOUDFLARE_ACCOUNT_ID, which is not set" in missing.stderr) == (4, True), missing.stderr
    for value in ("a/../b", "x@evil.test", "a b", "..", "evil.test/?"):
        refused = ask("-p", "cloudflare", "-m", "x", "hi", env=env | {"CLOUDFLARE_ACCOUNT_ID": value})
        assert (refused.code, "CLOUDFLARE_ACCOUNT_ID is" in refused.stderr) == (4, True), refused.stderr
    assert "CLOUDFLARE_ACCOUNT_ID, which is not set" in ask("doctor", "--offline", env=env).text


def test_variables_in_a_base_url_are_replaced(ask: Ask, home: Home, server: ModelServer) -> None:
    base_url = server.base_url.replace("/v1", "/${ACCOUNT}/v1")
    assert base_url != server.base_url
    home.configure(f'[providers.mine]\nbase_url = "{base_url}"\n')
    server.reply(wire.says("Hello."))
    assert ask("-p", "mine", "-m", "x", "hi", env={"ACCOUNT": "a-1"}).code == 0
    assert server.requests[-1].path.endswith("/a-1/v1/chat/completions")


def test_names_are_completed_and_suggested(ask: Ask) -> None:
    assert "mistral\t" in ask("--complete", "providers", "mis").text
    assert "did you mean mistral?" in ask("-p", "mistrall", "hi").stderr
    assert "did you mean openai?" in ask("-p", "OpenAI", "hi").stderr


def test_settings_change_what_they_name_of_a_row(home: Home) -> None:
    home.config.mkdir()
    file = home.config / "config.toml"
    file.write_text('[providers.mistral]\nmodel = "mine"\n')
    app = AppContext(home.env)
    assert load_provider(app, "mistral").info.base_url == SERVICES["mistral"]["base_url"]
    assert load_provider(app, "mistral").info.default_model == "mine"
    file.write_text('[providers.mistral]\nbase_url = "https://models.test/v1"\n')
    app = AppContext(home.env)
    info = load_provider(app, "mistral").info
    assert (info.base_url, info.key_env) == ("https://models.test/v1", SERVICES["mistral"]["key_env"])
    assert "mistral" not in app.services


def test_a_service_with_a_configured_address_keeps_its_api_and_key(ask: Ask, home: Home, server: ModelServer) -> None:
    """Requests to Azure went to Chat Completions, without a key."""
    home.configure(f'[providers.azure]\nbase_url = "{server.base_url}"\n')
    server.reply(responses_wire.says("Hello."))
    assert ask("-p", "azure", "-m", "deployment", "hi", env={"AZURE_OPENAI_API_KEY": TEST_KEY}).text == "Hello.\n"
    assert (server.requests[0].path, TEST_KEY in str(server.requests[0].headers)) == ("/api/v1/responses", True)


@pytest.mark.slow
def test_an_installed_provider_keeps_its_name(ask: Ask, home: Home, server: ModelServer) -> None:
    packages = install_provider(home.path / "packages", "mistral")
    ask = with_packages(ask, packages, MISTRAL_BASE_URL=server.base_url, MISTRAL_API_KEY=TEST_KEY)
    server.reply(wire.says("Hello."))
    assert ask("-p", "mistral", "hi").code == 0
    assert "stream_options" in server.requests[-1].json
    listed = {row["name"]: row["from"] for row in json.loads(ask("providers", "--all", "--json").stdout)}
    assert (listed["mistral"], listed["groq"]) == ("ask-mistral", "ask-gents")


def test_a_service_is_only_chosen_by_itself_for_a_key_of_its_own_name(ask: Ask, server: ModelServer) -> None:
    none = {"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}
    server.reply(wire.says("Hello."))
    assert ask("-m", "x", "hi", env=none | settings("groq", server)).code == 0
    assert ask("-m", "x", "hi", env=none | {"HF_TOKEN": TEST_KEY}).code == 4
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["huggingface", "openrouter"])
def test_the_key_of_the_service_in_use_is_kept_from_commands(name: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo key=$HF_TOKEN"})), wire.says("done"))
    env = settings("huggingface", server) | {"OPENROUTER_API_KEY": TEST_KEY}
    assert ask("-p", name, "-m", "x", "--yes", "run it", env=env).code == 0
    result = server.requests[-1].json["messages"][-1]["content"]
    assert TEST_KEY not in result
    assert ("key=\n" in result) == (name == "huggingface"), result


@pytest.mark.slow
def test_the_table_is_not_read_for_other_providers(home: Home, server: ModelServer) -> None:
    observe(home, "-p", "demo", "hi")
    for arguments in (["-p", "demo", "hi"], ["-m", "demo:demo", "hi"], ["--help"], ["--complete", "models", "demo:"]):
        assert "services" not in observe(home, *arguments).providers
    server.reply(wire.says("Hello."), wire.says("Hello."))
    env = settings("mistral", server) | {"OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}
    assert "services" not in observe(home, "-p", "openrouter", "hi", env=env).providers
    assert observe(home, "-p", "mistral", "hi", env=env).providers == {"services"}
