"""Escapes that need more than a call: a terminal, a key, arguments that no tool has, and URLs that lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests import wire
from tests.escapes.confined import bash, rules, run, started
from tests.escapes.escape import python
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY
from tests.safety.ground import Ground

TYPED = "typed-by-the-model"
TYPE = (
    'import fcntl, os; d = os.open("{terminal}", os.O_RDWR); [fcntl.ioctl(d, 0x5412, bytes([c])) for c in b"'
    + TYPED
    + '"]'
)


def shown_after_typing(here: Ground, *options: str) -> bytes:
    """What the terminal of a run showed, in which the model types into it."""
    with ModelServer() as server:
        processes: list[int] = []

        def call(request: Request) -> Reply:
            terminal = os.readlink(f"/proc/{processes[0]}/fd/0")
            return wire.calls(*bash(here.fill(python(TYPE.format(terminal=terminal)))))

        server.reply(call, wire.says("Done."))
        with started(here, server, *options, terminal=True) as running:
            processes.append(running.process.pid)
            running.finish()
            shown = bytes(running.stdout)
    # The call itself is shown too, on the one line that begins with its name.
    return b"\n".join(line for line in shown.splitlines() if b"import fcntl" not in line and b"typed-by" in line)


def test_no_command_can_type_into_the_terminal(here: Ground, record_property: Callable[[str, object], None]) -> None:
    if not shown_after_typing(here):
        reason = "the kernel lets only root do it, or nobody"
        record_property("not tried here", f"{here.user}: typing into ask's own terminal ({reason})")
    assert not shown_after_typing(here, "--safe")


def test_no_argument_of_a_call_changes_the_folder_or_turns_safe_mode_off(here: Ground) -> None:
    wishes: list[dict[str, object]] = [
        {"cwd": "/"},
        {"directory": "/"},
        {"safe": False},
        {"sandbox": False},
        {"unconfined": True},
    ]
    calls = [("bash", {"command": "touch ran", **wish}) for wish in wishes]
    done = run(here, calls, "--safe")
    assert done.rules == ["!unreadable"] * len(wishes)
    assert not (here.work / "ran").exists()


def test_keys_in_files_and_command_output_are_not_sent(here: Ground) -> None:
    (here.work / "key").write_text(f"{TEST_KEY} and more")
    here.hand_over()
    calls = [*bash("cat key; tr a-z A-Z < key; head -c 99 key"), ("read_file", {"filepath": "key"})]
    done = run(here, calls, "--safe")
    assert all("[key removed] and more" in said for said in done.said)
    assert all(TEST_KEY not in said for said in done.said)


REFUSED = {
    "http://2130706433:{port}/": "!no host",
    "http://0x7f000001:{port}/": "!no host",
    "http://allowed.test@127.0.0.1:{port}/": "!no host",
    "http://127.0.0.1%00.allowed.test:{port}/": "!no host",
    "http://[::1%25lo]:{port}/": "!no host",
    "http://allowed.test.evil.test:{port}/": "!host allowed.test.evil.test: nobody to ask",
    "http://evil.test/allowed.test": "!host evil.test: nobody to ask",
    "file:///etc/passwd": "!no host",
}
"""URLs that are refused before anything is looked up, and the rule by which they are."""
NOT_PUBLIC = ("127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "169.254.169.254", "[::1]", "0.0.0.0", "10.0.0.1")
"""Hosts that may not be reached even where the user names them."""


def test_urls_with_a_misleading_host_are_not_fetched(here: Ground) -> None:
    urls = [url.format(port=here.fill("@tcp@")) for url in REFUSED]
    calls = [("fetch_url", {"url": url}) for url in urls]
    done = run(here, calls, "--safe", "--allow-host", "allowed.test")
    assert dict(zip(REFUSED, done.rules, strict=True)) == REFUSED
    assert done.ended.code == 8
    assert "GET" not in here.listener.heard()


def test_private_addresses_are_not_reached_even_if_allowed(here: Ground) -> None:
    calls = [("fetch_url", {"url": f"http://{host}:{here.fill('@tcp@')}/"}) for host in NOT_PUBLIC]
    options = [option for host in NOT_PUBLIC for option in ("--allow-host", host)]
    done = run(here, calls, "--safe", *options)
    assert len(done.said) == len(NOT_PUBLIC)
    assert [said for said in done.said if "public hosts" not in said] == []
    assert "GET" not in here.listener.heard()
    free = run(here, calls[:3])
    assert here.listener.heard().count("GET") >= 2, free.said


def test_yes_allows_nothing_that_the_sandbox_forbids(here: Ground) -> None:
    calls = [*bash("echo x > @outside@/x; rm -rf x"), ("fetch_url", {"url": "http://evil.test/"})]
    done = run(here, calls, "--safe", "--confirm", "--yes")
    assert not (here.base / "outside/x").exists()
    assert done.rules == ["--yes", "!host evil.test: nobody to ask"]
    assert rules(here) == done.rules
