"""Calls in a sandbox: what they give, what ends with them, and what becomes of those that go wrong."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import time
from pathlib import Path

import pytest

from ask.errors import SafetyError
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import Limits, SandboxConfig
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.builtin import list_builtin_tools
from ask.tools.output_limits import MAX_RESULT_LENGTH
from ask.tools.shell import BASH
from tests.program import Running, is_running
from tests.safety.conftest import Bash
from tests.safety.ground import Ground
from tests.safety.traces import processes


def lose_worker(bash: Bash, context: ToolContext) -> None:
    for one in processes(context.directory):
        os.kill(one, signal.SIGKILL)
    with pytest.raises(ToolError, match="the sandbox ended during this call"):
        bash("true")


def as_source(confinement: SandboxConfig) -> str:
    """Python that makes it again."""
    return repr(confinement).replace("PosixPath", "Path")


def tools(sandbox: Sandbox) -> dict[str, Tool]:
    return {tool.spec.name: sandbox.wrap_tool(tool) for tool in list_builtin_tools()}


def test_a_tool_is_the_same_but_for_where_it_runs(sandbox: Sandbox, context: ToolContext) -> None:
    for tool in list_builtin_tools():
        assert sandbox.wrap_tool(tool)._replace(run=tool.run) == tool


def test_all_tools_do_their_work(sandbox: Sandbox, context: ToolContext) -> None:
    confined = tools(sandbox)
    path = context.directory / "sub" / "ü.txt"
    made = confined["write_file"].run({"filepath": "sub/ü.txt", "content": "eins\nzwei\n"}, context)
    assert made == ToolResult("created sub/ü.txt: 10 bytes")
    confined["edit_file"].run({"filepath": "sub/ü.txt", "old_text": "zwei", "new_text": "drei"}, context)
    assert path.read_text() == "eins\ndrei\n"
    assert confined["read_file"].run({"filepath": str(path), "offset": 2}, context).text.startswith("drei\n")
    assert "file 10 ü.txt" in confined["list_dir"].run({"dirpath": "sub"}, context).text
    assert confined["bash"].run({"command": "cat sub/*; exit 3"}, context) == ToolResult(
        "exit code: 3\nstdout:\neins\ndrei\n", True, 3
    )


def test_errors_are_those_of_the_tools(sandbox: Sandbox, context: ToolContext) -> None:
    with pytest.raises(ToolError, match="no such file"):
        tools(sandbox)["read_file"].run({"filepath": "missing"}, context)
    with pytest.raises(ToolError, match="NUL"):
        tools(sandbox)["bash"].run({"command": "a\0b"}, context)


@pytest.mark.slow
def test_large_files_and_odd_text_come_through(sandbox: Sandbox, context: ToolContext) -> None:
    confined = tools(sandbox)
    confined["write_file"].run({"filepath": "large", "content": "é\n" * 3_000_000}, context)
    assert (context.directory / "large").stat().st_size == 9_000_000
    with pytest.raises(ToolError, match="not written"):
        confined["write_file"].run({"filepath": "larger", "content": "x" * 10_500_000}, context)
    assert "U+FFFD" in confined["write_file"].run({"filepath": "odd", "content": "\ud83d"}, context).text


def test_a_tool_that_is_not_ask_s_own_does_nothing(sandbox: Sandbox, context: ToolContext) -> None:
    strange = BASH._replace(spec=BASH.spec._replace(name="strange"))
    with pytest.raises(ToolError, match="does not have this tool"):
        sandbox.wrap_tool(strange).run({"command": "touch x"}, context)


def test_output_is_shown_as_it_comes(bash: Bash, context: ToolContext, sandbox: Sandbox) -> None:
    done = context.directory / "done"
    shown: list[tuple[str, bool]] = []
    watching = context._replace(on_output=lambda text: shown.append((text, done.exists())))
    sandbox.wrap_tool(BASH).run({"command": "echo one; sleep 0.2; echo two >&2; sleep 0.2; touch done"}, watching)
    assert shown == [("one\n", False), ("two\n", False)]


def test_the_environment_is_the_few_variables(bash: Bash, confinement: SandboxConfig) -> None:
    names = set(re.findall(r"^(\w+)=", bash("env -u BASH_ENV env").text, re.MULTILINE))
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", "ASK_CALL"} == {"PATH", "HOME", "LANG", "TMPDIR"}
    assert bash("echo $HOME; ls -A ~; echo x > ~/x && cat ~/x").text.endswith(f"{confinement.home}\nx\n")
    assert not (confinement.home / "x").exists()


def test_temporary_files_last_from_call_to_call_and_no_longer(bash: Bash, context: ToolContext) -> None:
    bash("echo kept > /tmp/x")
    assert "kept" in bash("cat /tmp/x").text
    lose_worker(bash, context)
    assert "No such file" in bash("cat /tmp/x").text


def test_a_sandbox_that_is_closed_runs_nothing(bash: Bash, sandbox: Sandbox) -> None:
    sandbox.close()
    with pytest.raises(ToolError, match="nothing was run: the sandbox is closed"):
        bash("touch x")


def test_an_output_too_long_for_a_result_is_kept_outside_and_can_be_read_inside(
    bash: Bash, sandbox: Sandbox, context: ToolContext
) -> None:
    text = bash("seq 1 20000").text
    assert len(text) <= MAX_RESULT_LENGTH
    found = re.search(r"the whole is in (\S+)", text)
    assert found
    path = Path(found[1])
    assert path.parent == context.spill_directory
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 20_001))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        tools(sandbox)["read_file"].run({"filepath": str(path), "offset": 20_000}, context).text.startswith("20000\n")
    )
    assert "Read-only" in bash(f"echo x >> {path}").text


def test_of_a_flood_only_the_beginning_is_kept_and_shown(
    bash: Bash, said: list[str], confinement: SandboxConfig
) -> None:
    text = bash("yes", timeout=0.5).text
    assert text.startswith("stopped after 0.5 s")
    assert "the first 1,048,576 bytes are in" in text
    assert len("".join(said)) < confinement.limits.output_size + 100
    assert "".join(said).endswith("[more output is not shown]\n")
    assert [path.stat().st_size for path in confinement.overflow_directory.iterdir()] == [
        confinement.limits.output_size
    ]


@pytest.mark.parametrize(
    "command", ["sleep 600 &", "setsid nohup sleep 600 > /dev/null 2>&1 &", "(setsid sleep 600 &);"]
)
def test_nothing_outlives_its_call(bash: Bash, context: ToolContext, command: str) -> None:
    text = bash(f"{command} echo done").text
    assert text.endswith("[what still ran was ended: in safe mode nothing outlives its call]")
    assert bash("cat /proc/[0-9]*/comm | grep -c sleep").text == "exit code: 1\nstdout:\n0\n"
    assert len(processes(context.directory)) <= 2  # bubblewrap and the worker


def test_a_time_out_ends_all_of_it(bash: Bash, context: ToolContext) -> None:
    start = time.monotonic()
    text = bash("setsid nohup sleep 600 > /dev/null 2>&1 & echo begun; sleep 600", timeout=0.3).text
    assert text.startswith("stopped after 0.3 s, with all that it had started\nstdout:\nbegun\n")
    assert time.monotonic() - start < 10
    assert "stdout:\n0\n" in bash("cat /proc/[0-9]*/comm | grep -c sleep").text


def test_a_worker_that_does_not_answer_is_replaced(bash: Bash, sandbox: Sandbox, context: ToolContext) -> None:
    os.mkfifo(context.directory / "fifo")
    bash("echo here > /tmp/x")
    [worker] = [
        one for one in processes(context.directory) if Path(f"/proc/{one}/stat").read_text().split()[1] != "(bwrap)"
    ]
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(ToolError, match="starts afresh"):
        sandbox.wrap_tool(BASH).run({"command": "touch never"}, context._replace(command_timeout=-6.5))
    assert not is_running(worker)
    assert "No such file" in bash("cat /tmp/x; ls never").text


def test_what_is_done_while_it_starts_is_done_for_each_worker_and_ends_it_where_it_fails(
    confinement: SandboxConfig, context: ToolContext
) -> None:
    seen = []

    def look() -> None:
        seen.append(processes(context.directory))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with Sandbox(confinement, during_start=look) as sandbox:
        lose_worker(lambda command: sandbox.wrap_tool(BASH).run({"command": command}, context), context)
        with pytest.raises(KeyboardInterrupt):
            sandbox.wrap_tool(BASH).run({"command": "true"}, context)
        assert all(seen)
        assert processes(context.directory) == []


def test_a_worker_that_dies_is_replaced(bash: Bash, sandbox: Sandbox, context: ToolContext) -> None:
    lose_worker(bash, context)
    assert bash("echo again").text == "exit code: 0\nstdout:\nagain\n"


def test_what_was_guarded_at_the_start_is_guarded_in_every_sandbox_after(
    confinement: SandboxConfig, context: ToolContext
) -> None:
    work = confinement.working_directory
    for name in ("deep/pkg/.git/hooks", "cfg"):
        (work / name).mkdir(parents=True)
    for name in ("deep/pkg/.env", "cfg/s"):
        (work / name).write_text("secret")
    (work / ".env").symlink_to("cfg/s")
    with Sandbox(confinement) as sandbox:

        def bash(command: str) -> ToolResult:
            return sandbox.wrap_tool(BASH).run({"command": command}, context)

        bash("rm .env; mkdir 00; touch 00/{1..3200}")
        lose_worker(bash, context)
        bash("mv deep old; mv deep/pkg deep/old; mv cfg new; echo x > deep/pkg/.git/hooks/pre-commit")
        assert "secret" not in bash("cat cfg/s new/s deep/pkg/.env").text
    assert list((work / "deep/pkg/.git/hooks").iterdir()) == []


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_moment_of_the_start_leaves_nothing(confinement: SandboxConfig, step: int) -> None:
    opens = f"""
