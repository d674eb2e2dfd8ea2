"""`ask` started by shells and system services: loops, cron, hooks, closed streams, other locales and users.

Single streams are tested in `test_console`, signals in `test_main`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import ASK, PROGRAMS, Ask, Home, Result, Running, run
from tests.safety.installation import installation

DATE = "· bash: date\n"
NOBODY = 54_321
"""A user id that does not exist."""


@pytest.fixture
def demo(home: Home) -> Ask:
    return Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)


# Loops and pipelines


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        'ask -q --no-stdin "run echo $name"',
        'ask -q "run echo $name" < /dev/null',
    ],
)
def test_ask_in_a_while_read_loop_leaves_stdin_to_the_loop(call: str, demo: Ask) -> None:
    script = f"printf '%s\\n' a b | while read -r name; do {call}; done"
    result = demo.shell(script)
    assert (result.code, result.stderr) == (0, "")
    assert [line for line in result.text.splitlines() if len(line) == 1] == ["a", "b"]


def test_ask_without_a_prompt_in_a_loop_reads_its_stdin(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = ask.shell("printf '%s\\n' a b c | while read -r name; do ask -m test/model \"is $name here?\"; done")
    assert result.text == "yes\n"
    assert wire.asked(server.requests[0].json) == "is a here?\n\n<stdin>\nb\nc\n</stdin>"


@pytest.mark.slow
def test_parallel_runs_from_xargs_work(demo: Ask) -> None:
    each = """sh -c 'ask -q "run echo $0" > $0.txt' {}"""
    assert demo.shell(f"printf '%s\\0' one two | xargs -0 -P 2 -I{{}} {each}").code == 0
    for word in ("one", "two"):
        answer = (demo.cwd / f"{word}.txt").read_text()
        assert answer == f"I ran `echo {word}` (exit code: 0).\n\n```\n{word}\n```\n"


@pytest.mark.slow
def test_exit_codes_work_in_a_strict_script(demo: Ask) -> None:
    strict = "set -euo pipefail; "
    assert demo.shell(f'{strict}x=$(ask -q "run echo hi"); grep -c hi <<< "$x"').text == "2\n"
    assert demo.shell(f"{strict}seq 5 | ask -q 'how many?' | cat").code == 0
    assert demo.shell(f"{strict}ask -q 'which files are here?' | head -n 1 > /dev/null; echo on").text == "on\n"
    for failing, code in (("ask --no-such hi | cat", 2), ("ask -p none hi | cat", 4), ("ask --cmd love | cat", 10)):
        result = demo.shell(f"{strict}{failing}; echo on")
        assert (result.code, result.text) == (code, "")


@pytest.mark.slow
def test_ask_works_as_a_background_job_and_under_timeout(demo: Ask) -> None:
    assert demo.shell("ask -q 'run echo hi' > out & wait $!; echo $?; grep -c hi out").text == "0\n2\n"
    assert demo.shell("set -m; ask -q 'run echo hi' > out & wait $!; echo $?; grep -c hi out").text == "0\n2\n"
    result = demo.shell("timeout 0.7 ask 'run sleep 31.5'; echo $?")
    assert result.text == "124\n"
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_ask_works_in_a_git_hook(demo: Ask) -> None:
    hook = f'#!/bin/sh\n[ -n "$2" ] || git diff --staged | {ASK} -q --code -p demo \'hello in Python\' > "$1"\n'
    script = f"""
        set -e
        git init -q . && git config user.name a && git config user.email a@b && touch x && git add x
        cat > .git/hooks/prepare-commit-msg <<'EOF'\n{hook}EOF
        chmod +x .git/hooks/prepare-commit-msg
        GIT_EDITOR=true git commit -q && git log --format=%s
    """
    result = demo.shell(script)
    assert (result.text, result.stderr, result.code) == ('print("Hello, world!")\n', "", 0)


# Streams


@pytest.mark.parametrize(
    "closed", ["<&- 2>&-", *(pytest.param(closed, marks=pytest.mark.slow) for closed in ("<&-", "2>&-"))]
)
def test_closed_streams_cause_no_failure(closed: str, demo: Ask) -> None:
    result = demo.shell(f"ask -q 'run date' {closed}")
    assert (result.code, result.stderr) == (0, "")
    assert result.text.startswith("I ran `date` (exit code: 0).")


@pytest.mark.slow
def test_no_request_is_sent_without_standard_output(demo: Ask) -> None:
    for closed in (">&-", ">&- 2>&-", "<&- >&- 2>&-"):
        result = demo.shell(f"ask 'run touch ran' {closed}")
        assert (result.code, result.stdout) == (9, b"")
    assert not (demo.cwd / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--cmd", "love"], 10),
        *(
            pytest.param(arguments, code, marks=pytest.mark.slow)
            for arguments, code in ((["--no-such"], 2), (["-p", "none", "hi"], 4), (["run true"], 0))
        ),
    ],
)
def test_the_exit_code_does_not_depend_on_stderr(arguments: list[str], code: int, demo: Ask) -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    with open("/dev/full", "w") as full, open(ours, "w") as unread:
        for stderr in (full, unread):
            done = subprocess.run(
                [ASK, *arguments],
                env=dict(demo.env),
                cwd=demo.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                check=False,
            )
            assert done.returncode == code


def test_exit_codes_of_commands_are_known_although_the_parent_ignores_their_end(demo: Ask) -> None:
    parent = (
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", parent, ASK, "-q", "run exit 3"]
    assert "(exit code: 3)" in run(command, env=demo.env, cwd=demo.cwd).text


# Environments


@pytest.mark.slow
def test_ask_works_with_the_environment_of_cron(home: Home) -> None:
    result = run(["env", "-i", f"HOME={home.path}", "SHELL=/bin/sh", "LOGNAME=x", ASK, "-p", "demo", "run date"])
    assert (result.code, result.stderr) == (0, DATE)
    places = [path.name for path in (home.path / ".local/share/ask").iterdir()]
    assert {"history.db", "audit.jsonl"} <= {*places}
    bare = run(["env", "-i", f"XDG_DATA_HOME={home.path}", f"XDG_CACHE_HOME={home.path}", ASK, "-p", "demo", "run env"])
    assert bare.code == 0
    assert not [line for line in bare.text.splitlines() if line.startswith("TERM=")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "xx_XX.ISO-8859-1"},
        {"LANG": ""},
        # like an installed locale without UTF-8
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=lambda locale: ",".join(map("=".join, locale.items())),
)
def test_commands_and_files_use_utf_8_in_every_locale(locale: dict[str, str], demo: Ask) -> None:
    assert demo("write größe.txt with 日本 ü", env=locale).code == 0
    assert (demo.cwd / "größe.txt").read_text() == "日本 ü"
    result = demo("-q", "run cat größe.txt", env=locale)
    assert "日本 ü" in result.text
    assert demo("-q", "-f", "größe.txt", "what is this?", env=locale).text.count("größe.txt") == 1
    assert demo("--cmd", "run echo 日本", env=locale).text == "echo 日本\n"
    assert "größe.txt" in demo("history", "list", env=locale).text
    run_it = [("C(ancel): ", "r\n")]
    shown = demo.on_terminal("--cmd", "run printf '<%s>' ü", answers=run_it, env={**locale, "SHELL": "/bin/sh"})
    assert shown.text.endswith("<ü>")


@pytest.fixture
def others() -> Iterator[Path]:
    """A folder that any user can enter but only its owner can write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("user", [65_534, NOBODY])
