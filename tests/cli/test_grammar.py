"""Where options end and the prompt begins: as a pure rule, and as a user's shell hands the words over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.grammar import Split, split
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home

FLAGS = ("-q", "--quiet", "-v", "--json")
VALUED = ("-p", "--provider", "-m", "-o")

words = st.text("ab -", min_size=1, max_size=4).filter(lambda word: not word.startswith("-")) | st.just("-")
single_words = words.filter(lambda word: " " not in word)
phrases = st.tuples(single_words, single_words).map(" ".join)
values = st.sampled_from(["demo", "a b", "--", "-q", "", "temperature=1"])
options = (
    st.sampled_from([["-q"], ["--quiet"], ["-qv"], ["-pdemo"], ["--provider=x"], ["--nonsense"], ["-qpdemo"]])
    | st.builds(lambda name, value: [name, value], st.sampled_from([*VALUED, "-qp", "-vqm"]), values)
)  # fmt: skip
option_lists = st.lists(options, max_size=3).map(lambda found: [part for option in found for part in option])
anything = st.lists(words | values | st.sampled_from([*FLAGS, *VALUED, "--safe", "-rf", "-y"]), max_size=6)


def parts(*arguments: str) -> Split:
    return split(arguments, FLAGS, VALUED)


@given(option_lists, single_words, anything)
def test_everything_from_the_first_unquoted_word_on_is_text(given: list[str], first: str, rest: list[str]) -> None:
    found = parts(*given, first, *rest)
    assert list(found.options) == given
    assert list(found.words) == [first, *rest]


@given(option_lists, phrases, option_lists)
def test_options_may_follow_a_quoted_prompt(before: list[str], prompt: str, after: list[str]) -> None:
    assert parts(*before, prompt, *after) == Split((*before, *after), (prompt,), ())


@given(option_lists, st.lists(phrases, max_size=1), anything)
def test_two_dashes_end_the_options(before: list[str], prompt: list[str], rest: list[str]) -> None:
    assert parts(*before, *prompt, "--", *rest) == Split(tuple(before), (*prompt, *rest), ())


@given(anything)
def test_nothing_is_lost_doubled_or_reordered(arguments: list[str]) -> None:
    found = parts(*arguments)
    left = list(found.options)
    words_left = list(found.words)
    dashes = 0
    for argument in arguments:
        if left and argument == left[0] and not (words_left and argument == words_left[0] and "-" not in argument):
            left.pop(0)
        elif words_left and argument == words_left[0]:
            words_left.pop(0)
        else:
            dashes += 1
            assert argument == "--"
    assert (left, words_left) == ([], [])
    assert dashes <= 1


@pytest.mark.parametrize("space", [" ", "\t", "\n"])
def test_any_white_space_makes_a_prompt_a_quoted_one(space: str) -> None:
    assert parts(f"why{space}here", "-q") == Split(("-q",), (f"why{space}here",), ())


def test_words_like_our_options_are_told_and_others_not() -> None:
    told = parts("what", "-q", "is", "-rf", "--provider=x", "--providers", "-qv").taken_as_text
    assert told == ("-q", "--provider=x")


# Through the program


def question(server: ModelServer) -> str:
    """The user's message in the only request."""
    (request,) = server.requests
    return wire.asked(request.json)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ("what does rm -f do --safe -y", "what does rm -f do --safe -y"),
        ("'why?  here' -p openrouter", "why?  here"),
        ("-p openrouter 'why?  here'", "why?  here"),
        ("-- -p foo", "-p foo"),
        ("'a b' -- -q", "a b -q"),
        ("'a b' c -q", "a b c -q"),
        ("'a b' -q 'c d' -popenrouter", "a b c d"),
        ("-qv -popenrouter --timeout=9 hi", "hi"),
        ("-qp openrouter hi", "hi"),
        ("--provider=openrouter -- --json", "--json"),
        ("- hello", "- hello"),
        ("-- models are great", "models are great"),
        ("'models are great'", "models are great"),
        ("-q models", "models"),
        ("Models", "Models"),
        ("what is --version and -h", "what is --version and -h"),
        ("why 'is  this' \"so\" '' ?", "why is  this so  ?"),
        ("-s '' how ärgerlich 🎉", "how ärgerlich 🎉"),
        ("$'caf\\xe9' au lait", "caf\\xe9 au lait"),
    ],
)
def test_exactly_these_words_are_asked(arguments: str, asked: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = ask.shell(f"ask {arguments}")
    assert (result.code, result.text) == (0, "yes\n")
    assert "Traceback" not in result.stderr
    assert question(server) == asked


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--provder x hi", "--provider"),
        ("'why is this' --no-tool", "--no-tools"),
        ("--max-round=3 hi", "--max-rounds"),
        ("-Z hi", "-Z"),
        ("-qZ hi", "-Z"),
        ("-p", "-p"),
        ("--max-rounds 0 hi", "--max-rounds"),
        ("--timeout abc hi", "--timeout"),
        ("--timeout nan hi", "--timeout"),
        ("--timeout inf hi", "--timeout"),
        ("--quiet=3 hi", "--quiet"),
        ("models are great", "ask -- models are great"),
        ("providers of food", "ask -- providers of food"),
        ("tools 'of the trade'", "ask -- "),
        ("keys to success", "ask -- keys to success"),
        ("models --cheapest", "see ask models --help"),
        ("keys", "ask keys --help"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_what_was_meant(
    arguments: str, named: str, ask: Ask, server: ModelServer
) -> None:
    result = ask.shell(f"ask {arguments}")
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr.startswith("ask: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert server.requests == []


def test_a_suggested_question_can_be_pasted_into_a_shell(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    line = ask.shell("ask tools \"that don't\" 'cost $5' x").stderr
    assert ask.shell(line.partition("as a question: ")[2]).code == 0
    assert question(server) == "tools that don't cost $5 x"


def test_words_like_our_options_are_told_on_a_terminal_only(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    told = "taken as part of the question, not as options: -y --plain\n"
    arguments = ["what", "does", "-y", "do", "with", "--plain", "and", "-rf"]
    assert told in ask.on_terminal(*arguments).text
    assert ask(*arguments).stderr == ""
    assert told not in ask.on_terminal("-q", *arguments).text


@pytest.mark.parametrize("arguments", [["--version"], ["-V"], ["--help"], ["-h"], ["models", "--help"]])
def test_help_and_version_need_no_installation_that_works(arguments: list[str], home: Home) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text("not toml")
    result = Ask(home.env, home.work)(*arguments)
    assert (result.code, result.stderr) == (0, "")
    assert b"ask" in result.stdout


def test_help_lists_the_subcommands(ask: Ask) -> None:
    shown = ask("--help").text
    assert all(f"\n  {name} " in shown for name in ("keys", "models", "providers", "tools"))
