"""Calls in a sandbox: results, cleanup and failures."""

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
from ask.safety.folder_scan import MAX_SCANNED_ENTRIES
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import Limits, SandboxConfig
from ask.text_diff import TextDiff
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult
from ask.tools.definitions import BASH, BUILTIN_TOOLS
from ask.tools.output_limits import MAX_RESULT_CHARACTERS, truncate_result
from ask.tools.shell import UNATTENDED_VARIABLES
from tests.program import Running, is_running
from tests.safety.conftest import Bash
from tests.safety.fake_host import FakeHost
from tests.safety.traces import processes

pytestmark = pytest.mark.needs("bwrap")


def lose_worker(bash: Bash, context: RunToolContext) -> None:
    for one in processes(context.directory):
        os.kill(one, signal.SIGKILL)
    with pytest.raises(ToolError, match="the sandbox was closed during this call"):
        bash("true")


def as_source(sandbox_config: SandboxConfig) -> str:
    """Return Python source code that recreates the value."""
    return repr(sandbox_config).replace("PosixPath", "Path")


def tools(sandbox: Sandbox) -> dict[str, Tool]:
    return {tool.spec.name: sandbox.wrap_tool(tool) for tool in BUILTIN_TOOLS}


def test_a_wrapped_tool_differs_only_in_run(sandbox: Sandbox, context: RunToolContext) -> None:
    for tool in BUILTIN_TOOLS:
        assert sandbox.wrap_tool(tool)._replace(run=tool.run) == tool


def test_all_tools_work(sandbox: Sandbox, context: RunToolContext) -> None:
    confined = tools(sandbox)
    path = context.directory / "sub" / "ü.txt"
    made = confined["write_file"].run({"filepath": "sub/ü.txt", "content": "eins\nzwei\n"}, context)
    assert made == ToolResult("created sub/ü.txt: 10 bytes", diff=TextDiff(("@@ -0,0 +1,2 @@", "+eins", "+zwei"), 2))
    confined["edit_file"].run({"filepath": "sub/ü.txt", "old_text": "zwei", "new_text": "drei"}, context)
    assert path.read_text() == "eins\ndrei\n"
    assert confined["read_file"].run({"filepath": str(path), "offset": 2}, context).text.startswith("drei\n")
    assert "file 10 ü.txt" in confined["list_dir"].run({"dirpath": "sub"}, context).text
    assert confined["bash"].run({"command": "cat sub/*; exit 3"}, context) == ToolResult(
        "exit code: 3\nstdout:\neins\ndrei\n", True, 3
    )


def test_tool_errors_are_passed_on(sandbox: Sandbox, context: RunToolContext) -> None:
    with pytest.raises(ToolError, match="no such file"):
        tools(sandbox)["read_file"].run({"filepath": "missing"}, context)
    with pytest.raises(ToolError, match="NUL"):
        tools(sandbox)["bash"].run({"command": "a\0b"}, context)


def test_a_hidden_file_is_not_described_as_a_device(sandbox_config: SandboxConfig, context: RunToolContext) -> None:
    (context.directory / ".env").write_text("A=1")
    with Sandbox(sandbox_config) as sandbox:
        confined = tools(sandbox)
        calls = {"read_file": {}, "write_file": {"content": ""}, "edit_file": {"old_text": "a", "new_text": "b"}}
        for name, arguments in calls.items():
            with pytest.raises(ToolError, match="hidden in safe mode"):
                confined[name].run({"filepath": ".env", **arguments}, context)
        with pytest.raises(ToolError, match="a device"):
            confined["read_file"].run({"filepath": "/dev/null"}, context)


@pytest.mark.slow
def test_large_files_and_unusual_text_are_unchanged(sandbox: Sandbox, context: RunToolContext) -> None:
    confined = tools(sandbox)
    confined["write_file"].run({"filepath": "large", "content": "é\n" * 3_000_000}, context)
    assert (context.directory / "large").stat().st_size == 9_000_000
    with pytest.raises(ToolError, match="over the limit"):
        confined["write_file"].run({"filepath": "larger", "content": "x" * 10_500_000}, context)
    assert "U+FFFD" in confined["write_file"].run({"filepath": "odd", "content": "\ud83d"}, context).text


def test_a_tool_that_is_not_builtin_is_not_run(sandbox: Sandbox, context: RunToolContext) -> None:
    strange = BASH._replace(spec=BASH.spec._replace(name="strange"))
    with pytest.raises(ToolError, match="does not have this tool"):
        sandbox.wrap_tool(strange).run({"command": "touch x"}, context)


