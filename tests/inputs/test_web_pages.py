"""`-f https://...` and `-f clipboard:`: what they read, and their errors."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import wire
from tests.inputs.test_attachments import asked, files_in
from tests.model_server import DROP, HOLD, ModelServer, Reply
from tests.program import Ask
from tests.sample_files import docx, pdf, png

PAGE = b"<html><head><title>Tea</title></head><body><h1>Tea</h1><p>Hot &amp; good.</p><script>x</script></body></html>"


@pytest.fixture
def web() -> Iterator[ModelServer]:
    """A web server, not a model's."""
    with ModelServer() as other:
        yield other


@pytest.fixture(autouse=True)
def answers(server: ModelServer) -> None:
    server.reply(wire.says("yes"))


def address(web: ModelServer, path: str) -> str:
    return f"{web.base_url.removesuffix('/api/v1')}/{path}"


# The web


def test_a_page_becomes_readable_text(ask: Ask, server: ModelServer, web: ModelServer) -> None:
    web.reply(Reply([PAGE], content_type="text/html; charset=utf-8"))
    url = address(web, "tea?a=1")
    assert ask("-f", url, "why?").code == 0
    text = wire.asked(server.requests[0].json)
    assert text.startswith(f'why?\n\n<file name="{url}">\n')
    assert "# Tea" in text
    assert "Hot & good." in text
    assert "<p>" not in text
    assert "script" not in text


@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "text/html", ""])
@pytest.mark.parametrize("file", [("my%20photo.png", png()), ("paper.pdf", pdf())], ids=["image", "PDF"])
def test_attachments_are_detected_by_content_and_not_by_content_type(
    content_type: str, file: tuple[str, bytes], ask: Ask, server: ModelServer, web: ModelServer
) -> None:
    name, data = file
    web.reply(Reply([data], content_type=content_type))
    result = ask("-v", "-f", address(web, name), "what?")
    assert result.code == 0
    assert files_in(server.requests[0].json) == [data]
    assert f"{name.replace('%20', ' ')} (" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("content_type", ["application/octet-stream", "application/zip", ""])
def test_the_text_of_an_office_document_is_attached(
    content_type: str, ask: Ask, server: ModelServer, web: ModelServer
) -> None:
    web.reply(Reply([docx("Größe")], content_type=content_type))
    (ask.cwd / "a.docx").write_bytes(docx("lokal"))
    assert ask("-f", address(web, "paper.docx"), "-f", "a.docx", "what?").code == 0
    text = wire.asked(server.requests[0].json)
    assert '<file name="paper.docx">\nGröße\n\n| a | b |\n| --- | --- |\n</file>' in text
    assert '<file name="a.docx">\nlokal' in text


def test_redirects_are_followed(ask: Ask, server: ModelServer, web: ModelServer) -> None:
    web.reply(Reply(status=302, headers={"Location": "/there.txt"}), Reply([b"plain"], content_type="text/plain"))
    assert ask("-f", address(web, "here"), "why?").code == 0
    assert f'<file name="{address(web, "there.txt")}">\nplain\n</file>' in wire.asked(server.requests[0].json)


def test_no_key_is_sent_to_a_web_server(ask: Ask, web: ModelServer) -> None:
    web.reply(Reply([b"plain"], content_type="text/plain"))
    ask("-f", address(web, "x"), "why?")
    assert "Authorization" not in web.requests[0].headers


@pytest.mark.parametrize(
    ("reply", "refusal"),
    [
        (Reply([b"no"], status=404, content_type="text/plain"), (9, "(404 Not Found)")),
        (Reply([b"no"], status=403, content_type="text/plain"), (9, "attach the file")),
        (Reply([b"no"], status=429, content_type="text/plain"), (9, "later")),
        (Reply([b"\0\1\2"], content_type="application/octet-stream"), (9, "binary")),
        (Reply([b"PK\x03\x04\0\0"], content_type="application/zip"), (9, "ZIP archive")),
        (Reply([b"x" * 10_000_001], content_type="text/plain"), (9, "10 MB")),
        (Reply((DROP,)), (5, "connection")),
        (Reply([b"half", DROP], content_type="text/plain"), (5, "/x")),
    ],
)
def test_a_url_that_cannot_be_read_is_a_one_line_error(
    reply: Reply, refusal: tuple[int, str], ask: Ask, server: ModelServer, web: ModelServer
) -> None:
    code, told = refusal
    web.reply(reply)
    result = ask("-f", address(web, "x"), "why?")
    assert (result.code, result.stdout, server.requests) == (code, b"", [])
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_fetching_a_page_times_out(ask: Ask, server: ModelServer, web: ModelServer) -> None:
    web.reply(Reply((HOLD,)))
    result = ask("--command-timeout", "0.3", "-f", address(web, "x"), "why?")
    assert (result.code, server.requests) == (5, [])
    assert "0.3 s" in result.stderr


@pytest.mark.parametrize("url", ["http://", "https://a b/", "http://user:word@127.0.0.1/", "http://127.0.0.1:99999/"])
def test_an_invalid_url_is_refused(url: str, ask: Ask, server: ModelServer) -> None:
    result = ask("-f", url, "why?")
    assert (result.code, server.requests) == (9, [])
    assert url.rsplit("@", maxsplit=1)[-1].rstrip("/") in result.stderr
    assert result.stderr.count("\n") == 1


