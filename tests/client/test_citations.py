"""The sources of answers: nothing in them reaches a terminal, Markdown or HTML that could do harm."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given

from ask import Citation, ServerToolCall
from ask.client.citations import (
    clean_citations,
    clean_server_calls,
    format_notes,
    list_in_markdown,
    mark_sources,
    number_sources,
    to_markdown,
)
from ask.export.safe_markdown import to_html
from ask.render.markdown_rows import render_markdown
from ask.render.text_layout import get_plain_text
from providers.anthropic import provider as anthropic
from providers.gemini import provider as gemini
from providers.openai import provider as openai
from providers.openrouter import provider as openrouter
from tests.conversation_strategies import CITATIONS, TEXTS
from tests.json_strategies import any_json
from tests.providers import gemini_wire

URL = "https://a.example/x"
Json = dict[str, Any]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (URL, URL),
        ("https://a.example/größe?q=<b>&r=a b", "https://a.example/gr%C3%B6%C3%9Fe?q=%3Cb%3E&r=a%20b"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("file:///etc/passwd", ""),
        ("https://a.example/\x1b]8;;evil", ""),
        ("https://a.example/\nhttps://b.example", ""),
        ("https://a.example/\u202egnp", ""),
        ("https://", ""),
        ("https://[", ""),
        ("x" * 5_000, ""),
    ],
)
def test_only_addresses_of_web_pages_are_kept(url: str, expected: str) -> None:
    assert [citation.url for citation in clean_citations([Citation(url, "Title")], "")] == [expected]
    # Imported conversations may contain any address.
    assert [source.url for source in number_sources([Citation(url, "Title")])] == [expected]


@given(CITATIONS, TEXTS)
def test_no_source_controls_a_terminal_or_runs_a_script(values: list[Json], text: str) -> None:
    citations = [Citation(**value) for value in values]
    notes = format_notes(citations)
    shown = notes.translate({ord("\n"): None, ord("\u200c"): None, ord("\u200d"): None})  # joiners of words and emoji
    assert not any(unicodedata.category(character) in ("Cc", "Cf") for character in shown)
    assert "javascript:alert(1)\n" not in notes or any(each.title == "javascript:alert(1)" for each in citations)
    links = re.findall(r'href="([^"]*)"', to_html(to_markdown("", citations)))
    assert all(link.startswith(("http://", "https://")) for link in links)
    cleaned = clean_citations(citations, text)
    assert all(each.start is None or 0 <= each.start <= (each.end or 0) <= len(text) for each in cleaned)
    assert mark_sources(text, cleaned, lambda _: "") == text


def test_sources_are_numbered_once_in_the_order_of_the_text() -> None:
    citations = [Citation("https://b.example"), Citation(URL, "A"), Citation("https://b.example", "B\n[x](y)")]
    assert format_notes(citations) == f"[1] B [x](y)\n    https://b.example\n[2] A\n    {URL}\n"
    assert to_markdown("Text.", citations).endswith(f"1. [B x (y)](<https://b.example>)\n2. [A](<{URL}>)\n")


@pytest.mark.parametrize(
    ("text", "supported", "marked"),
    [
        ("Rain. Sun.", "Rain.", "Rain.[1] Sun."),
        ("Rain.\nSun.", "Rain.\n", "Rain.[1]\nSun."),
        ("See `a b` now", "See `a", None),
        ("```\ncode\n```\n", "```\ncode", None),
        (f"Rain ([a]({URL})).", f"([a]({URL}))", None),
        ("A [link](https://b.example) here", "A [link](https", None),
        ("Raining", "Rain", None),
        ("雨が降る。晴れ", "雨が降る。", "雨が降る。[1]晴れ"),
    ],
)
def test_marks_do_not_change_code_links_and_words(text: str, supported: str, marked: str | None) -> None:
    citation = (
        Citation(URL, "", "", 0, len(supported)) if "([a]" not in supported else Citation(URL, "", "", 5, len(text) - 1)
    )
    assert mark_sources(text, [citation], lambda source: f"[{source.number}]") == (marked or text)


def test_positions_follow_the_text_from_which_reasoning_was_removed() -> None:
    citations = [Citation(URL, "", "", 8, 12), Citation(URL, "", "", 0, 4), Citation(URL, "", "", 8, 99)]
    assert clean_citations(citations, "Rain.", removed=8) == (Citation(URL, "", "", 0, 4), Citation(URL))


def test_long_results_are_cut_and_lone_surrogates_replaced() -> None:
    (call,) = clean_server_calls([ServerToolCall("", "\ud800", "x" * 200_000)])
    assert (call.name, call.arguments, len(call.result)) == ("unnamed", "\ufffd", 100_000)
    (citation,) = clean_citations([Citation(URL, "t" * 999, "c" * 9_999)], "")
    assert (len(citation.title), len(citation.cited_text)) == (200, 1_000)


# What the services send


def test_perplexity_numbers_its_sources_in_the_text() -> None:
    urls = ["https://a.example", "https://b.example"]
    results = [{"url": urls[1], "title": "B", "snippet": "bb"}, {"url": urls[0], "title": "A"}]
    response = {"choices": [{"message": {"content": "Rain [1][2]."}, "finish_reason": "stop"}], "citations": urls}
    parsed = openrouter.provider_parse_response(response | {"search_results": results})
    assert parsed.citations == (Citation(urls[0], "A"), Citation(urls[1], "B", "bb"))
    assert openrouter.provider_parse_response(response).citations == (Citation(urls[0]), Citation(urls[1]))


def test_positions_of_gemini_are_bytes_of_a_part() -> None:
    parts = [gemini_wire.text("Größe: "), gemini_wire.thought("hm"), gemini_wire.text("8 km². Wind.")]
    response = gemini_wire.whole(*parts)
    response["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [{"web": {"uri": URL, "title": "A"}}, {"web": {"uri": "https://b.example"}}],
        "groundingSupports": [
            {"segment": {"partIndex": 2, "endIndex": 7, "text": "8 km²"}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 900, "endIndex": 990, "text": "Wind."}, "groundingChunkIndices": [1, 7]},
        ],
    }
    text, (first, second) = (parsed := gemini.provider_parse_response(response)).text, parsed.citations
    assert (text[first.start : first.end], first.title) == ("8 km²", "A")
    assert (text[second.start : second.end], second.url) == ("Wind.", "https://b.example")


def test_grounding_that_arrives_in_several_events_is_merged() -> None:
    reader = gemini.provider_stream_reader()
    for index, word in enumerate(("Rain. ", "Sun.")):
        body = gemini_wire.whole(gemini_wire.text(word), finish="STOP" if index else None)
        body["candidates"][0]["groundingMetadata"] = {
            "groundingChunks": [{"web": {"uri": f"https://{index}.example"}}],
            "groundingSupports": [{"segment": {"text": word}, "groundingChunkIndices": [0]}],
        }
        for event in gemini_wire.events(body):
            reader.feed(event)
    citations = gemini.provider_parse_response(reader.response()).citations
    assert [(each.url, each.start) for each in citations] == [("https://0.example", 0), ("https://1.example", 6)]


def test_xai_reports_arguments_as_text_and_titles_as_numbers() -> None:
    call = {"type": "web_search_call", "name": "web_search", "arguments": '{"query": "x"}', "status": "completed"}
    search = {"type": "custom_tool_call", "name": "x_keyword_search", "input": '{"query": "y"}', "status": "completed"}
    video = {"type": "custom_tool_call", "name": "view_x_video", "call_id": "xs_call_1", "input": '{"video_url": "z"}'}
    parsed = openai.provider_parse_response({"output": [call, search, video], "citations": [URL, 7]})
    assert parsed.finish_message == ""
    assert [(each.name, json.loads(each.arguments)) for each in parsed.server_calls] == [
        ("web_search", {"query": "x"}),
        ("x_search", {"query": "y"}),
        ("x_search", {"video_url": "z"}),
    ]
    assert parsed.citations == (Citation(URL),)
    assert clean_citations([Citation(URL, "1")], "")[0].title == ""


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [({"type": "exit", "exit_code": 0}, False), ({"type": "exit", "exit_code": 2}, True), ({"type": "timeout"}, True)],
)
def test_commands_in_the_container_of_openai_fail_as_elsewhere(outcome: Any, failed: bool) -> None:
    call = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls", "pwd"]}}
    printed = [{"stdout": "a\n", "stderr": "b", "outcome": outcome}]
    output = {"type": "shell_call_output", "call_id": "call_1", "output": printed, "status": "completed"}
    [parsed] = openai.provider_parse_response({"output": [call, output]}).server_calls
    assert (parsed.name, json.loads(parsed.arguments)) == ("code_execution", {"code": "ls\npwd"})
    assert (parsed.result, parsed.failed) == ("a\nb\n", failed)


@given(any_json())
def test_any_json_in_the_place_of_sources_and_calls_is_read(value: Any) -> None:
    candidate = {"groundingMetadata": value, "urlContextMetadata": value, "citationMetadata": value}
    gemini.provider_parse_response({"candidates": [candidate | {"content": {"parts": [{"toolResponse": value}]}}]})
    block = {"type": "web_search_tool_result", "content": value, "tool_use_id": value}
    text = {"type": "text", "text": "x", "citations": value}
    anthropic.provider_parse_response({"content": [block, text, {"type": "server_tool_use", "input": value}]})
    items = [{"type": "web_search_call", "action": value, "arguments": value}, {"type": "mcp_call", "error": value}]
    items += [{"type": "shell_call_output", "output": value}, {"type": "shell_call", "action": {"commands": value}}]
    items.append({"type": "message", "content": [{"type": "output_text", "text": "x", "annotations": value}]})
    openai.provider_parse_response({"output": items, "citations": value, "search_results": value})
    message = {"annotations": value, "reasoning_details": [{"type": "reasoning.server_tool_call", "result": value}]}
    openrouter.provider_parse_response({"choices": [{"message": message}], "citations": value, "search_results": value})


def test_sources_in_markdown_are_neither_code_nor_markup() -> None:
    citations = [
        Citation("https://a.example/*b*", "```"),
        Citation("https://c.example/", "**C** [d](https://e.example)"),
    ]
    lines = list_in_markdown(citations, "See:\n```\nx = 1").split("\n")
    assert lines == ["```", "", "1. <https://a.example/*b*>", "2. [C d (https://e.example)](<https://c.example/>)"]
    rows = [get_plain_text(row) for row in render_markdown("\n".join(["See:\n```\nx = 1", *lines]), 80)]
    assert next(row for row in rows if "example" in row) == "1. https://a.example/*b*"
