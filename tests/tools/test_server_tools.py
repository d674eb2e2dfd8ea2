"""The services' own tools: what is sent, shown, stored and sent back, and what the user may not do by accident."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, find_history_file
from tests.provider_wires import build_service_variables
from tests.providers import anthropic_wire, gemini_wire

Json = dict[str, Any]
URL, TITLE, QUERY = "https://bergen.example/rain?y=1", "Rain in Bergen", "rain in Bergen"
TEXT = "It rains in Bergen, often."
SUPPORTED = "It rains in Bergen"
CITATION = {"url": URL, "title": TITLE, "cited_text": "", "start": 0, "end": len(SUPPORTED)}
TYPES = {
    "anthropic": ["web_search_20260318", "web_fetch_20260318", "code_execution_20260521"],
    "openai": ["web_search", "code_interpreter"],
    "xai": ["web_search", "x_search", "code_interpreter"],
    "openrouter": ["openrouter:web_search", "openrouter:web_fetch"],
    "gemini": ["googleSearch", "urlContext", "codeExecution"],
}
NAMES = {
    "openrouter": "web_search,web_fetch",
    "openai": "web_search,code_execution",
    "xai": "web_search,x_search,code_execution",
}


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    return Ask({**home.env, **build_service_variables(server.base_url)}, home.work)


def search_result(*results: Json, call_id: str = "srvtoolu_1") -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [*results]}


FOUND = {"type": "web_search_result", "url": URL, "title": TITLE, "encrypted_content": "ZW5j", "page_age": None}
SEARCH_BLOCK = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
INPUT = {"type": "input_json_delta", "partial_json": json.dumps({"query": QUERY})}


def anthropic_answer() -> Reply:
    location = {
        "type": "web_search_result_location",
        "url": URL,
        "title": TITLE,
        "cited_text": "",
        "encrypted_index": "x",
    }
    return anthropic_wire.streams(
        anthropic_wire.begins(),
        anthropic_wire.block(0, SEARCH_BLOCK, INPUT),
        anthropic_wire.block(1, search_result(FOUND)),
        anthropic_wire.block(
            2,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": SUPPORTED},
            {"type": "citations_delta", "citation": location},
        ),
        anthropic_wire.text(3, TEXT.removeprefix(SUPPORTED)),
        anthropic_wire.ends(),
    )


def responses_answer(*, stream: bool = True) -> Reply:
    action = {"type": "search", "query": QUERY, "sources": [{"type": "url", "url": URL}]}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    message = responses_wire.message(TEXT)
    message["content"][0]["annotations"] = [
        {"type": "url_citation", "url": URL, "title": TITLE, "start_index": 0, "end_index": len(SUPPORTED)}
    ]
    return responses_wire.replies(responses_wire.response(call, message), stream=stream)


def openrouter_answer() -> Reply:
    annotation: Json = {"url": URL, "title": TITLE, "start_index": 0, "end_index": len(SUPPORTED)}
    detail: Json = {"type": "reasoning.server_tool_call", "tool_name": "openrouter:web_search", "result": f"{URL}\n"}
    detail |= {"arguments": json.dumps({"query": QUERY}), "index": 0}
    return wire.streams(
        wire.detail(**detail),
        wire.text(TEXT),
        wire.chunk({"annotations": [{"type": "url_citation", "url_citation": annotation}]}),
        wire.finish(),
    )


def gemini_answer() -> Reply:
    grounding = {
        "webSearchQueries": [QUERY],
        "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
        "groundingSupports": [
            {"segment": {"endIndex": len(SUPPORTED), "text": SUPPORTED}, "groundingChunkIndices": [0]}
        ],
    }
    last = gemini_wire.whole(gemini_wire.text(TEXT))
    last["candidates"][0]["groundingMetadata"] = grounding
    return gemini_wire.streamed(last)


ANSWERS = {
    "anthropic": anthropic_answer,
    "openai": responses_answer,
    "xai": responses_answer,
    "openrouter": openrouter_answer,
    "gemini": gemini_answer,
}


def list_types(body: Json) -> list[str]:
    """Return the types of the service's own tools in a request."""
    tools = [tool for tool in body["tools"] if "functionDeclarations" not in tool and "input_schema" not in tool]
    return [tool.get("type") or next(iter(tool)) for tool in tools if tool.get("type") != "function"]


