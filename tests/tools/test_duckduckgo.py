"""DuckDuckGo search with `ddgs`, redirected to a local server by a proxy with a test certificate."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ask.client.certificates import CA_VARIABLES
from ask.config.installation import format_install_command
from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import create_search_tool
from ask.tools.search_engine import DUCKDUCKGO, ENGINE_BASE_URLS, SearchEngine, is_ddgs_installed
from tests.program import run

ROOT = Path(__file__).parents[2]
HOST = "html.duckduckgo.com"
PAGE = """<html><body><div id="links">
<div class="result results_links results_links_deep web-result">
<div class="links_main links_deep result__body">
<h2 class="result__title"><a class="result__a" href="https://nuts.test/">All about <b>nuts</b></a></h2>
<a class="result__snippet" href="https://nuts.test/?a=b&amp;c=d">They are <b>nuts</b>.</a></div></div>
<div class="links_main links_deep result__body">
<h2 class="result__title"><a class="result__a" href="https://nuts.test/almonds">Almonds, also nuts</a></h2>
<a class="result__snippet" href="https://nuts.test/almonds">Seeds.</a></div>
</div></body></html>"""


def certify(folder: Path) -> tuple[Path, Path, Path]:
    """Create a CA certificate, and a certificate with key for DuckDuckGo signed by it."""
    authority, authority_key = folder / "authority.pem", folder / "authority.key"
    certificate, key = folder / "certificate.pem", folder / "certificate.key"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    new += ["-days", "2"]
    commands: list[list[Any]] = [
        [*new, "-subj", "/CN=Authority", "-keyout", authority_key, "-out", authority],
        [
            *new,
            *("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", authority, "-CAkey", authority_key, "-keyout", key, "-out", certificate),
        ],
    ]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    return authority, certificate, key


class FakeProxy:
    """A proxy that answers for every host, always with the same response.

    Attributes:
        answer: The raw response; None to send nothing.
        asked: The hosts that clients asked to connect to.
        requests: The requests received.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.answer: bytes | None = page()
        self.asked: list[bytes] = []
        self.requests: list[bytes] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._listen)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                thread.start()
                self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.asked.append(read_head(connection).split()[1])
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with self._tls.wrap_socket(connection, server_side=True) as secure:
                head = read_head(secure)
                self.requests.append(head)
                if self.answer is None:
                    self._over.wait()
                else:
                    secure.sendall(self.answer)


def read_head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and (data := connection.recv(65_536)):
        head += data
    return head


def page(body: str = PAGE, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return certify(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def authority(certificates: tuple[Path, Path, Path]) -> Path:
    return certificates[0]


@pytest.fixture
def proxy(certificates: tuple[Path, Path, Path]) -> Iterator[FakeProxy]:
    _, certificate, key = certificates
    proxy = FakeProxy(certificate, key)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied_context(proxy: FakeProxy, context: RunToolContext, authority: Path) -> RunToolContext:
    """A run that reaches only the proxy."""
    reached = {"HTTPS_PROXY": proxy.url, "REQUESTS_CA_BUNDLE": str(authority)}
    return context._replace(environment={**context.environment, **reached}, command_timeout=30)


def search(context: RunToolContext, **arguments: object) -> str:
    return (
        create_search_tool(SearchEngine(DUCKDUCKGO, ENGINE_BASE_URLS[DUCKDUCKGO]))
        .run({"query": "nuts", **arguments}, context)
        .text
    )


def refusal(context: RunToolContext) -> str:
    with pytest.raises(ToolError) as caught:
        search(context)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_results_are_numbered_text_and_no_other_host_is_contacted(
    proxy: FakeProxy, proxied_context: RunToolContext
) -> None:
    assert search(proxied_context) == (
        "Results from duckduckgo:\n\n"
        "1. All about nuts\n   https://nuts.test/?a=b&c=d\n   They are nuts.\n\n"
        "2. Almonds, also nuts\n   https://nuts.test/almonds\n   Seeds."
    )
    assert proxy.asked == [f"{HOST}:443".encode()]
    assert "2. " not in search(proxied_context, max_results=1)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (page("<html><body>No results.</body></html>"), "found nothing"),
        (b"", "cannot reach"),
        *(
            pytest.param(answer, expected, marks=pytest.mark.slow)
            for answer, expected in (
                (page("<html><body>Are you a robot?</body></html>", "202 Accepted"), "refuses requests"),
                (page("no", "403 Forbidden"), "refuses requests"),
                (page("no", "500 Internal Server Error"), "refuses requests"),
                (b"what?\r\n\r\n", "cannot reach"),
            )
        ),
    ],
)
@pytest.mark.needs("openssl")
def test_an_error_names_the_engine_and_the_reason(
    proxy: FakeProxy, proxied_context: RunToolContext, answer: bytes, expected: str
) -> None:
    proxy.answer = answer
    message = refusal(proxied_context)
    assert "duckduckgo" in message
    assert expected in message


