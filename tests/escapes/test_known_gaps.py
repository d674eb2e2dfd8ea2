"""What safe mode does not prevent, and what it prevents though one might want it; docs/safe-mode.md lists each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ask.safety.folder_scan import MAX_SCANNED_ENTRIES
from tests import wire
from tests.escapes.confined import bash, machine, run, started
from tests.escapes.test_failing_closed import ANOTHER, on_machine
from tests.model_server import ModelServer, Reply, Request
from tests.safety.ground import TOKEN, Ground
from tests.safety.installation import USERS
from tests.scenarios.sent import results


@pytest.mark.slow
def test_files_in_the_folder_are_sent_to_the_provider(here: Ground) -> None:
    (here.work / "secret.txt").write_text(TOKEN)
    here.hand_over()
    assert TOKEN in run(here, bash("cat secret.txt"), "--safe").said[0]


@pytest.mark.slow
def test_an_older_hard_link_leads_out_but_an_edit_breaks_it(here: Ground) -> None:
    secret, netrc = here.base / "outside/secret", here.base / "home/.netrc"
    os.link(secret, here.work / "linked")
    os.link(netrc, here.work / "edited")
    edit = ("edit_file", {"filepath": "edited", "old_text": TOKEN, "new_text": "x"})
    run(here, [*bash("cat linked; echo more >> linked"), edit], "--safe")
    assert secret.read_text() == f"{TOKEN}more\n"
    assert netrc.read_text() == TOKEN
    assert (here.work / "edited").read_text() == "x"


def test_an_existing_repository_in_a_subfolder_is_protected_and_a_new_one_is_not(here: Ground) -> None:
    subprocess.run(["git", "init", "-q", str(here.work / "pkg")], check=True)
    here.hand_over()
    commands = bash("echo x > pkg/.git/hooks/pre-commit", "git init -q new; echo x > new/.git/hooks/pre-commit")
    done = run(here, commands, "--safe")
    assert not (here.work / "pkg/.git/hooks/pre-commit").exists()
    assert (here.work / "new/.git/hooks/pre-commit").exists(), done.said


@pytest.mark.slow
def test_a_script_that_a_hook_runs_can_be_changed(here: Ground) -> None:
    (here.work / "scripts").mkdir()
    (here.work / "scripts/lint.sh").write_text("true\n")
    (here.work / ".git/hooks/pre-commit").write_text("#!/bin/sh\nsh scripts/lint.sh\n")
    here.hand_over()
    run(here, bash("echo changed >> scripts/lint.sh; echo changed >> .git/hooks/pre-commit"), "--safe")
    assert "changed" in (here.work / "scripts/lint.sh").read_text()
    assert "changed" not in (here.work / ".git/hooks/pre-commit").read_text()


@pytest.mark.slow
def test_root_can_read_files_of_root_outside_the_home() -> None:
    if "root" not in USERS:
        return
    with machine("root") as here:
        private = Path(f"/opt/ask-test-{here.base.name}")
        private.write_text(TOKEN)
        private.chmod(0o600)
        try:
            read, changed = run(here, bash(f"cat {private}", "chmod 666 /dev/full && echo changed"), "--safe").said
        finally:
            private.unlink()
        assert TOKEN in read
        assert "changed" in changed


def test_git_status_works_and_git_commit_does_not(here: Ground) -> None:
    commit = "git add notes.txt && git -c user.name=a -c user.email=a@a.test commit -qm x && echo committed"
    status, refused = run(here, bash("git status --short", commit), "--safe").said
    assert "?? notes.txt" in status
    assert "Read-only file system" in refused


@pytest.mark.slow
@pytest.mark.parametrize("here", USERS[:1], indirect=True)
def test_deep_folders_of_a_huge_folder_are_not_protected_and_a_warning_says_so(here: Ground) -> None:
    deep = here.work / "z/deep"
    deep.mkdir(parents=True)
    (deep / ".env").write_text(TOKEN)
    for folder in range(2):
        (here.work / f"many-{folder}").mkdir()
        for number in range(MAX_SCANNED_ENTRIES // 2):
            (here.work / f"many-{folder}/{number}").touch()
    here.hand_over()
    done = run(here, bash("cat z/deep/.env"), "--safe")
    assert " is large: " in done.ended.stderr
    assert TOKEN in done.said[0]


@pytest.mark.slow
def test_a_hidden_file_that_is_replaced_during_a_run_can_be_read_from_then_on(here: Ground) -> None:
    """A mount disappears with the file that it covers, until the sandbox is opened again."""

    def replace(request: Request) -> Reply:
        new = here.work / "new"
        new.write_text(f"KEY={TOKEN}")
        new.chmod(0o644)
        new.rename(here.work / ".env")
        return wire.calls(*bash("cat ./.env"))

    with ModelServer() as server:
        server.reply(wire.calls(*bash("cat .env")), replace, wire.says("Done."))
        with started(here, server, "--safe") as running:
            assert running.finish().code == 0
        [before], [after] = (results(request.json)[-1:] for request in server.requests[1:])
    assert TOKEN not in before
    assert TOKEN in after


@pytest.mark.slow
def test_bubblewrap_follows_a_link_to_create_an_empty_file(here: Ground) -> None:
    """The link is put there when everything was looked at, before bubblewrap starts."""
    up = "../" * len(here.work.parts)
    swaps = f'#!/bin/sh\nln -sfn {up}oldroot@base@/outside/new @work@/.env\nexec @base@/temporary/bin/bwrap "$@"\n'
    done = run(here, bash("echo x > .env"), "--safe", before=on_machine(here, ANOTHER, swaps))
    assert done.ended.code == 0, done.ended.stderr
    assert (here.base / "outside/new").read_bytes() == b""
