"""`ask doctor`: what is looked at, what is found broken, and what is said to be done about it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer, Repeat, Reply
from tests.program import TEST_KEY, Ask, Home, Result, run
from tests.strangers import install, install_provider

MODELS = wire.whole_reply({"data": [{"id": "a"}, {"id": "b"}]})
LOCAL = """
[providers.one]
base_url = "{url}"
"""


class Findings:
    """What a run found: state, words and fix by check."""

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
    """Run the doctor; see that what it says and its exit code fit together, and that no key is shown."""
    result = ask("doctor", "--json", *options, env={"SHELL": "/bin/bash", **env})
    findings = Findings(result)
    count = len(findings.problems())
    told = {0: "", 1: "ask: 1 problem was found: what to do stands beside each\n"}
    assert result.stderr == told.get(count, f"ask: {count} problems were found: what to do stands beside each\n")
    assert result.code == (4 if count else 0)
    assert all(row["fix"] for row in findings.rows if row["state"] != "ok")
    assert {row["state"] for row in findings.rows} <= {"ok", "warning", "problem"}
    assert TEST_KEY not in result.text
    return findings


def configure(home: Home, text: str) -> None:
    home.config.mkdir(exist_ok=True)
    (home.config / "config.toml").write_text(text)


def test_all_is_well_where_a_provider_has_a_key_and_answers(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    findings = examine(ask)
    assert findings.problems() == []
    assert findings["openrouter"] == (
        "ok",
        "OpenRouter (ask-gents), key from OPENROUTER_API_KEY, lists 2 models",
        "",
    )
    assert findings["default"][:2] == ("ok", "~anthropic/claude-sonnet-latest of openrouter")
    assert findings["openai"][:2] == ("ok", "OpenAI (ask-gents), no key")
    assert "ask keys set openai" in findings["openai"][2]
    assert findings["demo"][0] == "ok"
    assert findings["grok"] == ("ok", "another name of xai", "")
    assert findings["python"][1].startswith("3.")
    assert findings["PATH"][0] == "ok"
    (request,) = server.requests
    assert (request.method, request.path) == ("GET", "/api/v1/models"), "and nothing that costs anything"


def test_nothing_is_made_or_changed(ask: Ask, home: Home) -> None:
    examine(ask, "--offline")
    assert [path.name for path in home.path.rglob("*") if path.is_file()] == ["plugins.json"]


def test_without_any_key_there_is_nothing_to_ask(home: Home) -> None:
    findings = examine(Ask(home.env, home.work), "--offline")
    assert findings.problems() == ["default"]
    assert "ask keys set openrouter" in findings["default"][2]


def test_offline_no_provider_is_asked(ask: Ask, server: ModelServer) -> None:
    findings = examine(ask, "--offline")
    assert findings["openrouter"][:2] == ("ok", "OpenRouter (ask-gents), key from OPENROUTER_API_KEY, not asked")
    assert server.requests == []


# Providers


@pytest.mark.parametrize(
    ("reply", "told", "fix"),
    [
        (wire.fails(401, f"bad key {TEST_KEY}"), "401", "check the key"),
        (wire.fails(500, "down"), "500", "later"),
        (Reply((b"<html>",), content_type="text/html"), "openrouter", ""),
        (wire.whole_reply({"data": []}), "answers", ""),
    ],
)
def test_what_a_provider_answers_is_told(ask: Ask, server: ModelServer, reply: Reply, told: str, fix: str) -> None:
    server.reply(reply)
    state, found, advice = examine(ask)["openrouter"]
    assert state == ("ok" if told == "answers" else "problem")
    assert told in found
    assert fix in advice
    assert len(server.requests) == 1


def test_providers_that_never_answer_keep_nobody_waiting(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)), Reply((HOLD,)), Reply((Repeat(b"x"),)))
    tables = (f"[providers.p{number}]\nbase_url = '{server.base_url}'\n" for number in range(8))
    configure(home, "provider = 'p1'\n" + "".join(tables))
    start = time.monotonic()
    findings = examine(ask)
    assert time.monotonic() - start < 10, "not one after the other, nor as long as a question would wait"
    assert [name for name in findings.problems() if name != "default"] == ["openrouter", *(f"p{n}" for n in range(8))]
    told = [row["found"] for row in findings.rows if row["state"] == "problem"]
    assert sum("made no progress" in found for found in told) == 9


def test_a_server_of_one_s_own_that_nobody_uses_may_be_off(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    findings = examine(ask)
    assert findings["lmstudio"][0] == "ok" or "lists" in findings["lmstudio"][1]
    used = examine(ask, LMSTUDIO_BASE_URL="http://127.0.0.1:1/v1")
    assert used["lmstudio"][0] == "problem"
    assert "connection refused" in used["lmstudio"][1]
    assert "lms server start" in used["lmstudio"][2]


def test_plugins_are_named_with_their_distribution_and_why_they_do_not_load(ask: Ask, home: Home) -> None:
    packages = home.path / "packages"
    install_provider(packages, "good")
    install_provider(packages, "bad", "raise RuntimeError('out of order')")
    install(packages, "ask-twin", {"good2": "ask_good:provider", "demo": "ask_good:provider"}, {})
    findings = examine(ask, "--offline", PYTHONPATH=str(packages))
    assert findings.problems() == ["bad", "demo"]
    assert "(ask-bad)" in findings["bad"][1]
    assert "RuntimeError: out of order" in findings["bad"][1]
    assert all(name in findings["demo"][1] for name in ("ask-gents", "ask-twin", "both have a provider named demo"))
    assert findings["good"][1].startswith("good (ask-good)")


def test_a_plugin_that_fails_while_it_is_asked_is_a_finding(ask: Ask, home: Home) -> None:
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
def test_a_config_toml_that_is_not_valid_leaves_the_rest_to_be_looked_at(ask: Ask, home: Home, text: str) -> None:
    configure(home, text)
    (home.config / "keys.toml").write_text("openai = 1")
    findings = examine(ask, "--offline")
    assert findings.problems() == ["config.toml", "keys.toml"]
    assert findings["config.toml"][2] == "correct it with ask config edit"
    assert "openai must be a string" in findings["keys.toml"][1]
    assert findings["default"][0] == "ok"


def test_a_variable_that_is_neither_on_nor_off_is_a_problem(ask: Ask) -> None:
    findings = examine(ask, "--offline", ASK_SAFE="maybe")
    assert findings.problems() == ["ASK_SAFE"]


def test_what_is_odd_in_the_configuration_is_a_warning(ask: Ask, home: Home) -> None:
    configure(home, "modle = 'x'\ntools.disabled = ['bsh']\n")
    keys = home.config / "keys.toml"
    keys.write_text(f"stranger = '{TEST_KEY}'\n")
    keys.chmod(0o644)
    findings = examine(ask, "--offline")
    assert findings.problems() == []
    others = [check for check in findings.warnings() if check != "safe mode"]  # which not every machine has
    assert others == ["config.toml", "keys.toml", "keys.toml", "tools"]
    text = findings.result.text
    assert all(told in text for told in ("did you mean model?", f"chmod 600 {keys}", "ask keys remove stranger", "bsh"))


def test_a_default_provider_that_there_is_not_is_a_problem(ask: Ask, home: Home) -> None:
    configure(home, "provider = 'opnrouter'\n")
    findings = examine(ask, "--offline")
    assert findings.problems() == ["default"]
    assert "did you mean openrouter?" in findings["default"][2]


def test_a_chosen_provider_without_a_key_is_a_problem(ask: Ask) -> None:
    findings = examine(ask, "--offline", ASK_PROVIDER="openai")
    assert findings.problems() == ["default", "openai"]


# Files and the shell


def test_the_history_is_counted_or_its_damage_told(ask: Ask, home: Home) -> None:
    assert examine(ask, "--offline")["history"][1] == "no conversation is saved yet"
    ask("-p", "demo", "hi")
    state, found, _ = examine(ask, "--offline")["history"]
    assert state == "ok"
    assert re.fullmatch(r"1 conversation in \S+ bytes", found)
    (home.data / "history.db").chmod(0o644)
    assert examine(ask, "--offline")["history"] == (
        "warning",
        f"{found}; others can read it",
        f"chmod 600 {home.data}/history.db",
    )
    (home.data / "history.db").write_bytes(b"this is no history, whatever its name says" * 100)
    state, found, fix = examine(ask, "--offline")["history"]
    assert (state, fix) == ("problem", "move it away, and a new one is made")
    assert "is damaged" in found


def test_folders_that_cannot_be_used_are_told_as_bad_as_that_is(ask: Ask, home: Home) -> None:
    (home.path / "file").touch()
    place = str(home.path / "file")
    findings = examine(ask, "--offline", XDG_DATA_HOME=place, XDG_CACHE_HOME=place)
    assert findings["data folder"][0] == "problem"
    assert findings["cache folder"][0] == "warning"
    assert findings["config folder"][0] == "ok"


def test_the_shell_part_is_told_with_the_line_that_switches_it_on(ask: Ask) -> None:
    for shell, line in [("bash", 'eval "$(ask init bash)"'), ("zsh", 'eval "$(ask init zsh)"'), ("fish", "| source")]:
        state, found, fix = examine(ask, "--offline", SHELL=f"/usr/bin/{shell}")["shell"]
        assert (state, found) == ("ok", "the integration is off")
        assert line in fix
    assert "is on" in examine(ask, "--offline", ASK_SESSION="x")["shell"][1]
    assert "bash, zsh, fish" in examine(ask, "--offline", SHELL="/bin/tcsh")["shell"][1]


def test_completions_are_told_with_how_to_have_them(ask: Ask, home: Home) -> None:
    assert examine(ask, "--offline")["completions"][2] == "ask init bash --install does it"
    assert ask("init", "bash", "--install").code == 0
    state, found, _ = examine(ask, "--offline")["completions"]
    assert state == "ok"
    with Path(found).open("a") as file:
        file.write("# of yesterday\n")
    assert examine(ask, "--offline")["completions"][0] == "warning"


def test_an_ask_that_no_shell_finds_is_a_warning(ask: Ask, home: Home) -> None:
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ask").write_text("#!/bin/sh\n")
    (elsewhere / "ask").chmod(0o755)
    state, found, _ = examine(ask, "--offline", PATH=f"{elsewhere}:{home.env['PATH']}")["PATH"]
    assert state == "warning"
    assert f"ask is {elsewhere}/ask" in found
    assert examine(ask, "--offline", PATH="/usr/bin:/bin")["PATH"][0] == "warning"


# What is shown


def test_a_terminal_shows_the_fix_in_the_line_and_cuts_nothing(ask: Ask) -> None:
    shown = ask.on_terminal("doctor", "--offline").text
    assert re.match(r"STATE +CHECK +FOUND\n", shown)
    assert all(len(line) <= 80 for line in shown.splitlines() if "/" not in line), "paths are not broken"
    assert "OpenAI (ask-gents), no key: set OPENAI_API_KEY or run ask keys set openai " in " ".join(shown.split())
    assert "…" not in shown


def test_a_pipe_gets_four_columns(ask: Ask) -> None:
    assert all(line.count("\t") == 3 for line in ask("doctor", "--offline").text.splitlines())


def test_words_that_make_no_sense_are_a_usage_error(ask: Ask) -> None:
    result = ask("doctor", "who")
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert "ask -- doctor who" in result.stderr


def test_it_runs_with_next_to_no_environment(home: Home) -> None:
    bare = {"PATH": home.env["PATH"], "HOME": str(home.path / "none"), "LC_ALL": "C"}
    result = run(["ask", "doctor", "--offline", "--json"], env=bare, cwd=home.work)
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert Findings(result).problems() == ["default"]
