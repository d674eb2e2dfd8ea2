"""What guards a repository besides its `.git`: nothing that git will run there can be put in its place.

Each way is taken without `--safe` too, where it has to lead to the hook.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escapes.confined import bash, machine, run
from tests.safety.ground import TOKEN, Ground
from tests.safety.installation import USERS, as_user

PUT = "mkdir -p {hooks}; printf '#!/bin/sh\\ntouch @base@/ran\\n' > {hooks}/pre-commit; chmod +x {hooks}/pre-commit"


@pytest.fixture(params=USERS)
def here(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with machine(request.param) as one:
        yield one


def git(here: Ground, folder: Path, *words: str) -> None:
    """What the user does there."""
    names = ["-c", "user.name=a", "-c", "user.email=a@a.test", "-c", "safe.directory=*"]
    subprocess.run(
        [*as_user(here.user), "git", *names, *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(here.base / "home")},
        capture_output=True,
        check=False,
    )


def commits(here: Ground, folder: Path) -> bool:
    """Whether something else ran as the user commits there."""
    git(here, folder, "commit", "--allow-empty", "-qm", "x")
    ran = here.base / "ran"
    found = ran.exists()
    ran.unlink(missing_ok=True)
    return found


def swapped(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "init", "-q", "a/sub")
    return f"mv a/sub old && cp -r old a/sub && {PUT.format(hooks='a/sub/.git/hooks')}", here.work / "a/sub"


def swapped_above(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "init", "-q", "a/sub")
    return f"mv a old && cp -r old a && {PUT.format(hooks='a/sub/.git/hooks')}", here.work / "a/sub"


def elsewhere(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "init", "-q", "--separate-git-dir=bare", "sub")
    return PUT.format(hooks="bare/hooks"), here.work / "sub"


def own_hooks(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "init", "-q", "sub")
    git(here, here.work / "sub", "config", "core.hooksPath", ".hooks/_")
    (here.work / "sub/.hooks").mkdir()
    return PUT.format(hooks="sub/.hooks/_"), here.work / "sub"


WAYS = [swapped, swapped_above, elsewhere, own_hooks]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_hook_is_put_where_git_will_run_it(here: Ground, way: object) -> None:
    assert callable(way)
    here.hand_over()
    command, folder = way(here)
    here.hand_over()
    safe = run(here, bash(command), "--safe")
    assert not commits(here, folder), safe.said
    run(here, bash(command))
    assert commits(here, folder), "the way leads nowhere"


def test_a_folder_that_becomes_a_repository_itself_is_told_of(here: Ground) -> None:
    made = (
        "mkdir objects refs; echo ref: refs/heads/x > HEAD; printf '[core]\\nbare = false\\nworktree = .\\n' > config"
    )
    (here.work / ".git").rename(here.base / "outside/.git")
    done = run(here, bash(made), "--safe")
    line = f"ask: {here.work} has become a git repository itself, by its HEAD, objects and refs: look at its config"
    assert line in done.ended.stderr
    assert "has become" not in run(here, bash("true"), "--safe").ended.stderr


def test_what_direnv_reads_is_out_of_sight_where_it_is_there(here: Ground) -> None:
    (here.work / "pkg/.envrc").write_text(f"export KEY={TOKEN}\n")
    here.hand_over()
    [read, written] = run(here, bash("cat pkg/.envrc", "rm -f pkg/.envrc; echo x > pkg/.envrc"), "--safe").said
    assert TOKEN not in read + written
    assert TOKEN in (here.work / "pkg/.envrc").read_text()


def test_where_a_link_leads_is_out_of_sight_in_every_folder_that_is_open(here: Ground) -> None:
    (here.base / "more").mkdir()
    (here.base / "more/shared.txt").write_text(TOKEN)
    (here.work / ".env.shared").symlink_to("../more/shared.txt")
    here.hand_over()
    assert TOKEN not in run(here, bash("cat .env.shared ../more/*"), "--safe", "--allow-dir", "../more").said[0]
