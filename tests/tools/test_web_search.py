"""The tool `search_web` with Brave and Tavily: requests, results and errors."""

from __future__ import annotations

import re
from typing import get_args
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ask.config.redaction import REDACTED
from ask.config.settings import EngineName
from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT, create_search_tool
from ask.tools.search_engine import ENGINE_BASE_URLS, KEYED_ENGINES, SearchEngine
from tests.model_server import DROP, HOLD, ModelServer, Reply
from tests.tools.search_engines import FOUND, NUTS, Json, answer, brave_error, place, tavily_error

KEY = "BSA-0123456789"
OTHER = "BSA-9876543210"


def engine(server: ModelServer, name: str, key: str = KEY) -> SearchEngine:
    return SearchEngine(name, place(server), key)


def search(engine: SearchEngine, context: RunToolContext, **arguments: object) -> str:
    return create_search_tool(engine).run({"query": "nuts", **arguments}, context).text


def refusal(engine: SearchEngine, context: RunToolContext, **arguments: object) -> str:
    with pytest.raises(ToolError) as caught:
        search(engine, context, **arguments)
    return str(caught.value)


def test_engines_match_the_configurable_ones() -> None:
    assert tuple(ENGINE_BASE_URLS) == get_args(EngineName)


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_results_are_numbered_text(server: ModelServer, context: RunToolContext, name: str) -> None:
    server.reply(answer(FOUND[name](NUTS)))
    assert search(engine(server, name), context) == (
        f"Results from {name}:\n\n"
        "1. Nuts\n   https://nuts.test/\n   All about nuts.\n\n"
        "2. Almonds\n   https://nuts.test/almonds?a=b&c=d\n   They are seeds."
    )


@pytest.mark.parametrize(
    ("wanted", "asked"), [(None, DEFAULT_RESULT_COUNT), (3, 3), (0, 1), (-5, 1), (500, MAX_RESULT_COUNT)]
)
def test_brave_request_is_as_documented(
    server: ModelServer, context: RunToolContext, wanted: int | None, asked: int
) -> None:
    server.reply(answer(FOUND["brave"](NUTS)))
    search(
        engine(server, "brave"), context, query=" a & b ä ", **({"max_results": wanted} if wanted is not None else {})
    )
    request = server.requests[0]
    path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
    assert (request.method, path) == ("GET", "/web/search")
    assert query == {"q": ["a & b ä"], "count": [str(asked)], "text_decorations": ["false"], "result_filter": ["web"]}
    assert request.headers["X-Subscription-Token"] == KEY
    assert request.headers["Accept"] == "application/json"


