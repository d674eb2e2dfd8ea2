"""Images, PDFs and audio in the results of MCP servers, which reach the model byte for byte."""

from __future__ import annotations

import pytest

from ask import ToolCall
from tests.mcp.setting import PIXEL, SDK, configure, program, start_server
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, Wire, build_service_variables
from tests.slow_parameters import mark_others_slow

CALL = ToolCall("call_1", "sdk__screenshots", "{}")
LINKS = ToolCall("call_2", "sdk__links", "{}")


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    return Ask({**home.env, **build_service_variables(server.base_url)}, home.work)


def check_files(ask: Ask, server: ModelServer, service: Wire) -> None:
    """Have a model call the tool, and check that it gets two images and a PDF, and the text between them."""
    server.reply(service.says(CALL), service.says("Seen."))
    result = ask("-p", service.name, "-m", service.model, "Look", timeout=120)
    assert result.code == 0, result.stderr
    messages = service.read_conversation(server.requests[-1].json)
    received = [file.data for message in messages for file in message.attachments]
    kinds = [("image/png", PIXEL), ("application/pdf", b"%PDF-1.4\n%\xff\n"), ("image/png", PIXEL)]
    supported = [
        data for media_type, data in kinds if service.provider.provider_supports_attachment(service.model, media_type)
    ]
    assert received == supported
    (text,) = [message.content for message in messages if message.role == "tool"]
    assert "between" in text
    assert text.count("does not accept") == len(kinds) - len(supported)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "name", mark_others_slow(["anthropic", "openai", "openrouter", "ollama", "deepseek"], ["anthropic", "deepseek"])
)
def test_files_of_a_server_reach_the_model(ask: Ask, home: Home, server: ModelServer, name: str) -> None:
    configure(home, {"sdk": program(SDK)})
    check_files(ask, server, SERVICES[name])


@pytest.mark.slow
def test_files_of_a_server_over_http_reach_the_model(ask: Ask, home: Home, server: ModelServer) -> None:
    port, process = start_server(SDK)
    with process:
        configure(home, {"sdk": {"url": f"http://127.0.0.1:{port}/mcp"}})
        check_files(ask, server, SERVICES["gemini"])


@pytest.mark.slow
def test_links_that_cannot_be_read_stay_links(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"sdk": program(SDK)})
    service = SERVICES["anthropic"]
    server.reply(service.says(LINKS), service.says("Seen."))
    result = ask("-p", "anthropic", "-m", service.model, "Look", timeout=120)
    assert result.code == 0, result.stderr
    (message,) = service.results(server.requests[-1].json)
    assert message.attachments == ()
    assert [line.partition(":")[0] for line in message.content.splitlines()] == [
        "[link to file",
        "[link to file",
        "[link to image",
    ]