def test_output_is_reported_immediately(bash: Bash, context: RunToolContext, sandbox: Sandbox) -> None:
    done = context.directory / "done"
    shown: list[tuple[str, bool]] = []
    watching = context._replace(on_output=lambda text: shown.append((text, done.exists())))
    sandbox.wrap_tool(BASH).run({"command": "echo one; sleep 0.2; echo two >&2; sleep 0.2; touch done"}, watching)
    assert shown == [("one\n", False), ("two\n", False)]


def test_the_environment_has_only_the_expected_variables(bash: Bash, sandbox_config: SandboxConfig) -> None:
    names = set(re.findall(r"^(\w+)=", bash("env -u BASH_ENV env").text, re.MULTILINE))
    own_names = {"PWD", "OLDPWD", "SHLVL", "_", "ASK_CALL", *UNATTENDED_VARIABLES}
    assert names - own_names == {"PATH", "HOME", "LANG", "TMPDIR"}
    assert bash("echo $HOME; ls -A ~; echo x > ~/x && cat ~/x").text.endswith(f"{sandbox_config.home}\nx\n")
    assert not (sandbox_config.home / "x").exists()


def test_temporary_files_last_until_the_sandbox_is_closed(bash: Bash, context: RunToolContext) -> None:
    bash("echo kept > /tmp/x")
    assert "kept" in bash("cat /tmp/x").text
    lose_worker(bash, context)
    assert "No such file" in bash("cat /tmp/x").text


def test_a_closed_sandbox_runs_nothing(bash: Bash, sandbox: Sandbox) -> None:
    sandbox.close()
    with pytest.raises(ToolError, match="nothing was run: the sandbox is closed"):
        bash("touch x")


def test_long_output_is_saved_outside_and_readable_inside(
    bash: Bash, sandbox: Sandbox, context: RunToolContext
) -> None:
    full_text = bash("seq 1 20000").text
    text = truncate_result(full_text, context)
    assert len(text) <= MAX_RESULT_CHARACTERS
    found = re.search(r"the full output is in (\S+)", text)
    assert found
    path = Path(found[1])
    assert path.parent == context.overflow_directory
    assert path.read_text() == full_text
    assert full_text.endswith("stdout:\n" + "".join(f"{number}\n" for number in range(1, 20_001)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        tools(sandbox)["read_file"].run({"filepath": str(path), "offset": 20_002}, context).text.startswith("20000\n")
    )
    assert "Read-only" in bash(f"echo x >> {path}").text


@pytest.mark.slow
def test_endless_output_is_cut_off(bash: Bash, output: list[str], sandbox_config: SandboxConfig) -> None:
    text = bash("yes", timeout=0.5).text
    assert text.startswith("timed out after 0.5 s")
    assert "characters omitted; they could not be saved to a file" in text
    assert len(text) <= sandbox_config.limits.output_size
    assert len("".join(output)) < sandbox_config.limits.output_size + 100
    assert "".join(output).endswith("[more output is not shown]\n")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "command", ["sleep 600 &", "setsid nohup sleep 600 > /dev/null 2>&1 &", "(setsid sleep 600 &);"]
)
def test_no_process_outlives_its_call(bash: Bash, context: RunToolContext, command: str) -> None:
    text = bash(f"{command} echo done").text
    assert text.endswith("[background processes were killed: in safe mode, no process outlives its call]")
    assert bash("cat /proc/[0-9]*/comm | grep -c sleep").text == "exit code: 1\nstdout:\n0\n"
    assert len(processes(context.directory)) <= 2  # bubblewrap and the worker


def test_a_timeout_kills_all_processes(bash: Bash, context: RunToolContext) -> None:
    start = time.monotonic()
    text = bash("setsid nohup sleep 600 > /dev/null 2>&1 & echo begun; sleep 600", timeout=1.5).text
    assert text.startswith("timed out after 1.5 s; the command and its children were killed; ")
    assert text.endswith("\nstdout:\nbegun\n")
    assert time.monotonic() - start < 30
    assert "stdout:\n0\n" in bash("cat /proc/[0-9]*/comm | grep -c sleep").text


