"""`ask doctor`: what it checks, which problems it finds, and the fixes it suggests."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests import wire
from tests.history.test_store import locked
from tests.model_server import HOLD, ModelServer, Repeat, Reply
from tests.program import TEST_KEY, Ask, Home, Result, run
from tests.third_party_plugins import install, install_provider

MODELS = wire.whole_reply({"data": [{"id": "a"}, {"id": "b"}]})
LOCAL = """
[providers.one]
base_url = "{url}"
"""


class Findings:
    """State, finding and fix by check, as printed by one run."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.rows = json.loads(result.text)

    def __getitem__(self, check: str) -> tuple[str, str, str]:
        found = [(row["state"], row["found"], row["fix"]) for row in self.rows if row["check"] == check]
        assert len(found) == 1, f"{check}: {found}"
        return found[0]

    def problems(self) -> list[str]:
        return [row["check"] for row in self.rows if row["state"] == "problem"]

    def warnings(self) -> list[str]:
        return [row["check"] for row in self.rows if row["state"] == "warning"]


def examine(ask: Ask, *options: str, **env: str) -> Findings:
    """Run the doctor; check that its report and exit code agree and contain no key."""
    result = ask("doctor", "--json", *options, env={"SHELL": "/bin/bash", **env})
    findings = Findings(result)
    count = len(findings.problems())
    summary = "" if not count else "ask: 1 problem " if count == 1 else f"ask: {count} problems "
    assert result.stderr.startswith(summary)
    assert result.stderr.count("\n") == (1 if count else 0)
    assert result.code == (4 if count else 0)
    assert all(row["fix"] for row in findings.rows if row["state"] not in ("ok", "note"))
    assert {row["state"] for row in findings.rows} <= {"ok", "note", "warning", "problem"}
    assert TEST_KEY not in result.text
    return findings


def test_a_reachable_provider_with_a_key_has_no_problems(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    findings = examine(ask)
    assert findings.problems() == []
    state, found, fix = findings["openrouter"]
    assert (state, fix) == ("ok", "")
    assert all(text in found for text in ("OpenRouter (ask-gents)", "OPENROUTER_API_KEY", "2 models"))
    assert findings["default"][0] == "ok"
    assert all(text in findings["default"][1] for text in ("anthropic/", "openrouter"))
    assert findings["other providers"][0] == "note"
    assert "openai" in findings["other providers"][1]
    assert "ask keys set" in findings["other providers"][2]
    assert findings["demo"][0] == "ok"
    assert findings["python"][1].startswith("3.")
    assert findings["PATH"][0] == "ok"
    sent = [(request.method, request.path) for request in server.requests]
    assert sent == [("GET", "/api/v1/models"), ("GET", "/api/v1/key")], "and nothing that costs anything"


def test_doctor_changes_no_file(ask: Ask, home: Home) -> None:
    examine(ask, "--offline")
    assert [path.name for path in home.files] == ["plugins.json"]


def test_a_missing_key_is_a_problem(home: Home) -> None:
    findings = examine(Ask(home.env, home.work), "--offline")
    assert findings.problems() == ["default"]
    assert "ask keys set openrouter" in findings["default"][2]


def test_offline_sends_no_requests(ask: Ask, server: ModelServer) -> None:
    findings = examine(ask, "--offline")
    state, found, _ = findings["openrouter"]
    assert state == "ok"
    assert "OPENROUTER_API_KEY" in found
    assert server.requests == []


# Providers


@pytest.mark.parametrize(
    ("reply", "expected", "fix"),
    [
        (wire.fails(401, f"bad key {TEST_KEY}"), "401", "check the key"),
        (wire.fails(500, "down"), "500", "later"),
        (Reply((b"<html>",), content_type="text/html"), "openrouter", ""),
        (wire.whole_reply({"data": []}), "answers", ""),
    ],
)
def test_the_response_of_a_provider_is_reported(
    ask: Ask, server: ModelServer, reply: Reply, expected: str, fix: str
) -> None:
    server.reply(reply)
    state, found, hint = examine(ask)["openrouter"]
    assert state == ("ok" if expected == "answers" else "problem")
    assert expected in found
    assert fix in hint
    assert len(server.requests) == (2 if expected == "answers" else 1)


@pytest.mark.parametrize(("status", "state"), [(401, "problem"), (403, "problem"), (404, "ok")])
def test_a_key_that_the_public_models_list_does_not_check_is_checked(
    ask: Ask, server: ModelServer, status: int, state: str
) -> None:
    server.reply(MODELS, wire.fails(status, "User not found."))
    found_state, found, hint = examine(ask)["openrouter"]
    assert (found_state, str(status) in found, "check the key" in hint) == (state, state != "ok", status == 401)


@pytest.mark.slow
def test_unresponsive_providers_are_checked_in_parallel(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)), Reply((HOLD,)), Reply((Repeat(b"x"),)))
    tables = (f"[providers.p{number}]\nbase_url = '{server.base_url}'\n" for number in range(8))
    home.configure("provider = 'p1'\n" + "".join(tables))
    start = time.monotonic()
    findings = examine(ask)
    assert time.monotonic() - start < 10, "not one after the other, nor as long as a question would wait"
    assert [name for name in findings.problems() if name != "default"] == ["openrouter", *(f"p{n}" for n in range(8))]
    problems = [row["found"] for row in findings.rows if row["state"] == "problem"]
    assert len([found for found in problems if "127.0.0.1" in found]) == 9


