"""Known gaps and limitations of safe mode, which docs/safe-mode.md lists."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ask.safety.folder_scan import MAX_SCANNED_ENTRIES
from tests import wire
from tests.escapes.safe_runs import bash, create_ask_host, run, start_ask
from tests.escapes.test_failing_closed import ANOTHER, build_changed_host_command
from tests.escapes.test_guards import git
from tests.model_server import ModelServer, Reply, Request
from tests.safety.fake_host import TOKEN, FakeHost
from tests.safety.installation import USERS, as_user
from tests.scenarios.sent_requests import read_tool_results

pytestmark = pytest.mark.needs("bwrap")


@pytest.mark.slow
def test_files_in_the_folder_are_sent_to_the_provider(host: FakeHost) -> None:
    (host.work / "secret.txt").write_text(TOKEN)
    host.change_owner()
    assert TOKEN in run(host, bash("cat secret.txt"), "--safe").outputs[0]


@pytest.mark.slow
def test_a_committed_secret_can_be_read(host: FakeHost) -> None:
    git(host, host.work, "add", "-f", ".env")
    git(host, host.work, "-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-qm", "x")
    host.change_owner()
    hidden, committed = run(host, bash("cat .env", "git show HEAD:.env"), "--safe").outputs
    assert TOKEN not in hidden
    assert TOKEN in committed


@pytest.mark.slow
def test_a_program_that_the_user_runs_runs_what_a_run_has_written(host: FakeHost) -> None:
    run(host, [("write_file", {"filepath": "json.py", "content": host.fill("open('@base@/ran', 'w')")})], "--safe")
    command = [*as_user(host.user), host.fill("@python@"), "-m", "json.tool"]
    subprocess.run(command, cwd=host.work, capture_output=True, check=False)
    assert (host.base / "ran").exists()


@pytest.mark.slow
def test_an_existing_hard_link_leads_outside_but_an_edit_breaks_it(host: FakeHost) -> None:
    secret, netrc = host.base / "outside/secret", host.base / "home/.netrc"
    os.link(secret, host.work / "linked")
    os.link(netrc, host.work / "edited")
    edit = ("edit_file", {"filepath": "edited", "old_text": TOKEN, "new_text": "x"})
    run(host, [*bash("cat linked; echo more >> linked"), edit], "--safe")
    assert secret.read_text() == f"{TOKEN}more\n"
    assert netrc.read_text() == TOKEN
    assert (host.work / "edited").read_text() == "x"


@pytest.mark.slow
def test_an_existing_repository_in_a_subfolder_is_protected_and_a_new_one_is_not(host: FakeHost) -> None:
    subprocess.run(["git", "init", "-q", str(host.work / "pkg")], check=True)
    host.change_owner()
    (host.work / "pkg/.vscode").mkdir()
    host.change_owner()
    commands = "echo x > {0}/.git/hooks/pre-commit; mkdir -p {0}/.vscode; echo x > {0}/.vscode/tasks.json"
    done = run(host, bash(commands.format("pkg"), f"git init -q new; {commands.format('new')}"), "--safe")
    for name in (".git/hooks/pre-commit", ".vscode/tasks.json"):
        assert not (host.work / "pkg" / name).exists()
        assert (host.work / "new" / name).exists(), done.outputs


@pytest.mark.slow
def test_a_script_that_a_hook_runs_can_be_changed(host: FakeHost) -> None:
    (host.work / "scripts").mkdir()
    (host.work / "scripts/lint.sh").write_text("true\n")
    (host.work / ".git/hooks/pre-commit").write_text("#!/bin/sh\nsh scripts/lint.sh\n")
    host.change_owner()
    run(host, bash("echo changed >> scripts/lint.sh; echo changed >> .git/hooks/pre-commit"), "--safe")
    assert "changed" in (host.work / "scripts/lint.sh").read_text()
    assert "changed" not in (host.work / ".git/hooks/pre-commit").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("sh tools/*.sh", "tools/x.sh"),
        ("cat setup | sh", "setup"),
        ("make", "Makefile"),
        ("python3 -m json.tool", "json.py"),
    ],
)
def test_what_an_unclear_command_of_git_runs_can_be_changed(host: FakeHost, command: str, script: str) -> None:
    contents = {"Makefile": "all:\n\ttouch @base@/ran\n", "json.py": "open('@base@/ran', 'w')\n"}
    content = host.fill(contents.get(script, "touch @base@/ran\n"))
    git(host, host.work, "config", "alias.go", f"!{command}")
    host.change_owner()
    done = run(host, [("write_file", {"filepath": script, "content": content})], "--safe")
    assert f"alias.go: !{command}" in done.result.stderr
    git(host, host.work, "go")
    assert (host.base / "ran").exists(), done.outputs


@pytest.mark.slow
def test_a_file_is_moved_into_a_folder_with_protected_content_by_copying_it(host: FakeHost) -> None:
    before = (host.work / "notes.txt").stat()
    moves = bash('python3 -c \'import os; os.rename("notes.txt", "pkg/x")\'', "mv notes.txt pkg", "mv pkg other")
    done = run(host, moves, "--safe")
    after = (host.work / "pkg/notes.txt").stat()
    assert (after.st_size, after.st_ino != before.st_ino) == (before.st_size, True)
    assert "Invalid cross-device link" in done.outputs[0]
    assert not (host.work / "other").exists()
    assert not (host.work / "notes.txt").exists()


@pytest.mark.slow
def test_programs_outside_that_read_the_folder_can_be_reached(host: FakeHost) -> None:
    """A program that reads a named pipe, and one that runs a file when it changes."""
    pipe, received, script = host.work / "pipe", host.base / "outside/received", host.work / "server.sh"
    os.mkfifo(pipe)
    script.write_text("true\n")
    host.change_owner()
    watch = 'while sleep 0.02; do cmp -s "$0" "$1" || { cp "$0" "$1"; sh "$1"; }; done'
    readers = [
        subprocess.Popen(["cp", str(pipe), str(received)]),
        subprocess.Popen(["sh", "-c", watch, str(script), str(host.base / "outside/copy")]),
    ]
    try:
        run(host, bash(f"echo {TOKEN} > pipe", "echo 'echo x > @outside@/ran' > server.sh; sleep 1"), "--safe")
        readers[0].wait(10)
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    assert received.read_text() == f"{TOKEN}\n"
    assert (host.base / "outside/ran").exists()


@pytest.mark.slow
def test_root_can_read_files_of_root_outside_the_home() -> None:
    if "root" not in USERS:
        return
    with create_ask_host("root") as host:
        private = Path(f"/opt/ask-test-{host.base.name}")
        private.write_text(TOKEN)
        private.chmod(0o600)
        try:
            read, changed = run(host, bash(f"cat {private}", "chmod 666 /dev/full && echo changed"), "--safe").outputs
        finally:
            private.unlink()
        assert TOKEN in read
        assert "changed" in changed


@pytest.mark.slow
def test_git_status_works_and_git_commit_does_not(host: FakeHost) -> None:
    commit = "git add notes.txt && git -c user.name=a -c user.email=a@a.test commit -qm x && echo committed"
    status, refused = run(host, bash("git status --short", commit), "--safe").outputs
    assert "?? notes.txt" in status
    assert "Read-only file system" in refused


@pytest.mark.slow
@pytest.mark.parametrize("host", USERS[:1], indirect=True)
def test_deep_folders_of_a_huge_folder_are_not_protected_with_a_warning(host: FakeHost) -> None:
    deep = host.work / "z/deep/er"
    deep.mkdir(parents=True)
    (deep / ".env").write_text(TOKEN)
    git(host, host.work, "init", "-q", "z/deep/er")
    for folder in range(5):
        (host.work / f"many/{folder}").mkdir(parents=True)
        for number in range(MAX_SCANNED_ENTRIES // 5):
            (host.work / f"many/{folder}/{number}").touch()
    host.change_owner()
    done = run(host, bash("cat z/deep/er/.env; echo x > z/deep/er/.git/hooks/pre-commit"), "--safe")
    assert " is too large " in done.result.stderr
    assert TOKEN in done.outputs[0]
    assert (deep / ".git/hooks/pre-commit").exists()


@pytest.mark.slow
def test_a_hidden_file_that_is_replaced_during_a_run_can_be_read_from_then_on(host: FakeHost) -> None:
    """A mount disappears with the file that it covers, until the sandbox is opened again."""

    def replace(request: Request) -> Reply:
        new = host.work / "new"
        new.write_text(f"KEY={TOKEN}")
        new.chmod(0o644)
        new.rename(host.work / ".env")
        return wire.calls(*bash("cat ./.env"))

    with ModelServer() as server:
        server.reply(wire.calls(*bash("cat .env")), replace, wire.says("Done."))
        with start_ask(host, server, "--safe") as running:
            assert running.finish().code == 0
        [before], [after] = (read_tool_results(request.json)[-1:] for request in server.requests[1:])
    assert TOKEN not in before
    assert TOKEN in after


@pytest.mark.slow
def test_bubblewrap_follows_a_link_to_create_an_empty_file(host: FakeHost) -> None:
    """The link is created after the folder scan, before bubblewrap starts."""
    up = "../" * len(host.work.parts)
    swaps = f'#!/bin/sh\nln -sfn {up}oldroot@base@/outside/new @work@/.env\nexec @base@/temporary/bin/bwrap "$@"\n'
    done = run(host, bash("echo x > .env"), "--safe", before=build_changed_host_command(host, ANOTHER, swaps))
    assert done.result.code == 0, done.result.stderr
    assert (host.base / "outside/new").read_bytes() == b""
