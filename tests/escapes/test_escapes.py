"""No escape from `ask --safe` succeeds. Each succeeds without it, since otherwise it would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.escapes.by_files import LINKS, PATHS, POISONING
from tests.escapes.by_system import ENVIRONMENT, KERNEL, NETWORK, RESOURCES
from tests.escapes.confined import Run, machine, run
from tests.escapes.escape import Escape
from tests.safety.installation import USERS

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
    """Try all escapes of these groups in one run; return it, and the results of those that succeeded by name."""
    escapes = [one for group in groups for one in those_of(user, group)]
    with machine(user) as here:
        own = USER_S_OWN if "environment" in groups else {}
        env = {name: here.fill(value) for name, value in own.items()}
        done = run(here, [(one.tool, one.arguments) for one in escapes], *options, env=env)
        assert (done.ended.code, len(done.said)) == (0, len(escapes)), done.ended.stderr
        pairs = zip(escapes, done.said, strict=True)
        return done, {one.name: said for one, said in pairs if one.seen(here, said)}


def those_of(user: str, group: str) -> list[Escape]:
    return [one for one in GROUPS[group] if user == "root" or not one.root]


def check_nothing_escapes(user: str, *groups: str) -> None:
    """Nothing succeeds in safe mode, and it is the sandbox that prevents it, not the policy."""
    confined, succeeded = try_escapes(user, groups, *SAFE)
    assert not succeeded
    assert not [rule for rule in confined.rules if rule.startswith("!")]


def test_no_escape_succeeds() -> None:
    check_nothing_escapes(USERS[0], *QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("group", GROUPS)
def test_escapes_succeed_only_without_safe_mode(
    user: str, group: str, record_property: Callable[[str, object], None]
) -> None:
    free, succeeded = try_escapes(user, [group])
    lacking = {one.name: one.lacks for one in those_of(user, group) if one.name not in succeeded}
    for name, reason in lacking.items():
        record_property("not tried here", f"{user}, {group}: {name} ({reason})")
    closed = dict(zip((one.name for one in those_of(user, group)), free.said, strict=True))
    broken = {name: closed[name] for name, reason in lacking.items() if not reason or NOT_INSTALLED in closed[name]}
    assert not broken, "these do not lead out without safe mode either"
    check_nothing_escapes(user, group)


def test_what_this_user_cannot_try_is_reported(record_property: Callable[[str, object], None]) -> None:
    assert "ordinary" in USERS
    for group, escapes in GROUPS.items() if "root" not in USERS else ():
        names = ", ".join(one.name for one in escapes)
        record_property("not tried here", f"root, {group} (these tests do not run as root): {names}")
