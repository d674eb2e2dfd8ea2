"""Signing in to remote MCP servers, against a real authorization server."""

from __future__ import annotations

import json
import re
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ask.config.mcp_servers import ServerConfig
from tests import wire
from tests.mcp.setting import HERE, OAUTH, ask_with_calls, configure, offered, start_server
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, Result

# The values of oauth_server.py, whose import would load the SDK into each process of the tests.
MACHINE, MACHINE_SECRET = "machine", "machine:secret/0123"
BROWSER = {"BROWSER": f"{sys.executable} {HERE / 'browser.py'} %s"}


class KeepRedirect(urllib.request.HTTPRedirectHandler):
    """Raises redirects instead of following them."""

    def redirect_request(self, *_: Any) -> None:
        return None


class OAuthServer:
    """The server in a process."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/mcp"

    def control(self, **values: str | int) -> Any:
        query = "&".join(f"{name}={value}" for name, value in values.items())
        with urllib.request.urlopen(f"{self.origin}/control?{query}") as response:
            return json.load(response)

    @property
    def grants(self) -> list[str]:
        return [grant["grant_type"] for grant in self.control()["grants"]]


@pytest.fixture(scope="module")
def private_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def running_server(
    tmp_path_factory: pytest.TempPathFactory, private_key: ec.EllipticCurvePrivateKey
) -> Iterator[OAuthServer]:
    public_key = tmp_path_factory.mktemp("key") / "public.pem"
    public_key.write_bytes(private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    port, process = start_server(OAUTH, public_key)
    with process:
        yield OAuthServer(port)


@pytest.fixture
def private(running_server: OAuthServer) -> OAuthServer:
    running_server.control(reset=1)
    return running_server


def sign_in(ask: Ask) -> Result:
    return ask("mcp", "login", "web", env=BROWSER, timeout=120)


def state_file(home: Home) -> Path:
    return home.config / "sign-ins" / "web.json"


def read_tokens(home: Home) -> dict[str, str]:
    tokens: dict[str, str] = json.loads(state_file(home).read_text())["tokens"]
    return tokens


def add(home: Home, server: OAuthServer, **oauth: str) -> None:
    configure(home, {"web": {"url": server.url, "timeout": 60, **({"oauth": oauth} if oauth else {})}})


@pytest.mark.slow
def test_a_run_names_the_command_and_goes_on_until_the_user_signs_in(
    ask: Ask, home: Home, server: ModelServer, private: OAuthServer
) -> None:
    add(home, private)
    server.reply(wire.says("done"))
    result = ask("hi", timeout=120)
    assert (result.code, result.text) == (0, "done\n")
    assert "ask mcp login web" in result.stderr
    assert private.control()["clients"] == 0, "a run registers no client"
    assert "ask mcp login web" in ask("doctor", timeout=120).text

    assert sign_in(ask).code == 0
    assert stat.S_IMODE(state_file(home).stat().st_mode) == 0o600
    result, [answer] = ask_with_calls(ask, server, [("web__whoami", {})])
    assert answer == "you"
    assert "ask: " not in result.stderr
    assert private.grants == ["authorization_code"]
    assert "signed in" in ask("doctor", timeout=120).text


@pytest.mark.slow
def test_an_expired_token_is_refreshed_without_a_browser_and_the_rotated_one_kept(
    ask: Ask, home: Home, private: OAuthServer
) -> None:
    add(home, private)
    private.control(lifetime=5)  # less than the margin
    assert sign_in(ask).code == 0
    for count in (2, 3):
        before = read_tokens(home)["refresh_token"]
        assert ask("mcp", "test", timeout=120).code == 0
        assert read_tokens(home)["refresh_token"] != before
        assert private.grants.count("refresh_token") >= count - 1
    assert "authorization_code" in private.grants
    assert private.control()["grants"][-1]["resource"] == private.url


def test_a_refused_token_is_refreshed_once(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    private.control(forget=1)
    assert ask("mcp", "test", timeout=120).code == 0
    assert private.grants == ["authorization_code", "refresh_token"]


@pytest.mark.slow
def test_concurrent_runs_refresh_once(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    private.control(forget=1)
    with ExitStack() as stack:
        runs = [stack.enter_context(ask.start("mcp", "test")) for _ in range(2)]
        assert [run.finish(120).code for run in runs] == [0, 0]
    assert private.grants == ["authorization_code", "refresh_token"]


@pytest.mark.slow
def test_a_revoked_sign_in_is_reported_with_the_command(
    ask: Ask, home: Home, server: ModelServer, private: OAuthServer
) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    private.control(revoke=1)
    server.reply(wire.calls(("web__whoami", {})), wire.says("done"))
    result = ask("hi", timeout=120)
    assert result.text == "done\n"
    assert "ask mcp login web" in result.stderr
    assert not offered(server.requests[0])
    tested = ask("mcp", "test", timeout=120)
    assert tested.code == 4
    assert private.grants.count("refresh_token") == 1, "a revoked token is not tried again"
    assert sign_in(ask).code == 0
    assert ask("mcp", "test", timeout=120).code == 0


def test_tokens_are_redacted(ask: Ask, home: Home, server: ModelServer, private: OAuthServer) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    _, [answer] = ask_with_calls(ask, server, [("read_file", {"filepath": str(state_file(home))})])
    assert "authorization_server" in answer
    for name in ("access_token", "refresh_token"):
        assert read_tokens(home)[name] not in answer


@pytest.mark.slow_after_first
@pytest.mark.parametrize("command", ["logout", "remove"])
def test_signing_out_revokes_the_refresh_token_first(command: str, ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    assert ask("mcp", "logout", "web").code == 2
    assert sign_in(ask).code == 0
    tokens = read_tokens(home)
    result = ask("mcp", command, "web")
    assert result.code == 0
    assert "remain valid" not in result.stderr
    assert private.control()["revoked"] == [tokens["refresh_token"], tokens["access_token"]]
    assert not state_file(home).exists()


def change_record(home: Home, section: str, **values: str | None) -> None:
    """Change a section of the saved sign-in."""
    record = json.loads(state_file(home).read_text())
    record[section] |= values
    state_file(home).write_text(json.dumps(record))


def test_the_client_authenticates_with_its_method_when_it_revokes(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    with ModelServer() as other:
        other.reply(Reply(), Reply())
        change_record(home, "authorization_server", revocation_endpoint=f"{other.base_url}/revoke")
        change_record(
            home, "client", client_id="a b", client_secret="s:e", token_endpoint_auth_method="client_secret_basic"
        )
        assert ask("mcp", "logout", "web").code == 0
    assert [request.headers["Authorization"] for request in other.requests] == ["Basic YSUyMGI6cyUzQWU="] * 2


@pytest.mark.slow_after_first
@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:9/revoke", "refuses"])
def test_a_sign_in_is_deleted_even_if_its_tokens_cannot_be_revoked(
    endpoint: str | None, ask: Ask, home: Home, private: OAuthServer
) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    with ModelServer() as other:
        other.reply(Reply(status=503), Reply(status=503))
        url = f"{other.base_url}/revoke" if endpoint == "refuses" else endpoint
        change_record(home, "authorization_server", revocation_endpoint=url)
        result = ask("mcp", "logout", "web")
    assert result.code == 0
    assert "may remain valid" in result.stderr
    assert not state_file(home).exists()


def test_a_refused_sign_in_is_reported(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    private.control(deny=1)
    result = sign_in(ask)
    assert result.code == 5
    assert "access_denied: not you" in result.stderr


@pytest.mark.slow
def test_a_web_page_cannot_end_the_sign_in(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    hostile = f"{sys.executable} {HERE.parent / 'login' / 'browser.py'} %s hostile"
    assert ask.process("mcp", "login", "web", env={"BROWSER": hostile}, timeout=120).code == 0
    assert read_tokens(home)


@pytest.mark.slow
def test_without_a_browser_the_address_is_pasted(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    with ask.start_on_terminal("mcp", "login", "--no-browser", "web") as login:
        login.wait_for("Redirected URL", 60)
        [page] = re.findall(r"http://\S+/authorize\?\S+", login.stdout.decode())
        with pytest.raises(urllib.error.HTTPError) as redirect:
            urllib.request.build_opener(KeepRedirect).open(page)
        login.type_in(redirect.value.headers["Location"] + "\n")
        assert login.finish(60).code == 0
    assert read_tokens(home)


def test_a_machine_signs_in_with_its_secret(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private, grant_type="client_credentials", client_id=MACHINE, issuer=private.origin)
    assert "ask keys set mcp:web" in ask("mcp", "test", timeout=120).text
    assert ask("keys", "set", "mcp:web", stdin=MACHINE_SECRET.encode()).code == 0
    for _ in range(2):
        assert ask("mcp", "test", timeout=120).code == 0
    assert private.grants == ["client_credentials"], "the token is kept"
    private.control(forget=1)
    assert ask("mcp", "test", timeout=120).code == 0
    assert ask("mcp", "login", "web").code == 2


def test_a_secret_is_sent_to_its_issuer_only(ask: Ask, home: Home, private: OAuthServer) -> None:
    oauth = {"grant_type": "client_credentials", "client_id": MACHINE, "client_secret": "$WEB_SECRET"}
    add(home, private, **oauth)
    assert "issuer" in ask("mcp", "list").stderr
    add(home, private, **oauth, issuer="https://auth.example.com")
    assert ask("mcp", "test", env={"WEB_SECRET": MACHINE_SECRET}, timeout=120).code == 4
    assert private.grants == []
    add(home, private, **oauth, issuer=private.origin)
    assert ask("mcp", "test", env={"WEB_SECRET": MACHINE_SECRET}, timeout=120).code == 0
    wrong = ask("mcp", "test", env={"WEB_SECRET": "another"}, timeout=120)
    assert wrong.code == 0, "the token of the right one is still valid"


def test_a_machine_signs_in_with_its_private_key(
    ask: Ask, home: Home, private: OAuthServer, private_key: ec.EllipticCurvePrivateKey
) -> None:
    path = home.path / "key.pem"
    add(home, private, private_key=str(path), client_id=MACHINE, issuer=private.origin)
    assert str(path) in ask("mcp", "test", timeout=120).text
    path.write_bytes(private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert ask("mcp", "test", timeout=120).code == 0
    assert private.grants == ["client_credentials"]


def test_a_required_sign_in_is_reported_even_if_an_older_protocol_is_refused_otherwise(ask: Ask, home: Home) -> None:
    with ModelServer() as other:
        other.reply(Reply(status=401, headers={"WWW-Authenticate": "Bearer"}), Reply(status=400))
        configure(home, {"web": {"url": f"{other.base_url}/mcp", "timeout": 60}})
        assert "ask mcp login web" in ask("mcp", "test", timeout=120).text


@pytest.mark.parametrize("uri", ["http://0.0.0.0:8400/callback", "http:///callback", "http://[bad/callback"])
def test_a_server_cannot_make_other_machines_reach_the_redirect_uri(uri: str) -> None:
    from ask.mcp.browser_sign_in import open_redirect_listener  # imports the SDK

    listener, redirect_uri = open_redirect_listener(ServerConfig("notes", Path()), {"redirect_uris": [uri]})
    with listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        assert redirect_uri.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_the_text_of_an_authorization_server_is_escaped(ask: Ask, home: Home) -> None:
    with ModelServer() as other:
        other.reply(Reply(status=401), *[Reply(status=404)] * 3, Reply((b"\x1b]52;c;eA==\x07",), status=400))
        configure(home, {"web": {"url": f"{other.base_url}/mcp", "timeout": 60}})
        result = ask.process("mcp", "login", "web", env=BROWSER)  # pytest handles the logs of its own process
    assert result.code == 5
    assert result.stderr == (
        "ask: cannot sign in to web: the sign-in failed (Registration failed: 400 \\x1b]52;c;eA==\\x07)\n"
    )


@pytest.mark.slow
def test_the_metadata_of_a_server_is_read_up_to_a_limit(ask: Ask, home: Home) -> None:
    with ModelServer() as other:
        metadata = Reply([b" " * 1_000_000] * 12, content_type="text/event-stream")
        other.reply(Reply(status=401), metadata, *[Reply(status=404)] * 9)
        configure(home, {"web": {"url": f"{other.base_url}/mcp", "timeout": 60}})
        assert sign_in(ask).code == 5
        assert len(other.requests) == 2


@pytest.mark.slow
def test_tokens_are_not_sent_to_another_url(ask: Ask, home: Home, private: OAuthServer) -> None:
    add(home, private)
    assert sign_in(ask).code == 0
    with ModelServer() as other:
        other.reply(Reply(status=401), Reply(status=401))
        configure(home, {"web": {"url": f"{other.base_url}/mcp", "timeout": 60}})
        assert ask("mcp", "test", timeout=120).code == 4
        assert not any("Authorization" in request.headers for request in other.requests)


@pytest.mark.slow
def test_tokens_are_not_refreshed_at_an_internal_address(ask: Ask, home: Home, private: OAuthServer) -> None:
    """The metadata of a server with a public address names an authorization server on this machine."""
    add(home, private)
    private.control(lifetime=5)  # less than the margin
    assert sign_in(ask).code == 0
    public = "https://93.184.215.14/mcp"
    state_file(home).write_text(state_file(home).read_text().replace(json.dumps(private.url), json.dumps(public)))
    assert read_tokens(home)["refresh_token"]
    configure(home, {"web": {"url": public, "timeout": 10}})
    result = ask("mcp", "test", timeout=120)
    assert (result.code, private.grants) == (4, ["authorization_code"])
    assert "127.0.0.1 is this machine" in result.text


@pytest.mark.slow
def test_a_server_without_sign_in_needs_none(ask: Ask, home: Home, sdk_port: int) -> None:
    configure(home, {"web": {"url": f"http://127.0.0.1:{sdk_port}/mcp", "timeout": 60}, "local": {"command": "cat"}})
    result = sign_in(ask)
    assert result.code == 0
    assert "did not require" in result.stderr
    assert ask("mcp", "login", "local").code == 2
