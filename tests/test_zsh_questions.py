"""Questions that are typed without quotes in zsh: after `ask init`, it does not expand their words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Running, make_home, run
from tests.shells import READY, Shell, evaluate
from tests.slow_parameters import mark_others_slow

pytestmark = pytest.mark.needs("zsh")
OTHER_HOOKS = """
highlight() { : }; zle -N highlight
autoload -Uz add-zle-hook-widget; add-zle-hook-widget line-finish highlight
function zle-line-finish() { print -n '[finish]' }
zle -N zle-line-finish
"""
"""As zsh-syntax-highlighting and oh-my-zsh define it, which may be loaded after `ask init`."""
WRAPPED_ACCEPT_LINE = """
own-accept-line() { zle .accept-line }
zle -N accept-line own-accept-line
"""
"""As zsh-autosuggestions wraps it."""
ENVIRONMENTS = {
    "plain": "",
    "extended": "setopt extended_glob null_glob interactive_comments rc_quotes",
    "no match": "setopt no_nomatch; unsetopt bare_glob_qual",
    "other scripts": OTHER_HOOKS + WRAPPED_ACCEPT_LINE,
}
LINES = [
    ("ask why is the sky blue?", ["why", "is", "the", "sky", "blue?"]),
    ("ask which *.txt and [ab].txt are new?", ["which", "*.txt", "and", "[ab].txt", "are", "new?"]),
    ("ask 'which *.txt' \"a?\" \\*", ["which *.txt", "a?", "*"]),
    ("ask -f *.pdf what is this?", ["-f", "a.pdf", "b.pdf", "what", "is", "this?"]),
    ("ask -qf ?.pdf what?", ["-qf", "a.pdf", "b.pdf", "what?"]),
    ("ask 'what is this?' -f a*.pdf", ["what is this?", "-f", "a.pdf"]),
    ("ask how do I use rm -f *.pdf", ["how", "do", "I", "use", "rm", "-f", "*.pdf"]),
    ("ask -p demo -- -x *?", ["-p", "demo", "--", "-x", "*?"]),
    ("ask map sum *.pdf", ["map", "sum", "a.pdf", "b.pdf"]),
    ("ask chat what is *.pdf?", ["chat", "what", "is", "*.pdf?"]),
    ("ask -C . chat -f a*.pdf why?", ["-C", ".", "chat", "-f", "a.pdf", "why?"]),
    ("ask -a *.pdf what?", ["-a", "a.pdf", "b.pdf", "what?"]),
    ("ask -C . map sum *.pdf", ["-C", ".", "map", "sum", "a.pdf", "b.pdf"]),
    ("ask history export -o *.pdf", ["history", "export", "-o", "a.pdf", "b.pdf"]),
    ("ask compare -m a -m b why? *.pdf", ["compare", "-m", "a", "-m", "b", "why?", "*.pdf"]),
    ("ask what's new, and what isn't?", ["what's", "new,", "and", "what", "isn't?"]),
    ("ask what does foo() (or g(x)|h) :) do?", ["what", "does", "foo()", "(or", "g(x)|h)", ":)", "do?"]),
    ("ask is 2 == =3 or ~4?", ["is", "2", "==", "=3", "or", "~4?"]),
    ("ask C# and a^b, a~b and <1-3>?", ["C#", "and", "a^b,", "a~b", "and", "<1-3>?"]),
    ("X='a b*'; ask $X? $(echo 1 2)", ["a b*?", "1", "2"]),
    ("true && time ask a? | cat", ["a?"]),
    ("false || { X=1 command ask a? 2>&1 </dev/null }", ["a?"]),
    ("for x in *.pdf; do ask is $x ok?; break; done", ["is", "a.pdf", "ok?"]),
    ("echo \"$(ask a? 'b?' | cat)\"", ["a?", "b?"]),
    ("(ask a? *)", ["a?", "*"]),
    ("env X=1 ask a?", ["a?"]),
    ("aq a? *", ["-q", "a?", "*"]),
    ("am s? *.pdf", None),
    ("af *.pdf a?", ["-f", "a.pdf", "b.pdf", "a?"]),
    ("echo ask a*.pdf", None),
    ("cat <<E\nask a?\nE", None),
]
"""What is typed, and what the program then gets. None: zsh does with the line what it does without `ask init`."""


@pytest.fixture
def work(home: Home) -> Path:
    """A folder with two files, and first on the PATH a program `ask` that prints its arguments."""
    for name in ("a.pdf", "b.pdf"):
        (home.work / name).touch()
    program = home.path / "bin/ask"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf 'got:'\nprintf '<%s>' \"$@\"\necho\n")
    program.chmod(0o755)
    return program.parent


def run_line(running: Running, line: str) -> str:
    """Run a line and return what it printed."""
    place = len(running.stdout)
    running.type_in(f"\x1b[200~{line}\x1b[201~\r")
    end = running.wait_for("[done]", 20, after=place)
    return running.stdout[place:end].decode()


@pytest.mark.parametrize("environment", mark_others_slow(ENVIRONMENTS, ["other scripts"]))
def test_words_of_a_question_are_not_expanded(environment: str, home: Home, ask: Ask, work: Path) -> None:
    after = f"""{ENVIRONMENTS[environment]}
        alias aq='ask -q' am='ask map' af='ask -f'
        PATH={work}:$PATH; precmd_functions+=(report); report() {{ print '[done]' }}
    """
    with Shell("zsh", home, ask.env, after=after).on_terminal() as running:
        for line, wanted in LINES:
            printed = run_line(running, line)
            assert ("[finish]" in printed) == ("[finish]" in after)
            if wanted is not None:
                assert "got:" + "".join(f"<{word}>" for word in wanted) in printed, line


ESCAPE = """
emulate zsh; [[ -z $OPTIONS ]] || setopt ${=OPTIONS}
source $INIT
alias aq='ask -q' am='ask map' ls='ls ask' loop='loop ask'
ask() { printf '<%s>' "$@"; print }
CONTEXT=start
for BUFFER; do
  __ask_line_finish
  if [[ -n $RUN ]]; then eval $BUFFER; else printf '%s\\0' $BUFFER; fi
