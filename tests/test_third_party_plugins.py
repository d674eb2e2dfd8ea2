"""Third-party providers in the installed program: valid ones work, broken ones are one-line errors."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS, TOOL_HOOKS, list_hook_names
from tests import wire
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home, Result, run
from tests.sample_files import png
from tests.third_party_plugins import CHAT_PROVIDER, install, install_example, install_provider

ROOT = Path(__file__).parents[1]
OURS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["ask.providers"]) - {"grok"}
MODULE = """
from ask import ChatCompletions
own = ChatCompletions(name="odd", base_url="http://127.0.0.1:9/v1", needs_key=False, default_model="odd-1")
"""
MODULE_WITH_EVERY_HOOK = MODULE + "\n".join(f"{hook} = own.{hook}" for hook in list_hook_names())
MODULE_WITHOUT_TOOLS = (
    MODULE
    + "\n".join(f"{hook} = own.{hook}" for hook in (*MODULE_HOOKS, *REQUIRED_HOOKS))
    + "\ndef provider_supports_tools(model): return False\n"
)
CHAT = CHAT_PROVIDER.format(name="odd").replace("provider = ChatCompletions", "provider = Odd")
SUBCLASS = "from ask import ChatCompletions\nclass Odd(ChatCompletions):\n    {body}\n" + CHAT.lstrip()
INFO = 'ask.ProviderInfo("odd", "Odd", "http://127.0.0.1:9/v1")'

BROKEN = {
    "raises": ("raise ValueError('no\\nway')", "ValueError: no way"),
    "exits": ("import sys; sys.exit('bye')", "SystemExit: bye"),
    "has a mistake in it": ("def f(:", "SyntaxError: invalid syntax"),
    "lacks a package": ("import no_such_package", "it needs the module no_such_package, which is not installed"),
    "names a wrong attribute": (
        CHAT_PROVIDER,
        "its entry point names ask_odd:provder, but there is no provder (did you mean provider?)",
    ),
    "misspells a hook": (
        SUBCLASS.format(body="def provider_suports_tools(self, model): return True"),
        "unknown hook provider_suports_tools (did you mean provider_supports_tools?)",
    ),
    "lacks hooks": (
        f"import ask\nclass Odd(ask.Provider): pass\nprovider = Odd({INFO})",
        f"missing: {', '.join((*TOOL_HOOKS, *REQUIRED_HOOKS))}",
    ),
    "lacks a hook in its module": (
        MODULE_WITH_EVERY_HOOK.replace("provider_supports_tools = own.provider_supports_tools", ""),
        "missing: provider_supports_tools",
    ),
    "names a class": (SUBCLASS.format(body="pass"), "Odd is a class; the entry point must name an instance"),
    "names anything": ("provider = 5", "it must be an instance of ask.Provider, or a module"),
    "takes what no hook has": (
        SUBCLASS.format(body="def provider_supports_tools(self, model, mood): return True"),
        "provider_supports_tools has the parameter mood, but it gets model",
    ),
    "misspells a parameter with a default": (
        SUBCLASS.format(body="def provider_build_request(self, request, keys=''): return None"),
        "provider_build_request has the parameter keys, but it gets request and key (did you mean key?)",
    ),
    "takes arguments by position": (
        SUBCLASS.format(body="def provider_supports_tools(self, model, /): return True"),
        "provider_supports_tools has the positional-only parameter model",
    ),
    "takes any arguments by position": (
        SUBCLASS.format(body="def provider_supports_tools(self, *arguments): return True"),
        "provider_supports_tools has a parameter with *",
    ),
    "has to be awaited": (
        SUBCLASS.format(body="async def provider_supports_tools(self, model): return True"),
        "provider_supports_tools is async",
    ),
    "has a value for a hook": (
        SUBCLASS.format(body="provider_supports_tools = False"),
        "provider_supports_tools must be a function, not bool",
    ),
    "has an object for a hook": (
        "from functools import partial\n"
        + SUBCLASS.format(body="provider_notice = staticmethod(partial(lambda **_: ''))"),
        "provider_notice must be a function, not partial",
    ),
    "caches a hook": (
        "from functools import cache\n"
        + SUBCLASS.format(body="@cache\n    def provider_supports_tools(self, model): return True"),
        "provider_supports_tools must be a function, not _lru_cache_wrapper",
    ),
    "has text for a list in a profile": (
        "from ask import ModelProfile\n" + SUBCLASS.format(body="profiles = [ModelProfile('*', efforts='low')]"),
        "profiles[0].efforts is the str 'low', not Sequence or None",
    ),
    "has a fraction for a number in a profile": (
        "from ask import ModelProfile\n" + SUBCLASS.format(body="profiles = [ModelProfile('*', context_length=128e3)]"),
        "profiles[0].context_length is the float 128000.0, not int or None",
    ),
    "has a wrong pattern": (
        "from ask import ModelProfile\n" + SUBCLASS.format(body="profiles = [ModelProfile('odd-{x}')]"),
        "{x} is not a version",
    ),
    "has wrong profiles": (SUBCLASS.format(body="profiles = [5]"), "profiles must be a tuple of"),
    "names a wrong module": ("", "names ask_odd_there:provider, but there is no module ask_odd_there"),
    "is not Exception": ("class Halt(BaseException): pass\nraise Halt('stop')", "Halt: stop (ask_odd.py, line 2)"),
    "has two names": (CHAT_PROVIDER.format(name="even"), "its ProviderInfo.name is 'even'"),
    "imports a later name": (
        "from ask import Message, Mesage",
        "it uses ask.Mesage (did you mean Message?), which version 2 of the plugin API does not have: upgrade ask-odd",
    ),
    "imports a later module": ("import ask.embeddings", "it uses ask.embeddings, which version 2 of"),
    "uses a later name": ("import ask\nask.Embedding", "it uses ask.Embedding, which version 2 of"),
    "needs a later version": (
        "api_version = 3\n" + CHAT_PROVIDER,
        "it needs version 3 of the plugin API, and this ask has version 2: upgrade ask",
    ),
    "needs an earlier version": (SUBCLASS.format(body="api_version = 1"), "has version 2: upgrade ask-odd"),
    "declares a version that is no integer": (
        "api_version = type('Version', (), {'__eq__': lambda self, other: 1 / 0})()\n" + CHAT_PROVIDER,
        "its api_version is Version, not a number such as 2",
    ),
    "declares a version without end": (
        "api_version = 10**5000\n" + CHAT_PROVIDER,
        "its api_version is int, not a number such as 2",
    ),
    "needs a later version and fails without": (
        "api_version = 3\nimport ask\nprovider = ask.ChatCompletions(name='odd', address='x')",
        "it needs version 3 of the plugin API",
    ),
    "declares no version": ("api_version = '2'\n" + CHAT_PROVIDER, "its api_version is '2', not a number"),
    "says nothing of itself": (
        SUBCLASS.format(body="def provider_info(self): return None"),
        "provider_info does not return a ProviderInfo",
    ),
    "fails to say what it is": (
        SUBCLASS.format(body="def provider_info(self): return 1 / 0"),
        "provider_info: ZeroDivisionError: division by zero",
    ),
}
"""The source of a broken provider, and what is reported about it."""
OTHER_TARGETS = {
    "names a wrong attribute": ":provder",
    "lacks a hook in its module": "",
    "names a class": ":Odd",
    "names a wrong module": "_there:provider",
}
"""What the entry points name, after the name of the module, if it is not `:provider`."""


def with_packages(ask: Ask, folder: Path, **env: str) -> Ask:
    return replace(ask, env={**ask.env, "PYTHONPATH": str(folder), **env})


def list_providers(result: Result) -> dict[str, list[str]]:
    """Return the rows of `ask providers` by name."""
    return {row[0]: row for row in (line.split("\t") for line in result.text.splitlines())}


@pytest.mark.slow_after_first
@pytest.mark.parametrize("case", ["raises", "misspells a hook"])
def test_selecting_a_broken_provider_is_a_one_line_error(ask: Ask, home: Home, case: str) -> None:
    source, reason = BROKEN[case]
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source))
    result = ask("-p", "odd", "hi")
    assert (result.code, result.stdout) == (4, b"")
    assert "odd (ask-odd)" in result.stderr
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_each_broken_provider_is_reported_and_the_others_are_listed(ask: Ask, home: Home) -> None:
    for number, (case, (source, _)) in enumerate(BROKEN.items()):
        target = OTHER_TARGETS.get(case, ":provider")
        install_provider(home.path / "packages", f"odd{number:02}", source, target)
    result = with_packages(ask, home.path / "packages")("providers")
    assert (result.code, set(list_providers(result))) == (0, OURS)
    lines = result.stderr.splitlines()
    assert len(lines) == len(BROKEN)
    for number, (line, (_, reason)) in enumerate(zip(lines, BROKEN.values(), strict=True)):
        assert f"odd{number:02} (ask-odd{number:02})" in line
        assert reason.replace("ask_odd", f"ask_odd{number:02}").replace("ask-odd", f"ask-odd{number:02}") in line
        assert "plugin <" not in line  # the words of pluggy


PARAMETERS = """
def provider_supports_tools(self, *, model="none"): return model == "odd-1"
    def provider_supports_attachment(self, **names): return names == {"model": "odd-1", "media_type": "image/png"}
    def provider_format_tools(self, tools=(), strict=True): return super().provider_format_tools(tools)
