"""Conversations as an HTML page: it is complete, and nothing in it can run or load."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given

from ask.export.conversation_html import render_conversation_html
from ask.history.export_format import ConversationExport, from_json_value
from ask.render.amounts import format_timestamp
from tests.conversation_strategies import HOSTILE, conversations
from tests.program import Home, run

ATTRIBUTES = {
    *("charset", "http-equiv", "content", "name", "lang", "id", "class", "dir", "datetime", "open", "start", "title"),
    *("href", "rel", "src", "alt"),
}
VOID = {"meta", "br", "hr", "img"}
TAGS = {
    *VOID,
    *("html", "head", "title", "style", "body", "main", "nav", "article", "header", "section", "details", "summary"),
    *("div", "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "span", "a"),
    *("table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s", "b", "small", "bdi", "time"),
}


class Page(HTMLParser):
    """Parses a page as a browser would, and checks its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.styles = ""
        self.policy = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert tag in TAGS
        assert attributes.keys() <= ATTRIBUTES, "no event handlers and no inline styles"
        assert (attributes.get("href") or "#").startswith(("#", "http://", "https://", "mailto:"))
        assert (attributes.get("src") or "data:image/png;").startswith("data:image/png;")
        if attributes.get("http-equiv"):
            self.policy = attributes["content"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.styles += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def make_export(*messages: dict[str, Any], title: str = "why?", name: str = "abc", **run: Any) -> ConversationExport:
    header = {"format": "ask-conversation", "version": 1, "id": name, "title": title}
    run_dict = {"provider": "demo", "model": "m", "messages": list(messages), **run}
    return from_json_value({**header, "runs": [run_dict]})


def render(*exports: ConversationExport) -> str:
    runs = {export.conversation.id: export.runs for export in exports}
    return "".join(
        render_conversation_html([export.conversation for export in exports], lambda export: runs[export.id])
    )


def test_the_index_has_dates() -> None:
    exports = [make_export({"role": "user", "content": "hi"}, name=name, started=1_700_000_000) for name in ("a", "b")]
    index = re.search(r"<nav>.*</nav>", render(*exports), re.DOTALL)
    assert index
    times = [each.conversation.updated for each in exports]
    assert re.findall(r'datetime="([^"]+)"', index[0]) == [*map(format_timestamp, times)]


@given(conversations())
def test_any_conversation_makes_a_valid_page(value: dict[str, Any]) -> None:
    text = render(from_json_value(value))
    text.encode()
    page = Page(text)
    assert page.open == []
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\u2066", "\x9b", "\0", "\r"}


def test_the_policy_allows_only_the_inline_style_and_images() -> None:
    page = Page(render(make_export({"role": "user", "content": "hi"})))
    digest = b64encode(sha256(page.styles.encode()).digest()).decode()
    assert page.policy.split("; ")[:3] == ["default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"]
    assert "url(" not in page.styles
    assert "@import" not in page.styles


def test_a_page_contains_the_complete_conversation() -> None:
    call = {"id": "1", "name": "bash", "arguments": '{"command": "ls"}', "seconds": 1.5, "exit_status": 2}
    text = render(
        make_export(
            {"role": "user", "content": "why <b>?\n\n<stdin>\npiped\n</stdin>"},
            {"role": "assistant", "content": "## Look\n- **so**", "reasoning": "let me think", "calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "no such file"},
            {"role": "assistant", "content": "Beca", "complete": False},
            *({"role": "user", "attachments": [{"name": "a.png", "media_type": "image/png", "data": "AAAA"}]},),
            *({"role": "user", "attachments": [{"name": "b.pdf", "media_type": "application/pdf", "data": "AAAA"}]},),
            exit_code=5,
            error="no connection",
            usage={"input_tokens": 1200, "output_tokens": 30, "cost": 0.0125},
        )
    )
    page = Page(text)
    for part in ("why <b>?", "stdin", "piped", "let me think", "no such file", "exit code 2", "1.5 s"):
        assert part in page.text
    for part in ("The answer was cut off here.", "exit code 5: no connection", "1,200 tokens in, 30 out", "$0.0125"):
        assert part in page.text
    assert "<strong>so</strong>" in text
    assert 'src="data:image/png;base64,AAAA"' in text
    assert "b.pdf" in page.text
    assert "demo:m" in page.text


def test_only_web_links_become_links() -> None:
    answer = "[a](https://host/x) [b](javascript:alert(1)) ![c](https://host/c.png) <mailto:me@host>"
    text = render(make_export({"role": "assistant", "content": answer}))
    assert '<a href="https://host/x" rel="noopener noreferrer nofollow">a</a>' in text
    assert "[b](javascript:alert(1))" in text
    assert '<span class="image" title="https://host/c.png">c</span>' in text
    assert '<a href="mailto:me@host"' in text


def test_several_conversations_are_on_one_page_with_a_list() -> None:
    text = render(
        make_export({"role": "user", "content": "1"}),
        make_export({"role": "user", "content": "2"}, name="def", title="<i>"),
    )
    assert "<title>2 conversations</title>" in text
    assert '<li><a href="#def" dir="auto">&lt;i&gt;</a> ' in text
    assert text.count('<article id="') == 2
    Page(text)


# In a browser


class Listener:
    """A web server that answers 404 and records the requested paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listener.paths.append(self.path)
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener()
    thread = Thread(target=listening.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield listening
    listening.server.shutdown()
    thread.join()
    listening.server.server_close()


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_browser_runs_and_loads_nothing_hostile(home: Home, listener: Listener) -> None:
    def hostile(name: str) -> str:
        url = f"{listener.url}/{name}"
        return (
            f"<script>document.write('<img src=\"{url}-script\">')</script><img src='{url}-img'>"
            f"<img src=x: onerror=\"new Image().src='{url}-handler'\"><iframe src='{url}-frame'></iframe>"
            f"<style>@import url('{url}-style');</style><link rel=stylesheet href='{url}-link'>"
            f"<svg onload=\"new Image().src='{url}-svg'\"></svg><p style=\"background:url('{url}-background')\">x</p>"
            f"\n\n![x]({url}-markdown) [x](javascript:fetch('{url}-address'))\n\n"
        )

    hostile_text = hostile("page") + "\n".join(HOSTILE)
    escapes = "</pre></summary></details></div></title></style>--></textarea>" + hostile_text
    call = {"id": "1", "name": escapes, "arguments": escapes}
    exported = render(
        make_export(
            {"role": "user", "content": f"{hostile_text}\n\n<stdin>\n{escapes}\n</stdin>"},
            {"role": "assistant", "content": hostile_text, "reasoning": escapes, "calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": escapes},
            {"role": "assistant", "content": f"```\n{escapes}"},
            title=escapes,
            error=escapes,
            directory=escapes,
            system=escapes,
            exit_code=1,
        )
    )
    (home.work / "page.html").write_text(exported)
    # A control: such content runs without the protection, and the requests are noticed.
    (home.work / "control.html").write_text(f"<!DOCTYPE html><title>control</title>{hostile('control')}")
    frames = "<iframe src=control.html></iframe><iframe src=page.html onload=\"document.title += ' framed'\"></iframe>"
    (home.work / "both.html").write_text(f"<!DOCTYPE html><title>opened</title>{frames}")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options = ["--disable-background-networking", f"--user-data-dir={home.path / 'browser'}", "--dump-dom"]
    result = run([*command, *options, Path(home.work, "both.html").as_uri()], env=home.env, cwd=home.work, timeout=60)
    assert "<title>opened framed</title>" in result.text, result.stderr
    assert {f"/control-{kind}" for kind in ("script", "img", "handler", "frame", "link", "svg")} <= set(listener.paths)
    assert [path for path in listener.paths if path.startswith("/page")] == []
