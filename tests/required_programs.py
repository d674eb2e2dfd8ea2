"""`@pytest.mark.needs("jq", "bwrap")` names the programs that a test starts, or "root".

Without them, the test is skipped, and one line of the report names what is missing. With `CI` set, the test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

import pytest

ROOT = "root"
LINUX_PROGRAMS = {"bwrap", "setpriv", "unshare", "useradd"}
PROPERTY = "missing program"
TRIALS = {
    "bwrap": "bwrap --unshare-user --unshare-pid --disable-userns --ro-bind / / --proc /proc true",
    "unshare": "unshare --user --map-root-user --mount true",
}
"""Commands that fail where the program is too old, or where the kernel or a container forbids user namespaces."""


@cache
def find_problem(program: str) -> str:
    """Return why a program cannot be used, or ""."""
    if program == ROOT:
        return "" if os.geteuid() == 0 else "needs root"
    if shutil.which(program) is None:
        return f"{program} is not installed"
    if program in TRIALS:
        trial = subprocess.run(TRIALS[program].split(), capture_output=True, text=True, check=False)
        if trial.returncode:
            return f"{program} does not work here: {trial.stderr.strip()}"
    return ""


def skip_if_programs_are_missing(item: pytest.Item) -> None:
    """Skip a test without its programs; under CI, fail."""
    programs = {name for marker in item.iter_markers("needs") for name in marker.args if find_problem(name)}
    if not programs:
        return
    reason = ", ".join(sorted(map(find_problem, programs)))
    if ROOT in programs or (sys.platform != "linux" and programs <= LINUX_PROGRAMS):
        pytest.skip(reason)
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    item.user_properties += [(PROPERTY, name) for name in programs]
    pytest.skip(reason)


def format_missing_programs(reports: Iterable[pytest.TestReport]) -> str:
    """Return one line that names the programs that skipped tests need, or ""."""
    needed = [{str(value) for name, value in report.user_properties if name == PROPERTY} for report in reports]
    programs = sorted(set().union(*needed))
    return f"{sum(map(bool, needed))} tests were skipped, which need: {', '.join(programs)}" if programs else ""
