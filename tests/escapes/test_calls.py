"""Escapes that need more than a single call: a terminal, a key, unknown arguments, and misleading URLs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests import wire
from tests.escapes.escape import python
from tests.escapes.safe_runs import bash, create_ask_host, rules, run, start_ask
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY
from tests.safety.fake_host import TOKEN, FakeHost
from tests.safety.installation import USERS

pytestmark = pytest.mark.needs("bwrap")

TYPED = "typed-by-the-model"
TYPE = (
    'import fcntl, os; d = os.open("{terminal}", os.O_RDWR); [fcntl.ioctl(d, 0x5412, bytes([c])) for c in b"'
    + TYPED
    + '"]'
)


def read_terminal_after_typing(host: FakeHost, *options: str) -> bytes:
    """Let the model inject input into the terminal of a run and return what the terminal showed."""
    with ModelServer() as server:
        processes: list[int] = []

        def call(request: Request) -> Reply:
            terminal = os.readlink(f"/proc/{processes[0]}/fd/0")
            return wire.calls(*bash(host.fill(python(TYPE.format(terminal=terminal)))))

        server.reply(call, wire.says("Done."))
        with start_ask(host, server, *options, terminal=True) as running:
            processes.append(running.process.pid)
            running.finish()
            shown = bytes(running.stdout)
    # The call itself is shown too, on the one line that begins with its name.
    return b"\n".join(line for line in shown.splitlines() if b"import fcntl" not in line and b"typed-by" in line)


@pytest.mark.slow
def test_no_command_can_type_into_the_terminal(host: FakeHost, record_property: Callable[[str, object], None]) -> None:
    if not read_terminal_after_typing(host):
        reason = "the kernel lets only root do it, or nobody"
        record_property("not tried here", f"{host.user}: typing into ask's own terminal ({reason})")
    assert not read_terminal_after_typing(host, "--safe")


def test_no_argument_of_a_call_changes_the_folder_or_turns_safe_mode_off(host: FakeHost) -> None:
    wishes: list[dict[str, object]] = [
        {"cwd": "/"},
        {"directory": "/"},
        {"safe": False},
        {"sandbox": False},
        {"unconfined": True},
    ]
    calls = [("bash", {"command": "touch ran", **wish}) for wish in wishes]
    done = run(host, calls, "--safe")
    assert done.rules == ["!unreadable"] * len(wishes)
    assert not (host.work / "ran").exists()


def test_keys_in_files_and_command_output_are_not_sent(host: FakeHost) -> None:
    (host.work / "key").write_text(f"{TEST_KEY} and more")
    host.change_owner()
    calls = [*bash("cat key; tr a-z A-Z < key; head -c 99 key"), ("read_file", {"filepath": "key"})]
    done = run(host, calls, "--safe")
    assert all("[key removed] and more" in output for output in done.outputs)
    assert all(TEST_KEY not in output for output in done.outputs)


REFUSED = {
    "http://2130706433:{port}/": "!host refused",
    "http://0x7f000001:{port}/": "!host refused",
    "http://allowed.test@127.0.0.1:{port}/": "!host refused",
    "http://127.0.0.1%00.allowed.test:{port}/": "!host refused",
    "http://[::1%25lo]:{port}/": "!host refused",
    "http://allowed.test.evil.test:{port}/": "!host allowed.test.evil.test: no terminal",
    "http://sub.allowed.test:{port}/": "!host sub.allowed.test: no terminal",
    "http://notallowed.test:{port}/": "!host notallowed.test: no terminal",
    "http://evil.test/allowed.test": "!host evil.test: no terminal",
    "file:///etc/passwd": "!host refused",
}
"""URLs that are refused before anything is looked up, and the rule by which they are."""
NOT_PUBLIC = ("127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "169.254.169.254", "[::1]", "0.0.0.0", "10.0.0.1")
"""Hosts that may not be reached even where the user names them."""


@pytest.mark.slow
def test_urls_with_a_misleading_host_are_not_fetched(host: FakeHost) -> None:
    urls = [url.format(port=host.fill("@tcp@")) for url in REFUSED]
    calls = [("fetch_url", {"url": url}) for url in urls]
    done = run(host, calls, "--safe", "--allow-host", "allowed.test")
    assert dict(zip(REFUSED, done.rules, strict=True)) == REFUSED
    assert done.result.code == 8
    assert "GET" not in host.listener.read_received()


@pytest.mark.slow
def test_private_addresses_are_not_reached_even_if_allowed(host: FakeHost) -> None:
    calls = [("fetch_url", {"url": f"http://{address}:{host.fill('@tcp@')}/"}) for address in NOT_PUBLIC]
    options = [option for address in NOT_PUBLIC for option in ("--allow-host", address)]
    done = run(host, calls, "--safe", *options)
    assert len(done.outputs) == len(NOT_PUBLIC)
    assert [text for text in done.outputs if "public hosts" not in text] == []
    assert "GET" not in host.listener.read_received()
    free = run(host, calls[:3])
    assert host.listener.read_received().count("GET") >= 2, free.outputs


def test_yes_allows_nothing_that_the_sandbox_forbids(host: FakeHost) -> None:
    calls = [*bash("echo x > @outside@/x; rm -rf x"), ("fetch_url", {"url": "http://evil.test/"})]
    done = run(host, calls, "--safe", "--confirm", "--yes")
    assert not (host.base / "outside/x").exists()
    assert done.rules == ["--yes", "!host evil.test: no terminal"]
    assert rules(host) == done.rules


@pytest.mark.slow
def test_a_folder_whose_name_begins_like_that_of_a_system_folder_cannot_be_read() -> None:
    if "root" not in USERS:  # others cannot create a folder there
        return
    folder = Path(mkdtemp(prefix="library-", dir="/"))
    try:
        folder.chmod(0o755)
        (folder / "notes").write_text(TOKEN)
        with create_ask_host("root") as host:
            outputs = [run(host, bash(f"cat {folder}/notes"), option).outputs[0] for option in ("--no-stdin", "--safe")]
    finally:
        shutil.rmtree(folder)
    assert [TOKEN in output for output in outputs] == [True, False]