def test_tavily_request_is_as_documented(server: ModelServer, context: RunToolContext) -> None:
    server.reply(answer(FOUND["tavily"](NUTS)))
    search(engine(server, "tavily"), context, query="a & b ä", max_results=3)
    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/search")
    assert request.json == {"query": "a & b ä", "max_results": 3}
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_results_are_limited(server: ModelServer, context: RunToolContext, name: str) -> None:
    server.reply(answer(FOUND[name](NUTS * 30)))
    assert re.findall(r"^\d+", search(engine(server, name), context, max_results=3), re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_result_is_truncated_and_cannot_imitate_another(
    server: ModelServer, context: RunToolContext, name: str
) -> None:
    long = "word " * 1_000
    results = [
        ("A &amp; <b>B</b>\n\n2. C", "https://a.test/", f"x\n   https://b.test/\n{long}"),
        ("", "https://c.test/", ""),
        ("runs", "javascript:alert(1)", "x"),
        ("nowhere", "", "x"),
    ]
    server.reply(answer(FOUND[name](results)))
    _, first, second = search(engine(server, name), context).split("\n\n")
    title, url, snippet = first.split("\n")
    assert (title, url) == ("1. A & B 2. C", "   https://a.test/")
    assert snippet.startswith("   x https://b.test/ word")
    assert len(snippet) <= 1_003
    assert snippet.endswith("…")
    assert second == "2. (no title)\n   https://c.test/"


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_huge_character_reference_is_replaced(server: ModelServer, context: RunToolContext, name: str) -> None:
    server.reply(answer(FOUND[name]([(f"&#{'9' * 5_000};&#0000000065;", "https://a.test/", "")])))
    assert search(engine(server, name), context).endswith("1. \ufffdA\n   https://a.test/")


@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_empty_result_has_a_hint(server: ModelServer, context: RunToolContext, name: str) -> None:
    server.reply(answer(FOUND[name]([])))
    assert refusal(engine(server, name), context).startswith(f"{name} found nothing")


def test_empty_query_sends_no_request(server: ModelServer, context: RunToolContext) -> None:
    assert refusal(engine(server, "brave"), context, query=" \n").endswith("empty")
    assert not server.requests


INVALID = "The provided subscription token is invalid."
PLAN = "This request exceeds your plan's set usage limit. Please upgrade your plan."
UNKNOWN = "Unauthorized: missing or invalid API key."
ANOTHER = "the user can set another with `ask keys set"
TOO_LONG = answer({"detail": [{"loc": ["body", "query"], "msg": "Query is too long."}]}, 422)


@pytest.mark.parametrize(
    ("name", "reply", "expected"),
    [
        ("brave", brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", INVALID), ["422", INVALID, f"{ANOTHER} brave`"]),
        ("tavily", tavily_error(401, UNKNOWN), ["401", UNKNOWN, f"{ANOTHER} tavily`"]),
        ("tavily", tavily_error(432, PLAN), ["432", PLAN, f"{ANOTHER} tavily`"]),
        ("brave", brave_error(422, "VALIDATION", "Unable to validate it"), ["422", "Unable to validate it"]),
        ("tavily", TOO_LONG, ["422", "Query is too long."]),
        ("brave", Reply((b"<h1>Bad gateway</h1>",), status=502, content_type="text/html"), ["502", "Bad Gateway"]),
        ("tavily", answer({"detail": "Not Found"}, 404), ["404", "TAVILY_BASE_URL"]),
        ("brave", Reply((b"<h1>Welcome</h1>",), content_type="text/html"), ["BRAVE_BASE_URL"]),
        ("tavily", answer([1, 2]), ["TAVILY_BASE_URL"]),
        ("tavily", answer({"results": "none"}), ["TAVILY_BASE_URL"]),
        ("brave", Reply((b"[" * 100_000,)), ["BRAVE_BASE_URL"]),
        ("brave", Reply((b'{"web": {"results": []}', DROP), framing="length"), ["BRAVE_BASE_URL"]),
        ("brave", Reply((DROP,)), ["127.0.0.1"]),
    ],
)
def test_an_error_names_the_engine_and_what_to_change(
    server: ModelServer, context: RunToolContext, name: str, reply: Reply, expected: list[str]
) -> None:
    server.reply(reply)
    message = refusal(engine(server, name), context)
    assert all(value in message for value in (name, *expected)), message


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_a_rate_limited_request_is_retried_once(server: ModelServer, context: RunToolContext, name: str) -> None:
    too_often = brave_error(429, "RATE_LIMITED", "Request rate limit exceeded for plan")
    server.reply(too_often, answer(FOUND[name](NUTS)), too_often, too_often)
    assert "1. Nuts" in search(engine(server, name), context)
    message = refusal(engine(server, name), context)
    assert all(value in message for value in (name, "429", "RATE_LIMITED"))
    assert len(server.requests) == 4


@pytest.mark.parametrize("reply", [tavily_error(401, UNKNOWN), tavily_error(432, PLAN), tavily_error(429, "slow")])
def test_next_key_is_tried(server: ModelServer, context: RunToolContext, reply: Reply) -> None:
    server.reply(reply, answer(FOUND["tavily"](NUTS)))
    assert "1. Nuts" in search(engine(server, "tavily", f"{KEY}| {OTHER}"), context)
    assert [r.headers["Authorization"] for r in server.requests] == [f"Bearer {KEY}", f"Bearer {OTHER}"]


@pytest.mark.parametrize("key", [KEY, "short"])
def test_errors_never_contain_the_key(server: ModelServer, context: RunToolContext, key: str) -> None:
    server.reply(tavily_error(401, f"no such key: {key}"))
    message = refusal(engine(server, "tavily", key), context)
    assert f"no such key: {REDACTED}" in message
    assert key not in message


@pytest.mark.parametrize("key", ["ключ-0123456789", "a\nX-Evil: b"])
@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_invalid_key_is_not_sent(server: ModelServer, context: RunToolContext, name: str, key: str) -> None:
    message = refusal(engine(server, name, key), context)
    assert name in message
    assert f"ask keys set {name}" in message
    assert key not in message
    assert not server.requests


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYED_ENGINES)
def test_a_redirect_is_not_followed_with_the_key(server: ModelServer, context: RunToolContext, name: str) -> None:
    server.reply(Reply((b"",), status=307, headers={"Location": f"{place(server)}/elsewhere"}))
    assert name in refusal(engine(server, name), context)
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [Reply((HOLD,)), Reply((b"{", HOLD))], ids=["no-headers", "no-end"])
def test_user_s_timeout_applies(server: ModelServer, context: RunToolContext, reply: Reply) -> None:
    server.reply(reply)
    message = refusal(engine(server, "brave"), context._replace(command_timeout=0.5))
    assert "did not arrive within" in message or "is invalid" in message
    server.wait_for_abandoned()


def test_base_url_must_be_a_url(context: RunToolContext) -> None:
    wrong = SearchEngine("brave", "file:///etc/passwd", KEY)
    assert "a URL must start with http:// or https://" in refusal(wrong, context)
    get_host = create_search_tool(wrong).get_host
    assert get_host
    with pytest.raises(ToolError, match="a URL must start with"):
        get_host({"query": "x"})


def test_host_is_the_engine_s_for_any_arguments() -> None:
    hosts = {}
    for name, base_url in ENGINE_BASE_URLS.items():
        get_host = create_search_tool(SearchEngine(name, base_url, KEY)).get_host
        assert get_host
        hosts[name] = get_host({"query": "site:evil.test", "url": "http://evil.test"})
    assert hosts == {"brave": "api.search.brave.com", "tavily": "api.tavily.com", "duckduckgo": "html.duckduckgo.com"}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["web", "results", "query", "title", "url", "description", "content", "error", "detail"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=anything, status=st.sampled_from([200, 204, 400, 401, 404, 422, 500]), name=st.sampled_from(KEYED_ENGINES))
def test_any_response_is_text_or_an_error(context: RunToolContext, body: Json, status: int, name: str) -> None:
    with ModelServer() as server:
        server.reply(answer(body, status))
        try:
            assert search(engine(server, name), context).startswith(f"Results from {name}:")
        except ToolError as error:
            assert str(error).startswith(name) or f" {name} " in str(error)
