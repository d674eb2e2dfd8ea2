"""`-f github:OWNER/REPO[/PATH][@REF]` and `-t gh:...`, from a local server in place of GitHub."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from tests import wire
from tests.inputs.test_attachments import files_in
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.sample_files import png

MISSING = Reply([b"Not Found"], status=404, content_type="text/plain")
FILES = {
    "README.md": b"# Tea\n",
    "src/a.py": b"print(1)\n",
    "src/deep/b.py": b"print(2)\n",
    "src/photo.png": png(),
    "srcs/c.py": b"print(3)\n",
}


@pytest.fixture
def github() -> Iterator[ModelServer]:
    with ModelServer() as other:
        yield other


@pytest.fixture
def ask(ask: Ask, server: ModelServer, github: ModelServer) -> Ask:
    server.reply(wire.says("yes"))
    address = github.base_url.removesuffix("/api/v1")
    return replace(ask, env={**ask.env, "GITHUB_SERVER_URL": address})


def make_archive(files: Mapping[str, bytes], *members: tarfile.TarInfo) -> bytes:
    """Return a repository as GitHub packs it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": "abc"}) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"repo-abc/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for member in members:
            tar.addfile(member)
    return packed.getvalue()


def archive(files: Mapping[str, bytes] = FILES, *members: tarfile.TarInfo) -> Reply:
    return Reply([make_archive(files, *members)], content_type="application/x-gzip")


def text(data: str) -> Reply:
    return Reply([data.encode()], content_type="text/plain")


def asked(server: ModelServer) -> str:
    return wire.asked(server.requests[-1].json)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("github:o/r/src/a.py", "/o/r/raw/HEAD/src/a.py"),
        ("gh:o/r/src/a.py@v1.0", "/o/r/raw/v1.0/src/a.py"),
        ("gh:o/r/src/a.py@feature/x", "/o/r/raw/feature/x/src/a.py"),
        ("gh:o/r.git/src/a.py", "/o/r/raw/HEAD/src/a.py"),
        ("gh:o/r/packages/@scope/a b#?.py@v1", "/o/r/raw/v1/packages/%40scope/a%20b%23%3F.py"),
        ("gh:o/r/packages/@scope/a", "/o/r/raw/HEAD/packages/%40scope/a"),
        ("gh:o/r/größe.txt", "/o/r/raw/HEAD/gr%C3%B6%C3%9Fe.txt"),
    ],
)
def test_a_file_is_fetched_and_named(
    source: str, path: str, ask: Ask, server: ModelServer, github: ModelServer
) -> None:
    github.reply(text("print(1)\n"))
    assert ask("-f", source, "why?").code == 0
    assert [request.path for request in github.requests] == [path]
    assert "authorization" not in {name.lower() for name in github.requests[0].headers}
    assert '<file name="o/r/' in asked(server)
    assert "print(1)" in asked(server)


def test_an_image_is_attached(ask: Ask, server: ModelServer, github: ModelServer) -> None:
    github.reply(Reply([png()], content_type="text/plain"))
    assert ask("-f", "gh:o/r/photo.png", "what?").code == 0
    assert files_in(server.requests[-1].json) == [png()]


@pytest.mark.parametrize(
    ("source", "requested"),
    [
        ("gh:o/r", ["/o/r/archive/HEAD.tar.gz"]),
        ("gh:o/r@v1", ["/o/r/archive/v1.tar.gz"]),
        ("gh:o/r/src", ["/o/r/raw/HEAD/src", "/o/r/archive/HEAD.tar.gz"]),
        ("gh:o/r/src/", ["/o/r/raw/HEAD/src", "/o/r/archive/HEAD.tar.gz"]),
    ],
)
def test_the_texts_of_a_folder_are_attached(
    source: str, requested: list[str], ask: Ask, server: ModelServer, github: ModelServer
) -> None:
    github.reply(*[MISSING] * (len(requested) - 1), archive())
    result = ask("-v", "-f", source, "why?")
    assert result.code == 0
    assert [request.path for request in github.requests] == requested
    names = [
        name for name in FILES if name.endswith((".md", ".py")) and name.startswith("src/" if "src" in source else "")
    ]
    assert [name for name in FILES if f'<file name="o/r/{name}">' in asked(server)] == names
    assert "skipped o/r/src/photo.png" in result.stderr


def test_redirects_are_followed(ask: Ask, server: ModelServer, github: ModelServer) -> None:
    github.reply(Reply(status=302, headers={"Location": "/elsewhere"}), archive())
    assert ask("-f", "gh:o/r", "why?").code == 0
    assert "print(2)" in asked(server)


@pytest.mark.parametrize(
    "rest",
    ["", "o", "o/", "/r", "o/..", "../r", "o/r/../x", "o/r/a/./b", "o/r@..", "o/r@../../x", "o/r/a@b/../c", "o/r/a\nb"],
)
def test_an_invalid_address_sends_nothing(rest: str, ask: Ask, github: ModelServer) -> None:
    result = ask("-f", f"gh:{rest}", "why?")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert "OWNER/REPO" in result.stderr
    assert not github.requests


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_links_and_names_outside_are_harmless(ask: Ask, server: ModelServer, github: ModelServer) -> None:
    (ask.cwd / "secret").write_text("secret")
    github.reply(archive({"../../up.txt": b"up\n"}, link("repo-abc/link", str(ask.cwd / "secret"))))
    assert ask("-f", "gh:o/r", "why?").code == 0
    assert "secret" not in asked(server)
    assert list(ask.cwd.parent.rglob("up.txt")) == []