def test_a_worker_that_does_not_answer_is_replaced(bash: Bash, sandbox: Sandbox, context: RunToolContext) -> None:
    os.mkfifo(context.directory / "fifo")
    bash("echo here > /tmp/x")
    [worker] = [
        one for one in processes(context.directory) if Path(f"/proc/{one}/stat").read_text().split()[1] != "(bwrap)"
    ]
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(ToolError, match="was restarted"):
        sandbox.wrap_tool(BASH).run({"command": "touch never"}, context._replace(command_timeout=-6.5))
    assert not is_running(worker)
    assert "No such file" in bash("cat /tmp/x; ls never").text


def test_during_start_is_called_for_each_worker_and_its_failure_ends_it(
    sandbox_config: SandboxConfig, context: RunToolContext
) -> None:
    seen = []

    def look() -> None:
        seen.append(processes(context.directory))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with Sandbox(sandbox_config, during_start=look) as sandbox:
        lose_worker(lambda command: sandbox.wrap_tool(BASH).run({"command": command}, context), context)
        with pytest.raises(KeyboardInterrupt):
            sandbox.wrap_tool(BASH).run({"command": "true"}, context)
        assert all(seen)
        assert processes(context.directory) == []


def test_a_worker_that_dies_is_replaced(bash: Bash, sandbox: Sandbox, context: RunToolContext) -> None:
    lose_worker(bash, context)
    assert bash("echo again").text == "exit code: 0\nstdout:\nagain\n"


@pytest.mark.slow
def test_protected_paths_stay_protected_after_a_restart(sandbox_config: SandboxConfig, context: RunToolContext) -> None:
    work = sandbox_config.working_directory
    for name in ("deep/er/pkg/.git/hooks", "cfg"):
        (work / name).mkdir(parents=True)
    for name in ("deep/er/pkg/.env", "cfg/s"):
        (work / name).write_text("secret")
    (work / ".env").symlink_to("cfg/s")
    with Sandbox(sandbox_config) as sandbox:

        def bash(command: str) -> ToolResult:
            return sandbox.wrap_tool(BASH).run({"command": command}, context)

        # More than the second scan can look at before it reaches the package.
        bash(f"rm .env; mkdir -p 00/{{1..5}}; touch 00/{{1..5}}/{{1..{MAX_SCANNED_ENTRIES // 5 + 1}}}")
        lose_worker(bash, context)
        bash("mv deep old; mv deep/er/pkg deep/er/old; mv cfg new; echo x > deep/er/pkg/.git/hooks/pre-commit")
        assert "secret" not in bash("cat cfg/s new/s deep/er/pkg/.env").text
    assert list((work / "deep/er/pkg/.git/hooks").iterdir()) == []


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_interrupt_during_the_start_leaves_no_processes(sandbox_config: SandboxConfig, step: int) -> None:
    opens = f"""
import json, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from ask.safety.sandbox_config import SandboxConfig, Limits
from ask.safety.sandbox import Sandbox
print(flush=True)
with Sandbox({as_source(sandbox_config)}):
    sys.stdin.read()
"""
    for moment in range(1, 21, step):
        with Running([sys.executable, "-c", opens], env={"PATH": os.environ["PATH"]}, cwd=Path("/")) as running:
            running.wait_for("\n")
            time.sleep(moment * 0.004)
            running.signal(signal.SIGINT)
            running.finish()
    deadline = time.monotonic() + 30
    while processes(sandbox_config.working_directory) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes(sandbox_config.working_directory) == []


@pytest.fixture
def toolchain(sandbox_config: SandboxConfig, tmp_path: Path) -> tuple[Path, SandboxConfig]:
    """A folder that calls can read, with a secret, and a sandbox that has it."""
    folder = tmp_path / "toolchain"
    folder.mkdir()
    (folder / "lasting.env").write_text("TOKEN=secret")
    return folder, sandbox_config._replace(readable_folders=(*sandbox_config.readable_folders, folder))


def read_toolchain(sandbox: Sandbox, context: RunToolContext, folder: Path) -> str:
    return sandbox.wrap_tool(BASH).run({"command": f"ls {folder}; cat {folder}/*"}, context).text


@pytest.mark.needs("bwrap", "root")  # nobody else can own a program that is trusted
def test_a_private_file_vanishes_before_it_is_hidden(
    toolchain: tuple[Path, SandboxConfig], context: RunToolContext, tmp_path: Path
) -> None:
    folder, config = toolchain
    (folder / "1.env").write_text("TOKEN=secret")
    program = tmp_path / "bwrap"
    program.write_text(f"""#!/bin/sh
cd {folder}
for number in 1 2 3
do
    if [ -e $number.env ]
    then
        mv $number.env $((number + 1)).env
        break
    fi
done
exec /usr/bin/bwrap "$@"
""")
    program.chmod(0o755)
    with Sandbox(config, [str(program)]) as sandbox:
        text = read_toolchain(sandbox, context, folder)
    assert "4.env" in text
    assert "secret" not in text