def read_result(ask: Ask, *arguments: str) -> Json:
    result = ask("--json", *arguments)
    assert result.code == 0, result.stderr
    value: Json = json.loads(result.text)
    return value


@pytest.mark.parametrize("name", ANSWERS)
def test_tools_of_the_service_are_offered_beside_others_and_its_sources_arrive(
    name: str, ask: Ask, server: ModelServer
) -> None:
    server.reply(ANSWERS[name](), ANSWERS[name]())
    names = NAMES.get(name, "web_search,web_fetch,code_execution")
    value = read_result(ask, "-p", name, "-T", names, "hi")
    body = server.requests[0].json
    assert list_types(body) == TYPES[name]
    assert "read_file" in json.dumps(body["tools"])
    assert (value["text"], value["citations"]) == (TEXT, [CITATION])
    (call,) = value["server_calls"]
    assert (call["name"], json.loads(call["arguments"]), call["decision"]) == ("web_search", {"query": QUERY}, "server")
    # Without ask's own tools, only those of the service are left.
    read_result(ask, "-p", name, "--no-tools", "-T", "web_search", "hi")
    assert len(server.requests[1].json["tools"]) == 1


@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini"])
def test_requests_match_the_types_of_the_vendors_and_extend_each_other(
    name: str, ask: Ask, server: ModelServer
) -> None:
    server.reply(ANSWERS[name](), ANSWERS[name]())
    for question in ("one", "two"):
        read_result(
            ask, "-p", name, "-T", NAMES.get(name, "web_search,web_fetch,code_execution"), *question_of(question)
        )
    first, second = (request.json for request in server.requests)
    read = {
        "anthropic": anthropic_wire.read_by_anthropic,
        "openai": responses_wire.read_by_openai,
        "gemini": gemini_wire.read_by_google,
    }[name]
    assert read(second)
    assert first["tools"] == second["tools"]


def question_of(text: str) -> list[str]:
    return [*(["-c"] if text == "two" else []), text]


def test_the_sources_of_a_search_are_not_sent_back_to_openai(ask: Ask, server: ModelServer) -> None:
    """OpenAI, from which each request asks for them, refuses them in the next one."""
    server.reply(responses_answer(), responses_answer())
    value = read_result(ask, "-p", "openai", "-T", "web_search", "hi")
    assert value["server_calls"][0]["result"] == f"{URL}\n"
    read_result(ask, "-p", "openai", "-T", "web_search", "-c", "again")
    body = server.requests[1].json
    assert body["include"][-1] == "web_search_call.action.sources"
    (search,) = (item for item in body["input"] if item.get("type") == "web_search_call")
    assert search["action"] == {"type": "search", "query": QUERY}


def test_encrypted_results_and_citations_go_back_to_the_service_alone(ask: Ask, server: ModelServer) -> None:
    server.reply(anthropic_answer(), anthropic_answer(), responses_answer())
    ask("-p", "anthropic", "-T", "web_search", "hi")
    ask("-p", "anthropic", "-c", "again")
    content = server.requests[1].json["messages"][1]["content"]
    assert [block["type"] for block in content] == ["server_tool_use", "web_search_tool_result", "text", "text"]
    assert content[0]["input"] == {"query": QUERY}
    assert content[1]["content"][0]["encrypted_content"] == "ZW5j"
    assert content[2]["citations"][0]["encrypted_index"] == "x"
    assert ask("-p", "openai", "-c", "again").code == 0
    items = server.requests[2].json["input"]
    assert {"role": "assistant", "content": TEXT} in items
    assert "ZW5j" not in json.dumps(items)


