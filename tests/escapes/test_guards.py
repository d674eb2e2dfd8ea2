"""What git will run cannot be changed, and what may contain secrets is hidden.

The command of each attack is run without `--safe` too, where it has to install the hook.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.escapes.confined import bash, run
from tests.safety.ground import TOKEN, Ground
from tests.safety.installation import as_user, each_user_and

PAYLOAD = "#!/bin/sh\\ntouch @base@/ran\\n"
PUT = f"mkdir -p {{hooks}}; printf '{PAYLOAD}' > {{hooks}}/pre-commit; chmod +x {{hooks}}/pre-commit"
PUT_PROGRAM = f"mkdir -p tools; rm -rf {{name}}; printf '{PAYLOAD}' > {{name}}; chmod +x {{name}}"


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
    git(here, folder, "add", "--all", "*.txt")
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


def own_hooks_that_are_missing(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "config", "core.hooksPath", "hooks/own")
    return PUT.format(hooks="hooks/own"), here.work


def the_users_hooks(here: Ground) -> tuple[str, Path]:
    (here.base / "home/.gitconfig").write_text("[core]\nhooksPath = .githooks\n")
    return PUT.format(hooks=".githooks"), here.work


def a_link_for_a_hook(here: Ground) -> tuple[str, Path]:
    (here.work / "scripts").mkdir()
    (here.work / "scripts/pre-commit").write_text("#!/bin/sh\n")
    (here.work / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")
    return PUT.format(hooks="scripts"), here.work


def a_link_for_the_hooks(here: Ground) -> tuple[str, Path]:
    shutil.rmtree(here.work / ".git/hooks")
    (here.work / ".git/hooks").symlink_to("../githooks")
    return PUT.format(hooks="githooks"), here.work


def a_link_to_the_hooks(here: Ground) -> tuple[str, Path]:
    (here.work / "tools/hooks-1").mkdir(parents=True)
    (here.work / "tools/hooks").symlink_to("hooks-1")
    git(here, here.work, "config", "core.hooksPath", "tools/hooks")
    return f"cd tools; rm hooks; {PUT.format(hooks='hooks')}", here.work


def an_included_file(here: Ground) -> tuple[str, Path]:
    (here.work / ".gitconfig-shared").write_text("[core]\n")
    git(here, here.work, "config", "include.path", "../.gitconfig-shared")
    included = "printf '[core]\\nfsmonitor = @base@/work/spy\\n' > .gitconfig-shared"
    return f"{PUT_PROGRAM.format(name='spy')}; {included}", here.work


def a_program(here: Ground) -> tuple[str, Path]:
    git(here, here.work, "config", "core.fsmonitor", "./tools/spy")
    return PUT_PROGRAM.format(name="tools/spy"), here.work


def a_filter(here: Ground) -> tuple[str, Path]:
    (here.work / "tools").mkdir()
    (here.work / "tools/clean").write_text("#!/bin/sh\ncat\n")
    git(here, here.work, "config", "filter.x.clean", "./tools/clean")
    return (
        f"{PUT_PROGRAM.format(name='tools/clean')}; echo x >> notes.txt; echo '*.txt filter=x' > .gitattributes",
        here.work,
    )


ATTACKS = [swapped_above, own_hooks_that_are_missing, a_link_to_the_hooks, an_included_file]
FURTHER_ATTACKS = [swapped, elsewhere, own_hooks, the_users_hooks]
FURTHER_ATTACKS += [a_link_for_a_hook, a_link_for_the_hooks, a_program, a_filter]


def run_unconfined(here: Ground, command: str, folder: Path) -> None:
    """Run the command as `ask` would without safe mode."""
    subprocess.run(
        [*as_user(here.user), "bash", "-c", here.fill(command)], cwd=folder, capture_output=True, check=False
    )


@pytest.mark.parametrize(
    ("here", "attack"),
    each_user_and(ATTACKS, FURTHER_ATTACKS),
    indirect=["here"],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_no_program_that_git_will_run_is_installed(here: Ground, attack: Callable[[Ground], tuple[str, Path]]) -> None:
    here.hand_over()
    command, folder = attack(here)
    here.hand_over()
    safe = run(here, bash(command), "--safe")
    assert safe.ended.code == 0, safe.ended.stderr
    assert not commits(here, folder), safe.said
    run_unconfined(here, command, here.work)
    assert commits(here, folder), "the attack does nothing"


@pytest.mark.slow
def test_no_hook_is_installed_by_a_run_in_a_subfolder_of_the_repository(here: Ground) -> None:
    git(here, here.work, "config", "core.hooksPath", "pkg/githooks")
    here.hand_over()
    command = PUT.format(hooks="githooks")
    run(here, bash(command), "--safe", directory=here.work / "pkg")
    assert not commits(here, here.work)
    run_unconfined(here, command, here.work / "pkg")
    assert commits(here, here.work), "the attack does nothing"


def test_git_works_while_the_place_of_an_included_file_is_protected(here: Ground) -> None:
    git(here, here.work, "config", "include.path", "../conf")
    here.hand_over()
    assert "?? notes.txt" in run(here, bash("git status --short; ls -d conf"), "--safe").said[0]
    assert not (here.work / "conf").exists()


def test_starting_in_a_dot_git_folder_is_refused(here: Ground) -> None:
    done = run(here, bash("touch ran"), "--safe", directory=here.work / ".git")
    assert (done.ended.code, done.requests) == (8, 0)


def test_secrets_in_protected_folders_and_packages_cannot_be_read(here: Ground) -> None:
    names = (".vscode/.env", ".claude/.env.local", "node_modules/x/.env", "prod.env", ".env.d/secret")
    for name in names:
        (here.work / name).parent.mkdir(parents=True, exist_ok=True)
        (here.work / name).write_text(TOKEN)
    here.hand_over()
    commands = [f"cat {name}; cat < {name}; cp -r {name} copy && cat copy" for name in names]
    said = run(here, bash(*commands), "--safe").said
    assert len(said) == len(names)
    assert TOKEN not in "".join(said)


def test_folder_that_becomes_a_bare_repository_is_reported(here: Ground) -> None:
    made = (
        "mkdir objects refs; echo ref: refs/heads/x > HEAD; printf '[core]\\nbare = false\\nworktree = .\\n' > config"
    )
    (here.work / ".git").rename(here.base / "outside/.git")
    done = run(here, bash(made), "--safe")
    [line] = [line for line in done.ended.stderr.splitlines() if f"{here.work} " in line]
    assert all(name in line for name in ("git repository", "HEAD", "objects", "refs", "config"))
    assert "HEAD" not in run(here, bash("true"), "--safe").ended.stderr


def test_existing_envrc_cannot_be_read_or_replaced(here: Ground) -> None:
    (here.work / "pkg/.envrc").write_text(f"export KEY={TOKEN}\n")
    here.hand_over()
    [read, written] = run(here, bash("cat pkg/.envrc", "rm -f pkg/.envrc; echo x > pkg/.envrc"), "--safe").said
    assert TOKEN not in read + written
    assert TOKEN in (here.work / "pkg/.envrc").read_text()


def test_target_of_a_dotenv_link_is_hidden_in_every_allowed_folder(here: Ground) -> None:
    (here.base / "more").mkdir()
    (here.base / "more/shared.txt").write_text(TOKEN)
    (here.work / ".env.shared").symlink_to("../more/shared.txt")
    here.hand_over()
    assert TOKEN not in run(here, bash("cat .env.shared ../more/*"), "--safe", "--allow-dir", "../more").said[0]
