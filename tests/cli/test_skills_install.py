"""`ask skills add`, `update` and `remove`, with real repositories over file:// and HTTP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ask.project.skill_sources import SkillLocation, parse_location, parse_marketplace
from tests.program import Ask, Home
from tests.project.projects import commit, git, make_repository, write, write_skill


@pytest.fixture
def repository(home: Home) -> Path:
    """A repository with two skills, one with a script."""
    folder = make_repository(home.path / "repository")
    git(folder, "checkout", "-q", "-b", "main")
    write_skill(folder / "skills/pdf")
    write(folder / "skills/pdf/scripts/fill.sh", "#!/bin/sh\necho\n").chmod(0o755)
    write_skill(folder / "skills/mail", "Writes mail.", "Be brief.")
    write(folder / "README.md", "Two skills.")
    commit(folder)
    return folder


@pytest.fixture
def skills(home: Home) -> Path:
    return home.config / "skills"


def list_skills(ask: Ask) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(ask("skills", "list", "--json").text)
    return rows


def list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


# Installation


def test_several_skills_are_listed_and_none_is_installed(ask: Ask, repository: Path, skills: Path) -> None:
    result = ask("skills", "add", str(repository))
    assert (result.code, not skills.exists()) == (0, True)
    assert [line.split("\t")[:2] for line in result.text.splitlines()] == [
        ["mail", "skills/mail"],
        ["pdf", "skills/pdf"],
    ]
    assert ask("skills", "add", str(repository), "--yes").code == 2


def test_a_skill_is_shown_and_installed_after_a_yes(ask: Ask, repository: Path, skills: Path) -> None:
    def answer(text: str) -> str:
        shown = ask.on_terminal(
            "skills", "add", str(repository), "pdf", answers=[("[y/N]", f"{text}\n")], env={"PAGER": "cat"}
        )
        assert "Use pdftotext." in shown.text
        assert "scripts/fill.sh (15 bytes, script)" in shown.text
        return shown.text

    answer("n")
    assert not skills.exists()
    answer("y")
    assert list_files(skills / "pdf") == ["SKILL.md", "scripts/fill.sh"]
    assert os.access(skills / "pdf/scripts/fill.sh", os.X_OK)
    (row,) = list_skills(ask)
    assert (row["source"], row["commit"]) == (f"file://{repository}", git(repository, "rev-parse", "HEAD"))
    assert (row["name"], row["offered"], row["from"]) == ("pdf", True, "you")


def test_without_a_terminal_it_is_shown_but_not_installed(ask: Ask, repository: Path, skills: Path) -> None:
    result = ask("skills", "add", str(repository), "pdf")
    assert (result.code, "Use pdftotext." in result.text, skills.exists()) == (8, True, False)


def test_all_are_installed_but_those_that_are_invalid_or_installed(ask: Ask, repository: Path, skills: Path) -> None:
    write(repository / "skills/broken/SKILL.md", "no front matter")
    commit(repository)
    assert ask("skills", "add", str(repository), "pdf", "-y").code == 0
    result = ask("skills", "add", str(repository), "--all", "-y")
    assert (result.code, "front matter" in result.stderr) == (0, True)
    assert sorted(path.name for path in skills.iterdir()) == ["mail", "pdf"]
    assert ask("skills", "add", str(repository), "broken", "-y").code == 9
    again = ask("skills", "add", str(repository), "pdf", "-y")
    assert (again.code, "ask skills update pdf" in again.stderr) == (2, True)


def test_the_only_skill_of_a_repository_is_not_installed_twice(ask: Ask, repository: Path) -> None:
    shutil.rmtree(repository / "skills/mail")
    commit(repository)
    assert ask("skills", "add", str(repository), "-y").code == 0
    assert ask("skills", "add", str(repository), "-y").code == 2


def test_one_skill_that_cannot_be_installed_does_not_prevent_the_others(
    ask: Ask, repository: Path, skills: Path
) -> None:
    for name in ("linked", "mine"):
        write(repository / f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: Other.\n---\n")
    (repository / "skills/linked/passwd").symlink_to("/etc/passwd")
    write(repository / "skills/second/SKILL.md", "---\nname: pdf\ndescription: Other.\n---\n")
    commit(repository)
    write_skill(skills / "mine", "My own.")
    assert ask("skills", "add", str(repository), "pdf", "linked", "-y").code == 2
    result = ask("skills", "add", str(repository), "--all", "-y")
    assert result.code == 0
    assert all(name in result.stderr for name in ("skills/linked", "skills/mine", "skills/second"))
    assert sorted(path.name for path in skills.iterdir()) == ["mail", "mine", "pdf"]
    assert "Other." not in (skills / "pdf/SKILL.md").read_text()


def test_a_skill_of_the_user_is_never_replaced(ask: Ask, repository: Path, skills: Path) -> None:
    write_skill(skills / "pdf", "My own.")
    result = ask("skills", "add", str(repository), "pdf", "mail", "-y")
    assert (result.code, "already have a skill pdf" in result.stderr) == (2, True)
    assert [path.name for path in skills.iterdir()] == ["pdf"]
    assert "My own." in (skills / "pdf/SKILL.md").read_text()
    assert ask("skills", "remove", "pdf", "-y").code == 2
    assert (skills / "pdf/SKILL.md").exists()


def test_a_repository_that_is_one_skill_is_installed_under_its_name(ask: Ask, home: Home, skills: Path) -> None:
    folder = make_repository(home.path / "some-repository")
    write(folder / "SKILL.md", "---\nname: pdf\ndescription: Reads PDF files.\n---\nUse pdftotext.\n")
    write(folder / "references/forms.md", "About forms.")
    commit(folder)
    assert ask("skills", "add", str(folder), "-y").code == 0
    assert list_files(skills / "pdf") == ["SKILL.md", "references/forms.md"]
    assert [row["offered"] for row in list_skills(ask)] == [True]


def test_a_skill_is_found_by_its_folder_if_two_have_its_name(ask: Ask, repository: Path, skills: Path) -> None:
    write(repository / "more/other/SKILL.md", "---\nname: pdf\ndescription: Other.\n---\n")
    commit(repository)
    result = ask("skills", "add", str(repository), "pdf", "-y")
    assert (result.code, "more/other, skills/pdf" in result.stderr) == (2, True)
    assert ask("skills", "add", str(repository), "more/other", "-y").code == 0
    assert "Other." in (skills / "pdf/SKILL.md").read_text()


def test_a_branch_tag_or_commit_is_installed_on_request(ask: Ask, repository: Path, skills: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "-a", "v1", "-m", "One")
    git(repository, "checkout", "-q", "-b", "new/look")
    write_skill(repository / "skills/pdf", body="Use another tool.")
    second = commit(repository)
    git(repository, "checkout", "-q", "main")
    for ref, expected in (("v1", first), (first, first), ("new/look", second)):
        assert ask("skills", "add", str(repository), "pdf", "--ref", ref, "-y").code == 0
        assert [row["commit"] for row in list_skills(ask)] == [expected]
        assert ask("skills", "remove", "pdf", "-y").code == 0
    assert not any(skills.iterdir())
    for ref in ("missing", "--upload-pack=touch x", "a:b"):
        assert ask("skills", "add", str(repository), "pdf", "--ref", ref, "-y").code in (2, 9)


def test_what_is_shown_contains_no_escape_sequences(ask: Ask, repository: Path) -> None:
    write_skill(repository / "skills/pdf", body="\x1b[8mhidden\x1b[0m \u202etxt\u200b")
    write(repository / "skills/pdf/a\x1b]0;title\x07.txt", "x")
    commit(repository)
    shown = ask("skills", "add", str(repository), "pdf").text
    assert not any(character in shown for character in "\x1b\x07\u202e\u200b")
    assert "\\x1b[8mhidden" in shown


# What is not installed


@pytest.mark.parametrize(
    ("target", "is_accepted"),
    [
        ("scripts/fill.sh", True),
        ("./SKILL.md", True),
        (".", False),
        ("..", False),
        ("/etc/passwd", False),
        ("../mail/SKILL.md", False),
    ],
)
def test_links_out_of_a_skill_are_refused(
    ask: Ask, repository: Path, skills: Path, target: str, *, is_accepted: bool
) -> None:
    (repository / "skills/pdf/link").symlink_to(target)
    commit(repository)
    assert ask("skills", "add", str(repository), "pdf", "-y").code == (0 if is_accepted else 9)
    assert (skills / "pdf/link").exists() == is_accepted


def test_a_link_over_another_link_is_refused(ask: Ask, repository: Path, skills: Path) -> None:
    (repository / "skills/pdf/up").symlink_to("scripts")
    (repository / "skills/pdf/out").symlink_to("up/../../mail")
    commit(repository)
    assert (ask("skills", "add", str(repository), "pdf", "-y").code, skills.exists()) == (9, False)


def test_nothing_that_a_repository_names_is_run(ask: Ask, home: Home, repository: Path, skills: Path) -> None:
    ran = home.path / "ran"
    write(repository / ".gitattributes", "* filter=evil export-ignore\n")
    write(repository / ".git/hooks/post-checkout", f"#!/bin/sh\ntouch {ran}\n").chmod(0o755)
    other = make_repository(home.path / "other")
    write(other / "file", "x")
    commit(other)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "skills/pdf/sub")
    commit(repository)
    git(repository, "config", "filter.evil.smudge", f"touch {ran}")
    result = ask("skills", "add", str(repository), "pdf", "-y")
    assert (result.code, ran.exists()) == (0, False)
    assert list_files(skills / "pdf") == ["SKILL.md", "scripts/fill.sh"]
    assert "sub is a submodule" in result.stderr


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("ext::touch ran", 2),
        ("--upload-pack=touch ran", 2),
        ("http://example.com/owner/repo", 2),
        ("https://token@example.com/owner/repo", 2),
        ("ftp://example.com/repo", 2),
        ("https://", 2),
        ("./nothing", 2),
        ("one", 2),
        ("owner/repo/../..", 2),
        ("owner/..", 2),
        ("~nobody-of-this-name/repo", 2),
        ("ssh://git@example.com/\x1b[8mrepo", 2),
        ("git@example.com:\x1b[8mrepo", 2),
        ("ssh://-oProxyCommand=touch${IFS}ran/repo", 9),
        ("file:///nothing/here", 9),
    ],
)
def test_other_sources_are_errors(ask: Ask, source: str, code: int) -> None:
    assert ask("skills", "add", "-y", "--", source).code == code
    assert not (ask.cwd / "ran").exists()


@pytest.mark.slow
def test_a_skill_with_too_many_files_is_refused(ask: Ask, repository: Path, skills: Path) -> None:
    for number in range(2_001):
        write(repository / f"skills/pdf/data/{number}", "x")
    commit(repository)
    assert (ask("skills", "add", str(repository), "pdf", "-y").code, skills.exists()) == (9, False)
    assert ask("skills", "add", str(repository), "mail", "-y").code == 0


def test_a_skill_with_deep_folders_is_refused(ask: Ask, repository: Path, skills: Path) -> None:
    write(repository / "skills/pdf" / ("a/" * 60) / "file", "x")
    commit(repository)
    result = ask("skills", "add", str(repository), "pdf", "-y")
    assert (result.code, "levels of folders" in result.stderr, skills.exists()) == (9, True, False)


def test_what_a_killed_command_has_fetched_is_deleted_later(ask: Ask, home: Home, repository: Path) -> None:
    cache = Path(home.env["XDG_CACHE_HOME"], "ask")
    abandoned = write(cache / "fetched-old/HEAD", "x").parent
    in_use = write(cache / "fetched-new/HEAD", "x").parent
    os.utime(abandoned, (time.time() - 100_000,) * 2)
    assert ask("skills", "add", str(repository)).code == 0
    assert [path.name for path in cache.glob("fetched-*")] == [in_use.name]


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("echo 'Host key verification failed.' >&2; exit 255", "with ssh once"),
        ("echo 'git@host: Permission denied (publickey).' >&2; exit 255", "Permission denied (publickey)"),
    ],
)
def test_the_reason_that_ssh_prints_is_shown(ask: Ask, script: str, shown: str) -> None:
    ssh = write(ask.cwd / "ssh", f"#!/bin/sh\n{script}\n")
    ssh.chmod(0o755)
    result = ask("skills", "add", "git@example.com:repo", env={"GIT_SSH_COMMAND": str(ssh)})
    assert (result.code, shown in result.stderr) == (5, True)


def test_an_incomplete_commit_id_is_explained(ask: Ask, repository: Path) -> None:
    result = ask("skills", "add", str(repository), "--ref", git(repository, "rev-parse", "HEAD")[:10])
    assert (result.code, "must be complete" in result.stderr) == (9, True)
    git(repository, "tag", "files", "HEAD^{tree}")
    result = ask("skills", "add", str(repository), "--ref", "files")
    assert (result.code, "not a commit" in result.stderr) == (9, True)


def test_without_git_nothing_can_be_installed(ask: Ask, repository: Path) -> None:
    result = ask("skills", "add", str(repository), "pdf", "-y", env={"PATH": "/nowhere"})
    assert (result.code, "git is not installed" in result.stderr) == (3, True)


# Update and removal


@pytest.mark.slow
def test_an_update_shows_the_changes_and_asks(ask: Ask, repository: Path, skills: Path) -> None:
    assert ask("skills", "add", str(repository), "pdf", "mail", "-y").code == 0
    assert ask("skills", "update").stderr.count("up to date") == 2
    write_skill(repository / "skills/pdf", body="Use mutool.")
    write(repository / "skills/pdf/new.md", "New.\n")
    (repository / "skills/pdf/scripts/fill.sh").unlink()
    newest = commit(repository)
    refused = ask("skills", "update", "pdf")
    assert refused.code == 8
    for line in ("-Use pdftotext.", "+Use mutool.", "--- new file new.md", "--- removed file scripts/fill.sh"):
        assert line in refused.text
    env = {"PAGER": "cat"}
    assert ask.on_terminal("skills", "update", answers=[("[y/N]", "n\n")], env=env).code == 0
    assert "pdftotext" in (skills / "pdf/SKILL.md").read_text()
    assert ask.on_terminal("skills", "update", answers=[("[y/N]", "y\n")], env=env).code == 0
    assert list_files(skills / "pdf") == ["SKILL.md", "new.md"]
    assert {row["name"]: row["commit"] == newest for row in list_skills(ask)} == {"mail": False, "pdf": True}
    assert len([*(skills.parent / "installed-skills").iterdir()]) == 2


def test_a_skill_changed_by_hand_is_replaced_only_with_force(ask: Ask, repository: Path, skills: Path) -> None:
    assert ask("skills", "add", str(repository), "pdf", "mail", "-y").code == 0
    write(skills / "pdf/scripts/__pycache__/fill.pyc", "x")  # as running a script does
    write(skills / "mail/notes.md", "Mine.")
    for name in ("pdf", "mail"):
        write_skill(repository / "skills" / name, body="Changed.")
    commit(repository)
    result = ask("skills", "update", "-y")
    assert (result.code, "mail" in result.stderr) == (9, True)
    assert "Changed." in (skills / "pdf/SKILL.md").read_text()
    assert "Changed." not in (skills / "mail/SKILL.md").read_text()
    assert ask("skills", "update", "mail", "--force", "-y").code == 0
    assert list_files(skills / "mail") == ["SKILL.md"]


def test_force_restores_a_skill_that_has_not_changed_in_its_repository(
    ask: Ask, repository: Path, skills: Path
) -> None:
    assert ask("skills", "add", str(repository), "pdf", "-y").code == 0
    write_skill(skills / "pdf", body="Mine.")
    result = ask("skills", "update", "pdf", "-y")
    assert (result.code, "you have changed it" in result.stderr) == (0, True)
    assert "Mine." in (skills / "pdf/SKILL.md").read_text()
    assert "-Mine." in ask("skills", "update", "pdf", "--force").text
    assert ask("skills", "update", "pdf", "--force", "-y").code == 0
    assert "Mine." not in (skills / "pdf/SKILL.md").read_text()


@pytest.mark.slow
def test_a_moved_tag_is_not_followed(ask: Ask, repository: Path, skills: Path) -> None:
    git(repository, "tag", "v1")
    assert ask("skills", "add", str(repository), "pdf", "--ref", "v1", "-y").code == 0
    write_skill(repository / "skills/mail", body="Changed.")
    commit(repository)
    git(repository, "tag", "--force", "v1")
    assert ask("skills", "update", "-y").code == 0  # this skill is the same
    write_skill(repository / "skills/pdf", body="Changed.")
    commit(repository)
    git(repository, "tag", "--force", "-a", "v1", "-m", "Moved")
    result = ask("skills", "update", "--force", "-y")
    assert (result.code, "the tag v1" in result.stderr) == (9, True)
    assert "Changed." not in (skills / "pdf/SKILL.md").read_text()


def test_a_skill_in_the_folder_of_another_is_updated(ask: Ask, repository: Path, skills: Path) -> None:
    write_skill(repository / "skills/pdf/forms")
    commit(repository)
    assert ask("skills", "add", str(repository / "skills/pdf/forms"), "-y").code == 0
    write_skill(repository / "skills/pdf/forms", body="Changed.")
    commit(repository)
    assert ask("skills", "update", "-y").code == 0
    assert "Changed." in (skills / "forms/SKILL.md").read_text()


def test_an_update_follows_a_moved_skill_and_reports_a_missing_one(ask: Ask, repository: Path, skills: Path) -> None:
    assert ask("skills", "add", str(repository), "pdf", "mail", "-y").code == 0
    git(repository, "mv", "skills/pdf", "documents")
    write_skill(repository / "documents", body="Moved.")
    write(repository / "documents/SKILL.md", "---\nname: pdf\ndescription: x\n---\nMoved.\n")
    git(repository, "rm", "-rq", "skills/mail")
    commit(repository)
    result = ask("skills", "update", "-y")
    assert (result.code, "mail" in result.stderr) == (9, True)
    assert "Moved." in (skills / "pdf/SKILL.md").read_text()
    assert (skills / "mail/SKILL.md").exists()


def test_skills_are_removed(ask: Ask, repository: Path, skills: Path) -> None:
    assert ask("skills", "add", str(repository), "pdf", "mail", "-y").code == 0
    assert ask("skills", "remove", "pdf").code == 2
    assert ask("skills", "remove", "pfd", "-y").code == 2
    assert ask.on_terminal("skills", "remove", "pdf", answers=[("[y/N]", "y\n")]).code == 0
    assert [row["name"] for row in list_skills(ask)] == ["mail"]
    assert ask("skills", "remove", "mail", "-y").code == 0
    assert not [*skills.iterdir(), *(skills.parent / "installed-skills").iterdir()]


@pytest.mark.slow
def test_a_kill_leaves_the_old_or_the_new_version(ask: Ask, repository: Path, skills: Path) -> None:
    assert ask("skills", "add", str(repository), "pdf", "-y").code == 0
    for number in range(300):
        write(repository / f"skills/pdf/data/{number}", "x" * 1_000)
    commit(repository)
    installed = replace(ask, installed=True)
    started = time.monotonic()
    assert installed("skills", "update", "-y").code == 0
    duration = time.monotonic() - started
    for step in range(12):
        version = f"Version {step}."
        write_skill(repository / "skills/pdf", body=version)
        for path in (repository / "skills/pdf/data").iterdir():
            path.write_text(version)
        commit(repository)
        with installed.start("skills", "update", "-y") as running:
            time.sleep(duration * (0.5 + step / 20))
            running.process.kill()
        texts = {path.read_text() for path in (skills / "pdf/data").iterdir()}
        assert len(texts) == 1
        assert len(list_files(skills / "pdf")) == 302
        (row,) = list_skills(ask)
        assert row["offered"]
        assert ask("skills", "update", "-y").code == 0
        assert version in (skills / "pdf/SKILL.md").read_text()
    assert ask("skills", "remove", "pdf", "-y").code == 0
    assert not [*skills.iterdir(), *(skills.parent / "installed-skills").iterdir()]


# HTTP


class GitHandler(BaseHTTPRequestHandler):
    """Serves repositories with git http-backend, as git's own servers do."""

    folder: Path

    def do_GET(self) -> None:
        self.run_backend(b"")

    def do_POST(self) -> None:
        self.run_backend(self.rfile.read(int(self.headers["Content-Length"])))

    def run_backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        env = {**os.environ, "GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path}
        env |= {"REQUEST_METHOD": self.command, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1"}
        env |= {"CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body))}
        env |= {"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        env |= {"GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


class PlainHandler(SimpleHTTPRequestHandler):
    """Serves the files of repositories, which git calls a dumb server."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@contextmanager
def serve(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def git_server(home: Home) -> Iterator[str]:
    """A server of the repositories in OWNER/REPO folders below `home.path / "git"`."""
    with serve(type("Handler", (GitHandler,), {"folder": home.path / "git"})) as url:
        yield url


def test_skills_are_installed_and_updated_over_http(
    ask: Ask, home: Home, git_server: str, repository: Path, skills: Path
) -> None:
    served = home.path / "git/owner/repo"
    served.parent.mkdir(parents=True)
    repository.rename(served)
    assert ask("skills", "add", f"{git_server}/owner/repo", "pdf", "-y").code == 0
    write_skill(served / "skills/pdf", body="Changed.")
    newest = commit(served)
    assert ask("skills", "update", "-y").code == 0
    assert [row["commit"] for row in list_skills(ask)] == [newest]
    missing = ask("skills", "add", f"{git_server}/owner/missing", "-y")
    assert (missing.code, "missing" in missing.stderr) == (9, True)


@pytest.mark.slow
def test_owner_and_repository_and_urls_of_pages_are_understood(
    ask: Ask, home: Home, git_server: str, repository: Path, skills: Path
) -> None:
    served = home.path / "git/owner/repo"
    served.parent.mkdir(parents=True)
    repository.rename(served)
    git(served, "checkout", "-q", "-b", "new/look")
    write_skill(served / "skills/pdf", body="New look.")
    commit(served)
    git(served, "checkout", "-q", "main")
    here = replace(ask, env={**ask.env, "GITHUB_SERVER_URL": git_server})
    for source, expected in (
        ("owner/repo/skills/pdf", "pdftotext"),
        ("owner/repo/skills/pdf@new/look", "New look."),
        ("owner/repo/skills/pdf/SKILL.md", "pdftotext"),
        (f"{git_server}/owner/repo/tree/new/look/skills/pdf", "New look."),
        (f"{git_server}/owner/repo/blob/main/skills/pdf/SKILL.md", "pdftotext"),
        (f"{git_server}/owner/repo/src/branch/new/look/skills/pdf", "New look."),
    ):
        result = here("skills", "add", source, "-y")
        assert result.code == 0, (source, result.stderr)
        assert expected in (skills / "pdf/SKILL.md").read_text()
        assert here("skills", "remove", "pdf", "-y").code == 0


@pytest.mark.parametrize("source", ["github.com/owner/repo", "github.com/owner/repo/tree/main/skills/pdf"])
def test_a_url_may_lack_its_scheme(source: str) -> None:
    assert parse_location(source, "", {}) == parse_location(f"https://{source}", "", {})


def test_a_plain_file_server_is_enough(ask: Ask, home: Home, repository: Path, skills: Path) -> None:
    git(repository, "update-server-info")
    with serve(partial(PlainHandler, directory=str(home.path))) as server:
        assert ask("skills", "add", f"{server}/{repository.name}/.git", "pdf", "-y").code == 0
    assert list_files(skills / "pdf") == ["SKILL.md", "scripts/fill.sh"]


# Marketplaces


@pytest.mark.slow
def test_plugins_of_a_marketplace_are_listed_and_installed(
    ask: Ask, home: Home, repository: Path, skills: Path
) -> None:
    other = make_repository(home.path / "other")
    write_skill(other / "plugins/music/skills/song", "Writes songs.")
    commit(other)
    plugins = [
        {"name": "documents", "source": "./", "strict": False, "skills": ["./skills/pdf"]},
        {"name": "writing", "source": "./skills/mail", "description": "For letters."},
        {"name": "music", "source": {"source": "git-subdir", "url": f"file://{other}", "path": "plugins/music"}},
        {"name": "npm", "source": {"source": "npm", "package": "x"}},
        {"name": "outside", "source": "../../elsewhere"},
        "nonsense",
        {"source": "./"},
    ]
    write(repository / ".claude-plugin/marketplace.json", json.dumps({"name": "m", "plugins": plugins}))
    commit(repository)
    rows = [line.split("\t") for line in ask("skills", "add", str(repository)).text.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [
        ("mail", "writing"),
        ("pdf", "documents"),
        ("music", "music"),
        ("npm", "npm"),
        ("outside", "outside"),
    ]
    assert ask("skills", "add", str(repository), "documents", "music", "-y").code == 0
    assert [(row["name"], row["source"]) for row in list_skills(ask)] == [
        ("pdf", f"file://{repository}"),
        ("song", f"file://{other}"),
    ]
    for name in ("npm", "outside", "nonsense"):
        assert ask("skills", "add", str(repository), name, "-y").code == 2
    assert ask("skills", "update").stderr.count("up to date") == 2


def test_an_invalid_skill_of_a_plugin_does_not_prevent_the_others(ask: Ask, repository: Path, skills: Path) -> None:
    write(repository / "skills/broken/SKILL.md", "no front matter")
    plugins = [{"name": "documents", "source": "./", "strict": False, "skills": ["./skills/broken", "./skills/pdf"]}]
    write(repository / ".claude-plugin/marketplace.json", json.dumps({"name": "m", "plugins": plugins}))
    commit(repository)
    result = ask("skills", "add", str(repository), "documents", "-y")
    assert (result.code, "skills/broken" in result.stderr) == (9, True)
    assert [path.name for path in skills.iterdir()] == ["pdf"]
    assert ask("skills", "add", str(repository), "mail", "broken", "-y").code == 9
    assert not (skills / "mail").exists(), "named one by one, they are installed together or not at all"


def test_a_marketplace_elsewhere_cannot_name_a_local_repository(repository: Path) -> None:
    entries = [
        {"name": "file", "source": {"source": "url", "url": f"file://{repository}"}},
        {"name": "capital", "source": {"source": "url", "url": f"FILE://{repository}"}},
        {"name": "host", "source": {"source": "url", "url": "https://192.168.0.1/owner/repo"}},
        {"name": "short", "source": {"source": "url", "url": "https://127.1/owner/repo"}},
        {"name": "wide", "source": {"source": "url", "url": "https://\u2460\u2461\u2466.0.0.1/owner/repo"}},
        {"name": "ssh", "source": {"source": "url", "url": "git@localhost:repo"}},
        {"name": "up", "source": {"source": "github", "repo": "../.."}},
        {"name": "\x1b[8mescape", "source": "./"},
        {"name": "command", "source": {"source": "url", "url": "ext::touch x"}},
        {"name": "option", "source": {"source": "github", "repo": "owner/repo", "ref": "--upload-pack=x"}},
        {"name": "fine", "source": {"source": "github", "repo": "owner/repo", "sha": "1" * 40}},
    ]
    plugins = parse_marketplace(json.dumps({"plugins": entries}).encode(), "", is_local=False)
    assert [plugin.name for plugin in plugins if not plugin.problem] == ["fine"]
    assert plugins[-1].location == SkillLocation("https://github.com/owner/repo", "1" * 40)
