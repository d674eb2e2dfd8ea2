"""Conversations as Markdown: readable, and no text affects the Markdown around it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ask.export.conversation_markdown import escape_markdown, render_conversation_markdown
from ask.export.safe_markdown import MAX_TEXT_CHARACTERS, format_code_block, to_html, to_safe_markdown
from ask.history.export_format import ConversationExport, from_json_value
from ask.text import split_prompt
from tests.conversation_strategies import CANARY, HOSTILE, TEXTS, conversations

CALL = {"id": "1", "name": "bash", "arguments": '{"command": "ls"}', "started": 1, "seconds": 0.5, "exit_status": 2}
PERMISSIVE_PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
"""A parser that accepts HTML, as another program might."""


def make_export(*messages: dict[str, Any], **run: Any) -> ConversationExport:
    header = {"format": "ask-conversation", "version": 1, "id": "abc", "title": "a *title*"}
    return from_json_value({**header, "runs": [{"provider": "demo", "model": "m", "messages": list(messages), **run}]})


def render(*exports: ConversationExport) -> str:
    runs = {id(export.conversation): export.runs for export in exports}
    return "".join(
        render_conversation_markdown([export.conversation for export in exports], lambda export: runs[id(export)])
    )


def list_top_blocks(text: str) -> list[tuple[str, str]]:
    """List type and content of the top-level blocks."""
    tokens = PERMISSIVE_PARSER.parse(text)
    blocks = []
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0:
            content = tokens[index + 1].content if token.nesting else token.content
            blocks.append((token.type.removesuffix("_open"), content))
    return blocks


def test_a_conversation_keeps_its_order() -> None:
    text = render(
        make_export(
            {"role": "user", "content": "why *this*?"},
            {"role": "assistant", "content": "I look.", "calls": [CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "a.c\n```\n"},
            {"role": "assistant", "content": "Because of **that**", "complete": False},
            exit_code=10,
            error="the stream was cut",
        )
    )
    assert list_top_blocks(text)[2:] == [
        ("blockquote", ""),
        ("paragraph", "I look."),
        ("paragraph", "**bash** (0.5 s, exit code 2)"),
        ("fence", "$ ls\n"),
        ("fence", "a.c\n```\n"),
        ("paragraph", "Because of **that**"),
        ("paragraph", "*The answer was cut off here.*"),
        ("paragraph", "*exit code 10: the stream was cut*"),
    ]
    assert text.startswith("# a \\*title\\*\n")
    assert "\n> why \\*this\\*?\n" in text
    assert "<p>why *this*?</p>" in PERMISSIVE_PARSER.render(text)


def test_a_call_without_a_result_is_marked_as_interrupted() -> None:
    open_call = {**CALL, "seconds": None, "exit_status": None}
    text = render(make_export({"role": "user", "content": "x"}, {"role": "assistant", "calls": [open_call]}))
    assert "**bash** (interrupted)" in text
    assert "it may or may not have run" in text
    assert "still running, or killed" in text


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_answers_are_self_contained_and_have_no_html(answers: list[str]) -> None:
    messages = [{"role": "assistant", "content": answer, "calls": [{**CALL, "id": "x"}]} for answer in answers]
    tokens = PERMISSIVE_PARSER.parse(render(make_export({"role": "user", "content": "q"}, *messages)))
    calls = [token for token in tokens if token.type == "inline" and token.level == 1 and "bash** (" in token.content]
    assert len(calls) == len(answers)
    for token in tokens:
        for part in (token, *(token.children or ())):
            assert part.type not in ("html_block", "html_inline", "image")
            assert not str(part.attrGet("href") or "").startswith(("javascript:", "data:", "file:"))


@given(TEXTS)
def test_escaped_text_has_no_markup(text: str) -> None:
    escaped = escape_markdown(" ".join(text.split()))
    tokens = PERMISSIVE_PARSER.parse(f"> {escaped}")
    types = {child.type for token in tokens for child in token.children or ()}
    assert types <= {"text", "text_special", "softbreak", "hardbreak"}
    assert {token.type for token in tokens} <= {
        *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close", "inline"),
    }


@given(TEXTS)
def test_no_text_closes_its_fence(text: str) -> None:
    (token,) = PERMISSIVE_PARSER.parse(format_code_block(text))
    assert token.type == "fence"


@given(conversations())
def test_any_conversation_can_be_rendered(value: dict[str, Any]) -> None:
    text = render(from_json_value(value))
    text.encode()
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\u2066", "\x9b", "\0", "\r"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain *text* with `<code>`", "plain *text* with `<code>`"),
        ("a <b>bold</b> word", "a &lt;b>bold&lt;/b> word"),
        ("![seen](http://host/x.png)", "\\![seen](http://host/x.png)"),
        ("see <https://host/> and [a file](a/b.c)", "see <https://host/> and [a file](a/b.c)"),
        ("```c\nint a<b>;", "```c\nint a<b>;\n```"),
        ("~~~~\nx", "~~~~\nx\n~~~~"),
        ("[a](javascript:alert(1))", "```\n[a](javascript:alert(1))\n```"),
    ],
)
def test_answers_are_changed_as_little_as_possible(text: str, shown: str) -> None:
    assert to_safe_markdown(text) == shown


@pytest.mark.parametrize(
    "text", ["[" * MAX_TEXT_CHARACTERS, "![[" * 60_000, "x" * (MAX_TEXT_CHARACTERS + 1), "`" * 1_000 + "[" * 5_001]
)
def test_text_that_is_slow_to_parse_is_preformatted(text: str) -> None:
    assert to_html(text) == f"<pre>{text}</pre>\n"
    assert to_safe_markdown(text) == format_code_block(text)


def test_br_begins_a_new_line_in_html() -> None:
    assert to_html("a<br>b<BR />c<br x>d") == "<p>a<br />\nb<br />\nc&lt;br x&gt;d</p>\n"


def test_formulas_stay_as_written_in_html() -> None:
    formula = "$$\na^{*} \\\\\n- b^{*} <img src=x>\n$$"
    assert to_html(f"So $x^{{*}} = y^{{*}}$:\n{formula}") == (
        f"<p>So $x^{{*}} = y^{{*}}$:</p>\n<p>{formula.replace('<', '&lt;').replace('>', '&gt;')}</p>\n"
    )


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("just words", [("", "just words")]),
        ("<stdin>\nlog\n</stdin>", [("stdin", "log")]),
        ("why?\n\n<stdin>\nlog\n\nmore\n</stdin>", [("", "why?"), ("stdin", "log\n\nmore")]),
        ('q\n\n<file name="a b.c">\n1\n</file>\n\n<file-2 name="é">\n</file>\n</file-2>', ["q", "a b.c", "é"]),
        ('<file name="a">\n\n</file>', [("a", "")]),
        ("<stdin>\nnever closed", [("", "<stdin>\nnever closed")]),
        ("<stdin>\nx\n</stdin> and on", [("", "<stdin>\nx\n</stdin> and on")]),
        ("a <stdin> b", [("", "a <stdin> b")]),
    ],
)
def test_a_prompt_is_split_into_its_parts(prompt: str, parts: list[Any]) -> None:
    split_parts = split_prompt(prompt)
    if isinstance(parts[0], str):
        assert [part.title or part.text for part in split_parts] == parts
    else:
        assert [(part.title, part.text) for part in split_parts] == parts


def test_conversations_are_separated_by_rules() -> None:
    text = render(
        make_export({"role": "user", "content": CANARY}), make_export({"role": "user", "content": HOSTILE[5]})
    )
    assert [kind for kind, _ in list_top_blocks(text) if kind in ("heading", "hr")] == ["heading", "hr", "heading"]
