"""Runs the installed `ask` on a ground, as its user, with a scripted model that makes the calls that a test names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Result, Running
from tests.safety.ground import TOKEN, Ground, ground
from tests.safety.installation import as_user, installation
from tests.scenarios.sent import results, sent

Call = tuple[str, Mapping[str, Any]]
WITH_OPEN_SECRET = 'exec 7< "$1"; shift; exec "$@"'


class Run(NamedTuple):
    """What came of a run.

    Attributes:
        ended: how the process ended.
        said: the result of each call.
        rules: the rule by which each was decided, "!" before that of a refusal.
        requests: how many requests the model got.
    """

    ended: Result
    said: list[str]
    rules: list[str]
    requests: int


@contextmanager
def machine(user: str) -> Iterator[Ground]:
    """A ground on which `ask` is set up: a key, a configuration without tripwires, which are no boundary."""
    with ground(user) as here:
        (here.base / "data/ask/history.db").unlink()
        (here.base / "config/ask/keys.toml").write_text('anthropic = "sk-ant-in-keys-toml"\n')
        (here.base / "config/ask/config.toml").write_text('[safe]\ntripwires = ["(?!)"]\n')
        for folder in ("cache", "temporary"):
            (here.base / folder).mkdir()
        here.hand_over()
        yield here


def environment(here: Ground, server: ModelServer) -> dict[str, str]:
    """That of a user of `ask` there."""
    places = {"CONFIG": "config", "DATA": "data", "CACHE": "cache"}
    return {
        **{name: value for name, value in here.environment.items() if name != "BASH_ENV"},
        **{f"XDG_{name}_HOME": str(here.base / folder) for name, folder in places.items()},
        "TMPDIR": str(here.base / "temporary"),
        "ASK_PROVIDER": "openrouter",
        "ASK_MODEL": wire.MODEL,
        "OPENROUTER_API_KEY": TEST_KEY,
        "OPENROUTER_BASE_URL": server.base_url,
    }


@contextmanager
def started(
    here: Ground,
    server: ModelServer,
    *options: str,
    before: Sequence[str] = (),
    directory: Path | None = None,
    terminal: bool = False,
    env: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """`ask` as it runs; `before` stands before its command."""
    opened = ["sh", "-c", WITH_OPEN_SECRET, "sh", str(here.base / "outside/secret")]
    command = [*as_user(here.user), *opened, *before, installation(here.user).ask, *options, TOKEN]
    env = {**environment(here, server), **(env or {})}
    with Running(command, env=env, cwd=directory or here.work, terminal=terminal) as running:
        yield running


def run(here: Ground, calls: Sequence[Call], *options: str, **more: Any) -> Run:
    """Let the model make all of the calls in one answer."""
    with ModelServer() as server:
        filled = [(tool, json.loads(here.fill(json.dumps(arguments)))) for tool, arguments in calls]
        server.reply(*([wire.calls(*filled)] if filled else []), wire.says("Done."))
        with started(here, server, *options, **more) as running:
            ended = running.finish(60)
        bodies = sent(server)
        return Run(ended, results(bodies[-1]) if len(bodies) > 1 else [], rules(here)[-len(calls) :], len(bodies))


def rules(here: Ground) -> list[str]:
    """The rules in the audit log."""
    log = here.base / "data/ask/audit.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line["rule"] if line["decision"] == "allow" else f"!{line['rule']}" for line in lines]


def bash(*commands: str) -> list[Call]:
    """Calls that run commands."""
    return [("bash", {"command": command}) for command in commands]