@pytest.mark.parametrize("title", [None, TITLE])
def test_citations_of_a_fetched_page_have_its_address_and_go_back_without_the_id_of_a_file(
    ask: Ask, server: ModelServer, title: str | None
) -> None:
    """The API sends the id, even as null, and refuses it: https://github.com/langchain-ai/langchain/pull/32592"""
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": URL}}
    page = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Rain."}, "title": title}
    found = {"type": "web_fetch_result", "url": URL, "content": page}
    location = {
        "type": "char_location",
        "cited_text": "Rain.",
        "document_index": 0,
        "document_title": title,
        "start_char_index": 0,
        "end_char_index": 5,
    }
    failed = {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}
    calls = [
        block
        for index, content in enumerate((failed, found, failed, found))
        for block in (
            anthropic_wire.block(2 * index, call | {"id": f"srvtoolu_{index}"}),
            anthropic_wire.block(
                2 * index + 1,
                {"type": "web_fetch_tool_result", "tool_use_id": f"srvtoolu_{index}", "content": content},
            ),
        )
    ]
    fetched = anthropic_wire.streams(
        anthropic_wire.begins(),
        *calls,
        anthropic_wire.block(
            8,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Rain."},
            {"type": "citations_delta", "citation": location | {"file_id": None}},
        ),
        anthropic_wire.ends(),
    )
    server.reply(fetched, anthropic_answer())
    (source,) = read_result(ask, "-p", "anthropic", "-T", "web_fetch", "hi")["citations"]
    assert (source["url"], source["title"]) == (URL, title or "")
    ask("-p", "anthropic", "-c", "again")
    content = server.requests[1].json["messages"][1]["content"]
    assert content[-1] == {"type": "text", "text": "Rain.", "citations": [location]}


def test_a_paused_turn_continues_in_its_container_and_its_citations_count_from_the_start(
    ask: Ask, server: ModelServer
) -> None:
    paused = anthropic_wire.streams(
        anthropic_wire.begins(),
        anthropic_wire.text(0, "Looking. "),
        anthropic_wire.block(1, SEARCH_BLOCK, INPUT),
        [{"type": "message_delta", "delta": {"stop_reason": "pause_turn", "container": {"id": "c_1"}}, "usage": {}}],
        [{"type": "message_stop"}],
    )
    location = {
        "type": "web_search_result_location",
        "url": URL,
        "title": TITLE,
        "cited_text": "",
        "encrypted_index": "x",
    }
    rest = anthropic_wire.streams(
        anthropic_wire.begins(),
        anthropic_wire.block(0, search_result(FOUND)),
        anthropic_wire.block(
            1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Rain."},
            {"type": "citations_delta", "citation": location},
        ),
        anthropic_wire.ends(),
    )  # fmt: skip
    server.reply(paused, rest, anthropic_answer())
    value = read_result(ask, "-p", "anthropic", "-T", "web_search", "hi")
    second = server.requests[1].json
    assert second["container"] == "c_1"
    assert second["messages"][-1]["content"][-1]["type"] == "server_tool_use"
    (citation,) = value["citations"]
    assert value["text"][citation["start"] : citation["end"]] == "Rain."
    # In the next question, the two parts are one message, and the container is not named any more.
    read_result(ask, "-p", "anthropic", "-c", "and now?")
    third = server.requests[2].json
    assert [block["type"] for block in third["messages"][1]["content"]] == [
        *("text", "server_tool_use", "web_search_tool_result", "text")
    ]
    assert "container" not in third


def test_a_search_that_never_ended_is_left_out_of_later_questions(ask: Ask, server: ModelServer) -> None:
    paused = anthropic_wire.streams(
        anthropic_wire.begins(),
        anthropic_wire.text(0, "Looking."),
        anthropic_wire.block(1, SEARCH_BLOCK, INPUT),
        anthropic_wire.ends("pause_turn"),
    )
    server.reply(paused, wire.fails(400, "no more"), anthropic_answer())
    assert ask("-p", "anthropic", "-T", "web_search", "hi").code != 0
    assert ask("-p", "anthropic", "-c", "again").code == 0
    assert "server_tool_use" not in json.dumps(server.requests[2].json["messages"])


def test_code_that_gemini_ran_goes_back_with_its_result(ask: Ask, server: ModelServer) -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    output = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
    parts = [code, output, gemini_wire.text("One.")]
    server.reply(gemini_wire.streamed(*(gemini_wire.whole(part) for part in parts)), gemini_answer())
    value = read_result(ask, "-p", "gemini", "-T", "code_execution", "hi")
    (call,) = value["server_calls"]
    assert (call["name"], json.loads(call["arguments"]), call["result"]) == (
        "code_execution",
        {"code": "print(1)"},
        "1\n",
    )
    ask("-p", "gemini", "-c", "again")
    assert server.requests[1].json["contents"][1]["parts"] == parts


