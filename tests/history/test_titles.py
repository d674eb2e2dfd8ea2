"""The titles that conversations get from their first question."""

from __future__ import annotations

import pytest

from ask.history.titles import MAX_TITLE_CHARACTERS, make_title
from ask.text import format_blocks
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask

DIFF = "diff --git a/ask/cli/map.py b/ask/cli/map.py\n--- a/ask/cli/map.py\n+++ b/ask/cli/map.py\n@@ -1 +1 @@\n-a\n+b\n"
OTHER_DIFF = "diff --git a/x y.txt b/x y.txt\nnew file mode 100644\n"
UNIFIED_DIFF = "--- a/one.c\n+++ b/one.c\n@@ -1 +1 @@\n"


@pytest.mark.parametrize(
    ("words", "files", "piped", "expected"),
    [
        ("why is\nthe sky blue?", [], "", "why is the sky blue?"),
        ("what broke?", [], "Traceback", "what broke?"),
        ("", [], "Traceback\nValueError", "Traceback ValueError"),
        ("", [("notes.md", "text")], "", "notes.md"),
        ("", [("a.md", "text"), ("b.md", "text")], "piped", "a.md"),
        ("", [("a\n\x1b[2Jb.md", "text")], "", "a \\x1b[2Jb.md"),
        ("", [], DIFF, "ask/cli/map.py"),
        ("review", [], DIFF, "review"),
        ("", [], DIFF + OTHER_DIFF, "ask/cli/map.py and 1 more"),
        ("", [], "commit 1234\nAuthor: A\n\n" + OTHER_DIFF, "x y.txt"),
        ("", [], UNIFIED_DIFF, "one.c"),
        ("what does <stdin> mean?", [], "", "what does <stdin> mean?"),
        ("--- a dash", [], "", "--- a dash"),
        ("x" * 200, [], "", "x" * (MAX_TITLE_CHARACTERS - 1) + "…"),
    ],
)
def test_title_is_what_the_user_asked_about(
    words: str, files: list[tuple[str, str]], piped: str, expected: str
) -> None:
    question = piped if piped and not words and not files else format_blocks(words, files, piped)
    assert make_title(question) == expected
    in_template = f"Do it.\n\n{format_blocks(words, files, piped)}"
    assert make_title(in_template, "commit", words) == f"commit: {expected}"[: MAX_TITLE_CHARACTERS - 1] + (
        "…" if len(expected) + 8 > MAX_TITLE_CHARACTERS else ""
    )


def list_titles(ask: Ask) -> list[str]:
    return [line.split("\t")[2] for line in ask("history", "list").text.splitlines()]


def test_conversation_of_a_template_is_named_after_it_and_its_input(ask: Ask, server: ModelServer) -> None:
    for _ in range(3):
        server.reply(wire.says("Yes."))
    ask("-t", "commit", stdin=DIFF.encode())
    ask("-t", "translate", "hello")
    ask("what is this?", stdin=DIFF.encode())
    assert list_titles(ask) == ["what is this?", "translate: hello", "commit: ask/cli/map.py"]


def test_a_key_in_a_title_is_redacted(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Yes."))
    ask("-t", "translate", ask.env["OPENROUTER_API_KEY"])
    [title] = list_titles(ask)
    assert title.startswith("translate: ")
    assert ask.env["OPENROUTER_API_KEY"] not in title


def test_first_message_of_a_chat_with_a_template_names_the_conversation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Yes."), wire.says("Again."))
    ask("chat", "-t", "translate", stdin=b"hello\nmore\n")
    assert list_titles(ask) == ["translate: hello"]