# The clipboard

SCREENS: Mapping[str, Mapping[str, str]] = {
    "wl-paste": {"WAYLAND_DISPLAY": "wayland-0"},
    "xclip": {"DISPLAY": ":0"},
    "xsel": {"DISPLAY": ":0"},
    "pbpaste": {},
    "powershell.exe": {"WSL_DISTRO_NAME": "Debian"},
}
LISTS = {"wl-paste": "--list-types", "xclip": "TARGETS"}


def with_clipboard(ask: Ask, script: str, *names: str, screen: str = "") -> Ask:
    """`ask` with only these clipboard programs and what a shell script needs."""
    folder = ask.cwd.parent / "programs"
    folder.mkdir()
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\nPATH={ask.env['PATH']}\n{script}\n")
        (folder / name).chmod(0o755)
    return replace(ask, env={**ask.env, "PATH": str(folder), **SCREENS[screen or names[0]]})


def ask_clipboard(ask: Ask, *options: str) -> tuple[int, str]:
    """Return exit code and error of a question about the clipboard. `ask` is run by its full path."""
    result = ask(*options, "-f", "clipboard:", "what?")
    return result.code, result.stderr


@pytest.mark.parametrize("name", ["wl-paste", "xclip"])
def test_an_image_in_the_clipboard_is_attached(name: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "photo").write_bytes(png())
    lists = f"*{LISTS[name]}*) printf 'text/plain\\nimage/png\\n'"
    script = f'case "$*" in {lists};; *image/png*) cat photo;; *) exit 1;; esac'
    assert ask_clipboard(with_clipboard(ask, script, name)) == (0, "")
    assert files_in(asked(server)[0]) == [png()]


@pytest.mark.parametrize("name", ["wl-paste", "xclip", "xsel"])
def test_text_in_the_clipboard_is_sent_as_text(name: str, ask: Ask, server: ModelServer) -> None:
    script = f"case \"$*\" in *{LISTS.get(name, 'never')}*) echo text/plain;; *) printf 'größer';; esac"
    assert ask_clipboard(with_clipboard(ask, script, name)) == (0, "")
    assert wire.asked(asked(server)[0]) == 'what?\n\n<file name="clipboard">\ngrößer\n</file>'


def test_the_clipboard_of_a_mac_is_read(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "told").write_bytes("«data PNGf".encode() + png().hex().upper().encode() + "»\n".encode())
    script = 'case "$0" in *osascript) cat told;; *) echo text;; esac'
    mac = with_clipboard(ask, script, "pbpaste", "osascript")
    assert ask_clipboard(mac) == (0, "")
    assert files_in(asked(server)[0]) == [png()]
    (ask.cwd / "told").unlink()
    assert ask_clipboard(mac) == (0, "")
    assert '<file name="clipboard">\ntext\n</file>' in wire.asked(asked(server)[1])


@pytest.mark.parametrize("data", [png(), "größer".encode()])
def test_the_clipboard_of_windows_is_read(data: bytes, ask: Ask, server: ModelServer) -> None:
    script = f"printf {b64encode(data).decode()}"
    assert ask_clipboard(with_clipboard(ask, script, "powershell.exe")) == (0, "")
    if data == png():
        assert files_in(asked(server)[0]) == [data]
    else:
        assert "größer" in wire.asked(asked(server)[0])


@pytest.mark.parametrize(("screen", "package"), [("wl-paste", "wl-clipboard"), ("xclip", "xclip")])
def test_a_missing_program_is_named(screen: str, package: str, ask: Ask, server: ModelServer) -> None:
    code, line = ask_clipboard(with_clipboard(ask, "", screen=screen))
    assert code == 3
    assert screen in line
    assert package in line
    assert server.requests == []


def test_without_a_display_there_is_no_clipboard(ask: Ask) -> None:
    code, line = ask_clipboard(with_clipboard(ask, "", screen="pbpaste"))
    assert (code, "clipboard" in line) == (3, True)


@pytest.mark.parametrize(
    ("script", "told"), [("echo Nothing is copied >&2; exit 1", "Nothing is copied"), ("", "empty")]
)
def test_an_empty_clipboard_is_an_error(script: str, told: str, ask: Ask, server: ModelServer) -> None:
    code, line = ask_clipboard(with_clipboard(ask, script, "wl-paste"))
    assert (code, server.requests) == (9, [])
    assert told in line
    assert line.count("\n") == 1


@pytest.mark.slow  # takes 10 s
def test_a_clipboard_program_that_hangs_is_named(ask: Ask, server: ModelServer) -> None:
    code, line = ask_clipboard(with_clipboard(ask, "exec sleep 60", "wl-paste"))
    assert (code, server.requests) == (9, [])
    assert "wl-paste did not answer within 10 s" in line


def test_clipboard_programs_do_not_get_keys(ask: Ask) -> None:
    kept = Path(ask.cwd / "environment")
    assert ask_clipboard(with_clipboard(ask, "env > environment; echo text", "xsel"))[0] == 0
    assert "DISPLAY" in kept.read_text()
    assert "OPENROUTER_API_KEY" not in kept.read_text()