def test_models_that_cannot_combine_tools_get_only_those_of_the_service(ask: Ask, server: ModelServer) -> None:
    server.reply(gemini_answer())
    result = ask("-p", "gemini", "-m", "gemini-2.5-flash", "-T", "web_search", "hi")
    assert (result.code, server.requests[0].json["tools"]) == (0, [{"googleSearch": {}}])
    assert "gemini-2.5-flash cannot combine" in result.stderr


def test_tool_search_finds_only_tools_that_are_not_built_in(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "weather.py").write_text('def rain(city: str) -> str:\n    "Rain."\n    return city\n')
    server.reply(anthropic_answer(), responses_answer(), anthropic_answer())
    ask("-p", "anthropic", "-T", "tool_search", "--tool", "weather.py:rain", "hi")
    deferred = [tool["name"] for tool in server.requests[0].json["tools"] if tool.get("defer_loading")]
    assert deferred == ["rain"]
    ask("-p", "openai", "-T", "tool_search", "--tool", "weather.py:rain", "hi")
    assert [tool["name"] for tool in server.requests[1].json["tools"] if tool.get("defer_loading")] == ["rain"]
    assert "nothing to find" in ask("-p", "anthropic", "-T", "tool_search", "hi").stderr
    assert list_types(server.requests[2].json) == []


# What the user is told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-p openai -T web_fetch", "it has web_search, code_execution, tool_search"),
        ("-p openai -T web-search", "did you mean web_search?"),
        ("-p deepseek -T web_search", "none of its own"),
        ("-p openai -T weather.py:rain", "--tool"),
    ],
)
def test_a_tool_that_the_service_lacks_is_an_error_before_anything_is_sent(
    arguments: str, message: str, ask: Ask, server: ModelServer
) -> None:
    result = ask(*arguments.split(), "hi")
    assert (result.code, server.requests) == (2, [])
    assert message in result.stderr