@pytest.mark.parametrize(
    ("make_replies", "reason"),
    [
        (lambda: [MISSING, MISSING], "404"),
        (lambda: [Reply([b"no"], status=500)], "500"),
        (lambda: [MISSING, Reply([b"no archive"])], "damaged"),
        (lambda: [MISSING, Reply([make_archive(FILES)[:200]])], "damaged"),
        (lambda: [MISSING, archive({"other.txt": b"x"})], "no text files"),
        (lambda: [MISSING, Reply([b"x" * 10_000_001])], "10 MB"),
        (lambda: [Reply([b"x" * 10_000_001])], "10 MB"),
        (lambda: [MISSING, Reply([gzip.compress(bytes(110_000_000), 1)])], "100 MB"),
        (lambda: [MISSING, archive({"src/a": b"a" * 6_000_000, "src/b": b"b" * 6_000_000})], "10 MB"),
    ],
)
def test_what_cannot_be_fetched_is_an_error(
    make_replies: Callable[[], list[Reply]], reason: str, ask: Ask, server: ModelServer, github: ModelServer
) -> None:
    github.reply(*make_replies())
    result = ask("-f", "gh:o/r/src", "why?")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert reason in result.stderr
    assert not server.requests


@pytest.mark.parametrize(
    ("status", "hint"), [(404, "clone"), (403, "sign-in"), (429, "too many requests"), (503, "try again later")]
)
def test_the_hint_fits_the_status(status: int, hint: str, ask: Ask, github: ModelServer) -> None:
    github.reply(Reply([b"no"], status=status))
    for source in ("gh:o/r/a.txt", "gh:o/r"):
        result = ask("-f", source, "why?")
        assert (result.code, result.stderr.count("\n")) == (9, 1)
        assert str(status) in result.stderr
        assert hint in result.stderr


@pytest.mark.parametrize("option", ["-f", "-t"])
def test_a_page_to_sign_in_is_not_taken_for_a_file(
    option: str, ask: Ask, server: ModelServer, github: ModelServer
) -> None:
    page = Reply([b"<html>Sign in</html>"], content_type="text/html; charset=utf-8")
    for source in ("gh:o/r/a.md", "gh:o/r"):
        github.reply(Reply(status=302, headers={"Location": "/login"}), page)
        result = ask(option, source, "why?")
        assert (result.code, result.stderr.count("\n")) == (9, 1)
        assert "web page" in result.stderr
    assert not server.requests


def test_odd_names_and_pointers_of_git_lfs(ask: Ask, server: ModelServer, github: ModelServer) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    github.reply(archive({"a\udcff.txt": b"text\n", "model.bin": pointer}))
    result = ask("-v", "-f", "gh:o/r", "why?")
    assert result.code == 0
    assert r"a\\xff.txt" in asked(server)
    assert "skipped o/r/model.bin: in Git LFS" in result.stderr
    assert "sha256" not in asked(server)


@pytest.mark.parametrize("header", [("GNU.sparse.map", "x"), ("GNU.sparse.size", "9" * 20), ("size", "9" * 20)])
def test_an_archive_that_tarfile_cannot_read_is_damaged(header: tuple[str, str], ask: Ask, github: ModelServer) -> None:
    member = tarfile.TarInfo("repo-abc/odd")
    member.pax_headers = dict([header])
    github.reply(archive(FILES, member))
    result = ask("-f", "gh:o/r", "why?")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert "damaged" in result.stderr


def test_a_server_that_cannot_be_reached_is_a_network_error(ask: Ask) -> None:
    assert ask("-f", "gh:o/r", "why?", env={"GITHUB_SERVER_URL": "http://127.0.0.1:9"}).code == 5


@pytest.mark.parametrize("source", ["gh:o/r/prompts/tea", "gh:o/r/prompts/tea.md", "github:o/r/prompts/tea@v1"])
def test_a_template_is_a_file_of_a_repository(source: str, ask: Ask, server: ModelServer, github: ModelServer) -> None:
    github.reply(text('+++\nsystem = "You make tea."\ntools = false\n+++\nHow {{how|hot}}: {{input}}?'))
    assert ask("-t", source, "--var", "how=cold", "milk").code == 0
    assert github.requests[0].path.endswith("/prompts/tea.md")
    assert asked(server) == "How cold: milk?"
    assert "You make tea." in str(server.requests[-1].json["messages"][0])
    assert "tools" not in server.requests[-1].json


def test_a_missing_template_is_not_looked_for_as_a_folder(ask: Ask, server: ModelServer, github: ModelServer) -> None:
    github.reply(MISSING)
    result = ask("-t", "gh:o/r/tea", "milk")
    assert result.code == 9
    assert len(github.requests) == 1
    assert not server.requests
