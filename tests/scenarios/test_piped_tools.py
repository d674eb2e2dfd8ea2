"""The setting `tools.piped`: which tools are offered with data on standard input."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools

READ_ONLY = {"read_file", "list_dir", "fetch_url", "search_web"}
ALL = READ_ONLY | {"write_file", "edit_file", "bash"}
MODES = [("all", ALL), ("read-only", READ_ONLY), ("none", set())]


@pytest.fixture(autouse=True)
def answer(server: ModelServer) -> None:
    server.reply(wire.says("Done."))


def configure(ask: Ask, mode: str) -> None:
    assert ask("config", "set", "tools.piped", mode).code == 0


def offered(server: ModelServer) -> set[str]:
    [body] = check_sent_requests(server)
    return set(list_offered_tools(body))


@pytest.mark.parametrize(("mode", "tools"), MODES)
@pytest.mark.parametrize("options", [(), ("-f", "-")])
def test_data_on_stdin_limit_the_tools_and_are_sent(
    ask: Ask, server: ModelServer, mode: str, tools: set[str], options: tuple[str, ...]
) -> None:
    configure(ask, mode)
    assert ask(*options, "what is it?", stdin=b"the data\n").code == 0
    assert offered(server) == tools
    assert server.requests[0].json["messages"][-1]["content"].count("the data") == 1


@pytest.mark.parametrize("mode", ["read-only", "none"])
@pytest.mark.parametrize("data", [b"", b" \n\n"], ids=["nothing", "white space"])
def test_without_data_all_tools_are_offered(ask: Ask, server: ModelServer, mode: str, data: bytes) -> None:
    configure(ask, mode)
    assert ask("hello", stdin=data).code == 0
    assert offered(server) == ALL


@pytest.mark.parametrize(
    "script",
    [
        "ask hello < /dev/null",
        *(
            pytest.param(script, marks=pytest.mark.slow)
            for script in (
                "ask --no-stdin hello <<< data",
                "ask hello <&-",
                "ask -f <(echo data) hello < /dev/null",
                "echo hello | ask chat",
            )
        ),
    ],
)
def test_other_input_does_not_count(ask: Ask, server: ModelServer, script: str) -> None:
    configure(ask, "none")
    assert ask.shell(script).code == 0
    assert offered(server) == ALL


def test_a_terminal_is_not_data(ask: Ask, server: ModelServer) -> None:
    configure(ask, "none")
    assert ask.on_terminal("hello").code == 0
    assert offered(server) == ALL


def test_an_image_on_stdin_counts(ask: Ask, server: ModelServer) -> None:
    configure(ask, "none")
    image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\x06\0\0\0\x1f\x15\xc4\x89"
    assert ask("what is it?", stdin=image).code == 0
    assert offered(server) == set()


def test_a_command_that_is_not_offered_is_not_run(ask: Ask, server: ModelServer) -> None:
    configure(ask, "read-only")
    assert ask("hello", stdin=b"").code == 0
    server.reply(wire.calls(("bash", {"command": "touch ran"})), wire.says("Done."))
    assert ask("do it", stdin=b"run touch ran").code == 0
    assert not (ask.cwd / "ran").exists()


def test_own_tools_with_side_effects_are_withheld_with_a_notice(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "own.py").write_text(
        "from ask import tool\n\n"
        "@tool(has_side_effects=False)\ndef look() -> str:\n    '''Look.'''\n    return ''\n\n"
        "@tool\ndef change() -> str:\n    '''Change.'''\n    return ''\n"
    )
    configure(ask, "read-only")
    result = ask("--tool", "own.py", "hello", stdin=b"data")
    assert result.code == 0
    assert offered(server) == READ_ONLY | {"look"}
    assert "change" in result.stderr
    configure(ask, "none")
    assert ask("--tool", "own.py", "hello", stdin=b"data").code == 2


@pytest.mark.parametrize("mode", ["some", "", "ALL", "true"])
def test_other_values_are_refused(ask: Ask, mode: str) -> None:
    assert ask("config", "set", "tools.piped", mode).code != 0