"""


def test_hooks_may_have_defaults_and_take_arguments_in_any_form_by_name(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    source = SUBCLASS.format(body=f"api_version = 2\n    {PARAMETERS.strip()}")
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source), ODD_BASE_URL=server.base_url)
    (home.work / "dot.png").write_bytes(png())
    server.reply(wire.says("A dot."))
    result = ask("-p", "odd", "-f", "dot.png", "what is it?")
    assert (result.text, result.code) == ("A dot.\n", 0), result.stderr
    assert server.requests[0].json["tools"]


def test_a_name_that_the_api_lacks_is_named_when_a_hook_uses_it(ask: Ask, home: Home) -> None:
    source = SUBCLASS.format(body="def provider_build_request(self, request, key): return request.temperature")
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source))
    result = ask("-p", "odd", "hi")
    assert result.code == 4
    assert "provider_build_request: it uses ChatRequest.temperature, which version 2 of" in result.stderr


def test_a_wrong_type_in_the_description_is_named(ask: Ask, home: Home) -> None:
    source = CHAT_PROVIDER.format(name="odd").replace('"http://127.0.0.1:9/v1"', "None")
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source))
    result = ask("-p", "odd", "hi")
    assert result.code == 4
    assert "odd has a bug: provider_info returned a ProviderInfo whose base_url is None, not str" in result.stderr


def test_a_signal_during_the_import_ends_ask(ask: Ask, home: Home) -> None:
    source = "import os, time\nos.write(2, b'importing')\ntime.sleep(60)"
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source))
    with ask.start("-p", "odd", "hi") as running:
        running.wait_for("slow to load")
        running.signal(signal.SIGTERM)
        assert running.finish().code == 143


@pytest.mark.slow
def test_a_built_in_provider_comes_before_one_of_a_package(ask: Ask, home: Home) -> None:
    packages = install_provider(home.path / "packages", "good")
    install(packages, "ask-greedy", {"demo": "ask_greedy:provider"}, {"ask_greedy": CHAT_PROVIDER.format(name="demo")})
    ask = with_packages(ask, packages)
    result = ask("-p", "demo", "hello")
    assert (result.code, "embedded" in result.text) == (0, True)
    assert "provider demo of ask-greedy is not used, because demo is built in: uninstall ask-greedy" in result.stderr
    listing = ask("providers")
    assert list_providers(listing)["demo"][-1] == "ask-gents"
    assert list_providers(listing)["good"][-1] == "ask-good"
    assert listing.stderr.count("ask-greedy") == result.stderr.count("ask-greedy")
    rows = {row["found"]: row["state"] for row in json.loads(ask("doctor", "--json", "--offline").text)}
    assert rows["the provider demo of ask-greedy is not used, because demo is built in"] == "warning"


@pytest.mark.slow
def test_a_service_of_config_toml_comes_before_the_provider_of_a_package(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", "raise ValueError('not needed')"))
    home.configure(f'[providers.odd]\nbase_url = "{server.base_url}"\nmodel = "own-1"\n')
    server.reply(wire.says("Hello."))
    result = ask("-p", "odd", "hi")
    assert (result.text, result.code) == ("Hello.\n", 0)
    assert server.requests[0].json["model"] == "own-1"
    assert "provider odd of ask-odd is not used, because config.toml" in result.stderr
    assert "ODD_BASE_URL" in result.stderr
    assert list_providers(ask("providers"))["odd"][-1] == "config.toml"


@pytest.mark.slow
def test_a_table_without_a_base_url_changes_the_provider_of_a_package(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    packages = install_provider(home.path / "packages", "odd")
    home.configure('[providers.odd]\nmodel = "own-1"\n')
    server.reply(wire.says("Hello."))
    result = with_packages(ask, packages, ODD_BASE_URL=server.base_url)("-p", "odd", "hi")
    assert (result.text, result.stderr) == ("Hello.\n", "")
    assert server.requests[0].json["model"] == "own-1"


GROUPS = {
    "ask.provider": "it must be ask.providers",
    "ask_providers": "it must be ask.providers",
    "Ask.Tool": "it must be ask.tools",
    "ask-commands": "it must be ask.commands",
    "ask.plugins": "it must be one of ask.providers, ask.tools, ask.loaders, ask.commands",
    "ask": "it must be one of ask.providers",
}


@pytest.mark.slow
def test_entry_points_in_a_group_that_looks_like_one_of_ask_are_named(ask: Ask, home: Home) -> None:
    packages = home.path / "packages"
    for number, group in enumerate((*GROUPS, "asking.providers", "llm")):
        install(packages, f"ask-odd{number}", {f"odd{number}": "nowhere:x"}, {}, group)
    ask = with_packages(ask, packages)
    unknown = ask("-p", "odd0", "hi")
    assert unknown.code == 4
    assert "ask-odd0 is installed, but its entry point odd0 is in the group ask.provider" in unknown.stderr
    rows = json.loads(ask("doctor", "--json", "--offline").text)
    found = {row["check"]: (row["state"], row["found"]) for row in rows if row["check"].startswith("ask-odd")}
    assert list(found) == [f"ask-odd{number}" for number in range(len(GROUPS))]
    for (state, text), (group, advice) in zip(found.values(), GROUPS.items(), strict=True):
        assert state == "warning"
        assert f"in the group {group}, " in text
        assert advice in text


PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "ask-{name}"
version = "1.0"
[project.entry-points."{group}"]
{name} = "ask_{name}:{attribute}"
[tool.setuptools]
py-modules = ["ask_{name}"]
"""