def test_configured_tools_are_left_out_where_a_service_lacks_them(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure('server_tools = ["web_search", "web_fetch"]\n')
    server.reply(responses_answer(), responses_answer())
    result = ask("-p", "openai", "hi")
    assert (result.code, list_types(server.requests[0].json)) == (0, ["web_search"])
    assert "openai has no web_fetch" in result.stderr
    ask("-p", "openai", "--no-tools", "hi")
    assert "tools" not in server.requests[1].json


def test_safe_mode_offers_only_what_the_command_line_names(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure('server_tools = ["web_search", "tool_search"]\n')
    server.reply(anthropic_answer(), anthropic_answer())
    result = ask("-p", "anthropic", "--safe-files", "hi")
    assert (result.code, list_types(server.requests[0].json)) == (0, [])
    assert "-T web_search" in result.stderr
    ask("-p", "anthropic", "--safe-files", "-T", "web_search", "hi")
    assert list_types(server.requests[1].json) == ["web_search_20260318"]


def test_a_pipe_gets_the_answer_alone_and_a_terminal_the_notes(ask: Ask, server: ModelServer) -> None:
    server.reply(*[anthropic_answer()] * 3)
    arguments = ("-p", "anthropic", "-T", "web_search", "hi")
    piped = ask(*arguments)
    assert (piped.text, f"search {QUERY}" in piped.stderr, URL in piped.stderr) == (f"{TEXT}\n", True, False)
    assert URL in ask("-v", *arguments).stderr
    shown = ask.on_terminal(*arguments).text
    assert shown.index(f"search {QUERY}") < shown.index(TEXT) < shown.index(f"[1] {TITLE}") < shown.index(URL)


def test_sources_and_calls_are_saved_and_exported_as_links(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(anthropic_answer())
    ask("-p", "anthropic", "-T", "web_search", "hi")
    with sqlite3.connect(find_history_file(ask.env)) as history:
        query = "SELECT citations, server_calls FROM messages WHERE role = 'assistant'"
        citations, calls = map(json.loads, history.execute(query).fetchone())
    assert (citations, calls[0]["result"]) == ([CITATION], f"{TITLE}\n{URL}\n")
    exported = ask("history", "export", "1").text
    assert f"{SUPPORTED} [\\[1\\]](<{URL}>), often." in exported
    assert f"1. [{TITLE}](<{URL}>)" in exported
    assert f'<a href="{URL}"' in ask("history", "export", "1", "--format", "html").text
    (conversation,) = map(json.loads, ask("history", "export", "1", "--json").text.splitlines())
    assert conversation["runs"][0]["messages"][1]["citations"] == [CITATION]
    assert f"search {QUERY}" in ask("history", "show", "1").text


def test_an_answer_that_is_not_streamed_has_the_same(ask: Ask, server: ModelServer) -> None:
    server.reply(responses_answer(stream=False))
    lines = ask("--events", "--no-stream", "-p", "openai", "-T", "web_search", "hi").text.splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        *("start", "tool_call", "tool_result", "text", "usage", "citations", "result"),
    ]
    assert json.loads(lines[-1])["citations"] == [CITATION]


def test_events_have_calls_and_sources_in_their_order(ask: Ask, server: ModelServer) -> None:
    server.reply(anthropic_answer())
    lines = [
        json.loads(line) for line in ask("--events", "-p", "anthropic", "-T", "web_search", "hi").text.splitlines()
    ]
    order = list(dict.fromkeys(line["type"] for line in lines))
    assert order == ["start", "tool_call", "tool_result", "text", "usage", "citations", "result"]
    assert lines[-2]["citations"] == lines[-1]["citations"] == [CITATION]


def test_rows_and_comparisons_have_the_sources(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(*[anthropic_answer()] * 4)
    (home.work / "rows.csv").write_text("city\nBergen\n")
    result = ask("map", "-p", "anthropic", "-T", "web_search", "rain in {{city}}?", "rows.csv")
    assert json.loads(result.text)["citations"] == [CITATION]
    assert list_types(server.requests[0].json) == ["web_search_20260318"]
    again = ask("map", "-p", "anthropic", "-T", "web_search", "rain in {{city}}?", "rows.csv", "-O", "out.csv")
    assert again.code == 0
    assert json.dumps(URL) in (home.work / "out.csv").read_text().replace('""', '"')
    compared = ask("compare", "-p", "anthropic", "-m", "claude-a", "-m", "claude-b", "-T", "web_search", "hi")
    assert [answer["citations"] for answer in json.loads(compared.text)["answers"]] == [[CITATION]] * 2


@pytest.mark.slow
def test_rows_with_tools_have_the_tools_of_the_service(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(anthropic_answer())
    (home.work / "rows.csv").write_text("city\nBergen\n")
    result = ask.process("map", "--tools", "-p", "anthropic", "-T", "web_search", "rain in {{city}}?", "rows.csv")
    assert json.loads(result.text)["citations"] == [CITATION], result.stderr
    assert "web_search_20260318" in list_types(server.requests[0].json)


def test_a_fallback_continues_without_a_tool_that_it_lacks(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure("[network]\ntries = 1\n")
    server.reply(wire.fails(503), wire.says("Rain."))
    result = ask("-p", "anthropic", "-T", "web_search", "--fallback", "deepseek:m", "hi")
    assert (result.code, result.text) == (0, "Rain.\n")
    assert "deepseek has no web_search" in result.stderr
    assert {tool["type"] for tool in server.requests[1].json["tools"]} == {"function"}


def test_a_chat_offers_the_tool_in_each_question(ask: Ask, server: ModelServer) -> None:
    server.reply(anthropic_answer(), anthropic_answer())
    assert ask("chat", "-p", "anthropic", "-T", "web_search", stdin=b"one\ntwo\n").code == 0
    assert [list_types(request.json) for request in server.requests] == [["web_search_20260318"]] * 2


def test_a_recording_has_the_sources(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(anthropic_answer())
    arguments = ("--json", "-p", "anthropic", "-T", "web_search", "hi")
    recorded = json.loads(ask("--record", "a.jsonl", *arguments).text)
    replayed = json.loads(ask(*arguments, env={"ASK_REPLAY": "a.jsonl"}).text)
    assert [replayed[name] for name in ("citations", "server_calls")] == [[CITATION], recorded["server_calls"]]


def test_only_the_part_of_an_answer_is_printed_where_a_format_asks_for_it(ask: Ask, server: ModelServer) -> None:
    server.reply(anthropic_answer())
    shown = ask.on_terminal("-p", "anthropic", "--code", "-T", "web_search", "hi").text
    assert TITLE not in shown


def whole_answer(*blocks: Json, stop: str = "end_turn") -> Reply:
    return wire.whole_reply(anthropic_wire.message_of(*blocks, reason=stop))


def cited_text(text: str) -> Json:
    return {"type": "text", "text": text, "citations": [{"type": "web", "url": URL, "title": TITLE, "cited_text": ""}]}


def test_a_paused_answer_is_one_text(ask: Ask, server: ModelServer) -> None:
    server.reply(whole_answer(cited_text("It rains in"), stop="pause_turn"), whole_answer(cited_text(" Bergen.")))
    value = read_result(ask, "-p", "anthropic", "--no-stream", "-T", "web_search", "hi")
    assert value["text"] == "It rains in Bergen."
    parts = [value["text"][each["start"] : each["end"]] for each in value["citations"]]
    assert parts == ["It rains in", " Bergen."]


@pytest.mark.parametrize("options", [(), ("--no-stream",)])
def test_text_after_a_turn_that_paused_in_a_search_is_a_paragraph(
    ask: Ask, server: ModelServer, options: tuple[str, ...]
) -> None:
    before: list[Json] = [{"type": "text", "text": "Looking."}, SEARCH_BLOCK]
    after = [search_result(FOUND), cited_text("Rain.")]
    if options:
        server.reply(whole_answer(*before, stop="pause_turn"), whole_answer(*after))
    else:
        paused = (anthropic_wire.block(index, block) for index, block in enumerate(before))
        rest = (anthropic_wire.block(index, block) for index, block in enumerate(after))
        begins = anthropic_wire.begins()
        server.reply(anthropic_wire.streams(begins, *paused, anthropic_wire.ends("pause_turn")))
        server.reply(anthropic_wire.streams(begins, *rest, anthropic_wire.ends()))
    server.reply(anthropic_answer())
    assert ask("-p", "anthropic", *options, "-T", "web_search", "hi").text == "Looking.\n\nRain.\n"
    (paused_block, searched, *_) = server.requests[1].json["messages"][1]["content"]
    assert (paused_block["text"], searched["type"]) == ("Looking.", "server_tool_use")
    # In the next question, both parts are the model's own blocks.
    value = read_result(ask, "-p", "anthropic", "-c", "and now?")
    assert [block["type"] for block in server.requests[2].json["messages"][1]["content"]] == [
        *("text", "server_tool_use", "web_search_tool_result", "text")
    ]
    assert value["text"]


def test_the_sources_of_a_value_in_json_have_no_position(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "rows.txt").write_text("Bergen\n")
    server.reply(whole_answer({"type": "text", "text": 'Here: {"rain": '}, cited_text('"often"}')))
    result = ask("map", "-p", "anthropic", "-T", "web_search", "--schema", "rain", "how often?", "rows.txt")
    row = json.loads(result.text)
    assert (row["rain"], row["citations"]) == ("often", [CITATION | {"start": None, "end": None}])


def test_a_call_whose_id_is_no_text_is_not_sent_back(ask: Ask, server: ModelServer) -> None:
    call = SEARCH_BLOCK | {"id": {}}
    result: Json = search_result(FOUND) | {"tool_use_id": {}}
    server.reply(whole_answer(call, result, {"type": "text", "text": TEXT}), anthropic_wire.says("Rain."))
    assert ask("-p", "anthropic", "--no-stream", "-T", "web_search", "hi").code == 0
    assert ask("-c", "-p", "anthropic", "and now?").text == "Rain.\n"
    assert server.requests[-1].json["messages"][1]["content"] == [{"type": "text", "text": TEXT}]
