"""MCP servers that are elsewhere: streamable HTTP and SSE, with what can go wrong on the way."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ask.certificates import CA_VARIABLES
from tests import wire
from tests.mcp.setting import SDK, ask_with_calls, configure, told
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import Ask, Home, Running
from tests.raw_server import Certificate, make_certificate

Start = Callable[..., tuple[int, Running]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the SDK's server; its port, and the process."""
    running: list[Running] = []

    def begin(way: str, port: int = 0, certificate: Certificate | None = None) -> tuple[int, Running]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            port = probe.getsockname()[1]
        files = map(str, certificate or ())
        one = Running([sys.executable, SDK, way, str(port), *files])
        running.append(one)
        one.wait_for("Uvicorn running", 60)
        return port, one

    yield begin
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def other() -> Iterator[ModelServer]:
    """A server that answers as scripted."""
    with ModelServer() as one:
        yield one


@pytest.mark.parametrize("way", ["http", "sse"])
def test_its_tools_are_offered_and_called(way: str, start: Start, ask: Ask, home: Home, server: ModelServer) -> None:
    port, _ = start(way)
    path = "mcp" if way == "http" else "sse"
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/{path}", "type": way, "timeout": 60}})
    calls: list[wire.Call] = [("web__add", {"a": 1, "b": 2}), ("web__weather", {"city": "Rome"}), ("web__broken", {})]
    result, answers = ask_with_calls(ask, server, calls)
    assert result.code == 0
    assert answers[0] == "3"
    assert json.loads(answers[1]) == {"city": "Rome", "degrees": 21}
    assert "broken" in answers[2]
    assert "ask: " not in result.stderr


def test_a_server_that_hangs_floods_and_dies(start: Start, ask: Ask, home: Home, server: ModelServer) -> None:
    port, _ = start("http")
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 60}})
    names = ["hang", "flood", "die", "die"]
    result, answers = ask_with_calls(ask, server, [(f"web__{name}", {}) for name in names], "--command-timeout", "3")
    assert result.code == 0
    assert answers[0] == "Error: the MCP server web failed: it did not answer within 3 s"
    assert answers[1].startswith("Error: the MCP server web failed: ")
    assert "the MCP server web ended during the call, which may have had its effect" in answers[2]
    assert "nothing was run: the MCP server web has ended, and cannot be started again: it cannot be" in answers[3]
    assert "Traceback" not in result.stderr


def test_a_server_that_was_started_anew_meanwhile_is_called_as_if_nothing_was(
    start: Start, ask: Ask, home: Home, server: ModelServer
) -> None:
    port, first = start("http")
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 60}})

    def restart(request: Request) -> Reply:
        first.__exit__(None, None, None)
        start("http", port)
        return wire.calls(("web__add", {"a": 3, "b": 4}))

    server.reply(wire.calls(("web__add", {"a": 1, "b": 2})), restart, wire.says("done"))
    assert ask("hi", timeout=120).text == "done\n"
    assert [told(request) for request in server.requests[1:]] == ["3", "7"]


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """A certificate that is trusted only where a variable names it."""
    for variable in CA_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return make_certificate(tmp_path)


def test_every_variable_for_trusted_certificates_is_obeyed(
    start: Start, ask: Ask, home: Home, certificate: Certificate
) -> None:
    port, _ = start("https", certificate=certificate)
    configure(home, {"web": {"url": f"https://127.0.0.1:{port}/mcp", "timeout": 60}})
    folder = certificate.path.parent / "certificates"
    folder.mkdir()
    shutil.copy(certificate.path, folder)
    subprocess.run(["openssl", "rehash", folder], check=True)
    for variable in CA_VARIABLES:
        trusted = folder if variable == "SSL_CERT_DIR" else certificate.path
        result = ask("mcp", "test", env={variable: str(trusted)}, timeout=120)
        assert (variable, result.code, result.stderr) == (variable, 0, "")