@pytest.mark.slow
def test_packages_in_an_environment_of_their_own_are_named(home: Home) -> None:
    environment = home.path / "venv"
    python = str(environment / "bin/python")
    created = run([sys.executable, "-m", "venv", "--without-pip", str(environment)], timeout=120)
    assert created.code == 0, created.stderr
    (site_packages,) = environment.glob("lib/python*/site-packages")
    own = next(path for path in sys.path if path.endswith("site-packages"))
    (site_packages / "ask.pth").write_text(f"import site; site.addsitedir({own!r})\n")
    packages = {
        "fine": ("ask.providers", "provider", CHAT_PROVIDER.format(name="fine")),
        "nowhere": ("ask.providers", "provder", CHAT_PROVIDER.format(name="nowhere")),
        "later": ("ask.providers", "provider", "from ask import Embedding"),
        "misplaced": ("ask.provider", "provider", CHAT_PROVIDER.format(name="misplaced")),
        "openai": ("ask.providers", "provider", CHAT_PROVIDER.format(name="openai")),
    }
    folders = []
    for name, (group, attribute, source) in packages.items():
        folder = home.path / f"ask-{name}"
        folder.mkdir()
        (folder / "pyproject.toml").write_text(PROJECT.format(name=name, group=group, attribute=attribute))
        (folder / f"ask_{name}.py").write_text(source)
        folders.append(str(folder))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *options, *folders]
    installed = run(pip, timeout=120)
    assert installed.code == 0, installed.stderr

    def ask(*arguments: str) -> Result:
        return run([python, "-m", "ask", *arguments], env=home.env, cwd=home.work)

    listing = ask("providers")
    assert listing.code == 0
    assert list_providers(listing)["fine"][-1] == "ask-fine"
    assert list_providers(listing)["openai"][-1] == "ask-gents"
    errors = sorted(listing.stderr.splitlines())
    expected = (
        "cannot load the provider later (ask-later): it uses ask.Embedding, which version 2",
        "cannot load the provider nowhere (ask-nowhere): its entry point names ask_nowhere:provder",
        "the provider openai of ask-openai is not used, because openai is built in",
    )
    assert [text in line for text, line in zip(expected, errors, strict=True)] == [True] * 3, errors
    assert "its entry point misplaced is in the group ask.provider" in ask("-p", "misplaced", "hi").stderr