@pytest.mark.slow
def test_private_files_come_and_go_while_sandboxes_open(
    toolchain: tuple[Path, SandboxConfig], context: RunToolContext
) -> None:
    folder, config = toolchain
    comes_and_goes = f"""
import random, time
from pathlib import Path
files = [Path({str(folder)!r}, name + ".env") for name in ("group", "passwd", "shadow")]
while True:
    for file in files:
        file.write_text("")
        time.sleep(0.005)
    time.sleep(random.random() * 0.05)
    for file in files:
        file.unlink()
    time.sleep(random.random() * 0.2)
"""
    with Running([sys.executable, "-c", comes_and_goes], env={}, cwd=folder) as running:
        for _ in range(20):
            with Sandbox(config) as sandbox:
                assert "secret" not in read_toolchain(sandbox, context, folder)
        running.signal(signal.SIGKILL)


def test_an_interrupt_kills_all_processes_of_the_call(bash: Bash, sandbox: Sandbox, context: RunToolContext) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sandbox.wrap_tool(BASH).run(
            {"command": "seq 1 9999; setsid sleep 600 & sleep 600"}, context._replace(on_output=interrupt)
        )
    assert processes(context.directory) == []
    assert list(context.overflow_directory.iterdir()) == []
    assert bash("echo again").exit_status == 0


def test_calls_cannot_access_the_worker(bash: Bash) -> None:
    output = bash(
        "cat /proc/1/environ; cat /proc/1/mem; cat /proc/1/fd/3; echo x > /proc/1/fd/4; cat /proc/1/auxv; "
        "ls -l /proc/1/cwd/;"
        "for s in KILL STOP INT TERM SEGV USR1; do kill -$s 1; done; renice 19 1; prlimit --pid 1 --nofile=3; "
        "ls /proc/self/fd"
    ).text
    assert output.count("Permission denied") == 6
    assert output.count("Operation not permitted") == 2
    assert set(re.findall(r"^\d+$", output, re.MULTILINE)) == {"0", "1", "2", "3"}  # 3 is that of ls
    assert bash("echo well").text.endswith("well\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ":(){ :|:& };:; sleep 20",
        "for i in $(seq 400); do sleep 20 & done; wait",
    ],
)
def test_too_many_processes_end_the_call(host: FakeHost, command: str) -> None:
    output, after = host.bash(command, "echo well")
    assert "[the command and its children were killed: more than 256 processes and threads at a time]" in output
    assert after.endswith("well\n")


@pytest.mark.slow
def test_processes_that_end_are_not_counted(bash: Bash) -> None:
    assert (
        bash("for i in $(seq 400); do (true &); done; sleep 0.1; for i in $(seq 400); do (true &); done").exit_status
        == 0
    )


@pytest.mark.slow
def test_no_process_stays_stopped_after_processes_were_counted(bash: Bash) -> None:
    for _ in range(30):
        assert bash("for i in $(seq 800); do (true &); done").exit_status == 0


@pytest.mark.slow
def test_memory_is_limited_for_one_process_and_for_all(sandbox_config: SandboxConfig, context: RunToolContext) -> None:
    small = sandbox_config._replace(limits=Limits(memory=200 << 20))
    block = 'x = bytearray(b"x") * ({size} << 20); print(len(x)); import time; time.sleep(20)'
    with Sandbox(small) as sandbox:
        bash = sandbox.wrap_tool(BASH)
        one = bash.run({"command": f"/usr/bin/env python3 -c '{block.format(size=300)}'"}, context).text
        assert "MemoryError" in one
        several = " & ".join([f"python3 -c '{block.format(size=100)}'"] * 4)
        assert "more than 200 MiB of memory" in bash.run({"command": f"{several} & wait"}, context).text


@pytest.mark.slow
def test_memory_that_belongs_to_no_process_is_not_counted(
    sandbox_config: SandboxConfig, context: RunToolContext
) -> None:
    fills = "import os, time; os.posix_fallocate(os.memfd_create('x'), 0, 300 << 20); time.sleep(0.3); print('filled')"
    with Sandbox(sandbox_config._replace(limits=Limits(memory=200 << 20))) as small:
        output = small.wrap_tool(BASH).run({"command": f'python3 -c "{fills}"'}, context).text
    assert "filled" in output, "a known gap: say so in the documentation if it closes"


