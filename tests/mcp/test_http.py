"""Remote MCP servers, over streamable HTTP and SSE, and network errors."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ask.client.certificates import CA_VARIABLES
from tests import wire
from tests.mcp.setting import SDK, ask_with_calls, cached_list_path, configure, read_last_result, start_server
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.raw_server import Certificate, make_certificate


@pytest.fixture
def other() -> Iterator[ModelServer]:
    """A server with scripted responses."""
    with ModelServer() as one:
        yield one


@pytest.mark.slow_after_first
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_tools_are_offered_and_called(transport: str, sdk_port: int, ask: Ask, home: Home, server: ModelServer) -> None:
    path = "mcp" if transport == "http" else "sse"
    configure(home, {"web": {"url": f"http://127.0.0.1:{sdk_port}/{path}", "type": transport, "timeout": 60}})
    calls: list[wire.Call] = [("web__add", {"a": 1, "b": 2}), ("web__weather", {"city": "Rome"}), ("web__broken", {})]
    result, answers = ask_with_calls(ask, server, calls)
    assert result.code == 0
    assert answers[0] == "3"
    assert json.loads(answers[1]) == {"city": "Rome", "degrees": 21}
    assert "broken" in answers[2]
    assert "ask: " not in result.stderr
    assert json.loads(cached_list_path(home, "web").read_text())["lifetime"] == 60


@pytest.mark.slow
def test_a_call_that_hangs_or_floods_fails(sdk_port: int, ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"web": {"url": f"http://127.0.0.1:{sdk_port}/mcp", "timeout": 60}})
    calls: list[wire.Call] = [("web__hang", {}), ("web__flood", {})]
    result, [hung, flooded] = ask_with_calls(ask, server, calls, "--command-timeout", "2")
    assert result.code == 0
    assert hung.startswith("Error: ")
    assert "web" in hung
    assert "2 s" in hung
    assert flooded.startswith("Error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_a_restarted_server_is_called_again_and_a_dead_one_fails(ask: Ask, home: Home, server: ModelServer) -> None:
    port, first = start_server(SDK)
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 60}})
    with ExitStack() as processes:
        processes.enter_context(first)

        def restart(_: Request) -> Reply:
            first.process.kill()
            first.process.wait()
            processes.enter_context(start_server(SDK, port=port)[1])
            return wire.calls(("web__add", {"a": 3, "b": 4}))

        die = wire.calls(("web__die", {}))
        server.reply(wire.calls(("web__add", {"a": 1, "b": 2})), restart, die, die, wire.says("done"))
        result = ask("hi", timeout=120)
    assert result.text == "done\n"
    before, after, ended, unreachable = [read_last_result(request) for request in server.requests[1:]]
    assert (before, after) == ("3", "7")
    assert "may have taken effect" in ended
    assert "nothing was run" in unreachable
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def tls_port(certificate: Certificate) -> Iterator[int]:
    """The port of a server whose certificate is trusted only if an environment variable names it."""
    port, process = start_server(SDK, *certificate)
    with process:
        yield port


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_every_variable_for_trusted_certificates_is_used(
    tls_port: int, ask: Ask, home: Home, certificate: Certificate
) -> None:
    configure(home, {"web": {"url": f"https://127.0.0.1:{tls_port}/mcp", "timeout": 60}})
    folder = home.path / "certificates"
    folder.mkdir()
    shutil.copy(certificate.path, folder)
    subprocess.run(["openssl", "rehash", folder], check=True)
    for variable in CA_VARIABLES:
        trusted = folder if variable == "SSL_CERT_DIR" else certificate.path
        result = ask("mcp", "test", env={variable: str(trusted)}, timeout=120)
        assert (variable, result.code, result.stderr) == (variable, 0, "")


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_a_refused_certificate_is_explained(tls_port: int, ask: Ask, home: Home, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = str(make_certificate(tmp_path / "other", "DNS:other.test").path)
    place = {"url": f"https://127.0.0.1:{tls_port}/mcp", "timeout": 60}
    configure(home, {kind: {**place, "type": kind} for kind in ("http", "sse")})
    found = json.loads(ask("mcp", "test", "--json", timeout=120).stdout)
    refused = json.loads(ask("mcp", "test", "--json", env={"SSL_CERT_FILE": other}, timeout=120).stdout)
    for row in found:
        assert "self-signed certificate" in row["found"]
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
    assert f"CURL_CA_BUNDLE is set to {path}" in web["found"]
    assert "CURL_CA_BUNDLE" not in plain["found"]


def test_variables_in_headers_are_expanded(ask: Ask, home: Home, server: ModelServer, other: ModelServer) -> None:
    other.reply(Reply(status=401))
    headers = {"Authorization": "Bearer $TOKEN", "X-Plain": "as it is"}
    configure(home, {"web": {"url": f"{other.base_url}/mcp", "headers": headers, "timeout": 60}})
    server.reply(wire.says("done"))
    result = ask("hi", env={"TOKEN": "t0k3n\n"})
    assert result.text == "done\n"
    for value in ("web", "401", "mcp.servers.web.headers"):
        assert value in result.stderr
    sent = other.requests[0].headers
    assert (sent["Authorization"], sent["X-Plain"]) == ("Bearer t0k3n", "as it is")
    assert "t0k3n" not in result.stderr


@pytest.mark.slow
def test_each_server_that_does_not_speak_mcp_is_reported(ask: Ask, home: Home, server: ModelServer) -> None:
    page = Reply((b"<html>",), content_type="text/html")
    elsewhere = Reply(status=307, headers={"Location": "http://127.0.0.2:1/"})
    compressed = Reply((gzip.compress(b" " * 20_000_000),), headers={"Content-Encoding": "gzip"})
    replies = {
        "html": (page, "text/html"),
        "headers_only": (Reply((b"", HOLD)), "within 0.5 s"),
        "silent": (Reply((HOLD,)), "within 0.5 s"),
        "long": (Reply([b" " * 1_000_000] * 12), "10,000,000 bytes"),
        "moved": (elsewhere, "http://127.0.0.2:1/"),
        "compressed": (compressed, "gzip data"),
        "junk": (Reply((b'{"jsonrpc": "2.0", "id": 1, "result": 5}',)), ""),
    }
    with ExitStack() as stack:
        tables = {}
        for name, (reply, wanted) in replies.items():
            one = stack.enter_context(ModelServer())
            one.reply(reply)
            tables[name] = {"url": f"{one.base_url}/mcp", "timeout": 0.5 if "within" in wanted else 60}
        tables |= {"gone": {"url": "http://127.0.0.1:9/mcp"}, "proxied": {"url": "https://mcp.test/mcp"}}
        configure(home, tables)
        server.reply(wire.says("done"))
        result = ask("hi", timeout=120, env={"HTTPS_PROXY": "http://127.0.0.1:9"})
    assert result.text == "done\n"
    lines = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    wanted_in_lines = {name: wanted for name, (_, wanted) in replies.items()} | {
        "gone": "127.0.0.1:9 cannot be reached (All connection attempts failed); mcp.servers.gone.enabled = false",
        "proxied": "mcp.test cannot be reached through the proxy 127.0.0.1:9 (HTTPS_PROXY)",
    }
    for line, (name, wanted) in zip(lines, wanted_in_lines.items(), strict=True):
        assert f" {name} " in line
        assert wanted in line