@pytest.mark.slow
def test_selecting_a_name_of_two_packages_names_both(ask: Ask, home: Home) -> None:
    packages = install_provider(home.path / "packages", "twin")
    install(packages, "other-twin", {"twin": "other:provider"}, {})
    ask = with_packages(ask, packages)
    chosen = ask("-p", "twin", "hi")
    line = "ask: ask-twin and other-twin both have a provider named twin: uninstall one of them\n"
    assert (chosen.code, chosen.stderr) == (4, line)
    listing = ask("providers")
    assert (listing.code, listing.stderr) == (0, line)
    assert set(list_providers(listing)) == OURS
    assert ask("-p", "demo", "hi").stderr == ""


def test_providers_that_are_not_selected_are_not_loaded(ask: Ask, home: Home) -> None:
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", "print('loaded'); raise ValueError"))
    result = ask("-p", "demo", "--no-tools", "hi")
    assert (result.code, result.stderr) == (0, "")
    assert "loaded" not in result.text


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("source", "attribute"),
    [
        pytest.param(CHAT_PROVIDER.format(name="odd"), ":provider", id="instance", marks=pytest.mark.slow),
        pytest.param(
            CHAT_PROVIDER.format(name="odd").replace("provider =", "class here: provider ="),
            ":here.provider",
            id="instance inside",
        ),
        pytest.param(MODULE_WITH_EVERY_HOOK, "", id="module"),
        pytest.param(MODULE_WITHOUT_TOOLS, "", id="module without tools"),
    ],
)
def test_a_working_provider_answers(ask: Ask, home: Home, server: ModelServer, source: str, attribute: str) -> None:
    packages = install_provider(home.path / "packages", "odd", source, attribute)
    ask = with_packages(ask, packages, ODD_BASE_URL=server.base_url)
    server.reply(wire.says("Hello from afar."))
    result = ask("-p", "odd", "hi")
    assert (result.text, result.code) == ("Hello from afar.\n", 0)
    assert server.requests[0].json["model"] == "odd-1"
    assert list_providers(ask("providers"))["odd"][-1] == "ask-odd"


