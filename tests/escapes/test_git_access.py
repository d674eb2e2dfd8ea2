"""A repository outside the writable folders is readable only with `--allow-git`, and only the folder's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.escapes.safe_runs import bash, run
from tests.safety.fake_host import TOKEN, FakeHost
from tests.safety.installation import as_user
from tests.slow_parameters import mark_others_slow

pytestmark = pytest.mark.needs("bwrap")


def git(host: FakeHost, folder: Path, *words: str) -> str:
    """Run git as the user."""
    host.change_owner()
    names = ["-c", "user.name=a", "-c", "user.email=a@a.test", "-c", "protocol.file.allow=always"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(host.base / "home")}
    command = [*as_user(host.user), "git", *names, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, text=True).stdout


def commit(host: FakeHost, folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("one\n")
    git(host, folder, "add", name)
    git(host, folder, "commit", "-qm", f"added {name}")


def subfolder(host: FakeHost) -> Path:
    commit(host, host.work, "pkg/deep/file")
    return host.work / "pkg/deep"


def worktree(host: FakeHost) -> Path:
    commit(host, host.work, "file")
    git(host, host.work, "worktree", "add", "-q", str(host.base / "tree"))
    return host.base / "tree"


def subfolder_of_worktree(host: FakeHost) -> Path:
    commit(host, host.work, "deep/file")
    git(host, host.work, "worktree", "add", "-q", str(host.base / "tree"))
    return host.base / "tree/deep"


def submodule(host: FakeHost) -> Path:
    git(host, host.base, "init", "-q", str(host.base / "library"))
    commit(host, host.base / "library", "file")
    git(host, host.work, "submodule", "--quiet", "add", str(host.base / "library"), "sub")
    return host.work / "sub"


def worktree_of_bare_repository(host: FakeHost) -> Path:
    commit(host, host.work, "file")
    git(host, host.base, "clone", "-q", "--bare", str(host.work), "library.git")
    git(host, host.base / "library.git", "worktree", "add", "-q", str(host.base / "tree"))
    return host.base / "tree"


def nested_submodule(host: FakeHost) -> Path:
    git(host, host.base, "init", "-q", str(host.base / "inner"))
    commit(host, host.base / "inner", "file")
    git(host, host.base, "init", "-q", str(host.base / "library"))
    git(host, host.base / "library", "submodule", "--quiet", "add", str(host.base / "inner"), "sub")
    git(host, host.base / "library", "commit", "-qm", "added")
    git(host, host.work, "submodule", "--quiet", "add", str(host.base / "library"), "sub")
    git(host, host.work, "submodule", "--quiet", "update", "--init", "--recursive")
    return host.work / "sub/sub"


LAYOUTS = [subfolder, worktree, subfolder_of_worktree, submodule, nested_submodule, worktree_of_bare_repository]


@pytest.mark.parametrize("layout", mark_others_slow(LAYOUTS, [subfolder]))
def test_git_reads_an_outer_repository_only_with_allow_git(host: FakeHost, layout: object) -> None:
    folder = layout(host)  # type: ignore[operator]
    (folder / "file").write_text("two\n")
    host.change_owner()
    commands = bash("git log --oneline", "git status --short -- .", "git diff -- .", "git commit -qam x; echo $?")
    hidden = run(host, commands, "--safe", directory=folder)
    assert "not a git repository" in hidden.outputs[0]
    assert "--allow-git" in hidden.result.stderr
    assert "--allow-git" not in run(host, commands, "--safe", directory=folder).result.stderr, "shown once"
    log, status, diff, refused = run(host, commands, "--safe", "--allow-git", directory=folder).outputs
    assert "added" in log
    assert " M " in status
    assert "+two" in diff
    assert "Read-only file system" in refused


@pytest.mark.slow
def test_a_stale_index_is_read(host: FakeHost) -> None:
    folder = subfolder(host)
    (folder / "file").touch()
    index = host.work / ".git/index"
    before = index.read_bytes()
    [status] = run(
        host, bash("git status --short -- . && echo clean"), "--safe", "--allow-git", directory=folder
    ).outputs
    assert "clean" in status
    assert " M " not in status
    assert index.read_bytes() == before


@pytest.mark.slow
def test_other_files_of_the_repository_stay_hidden(host: FakeHost) -> None:
    folder = subfolder(host)
    options = ("--safe", "--allow-git")
    output = run(host, bash("cat ../../notes.txt; cat ../../.env; ls -A ../.."), *options, directory=folder).outputs[0]
    assert TOKEN not in output
    assert "marzipan" not in output


@pytest.mark.slow
def test_a_git_file_of_an_earlier_run_makes_no_other_repository_readable(host: FakeHost) -> None:
    """The model creates a `.git` file in a subfolder, where the user starts the next run."""
    other = host.base / "other"
    git(host, host.base, "init", "-q", str(other))
    commit(host, other, "file")
    git(host, other, "worktree", "add", "-q", str(host.base / "tree"))
    (host.work / "new").mkdir()
    host.change_owner()
    for target in (other / ".git", other / ".git/worktrees/tree"):
        made = f"rm -f new/.git; echo 'gitdir: {target}' > new/.git"
        assert run(host, bash(made), "--safe").result.code == 0
        assert "added file" in git(host, host.work / "new", "log", "--oneline"), "git does not follow the file"
        done = run(host, bash(f"git log; ls {target}/HEAD"), "--safe", "--allow-git", directory=host.work / "new")
        assert "added file" not in done.outputs[0]
        assert "No such file" in done.outputs[0]
        assert "refer back" in done.result.stderr


MAKE_REPOSITORY = "mkdir -p objects refs; echo ref: refs/heads/x > HEAD"
DISGUISES = {
    "the folder above": f"{MAKE_REPOSITORY}; mkdir -p new worktrees/x; echo @work@/new/.git > worktrees/x/gitdir; "
    "cp HEAD worktrees/x; echo ../.. > worktrees/x/commondir; echo 'gitdir: @work@/worktrees/x' > new/.git",
    "the folder beside": f"mkdir new; cd backend; {MAKE_REPOSITORY}; git config -f config core.worktree ../new; "
    "echo 'gitdir: ../backend' > ../new/.git",
    "a link to it": f"mkdir new; cd backend; {MAKE_REPOSITORY}; git config -f config core.worktree ../new; "
    "ln -s backend ../x.git; echo 'gitdir: ../x.git' > ../new/.git",
}


@pytest.mark.slow
@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_folder_made_a_repository_by_an_earlier_run_becomes_readable(host: FakeHost, disguise: str) -> None:
    """The model makes a folder of the project look like the repository of the subfolder where the next run starts."""
    (host.work / "backend").mkdir()
    (host.work / "backend/.env").write_text(TOKEN)
    host.change_owner()
    assert run(host, bash(DISGUISES[disguise]), "--safe").result.code == 0
    read = bash("cat ../backend/.env ../notes.txt")
    done = run(host, read, "--safe", "--allow-git", directory=host.work / "new")
    assert TOKEN not in done.outputs[0]
    assert "marzipan" not in done.outputs[0]
    assert "is not named .git" in done.result.stderr.replace("\n", " ")
    assert TOKEN in run(host, read, directory=host.work / "new").outputs[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("site.git", "notes.txt"),
        ("site.bare", "objects/prod.env"),
        ("site.git", "objects/prod.env"),
        ("site.bare", "notes.txt"),
    ],
)
def test_no_folder_named_like_a_repository_becomes_readable(host: FakeHost, name: str, secret: str) -> None:
    """The model makes a folder of the user with such a name a repository; git accepts it with other files, too."""
    (host.work / name / secret).parent.mkdir(parents=True)
    (host.work / name / secret).write_text(TOKEN)
    (host.work / "new").mkdir()
    host.change_owner()
    config = "git config -f config core.worktree ../new"
    made = f"cd {name}; {MAKE_REPOSITORY}; {config}; echo 'gitdir: ../{name}' > ../new/.git"
    assert run(host, bash(made), "--safe").result.code == 0
    assert git(host, host.work / "new", "rev-parse", "--show-toplevel").strip() == str(host.work / "new")
    read = bash(f"cat ../{name}/{secret}")
    done = run(host, read, "--safe", "--allow-git", directory=host.work / "new")
    assert TOKEN not in done.outputs[0]
    assert str(host.work / name) in done.result.stderr.replace("\n", " ")
    assert TOKEN in run(host, read, directory=host.work / "new").outputs[0]


@pytest.mark.slow
def test_only_what_git_recognizes_is_a_repository(host: FakeHost) -> None:
    """A folder with HEAD, objects and refs whose HEAD names no commit and no branch."""
    (host.work / "new").mkdir()
    for name in ("objects", "refs"):
        (host.base / "site.git" / name).mkdir(parents=True)
    (host.base / "site.git/HEAD").write_text("notes of mine\n")
    (host.base / "site.git/config").write_text("[core]\nworktree = ../work/new\n")
    (host.work / "new/.git").write_text("gitdir: ../../site.git\n")
    host.change_owner()
    done = run(host, bash("cat ../../site.git/HEAD"), "--safe", "--allow-git", directory=host.work / "new")
    assert "notes of mine" not in done.outputs[0]
    assert "git does not recognize" in done.result.stderr.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("made", ["commondir", "alternates", "link"])
def test_a_repository_of_an_earlier_run_makes_no_other_readable(host: FakeHost, made: str) -> None:
    other = host.base / "other"
    git(host, host.base, "init", "-q", str(other))
    commit(host, other, "file")
    head = git(host, other, "rev-parse", "HEAD").strip()
    attack = {
        "commondir": f"git init -q new/.git/x; mkdir -p new/sub; cd new/.git; mkdir objects refs; "
        f"echo {head} > HEAD; echo {other}/.git > commondir",
        "alternates": f"git init -q new; mkdir new/sub; echo {other}/.git/objects > new/.git/objects/info/alternates",
        "link": f"mkdir -p new/sub; ln -s {other}/.git new/.git",
    }[made]
    host.change_owner()
    assert run(host, bash(attack), "--safe").result.code == 0
    assert "added file" in git(host, host.work / "new/sub", "log", "--oneline", head), "the attack does nothing"
    done = run(host, bash(f"git log {head}"), "--safe", "--allow-git", directory=host.work / "new/sub")
    assert "added file" not in done.outputs[0]
    assert done.result.stderr.count("ask: ") <= 3


def test_allow_git_has_no_effect_without_a_sandbox(host: FakeHost) -> None:
    assert run(host, [], "--safe-files", "--allow-git").result.code == 2
    assert run(host, [], "--allow-git").result.code == 2
