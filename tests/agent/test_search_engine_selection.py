"""`search_web` in a run: when it is offered, which engine it uses, and where its key may appear."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ask.config.redaction import REDACTED
from ask.tools.search_engine import KEYED_ENGINES
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result, run
from tests.scenarios.sent_requests import list_offered_tools
from tests.scenarios.test_safety import PROMPT
from tests.tools.search_engines import FOUND, NUTS, answer, place, tavily_error

KEY = "engine-0123456789"
SEARCH = ("search_web", {"query": "nuts"})
RUN_ASK_FROM = "import site, sys; site.addsitedir(sys.argv.pop(1)); from ask.__main__ import main; sys.exit(main())"
"""Runs `ask` with the packages of a folder."""


@pytest.fixture
def search_server() -> Iterator[ModelServer]:
    """The server of the search engine."""
    with ModelServer() as search_server:
        yield search_server


def with_engine_keys(ask: Ask, search_server: ModelServer, *names: str) -> Ask:
    """`ask` with keys for these engines, all of them at the search server."""
    keys = {f"{name.upper()}_API_KEY": f"{KEY}-{name}" for name in names}
    places = {f"{name.upper()}_BASE_URL": f"{place(search_server)}/{name}" for name in KEYED_ENGINES}
    return replace(ask, env={**ask.env, **keys, **places})


def without_ddgs(ask: Ask, home: Home, *args: str) -> Result:
    """`ask` without the package `ddgs`."""
    packages = home.path / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith("ddgs"):
            (packages / path.name).symlink_to(path)
    return run([sys.executable, "-S", "-c", RUN_ASK_FROM, str(packages), *args], env=ask.env, cwd=ask.cwd)


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_a_model_searches_the_web(ask: Ask, server: ModelServer, search_server: ModelServer, name: str) -> None:
    search_server.reply(answer(FOUND[name](NUTS)))
    server.reply(wire.calls(SEARCH), wire.says("They are seeds."))
    result = with_engine_keys(ask, search_server, name)("what are nuts?")
    assert (result.code, result.text) == (0, "They are seeds.\n")
    assert wire.asked(server.requests[1].json).startswith(f"Results from {name}:\n\n1. Nuts\n   https://nuts.test/\n")
    assert search_server.requests[0].path.startswith(f"/{name}/")
    assert "- search_web: Search the web: " in str(server.requests[0].json["messages"][0])


def test_the_first_engine_with_a_key_is_used_unless_another_is_configured(
    ask: Ask, home: Home, server: ModelServer, search_server: ModelServer
) -> None:
    ask = with_engine_keys(ask, search_server, *KEYED_ENGINES)
    search_server.reply(answer({}, 500))
    server.reply(*(reply for _ in range(3) for reply in (wire.calls(SEARCH), wire.says("Sorry."))))
    for engine in ("", "tavily", "brave"):
        home.configure(f'[search]\nengine = "{engine}"\n' if engine else "")
        assert ask("what are nuts?").code == 0
    assert [request.path.split("/")[1] for request in search_server.requests] == ["brave", "tavily", "brave"]


def test_a_saved_key_is_used(ask: Ask, home: Home, server: ModelServer, search_server: ModelServer) -> None:
    ask = with_engine_keys(ask, search_server)
    assert ask("keys", "set", "tavily", stdin=KEY.encode()).code == 0
    assert json.loads(ask("keys", "list", "--json").stdout)[-1]["provider"] == "tavily"
    search_server.reply(answer(FOUND["tavily"](NUTS)))
    server.reply(wire.calls(SEARCH), wire.says("Seeds."))
    assert ask("what are nuts?").code == 0
    assert search_server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "no provider tavily" not in ask("doctor", "--offline").text
    assert ask("keys", "remove", "tavily").code == 0
    assert ask("keys", "list").text.count("tavily") == 0


def test_a_search_error_is_a_result_without_the_key(ask: Ask, server: ModelServer, search_server: ModelServer) -> None:
    search_server.reply(tavily_error(401, f"no such key: {KEY}-tavily"))
    server.reply(wire.calls(SEARCH), wire.says("I cannot."))
    result = with_engine_keys(ask, search_server, "tavily")("-v", "what are nuts?")
    assert result.code == 0
    told = wire.asked(server.requests[1].json)
    assert told.startswith(f"Error: tavily rejected the key (401: no such key: {REDACTED}): ")
    assert KEY not in result.stderr


def test_the_keys_of_engines_are_kept_out_of_commands_and_results(
    ask: Ask, home: Home, server: ModelServer, search_server: ModelServer
) -> None:
    (home.work / "leak").write_text(f"{KEY}-brave\n")
    server.reply(wire.calls(("bash", {"command": "env; cat leak"})), wire.says("Done."))
    assert with_engine_keys(ask, search_server, *KEYED_ENGINES)("look").code == 0
    told = wire.asked(server.requests[1].json)
    assert "BRAVE_API_KEY" not in told
    assert "TAVILY_API_KEY" not in told
    assert KEY not in told
    assert REDACTED in told


def test_search_is_offered_only_if_an_engine_is_available(
    ask: Ask, home: Home, server: ModelServer, search_server: ModelServer
) -> None:
    server.reply(wire.says("Hello."))
    result = without_ddgs(ask, home, "hello")
    assert (result.code, result.stderr) == (0, "")
    assert "search_web" not in list_offered_tools(server.requests[0].json)
    assert "search_web" not in str(server.requests[0].json["messages"][0])
    assert ask("hello").code == 0
    assert list_offered_tools(server.requests[1].json)[-1] == "search_web"


def test_search_may_be_disabled_without_an_engine(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    home.configure('[tools]\ndisabled = ["search_web"]\n[search]\nengine = "brave"\n')
    result = without_ddgs(ask, home, "hello")
    assert (result.code, result.stderr) == (0, "")
    assert "search_web" not in list_offered_tools(server.requests[0].json)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("brave", ["BRAVE_API_KEY", "ask keys set brave"]),
        ("duckduckgo", ["duckduckgo", "package ddgs"]),
    ],
)
def test_an_engine_that_cannot_be_used_is_reported(
    ask: Ask, home: Home, server: ModelServer, engine: str, told: list[str]
) -> None:
    server.reply(wire.says("Hello."))
    home.configure(f'[search]\nengine = "{engine}"\n')
    result = without_ddgs(ask, home, "hello")
    assert result.code == 0
    assert all(text in result.stderr for text in ("search_web", *told))
    assert "search_web" not in list_offered_tools(server.requests[0].json)


@pytest.mark.parametrize("engine", ['"google"', "1", '""'])
def test_an_unknown_engine_is_an_error(ask: Ask, home: Home, server: ModelServer, engine: str) -> None:
    home.configure(f"[search]\nengine = {engine}\n")
    result = ask("hello")
    assert (result.code, server.requests) == (4, [])
    assert "search.engine" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("answered", ["y", "n"])
@pytest.mark.needs("bwrap")
def test_safe_mode_asks_before_reaching_the_engines_host(
    ask: Ask, home: Home, server: ModelServer, search_server: ModelServer, answered: str
) -> None:
    search_server.reply(answer(FOUND["brave"](NUTS)))
    server.reply(wire.calls(SEARCH), wire.says("Well."))
    result = with_engine_keys(ask, search_server, "brave").on_terminal(
        "--safe", "Search", answers=[(PROMPT, f"{answered}\n")]
    )
    assert result.code == 0
    assert "\n  query: nuts\n  at the host 127.0.0.1\n" in result.text
    assert len(search_server.requests) == (answered == "y")
    assert [line["rule"] for line in home.read_tool_log()] == [f"host 127.0.0.1: {'yes' if answered == 'y' else 'no'}"]


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_safe_mode_searches_without_asking_if_the_host_is_allowed(
    ask: Ask, home: Home, server: ModelServer, search_server: ModelServer
) -> None:
    search_server.reply(answer(FOUND["brave"](NUTS)))
    server.reply(wire.calls(SEARCH), wire.says("Well."), wire.calls(SEARCH), wire.says("Well."))
    ask = with_engine_keys(ask, search_server, "brave")
    assert ask("--safe", "--allow-host", "127.0.0.1", "Search").code == 0
    assert len(search_server.requests) == 1
    assert ask("--safe", "--allow-host", "api.search.brave.com", "Search").code == 8
    assert len(search_server.requests) == 1
    assert [line["rule"] for line in home.read_tool_log()] == ["--allow-host", "host 127.0.0.1: no terminal"]


@pytest.mark.needs("bwrap")
def test_safe_mode_asks_before_reaching_duckduckgos_host(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(SEARCH), wire.says("Well."))
    result = ask("--safe", "Search")
    assert result.code == 8
    assert "use --allow-host html.duckduckgo.com" in result.stderr


@pytest.mark.slow
def test_engine_modules_are_not_imported_before_a_search(ask: Ask, home: Home, search_server: ModelServer) -> None:
    code = "import runpy, sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    code += "runpy.run_module('ask', run_name='__main__')"
    for env in (ask.env, with_engine_keys(ask, search_server, "brave").env):
        seen = run([sys.executable, "-c", code, "-p", "demo", "hi"], env=env, cwd=ask.cwd).stderr.split()
        assert "ask.tools.definitions" in seen
        for module in ("ask.tools.web_search", "ask.tools.duckduckgo", "ask.tools.http_get", "ddgs", "primp"):
            assert module not in seen


@pytest.mark.slow
def test_doctor_reports_the_search_engine_and_what_is_missing(ask: Ask, home: Home, search_server: ModelServer) -> None:
    def check(ask: Ask) -> tuple[str, str, str]:
        rows = [line.split("\t") for line in ask("doctor", "--offline").text.splitlines()]
        [(state, _, found, fix)] = [row for row in rows if row[1] == "web search"]
        assert not [row for row in rows if row[1] == "tools" and row[0] != "ok"]
        return state, found, fix

    state, found, _ = check(with_engine_keys(ask, search_server, "brave"))
    assert (state, "brave" in found) == ("ok", True)
    state, found, _ = check(ask)
    assert (state, "duckduckgo" in found) == ("ok", True)
    home.configure('[tools]\ndisabled = ["search_web"]\n[search]\nengine = "brave"\n')
    state, found, fix = check(ask)
    assert (state, "brave" in found) == ("warning", True)
    assert "BRAVE_API_KEY" in fix
    assert "ask keys set brave" in fix
