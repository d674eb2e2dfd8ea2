"""Conversations as a web page: all is there, and nothing in one can run, load or leave its place."""

from __future__ import annotations

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

from ask.history.export_format import ConversationExport, from_json_value
from ask.render.html_page import render_html_page
from tests.any_conversation import HOSTILE, conversations
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
    """What a browser would find, checked while it is read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.styles = ""
        self.policy = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag in TAGS
        assert given.keys() <= ATTRIBUTES, "nothing else, no handlers and no styles"
        assert (given.get("href") or "#").startswith(("#", "http://", "https://", "mailto:"))
        assert (given.get("src") or "data:image/png;").startswith("data:image/png;")
        if given.get("http-equiv"):
            self.policy = given["content"] or ""
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


def saved(*messages: dict[str, Any], title: str = "why?", name: str = "abc", **run: Any) -> ConversationExport:
    about = {"format": "ask-conversation", "version": 1, "id": name, "title": title}
    filled = {"provider": "demo", "model": "m", "messages": list(messages), **run}
    return from_json_value({**about, "runs": [filled]})


def page(*several: ConversationExport) -> str:
    runs = {one.conversation.id: one.runs for one in several}
    return "".join(render_html_page([one.conversation for one in several], lambda one: runs[one.id]))


@given(conversations())
def test_any_conversation_makes_a_valid_page_of_text(value: dict[str, Any]) -> None:
    text = page(from_json_value(value))
    text.encode()
    found = Page(text)
    assert found.open == []
    assert not set(text) & {"\x1b", "\x07", "\u202e", "\u2066", "\x9b", "\0", "\r"}


def test_the_policy_allows_the_page_its_own_style_and_pictures_in_it_alone() -> None:
    found = Page(page(saved({"role": "user", "content": "hi"})))
    digest = b64encode(sha256(found.styles.encode()).digest()).decode()
    assert found.policy.split("; ")[:3] == ["default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"]
    assert "url(" not in found.styles
    assert "@import" not in found.styles


def test_a_page_contains_the_complete_conversation() -> None:
    call = {"id": "1", "name": "bash", "arguments": '{"command": "ls"}', "seconds": 1.5, "exit_status": 2}
    text = page(
        saved(
            {"role": "user", "content": "why <b>?\n\n<stdin>\npiped\n</stdin>"},
            {"role": "assistant", "content": "## Look\n- **so**", "reasoning": "let me think", "calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "no such file"},
            {"role": "assistant", "content": "Beca", "whole": False},
            *({"role": "user", "attachments": [{"name": "a.png", "media_type": "image/png", "data": "AAAA"}]},),
            *({"role": "user", "attachments": [{"name": "b.pdf", "media_type": "application/pdf", "data": "AAAA"}]},),
            exit_code=5,
            error="no connection",
            usage={"input_tokens": 1200, "output_tokens": 30, "cost": 0.0125},
        )
    )
    found = Page(text)
    for part in ("why <b>?", "standard input", "piped", "let me think", "no such file", "exit code 2", "1.5 s"):
        assert part in found.text
    for part in ("The answer was cut off here.", "exit code 5: no connection", "1,200 tokens in, 30 out", "$0.0125"):
        assert part in found.text
    assert "<strong>so</strong>" in text
    assert 'src="data:image/png;base64,AAAA"' in text
    assert "b.pdf" in found.text
    assert "demo:m" in found.text


def test_links_to_the_web_are_links_and_others_are_text() -> None:
    answer = "[a](https://host/x) [b](javascript:alert(1)) ![c](https://host/c.png) <mailto:me@host>"
    text = page(saved({"role": "assistant", "content": answer}))
    assert '<a href="https://host/x" rel="noopener noreferrer nofollow">a</a>' in text
    assert "[b](javascript:alert(1))" in text
    assert '<span class="image" title="https://host/c.png">c</span>' in text
    assert '<a href="mailto:me@host"' in text


def test_several_conversations_are_on_one_page_with_a_list() -> None:
    text = page(
        saved({"role": "user", "content": "1"}), saved({"role": "user", "content": "2"}, name="def", title="<i>")
    )
    assert "<title>2 conversations</title>" in text
    assert '<li><a href="#def" dir="auto">&lt;i&gt;</a></li>' in text
    assert text.count('<article id="') == 2
    Page(text)


# In a browser


class Listener:
    """A web server that answers nothing and remembers who was asked for what."""

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
def test_a_browser_runs_and_loads_nothing_hostile(home: Home, listener: Listener) -> None:
    def hostile(who: str) -> str:
        url = f"{listener.url}/{who}"
        return (
            f"<script>document.write('<img src=\"{url}-script\">')</script><img src='{url}-img'>"
            f"<img src=x: onerror=\"new Image().src='{url}-handler'\"><iframe src='{url}-frame'></iframe>"
            f"<style>@import url('{url}-style');</style><link rel=stylesheet href='{url}-link'>"
            f"<svg onload=\"new Image().src='{url}-svg'\"></svg><p style=\"background:url('{url}-background')\">x</p>"
            f"\n\n![x]({url}-markdown) [x](javascript:fetch('{url}-address'))\n\n"
        )

    evil = hostile("page") + "\n".join(HOSTILE)
    escapes = "</pre></summary></details></div></title></style>--></textarea>" + evil
    call = {"id": "1", "name": escapes, "arguments": escapes}
    exported = page(
        saved(
            {"role": "user", "content": f"{evil}\n\n<stdin>\n{escapes}\n</stdin>"},
            {"role": "assistant", "content": evil, "reasoning": escapes, "calls": [call]},
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
    # That such content does run elsewhere, and that this would be noticed.
    (home.work / "control.html").write_text(f"<!DOCTYPE html><title>control</title>{hostile('control')}")
    frames = "<iframe src=control.html></iframe><iframe src=page.html onload=\"document.title += ' framed'\"></iframe>"
    (home.work / "both.html").write_text(f"<!DOCTYPE html><title>opened</title>{frames}")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options = ["--disable-background-networking", f"--user-data-dir={home.path / 'browser'}", "--dump-dom"]
    result = run([*command, *options, Path(home.work, "both.html").as_uri()], env=home.env, cwd=home.work, timeout=60)
    assert "<title>opened framed</title>" in result.text, result.stderr
    assert {f"/control-{how}" for how in ("script", "img", "handler", "frame", "link", "svg")} <= set(listener.paths)
    assert [path for path in listener.paths if path.startswith("/page")] == []
