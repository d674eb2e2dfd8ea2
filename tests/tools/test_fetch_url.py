"""The tool `fetch_url`: the text that a model reads for each kind of response."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import FETCH_URL
from ask.tools.output_limits import MAX_RESULT_CHARACTERS
from tests import wire
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import Ask, Home, run
from tests.sample_files import docx, pdf, png, wav
from tests.tools.conftest import Run

PAGE = "<html><head><title>Nuts</title></head><body><h1>Nuts</h1><p>See <a href=/almonds>almonds</a>: é</body></html>"


@pytest.fixture
def url(server: ModelServer) -> str:
    return server.base_url.removesuffix("api/v1")


def answer(body: bytes, content_type: str = "text/plain", **more: object) -> Reply:
    return Reply((body,), content_type=content_type, **more)  # type: ignore[arg-type]


def test_a_page_is_readable_text_below_a_line_about_the_response(server: ModelServer, url: str, run: Run) -> None:
    server.reply(answer(PAGE.encode(), "text/html; charset=utf-8"))
    status_line = f"{url}: 200 OK, text/html, {len(PAGE.encode())} bytes"
    assert run(FETCH_URL, url=url) == f"{status_line}\n\n# Nuts\n\nSee [almonds]({url}almonds): é"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", '{"a": [1, "é"], "html": "<b>x</b>"}\n'),
        ("application/problem+json; charset=utf-8", '{"title": "x"}'),
        ("text/plain", "one\n\n\n  two <b>\n"),
        ("text/markdown", "# A\n\n[b](c)"),
        ("application/xml", "<a><b/></a>"),
        ("image/svg+xml", "<svg><text>hi</text></svg>"),
        ("application/yaml", "a: 1"),
        ("application/octet-stream", "#!/bin/sh\necho hi\n"),
        ("", "plain"),
        ("", "<note>plain</note>"),
        ("text/html", '{"a": "<b>x</b>"}'),
        ("text/html; charset=utf-8", "[1, 2]"),
    ],
)
def test_json_and_text_are_unchanged(server: ModelServer, url: str, run: Run, content_type: str, body: str) -> None:
    server.reply(answer(body.encode(), content_type))
    assert run(FETCH_URL, url=url).split("\n\n", 1)[1] == body


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "begin",
    [
        "<!doctype html><p>",
        "<p>",
        pytest.param(" \n<HTML><p>", marks=pytest.mark.slow),
        pytest.param("\ufeff<html><p>", marks=pytest.mark.slow),
        pytest.param("<!-- a --><p>", marks=pytest.mark.slow),
        pytest.param("<?xml version='1.0'?>\n<html><p>", marks=pytest.mark.slow),
    ],
)
def test_html_is_recognized_without_a_content_type(server: ModelServer, url: str, run: Run, begin: str) -> None:
    server.reply(answer(f"{begin}hello".encode(), ""))
    assert run(FETCH_URL, url=url) == f"{url}: 200 OK, no content type, {len(begin.encode()) + 5} bytes\n\nhello"


ENCODED = [
    ("text/html; charset=ISO-8859-1", "<p>caf\u00e9 \u201cx\u201d".encode("cp1252")),
    ("text/html", b'<meta charset="gb18030">' + "<p>café “x”".encode("gb18030")),
    ("text/html; charset='koi8-r'", "<p>caf\u00e9 \u201cx\u201d".encode("utf-8-sig")),
    ("text/html", b"\xff\xfe" + "<p>caf\u00e9 \u201cx\u201d".encode("utf-16-le")),
    ("text/html; charset=utf-16be", "<p>caf\u00e9 \u201cx\u201d".encode("utf-16-be")),
    (
        "text/html",
        b'<meta content="text/html; charset=windows-1252">' + "<p>café “x”".encode("cp1252"),
    ),
    ("text/html", b"<meta charset = ' gb18030'>" + "<p>café “x”".encode("gb18030")),
    ("text/html; charset=punycode", "<p>café “x”".encode()),
    ("text/html; charset=no-such", "<p>café “x”".encode()),
    ("text/html", "<p>café “x”".encode("cp1252")),
    ("text/html", '<meta charset="utf-16"><p>café “x”'.encode()),
    ("application/xhtml+xml", '<?xml version="1.0" encoding="cp1252"?><p>café “x”'.encode("cp1252")),
    ("text/html", "<p>café “x”".encode()),
]


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("content_type", "body"), [*ENCODED[:2], *(pytest.param(*one, marks=pytest.mark.slow) for one in ENCODED[2:])]
)
def test_text_is_decoded_with_its_own_encoding(
    server: ModelServer, url: str, run: Run, content_type: str, body: bytes
) -> None:
    server.reply(answer(body, content_type))
    assert run(FETCH_URL, url=url).endswith("\n\ncafé “x”")


@pytest.mark.parametrize(
    "reply",
    [
        Reply((b"\x89PNG", HOLD), content_type="image/png"),
        answer(b"a\0b", "text/plain"),
        answer(b"\xff\0\xce", "application/octet-stream"),
        answer(b"PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ],
    ids=["image", "nul", "bytes", "document"],
)
def test_binary_content_is_not_shown(server: ModelServer, url: str, context: RunToolContext, reply: Reply) -> None:
    server.reply(reply)
    result = FETCH_URL.run({"url": url}, context._replace(command_timeout=2))
    assert result.text.endswith("\n\n[binary content, not shown]")


@pytest.mark.slow_after_first
@pytest.mark.parametrize("content_type", ["image/png", "application/pdf", "text/html, text/html"])
def test_a_page_with_another_content_type_is_read(server: ModelServer, url: str, run: Run, content_type: str) -> None:
    server.reply(answer(b"<!doctype html><p>Please <b>sign in", content_type))
    assert run(FETCH_URL, url=url).endswith("\n\nPlease **sign in**")


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (pdf(), "Application/PDF"),
        (pdf(), "text/plain"),
        (png(), "application/octet-stream"),
        (b"\xff\xd8\xff\xe0 JFIF", "text/html"),
        (wav(), "audio/x-wav"),
    ],
)
def test_an_image_a_pdf_and_audio_are_attached(
    server: ModelServer, url: str, context: RunToolContext, data: bytes, content_type: str
) -> None:
    server.reply(answer(data, content_type))
    result = FETCH_URL.run({"url": f"{url}notes/My%20file"}, context)
    assert [(file.name, file.data) for file in result.attachments] == [("My file", data)]
    assert result.text.startswith(f"{url}notes/My%20file: 200 OK, ")


@pytest.mark.parametrize("status", [404, 500])
def test_an_error_page_is_not_attached(server: ModelServer, url: str, run: Run, status: int) -> None:
    server.reply(answer(png(), "image/png", status=status))
    with pytest.raises(ToolError):
        run(FETCH_URL, url=url)


def test_an_incomplete_pdf_is_named_with_what_can_be_done(
    server: ModelServer, url: str, context: RunToolContext
) -> None:
    server.reply(Reply((b"%PDF-1.7", HOLD), content_type="Application/PDF"))
    text = FETCH_URL.run({"url": url}, context._replace(command_timeout=2)).text
    assert "PDF" in text
    assert "-f FILE" in text


@pytest.mark.slow
def test_the_text_of_an_office_document_is_shown(server: ModelServer, url: str, run: Run) -> None:
    server.reply(answer(docx("Größe"), "application/octet-stream"))
    assert run(FETCH_URL, url=url).endswith("\n\nGröße\n\n| a | b |\n| --- | --- |")


def test_a_page_that_needs_javascript_gives_its_text_without_it(server: ModelServer, url: str, run: Run) -> None:
    page = (
        b"<html><head><title>App</title><noscript>enable it</noscript></head><body><div id=root></div>"
        b"<noscript>Please <b>enable</b> scripts, or see <a href=/plain>the plain page</a>.</noscript>"
        b"<script src=app.js></script></body></html>"
    )
    server.reply(answer(page, "text/html"))
    text = run(FETCH_URL, url=url)
    assert "needs JavaScript" in text
    assert "Please enable scripts, or see" in text


def test_a_page_with_text_does_not_give_its_text_for_other_browsers(server: ModelServer, url: str, run: Run) -> None:
    page = b"<body><p>" + b"text " * 100 + b"<script>x</script><noscript>enable it</noscript></body>"
    server.reply(answer(page, "text/html"))
    assert "enable it" not in run(FETCH_URL, url=url)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(b""), "[the response is empty]"),
        (answer(b"", status=204), "[the response is empty]"),
        (
            answer(b"<script>draw()</script><div></div>", "text/html"),
            "[the page has no text without JavaScript]",
        ),
    ],
    ids=["empty", "no-content", "application"],
)
def test_a_response_without_text_is_reported(
    server: ModelServer, url: str, run: Run, reply: Reply, expected: str
) -> None:
    server.reply(reply)
    assert run(FETCH_URL, url=url).endswith(f"\n\n{expected}")


def test_error_status_includes_the_page_text(server: ModelServer, url: str, refusal: Run) -> None:
    server.reply(answer(b"<h1>No such page</h1><p>Try <a href=/b>b</a>", "text/html", status=404))
    message = refusal(FETCH_URL, url=url)
    assert message == f"{url}: 404 Not Found, text/html, 44 bytes\n\n# No such page\n\nTry [b]({url}b)"


def test_xml_feed_is_decoded_with_its_declared_encoding(server: ModelServer, url: str, run: Run) -> None:
    feed = '<?xml version="1.0" encoding="ISO-8859-1"?><rss><title>café</title></rss>'
    server.reply(answer(feed.encode("latin-1"), "application/rss+xml"))
    assert run(FETCH_URL, url=url).split("\n\n", 1)[1] == feed


def test_endless_page_is_truncated_after_the_timeout(server: ModelServer, url: str, context: RunToolContext) -> None:
    server.reply(Reply((b"one\ntwo", HOLD), content_type="text/plain"))
    text = FETCH_URL.run({"url": url}, context._replace(command_timeout=1)).text
    head, _, body = text.partition("\n\n")
    assert head.endswith("0.8 s")
    assert body == "one\ntwo"


def test_the_command_timeout_applies(server: ModelServer, url: str, context: RunToolContext) -> None:
    server.reply(Reply((HOLD,)))
    with pytest.raises(ToolError, match=r"did not arrive within 0\.2 s"):
        FETCH_URL.run({"url": url}, context._replace(command_timeout=0.2))


def test_restricted_run_reaches_only_public_hosts(server: ModelServer, url: str, context: RunToolContext) -> None:
    server.reply(answer(b"secret"))
    with pytest.raises(ToolError, match="only public hosts"):
        FETCH_URL.run({"url": url}, context._replace(restrict_hosts=frozenset({"127.0.0.1"})))
    assert not server.requests
    assert FETCH_URL.run({"url": url}, context).text.endswith("secret")


def test_tool_is_read_only_and_imports_its_libraries_lazily() -> None:
    assert not FETCH_URL.has_side_effects
    loaded = run([sys.executable, "-c", "import sys, ask.tools.fetch_url; print(sorted(sys.modules))"]).text
    for module in ("requests", "ask.tools.http_get", "ask.tools.html_to_markdown", "bs4", "idna", "ssl", "html.parser"):
        assert f"'{module}'" not in loaded


@pytest.fixture
def site() -> Iterator[ModelServer]:
    with ModelServer() as site:
        yield site


def test_a_model_reads_a_page(ask: Ask, server: ModelServer, site: ModelServer) -> None:
    site.reply(answer(PAGE.encode(), "text/html; charset=utf-8"))
    server.reply(wire.calls(("fetch_url", {"url": f"{site.base_url}/nuts"})), wire.says("They are fine."))
    result = ask("are nuts fine?")
    assert (result.code, result.text) == (0, "They are fine.\n")
    read = wire.asked(server.requests[-1].json)
    assert read.startswith(f"{site.base_url}/nuts: 200 OK, text/html, ")
    assert read.endswith("\n\n# Nuts\n\nSee [almonds](" + site.base_url.removesuffix("/api/v1") + "/almonds): é")


@pytest.mark.slow
def test_long_page_is_truncated_and_saved_in_full(ask: Ask, home: Home, server: ModelServer, site: ModelServer) -> None:
    site.reply(answer(b"".join(b"<p>paragraph %d" % number for number in range(5_000)), "text/html"))
    server.reply(wire.calls(("fetch_url", {"url": site.base_url})), wire.says("Long."))
    assert ask("how long is it?").code == 0
    read = wire.asked(server.requests[-1].json)
    assert len(read) <= MAX_RESULT_CHARACTERS
    assert read.endswith("paragraph 4999")
    [kept] = (home.data / "results").glob("*/*")
    assert str(kept) in read
    assert "\n\nparagraph 2500\n\n" in kept.read_text()


def test_ctrl_c_ends_the_wait_for_a_page(ask: Ask, server: ModelServer, site: ModelServer) -> None:
    site.reply(Reply((HOLD,)))
    server.reply(wire.calls(("fetch_url", {"url": site.base_url})))
    with ask.start("what is there?") as running:
        site.wait_for_requests(1)
        running.signal(signal.SIGINT)
        assert running.finish().code == 130
    site.wait_for_abandoned()
