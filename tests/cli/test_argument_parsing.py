"""Which arguments are options and which are the prompt: the parsing rule, and command lines passed by a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ask.cli.ask import ParsedCommandLine, command, parse_command_line
from ask.cli.commands import COMMANDS, find_command, join_short_options, load_command
from ask.errors import UsageError
from tests import wire
from tests.cli.chat.chat_session import PROMPT
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Home, run_on_terminal

NAMES = {
    **dict.fromkeys(("-q", "--quiet", "-v", "--json"), False),
    **dict.fromkeys(("-p", "--provider", "-m", "-o"), True),
}
SHORT, LONG = ["-q", "-v", "-p", "-m", "-o", "-qv"], ["--quiet", "--json", "--provider", "--provider=x"]

words = st.text("ab 整 -", max_size=4).filter(lambda word: not word.startswith("-") or word[1:2] in ("", " "))
values = st.sampled_from(["demo", "a b", "-x", "", "temperature=1"])
options = (
    st.sampled_from([["-q"], ["--quiet"], ["-qv"], ["-pdemo"], ["--provider=x"], ["--nonsense"], ["-qpdemo"]])
    | st.builds(lambda name, value: [name, value], st.sampled_from(["-p", "--provider", "-m", "-o", "-qp"]), values)
)  # fmt: skip
option_lists = st.lists(options, max_size=3).map(lambda found: [part for option in found for part in option])
texts = words | st.sampled_from(["-rf", "-y", "--amend", "-x"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p=demo"], ["-pdemo"]),
        (["-o=temperature=1", "-q"], ["-otemperature=1", "-q"]),
        (["-m", "-p=demo"], ["-m", "-p=demo"]),
        (["-m", "--", "-p=a"], ["-m", "--", "-pa"]),
        (["-q=x", "-p=", "--provider=x", "-z=1", "-p"], ["-q=x", "-p=", "--provider=x", "-z=1", "-p"]),
        (["-p==x", "--", "-p=x"], ["-p=x", "--", "-p=x"]),
        (["-qp=x", "-qp", "-p=x", "-zp=x", "-=x"], ["-qpx", "-qp", "-p=x", "-zp=x", "-=x"]),
        (["-p=", "-p=x"], ["-p=", "-px"]),
    ],
)
def test_an_equals_sign_after_a_short_option_is_not_in_its_value(arguments: list[str], expected: list[str]) -> None:
    assert join_short_options(arguments, NAMES) == expected


def test_an_equals_sign_after_a_short_option_is_accepted_by_every_command(ask: Ask, home: Home) -> None:
    (home.work / "in.txt").write_text("one\n")
    (home.work / "a.txt").write_text("text")
    assert ask("-p=demo", "-f=a.txt", "hi").code == 0
    assert ask("hi", "-p=demo").code == 0
    assert ask("map", "-p=demo", "-O=out.jsonl", "Say {{line}}", "in.txt", "-j=2").code == 0
    assert (home.work / "out.jsonl").exists()
    assert ask("models", "-p=demo").code == 0
    assert ask("chat", "-p=demo", stdin=b"hi\n").code == 0


def parse(*arguments: str) -> ParsedCommandLine:
    return parse_command_line(arguments, NAMES)


@given(option_lists, words, option_lists)
def test_options_are_accepted_before_and_after_a_quoted_prompt(before: list[str], word: str, after: list[str]) -> None:
    assert parse(*before, word, *after) == ParsedCommandLine((*before, *after), (word,))


@given(option_lists, words, words, st.lists(texts | st.sampled_from(SHORT), max_size=4))
def test_short_options_after_several_words_are_text(before: list[str], one: str, two: str, rest: list[str]) -> None:
    found = parse(*before, one, two, *rest)
    assert (list(found.options), list(found.words)) == (before, [one, two, *rest])
    assert list(found.literal_options) == [word for word in rest if word in SHORT[:-1]]
    assert not found.misplaced_option


@given(option_lists, st.lists(words, min_size=2), st.sampled_from(LONG), st.lists(texts))
def test_known_long_options_after_several_words_are_an_error(
    before: list[str], question: list[str], long: str, rest: list[str]
) -> None:
    assert parse(*before, *question, long, *rest).misplaced_option == long


@given(option_lists, words, st.sampled_from([*SHORT, "-pdemo", "--json"]), words, words)
def test_options_between_words_are_an_error(before: list[str], one: str, option: str, two: str, three: str) -> None:
    assert parse(*before, one, option, two, three).misplaced_option == option


@given(option_lists, st.lists(words, max_size=1), st.lists(texts | st.sampled_from(SHORT)))
def test_two_dashes_end_the_options(before: list[str], question: list[str], rest: list[str]) -> None:
    found = parse(*before, *question, "--", *rest)
    assert (list(found.options), list(found.words)) == (before, [*question, *rest])


@pytest.mark.parametrize("arguments", [["-p", "--"], ["-p", "--json"], ["hi", "-qp", "-v"], ["--provider", "--json=x"]])
def test_an_option_is_not_taken_as_the_value_of_another(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="needs a value"):
        parse(*arguments)


def test_long_options_with_one_dash_are_an_error() -> None:
    with pytest.raises(UsageError, match="write --provider"):
        parse("hi", "-provider", "x")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("—json", "--json"),
        ("—json hi", "--json"),
        ("—json hi -q", "--json"),
        ("'say hi' —json", "--json"),
        ("-q what is it \u2013\u2013provider=x", "--provider=x"),
        ("\u2212json hi", "--json"),
        ("\u2013m x hi", "-m"),
    ],
)
def test_options_with_typographic_dashes_are_an_error(line: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"write {option},"):
        parse(*shlex.split(line))


@pytest.mark.parametrize(
    "line",
    [
        "-- —json",
        "hi -- —json",
        "'what is —json'",
        "a \u2013m b",
        "— json",
        "-- —json hi",
        "a-json b",
        "—jason b",
        "—m tú",
    ],
)
def test_other_words_with_dashes_are_text(line: str) -> None:
    assert parse(*shlex.split(line)).words


# The text of a prompt does not influence whether later options are parsed


OPTIONS = [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
questions = (
    st.text()
    | st.sampled_from([*OPTIONS, *COMMANDS, "--", "-", "---", "-safe", "--safe=no"])
    | st.tuples(st.sampled_from([*OPTIONS, "-", "--", ""]), st.text()).map("".join)
    | st.tuples(st.sampled_from([*OPTIONS, *COMMANDS]), st.text()).map(" ".join)
)


@given(questions, st.sampled_from([["--safe"], ["-q", "--safe"], ["--safe", "-m", "x"], ["--plain", "--safe"]]))
@example("cleanup", ["--safe"])
@example("整理してください", ["--safe"])
@example("--", ["--safe"])
@example("-s", ["--safe"])
def test_options_after_any_quoted_prompt_are_parsed(question: str, after: list[str]) -> None:
    name, rest = find_command([question, *after])
    if name not in ("ask", "chat"):
        return  # a command that sends no prompt
    try:
        context = command.make_context(name, list(rest))
    except (UsageError, click.ClickException, click.exceptions.Exit):
        return
    assert context.params["safe"] is True


@pytest.mark.slow_after_first
@pytest.mark.parametrize("question", ["cleanup", "整理してください", "clean up", ""])
@pytest.mark.needs("bwrap")
def test_safe_after_any_quoted_prompt_is_parsed(question: str, ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("bash", {"command": f"echo x > {home.path}/escaped; echo tried"})), wire.says("Done."))
    assert ask(question, "--safe", stdin=b"Please tidy").code == 0
    assert "tried" in str(server.requests[1].json["messages"][-1]["content"])
    assert not (home.path / "escaped").exists()


def test_options_that_would_become_prompt_text_are_an_error_in_scripts(ask: Ask, server: ModelServer) -> None:
    lost = ["clean up --safe", "'clean up' -f a now", "-- --safe", "-s --safe", "hi --json --events"]
    for line in lost:
        assert ask(*shlex.split(line), stdin=b"text\n").code == 2
    assert server.requests == []


# Command lines of the program


def question(server: ModelServer) -> str:
    """Return the user message of the only request."""
    (request,) = server.requests
    return wire.asked(request.json)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ("what does rm -f do -y", "what does rm -f do -y"),
        ("what does git commit --amend do", "what does git commit --amend do"),
        ("-- what does --safe do", "what does --safe do"),
        ("why -popenrouter --timeout 9", "why"),
        ("ls -la means", "ls -la means"),
        ("'why?  here' -p openrouter", "why?  here"),
        ("-p openrouter 'why?  here'", "why?  here"),
        ("-- -p foo", "-p foo"),
        ("'a b' -- -q", "a b -q"),
        ("'a b' c -q", "a b c -q"),
        ("-qv -popenrouter --timeout=9 hi", "hi"),
        ("-qp openrouter hi", "hi"),
        ("--provider=openrouter -- --json means what", "--json means what"),
        ("- hello", "- hello"),
        ("-- models are great", "models are great"),
        ("'models are great'", "models are great"),
        ("-q models", "models"),
        ("Models", "Models"),
        ("what is -V and -h", "what is -V and -h"),
        ("why 'is  this' \"so\" '' ?", "why is  this so  ?"),
        ("-s '' how ärgerlich 🎉", "how ärgerlich 🎉"),
    ],
)
def test_the_prompt_is_the_given_words_unchanged(arguments: str, asked: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = ask(*shlex.split(arguments))
    assert (result.code, result.text) == (0, "yes\n")
    assert "Traceback" not in result.stderr
    assert question(server) == asked


def test_quoted_words_and_invalid_utf_8_arrive_from_a_shell(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask.shell("ask -q why 'is  this' $'caf\\xe9' '' ?").text == "yes\n"
    assert question(server) == "why is  this caf\\xe9  ?"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--provder x hi", "--provider"),
        ("'why is this' --no-tool", "--no-tools"),
        ("what does rm -f do --safe", "--safe"),
        ("tar -v means", "-v"),
        ("'a b' -q 'c d'", "-q"),
        ("-- --json", "--json"),
        ("cleanup -safe", "--safe"),
        ("--max-round=3 hi", "--max-rounds"),
        ("-Z hi", "-Z"),
        ("-qZ hi", "-Z"),
        ("-p", "-p"),
        ("--max-rounds 0 hi", "--max-rounds"),
        ("--timeout abc hi", "--timeout"),
        ("--timeout nan hi", "--timeout"),
        ("--timeout inf hi", "--timeout"),
        ("--timeout 999999999 hi", "at most 31536000"),
        ("--quiet=3 hi", "--quiet"),
        ("models are great", "ask -- models are great"),
        ("providers of food", "ask -- providers of food"),
        ("tools 'of the trade'", "ask -- "),
        ("keys to success", "ask -- keys to success"),
        ("models --cheapest", "see ask models --help"),
        ("-p demo history list", "ask history list ..."),
        ("-q keys rm openrouter", "ask keys rm ..."),
        ("-q init bash", "ask init bash ..."),
        ("-p demo map 'Say {{line}}' rows.txt", "ask map ..."),
    ],
)
def test_usage_errors_are_one_line_with_a_suggestion(arguments: str, named: str, ask: Ask, server: ModelServer) -> None:
    result = ask(*shlex.split(arguments))
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr.startswith("ask: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert server.requests == []


def test_suggested_commands_can_be_pasted_into_a_shell(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    line = ask("tools", "that don't", "cost $5", "x").stderr
    assert ask.shell(line.partition("as a question: ")[2]).code == 0
    assert question(server) == "tools that don't cost $5 x"


@pytest.mark.parametrize(
    "arguments",
    [
        "-q tools of the trade",
        "-q 'history list'",
        "-q -- history list",
        "-q history",
        "-q map of Rome",
        "chat -q history list",
    ],
)
def test_after_options_the_name_of_a_command_can_be_the_first_word_of_a_prompt(
    arguments: str, ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.says("yes"))
    assert ask(*shlex.split(arguments)).text == "yes\n"


@pytest.mark.slow
def test_short_options_in_the_prompt_are_noted_on_a_terminal_only(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    named = "part of the question: -y -q\n"
    arguments = ["what", "does", "-y", "do", "with", "-q", "and", "-rf"]
    assert named in ask.on_terminal(*arguments).text
    assert ask(*arguments).stderr == ""
    assert named not in ask.on_terminal("-q", *arguments).text


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["--help"], ["-h"], ["models", "--help"]])
def test_help_and_version_work_in_a_broken_installation(arguments: list[str], home: Home) -> None:
    home.configure("not toml")
    result = Ask(home.env, home.work)(*arguments)
    assert (result.code, result.stderr) == (0, "")
    assert b"ask" in result.stdout


def test_the_help_command_prints_the_same_as_the_help_option(ask: Ask) -> None:
    for names in ([], ["keys"], ["history", "list"], ["chat"], ["help"]):
        shown = ask("help", *names)
        assert (shown.code, shown.text) == (0, ask(*names, "--help").text)
    assert ask("version").text == ask("--version").text
    assert [ask(name, "--json").code for name in ("version", "help")] == [2, 2]


@pytest.mark.parametrize(
    "arguments", ["help me write a commit message", "help histroy", "version control explained", "help history of rome"]
)
def test_help_and_version_can_be_the_first_word_of_a_prompt(arguments: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask(*arguments.split()).text == "yes\n"
    assert question(server) == arguments


@pytest.mark.parametrize(
    "line",
    [
        "hi --record=~/d/out",
        "--cd=~/d hi --record=out",
        "history stats --html=~/d/out",
        "history export --output=~/d/out",
        "map {{line}} -f x --report=~/d/out",
    ],
)
def test_a_tilde_after_an_equals_sign_is_the_home_directory(
    line: str, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.says("Hello."))
    assert ask("earlier").code == 0
    (home.work / "x").write_text("text\n")
    Path(home.env["HOME"], "d").mkdir()
    result = ask(*line.split(), stdin=b"row\n")
    assert (result.code, Path(home.env["HOME"], "d/out").exists()) == (0, True), result.stderr


@pytest.mark.slow
def test_mistyped_commands_are_confirmed_on_a_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    for word, answer in (("histroy", "n\n"), ("chta", "\n"), ("tool", CTRL_C)):
        assert ask.on_terminal(word, answers=[("[y/N]", answer)]).code == 130
    assert "'history' comes after options" in ask.on_terminal("-q", "history", answers=[("[y/N]", "n\n")]).text
    assert server.requests == []
    assert ask.on_terminal("Models", answers=[("[y/N]", "y\n")]).code == 0
    assert question(server) == "Models"


@pytest.mark.slow
def test_mistyped_commands_are_prompts_unless_all_streams_are_terminals(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    for line in ("ask histroy </dev/null", "ask chta | cat", "true | ask tool"):
        assert run_on_terminal(["bash", "-c", line], env=ask.env, cwd=ask.cwd).code == 0
    assert [wire.asked(request.json) for request in server.requests] == ["histroy", "chta", "tool"]


@pytest.mark.slow
def test_other_words_are_sent_without_confirmation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    for arguments in (["what"], ["--", "histroy"], ["histroy", "please"], ["-p", "openrouter", "save"]):
        assert ask.on_terminal(*arguments).code == 0
    assert len(server.requests) == 4


@pytest.mark.slow
def test_ask_without_arguments_on_a_terminal_starts_a_chat(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert ask.on_terminal(answers=[(PROMPT, "hello\r"), ("yes", ""), (PROMPT, "exit\r")]).code == 0
    assert question(server) == "hello"
    for script in ("ask | cat; exit ${PIPESTATUS[0]}", "ask < /dev/null", "ask -q"):
        assert run_on_terminal(["bash", "-c", script], env=ask.env, cwd=ask.cwd).code == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("1e3", 1000),
        ("90s", 90),
        ("5m", 300),
        ("5min", 300),
        ("1h30m", 5400),
        ("0.5d", 43_200),
        ("1w", 604_800),
    ],
)
def test_every_option_for_a_time_takes_units(text: str, seconds: float, ask: Ask, server: ModelServer) -> None:
    commands = [command, *filter(None, map(load_command, (["map"], ["models"], ["chat"], ["compare"], ["mcp"])))]
    commands += [one for group in commands if isinstance(group, click.Group) for one in group.commands.values()]
    times = [option for one in commands for option in one.params if option.metavar in ("S", "TIME")]
    parsers = [option.type for option in times if isinstance(option.type, click.types.FuncParamType)]
    assert len(parsers) >= 12
    assert {parser.convert(text, None, None) for parser in parsers} == {seconds}
    for key in ("timeout", "tools.command_timeout", "network.backoff"):
        assert ask("config", "set", key, text).code == 0
        assert float(ask("config", "get", key).text) == seconds
    assert ask("config", "set", "max_cost", "5m").code == 2


def test_help_lists_the_subcommands(ask: Ask) -> None:
    shown = ask("--help").text
    assert all(f"\n  {name} " in shown for name in ("keys", "models", "providers", "tools"))
