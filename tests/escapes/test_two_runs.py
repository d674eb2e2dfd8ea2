"""Attempts in two runs: calls of the first must not show the second what was hidden, or what the user hides later."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest

from tests.escapes.safe_runs import bash, run
from tests.safety.fake_host import TOKEN, FakeHost

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.slow]
DEEP = "/".join(["d"] * 200)
LONG = (
    "mkdir $(printf 'x%.0s' $(seq 250)); cd x*; "
    "for i in $(seq 30); do mkdir $(printf 'y%.0s' $(seq 250)); cd y*; done; echo > .env"
)


class Attempt(NamedTuple):
    """An attempt to read a secret.

    Attributes:
        secret: the file that the user writes; `later` is whether only between the runs.
        links: links that the user makes, with their targets; a name that begins with "=" is a hard link.
        first: the command of the first run.
        second: the command of the second run.
    """

    secret: str
    first: str
    second: str
    links: tuple[tuple[str, str], ...] = ()
    later: bool = False


ENV = "a/.env"
CHAIN = (("l1", "s/x"), ("p.env", "l1"))
ATTEMPTS = {
    "rename": Attempt(ENV, "mv a b", "cat a/.env b/.env"),
    "copy": Attempt(ENV, "cp -r a b", "cat b/.env a/.env"),
    "archive": Attempt(ENV, "tar cf x.tar a", "tar xOf x.tar; cat a/.env"),
    "move a parent": Attempt("a/b/.env", "mkdir n; mv a/b n/", "cat n/b/.env a/b/.env"),
    "move a protected folder": Attempt("r/.vscode/x.env", "mv r/.vscode r/v", "cat r/v/x.env r/.vscode/x.env"),
    "delete a link in a chain": Attempt("s/x", "rm l1", "cat s/x", CHAIN),
    "replace a link in a chain": Attempt("s/x", "ln -sfn /dev/null l1; rm p.env", "cat s/x", CHAIN),
    "delete a link to a folder": Attempt("s/x", "rm .env.d", "cat s/x", ((".env.d", "s"),)),
    "delete a link out and back": Attempt("s/x", "rm q.env", "cat s/x", (("../out", "work/s/x"), ("q.env", "../out"))),
    "upper case": Attempt("a/.ENV", "true", "cat a/.ENV"),
    "a line break in the name": Attempt("a\nb/.env", "true", "cat a*/.env"),
    "a name that is not UTF-8": Attempt("\udcff/.env", "true", "cat */.env"),
    "deep folders": Attempt(f"{DEEP}/.env", "true", f"cat {DEEP}/.env"),
    "a hard link by a call": Attempt("k.env", "ln k.env k2", "cat k2 k.env"),
    "a hard link by the user": Attempt("k.env", "true", "cat visible", (("=visible", "k.env"),)),
    "a deep hard link by the user": Attempt("k.env", "true", "cat x/y/z/v", (("=x/y/z/v", "k.env"),)),
    "without reading": Attempt(ENV, "chmod 311 a", "chmod 755 a; cat a/.env"),
    "without searching": Attempt("a/b/.env", "chmod 444 a/b; chmod 444 a", "chmod 755 a a/b; cat a/b/.env"),
    "a sticky folder": Attempt(ENV, "chmod 1777 a", "mv a/.env a/x; cat a/x"),
    "by /proc": Attempt(ENV, "true", "cat /proc/self/cwd/a/.env /proc/1/root/$PWD/a/.env"),
    "like a bare repository": Attempt("r/.env", "mkdir -p r/objects r/refs; echo x > r/HEAD", "cat r/.env"),
    "like a virtual environment": Attempt(".env.d/t", "echo > .env.d/pyvenv.cfg; echo > pyvenv.cfg", "cat .env.d/t"),
    "an empty file to fill": Attempt("z/.env", "mkdir z; echo > z/.env", "cat z/.env", later=True),
    "a link to fill": Attempt("z/.env", "mkdir z; echo > z/d; ln -s d z/.env", "cat z/.env z/d", later=True),
    "links to fill": Attempt(
        "z/.env", "mkdir z; echo > z/d; ln -s d z/e; ln -s e z/.env", "cat z/.env z/d", later=True
    ),
    "a hard link to fill": Attempt("z/.env", "mkdir z; echo > z/d; ln z/d z/.env", "cat z/.env z/d", later=True),
    "decoys": Attempt("b/.env", "mkdir a; cd a; for i in $(seq 1500); do echo > $i.env; done", "cat b/.env"),
    "named pipes": Attempt("b/.env", "mkfifo a.env; mkfifo .env.local", "cat b/.env"),
    "loops": Attempt("b/.env", "ln -s l2 .env.l1; ln -s .env.l1 l2; ln -s . d.env", "cat b/.env"),
    "links to the top": Attempt("b/.env", "ln -s / r.env; ln -s .. p.env", "cat b/.env"),
    "paths that are too long": Attempt("b/.env", LONG, "cat b/.env"),
    "sparse files": Attempt("b/.env", "truncate -s 1000M a.env; truncate -s 1000M b.env", "cat b/.env"),
    "another repository": Attempt("r/.env", "mv r/.git r/g2; mkdir r/.git", "cat r/.env"),
}


def write_secret(host: FakeHost, attempt: Attempt) -> None:
    path = os.path.join(host.work, attempt.secret)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(TOKEN)


def read_in_two_runs(host: FakeHost, attempt: Attempt, *options: str) -> str:
    """Make an attempt; return all outputs."""
    for name, target in attempt.links:
        path = host.work / name.removeprefix("=")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.startswith("="):
            os.link(host.work / target, path)
        else:
            path.symlink_to(target)
    host.change_owner()
    outputs = []
    first = run(host, bash(attempt.first), *options)
    if attempt.later:
        write_secret(host, attempt)
    second = run(host, bash(attempt.second), *options)
    for each in (first, second):
        assert each.result.code in (0, 8), each.result.stderr
        outputs += each.outputs
    return "".join(outputs)


def prepare(host: FakeHost, attempt: Attempt) -> None:
    subprocess.run(["git", "init", "-q", str(host.work / "r")], check=True)
    if not attempt.later:
        write_secret(host, attempt)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_nothing_that_is_hidden_is_read_in_a_later_run(host: FakeHost, name: str) -> None:
    prepare(host, ATTEMPTS[name])
    assert TOKEN not in read_in_two_runs(host, ATTEMPTS[name], "--safe")


@pytest.mark.parametrize("name", ATTEMPTS)
def test_without_safe_mode_each_attempt_succeeds(host: FakeHost, name: str) -> None:
    prepare(host, ATTEMPTS[name])
    assert TOKEN in read_in_two_runs(host, ATTEMPTS[name])