import json, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from ask.safety.sandbox_config import SandboxConfig, Limits
from ask.safety.sandbox import Sandbox
print(flush=True)
with Sandbox({as_source(confinement)}):
    sys.stdin.read()
"""
    for moment in range(1, 21, step):
        with Running([sys.executable, "-c", opens], env={"PATH": os.environ["PATH"]}, cwd=Path("/")) as running:
            running.wait_for("\n")
            time.sleep(moment * 0.004)
            running.signal(signal.SIGINT)
            running.finish()
    deadline = time.monotonic() + 10
    while processes(confinement.working_directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes(confinement.working_directory) == []


def test_an_interrupt_ends_the_call_and_all_of_it(bash: Bash, sandbox: Sandbox, context: ToolContext) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sandbox.wrap_tool(BASH).run(
            {"command": "seq 1 9999; setsid sleep 600 & sleep 600"}, context._replace(on_output=interrupt)
        )
    assert processes(context.directory) == []
    assert list(context.spill_directory.iterdir()) == []
    assert bash("echo again").exit_status == 0


def test_the_worker_is_out_of_reach_of_its_calls(bash: Bash) -> None:
    said = bash(
        "cat /proc/1/environ; cat /proc/1/mem; cat /proc/1/fd/3; echo x > /proc/1/fd/4; cat /proc/1/auxv; "
        "ls -l /proc/1/cwd/;"
        "for s in KILL STOP INT TERM SEGV USR1; do kill -$s 1; done; renice 19 1; prlimit --pid 1 --nofile=3; "
        "ls /proc/self/fd"
    ).text
    assert said.count("Permission denied") == 6
    assert said.count("Operation not permitted") == 2
    assert set(re.findall(r"^\d+$", said, re.MULTILINE)) == {"0", "1", "2", "3"}  # 3 is that of ls
    assert bash("echo well").text.endswith("well\n")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(":(){ :|:& };:; sleep 20", marks=pytest.mark.slow),
        "for i in $(seq 400); do sleep 20 & done; wait",
    ],
)
def test_too_many_processes_end_the_call(here: Ground, command: str) -> None:
    said, after = here.bash(command, "echo well")
    assert "[all of it was ended: more than 256 processes and threads at a time]" in said
    assert after.endswith("well\n")


@pytest.mark.slow
def test_processes_that_end_are_not_counted(bash: Bash) -> None:
    assert (
        bash("for i in $(seq 400); do (true &); done; sleep 0.1; for i in $(seq 400); do (true &); done").exit_status
        == 0
    )


@pytest.mark.slow
def test_memory_is_limited_for_one_process_and_for_all(confinement: SandboxConfig, context: ToolContext) -> None:
    small = confinement._replace(limits=Limits(memory=200 << 20))
    block = 'x = bytearray(b"x") * ({size} << 20); print(len(x)); import time; time.sleep(20)'
    with Sandbox(small) as sandbox:
        bash = sandbox.wrap_tool(BASH)
        one = bash.run({"command": f"/usr/bin/env python3 -c '{block.format(size=300)}'"}, context).text
        assert "MemoryError" in one
        several = " & ".join([f"python3 -c '{block.format(size=100)}'"] * 4)
        assert "more than 200 MiB of memory" in bash.run({"command": f"{several} & wait"}, context).text


@pytest.mark.slow
def test_memory_that_belongs_to_no_process_is_not_counted(confinement: SandboxConfig, context: ToolContext) -> None:
    fills = "import os, time; os.posix_fallocate(os.memfd_create('x'), 0, 300 << 20); time.sleep(0.3); print('filled')"
    with Sandbox(confinement._replace(limits=Limits(memory=200 << 20))) as small:
        said = small.wrap_tool(BASH).run({"command": f'python3 -c "{fills}"'}, context).text
    assert "filled" in said, "a known gap: say so in the documentation if it closes"


def test_a_file_is_limited(confinement: SandboxConfig, context: ToolContext) -> None:
    with Sandbox(confinement._replace(limits=Limits(file_size=1 << 20))) as sandbox:
        sandbox.wrap_tool(BASH).run({"command": "head -c 5000000 /dev/zero > big"}, context)
        assert (context.directory / "big").stat().st_size == 1 << 20
        full = sandbox.wrap_tool(BASH).run(
            {"command": "head -c 5000000 /dev/zero > /tmp/big; stat -c %s /tmp/big"}, context
        )
        assert "1048576" in full.text


def test_what_is_allowed_can_be_written_too(here: Ground) -> None:
    [said] = here.bash(
        "echo x > @outside@/new; echo x > @outside@/.git/x; cat @home@/.netrc", allowed=[str(here.base / "outside")]
    )
    assert (here.base / "outside/new").read_text() == "x\n"
    assert "Read-only" in said
    assert sorted(path.name for path in (here.base / "outside").iterdir()) == ["new", "secret"]


def test_a_worktree_s_git_file_stays_what_it_is(bash: Bash, sandbox: Sandbox, confinement: SandboxConfig) -> None:
    sandbox.close()
    git = confinement.working_directory / ".git"
    git.write_text("gitdir: /elsewhere/.git/worktrees/x\n")
    with Sandbox(confinement) as another:
        context = ToolContext(confinement.working_directory, {}, 20, confinement.overflow_directory, lambda text: None)
        command = "echo x > .git; rm -f .git; mv .git x; ln -sf x .git; cat .git"
        assert "gitdir: /elsewhere" in another.wrap_tool(BASH).run({"command": command}, context).text
    assert git.read_text() == "gitdir: /elsewhere/.git/worktrees/x\n"


def test_where_ask_cannot_write_its_notes_there_is_no_sandbox(confinement: SandboxConfig) -> None:
    confinement.state_folder.write_text("a file where the folder should be")
    with pytest.raises(SafetyError, match="--safe cannot use"):
        Sandbox(confinement)


def test_a_folder_that_was_moved_away_is_not_followed(bash: Bash, context: ToolContext) -> None:
    lose_worker(bash, context)
    work = context.directory
    work.rename(work.with_name("elsewhere"))
    work.symlink_to(work.with_name("home"))
    with pytest.raises(ToolError, match=r"nothing was run: .* is not the folder any more"):
        bash("touch x")
    assert list(work.with_name("home").iterdir()) == []


def test_nothing_is_left(here: Ground) -> None:
    before = {path: path.lstat().st_mode for path in here.work.rglob("*")}
    here.bash("true", "sleep 600 & true")
    assert {path: path.lstat().st_mode for path in here.work.rglob("*")} == before
    assert processes(here.work) == []


def test_nothing_is_left_of_a_run_that_was_killed_once_the_next_one_starts(here: Ground) -> None:
    other = here.base / "outside"
    with here.start(
        [("bash", {"command": "touch began; setsid sleep 600 & sleep 600"})], allowed=[str(other)]
    ) as running:
        running.wait_for("pid")
        deadline = time.monotonic() + 10
        while not (here.work / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (other / ".git").is_dir()
        running.signal(signal.SIGKILL)
        running.finish()
    while processes(here.work) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes(here.work) == []
    here.bash("true")
    assert not (other / ".git").exists()
    assert not (here.work / ".vscode").exists()
