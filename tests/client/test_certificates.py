"""Trusted certificates from environment variables, and errors about server certificates."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.client.certificates import CA_VARIABLES, CaBundle, create_ssl_context, find_ca_bundle
from ask.errors import ConfigError
from ask.tools.base import ToolError
from ask.tools.http_get import Fetcher
from tests import wire
from tests.program import Ask
from tests.raw_server import (
    Certificate,
    RawServer,
    constant_reply_server,
    make_certificate,
    read_request,
    relay,
)

pytestmark = pytest.mark.needs("openssl")

BODY = json.dumps(wire.answer("hello")).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


@pytest.fixture(autouse=True)
def unset_ca_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def other_certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("other"), "DNS:other.test")


@pytest.fixture
def https_server(certificate: Certificate) -> Iterator[RawServer]:
    with constant_reply_server(ANSWER, certificate) as server:
        yield server


def make_bundle(variable: str, certificate: Certificate, tmp_path: Path) -> str:
    """Return a value for the variable that makes the certificate trusted."""
    if variable != "SSL_CERT_DIR":
        return str(certificate.path)
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / certificate.path.name).write_bytes(certificate.path.read_bytes())
    subprocess.run(["openssl", "rehash", folder], check=True)
    return f"/does/not/exist:{folder}"


def make_environment(server: RawServer) -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": f"https://{server.address}/v1"}


def fetch(server: RawServer, variable: str = "", path: str = "") -> str:
    """Fetch a page as the tool `fetch_url` does; return the status line or the error message."""
    with pytest.MonkeyPatch.context() as environment:
        if variable:
            environment.setenv(variable, path)
        try:
            return Fetcher(20, None).fetch(f"https://{server.address}/").status_line
        except ToolError as error:
            return str(error)


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_variable_applies_to_providers_and_fetched_pages(
    ask: Ask, https_server: RawServer, certificate: Certificate, variable: str, tmp_path: Path
) -> None:
    path = make_bundle(variable, certificate, tmp_path)
    result = ask("-p", "openrouter", "hi", env={**make_environment(https_server), variable: path})
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")
    assert fetch(https_server, variable, path) == "200 OK"


def test_untrusted_certificate_error_names_reason_and_variable(ask: Ask, https_server: RawServer) -> None:
    result = ask("-p", "openrouter", "hi", env=make_environment(https_server))
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert "REQUESTS_CA_BUNDLE" in result.stderr
    assert https_server.connections == 1
    message = fetch(https_server)
    assert "self-signed certificate" in message
    assert "REQUESTS_CA_BUNDLE" in message


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_variable_applies_to_https_proxies(
    ask: Ask, https_server: RawServer, certificate: Certificate, variable: str, tmp_path: Path
) -> None:
    host, port = https_server.address.split(":")

    def connect(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection((host, int(port))) as server:
            relay(connection, server)

    path = make_bundle(variable, certificate, tmp_path)
    with RawServer(connect, certificate) as proxy:
        proxy_environment = {"https_proxy": f"https://{proxy.address}", "no_proxy": "", variable: path}
        result = ask("-p", "openrouter", "hi", env={**make_environment(https_server), **proxy_environment})
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")
    assert proxy.connections == 1


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_rejected_certificate_error_names_the_variable_in_use(
    ask: Ask, https_server: RawServer, other_certificate: Certificate, tmp_path: Path, variable: str
) -> None:
    path = make_bundle(variable, other_certificate, tmp_path)
    result = ask("-p", "openrouter", "hi", env={**make_environment(https_server), variable: path})
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert f"({variable})" in result.stderr


def test_certificate_for_another_name_does_not_mention_the_variable(ask: Ask, other_certificate: Certificate) -> None:
    with constant_reply_server(ANSWER, other_certificate) as server:
        env = {**make_environment(server), "SSL_CERT_FILE": str(other_certificate.path)}
        result = ask("-p", "openrouter", "hi", env=env)
    assert result.code == 5
    assert "IP address mismatch" in result.stderr
    assert "SSL_CERT_FILE" not in result.stderr


@pytest.mark.parametrize(
    ("variable", "content"),
    [
        *((variable, None) for variable in CA_VARIABLES),
        # The content of a folder is not checked: OpenSSL reads only the certificates that it needs.
        *((variable, content) for variable in CA_VARIABLES if variable != "SSL_CERT_DIR" for content in (b"", b"no")),
    ],
)
def test_unusable_bundle_is_a_configuration_error(
    ask: Ask, https_server: RawServer, tmp_path: Path, variable: str, content: bytes | None
) -> None:
    path = tmp_path / "missing.pem"
    if content is not None:
        path.write_bytes(content)
    result = ask("-p", "openrouter", "hi", env={**make_environment(https_server), variable: str(path)})
    assert (result.code, len(result.stderr.splitlines())) == (4, 1)
    assert variable in result.stderr
    assert str(path) in result.stderr
    assert variable in fetch(https_server, variable, str(path))


def test_bundle_is_ignored_for_plain_http(ask: Ask) -> None:
    with constant_reply_server(ANSWER) as server:
        env = {"OPENROUTER_BASE_URL": f"http://{server.address}/v1", "REQUESTS_CA_BUNDLE": "/does/not/exist"}
        assert ask("-p", "openrouter", "hi", env=env).code == 0


def test_first_variable_that_is_set_counts(tmp_path: Path) -> None:
    path = str(tmp_path)
    variables = {"SSL_CERT_FILE": "/does/not/exist", "CURL_CA_BUNDLE": path, "REQUESTS_CA_BUNDLE": ""}
    assert find_ca_bundle(variables) == CaBundle(path, "CURL_CA_BUNDLE")
    assert find_ca_bundle({}) is None


def test_ssl_context_accepts_a_file_or_a_folder(certificate: Certificate) -> None:
    context = create_ssl_context(CaBundle(str(certificate.path), "SSL_CERT_FILE"))
    assert len(context.get_ca_certs()) == 1
    create_ssl_context(CaBundle(str(certificate.path.parent), "SSL_CERT_DIR"))
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        create_ssl_context(CaBundle(str(certificate.key), "SSL_CERT_FILE"))


@pytest.mark.parametrize("name", ["missing/keys.log", "."])
def test_key_log_that_cannot_be_written_is_a_configuration_error(
    ask: Ask, https_server: RawServer, tmp_path: Path, name: str
) -> None:
    # https://github.com/python/cpython/issues/90480
    path = str(tmp_path / name)
    result = ask("-p", "openrouter", "hi", env={**make_environment(https_server), "SSLKEYLOGFILE": path})
    assert (result.code, len(result.stderr.splitlines())) == (4, 1)
    assert "SSLKEYLOGFILE" in result.stderr
    assert path in result.stderr
