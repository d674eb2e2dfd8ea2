"""Scenarios with every provider, each in its own wire format."""

from __future__ import annotations

import itertools
import json
from datetime import date
from typing import Any

import pytest

from ask import Message, ToolCall, __version__
from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB
from tests import wire as chat_wire
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home, Result
from tests.provider_wires import SERVICES, Reasoning, ResponsesApi, Wire
from tests.providers import anthropic_wire

LOCAL = ("ollama", "lmstudio")
TOOLS = [*(tool.spec.name for tool in BUILTIN_TOOLS), SEARCH_WEB.name]
THOUGHT = Reasoning("I should look.", "bG9vaw==")
READ = ToolCall("call_read", "read_file", '{"filepath": "config.json"}')
Json = dict[str, Any]


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """With a key for each provider, and the base URL in the form of its own SDK."""
    home.configure("[network]\nbackoff = 0.001\n")
    env = dict(home.env)
    for name, service in SERVICES.items():
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = root(server) + service.address
    return Ask(env, ask.cwd)


def root(server: ModelServer) -> str:
    return server.base_url.removesuffix("/api/v1")


def command(service: Wire) -> list[str]:
    """Return the command line for a provider: its default model, or a given one if it has none."""
    return ["-p", service.name, *([] if service.provider.info.default_model else ["-m", service.model])]


def check_sent_requests(server: ModelServer, service: Wire) -> list[list[Message]]:
    """Check all requests and return what they contain; each must extend the previous one."""
    conversations: list[list[Message]] = []
    for request in server.requests:
        assert request.method == "POST"
        assert request.path.startswith(service.path)
        assert any(TEST_KEY in value for value in request.headers.values())
        assert TEST_KEY not in request.path + request.body.decode()
        conversations.append(service.read_conversation(request.json))
        assert service.offered(request.json) == TOOLS
    for earlier, later in itertools.pairwise(conversations):
        assert later[: len(earlier)] == earlier
    return conversations


def calls_of(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


# Prompts and tool calls


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "complete"])
@pytest.mark.parametrize("name", SERVICES)
def test_a_prompt_is_sent_after_the_default_system_prompt(
    ask: Ask, server: ModelServer, name: str, whole: bool
) -> None:
    service = SERVICES[name]
    server.reply(service.says(THOUGHT, "Because of ", "Rayleigh scattering.", whole=whole))
    before = date.today()
    result = ask(*command(service), *(["--no-stream"] if whole else []), "why is the sky blue?")
    assert (result.text, result.stderr, result.code) == ("Because of Rayleigh scattering.\n", "", 0)
    [[system, question]] = check_sent_requests(server, service)
    assert system.content.startswith(f"You are ask {__version__}")
    assert before.isoformat() in system.content or date.today().isoformat() in system.content
    assert all(f"- {tool}: " in system.content for tool in TOOLS)
    assert (question.role, question.content) == ("user", "why is the sky blue?")
    assert service.system(server.requests[0].json) == system.content


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "complete"])
@pytest.mark.parametrize("name", SERVICES)
def test_the_content_of_a_file_is_sent_as_the_tool_result(
    ask: Ask, server: ModelServer, name: str, whole: bool
) -> None:
    service = SERVICES[name]
    (ask.cwd / "config.json").write_text('{"port": 8080}\n')
    server.reply(service.says(THOUGHT, READ, whole=whole), service.says("The port is 8080.", whole=whole))
    result = ask(*command(service), *(["--no-stream"] if whole else []), "What is in config.json?")
    assert (result.text, result.code) == ("The port is 8080.\n", 0)
    _, second = check_sent_requests(server, service)
    assert [message.role for message in second] == ["system", "user", "assistant", "tool"]
    assert calls_of(second[2]) == [("read_file", {"filepath": "config.json"})]
    assert second[3].content == '{"port": 8080}\n'
    assert (second[3].tool_call_id, second[3].tool_name) in (("call_read", "read_file"), ("call_read", ""))


@pytest.mark.parametrize("name", SERVICES)
def test_parallel_calls_run_in_order_and_their_results_are_sent_together(
    ask: Ask, server: ModelServer, name: str
) -> None:
    service = SERVICES[name]
    wanted = [("bash", {"command": f"echo {word} >> order; cat order"}) for word in ("one", "two", "three")]
    calls = [ToolCall(f"call_{i}", tool, json.dumps(given)) for i, (tool, given) in enumerate(wanted)]
    server.reply(service.says(THOUGHT, *calls), service.says("Done."))
    result = ask(*command(service), "do these")
    assert (result.text, result.code) == ("Done.\n", 0)
    assert (ask.cwd / "order").read_text() == "one\ntwo\nthree\n"
    _, second = check_sent_requests(server, service)
    assert calls_of(second[2]) == wanted
    assert [message.content.split()[-1] for message in second[3:]] == ["one", "two", "three"]