def test_a_stopped_local_server_that_is_not_used_is_no_problem(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    findings = examine(ask)
    assert findings["lmstudio"][0] == "ok" or "lists" in findings["lmstudio"][1]
    used = examine(ask, LMSTUDIO_BASE_URL="http://127.0.0.1:1/v1")
    assert used["lmstudio"][0] == "problem"
    assert "connection refused" in used["lmstudio"][1]
    assert "lms server start" in used["lmstudio"][2]


@pytest.mark.slow
def test_plugins_are_listed_with_their_distribution_and_load_error(ask: Ask, home: Home) -> None:
    packages = home.path / "packages"
    install_provider(packages, "good")
    install_provider(packages, "bad", "raise RuntimeError('out of order')")
    install(packages, "ask-twin", {"good2": "ask_good:provider", "demo": "ask_good:provider"}, {})
    findings = examine(ask, "--offline", PYTHONPATH=str(packages))
    assert findings.problems() == ["bad", "good2"]
    assert "(ask-bad)" in findings["bad"][1]
    assert "RuntimeError: out of order" in findings["bad"][1]
    assert all(text in findings["good2"][1] for text in ("ask-twin", "named good2", "'good'"))
    assert "ask-gents" in findings["demo"][1]
    assert findings["good"][1].startswith("good (ask-good)")


@pytest.mark.slow
def test_failing_plugins_are_a_problem(ask: Ask, home: Home) -> None:
    source = """
    from ask import ChatCompletions
    class Odd(ChatCompletions):
        def provider_models_request(self, key):
            raise ZeroDivisionError("odd")
    provider = Odd(name="odd", base_url="http://127.0.0.1:9/v1", needs_key=False, default_model="m")
    """
    install_provider(home.path / "packages", "odd", source)
    found = examine(ask, PYTHONPATH=str(home.path / "packages"), ODD_BASE_URL="http://127.0.0.1:9/v1")["odd"]
    assert found[0] == "problem"
    assert "ZeroDivisionError" in found[1]


# Configuration and keys


@pytest.mark.parametrize("text", ["model = ", "model = 1", "[[tools]]"])
def test_other_checks_run_with_an_invalid_config_toml(ask: Ask, home: Home, text: str) -> None:
    home.configure(text)
    (home.config / "keys.toml").write_text("openai = 1")
    findings = examine(ask, "--offline")
    assert findings.problems() == ["config.toml", "keys.toml"]
    assert "ask config edit" in findings["config.toml"][2]
    assert "openai" in findings["keys.toml"][1]
    assert findings["default"][0] == "ok"


def test_an_invalid_switch_variable_is_a_problem(ask: Ask) -> None:
    findings = examine(ask, "--offline", ASK_SAFE="maybe")
    assert findings.problems() == ["ASK_SAFE"]


def test_unknown_keys_and_names_are_warnings(ask: Ask, home: Home) -> None:
    home.configure("stdin_limt = 1\ntools.disabled = ['bsh']\n")
    keys = home.config / "keys.toml"
    keys.write_text(f"stranger = '{TEST_KEY}'\n")
    keys.chmod(0o644)
    findings = examine(ask, "--offline")
    assert findings.problems() == []
    others = [check for check in findings.warnings() if check != "safe mode"]  # not available on every machine
    assert others == ["config.toml", "keys.toml", "keys.toml", "tools"]
    text = findings.result.text
    assert all(
        expected in text for expected in ("mean stdin_limit?", f"chmod 600 {keys}", "ask keys remove stranger", "bsh")
    )


def test_fallbacks_are_checked_like_the_default(ask: Ask, home: Home) -> None:
    home.configure('provider = "demo"\nfallback = ["openrouter:a/model"]')
    assert "a/model" in examine(ask, "--offline")["fallback"][1]
    findings = examine(Ask(home.env, home.work), "--offline")
    assert findings.problems() == ["default"]
    assert "openrouter:a/model" in findings["default"][1]


def test_an_unknown_default_provider_is_a_problem(ask: Ask, home: Home) -> None:
    home.configure("provider = 'opnrouter'\n")
    findings = examine(ask, "--offline")
    assert findings.problems() == ["default"]
    assert "did you mean openrouter?" in findings["default"][2]


def test_a_selected_provider_without_a_key_is_a_problem(ask: Ask) -> None:
    findings = examine(ask, "--offline", ASK_PROVIDER="openai")
    assert findings.problems() == ["default", "openai"]


# Files and the shell


@pytest.mark.slow
def test_jobs_of_map_are_counted(ask: Ask, home: Home) -> None:
    (home.work / "rows.txt").write_text("a\n")
    ask("map", "-p", "demo", "{{line}}?", "rows.txt")
    state, found, fix = examine(ask, "--offline")["map"]
    assert (state, fix) == ("ok", "ask map --list shows them")
    assert found.startswith("1 job in ")
    (home.data / "map.db").write_bytes(b"not a database" * 100)
    assert examine(ask, "--offline")["map"][0] == "problem"


def test_a_sign_in_to_a_server_that_is_gone_is_reported(ask: Ask, home: Home) -> None:
    path = home.config / "sign-ins" / "gone.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"tokens": {"access_token": "secret-token-0123"}}')
    state, found, fix = examine(ask, "--offline")["sign-ins"]
    assert (state, fix) == ("warning", f"delete {path}")
    assert "gone" in found


@pytest.mark.slow
def test_damage_to_the_history_is_reported(ask: Ask, home: Home) -> None:
    assert examine(ask, "--offline")["history"][0] == "ok"
    ask("-p", "demo", "hi")
    state, found, _ = examine(ask, "--offline")["history"]
    assert state == "ok"
    assert re.fullmatch(r"1 conversation in \S+ KB", found)
    with locked(home.data / "history.db"):
        assert examine(ask, "--offline")["history"][0] == "ok"
    (home.data / "history.db").chmod(0o644)
    state, readable, fix = examine(ask, "--offline")["history"]
    assert (state, fix) == ("warning", f"run chmod 600 {home.data}/history.db")
    assert readable.startswith(found)
    whole = (home.data / "history.db").read_bytes()
    damaged_page = whole[:8192] + bytes(4096) + whole[12288:]
    for content in (damaged_page, b"this is no history, whatever its name says" * 100):
        (home.data / "history.db").write_bytes(content)
        state, found, _ = examine(ask, "--offline")["history"]
        assert state == "problem"
        assert "damaged" in found


def test_unusable_folders_are_problems_or_warnings(ask: Ask, home: Home) -> None:
    (home.path / "file").touch()
    place = str(home.path / "file")
    findings = examine(ask, "--offline", XDG_DATA_HOME=place, XDG_CACHE_HOME=place)
    assert findings["data folder"][0] == "problem"
    assert findings["cache folder"][0] == "warning"
    assert findings["config folder"][0] == "ok"


@pytest.mark.slow
def test_the_line_that_enables_the_shell_integration_is_printed(ask: Ask) -> None:
    for shell, line in [("bash", 'eval "$(ask init bash)"'), ("zsh", 'eval "$(ask init zsh)"'), ("fish", "| source")]:
        state, found, fix = examine(ask, "--offline", SHELL=f"/usr/bin/{shell}")["shell"]
        assert state == "note"
        assert "not enabled" in found
        assert line in fix
    assert "is enabled" in examine(ask, "--offline", ASK_SESSION="x")["shell"][1]
    assert "bash, zsh, fish" in examine(ask, "--offline", SHELL="/bin/tcsh")["shell"][1]


@pytest.mark.slow
def test_missing_and_outdated_completions_are_reported(ask: Ask, home: Home) -> None:
    assert "ask init bash --install" in examine(ask, "--offline")["completions"][2]
    assert ask("init", "bash", "--install").code == 0
    state, found, _ = examine(ask, "--offline")["completions"]
    assert state == "ok"
    with Path(found).open("a") as file:
        file.write("# of yesterday\n")
    assert examine(ask, "--offline")["completions"][0] == "warning"


@pytest.mark.slow
def test_an_installation_that_is_not_on_path_is_a_warning(ask: Ask, home: Home) -> None:
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ask").write_text("#!/bin/sh\n")
    (elsewhere / "ask").chmod(0o755)
    ask = replace(ask, installed=True)
    state, found, _ = examine(ask, "--offline", PATH=f"{elsewhere}:{home.env['PATH']}")["PATH"]
    assert state == "warning"
    assert f"{elsewhere}/ask" in found
    assert examine(ask, "--offline", PATH="/usr/bin:/bin")["PATH"][0] == "warning"


# Output format


@pytest.mark.slow
def test_terminal_output_contains_fixes_and_is_not_truncated(ask: Ask) -> None:
    shown = ask.on_terminal("doctor", "--offline").text
    assert re.match(r"STATE +CHECK +FOUND\n", shown)
    assert all(len(line) <= 80 for line in shown.splitlines() if "/" not in line), "paths are not broken"
    assert re.search(r"other providers .*openai.*: no key: ask keys set PROVIDER", " ".join(shown.split()))
    assert "…" not in shown


def test_piped_output_has_four_columns(ask: Ask) -> None:
    assert all(line.count("\t") == 3 for line in ask("doctor", "--offline").text.splitlines())


def test_invalid_arguments_are_a_usage_error(ask: Ask) -> None:
    result = ask("doctor", "who")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert "ask -- doctor who" in result.stderr


@pytest.mark.slow
def test_doctor_runs_with_a_minimal_environment(home: Home) -> None:
    bare = {"PATH": home.env["PATH"], "HOME": str(home.path / "none"), "LC_ALL": "C"}
    result = run(["ask", "doctor", "--offline", "--json"], env=bare, cwd=home.work)
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert Findings(result).problems() == ["default"]
