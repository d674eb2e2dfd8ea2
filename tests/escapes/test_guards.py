"""Programs that git runs cannot be changed, and files that may contain secrets are hidden.

Each attack is also run without `--safe`, where it has to succeed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.escapes.safe_runs import bash, run
from tests.safety.fake_host import TOKEN, FakeHost
from tests.safety.installation import as_user, each_user_and

pytestmark = pytest.mark.needs("bwrap")

PAYLOAD = "#!/bin/sh\\ntouch @base@/ran\\n"
PUT = f"mkdir -p {{hooks}}; printf '{PAYLOAD}' > {{hooks}}/pre-commit; chmod +x {{hooks}}/pre-commit"
PUT_PROGRAM = f"mkdir -p tools; rm -rf {{name}}; printf '{PAYLOAD}' > {{name}}; chmod +x {{name}}"


def git(host: FakeHost, folder: Path, *words: str) -> None:
    """Run git as the user."""
    names = ["-c", "user.name=a", "-c", "user.email=a@a.test", "-c", "safe.directory=*"]
    subprocess.run(
        [*as_user(host.user), "git", *names, *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(host.base / "home")},
        capture_output=True,
        check=False,
    )


def commit_runs_hook(host: FakeHost, folder: Path) -> bool:
    """Commit as the user, as after a look at the status, and check whether a hook of the attack ran."""
    git(host, folder, "status")
    git(host, folder, "add", "--all", "*.txt")
    git(host, folder, "commit", "--allow-empty", "-qm", "x")
    ran = host.base / "ran"
    found = ran.exists()
    ran.unlink(missing_ok=True)
    return found


def replaced_repository(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "init", "-q", "a/sub")
    return f"mv a/sub old && cp -r old a/sub && {PUT.format(hooks='a/sub/.git/hooks')}", host.work / "a/sub"


def replaced_parent_folder(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "init", "-q", "a/sub")
    return f"mv a old && cp -r old a && {PUT.format(hooks='a/sub/.git/hooks')}", host.work / "a/sub"


def separate_git_dir(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "init", "-q", "--separate-git-dir=bare", "sub")
    return PUT.format(hooks="bare/hooks"), host.work / "sub"


def existing_hooks_path(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "init", "-q", "sub")
    git(host, host.work / "sub", "config", "core.hooksPath", ".hooks/_")
    (host.work / "sub/.hooks").mkdir()
    return PUT.format(hooks="sub/.hooks/_"), host.work / "sub"


def missing_hooks_path(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "config", "core.hooksPath", "hooks/own")
    return PUT.format(hooks="hooks/own"), host.work


def user_hooks_path(host: FakeHost) -> tuple[str, Path]:
    (host.base / "home/.gitconfig").write_text("[core]\nhooksPath = .githooks\n")
    return PUT.format(hooks=".githooks"), host.work


def linked_hook(host: FakeHost) -> tuple[str, Path]:
    (host.work / "scripts").mkdir()
    (host.work / "scripts/pre-commit").write_text("#!/bin/sh\n")
    (host.work / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")
    return PUT.format(hooks="scripts"), host.work


def linked_hooks_folder(host: FakeHost) -> tuple[str, Path]:
    shutil.rmtree(host.work / ".git/hooks")
    (host.work / ".git/hooks").symlink_to("../githooks")
    return PUT.format(hooks="githooks"), host.work


def hooks_path_through_link(host: FakeHost) -> tuple[str, Path]:
    (host.work / "tools/hooks-1").mkdir(parents=True)
    (host.work / "tools/hooks").symlink_to("hooks-1")
    git(host, host.work, "config", "core.hooksPath", "tools/hooks")
    return f"cd tools; rm hooks; {PUT.format(hooks='hooks')}", host.work


def included_file(host: FakeHost) -> tuple[str, Path]:
    (host.work / ".gitconfig-shared").write_text("[core]\n")
    git(host, host.work, "config", "include.path", "../.gitconfig-shared")
    included = "printf '[core]\\nfsmonitor = @base@/work/spy\\n' > .gitconfig-shared"
    return f"{PUT_PROGRAM.format(name='spy')}; {included}", host.work


def fsmonitor_program(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "config", "core.fsmonitor", "./tools/spy")
    return PUT_PROGRAM.format(name="tools/spy"), host.work


def filter_program(host: FakeHost, command: str = "./tools/clean") -> tuple[str, Path]:
    (host.work / "tools").mkdir()
    (host.work / "tools/clean").write_text("#!/bin/sh\ncat\n")
    return replace_filter(host, "tools/clean", command)


def filter_in_a_folder(host: FakeHost) -> tuple[str, Path]:
    return filter_program(host, "cd tools && ./clean")


def filter_in_a_shell(host: FakeHost) -> tuple[str, Path]:
    return replace_filter(host, "clean", "bash -c ./clean")


def replace_filter(host: FakeHost, name: str, command: str) -> tuple[str, Path]:
    git(host, host.work, "config", "filter.x.clean", command)
    put = PUT_PROGRAM.format(name=name)
    return f"{put}; echo x >> notes.txt; echo '*.txt filter=x' > .gitattributes", host.work


def submodule_that_is_not_checked_out(host: FakeHost) -> tuple[str, Path]:
    git(host, host.work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    (host.work / "sub").mkdir()
    commit = "git -c user.name=a -c user.email=a@a.test commit --allow-empty -qm x"
    return f"cd sub && git init -q && {commit} && git config core.fsmonitor 'touch @base@/ran; false'", host.work


ATTACKS = [replaced_parent_folder, missing_hooks_path, hooks_path_through_link, included_file]
ATTACKS += [submodule_that_is_not_checked_out]
FURTHER_ATTACKS = [replaced_repository, separate_git_dir, existing_hooks_path, user_hooks_path]
FURTHER_ATTACKS += [linked_hook, linked_hooks_folder, fsmonitor_program, filter_program]
FURTHER_ATTACKS += [filter_in_a_folder, filter_in_a_shell]


def run_unconfined(host: FakeHost, command: str, folder: Path) -> None:
    """Run the command as `ask` would without safe mode."""
    subprocess.run(
        [*as_user(host.user), "bash", "-c", host.fill(command)], cwd=folder, capture_output=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "attack"),
    each_user_and(ATTACKS, FURTHER_ATTACKS),
    indirect=["host"],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_no_program_that_git_will_run_is_installed(
    host: FakeHost, attack: Callable[[FakeHost], tuple[str, Path]]
) -> None:
    host.change_owner()
    command, folder = attack(host)
    host.change_owner()
    safe = run(host, bash(command), "--safe")
    assert safe.result.code == 0, safe.result.stderr
    assert not commit_runs_hook(host, folder), safe.outputs
    run_unconfined(host, command, host.work)
    assert commit_runs_hook(host, folder), "the attack does nothing"


MISSING_SCRIPTS = {
    "/bin/sh tools/x": "tools/x",
    "bash -e x": "x",
    "env X=1 sh tools/x": "tools/x",
    "true && . ./x": "x",
    "nice -n 1 tools/x": "tools/x",
    "env -C / true && ./x": "x",
    "sh -c 'exec tools/x'": "tools/x",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", MISSING_SCRIPTS)
def test_no_script_is_created_that_a_command_of_git_runs(host: FakeHost, command: str) -> None:
    git(host, host.work, "commit", "--allow-empty", "-qm", "x")
    git(host, host.work, "config", "alias.go", f"!{command}")
    host.change_owner()
    attack = PUT_PROGRAM.format(name=MISSING_SCRIPTS[command])
    safe = run(host, bash(attack), "--safe")
    assert safe.result.code == 0, safe.result.stderr
    assert "run commands whose files" not in safe.result.stderr
    git(host, host.work, "go")
    assert not (host.base / "ran").exists(), safe.outputs
    run_unconfined(host, attack, host.work)
    git(host, host.work, "go")
    assert (host.base / "ran").exists(), "the attack does nothing"


@pytest.mark.slow
@pytest.mark.parametrize("level", ["--safe", "--safe-files"])
def test_a_module_that_git_runs_is_named_once(host: FakeHost, level: str) -> None:
    git(host, host.work, "config", "filter.nbstripout.clean", "/usr/bin/python3 -m nbstripout")
    host.change_owner()
    first, second = (run(host, [], level).result.stderr for _ in range(2))
    assert "nbstripout" in first
    assert "nbstripout" not in second
    git(host, host.work, "config", "filter.nbstripout.clean", "/usr/bin/python3 -m other")
    assert "other" in run(host, [], level).result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("level", ["--safe", "--safe-files"])
def test_a_module_that_a_python_command_of_git_imports_is_named_after_each_run(host: FakeHost, level: str) -> None:
    def write(*names: str) -> list[str]:
        calls = [("write_file", {"filepath": name, "content": f"# {id(names)}\n"}) for name in names]
        done = run(host, calls, level)
        assert done.result.code == 0, done.result.stderr
        return [line for line in done.result.stderr.splitlines() if "may import" in line.replace("\n", " ")]

    assert not write("json.py")
    git(host, host.work, "config", "filter.nbstripout.clean", "/usr/bin/python3 -m nbstripout")
    host.change_owner()
    assert not write("notes.py", "pkg/json.py")
    assert not write()
    for name in ("json.py", "nbstripout.py", "email/__init__.py", "base64.pyc"):
        (notice,) = write(name)
        assert name in notice
    assert not write("x.txt", "email/notes.txt", "sys.py")


@pytest.mark.slow
def test_no_hook_is_installed_by_a_run_in_a_subfolder_of_the_repository(host: FakeHost) -> None:
    git(host, host.work, "config", "core.hooksPath", "pkg/githooks")
    host.change_owner()
    command = PUT.format(hooks="githooks")
    run(host, bash(command), "--safe", directory=host.work / "pkg")
    assert not commit_runs_hook(host, host.work)
    run_unconfined(host, command, host.work / "pkg")
    assert commit_runs_hook(host, host.work), "the attack does nothing"


@pytest.mark.slow
def test_git_works_with_a_placeholder_for_an_included_file(host: FakeHost) -> None:
    git(host, host.work, "config", "include.path", "../conf")
    host.change_owner()
    assert "?? notes.txt" in run(host, bash("git status --short; ls -d conf"), "--safe").outputs[0]
    assert not (host.work / "conf").exists()


def test_starting_in_a_dot_git_folder_is_refused(host: FakeHost) -> None:
    done = run(host, bash("touch ran"), "--safe", directory=host.work / ".git")
    assert (done.result.code, done.requests) == (8, 0)


@pytest.mark.slow
def test_secrets_in_protected_folders_and_packages_cannot_be_read(host: FakeHost) -> None:
    names = (".vscode/.env", ".claude/.env.local", "node_modules/x/.env", "prod.env", ".env.d/secret")
    for name in names:
        (host.work / name).parent.mkdir(parents=True, exist_ok=True)
        (host.work / name).write_text(TOKEN)
    host.change_owner()
    commands = [f"cat {name}; cat < {name}; cp -r {name} copy && cat copy" for name in names]
    output = run(host, bash(*commands), "--safe").outputs
    assert len(output) == len(names)
    assert TOKEN not in "".join(output)


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["mkdir objects refs", pytest.param("git init -q --bare x; echo x > commondir", marks=pytest.mark.slow)]
)
def test_folder_that_becomes_a_bare_repository_is_reported(host: FakeHost, place: str) -> None:
    made = f"{place}; echo ref: refs/heads/x > HEAD; printf '[core]\\nbare = false\\nworktree = .\\n' > config"
    (host.work / ".git").rename(host.base / "outside/.git")
    done = run(host, bash(made), "--safe")
    [line] = [line for line in done.result.stderr.splitlines() if f"{host.work} " in line]
    assert all(name in line for name in ("repository", "HEAD", "objects", "refs", "config"))
    assert "HEAD" not in run(host, bash("true"), "--safe").result.stderr


@pytest.mark.slow
def test_existing_envrc_cannot_be_read_or_replaced(host: FakeHost) -> None:
    (host.work / "pkg/.envrc").write_text(f"export KEY={TOKEN}\n")
    host.change_owner()
    [read, written] = run(host, bash("cat pkg/.envrc", "rm -f pkg/.envrc; echo x > pkg/.envrc"), "--safe").outputs
    assert TOKEN not in read + written
    assert TOKEN in (host.work / "pkg/.envrc").read_text()


@pytest.mark.slow
def test_target_of_a_dotenv_link_is_hidden_in_every_allowed_folder(host: FakeHost) -> None:
    (host.base / "more").mkdir()
    (host.base / "more/shared.txt").write_text(TOKEN)
    (host.work / ".env.shared").symlink_to("../more/shared.txt")
    host.change_owner()
    assert TOKEN not in run(host, bash("cat .env.shared ../more/*"), "--safe", "--allow-dir", "../more").outputs[0]