@pytest.mark.parametrize("place", ["/", "locked", "file", "/proc/none"])
@pytest.mark.needs("setpriv")
def test_an_unwritable_home_is_a_warning_and_the_answer_is_printed(user: int, place: str, others: Path) -> None:
    (others / "locked").mkdir(mode=0o555)
    (others / "file").touch()
    ask = run_as_user(user, others / place)
    result = ask("-p", "demo", "run date")
    assert result.code == 0
    assert result.text.startswith("I ran `date` (exit code: 0).")
    complaints = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    assert 0 < len(complaints) <= 3
    assert "Traceback" not in result.stderr
    for command in (["history"], ["providers"], ["tools"], ["keys", "list"], ["undo"], ["-c", "-p", "demo", "hi"]):
        other = ask(*command)
        assert other.code in (0, 2, 9)
        assert "Traceback" not in other.stderr
        assert other.stderr.count("\n") <= 1


@pytest.mark.slow
@pytest.mark.needs("setpriv")
def test_a_home_of_another_user_is_an_error(others: Path) -> None:
    (others / "home").mkdir(mode=0o000)
    result = run_as_user(NOBODY, others / "home")("-p", "demo", "run date")
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert "(Permission denied): make it readable; is HOME set correctly?" in result.stderr


@pytest.mark.slow
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(
    ("user", "home"), [(NOBODY, None), (NOBODY, ""), (NOBODY, "~"), (os.geteuid(), ""), (os.geteuid(), "~")]
)
def test_a_home_that_is_missing_or_not_absolute_is_ignored(user: int, home: str | None) -> None:
    result = run_as_user(user, home)("config", "path")
    assert (result.code, result.stderr) == (0, "")
    assert result.text.startswith("/")
    assert result.text.startswith("/.config/") == (user == NOBODY and os.geteuid() == 0)