@pytest.mark.parametrize("name", SERVICES)
def test_text_around_a_call_is_shown_in_order_and_sent_back(ask: Ask, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    call = ToolCall("call_1", "bash", '{"command": "touch one"}')
    server.reply(service.says("First I look.", call, " And then again."), service.says("There is one."))
    result = ask(*command(service), "look")
    separator = "\n\n" if isinstance(service, ResponsesApi) else ""  # its texts are two messages
    assert (result.text, result.code) == (f"First I look.{separator} And then again.\nThere is one.\n", 0)
    assert (ask.cwd / "one").exists()
    _, second = check_sent_requests(server, service)
    assert second[2].content == "First I look. And then again."
    assert calls_of(second[2]) == [("bash", {"command": "touch one"})]


@pytest.mark.parametrize("name", SERVICES)
def test_reasoning_is_sent_back_with_the_tool_results(ask: Ask, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    server.reply(service.says(THOUGHT, READ), service.says("There is no such file."))
    assert ask("-p", name, "-m", service.model, "What is in config.json?").code == 0
    second = server.requests[1].body.decode()
    assert {part for part in THOUGHT._fields if getattr(THOUGHT, part) in second} == set(
        service.required_reasoning_fields
    )


def test_grok_is_an_alias_of_xai(ask: Ask, server: ModelServer) -> None:
    server.reply(SERVICES["xai"].says("Hello."))
    result = ask("-p", "grok", "hi")
    assert (result.text, result.stderr, result.code) == ("Hello.\n", "", 0)
    assert len(check_sent_requests(server, SERVICES["xai"])) == 1


# Models without tool support

NO_TOOLS: dict[str, tuple[int, Json]] = {
    "openrouter": (404, {"error": {"code": 404, "message": "No endpoints found that support tool use."}}),
    "ollama": (400, {"error": "registry.ollama.ai/library/gemma3:4b does not support tools"}),
    "gemini": (400, {"error": {"code": 400, "message": "Function calling is not enabled for models/gemma-3"}}),
    "openai": (400, {"error": {"message": "tools is not supported in this model.", "param": "tools"}}),
    "anthropic": (400, anthropic_wire.error("invalid_request_error", "This model does not support tools.")),
    "deepseek": (400, {"error": {"message": "deepseek-old does not support Function Calling"}}),
    "moonshot": (400, {"error": {"message": "tool calling is not supported by this model"}}),
    "xai": (400, {"code": "Client specified an invalid argument", "error": "This model does not support tool use."}),
    "lmstudio": (400, {"error": "Model does not support tools"}),
}


@pytest.mark.parametrize("name", NO_TOOLS)
def test_a_model_without_tool_support_gets_one_request_without_tools(ask: Ask, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    status, refusal = NO_TOOLS[name]
    server.reply(service.refuses(status, refusal), service.says("Hello."))
    result = ask(*command(service), "hi")
    assert (result.text, result.code) == ("Hello.\n", 0)
    [line] = result.stderr.splitlines()
    assert f"({name}, {status})" in line
    assert "--no-tools" in line
    assert "once more without tools" in line
    first, second = (request.json for request in server.requests)
    assert service.offered(first) == TOOLS
    assert service.offered(second) == []
    assert service.asked(second) == ["hi"]
    assert not any(tool in service.system(second) for tool in TOOLS)


# Missing keys and credit

WRONG_KEY: dict[str, tuple[int, Json]] = {
    "openrouter": (401, {"error": {"message": "No cookie auth credentials found", "code": 401}}),
    "openai": (
        401,
        {
            "error": {
                "message": "Incorrect API key provided: sk-***.",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            }
        },
    ),
    "anthropic": (401, anthropic_wire.error("authentication_error", "API key is invalid.")),
    "deepseek": (
        401,
        {
            "error": {
                "message": "Authentication Fails, Your api key: ****-key is invalid",
                "type": "authentication_error",
            }
        },
    ),
    "lmstudio": (401, {"error": {"message": "An API token is required", "type": "invalid_request_error"}}),
    "moonshot": (401, {"error": {"message": "Invalid Authentication", "type": "invalid_authentication_error"}}),
    "xai": (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***."}),
    "gemini": (
        400,
        {
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
            }
        },
    ),
}
SUSPENDED = "Your account is suspended due to insufficient balance, please recharge your account"
SPENT = "Your team has either used all available credits or reached its monthly spending limit."
DEPLETED = "Your prepayment credits are depleted."
OUT_OF_CREDIT: dict[str, tuple[int, Json, str]] = {
    "openrouter": (402, {"error": {"code": 402, "message": "Insufficient credits."}}, "openrouter.ai/settings/credits"),
    "openai": (
        429,
        {
            "error": {
                "message": "You exceeded your current quota.",
                "type": "insufficient_quota",
                "code": "insufficient_quota",
            }
        },
        "platform.openai.com/settings/organization/billing",
    ),
    "anthropic": (
        400,
        anthropic_wire.error("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        "platform.claude.com/settings/billing",
    ),
    "deepseek": (402, {"error": {"message": "Insufficient Balance"}}, "platform.deepseek.com/top_up"),
    "moonshot": (
        429,
        {"error": {"message": SUSPENDED, "type": "exceeded_current_quota_error"}},
        "platform.kimi.ai/console",
    ),
    "xai": (429, {"code": "Some resource has been exhausted", "error": SPENT}, "console.x.ai"),
    "xai by 403": (403, {"code": "The caller does not have permission", "error": SPENT}, "console.x.ai"),
    "gemini": (
        429,
        {"error": {"code": 429, "message": DEPLETED, "status": "RESOURCE_EXHAUSTED"}},
        "ai.studio/projects",
    ),
}


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in LOCAL])
def test_a_missing_key_error_names_the_variable_and_the_command(ask: Ask, server: ModelServer, name: str) -> None:
    variables = SERVICES[name].provider.info.key_env
    env = {variable: value for variable, value in ask.env.items() if variable not in variables}
    env = {variable: value for variable, value in env.items() if not variable.endswith("_BASE_URL")}
    result = Ask(env, ask.cwd)("-p", name, "hi")
    line = one_line(result)
    assert result.code == 4
    assert f"no API key for {name}" in line
    assert variables[0] in line
    assert f"ask keys set {name}" in line
    assert server.requests == []


@pytest.mark.parametrize("name", WRONG_KEY)
def test_an_invalid_key_is_not_retried_and_the_error_names_the_command(
    ask: Ask, server: ModelServer, name: str
) -> None:
    status, refusal = WRONG_KEY[name]
    line = check_refused(ask, server, name, status, refusal)
    assert "ask keys" in line


def test_ollama_without_a_key_names_the_sign_in_command(ask: Ask, server: ModelServer) -> None:
    line = check_refused(ask, server, "ollama", 401, {"error": "unauthorized"})
    assert "ollama signin" in line
    assert "OLLAMA_API_KEY" in line


@pytest.mark.parametrize("case", OUT_OF_CREDIT)
def test_missing_credit_is_not_retried_and_the_error_names_the_billing_page(
    ask: Ask, server: ModelServer, case: str
) -> None:
    status, refusal, place = OUT_OF_CREDIT[case]
    assert place in check_refused(ask, server, case.partition(" ")[0], status, refusal)


def check_refused(ask: Ask, server: ModelServer, name: str, status: int, refusal: Json) -> str:
    """Check that a request was refused for good; return the line printed."""
    server.reply(SERVICES[name].refuses(status, refusal))
    result = ask(*command(SERVICES[name]), "hi")
    line = one_line(result)
    assert result.code == 6
    assert f"({name}, {status})" in line
    assert len(server.requests) == 1
    return line


def one_line(result: Result) -> str:
    """Check that only one error was printed; return it."""
    [line] = result.stderr.splitlines()
    assert result.stdout == b""
    assert line.startswith("ask: ")
    assert TEST_KEY not in line
    return line


# Local servers


@pytest.mark.parametrize(("name", "hint"), [("ollama", "ollama serve"), ("lmstudio", "lms server start")])
def test_the_error_for_a_stopped_local_server_names_the_start_command(
    ask: Ask, closed_port: int, name: str, hint: str
) -> None:
    place = f"127.0.0.1:{closed_port}"
    for model in ([], ["-m", "any"]):
        result = ask("-p", name, *model, "-q", "hi", env={f"{name.upper()}_BASE_URL": f"http://{place}"})
        line = one_line(result)
        assert result.code == 5
        assert place in line
        assert hint in line


def models(name: str, *ids: str) -> Reply:
    """Return a reply with the installed or loaded models."""
    entries = [{"name": one} for one in ids] if name == "ollama" else [{"id": one} for one in ids]
    return chat_wire.whole_reply({"models" if name == "ollama" else "data": entries})


@pytest.mark.parametrize(("name", "hint"), [("ollama", "ollama pull"), ("lmstudio", "lms load")])
def test_the_error_for_a_local_server_without_models_names_the_command_to_get_one(
    ask: Ask, server: ModelServer, name: str, hint: str
) -> None:
    server.reply(models(name))
    result = ask("-p", name, "hi")
    assert result.code == 4
    assert hint in one_line(result)


@pytest.mark.parametrize("name", LOCAL)
def test_the_first_model_of_a_local_server_is_the_default(ask: Ask, server: ModelServer, name: str) -> None:
    server.reply(models(name, "first", "second"), SERVICES[name].says("Hello."))
    result = ask("-p", name, "hi")
    assert (result.text, result.stderr, result.code) == ("Hello.\n", "", 0)
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert server.requests[1].json["model"] == "first"
