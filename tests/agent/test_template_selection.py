"""`-t` and `--var`: what a template adds to a run, and what overrides it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result
from tests.tool_names import DEFAULT_TOOLS

ANSWER = "```sh\n#!/bin/sh\n```"


@pytest.fixture
def ask(ask: Ask, server: ModelServer) -> Ask:
    server.reply(wire.says(ANSWER))
    return Ask({**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}, ask.cwd)


def write_prompt(home: Home, name: str, text: str) -> str:
    folder = home.config / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    return str(folder / f"{name}.md")


def last_request(server: ModelServer) -> dict[str, Any]:
    """Return the newest request."""
    body: dict[str, Any] = server.requests[-1].json
    assert wire.read_by_openai(body) == body
    return body


def sent_question(server: ModelServer) -> str:
    return str(last_request(server)["messages"][-1]["content"])


def sent_system_prompt(server: ModelServer) -> str:
    return str(last_request(server)["messages"][0]["content"])


def offered_tools(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in last_request(server).get("tools", [])]


def is_refused(result: Result, server: ModelServer, code: int, *told: str) -> None:
    assert (result.code, result.stdout, result.stderr.count("\n")) == (code, b"", 1)
    assert all(text in result.stderr for text in told), result.stderr
    assert not server.requests


# What is asked


@pytest.mark.slow
def test_words_files_and_piped_text_replace_the_input_placeholder(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(home, "mine", "Sing {{input}}, please.")
    (home.work / "song").write_text("la\n")
    assert ask("-t", "mine", "of", "love").code == 0
    assert sent_question(server) == "Sing of love, please."
    ask("-t", "mine", "-f", "song", "this", stdin=b"lo\n")
    blocks = '<file name="song">\nla\n</file>\n\n<stdin>\nlo\n</stdin>'
    assert sent_question(server) == f"Sing this\n\n{blocks}, please."
    ask("-t", "mine", stdin=b"lo\n")
    assert sent_question(server) == "Sing <stdin>\nlo\n</stdin>, please."


@pytest.mark.slow
def test_without_a_placeholder_the_input_is_appended(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(home, "mine", "+++\n[tasks]\nlow = 'Sing low.'\n+++\nSing.\n")
    for args, text in ((["mine"], "Sing."), (["mine:low"], "Sing low."), (["mine", "of love"], "Sing.\n\nof love")):
        assert ask("-t", *args).code == 0
        assert sent_question(server) == text


@pytest.mark.slow
def test_without_user_text_the_words_are_the_question(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(home, "pirate", "+++\nsystem = 'Talk like a pirate.'\n+++\n")
    ask("-t", "pirate", "hello")
    assert sent_question(server) == "hello"
    ask("-t", "pirate", stdin=b"hello\n")
    assert sent_question(server) == "hello"
    assert ask("-t", "pirate").code == 2


def test_a_prompt_that_needs_input_is_an_error_without_it(ask: Ask, server: ModelServer) -> None:
    for args in (["commit"], ["translate", "--var", "to=German"], ["regex:explain"]):
        is_refused(ask("-t", *args), server, 2, f"template {args[0].partition(':')[0]}")


def test_options_may_follow_a_quoted_question(ask: Ask, server: ModelServer) -> None:
    assert ask("good morning to you", "-t", "translate", "--var", "to=German").code == 0
    assert sent_question(server) == "Translate this into German.\n\ngood morning to you"


# Placeholders


def test_variables_are_filled_into_system_and_text(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(
        home, "mine", "+++\nsystem = 'You are {{who|a poet}}.'\n+++\nSing of {{what}} {{how|softly}}. {{input|}}"
    )
    ask("-t", "mine", "--var", "what=love=all", "--var", "how={{who}} {{input}}", "words {{what}}")
    assert sent_question(server) == "Sing of love=all {{who}} {{input}}. words {{what}}"
    assert sent_system_prompt(server).endswith("\n\nYou are a poet.")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-t", "mine"], ["template mine", "--var what=VALUE"]),
        (["-t", "mine", "--var", "wat=x"], ["template mine", "'wat'", "did you mean what?"]),
        (["-t", "mine", "--var", "input=x"], ["template mine", "'input'", "what"]),
        (["-t", "fix", "--var", "a=x"], ["template fix", "'a'"]),
        (["-t", "mine", "--var", "what"], ["--var", "NAME=VALUE", "'what'"]),
        (["--var", "what=x"], ["--var", "-t"]),
        (["-t", "mien"], ["'mien'", "did you mean mine?"]),
        (["-t", "mine:x"], ["template mine", "'x'"]),
        (["-t", "../prompts/mine"], ["../prompts/mine"]),
    ],
)
def test_wrong_variables_and_names_are_usage_errors(
    args: list[str], told: list[str], ask: Ask, home: Home, server: ModelServer
) -> None:
    write_prompt(home, "mine", "Sing of {{what}} {{input|}}")
    is_refused(ask(*args, "hi"), server, 2, *told)


# System text


def test_its_system_text_comes_between_the_configurations_and_the_users(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    write_prompt(home, "mine", "+++\nsystem = 'Two.'\n+++\n")
    home.configure("system = 'One.'\n")
    ask("-t", "mine", "-s", "Three.", "hi")
    assert sent_system_prompt(server).startswith("You are ask ")
    assert sent_system_prompt(server).endswith("\n\nOne.\n\nTwo.\n\nThree.")


def test_a_prompt_applies_to_the_conversation_until_another_is_selected(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    write_prompt(home, "mine", "+++\nsystem = 'Be {{how|brief}}.'\ntools = false\n+++\n")
    write_prompt(home, "text", "And now {{input}}.")
    ask("-t", "mine", "--var", "how={{kind}}", "hi")
    assert not offered_tools(server)
    ask("-c", "again")
    assert sent_system_prompt(server).endswith("\n\nBe {{kind}}.")
    assert offered_tools(server) == DEFAULT_TOOLS, "as with --no-tools, it is this run's"
    ask("-c", "-t", "text", "sing")
    assert sent_system_prompt(server).endswith("\n\nBe {{kind}}.")
    assert sent_question(server) == "And now sing."
    ask("-c", "-t", "mine", "again")
    assert sent_system_prompt(server).endswith("\n\nBe brief.")


# Whom to ask

CONFIG = """\
provider = "openrouter"
model = "configured"
[aliases]
fast = "two:quick"
[providers.one]
base_url = "{url}"
model = "ones"
[providers.two]
base_url = "{url}"
model = "twos"
"""


def sent_model(ask: Ask, *args: str, env: dict[str, str] | None = None) -> tuple[str, str]:
    result = ask("--json", *args, "hi", env=env)
    assert result.code == 0, result.stderr
    told = json.loads(result.text)
    return told["provider"], told["model"]


@pytest.mark.slow
def test_options_override_a_prompt_which_overrides_conversation_environment_and_config(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    for name, lines in {
        "provider": "provider = 'one'",
        "both": "provider = 'one'\nmodel = 'a:b'",
        "model": "model = 'own'",
        "prefixed": "model = 'two:own'",
        "alias": "model = 'fast'",
    }.items():
        write_prompt(home, name, f"+++\n{lines}\n+++\n")
    home.configure(CONFIG.format(url=server.base_url))
    environment = {"ASK_PROVIDER": "two", "ASK_MODEL": "environments"}
    ask = Ask({name: value for name, value in ask.env.items() if name not in environment}, ask.cwd)
    assert sent_model(ask, "-t", "provider") == sent_model(ask, "-t", "provider", env=environment) == ("one", "ones")
    assert sent_model(ask, "-t", "both", env=environment) == ("one", "a:b")
    assert sent_model(ask, "-t", "model") == ("openrouter", "own")
    assert sent_model(ask, "-t", "model", env=environment) == ("two", "own")
    assert sent_model(ask, "-t", "prefixed") == ("two", "own")
    assert sent_model(ask, "-t", "alias") == ("two", "quick")
    # Flags
    assert sent_model(ask, "-t", "both", "-p", "two") == ("two", "twos")
    assert sent_model(ask, "-t", "model", "-p", "two") == ("two", "twos")
    assert sent_model(ask, "-t", "both", "-p", "one") == ("one", "a:b")
    assert sent_model(ask, "-t", "both", "-m", "flags") == ("one", "flags")
    assert sent_model(ask, "-t", "both", "-m", "two:flags") == ("two", "flags")
    # The conversation
    assert sent_model(ask, "-p", "two", "-m", "said") == ("two", "said")
    assert sent_model(ask, "-c", "-t", "model") == ("two", "own")
    assert sent_model(ask, "-c", "-t", "both") == ("one", "a:b")
    assert sent_model(ask, "-c", "-t", "provider") == ("one", "a:b"), "the same provider's model stays"
    assert sent_model(ask, "-c", "-t", "prefixed") == ("two", "own")


# Options and tools


def test_flags_override_its_options_which_override_the_configuration(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(home, "mine", "+++\n[options]\ntemperature = 0.5\ntop_p = 0.5\n+++\n")
    home.configure("[options]\ntemperature = 0.1\ntop_p = 0.1\nseed = 1\n")
    ask("-t", "mine", "-o", "top_p=0.9", "hi")
    assert [last_request(server)[name] for name in ("temperature", "top_p", "seed")] == [0.5, 0.9, 1]


@pytest.mark.parametrize(
    ("tools", "args", "left"),
    [
        ("true", [], DEFAULT_TOOLS),
        ("false", [], []),
        ("[]", [], []),
        ("['bash', 'list_dir']", [], ["list_dir", "bash"]),
        ("['bash', 'list_dir']", ["--disable-tool", "bash"], ["list_dir"]),
        ("true", ["--no-tools"], []),
    ],
)
def test_tools_must_be_allowed_by_it_and_by_the_settings(
    tools: str, args: list[str], left: list[str], *, ask: Ask, home: Home, server: ModelServer
) -> None:
    write_prompt(home, "mine", f"+++\ntools = {tools}\n+++\n")
    ask(*args, "-t", "mine", "hi")
    assert offered_tools(server) == left


def test_it_cannot_offer_tools_that_the_user_disables(ask: Ask, home: Home, server: ModelServer) -> None:
    write_prompt(home, "mine", "+++\ntools = ['bash']\n+++\n")
    ask("-t", "mine", "hi", env={"ASK_TOOLS": "0"})
    assert offered_tools(server) == []
    home.configure("[tools]\nenabled = false\n")
    ask("-t", "mine", "hi")
    assert offered_tools(server) == []


@pytest.mark.parametrize(
    ("front", "told"),
    [
        ("tools = ['bsh']", ["'bsh'", "did you mean bash?"]),
        ("[options]\nmodel = 'a'", ["[options]", "model", "-m"]),
        ("[options]\ntemperature = 5", ["[options]", "temperature", "from 0 to 2"]),
        ("model =", ["line 2", "TOML (Invalid value)"]),
        ("provider = 'opnrouter'", ["'opnrouter'", "did you mean openrouter?"]),
    ],
)
def test_an_invalid_prompt_is_a_config_error(
    front: str, told: list[str], ask: Ask, home: Home, server: ModelServer
) -> None:
    path = write_prompt(home, "mine", f"+++\n{front}\n+++\n")
    result = ask("-t", "mine", "hi")
    is_refused(result, server, 4, *told)
    assert path in result.stderr or "opnrouter" in front


# With other options


def test_prompts_work_with_code_and_json(ask: Ask, server: ModelServer) -> None:
    assert ask("-t", "shell:script", "--code", "nothing").text == "#!/bin/sh\n"
    assert "The user wants code." in sent_system_prompt(server)
    assert "\n\nYou write for the shell" in sent_system_prompt(server)
    result = json.loads(ask("-t", "shell", "--json", "list all").text)
    assert result["text"] == ANSWER