RECORDED_HOOKS = """
import os, sys
from ask import ChatCompletions

def record(hook, detail):
    is_host = sys._getframe(2).f_globals["__name__"] == "ask.plugin_api.loaded_provider"
    with open(os.environ["HOOK_CALLS"], "a") as file:
        print(hook, detail if is_host else "not called by the host", file=file)

class Recorder(ChatCompletions):
    def provider_supports_tools(self, model):
        record("provider_supports_tools", model)
        return super().provider_supports_tools(model)

    def provider_format_tools(self, tools):
        record("provider_format_tools", " ".join(tool.name for tool in tools))
        return [tool | {"formatted": "by the plugin"} for tool in super().provider_format_tools(tools)]

    def provider_parse_tool_calls(self, response):
        calls = super().provider_parse_tool_calls(response)
        record("provider_parse_tool_calls", len(calls))
        return calls

    def provider_format_tool_result(self, tool_call_id, tool_name, result):
        record("provider_format_tool_result", f"{tool_call_id} {tool_name} {result.strip()}")
        formatted = super().provider_format_tool_result(tool_call_id, tool_name, result)
        return formatted | {"formatted": "by the plugin"}

"""
RECORDER = 'Recorder(name="odd", base_url="http://127.0.0.1:9/v1", needs_key=False, default_model="odd-1")'


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("source", "attribute"),
    [
        pytest.param(f"{RECORDED_HOOKS}provider = {RECORDER}", ":provider", id="subclass"),
        pytest.param(
            "\n".join([f"{RECORDED_HOOKS}own = {RECORDER}", *(f"{hook} = own.{hook}" for hook in list_hook_names())]),
            "",
            id="module",
        ),
    ],
)
def test_the_host_calls_the_tool_hooks_itself_and_as_often_as_specified(
    ask: Ask, home: Home, server: ModelServer, source: str, attribute: str
) -> None:
    packages = install_provider(home.path / "packages", "odd", source, attribute)
    hook_calls = home.path / "hook_calls"
    ask = with_packages(ask, packages, ODD_BASE_URL=server.base_url, HOOK_CALLS=str(hook_calls))
    for name in ("a", "b", "c"):
        (home.work / f"{name}.txt").write_text(f"text of {name}")
    read_a, read_b, read_c = (("read_file", {"filepath": f"{name}.txt"}) for name in ("a", "b", "c"))
    server.reply(wire.calls(read_a, read_b), wire.calls(read_c), wire.says("Three files."))
    result = ask("-p", "odd", "read them")
    assert (result.text, result.stderr.count("bug"), result.code) == ("Three files.\n", 0, 0)

    first, second, third = (request.json for request in server.requests)
    names = " ".join(tool["function"]["name"] for tool in first["tools"])
    ids = [message["tool_call_id"] for message in third["messages"] if message["role"] == "tool"]
    result_calls = [
        f"provider_format_tool_result {call_id} read_file text of {name}"
        for call_id, name in zip(ids, ("a", "b", "c"), strict=True)
    ]
    assert sorted(hook_calls.read_text().splitlines()) == sorted(
        [
            "provider_supports_tools odd-1",
            *[f"provider_format_tools {names}"] * 3,
            *(f"provider_parse_tool_calls {count}" for count in (2, 1, 0)),
            *result_calls[:2],  # the second request
            *result_calls,  # the third request
        ]
    )
    for body, result_count in ((first, 0), (second, 2), (third, 3)):
        placed = [part for part in (*body["tools"], *body["messages"]) if part.get("formatted") == "by the plugin"]
        assert len(placed) == len(body["tools"]) + result_count
        assert len(body["tools"]) == len(names.split())