def test_the_size_of_all_files_together_is_not_limited(sandbox_config: SandboxConfig, context: RunToolContext) -> None:
    fills = "for i in 1 2 3; do head -c 900K /dev/zero > $i; done; head -c 1100K /dev/zero > 4"
    with Sandbox(sandbox_config._replace(limits=Limits(file_size=1 << 20, temporary_size=1 << 20))) as small:
        small.wrap_tool(BASH).run({"command": fills}, context)
    sizes = [(sandbox_config.working_directory / name).stat().st_size for name in "1234"]
    assert sizes == [*[900 << 10] * 3, 1 << 20]


def test_file_size_is_limited(sandbox_config: SandboxConfig, context: RunToolContext) -> None:
    with Sandbox(sandbox_config._replace(limits=Limits(file_size=1 << 20))) as sandbox:
        sandbox.wrap_tool(BASH).run({"command": "head -c 5000000 /dev/zero > big"}, context)
        assert (context.directory / "big").stat().st_size == 1 << 20
        full = sandbox.wrap_tool(BASH).run(
            {"command": "head -c 5000000 /dev/zero > /tmp/big; stat -c %s /tmp/big"}, context
        )
        assert "1048576" in full.text


def test_nothing_can_be_created_in_the_folders_of_the_sandbox_itself(bash: Bash) -> None:
    command = 'for d in / /dev /proc /run /var /usr /etc; do touch "$d/ask-test" || echo refused; done'
    assert bash(command).text.count("refused") == 7


def test_allowed_folders_are_writable(host: FakeHost) -> None:
    [output] = host.bash(
        "echo x > @outside@/new; echo x > @outside@/.git/x; cat @home@/.netrc", allowed=[str(host.base / "outside")]
    )
    assert (host.base / "outside/new").read_text() == "x\n"
    assert "Read-only" in output
    assert sorted(path.name for path in (host.base / "outside").iterdir()) == ["new", "secret"]


def test_the_git_file_of_a_worktree_is_protected(bash: Bash, sandbox: Sandbox, sandbox_config: SandboxConfig) -> None:
    sandbox.close()
    git = sandbox_config.working_directory / ".git"
    git.write_text("gitdir: /elsewhere/.git/worktrees/x\n")
    with Sandbox(sandbox_config) as another:
        context = RunToolContext(
            sandbox_config.working_directory, {}, 20, sandbox_config.overflow_directory, lambda text: None
        )
        command = "echo x > .git; rm -f .git; mv .git x; ln -sf x .git; cat .git"
        assert "gitdir: /elsewhere" in another.wrap_tool(BASH).run({"command": command}, context).text
    assert git.read_text() == "gitdir: /elsewhere/.git/worktrees/x\n"


def test_an_unwritable_state_folder_is_an_error(sandbox_config: SandboxConfig) -> None:
    sandbox_config.state_folder.write_text("a file where the folder should be")
    with pytest.raises(SafetyError, match="--safe cannot use") as raised:
        Sandbox(sandbox_config)
    assert "XDG_DATA_HOME" in raised.value.hint


def test_a_replaced_working_directory_is_not_followed(bash: Bash, context: RunToolContext) -> None:
    lose_worker(bash, context)
    work = context.directory
    work.rename(work.with_name("elsewhere"))
    work.symlink_to(work.with_name("home"))
    with pytest.raises(ToolError, match=r"nothing was run: .* was replaced"):
        bash("touch x")
    assert list(work.with_name("home").iterdir()) == []


def test_closing_leaves_no_processes_or_files(host: FakeHost) -> None:
    before = {path: path.lstat().st_mode for path in host.work.rglob("*")}
    host.bash("true", "sleep 600 & true")
    assert {path: path.lstat().st_mode for path in host.work.rglob("*")} == before
    assert processes(host.work) == []


@pytest.mark.slow
def test_the_next_run_removes_everything_of_a_killed_run(host: FakeHost) -> None:
    other = host.base / "outside"
    with host.start(
        [("bash", {"command": "touch began; setsid sleep 600 & sleep 600"})], allowed=[str(other)]
    ) as running:
        running.wait_for("pid")
        deadline = time.monotonic() + 30
        while not (host.work / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (other / ".git").is_dir()
        running.signal(signal.SIGKILL)
        running.finish()
    while processes(host.work) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes(host.work) == []
    host.bash("true")
    assert not (other / ".git").exists()
    assert not (host.work / ".vscode").exists()
