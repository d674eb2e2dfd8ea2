"""Certificates: the variables that name the trusted ones are obeyed everywhere, and named when one is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.client.certificates import CA_VARIABLES, CaBundle, create_ssl_context, find_ca_bundle
from ask.errors import ConfigError
from ask.tools.base import ToolError
from ask.tools.http_get import fetch_response
from tests import wire
from tests.program import Ask
from tests.raw_server import Certificate, RawServer, answering, make_certificate

BODY = json.dumps(wire.answer("hello")).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def other_certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("other"), "DNS:other.test")


@pytest.fixture
def secure(certificate: Certificate) -> Iterator[RawServer]:
    with answering(ANSWER, certificate) as server:
        yield server


def bundle_for(variable: str, certificate: Certificate, tmp_path: Path) -> str:
    """Return the value of a variable with which the certificate is trusted."""
    if variable != "SSL_CERT_DIR":
        return str(certificate.path)
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / certificate.path.name).write_bytes(certificate.path.read_bytes())
    subprocess.run(["openssl", "rehash", folder], check=True)
    return f"/does/not/exist:{folder}"


def place_of(server: RawServer) -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": f"https://{server.place}/v1"}


def fetch(server: RawServer, variable: str = "", path: str = "") -> str:
    """Fetch a page of the server as `fetch_url` does; return the status or the error."""
    with pytest.MonkeyPatch.context() as environment:
        if variable:
            environment.setenv(variable, path)
        try:
            return fetch_response(f"https://{server.place}/", 20, None).status_line
        except ToolError as error:
            return str(error)


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_every_variable_applies_to_providers_and_to_fetched_pages(
    ask: Ask, secure: RawServer, certificate: Certificate, variable: str, tmp_path: Path
) -> None:
    path = bundle_for(variable, certificate, tmp_path)
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), variable: path})
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")
    assert fetch(secure, variable, path) == "200 OK"


def test_without_a_variable_the_reason_and_the_variable_to_set_are_named(ask: Ask, secure: RawServer) -> None:
    result = ask("-p", "openrouter", "hi", env=place_of(secure))
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert "REQUESTS_CA_BUNDLE" in result.stderr
    assert secure.connections == 1
    said = fetch(secure)
    assert "self-signed certificate" in said
    assert "REQUESTS_CA_BUNDLE" in said


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_a_refused_certificate_names_the_variable_that_says_what_is_trusted(
    ask: Ask, secure: RawServer, other_certificate: Certificate, tmp_path: Path, variable: str
) -> None:
    path = bundle_for(variable, other_certificate, tmp_path)
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), variable: path})
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert f"({variable})" in result.stderr


def test_a_certificate_for_another_name_is_not_blamed_on_the_variable(ask: Ask, other_certificate: Certificate) -> None:
    with answering(ANSWER, other_certificate) as server:
        env = {**place_of(server), "SSL_CERT_FILE": str(other_certificate.path)}
        result = ask("-p", "openrouter", "hi", env=env)
    assert result.code == 5
    assert "IP address mismatch" in result.stderr
    assert "SSL_CERT_FILE" not in result.stderr


@pytest.mark.parametrize(
    ("variable", "content"),
    [
        *((variable, None) for variable in CA_VARIABLES),
        # OpenSSL looks into a folder only for the certificates that it needs.
        *((variable, content) for variable in CA_VARIABLES if variable != "SSL_CERT_DIR" for content in (b"", b"no")),
    ],
)
def test_an_unusable_bundle_is_a_configuration_error_that_is_not_retried(
    ask: Ask, secure: RawServer, tmp_path: Path, variable: str, content: bytes | None
) -> None:
    path = tmp_path / "missing.pem"
    if content is not None:
        path.write_bytes(content)
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), variable: str(path)})
    assert (result.code, len(result.stderr.splitlines())) == (4, 1)
    assert variable in result.stderr
    assert str(path) in result.stderr
    assert variable in fetch(secure, variable, str(path))


def test_a_bundle_is_not_looked_at_where_nothing_is_encrypted(ask: Ask) -> None:
    with answering(ANSWER) as server:
        env = {"OPENROUTER_BASE_URL": f"http://{server.place}/v1", "REQUESTS_CA_BUNDLE": "/does/not/exist"}
        assert ask("-p", "openrouter", "hi", env=env).code == 0


def test_the_first_variable_that_is_set_counts(tmp_path: Path) -> None:
    path = str(tmp_path)
    both = {"SSL_CERT_FILE": "/does/not/exist", "CURL_CA_BUNDLE": path, "REQUESTS_CA_BUNDLE": ""}
    assert find_ca_bundle(both) == CaBundle(path, "CURL_CA_BUNDLE")
    assert find_ca_bundle({}) is None


def test_a_context_trusts_a_file_and_a_folder(certificate: Certificate) -> None:
    context = create_ssl_context(CaBundle(str(certificate.path), "SSL_CERT_FILE"))
    assert len(context.get_ca_certs()) == 1
    create_ssl_context(CaBundle(str(certificate.path.parent), "SSL_CERT_DIR"))
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        create_ssl_context(CaBundle(str(certificate.key), "SSL_CERT_FILE"))