@pytest.mark.slow
def test_a_hook_that_fails_during_an_answer_keeps_the_partial_answer(ask: Ask, home: Home, server: ModelServer) -> None:
    reader = """
from ask import ChatCompletions
class Odd(ChatCompletions):
    def provider_stream_reader(self):
        reader = super().provider_stream_reader()
        feed = reader.feed
        def feed_or_fail(event):
            if "broken" in event.data:
                raise KeyError("surprise")
            return feed(event)
        reader.feed = feed_or_fail
        return reader
"""
    packages = install_provider(
        home.path / "packages", "odd", reader + CHAT.replace("from ask import ChatCompletions", "")
    )
    ask = with_packages(ask, packages, ODD_BASE_URL=server.base_url)
    server.reply(wire.streams(wire.text("So far "), wire.text("so good"), wire.text("broken")))
    result = ask("-p", "odd", "hi")
    assert (result.text, result.code) == ("So far so good\n", 4)
    assert result.stderr.count("\n") == 1
    assert all(text in result.stderr for text in ("odd", "stream reader", "KeyError: 'surprise'"))
    assert "Traceback" in ask("-p", "odd", "-v", "hi").stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("hook", "option"),
    [
        ("provider_build_request", "--json"),
        ("provider_parse_response", "--no-stream"),
        ("provider_supports_tools", "--json"),
        *(
            pytest.param(hook, option, marks=pytest.mark.slow)
            for hook, option in (
                ("provider_build_request", "--no-stream"),
                ("provider_parse_response", "--json"),
                ("provider_supports_tools", "--no-stream"),
            )
        ),
    ],
)
def test_a_failing_hook_is_an_error_that_names_the_provider(
    ask: Ask, home: Home, server: ModelServer, hook: str, option: str
) -> None:
    source = SUBCLASS.format(body=f"def {hook}(self): raise KeyError('surprise')")
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source), ODD_BASE_URL=server.base_url)
    server.reply(wire.says("hello", whole=option == "--no-stream"))
    result = ask("-p", "odd", option, "hi")
    assert result.code == 4
    assert result.stderr.count("\n") == 1
    assert all(text in result.stderr for text in ("odd", hook, "KeyError: 'surprise'"))


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, installed once for all workers from a copy of its source."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    return install_example(shared, "ask-provider-example")


