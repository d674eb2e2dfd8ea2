"""Two sandboxes in one folder: the first replaces folders with links while the second is being started."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.program import Running
from tests.safety.fake_host import TOKEN, FakeHost, create_fake_host
from tests.safety.installation import EACH_USER

pytestmark = pytest.mark.needs("bwrap")

STARTS = 8
FOLDERS = ["swapped", "deep/other"]
SWAP = f"""
import ctypes, os, random, select, sys, time

libc = ctypes.CDLL(None)
events = libc.inotify_init()
for folder in {FOLDERS}:
    os.makedirs(folder)
    open(f"{{folder}}/.env", "w").close()
    libc.inotify_add_watch(events, folder.encode(), 0x20)  # IN_OPEN

def swap(one, other):
    libc.renameat2(-100, one.encode(), -100, other.encode(), 2)  # RENAME_EXCHANGE: both names exist at any time

swaps = 0
open("ready", "w").close()
while True:
    select.select([events], [], [])
    os.read(events, 65536)
    folder = random.choice({FOLDERS})
    link = f"{{os.path.dirname(folder) or '.'}}/link"
    os.symlink(random.choice(sys.argv[1:]), link)
    time.sleep(random.choice([0, 0.002, 0.01]))
    if random.random() < 0.8:
        swap(folder, link)
        time.sleep(random.uniform(0, random.choice([0.02, 0.05, 0.2])))
        swap(folder, link)
        time.sleep(0.3)
        swaps += 1
    end = time.monotonic() + 0.3 * (random.random() < 0.2)
    while time.monotonic() < end:
        swap(folder, link)
        swap(folder, link)
        swaps += 1
    os.unlink(link)
    with open("swaps.new", "w") as file:
        file.write(str(swaps))
    os.rename("swaps.new", "swaps")  # it may be stopped at any time
"""
"""Swaps the folders as soon as one of them is accessed; the arguments are the targets of the links."""
TAKE = f"""
for folder in {" ".join(FOLDERS * 3)}; do
    cat $folder/.ssh/id_rsa
    echo planted >> $folder/.bashrc
    echo planted > $folder/planted
    sleep 0.1
done
echo planted > @base@/programs/planted
"""


@pytest.fixture(params=EACH_USER)
def host(request: pytest.FixtureRequest) -> Iterator[FakeHost]:
    with create_fake_host(request.param) as one:
        yield one


def wait_until_there(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("starts", [2, pytest.param(STARTS, marks=pytest.mark.slow)])
def test_replacing_a_folder_with_a_link_exposes_nothing(host: FakeHost, starts: int) -> None:
    places = [host.base / name for name in ("home", "programs")]
    places[1].mkdir()
    up = "../" * 12
    targets = [*map(str, places), *(f"{up}oldroot{place}" for place in places), f"{up}newroot/usr/lib"]
    (host.work / "swap.py").write_text(SWAP)
    host.change_owner()
    swap = host.fill(f"exec @python@ swap.py {' '.join(targets)}")
    env = {**host.environment, "PATH": f"{places[1]}:{os.environ['PATH']}"}
    outcomes: list[Any] = []
    with host.start([("bash", {"command": swap})], timeout=3600) as first:
        wait_until_there(host.work / "ready")
        for _ in range(starts):
            asked = host.build_request([("bash", {"command": TAKE})])
            with Running(host.command, env=env, cwd=host.work, stdin=asked) as second:
                ended = second.finish(60)
            assert ended.text, ended.stderr
            outcomes.append(json.loads(ended.text.splitlines()[-1]))
        wait_until_there(host.work / "swaps")  # written after each swap, and the runs may end sooner
        first.signal(signal.SIGTERM)
        first.finish()
    assert int((host.work / "swaps").read_text()) > 0
    assert {outcome["code"] for outcome in outcomes if isinstance(outcome, dict)} <= {8}, outcomes
    assert not [outcome for outcome in outcomes if TOKEN in str(outcome)]
    # Not the working folder, whose placeholders are still being removed.
    outside = [path for path in host.base.iterdir() if path != host.work]
    files = [path for top in outside for path in (top, *top.rglob("*")) if path.is_file()]
    assert [path for path in files if "planted" in path.read_text(errors="replace")] == []
