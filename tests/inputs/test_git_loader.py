"""`-f git:diff` and `-f git:REV`, also in a repository that was made to run commands."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from tests import wire
from tests.inputs.test_attachments import files_in
from tests.model_server import ModelServer
from tests.program import Ask
from tests.sample_files import png

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


@pytest.fixture(autouse=True)
def answers(server: ModelServer) -> None:
    server.reply(wire.says("yes"))


def asked(server: ModelServer) -> str:
    """Return the text of the last question."""
    return wire.asked(server.requests[-1].json)


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *IDENTITY, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=check
    )
    return done.stdout


@pytest.fixture
def repository(ask: Ask) -> Path:
    """A repository with two commits, in the working directory."""
    git(ask.cwd, "init", "--quiet", "--initial-branch=main")
    (ask.cwd / "a.txt").write_text("one\n")
    git(ask.cwd, "add", ".")
    git(ask.cwd, "commit", "--quiet", "-m", "First")
    (ask.cwd / "a.txt").write_text("one\ntwo\n")
    (ask.cwd / "größe.txt").write_text("5 m\n")
    git(ask.cwd, "add", ".")
    git(ask.cwd, "commit", "--quiet", "-m", "Second")
    return ask.cwd


def test_diff_is_all_that_is_not_committed(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository / "a.txt").write_text("one\ntwo\nthree\n")
    (repository / "größe.txt").write_text("6 m\n")
    git(repository, "add", "a.txt")
    git(repository, "config", "diff.noprefix", "true")
    git(repository, "config", "color.ui", "always")
    (repository / "below").mkdir()
    for folder in (repository, repository / "below"):
        assert ask("-C", str(folder), "-f", "git:diff", "why?").code == 0
        text = asked(server)
        assert '<file name="git:diff">\ndiff --git a/a.txt b/a.txt\n' in text
        assert "+three" in text
        assert "+++ b/größe.txt" in text
        assert "\x1b" not in text


def test_diff_without_a_commit_shows_what_is_added(ask: Ask, server: ModelServer) -> None:
    git(ask.cwd, "init", "--quiet")
    (ask.cwd / "a.txt").write_text("one\n")
    git(ask.cwd, "add", ".")
    assert ask("-f", "git:diff", "why?").code == 0
    assert "+one" in asked(server)


@pytest.mark.parametrize("revision", ["HEAD", "main", "HEAD~1..HEAD", "HEAD^{commit}", "@"])
def test_a_revision_is_its_patch(revision: str, ask: Ask, server: ModelServer, repository: Path) -> None:
    assert ask("-f", f"git:{revision}", "why?").code == 0
    text = asked(server)
    assert f'<file name="git:{revision}">\ncommit ' in text
    assert "    Second" in text
    assert "+two" in text
    assert "First" not in text


def test_a_file_of_a_revision_is_its_content(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository / "photo.png").write_bytes(png())
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Third")
    (repository / "photo.png").unlink()
    assert ask("-f", "git:HEAD~2:a.txt", "why?").code == 0
    assert '<file name="git:HEAD~2:a.txt">\none\n</file>' in asked(server)
    assert ask("-f", "git:HEAD:photo.png", "why?").code == 0
    assert files_in(server.requests[-1].json) == [png()]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("git:", "names no revision"),
        ("git:diff", "git:diff is empty"),
        ("git:staged", "git:diff"),
        ("git:HEAD:missing.txt", "missing.txt"),
        ("git:--output=stolen", "--output=stolen"),
        ("git:-p", "-p"),
        ("git:a.txt", "a.txt"),
    ],
)
def test_what_cannot_be_shown_is_an_error(
    source: str, reason: str, ask: Ask, server: ModelServer, repository: Path
) -> None:
    result = ask("-f", source, "why?")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert reason in result.stderr
    assert not server.requests
    assert not (repository / "stolen").exists()


def test_without_a_repository_or_git_that_is_the_error(ask: Ask) -> None:
    result = ask("-f", "git:diff", "why?")
    assert result.code == 9
    assert "not a git repository" in result.stderr
    assert ask("-f", "git:diff", "why?", env={"PATH": "/nonexistent"}).code == 3


def test_a_file_of_that_name_comes_first(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository / "git:HEAD").write_text("a file")
    assert ask("-f", "git:HEAD", "why?").code == 0
    assert '<file name="git:HEAD">\na file\n</file>' in asked(server)


def test_variables_of_a_git_hook_do_not_matter(ask: Ask, server: ModelServer, repository: Path, tmp_path: Path) -> None:
    assert ask("-f", "git:HEAD", "why?", env={"GIT_DIR": str(tmp_path), "GIT_EXTERNAL_DIFF": "false"}).code == 0
    assert "Second" in asked(server)


def test_safe_mode_allows_what_the_user_names(ask: Ask, server: ModelServer, repository: Path) -> None:
    assert ask("--safe-files", "-f", "git:HEAD", "why?").code == 0
    assert "Second" in asked(server)


# Hostile repositories

SPY = "spy"
"""A script in the repository that creates the file `ran`."""
HOSTILE = {
    "fsmonitor": ([("core.fsmonitor", SPY)], "", ["diff", "HEAD"]),
    "external diff": ([("diff.external", SPY)], "", ["diff", "HEAD"]),
    "diff driver": ([("diff.x.command", SPY)], "* diff=x", ["diff", "HEAD"]),
    "text conversion": ([("diff.x.textconv", SPY)], "* diff=x", ["diff", "HEAD"]),
    "text conversion of a file": ([("diff.x.textconv", SPY)], "* diff=x", ["show", "--textconv", "HEAD:a.txt"]),
    "clean filter": ([("filter.x.clean", SPY)], "* filter=x", ["diff", "HEAD"]),
    "clean filter with an equals sign": ([("filter.x=y.clean", SPY)], "* filter=x=y", ["diff", "HEAD"]),
    "process filter": ([("filter.x.process", SPY), ("filter.x.required", "true")], "* filter=x", ["diff", "HEAD"]),
    "included settings": ([("include.path", "more")], "* filter=x", ["diff", "HEAD"]),
    "signature": ([("log.showSignature", "true"), ("gpg.program", SPY)], "", ["show", "HEAD"]),
    "format with a signature": ([("format.pretty", "%G?"), ("gpg.program", SPY)], "", ["show", "HEAD"]),
    "hook": ([], "", ["diff"]),
    "merge driver": ([("merge.x.driver", SPY), ("log.diffMerges", "remerge")], "* merge=x", ["show", "-m", "HEAD"]),
    "missing object": (
        [
            *(("extensions.partialClone", "origin"), ("remote.origin.promisor", "true")),
            *(("remote.origin.url", f"ext::{SPY}"), ("protocol.ext.allow", "always")),
            ("core.repositoryFormatVersion", "1"),
        ],
        "",
        ["show", "HEAD"],
    ),
    "missing object over SSH": (
        [
            *(("extensions.partialClone", "origin"), ("remote.origin.promisor", "true")),
            *(("remote.origin.url", "ssh://host/x"), ("core.sshCommand", SPY)),
            ("core.repositoryFormatVersion", "1"),
        ],
        "",
        ["show", "HEAD"],
    ),
}
"""Settings of a repository, the content of its .gitattributes, and a command of git that runs the script."""


def make_hostile(folder: Path, case: str) -> list[str]:
    """Prepare a repository; return the arguments with which git runs the script."""
    settings, attributes, arguments = HOSTILE[case]
    script = folder / SPY
    script.write_text(f"#!/bin/sh\ntouch '{folder}/ran'\ncat \"$1\" 2>/dev/null\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    hook = folder / ".git/hooks/post-index-change"
    hook.write_bytes(script.read_bytes())
    hook.chmod(0o755)
    if "signature" in case:
        commit = git(folder, "cat-file", "commit", "HEAD").replace(
            "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
        )
        (folder / "commit").write_text(commit)
        git(folder, "reset", "--quiet", "--soft", git(folder, "hash-object", "-w", "-t", "commit", "commit").strip())
    if case == "merge driver":
        git(folder, "checkout", "--quiet", "-b", "other", "HEAD~1")
        (folder / "a.txt").write_text("other\n")
        git(folder, "commit", "--quiet", "-am", "Other")
        git(folder, "merge", "--quiet", "-s", "ours", "-m", "Merge", "main")
    if "object" in case:
        blob = git(folder, "rev-parse", "HEAD:a.txt").strip()
        (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (folder / ".git/more").write_text(f"[filter \"x\"]\nclean = '{script}'\n")
    if attributes:
        (folder / ".git/info").mkdir(exist_ok=True)
        (folder / ".git/info/attributes").write_text(attributes)
    for key, value in settings:
        git(folder, "config", key, value.replace(SPY, str(script)))
    if case not in ("hook", "merge driver"):
        (folder / "a.txt").write_text("changed\n")
    make_stale(folder)
    return arguments


def make_stale(folder: Path) -> None:
    """Give a file another time, so that git compares its content again."""
    file = folder / "a.txt"
    os.utime(file, (1, file.stat().st_mtime // 2))


@pytest.mark.slow_after_first
@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_that_a_repository_names_is_run(case: str, ask: Ask, repository: Path) -> None:
    arguments = make_hostile(repository, case)
    (repository / "ran").unlink(missing_ok=True)
    git(repository, *arguments, check=False)
    assert (repository / "ran").exists(), "plain git runs it"
    make_stale(repository)
    for source in ("git:diff", "git:HEAD", "git:HEAD:a.txt", "."):
        (repository / "ran").unlink(missing_ok=True)
        ask("-f", source, "why?")
        assert not (repository / "ran").exists(), source


def test_git_is_not_run_in_submodules(ask: Ask, server: ModelServer, repository: Path, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet")
    (origin / "b.txt").write_text("b\n")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "Module")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "module")
    git(repository, "commit", "--quiet", "-m", "Third")
    spy = repository / SPY
    spy.write_text(f"#!/bin/sh\ntouch '{repository}/ran'\n")
    spy.chmod(0o755)
    git(repository / "module", "config", "core.fsmonitor", str(spy))
    git(repository, "config", "diff.submodule", "diff")
    (repository / "module/b.txt").write_text("changed\n")
    git(repository, "diff", "HEAD", check=False)
    assert (repository / "ran").exists(), "plain git runs it"
    (repository / "ran").unlink()
    (repository / "a.txt").write_text("changed\n")
    assert ask("-f", "git:diff", "why?").code == 0
    assert "+changed" in asked(server)
    assert not (repository / "ran").exists()


def test_a_repository_cannot_show_files_of_another_folder(
    ask: Ask, server: ModelServer, repository: Path, tmp_path: Path
) -> None:
    (repository.parent / "a.txt").write_text("secret\n")
    git(repository, "config", "core.worktree", str(repository.parent))
    result = ask("-f", "git:diff", "why?")
    assert result.code == 9
    assert "another folder" in result.stderr
    assert not server.requests


def write_index(repository: Path, *paths: str) -> None:
    """Write an index with these paths, which git itself would not add."""
    blob = bytes.fromhex(git(repository, "rev-parse", "HEAD:a.txt").strip())
    entries = b""
    for name in sorted(map(os.fsencode, ("a.txt", *paths))):
        entry = struct.pack(">10I", *[0] * 6, 0o100644, 0, 0, 0) + blob + struct.pack(">H", len(name)) + name
        entries += entry + bytes(8 - len(entry) % 8)
    data = b"DIRC" + struct.pack(">II", 2, len(paths) + 1) + entries
    (repository / ".git/index").write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())


@pytest.mark.parametrize(
    "path", ["../secret", "{outside}/secret", ".git/secret", "below/../../secret", "x/.GIT/secret"]
)
def test_an_index_cannot_name_files_elsewhere(path: str, ask: Ask, server: ModelServer, repository: Path) -> None:
    for file in (repository.parent / "secret", repository / ".git/secret"):
        file.write_text("secret\n")
    write_index(repository, path.format(outside=repository.parent))
    (repository / "below").mkdir()
    for folder in (repository, repository / "below"):
        result = ask("-C", str(folder), "-f", "git:diff", "why?")
        assert (result.code, result.stderr.count("\n")) == (9, 1)
        assert "index" in result.stderr
    assert not server.requests


def test_an_index_cannot_name_files_behind_a_link(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository.parent / "secret").write_text("secret\n")
    (repository / "link").symlink_to(repository.parent)
    write_index(repository, "link/secret")
    assert ask("-f", "git:diff", "why?").code == 0
    assert "secret\n" not in asked(server).replace("link/secret\n", "")


def test_a_device_in_a_repository_is_not_read(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository / ".git/gitdir").symlink_to("/dev/zero")
    assert ask("-f", "git:HEAD", "why?").code == 0


@pytest.mark.parametrize(
    "way",
    ["file", "link", "commondir", "worktree", "objects", "branch", "packed", "bare", "both", "branch of worktree"],
)
def test_a_repository_cannot_show_the_commits_of_another(
    way: str, ask: Ask, server: ModelServer, repository: Path, tmp_path: Path
) -> None:
    """Whoever has made a repository can guess where the user has others, and which branches these have."""
    evil = tmp_path / "evil"
    evil.mkdir()
    other = repository / ".git"
    if way == "file":
        (evil / ".git").write_text(f"gitdir: {other}\n")
    elif way == "link":
        (evil / ".git").symlink_to(other)
    elif way == "worktree":
        git(repository, "worktree", "add", "--quiet", str(tmp_path / "real"), "HEAD~1")
        (evil / ".git").write_text(f"gitdir: {other}/worktrees/real\n")
    elif way == "bare":
        git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare.git")
        (evil / ".git").write_text("gitdir: ../bare.git\n")
    elif way in ("both", "branch of worktree"):
        main, evil = evil, evil / "linked"
        git(main, "init", "--quiet", "--initial-branch=main")
        git(main, "commit", "--quiet", "--allow-empty", "-m", "One")
        git(main, "worktree", "add", "--quiet", "linked")
        if way == "both":
            (main / ".git/worktrees/linked/commondir").write_text(f"{other}\n")
            (main / ".git/worktrees/linked/HEAD").write_text("ref: refs/heads/main\n")
        else:
            (main / ".git/objects/info/alternates").write_text(f"{other}/objects\n")
            (main / ".git/refs/heads/linked").unlink()
            (main / ".git/refs/heads/linked").symlink_to(other / "refs/heads/main")
    else:
        git(evil, "init", "--quiet", "--initial-branch=main")
        if way in ("branch", "packed"):
            name = "packed-refs" if way == "packed" else "refs/heads/main"
            git(repository, *(["pack-refs", "--all"] if way == "packed" else ["branch", "more"]))
            (evil / ".git/objects/info/alternates").write_text(f"{other}/objects\n")
            (evil / ".git" / name).symlink_to(other / name)
        elif way == "commondir":
            (evil / ".git/commondir").write_text(f"{other}\n")
        else:
            (evil / ".git/objects").rename(evil / ".git/own")
            (evil / ".git/objects").symlink_to(other / "objects")
            (evil / ".git/HEAD").write_text(git(repository, "rev-parse", "HEAD"))
    assert "two" in git(evil, "show", "HEAD") or way == "worktree", "plain git shows it"
    for source in ("git:diff", "git:HEAD"):
        result = ask("-C", str(evil), "-f", source, "why?")
        assert (result.code, result.stderr.count("\n")) == (9, 1)
        assert "another repository" in result.stderr
    assert not server.requests


@pytest.mark.parametrize("name", ["ORIG_HEAD", "wip/main", "worktrees/x/HEAD"])
def test_a_revision_cannot_name_a_link_to_another_repository(
    name: str, ask: Ask, server: ModelServer, repository: Path, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    git(tmp_path, "init", "--quiet", "evil")
    git(evil, "commit", "--quiet", "--allow-empty", "-m", "One")
    (evil / ".git/objects/info/alternates").write_text(f"{repository}/.git/objects\n")
    (evil / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
    (evil / ".git" / name).symlink_to(repository / ".git/refs/heads/main")
    assert "two" in git(evil, "show", name)
    for revision in (name, f"HEAD..{name}", f"{name}~1"):
        assert ask("-C", str(evil), "-f", f"git:{revision}", "why?").code == 9
    assert not server.requests
    for revision in ("HEAD", f":/One..{tmp_path}", "HEAD:../evil"):
        assert "another repository" not in ask("-C", str(evil), "-f", f"git:{revision}", "why?").stderr


@pytest.mark.slow
def test_worktrees_submodules_and_bare_repositories_are_read(
    ask: Ask, server: ModelServer, repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare.git")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", "shallow")
    git(tmp_path, "clone", "--quiet", "--separate-git-dir=separate-data", str(repository), "separate")
    git(tmp_path, "init", "--quiet", "outer")
    source = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "module"]
    git(tmp_path / "outer", *source)
    # https://git-scm.com/docs/git-worktree with all worktrees beside a bare repository
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "project/.bare")
    (tmp_path / "project/.git").write_text("gitdir: ./.bare\n")
    git(tmp_path / "project", "worktree", "add", "--quiet", "main")
    (tmp_path / "shallow/.git/hooks/pre-push").symlink_to(tmp_path)
    for name in ("linked", "bare.git", "shallow", "separate", "outer/module", "project", "project/main"):
        assert ask("-C", str(tmp_path / name), "-f", "git:HEAD", "why?").code == 0, name
        assert "Second" in asked(server)
        if name not in ("bare.git", "project"):
            (tmp_path / name / "a.txt").write_text("new\n")
            assert ask("-C", str(tmp_path / name), "-f", "git:diff", "why?").code == 0, name
            assert "+new" in asked(server)


def test_untracked_files_are_reported(ask: Ask, server: ModelServer, repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    for name in ("new.py", "x.log", "folder/a", "folder/b", "y"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("new\n")
    result = ask("-f", "git:diff", "why?")
    assert result.code == 9
    assert ".gitignore, folder/, new.py and 1 more" in result.stderr
    git(repository, "add", "-N", "new.py")
    assert ask("-f", "git:diff", "why?").code == 0
    assert "+++ b/new.py" in asked(server)


def test_settings_do_not_limit_a_diff_to_a_folder(ask: Ask, server: ModelServer, repository: Path) -> None:
    git(repository, "config", "diff.relative", "true")
    (repository / "a.txt").write_text("changed\n")
    (repository / "below").mkdir()
    assert ask("-C", "below", "-f", "git:diff", "why?").code == 0
    assert "+changed" in asked(server)


def test_odd_revisions_of_rows_fail_only_their_rows(ask: Ask, server: ModelServer, repository: Path) -> None:
    rows = ["a\0b", "\ud800", "x" * 300_000, "HEAD"]
    (repository / "rows.jsonl").write_text("".join(json.dumps({"n": row}) + "\n" for row in rows))
    result = ask("map", "-m", wire.MODEL, "why?", "-f", "git:{{n}}", "rows.jsonl")
    assert result.code == 12
    assert len(server.requests) == 1
    assert "internal" not in result.stderr + result.text


@pytest.mark.slow
def test_an_endless_diff_is_ended(ask: Ask, repository: Path) -> None:
    with (repository / "a.txt").open("wb") as file:
        for _ in range(110):
            file.write(b"line\n" * 20_000)
    result = ask("-f", "git:diff", "why?")
    assert result.code == 9
    assert "10,000,000" in result.stderr or "10 MB" in result.stderr