def run_as_user(user: int, home: Path | str | None) -> Callable[..., Result]:
    """Run `ask` as another user if we are root, else as ourselves."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if os.geteuid() == 0 else []
    env = {"PATH": os.environ["PATH"]} | ({} if home is None else {"HOME": str(home)})
    return lambda *arguments: run([*become, installation("ordinary").ask, *arguments], env=env, cwd=Path("/"))


@pytest.mark.needs("bwrap")
def test_missing_devices_are_not_taken_for_a_missing_bash(demo: Ask) -> None:
    result = run(["bwrap", "--bind", "/", "/", "--tmpfs", "/dev", ASK, "run date"], env=demo.env, cwd=demo.cwd)
    assert "/dev/null cannot be opened" in result.text
    assert "not installed" not in result.text


# Files of other users, and those that a container mounts


@pytest.fixture
def shared(others: Path) -> Path:
    """A file of this user that everyone may change, in a folder that belongs to everyone."""
    (others / "home").mkdir(mode=0o777)
    (others / "work").mkdir()
    for folder in ("home", "work"):
        (others / folder).chmod(0o777)
    file = others / "work/notes.txt"
    file.write_text("old\n")
    file.chmod(0o666)
    return file


@pytest.mark.needs("root", "setpriv")
def test_a_file_of_another_user_keeps_its_owner(others: Path, shared: Path) -> None:
    ask = run_as_user(NOBODY, others / "home")
    assert ask("-C", str(shared.parent), "-p", "demo", "write notes.txt with new").code == 0
    assert (shared.read_text().strip(), shared.stat().st_uid) == ("new", 0)
    assert ask("-C", str(shared.parent), "undo", "--yes").code == 0
    assert (shared.read_text(), shared.stat().st_uid) == ("old\n", 0)


@pytest.mark.needs("root", "bwrap")
@pytest.mark.parametrize(("user", "group"), [(0, NOBODY), pytest.param(NOBODY, NOBODY, marks=pytest.mark.slow)])
def test_safe_mode_writes_files_of_owners_that_the_sandbox_does_not_know(user: int, group: int, demo: Ask) -> None:
    file = demo.cwd / "notes.txt"
    file.write_text("old")
    file.chmod(0o666)
    os.chown(file, user, group)
    result = demo("--safe", "write notes.txt with new")
    assert (result.code, file.read_text().strip()) == (0, "new")
    assert (file.stat().st_uid, file.stat().st_gid) == (user, group)


@pytest.mark.slow
@pytest.mark.needs("unshare", "mount")
def test_mounted_files_can_be_written(demo: Ask, home: Home) -> None:
    mounted = [home.work / "notes.txt", home.config / "config.toml", home.config / "keys.toml"]
    home.config.mkdir(exist_ok=True)
    for file in mounted:
        file.write_text("")
        Path(f"{file}.mounted").write_text("")
    (home.work / "notes.txt.mounted").write_text("a longer text than the new one\n")
    script = f"""
    set -e
    for file in {" ".join(map(str, mounted))}; do mount --bind "$file.mounted" "$file"; done
    ask config set max_rounds 7
    echo key-of-a-service | ask keys set openai
    ask "write notes.txt with new"
    cat notes.txt
    ask undo --yes
    """
    command = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script]
    result = run(command, env=demo.env, cwd=demo.cwd)
    assert result.code == 0, result.stderr
    texts = [Path(f"{file}.mounted").read_text() for file in mounted]
    assert texts[0] == "a longer text than the new one\n"
    assert "\nnew" in result.text
    for text, part in zip(texts[1:], ("max_rounds = 7", "key-of-a-service"), strict=True):
        assert part in text
    assert [path for path in home.files if path.match(".*tmp*")] == []


@pytest.mark.parametrize(
    "arguments",
    [
        *(["hi"], ["history"]),
        *(pytest.param(one, marks=pytest.mark.slow) for one in (["--cmd", "run date"], ["tools"], ["providers"])),
    ],
)
def test_a_deleted_working_directory_is_at_most_one_line(arguments: list[str], demo: Ask) -> None:
    result = demo.shell(f"mkdir gone && cd gone && rmdir ../gone && ask {' '.join(map(repr, arguments))}")
    assert result.stderr.count("\n") <= 1
    assert "Traceback" not in result.stderr
    assert result.code == (9 if "change to another" in result.stderr else 0)


@pytest.mark.slow
def test_small_dumb_terminals_work(demo: Ask) -> None:
    script = f"stty cols 20 rows 5; exec {PROGRAMS}/ask --cmd 'find files over 20 GB in /some/where/far/away'"
    env = {**demo.env, "TERM": "dumb", "SHELL": "/bin/sh"}
    with Running(["sh", "-c", script], env=env, cwd=demo.cwd, terminal=True) as running:
        running.wait_for("C(ancel): ")
        running.type_in("\n")
        result = running.finish()
    assert result.code == 130
    assert "\x1b" not in result.text
    lines = result.text.splitlines()
    assert "find /some/where/far" in lines
    assert all(len(line) <= 20 for line in lines if not line.endswith("C(ancel): "))


@pytest.mark.slow
def test_terminals_without_term_work(demo: Ask) -> None:
    result = demo.on_terminal("run date", env={"TERM": ""})
    assert (result.code, "I ran `date`" in result.text) == (0, True)
