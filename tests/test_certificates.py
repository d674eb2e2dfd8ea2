"""Certificates: the variables that name the trusted ones are obeyed everywhere, and named when one is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.certificates import CA_VARIABLES, CaBundle, create_ssl_context, find_ca_bundle
from ask.errors import ConfigError
from tests import wire
from tests.program import Ask
from tests.raw_server import Certificate, RawServer, answering, make_certificate

BODY = json.dumps(wire.answer("hello")).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path)


@pytest.fixture
def secure(certificate: Certificate) -> Iterator[RawServer]:
    with answering(ANSWER, certificate) as server:
        yield server


def bundle_for(variable: str, certificate: Certificate) -> str:
    """What to set a variable to, so that the certificate is trusted."""
    if variable != "SSL_CERT_DIR":
        return str(certificate.path)
    folder = certificate.path.parent / "certificates"
    folder.mkdir()
    (folder / certificate.path.name).write_bytes(certificate.path.read_bytes())
    subprocess.run(["openssl", "rehash", folder], check=True)
    return f"/does/not/exist:{folder}"


def place_of(server: RawServer) -> dict[str, str]:
    return {"OPENROUTER_BASE_URL": f"https://{server.place}/v1"}


def fetch(server: RawServer, environment: dict[str, str]) -> str:
    """Fetch a page of the server as `fetch_url` does, in a process of its own."""
    code = "import sys; from ask.tools.http_get import get; print(get(sys.argv[1], 20, None).status)"
    command = [sys.executable, "-c", code, f"https://{server.place}/"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout or done.stderr).splitlines()[-1]


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_every_variable_is_obeyed_by_providers_and_by_fetched_pages(
    ask: Ask, secure: RawServer, certificate: Certificate, variable: str
) -> None:
    trusted = {variable: bundle_for(variable, certificate)}
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), **trusted})
    assert (result.code, result.text, result.stderr) == (0, "hello\n", "")
    assert fetch(secure, {**ask.env, **trusted}) == "200 OK"


def test_without_a_variable_the_reason_and_the_variable_to_set_are_named(ask: Ask, secure: RawServer) -> None:
    result = ask("-p", "openrouter", "hi", env=place_of(secure))
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert "REQUESTS_CA_BUNDLE" in result.stderr
    assert secure.connections == 1
    said = fetch(secure, dict(ask.env))
    assert "self-signed certificate" in said
    assert "REQUESTS_CA_BUNDLE" in said


@pytest.mark.parametrize("variable", CA_VARIABLES)
def test_a_refused_certificate_names_the_variable_that_says_what_is_trusted(
    ask: Ask, secure: RawServer, tmp_path: Path, variable: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = bundle_for(variable, make_certificate(other, "DNS:other.test"))
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), variable: path})
    assert result.code == 5
    assert "self-signed certificate" in result.stderr
    assert f"({variable})" in result.stderr


def test_a_certificate_for_another_name_is_not_blamed_on_the_variable(ask: Ask, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "DNS:other.test")
    with answering(ANSWER, certificate) as server:
        env = {**place_of(server), "SSL_CERT_FILE": str(certificate.path)}
        result = ask("-p", "openrouter", "hi", env=env)
    assert result.code == 5
    assert "IP address mismatch" in result.stderr
    assert "SSL_CERT_FILE" not in result.stderr


@pytest.mark.parametrize("variable", CA_VARIABLES)
@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_bundle_that_cannot_be_used_is_a_mistake_here_and_nothing_is_tried_again(
    ask: Ask, secure: RawServer, tmp_path: Path, variable: str, content: bytes | None
) -> None:
    path = tmp_path / "missing.pem"
    if content is not None:
        path.write_bytes(content)
    if variable == "SSL_CERT_DIR" and content is not None:
        pytest.skip("OpenSSL looks into a folder only for the certificates that it needs")
    result = ask("-p", "openrouter", "hi", env={**place_of(secure), variable: str(path)})
    assert (result.code, len(result.stderr.splitlines())) == (4, 1)
    assert variable in result.stderr
    assert str(path) in result.stderr
    said = fetch(secure, {**ask.env, variable: str(path)})
    assert variable in said


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
