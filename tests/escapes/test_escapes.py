"""No escape from `ask --safe` succeeds. Each succeeds without it, because otherwise the test would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.escapes.by_files import LINKS, PATHS, POISONING
from tests.escapes.by_system import ENVIRONMENT, KERNEL, NETWORK, RESOURCES
from tests.escapes.escape import Escape
from tests.escapes.safe_runs import Run, create_ask_host, run
from tests.safety.installation import USERS

pytestmark = pytest.mark.needs("bwrap")

GROUPS: Mapping[str, list[Escape]] = {
    "paths": PATHS,
    "links": LINKS,
    "environment": ENVIRONMENT,
    "network": NETWORK,
    "kernel": KERNEL,
    "resources": RESOURCES,
    "poisoning": POISONING,
}
USER_S_OWN = {"BASH_ENV": "@home@/.bash_env", "LD_PRELOAD": "/missing/preloaded.so"}
QUICK = [name for name in GROUPS if name != "resources"]
NOT_INSTALLED = "command not found"
SAFE = ("--safe", "--allow-host", "127.0.0.1")


def try_escapes(user: str, groups: Sequence[str], *options: str) -> tuple[Run, dict[str, str]]:
    """Try all escapes of the groups in one run. Return the run, and the outputs of successful escapes by name."""
    escapes = [one for group in groups for one in list_escapes(user, group)]
    with create_ask_host(user) as host:
        own = USER_S_OWN if "environment" in groups else {}
        env = {name: host.fill(value) for name, value in own.items()}
        done = run(host, [(one.tool, one.arguments) for one in escapes], *options, env=env)
        assert (done.result.code, len(done.outputs)) == (0, len(escapes)), done.result.stderr
        pairs = zip(escapes, done.outputs, strict=True)
        return done, {one.name: output for one, output in pairs if one.has_succeeded(host, output)}


def list_escapes(user: str, group: str) -> list[Escape]:
    return [one for one in GROUPS[group] if user == "root" or not one.root]


def check_nothing_escapes(user: str, *groups: str) -> None:
    """Check that no escape succeeds in safe mode, and that the sandbox prevents it, not the policy."""
    confined, succeeded = try_escapes(user, groups, *SAFE)
    assert not succeeded
    # Only hosts that are not public are refused before a call, even if they are allowed.
    assert not {rule for rule in confined.rules if rule.startswith("!")} - {"!host refused"}


def test_no_escape_succeeds() -> None:
    check_nothing_escapes(USERS[0], *QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("group", GROUPS)
def test_escapes_succeed_only_without_safe_mode(
    user: str, group: str, record_property: Callable[[str, object], None]
) -> None:
    free, succeeded = try_escapes(user, [group])
    lacking = {one.name: one.lacks for one in list_escapes(user, group) if one.name not in succeeded}
    for name, reason in lacking.items():
        record_property("not tried here", f"{user}, {group}: {name} ({reason})")
    closed = dict(zip((one.name for one in list_escapes(user, group)), free.outputs, strict=True))
    broken = {name: closed[name] for name, reason in lacking.items() if not reason or NOT_INSTALLED in closed[name]}
    assert not broken, "these do not lead out without safe mode either"
    check_nothing_escapes(user, group)


def test_escapes_that_this_user_cannot_try_are_reported(record_property: Callable[[str, object], None]) -> None:
    assert "ordinary" in USERS
    for group, escapes in GROUPS.items() if "root" not in USERS else ():
        names = ", ".join(one.name for one in escapes)
        record_property("not tried here", f"root, {group} (these tests do not run as root): {names}")