@pytest.mark.slow
def test_a_model_of_a_third_party_provider_can_read_a_file(
    ask: Ask, home: Home, server: ModelServer, example: Path
) -> None:
    (home.work / "config.json").write_text('{"colour": "teal"}')
    server.reply(wire.calls(("read_file", {"filepath": "config.json"})), wire.says("It says teal."))
    ask = with_packages(ask, example, EXAMPLE_BASE_URL=server.base_url, EXAMPLE_API_KEY="sk-example-12345")
    result = ask("-p", "example", "What is in config.json?")
    assert (result.text, result.code) == ("It says teal.\n", 0)
    first, second = server.requests
    assert first.headers["Authorization"] == "Bearer sk-example-12345"
    assert first.json["model"] == "example-1"
    assert {tool["function"]["name"] for tool in first.json["tools"]} >= {"read_file", "bash"}
    assert [message["role"] for message in second.json["messages"]] == ["system", "user", "assistant", "tool"]
    assert second.json["messages"][2]["tool_calls"][0]["id"] == second.json["messages"][3]["tool_call_id"]
    assert '{"colour": "teal"}' in second.json["messages"][3]["content"]
    assert wire.read_by_openai(second.json) == second.json


@pytest.mark.slow
def test_the_example_provider_is_listed_with_the_built_in_ones(ask: Ask, example: Path) -> None:
    ask = with_packages(ask, example)
    rows = list_providers(ask("providers"))
    assert list(rows) == sorted({*OURS, "example"})
    assert rows["example"][1:] == [
        "Example",
        "example-1",
        "missing",
        "https://api.example.com/v1",
        "ask-provider-example",
    ]
    missing = ask("-p", "example", "hi")
    assert missing.code == 4
    assert "EXAMPLE_API_KEY" in missing.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ask-provider-example", "ask-provider-mistral-example"])
def test_the_examples_pass_their_own_tests(home: Home, example: Path, name: str) -> None:
    folder = ROOT / "examples" / name
    path = example if folder.name == "ask-provider-example" else folder
    command = [
        str(PROGRAMS / "pytest"),
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "--rootdir",
        str(home.work),
        f"--basetemp={home.path}/pytest",  # the default is shared, and pytest deletes old folders there
    ]
    tests = str(folder / "tests")
    result = run([*command, tests], env={**home.env, "PYTHONPATH": str(path)}, cwd=home.work, timeout=60)
    assert result.code == 0, result.text
    assert " passed" in result.text
    assert "skipped" not in result.text


@pytest.mark.slow
def test_mistral_reasons_calls_a_tool_and_gets_its_thinking_back(ask: Ask, home: Home, server: ModelServer) -> None:
    source = (ROOT / "examples/ask-provider-mistral-example/ask_provider_mistral_example.py").read_text()
    packages = install_provider(home.path / "packages", "mistral", source)
    ask = with_packages(ask, packages, MISTRAL_API_KEY="sk-mistral-1", MISTRAL_BASE_URL=server.base_url)
    (home.work / "config.json").write_text('{"port": 80}')
    server.reply(wire.calls(("read_file", {"filepath": "config.json"})), wire.says("80."))
    assert ask("-p", "openrouter", "Which port?").code == 0

    def think(text: str) -> wire.Json:
        return wire.chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})

    server.reply(
        wire.streams(
            think("I must "),
            think("look."),
            wire.call(0, id="a1B2c3D4e", name="read_file", arguments='{"filepath": "config.json"}'),
            wire.finish("tool_calls"),
        ),
        wire.streams(
            think("Now I know."),
            wire.chunk({"content": [{"type": "text", "text": "80, "}]}),
            wire.text("still."),
            wire.finish(),
        ),
    )
    result = ask("-c", "-p", "mistral", "-m", wire.MODEL, "Really?")
    assert (result.text, result.code) == ("80, still.\n", 0)
    first, second = (request.json["messages"] for request in server.requests[-2:])
    assert "stream_options" not in server.requests[-1].json
    ids = [
        (message["tool_calls"][0]["id"], result["tool_call_id"])
        for message, result in pairwise(second)
        if "tool_calls" in message
    ]
    assert len(ids) == 2
    assert all(call_id == result_id and re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id, result_id in ids)
    assert ids[1][0] == "a1B2c3D4e"
    assert second[: len(first)] == first
    assert second[-2]["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": "I must look."}]}]


