"""Signing in with ChatGPT, against a local authorization server that was written from OpenAI's pages."""

from __future__ import annotations

import json
import re
import signal
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import jwt
import pytest

from ask.client.oauth_requests import exchange_code, find_service
from ask.config.key_store import SIGN_IN_PROVIDERS
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.errors import ConfigError
from tests import responses_wire
from tests.authorization_server import PLAN_SCOPE, SCOPES, AuthorizationServer
from tests.login.conftest import BROWSER
from tests.mcp.test_sign_in import KeepRedirect
from tests.missing_packages import make_command_without
from tests.program import ASK, NO_COMPILED_FILES, Ask, Home, Result, run
from tests.slow_parameters import mark_others_slow


def sign_in(ask: Ask, *options: str) -> Result:
    return ask("login", "chatgpt", *options)


def login_file(home: Home) -> Path:
    return home.config / "logins" / "chatgpt.json"


def read_login(home: Home) -> Any:
    return json.loads(login_file(home).read_text())


def read_tokens(home: Home) -> dict[str, Any] | None:
    [account] = read_login(home)["accounts"]
    tokens: dict[str, Any] | None = account["tokens"]
    return tokens


def test_a_signed_in_user_asks(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    result = sign_in(ask)
    assert (result.code, result.stdout) == (0, b"")
    assert "me@example.org" in result.stderr
    [authorization] = openai.authorizations
    assert authorization["client_id"] == "dynamic_agent_client"
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", authorization["ext_agent_host_id"])
    assert [form["grant_type"] for form in openai.token_requests] == ["authorization_code"]
    assert stat.S_IMODE(login_file(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file(home).parent.stat().st_mode) == 0o700

    results = [ask("-p", "chatgpt", "-v", "hi"), ask("hi", "-c"), ask("-p", "chatgpt", "--no-stream", "hi")]
    assert [(each.code, each.text) for each in results] == [(0, "Hello from your plan.\n")] * 3
    for body in openai.prompts:
        responses_wire.check_request(body)
    [tools] = openai.prompts[0]["tools"]
    assert tools["type"] == "namespace"
    assert "bash" in [tool["name"] for tool in tools["tools"]]
    assert len(openai.token_requests) == 1

    results += [ask("login"), ask("keys"), ask("providers"), ask("doctor"), ask("models", "-p", "chatgpt")]
    assert json.loads(ask("keys", "--json").stdout) == [{"provider": "chatgpt", "from": "ask login"}]
    [account] = json.loads(ask("login", "--json").stdout)
    assert (account["account"], account["state"]) == ("me@example.org", "in use")
    assert {line.split("\t")[0] for line in results[-1].text.splitlines()} == {"gpt-6-luna", "gpt-6-sol"}
    tokens = read_tokens(home)
    assert tokens
    shown = "".join(result.text + result.stderr for result in results)
    stored = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file() and path != login_file(home))
    for name in ("access_token", "refresh_token"):
        assert tokens[name] not in shown
        assert tokens[name].encode() not in stored


@pytest.mark.parametrize("command", mark_others_slow(["ask", "map", "compare", "models"]))
def test_without_a_sign_in_the_command_is_named(command: str, ask: Ask, openai: AuthorizationServer) -> None:
    arguments = {
        "ask": ("-p", "chatgpt", "hi"),
        "map": ("map", "-p", "chatgpt", "{{line}}", "rows.txt"),
        "compare": ("compare", "-m", "chatgpt:a", "-m", "chatgpt:b", "hi"),
        "models": ("models", "-p", "chatgpt"),
    }[command]
    (ask.cwd / "rows.txt").write_text("a\n")
    result = ask(*arguments)
    assert result.code == 4
    assert "ask login chatgpt" in result.stderr
    assert openai.tokens_used == []


def test_an_expired_token_is_refreshed_and_the_rotated_one_kept(
    ask: Ask, home: Home, openai: AuthorizationServer
) -> None:
    sign_in(ask)
    before = read_tokens(home)
    for count in (1, 2):
        openai.expire()
        tokens = read_tokens(home)
        assert tokens
        login = read_login(home)
        login["accounts"][0]["tokens"]["expires_at"] = time.time() + 30
        login_file(home).write_text(json.dumps(login))
        assert ask("-p", "chatgpt", "hi").text == "Hello from your plan.\n"
        assert openai.refreshes == count
        assert read_tokens(home) != tokens
    assert before
    assert openai.tokens_used.count(before["access_token"]) == 0
    assert openai.token_requests[-1]["client_id"] == "oaiapp_1"
    assert stat.S_IMODE(login_file(home).stat().st_mode) == 0o600


def test_a_refused_token_is_refreshed_once(ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    openai.expire()  # before the time that the server has promised
    assert ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi").code == 0
    assert openai.refreshes == 1
    assert len(openai.tokens_used) == 2
    openai.lifetime = -1
    openai.expire()
    result = ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi")
    assert result.code == 6
    assert "ask login chatgpt" in result.stderr


@pytest.mark.parametrize("end", mark_others_slow(["revoked", "reused", "expired", "unknown"]))
def test_an_ended_sign_in_is_one_that_is_missing(end: str, ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    sign_in(ask)
    openai.expire()
    match end:
        case "revoked":
            openai.revoke()
        case "reused":
            openai.grants[0].spent.add(openai.grants[0].refresh)
        case "expired":
            openai.grants[0].refresh_expires_at = 0
        case "unknown":
            openai.grants.clear()
    result = ask("-p", "chatgpt", "hi")
    assert result.code == 4
    assert "ask login chatgpt" in result.stderr
    assert read_tokens(home) is None
    assert ask("-p", "chatgpt", "hi").code == 4
    assert openai.refreshes == 1
    assert sign_in(ask).code == 0
    assert [each["client_id"] for each in openai.authorizations] == ["dynamic_agent_client", "oaiapp_1"]
    assert len({each["ext_agent_host_id"] for each in openai.authorizations}) == 1


@pytest.mark.parametrize("status", mark_others_slow([500, 429, 403]))
def test_a_failure_of_the_server_keeps_the_sign_in(
    status: int, ask: Ask, home: Home, openai: AuthorizationServer
) -> None:
    sign_in(ask)
    tokens = read_tokens(home)
    openai.expire()
    home.configure("network.tries = 1\n")
    openai.token_error = (status, {"error": "server_error"})
    result = ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi")
    assert result.code == (4 if status == 403 else 5)
    assert read_tokens(home) == tokens
    openai.token_error = None
    assert ask("-p", "chatgpt", "hi").code == 0


def test_two_runs_at_once_refresh_once(ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    openai.expire()
    openai.token_delay = 0.5
    with ask.start("-p", "chatgpt", "hi") as first, ask.start("-p", "chatgpt", "hi") as second:
        assert [first.finish().code, second.finish().code] == [0, 0]
    assert openai.refreshes == 1


@pytest.mark.slow
def test_parallel_runs_wait_for_a_silent_server_once(ask: Ask, openai: AuthorizationServer) -> None:
    openai.lifetime = 45
    sign_in(ask)
    openai.token_delay, start = 20, time.monotonic()
    result = ask.shell(f"seq 4 | xargs -P 4 -I{{}} {ASK} -q --no-save hi{{}}", timeout=80)
    assert result.text.count("Hello from your plan.") == 4, result.stderr
    assert time.monotonic() - start < 25
    assert len(openai.token_requests) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("tools", [(), ("--tools",)])
def test_rows_share_a_refresh(tools: tuple[str, ...], ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    openai.expire()
    openai.token_delay = 0.2
    (ask.cwd / "rows.txt").write_text("".join(f"{number}\n" for number in range(8)))
    result = ask.process("map", "-p", "chatgpt", "-m", "gpt-6-sol", *tools, "{{line}}", "rows.txt", timeout=60)
    assert (result.code, result.text.count("Hello from your plan.")) == (0, 8)
    assert openai.refreshes == 1


@pytest.mark.slow
def test_the_sign_in_of_another_program_run_wins(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    """A chat keeps its tokens in memory. Meanwhile, another run has used up the refresh token."""
    sign_in(ask)
    with ask.start_on_terminal("chat", "-p", "chatgpt", "-m", "gpt-6-sol") as chat:
        chat.wait_for(">")
        openai.expire()
        assert ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi").code == 0
        chat.type_in("hello\r")
        chat.wait_for("Hello from your plan.")
        chat.type_in("\x04")
        chat.finish()
    assert openai.refreshes == 1
    assert not any(grant.is_revoked for grant in openai.grants)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGHUP, signal.SIGTERM)])
def test_signals_wait_until_new_tokens_are_saved(
    numbers: tuple[signal.Signals, ...], ask: Ask, home: Home, openai: AuthorizationServer
) -> None:
    sign_in(ask)
    openai.expire()
    openai.token_delay = 1.0
    installed = Ask(ask.env, ask.cwd, installed=True)
    with installed.start("-p", "chatgpt", "-m", "gpt-6-sol", "hi") as running:
        while not openai.refreshes:
            time.sleep(0.01)
        for number in numbers:
            running.signal(number)
            time.sleep(0.3)
        assert running.finish().code == 128 + numbers[0]
    tokens = read_tokens(home)
    assert tokens
    assert tokens["refresh_token"] == openai.grants[0].refresh
    openai.token_delay = 0
    assert ask("-p", "chatgpt", "hi").code == 0
    assert openai.refreshes == 1


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [8, 40])
def test_without_disk_space_no_token_is_spent(
    kilobytes: int, ask: Ask, home: Home, openai: AuthorizationServer
) -> None:
    sign_in(ask)
    if kilobytes > 8:  # other accounts take more than the new tokens
        login = read_login(home)
        login["accounts"].append({**login["accounts"][0], "client_id": "oaiapp_2", "label": "x" * 1_024 * kilobytes})
        login_file(home).write_text(json.dumps(login))
    before = read_login(home)
    openai.expire()
    result = ask.shell(f"ulimit -f {kilobytes}; ask -p chatgpt -m gpt-6-sol --no-save hi", NO_COMPILED_FILES)
    assert result.code == 9
    assert "chatgpt.json" in result.stderr
    assert openai.refreshes == 0
    assert read_login(home) == before
    assert [path.name for path in login_file(home).parent.iterdir()] == ["chatgpt.json"]


def test_a_linked_file_stays_linked_and_private(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    sign_in(ask)
    target = home.path / "dotfiles.json"
    login_file(home).rename(target)
    target.chmod(0o644)
    login_file(home).symlink_to(target)
    assert "chmod 600" in ask("doctor", "--offline").text
    openai.expire()
    assert ask("-p", "chatgpt", "hi").code == 0
    assert login_file(home).is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_damaged_file_is_reported(ask: Ask, home: Home) -> None:
    login_file(home).parent.mkdir(parents=True)
    login_file(home).write_text("{")
    for arguments in (("-p", "chatgpt", "hi"), ("login", "chatgpt"), ("login",), ("logout",)):
        result = ask(*arguments)
        assert result.code == 4
        assert "Traceback" not in result.stderr
    assert "damaged" in ask("doctor", "--offline").text


@pytest.mark.slow_after_first
@pytest.mark.parametrize("token", ["a\ud800", "a\nb", "a|b", "é"])
def test_saved_tokens_that_cannot_be_sent_are_none(token: str, ask: Ask, home: Home) -> None:
    sign_in(ask)
    for name in ("access_token", "refresh_token"):
        login = read_login(home)
        login["accounts"][0]["tokens"] |= {name: token, "expires_at": 0}
        login_file(home).write_text(json.dumps(login))
        result = ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi")
        assert result.code == 4
        assert "ask login chatgpt" in result.stderr


def test_other_files_are_no_sign_ins(ask: Ask, home: Home) -> None:
    sign_in(ask)
    copy = login_file(home).with_name("chatgpt.old.json")
    copy.write_bytes(login_file(home).read_bytes())
    [account] = json.loads(ask("login", "--json").stdout)
    assert account["provider"] == "chatgpt"
    assert ask("logout").code == 0
    assert read_tokens(home) is None


def test_a_cache_that_cannot_be_written_does_not_fail_the_sign_in(ask: Ask, home: Home) -> None:
    cache = home.path / "cache-file"
    cache.touch()
    blocked = Ask({**ask.env, "XDG_CACHE_HOME": str(cache)}, ask.cwd)
    assert [sign_in(blocked).code, blocked("logout").code] == [0, 0]


def test_a_missing_account_of_the_environment_is_named(ask: Ask) -> None:
    sign_in(ask)
    result = Ask({**ask.env, "CHATGPT_ACCOUNT": "my work"}, ask.cwd)("-p", "chatgpt", "hi")
    assert result.code == 4
    assert "ask login chatgpt --account 'my work'" in result.stderr
    assert "CHATGPT_ACCOUNT" in result.stderr


# Signing in


@pytest.mark.slow
def test_a_hostile_page_cannot_end_the_sign_in(ask: Ask, home: Home) -> None:
    hostile = Ask({**ask.env, "BROWSER": BROWSER.replace("%s", "%s hostile")}, ask.cwd, installed=True)
    result = sign_in(hostile)
    assert result.code == 0
    assert "Exception" not in result.stderr
    assert read_tokens(home)


def test_without_a_browser_the_url_is_pasted(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    def follow(shown: str) -> str:
        page = re.findall(r"http://\S+/authorize\?\S+", shown)[-1]
        with pytest.raises(urllib.error.HTTPError) as redirect:
            urllib.request.build_opener(KeepRedirect).open(page)
        location: str = redirect.value.headers["Location"]
        return location

    with ask.start_on_terminal("login", "chatgpt", "--no-browser") as login:
        login.wait_for("Redirected URL")
        url = follow(login.stdout.decode())
        login.type_in(f"  {url} \n")
        assert login.finish().code == 0
    tokens = read_tokens(home)
    assert tokens
    with ask.start_on_terminal("login", "chatgpt", "--no-browser") as login:
        login.wait_for("Redirected URL")
        login.type_in(f"{url}\n")  # of the first sign-in, whose state and code are used
        result = login.finish()
    assert result.code == 5
    assert "another sign-in" in result.text
    assert read_tokens(home) == tokens


@pytest.mark.parametrize("text", [b"http://[::1", b"\xff?state=\xff&code=1", b"cancel"])
def test_what_is_not_the_redirected_url_is_refused(text: bytes, ask: Ask, openai: AuthorizationServer) -> None:
    result = ask("login", "chatgpt", "--no-browser", stdin=text + b"\n")
    assert result.code == 5
    assert openai.token_requests == []


def test_a_code_is_exchanged_once(ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    [form] = openai.token_requests
    service = find_service("chatgpt", ask.env)
    with pytest.raises(ConfigError, match="invalid_grant"):
        exchange_code(service, form["client_id"], form["code"], form["code_verifier"], form["redirect_uri"])


@pytest.mark.parametrize("problem", mark_others_slow(["nonce", "alg", "declined", "no client"]))
def test_a_failed_sign_in_saves_nothing(problem: str, ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    match problem:
        case "nonce":
            openai.claims = {"nonce": "of another sign-in"}
        case "alg":
            openai.sign = lambda claims: jwt.encode(claims, "", algorithm="none")
        case "declined":
            openai.decline = True
        case "no client":
            openai.names_client = False
    result = sign_in(ask)
    assert result.code == (4 if problem == "declined" else 5)
    assert "Traceback" not in result.stderr
    assert read_login(home)["accounts"] == []
    assert ask("-p", "chatgpt", "hi").code == 4


@pytest.mark.slow
def test_a_plan_that_may_not_be_used_is_asked_for_again(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    openai.granted = SCOPES - {PLAN_SCOPE}
    result = sign_in(ask)
    assert result.code == 4
    assert read_tokens(home) is None
    assert len(openai.revoked) == 1
    assert ask("-p", "chatgpt", "hi").code == 4
    openai.granted = set(SCOPES)
    assert sign_in(ask).code == 0
    assert openai.authorizations[-1]["prompt"] == "consent"
    assert openai.authorizations[-1]["client_id"] == "oaiapp_1"
    assert sign_in(ask).code == 0
    assert "prompt" not in openai.authorizations[-1]


def test_another_account_in_the_browser_does_not_replace_the_first(
    ask: Ask, home: Home, openai: AuthorizationServer
) -> None:
    sign_in(ask)
    tokens = read_tokens(home)
    openai.user = {"sub": "user-2", "email": "other@example.org"}
    result = sign_in(ask)
    assert result.code == 4
    assert "--account" in result.stderr
    assert read_tokens(home) == tokens
    assert openai.revoked[-1]["token"] == openai.grants[-1].refresh


@pytest.mark.slow
def test_accounts_are_kept_apart(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    sign_in(ask)
    openai.user = {"sub": "user-2", "email": "me@example.org"}
    assert sign_in(ask, "--account", "work").code == 0
    first, second = (grant.access for grant in openai.grants)

    def used(**env: str) -> bool:
        assert ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi", env=env).code == 0
        return openai.tokens_used[-1] in second

    assert used()
    assert not used(CHATGPT_ACCOUNT="me@example.org")
    assert ask("-p", "chatgpt", "hi", env={"CHATGPT_ACCOUNT": "typo"}).code == 4
    assert sign_in(ask, "--use", "me@example.org").code == 0
    assert not used()
    assert sign_in(ask, "--use", "typo").code == 4
    assert first

    assert ask("logout", "--account", "work").code == 0
    assert [form["token"] for form in openai.revoked] == [openai.grants[1].refresh]
    assert sign_in(ask, "--use", "work").code == 4
    assert not used()
    assert ask("logout", "--all", "--forget").code == 0
    login = read_login(home)
    assert (login["accounts"], login["current"]) == ([], "")
    assert login["host_id"] == openai.authorizations[0]["ext_agent_host_id"]
    assert ask("logout").code == 2


def test_logout_without_the_server_says_so(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    sign_in(ask)
    login = read_login(home)
    login["accounts"][0]["issuer"] = "http://127.0.0.1:9"
    login_file(home).write_text(json.dumps(login))
    assert ask("-p", "chatgpt", "hi").code == 4, "its tokens are not sent to another server"
    assert openai.tokens_used == []
    result = ask("logout")
    assert result.code == 0
    assert "remain valid" in result.stderr
    assert read_tokens(home) is None


@pytest.mark.slow
def test_the_keyring_can_have_the_tokens(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    env = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
    ask = Ask({**ask.env, **env}, ask.cwd)
    assert sign_in(ask, "--keyring").code == 0
    assert read_tokens(home) is None
    openai.expire()
    assert ask("-p", "chatgpt", "hi").text == "Hello from your plan.\n"
    assert openai.refreshes == 1
    assert ask("-p", "chatgpt", "hi").code == 0
    assert openai.refreshes == 1
    refresh_token = openai.grants[0].refresh
    assert refresh_token not in login_file(home).read_text()
    assert ask("logout").code == 0
    assert openai.revoked[-1]["token"] == refresh_token
    assert ask("-p", "chatgpt", "hi").code == 4


FAILING_KEYRING = """
import os
from keyrings.alt.file import PlaintextKeyring
class Keyring(PlaintextKeyring):
    def set_password(self, service, user, password):
        if "KEYRING_FAILS" in os.environ:
            raise OSError(f"cannot save {password}")
        super().set_password(service, user, password)
"""


@pytest.mark.slow
def test_tokens_that_the_keyring_refuses_last_for_the_run(ask: Ask, openai: AuthorizationServer) -> None:
    (ask.cwd / "failing.py").write_text(FAILING_KEYRING)
    env = {**ask.env, "PYTHONPATH": str(ask.cwd), "PYTHON_KEYRING_BACKEND": "failing.Keyring"}
    assert Ask(env, ask.cwd).process("login", "chatgpt", "--keyring").code == 0
    openai.expire()  # before the time that the server has promised
    openai.lifetime = 30  # the next request needs another refresh
    result = Ask({**env, "KEYRING_FAILS": "1"}, ask.cwd).process("-p", "chatgpt", "hi")
    assert (result.code, result.text) == (0, "Hello from your plan.\n")
    assert "ask login chatgpt" in result.stderr
    assert openai.refreshes > 1
    assert openai.grants[0].refresh not in result.stderr
    for path in ask.cwd.parent.rglob("*.cfg"):  # someone has emptied the keyring
        path.unlink()
    result = Ask(env, ask.cwd).process("-p", "chatgpt", "hi")
    assert result.code == 4
    assert "ask login chatgpt" in result.stderr


def test_a_port_in_use_is_named(ask: Ask, openai: AuthorizationServer) -> None:
    port = openai.issuer.rpartition(":")[2]
    result = sign_in(ask, "--port", port)
    assert result.code == 4
    assert port in result.stderr
    assert openai.authorizations == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("login", "openai"), 2),
        (("login", "chatgtp"), 2),
        (("login", "--keyring"), 2),
        (("login", "chatgpt", "--json"), 2),
        (("keys", "set", "chatgpt"), 2),
        (("logout",), 2),
    ],
)
def test_other_uses_name_the_right_command(arguments: tuple[str, ...], code: int, ask: Ask) -> None:
    result = ask(*arguments)
    assert result.code == code
    assert re.search(r"ask (?:keys|login)|chatgpt\?", result.stderr)


def test_an_authorization_server_must_use_https(ask: Ask) -> None:
    result = ask("login", "chatgpt", env={"CHATGPT_ISSUER": "http://example.org"})
    assert result.code == 4
    assert "CHATGPT_ISSUER" in result.stderr


def test_without_the_extra_its_command_is_named(ask: Ask, home: Home, openai: AuthorizationServer) -> None:
    result = run([*make_command_without("jwt", home), "login", "chatgpt"], env=ask.env, cwd=ask.cwd)
    assert result.code == 3
    assert "[login]" in result.stderr or "PyJWT" in result.stderr
    assert openai.authorizations == []


@pytest.mark.slow
def test_a_run_does_not_import_the_jwt_library(ask: Ask) -> None:
    sign_in(ask)
    script = "python -X importtime -m ask -p chatgpt -m gpt-6-sol hi 2>&1 >/dev/null | grep -cE '\\| +(jwt|asyncio)'"
    assert ask.shell(script).text == "0\n"


def test_the_names_of_the_providers_agree() -> None:
    assert tuple(SIGN_IN_SERVICES) == SIGN_IN_PROVIDERS


# Answers of the service


@pytest.mark.parametrize(
    "refusal",
    mark_others_slow(
        [
            ("subscription_sharing_usage_limit_exceeded", 429, True, "chatgpt.com/settings/usage"),
            ("subscription_sharing_usage_limit_exceeded", 429, False, "chatgpt.com/settings/usage"),
            ("subscription_sharing_user_not_eligible", 403, False, "Plus or Pro"),
            ("subscription_sharing_unsupported_capability", 400, False, "do not support"),
            ("chatpass_v2_scope_not_authorized", 403, False, "ask login chatgpt"),
            ("subscription_sharing_invalid_user", 401, False, "ask login chatgpt"),
        ]
    ),
)
def test_limits_and_refusals_of_the_plan(
    refusal: tuple[str, int, bool, str], ask: Ask, openai: AuthorizationServer
) -> None:
    code, status, in_stream, shown = refusal
    sign_in(ask)
    openai.api_error = (200 if in_stream else status, {"code": code, "message": "The reason.", "param": None})
    result = ask("-p", "chatgpt", "-m", "gpt-6-sol", "hi")
    assert result.code == 6
    assert shown in result.stderr
    assert f"chatgpt, {status}" in result.stderr
    assert len(openai.prompts) == (2 if status == 401 else 1)


def test_tools_are_called_in_a_namespace(ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    call = responses_wire.call("bash", {"command": "echo 42"}, namespace="ask")
    openai.answers = [responses_wire.response(call), responses_wire.response(responses_wire.message("It is 42."))]
    result = ask("-p", "chatgpt", "-m", "gpt-6-sol", "-y", "how much?")
    assert (result.code, result.text) == (0, "It is 42.\n")
    items = openai.prompts[1]["input"]
    [sent] = [item for item in items if item.get("type") == "function_call"]
    assert (sent["namespace"], sent["name"]) == ("ask", "bash")
    responses_wire.check_request(openai.prompts[1])


def test_an_option_that_plans_refuse_is_not_sent(ask: Ask, openai: AuthorizationServer) -> None:
    sign_in(ask)
    assert ask("-p", "chatgpt", "-m", "gpt-6-sol", "-o", "temperature=0.2", "hi").code == 7
    assert openai.prompts == []


def test_the_end_of_stdin_is_not_a_silent_end(ask: Ask) -> None:
    result = ask("login", "chatgpt", "--no-browser")
    assert (result.code, "stdin" in result.stderr) == (2, True), result.stderr