def test_a_refused_certificate_is_explained(
    start: Start, ask: Ask, home: Home, certificate: Certificate, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = str(make_certificate(tmp_path / "other", "DNS:other.test").path)
    port, _ = start("https", certificate=certificate)
    place = {"url": f"https://127.0.0.1:{port}/mcp", "timeout": 60}
    configure(home, {kind: {**place, "type": kind} for kind in ("http", "sse")})
    found = json.loads(ask("mcp", "test", "--json", timeout=120).stdout)
    refused = json.loads(ask("mcp", "test", "--json", env={"SSL_CERT_FILE": other}, timeout=120).stdout)
    for row in found:
        assert "self-signed certificate: to trust its issuer" in row["found"]
        assert "REQUESTS_CA_BUNDLE" in row["found"]
    assert len(found) == len(refused) == 2
    for row in refused:
        assert f"{other} (SSL_CERT_FILE)" in row["found"]


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_a_bundle_that_cannot_be_used_is_named(ask: Ask, home: Home, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_bytes(content)
    configure(home, {"web": {"url": "https://127.0.0.1:9/mcp"}, "plain": {"url": "http://127.0.0.1:9/mcp"}})
    result = ask("mcp", "test", "--json", env={"CURL_CA_BUNDLE": str(path)}, timeout=120)
    web, plain = json.loads(result.stdout)
    assert result.code == 4
    assert f"CURL_CA_BUNDLE names {path}" in web["found"]
    assert "CURL_CA_BUNDLE" not in plain["found"]


def test_headers_are_sent_with_variables_filled_in(
    ask: Ask, home: Home, server: ModelServer, other: ModelServer
) -> None:
    other.reply(Reply(status=401))
    headers = {"Authorization": "Bearer $TOKEN", "X-Plain": "as it is"}
    configure(home, {"web": {"url": f"{other.base_url}/mcp", "headers": headers, "timeout": 60}})
    server.reply(wire.says("done"))
    result = ask("hi", env={"TOKEN": "t0k3n"})
    assert result.text == "done\n"
    advice = "set mcp.servers.web.headers to what it wants"
    assert f"ask: the MCP server web cannot be used: it answered 401 Unauthorized: {advice}\n" in result.stderr
    sent = other.requests[0].headers
    assert (sent["Authorization"], sent["X-Plain"]) == ("Bearer t0k3n", "as it is")
    assert "t0k3n" not in result.stderr


def test_what_answers_no_mcp_is_a_line_each(ask: Ask, home: Home, server: ModelServer) -> None:
    page = Reply((b"<html>",), content_type="text/html")
    elsewhere = Reply(status=307, headers={"Location": "http://127.0.0.2:1/"})
    replies = {
        "html": (page, "Unexpected content type: text/html"),
        "held": (Reply((b"", HOLD)), "it did not answer within 1 s"),
        "silent": (Reply((HOLD,)), "it did not answer within 1 s"),
        "long": (Reply([b" " * 1_000_000] * 12), "it sent a message of more than 10,000,000 bytes"),
        "moved": (elsewhere, "Redirect to http://127.0.0.2:1/ not followed"),
        "junk": (Reply((b'{"jsonrpc": "2.0", "id": 1, "result": 5}',)), ""),
    }
    others = {name: ModelServer() for name in replies}
    tables = {}
    for name, one in others.items():
        one.__enter__()
        one.reply(replies[name][0])
        tables[name] = {"url": f"{one.base_url}/mcp", "timeout": 1 if "within 1 s" in replies[name][1] else 60}
    tables["gone"] = {"url": "http://127.0.0.1:9/mcp"}
    configure(home, tables)
    server.reply(wire.says("done"))
    result = ask("hi", timeout=120)
    for one in others.values():
        one.__exit__(None, None, None)
    assert result.text == "done\n"
    said = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    assert len(said) == len(tables)
    for line, (name, (_, wanted)) in zip(
        said, [*replies.items(), ("gone", (None, "it cannot be reached"))], strict=True
    ):
        assert line.startswith(f"ask: the MCP server {name} cannot be used: ")
        assert wanted in line