done
"""
"""Prints the lines as they are after they were entered, or with $RUN what the words of `ask` then are."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make_home(tmp_path_factory.mktemp("zsh"))
    (home.work / "init").write_text(evaluate(home, "zsh"))
    return home.work


def run_escape(folder: Path, lines: Sequence[str], options: str = "", *, runs: bool = False) -> str:
    env = {"INIT": str(folder / "init"), "OPTIONS": options, "RUN": "1" if runs else "", "LC_ALL": "C.UTF-8"}
    result = run(["zsh", "-fc", ESCAPE, "zsh", *lines], env={**os.environ, **env}, cwd=folder)
    assert (result.code, result.stderr) == (0, "")
    return result.text


@pytest.mark.parametrize(
    "line",
    [
        *(line for line, wanted in LINES if wanted is None),
        *("ls *.pdf(om[1]) && grep ask? <(ls *)", "x=(ask a?)", "vim ask?", "loop a?", "case ask? in ask*) ;; esac"),
        *(
            "echo '$(ask a?)'",
            "ask 'open ?",
            "ask a\\? 'b?' \"c?\" $'d?'",
            "ask ${x}? $(echo *) `ls *` $x[1] $? $((2*3))",
        ),
        *("ask it's $x isn't; date y'", "ask don't && can't", "ask what's `date`", "ask what's up !x"),
        *("ask a ~ ~/x", "ask a {b,c} $#", "ask --file=*.txt", "ask `ls *`", "ask -- a <&2 >|x*"),
    ],
)
def test_what_is_no_unquoted_word_of_a_question_stays(line: str, folder: Path) -> None:
    assert run_escape(folder, [line]) == f"{line}\0"


WORDS = st.text("abé1?*[]()^#~=+-.,:/@%_\u2019'", min_size=1, max_size=8).filter(
    lambda word: not re.search(r"^[#-]|^~(/|$)|^=\(|(?<![abé1])'", word)
)
"""Words without a meaning for the shell beside patterns: no options, comments, home folders or quotes."""


@pytest.mark.slow_after_first
@given(questions=st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=20))
@pytest.mark.parametrize("options", ["", "extended_glob interactive_comments"])
def test_every_question_arrives_as_it_was_typed(options: str, questions: list[list[str]], folder: Path) -> None:
    arrived = run_escape(folder, [f"ask {' '.join(words)}" for words in questions], options, runs=True)
    assert arrived.splitlines() == ["".join(f"<{word}>" for word in words) for words in questions]


@given(
    lines=st.lists(st.text(st.sampled_from("ask ?*'\"$()`\\;&|<>{}[]=~!#\n-"), max_size=30), min_size=1, max_size=20)
)
def test_lines_get_backslashes_at_most(folder: Path, lines: list[str]) -> None:
    for line, entered in zip(lines, run_escape(folder, lines).split("\0"), strict=False):
        assert is_subsequence(line, entered)
        assert len(entered) - len(line) == entered.count("\\") - line.count("\\")


def is_subsequence(text: str, of: str) -> bool:
    characters = iter(of)
    return all(character in characters for character in text)


@pytest.mark.slow
def test_the_sentences_of_the_documentation(home: Home, ask: Ask, server: ModelServer) -> None:
    """The question reaches the model as it was typed, while `ask map` gets the files."""
    for name in ("a.txt", "b.txt"):
        (home.work / name).write_text(name)
    server.reply(wire.says("Yes."))
    env = {**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}
    with Shell("zsh", home, env).on_terminal() as running:
        for line in ("ask why is the sky blue?", 'ask "summarize s*.md"', 'ask map "what is in {}" *.txt'):
            place = len(running.stdout)
            running.type_in(f"{line}\r")
            running.wait_for(READY, 30, after=running.wait_for("Yes.", 30, after=place))
    prompts = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "why is the sky blue?" in prompts[0]
    assert "summarize s*.md" in prompts[1]
    assert sum("a.txt" in prompt or "b.txt" in prompt for prompt in prompts[2:]) == 2