CONFIG = """
[providers.groq]
base_url = "{url}"
key_env = "GROQ_KEY"
model = "llama"
"""


def test_a_provider_from_config_toml_answers_and_is_listed(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure(CONFIG.format(url=server.base_url))
    server.reply(wire.says("Fast."))
    key = {"GROQ_KEY": "sk-groq-12345678"}
    result = ask("-p", "groq", "hi", env=key)
    assert (result.text, result.stderr, result.code) == ("Fast.\n", "", 0)
    assert server.requests[0].json["model"] == "llama"
    assert server.requests[0].headers["Authorization"] == "Bearer sk-groq-12345678"
    rows = {row["name"]: row for row in json.loads(ask("providers", "--json", env=key).text)}
    expected = {"key": "GROQ_KEY", "base_url": server.base_url, "from": "config.toml"}
    assert expected.items() <= rows["groq"].items()
    assert "set GROQ_KEY" in ask("-p", "groq", "hi").stderr


OVERRIDE = """
[providers.openrouter]
base_url = "{url}"
key_env = "WORK_KEY"
model = "work/model"
"""


@pytest.mark.parametrize(
    ("env", "key"),
    [({"WORK_KEY": "sk-work-12345678"}, "sk-work-12345678"), ({}, "sk-home-12345678")],
    ids=["its own", "the usual"],
)
def test_a_table_of_config_toml_changes_an_installed_provider(
    home: Home, server: ModelServer, env: Mapping[str, str], key: str
) -> None:
    home.configure(OVERRIDE.format(url=server.base_url))
    server.reply(wire.says("Working."))
    ask = Ask({**home.env, "OPENROUTER_API_KEY": "sk-home-12345678"}, home.work)
    assert ask("-p", "openrouter", "hi", env=env).text == "Working.\n"
    assert server.requests[0].json["model"] == "work/model"
    assert server.requests[0].headers["Authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("name", ["openroter", "Demo", "demoo", "groqq", "claude", "Google"])
def test_an_unknown_provider_is_an_error_with_a_suggestion(ask: Ask, home: Home, name: str) -> None:
    home.configure(CONFIG.format(url="http://127.0.0.1:9/v1"))
    result = ask("-p", name, "hi")
    meant = {"openroter": "openrouter", "groqq": "groq", "claude": "anthropic", "Google": "gemini"}
    nearest = meant.get(name, "demo")
    assert (result.code, result.stderr) == (4, f"ask: unknown provider {name!r}: did you mean {nearest}?\n")
    assert all(f" {known}" in ask("-p", "nothing", "hi").stderr for known in (*OURS, "grok", "groq"))


@pytest.mark.parametrize("row", ['key_env = "WORK_KEY"', 'base_url = ""', 'base_url = [""]'])
def test_a_service_without_a_base_url_is_named_as_incomplete(ask: Ask, home: Home, row: str) -> None:
    home.configure(f"[providers.openai2]\n{row}\n")
    result = ask("-p", "openai2", "hi")
    assert (result.code, "[providers.openai2] in config.toml has no base_url" in result.stderr) == (4, True)
    assert "did you mean" not in result.stderr


@pytest.mark.slow
def test_output_of_a_provider_does_not_reach_the_rows_of_map(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(lambda request: wire.whole_reply(wire.answer("yes")))
    body = """def provider_parse_response(self, response):
        print("noise"); import subprocess; subprocess.run(["echo", "noise"])
        return super().provider_parse_response(response)"""
    source = SUBCLASS.format(body=body)
    ask = with_packages(ask, install_provider(home.path / "packages", "odd", source))
    rows = "".join(f"row {i}\n" for i in range(40)).encode()
    result = ask.process("map", "-p", "odd", "--base-url", server.base_url, "Say {{line}}", "-j", "8", stdin=rows)
    assert result.code == 0
    assert [json.loads(line)["line"] for line in result.text.splitlines()] == rows.decode().splitlines()