@pytest.mark.needs("openssl")
def test_the_command_timeout_applies(proxy: FakeProxy, proxied_context: RunToolContext) -> None:
    proxy.answer = None
    assert "duckduckgo" in refusal(proxied_context._replace(command_timeout=1))
    assert proxy.answer is None


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_an_untrusted_certificate_is_refused(proxy: FakeProxy, proxied_context: RunToolContext) -> None:
    environment = {name: value for name, value in proxied_context.environment.items() if name != "REQUESTS_CA_BUNDLE"}
    message = refusal(proxied_context._replace(environment=environment))
    assert "duckduckgo" in message
    assert "certificate" in message
    assert proxy.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("variable", CA_VARIABLES)
@pytest.mark.needs("openssl")
def test_every_certificate_variable_is_respected(
    proxied_context: RunToolContext, authority: Path, tmp_path: Path, variable: str
) -> None:
    environment = {name: value for name, value in proxied_context.environment.items() if name not in CA_VARIABLES}
    path = authority
    if variable == "SSL_CERT_DIR":
        path = tmp_path / "authorities"
        path.mkdir()
        (path / "one.pem").write_bytes(authority.read_bytes())
    assert "All about nuts" in search(proxied_context._replace(environment={**environment, variable: str(path)}))
    path = tmp_path / "nothing"
    path.mkdir() if variable == "SSL_CERT_DIR" else path.touch()
    assert f"{path} ({variable})" in refusal(proxied_context._replace(environment={**environment, variable: str(path)}))
    missing = {**environment, variable: str(tmp_path / "missing")}
    assert f"{variable} is set to {tmp_path}/missing" in refusal(proxied_context._replace(environment=missing))


def test_a_refused_connection_is_reported(context: RunToolContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    environment = {**context.environment, "HTTPS_PROXY": f"http://127.0.0.1:{closed}"}
    assert "duckduckgo" in refusal(context._replace(environment=environment))


def test_a_broken_package_is_reported_with_the_command_to_reinstall_it(context: RunToolContext, tmp_path: Path) -> None:
    (tmp_path / "ddgs.py").write_text("raise SystemExit(3)")
    environment = {**context.environment, "PYTHONPATH": str(tmp_path)}
    message = refusal(context._replace(environment=environment))
    assert "ddgs" in message
    assert format_install_command("web") in message


def test_the_package_is_detected_without_importing_it() -> None:
    assert is_ddgs_installed()
    code = (
        "import sys; from ask.tools.search_engine import is_ddgs_installed\n"
        "print(is_ddgs_installed(), 'ddgs' in sys.modules)"
    )
    assert run([sys.executable, "-c", code]).text == "True False\n"
    without_packages = [sys.executable, "-S", "-c", code]
    assert run(without_packages, env={"PYTHONPATH": str(ROOT)}).text == "False False\n"
