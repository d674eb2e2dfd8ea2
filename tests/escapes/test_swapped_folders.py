"""A folder is replaced with a link while bubblewrap looks it up, and is back in its place a moment later."""

from __future__ import annotations

import pytest

from tests.escapes.safe_runs import bash, run
from tests.escapes.test_failing_closed import ANOTHER, build_changed_host_command
from tests.safety.fake_host import TOKEN, FakeHost

pytestmark = pytest.mark.needs("bwrap")

SWAP = """#!@python@ -I
import os, sys

arguments = sys.argv[1:]

def swap():
    os.rename("@work@/pkg", "@base@/temporary/pkg")
    os.symlink("{target}", "@work@/pkg")

def restore():
    os.unlink("@work@/pkg")
    os.rename("@base@/temporary/pkg", "@work@/pkg")

def insert_pause(position):
    readable, writable = os.pipe()
    os.set_inheritable(readable, True)
    arguments[position:position] = ["--file", str(readable), f"/run/{{position}}"]
    return writable

def wait(writable):
    os.write(writable, bytes(65_537))  # the pipe holds 65,536

if "--bind" in arguments:
    info = int(arguments[arguments.index("--info-fd") + 1])
    # ask has identified the sources of all mounts when it reads this.
    os.write(info, b" " * 65_537)
    mount = arguments.index("@work@/pkg") - 1
    after, before = insert_pause(mount + 3), insert_pause(mount)
    {at_start}
    if os.fork() == 0:
        os.close(info)
        wait(before)
        {before_mount}
        os.close(before)
        wait(after)
        {after_mount}
        os._exit(0)
    os.close(before)
    os.close(after)
os.execv("@base@/temporary/bin/bwrap", ["bwrap", *arguments])
"""
"""A replacement for bwrap. The real one resolves all sources at the start, and the place of each mount just before it.

It stops before and after the mount of a folder, because it reads the content of a file from a pipe there.
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["source", "place"])
def test_replacing_a_folder_with_a_link_exposes_nothing(host: FakeHost, what: str) -> None:
    if what == "source":
        swap = SWAP.format(target="@home@", at_start="swap()", before_mount="restore()", after_mount="")
    else:
        new_root = "../" * len(host.work.parts) + "newroot"
        swap = SWAP.format(target=f"{new_root}/opt", at_start="", before_mount="swap()", after_mount="restore()")
    calls = bash("cat pkg/.netrc; echo planted > pkg/.bashrc; echo planted > /opt/planted")
    done = run(host, calls, "--safe", before=build_changed_host_command(host, ANOTHER, swap))
    assert (done.result.code, done.requests) == (8, 0), done.outputs
    assert f"{host.work}/pkg changed while" in done.result.stderr
    assert (host.base / "home/.bashrc").read_text() == TOKEN
    assert not (host.work / "pkg/planted").exists()
