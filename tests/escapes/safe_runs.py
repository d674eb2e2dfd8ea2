"""Runs of the installed `ask` on a fake host, with a scripted model that makes given calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests import wire
from tests.cli_runner import write_plugin_index
from tests.model_server import ModelServer
from tests.program import ASK, TEST_KEY, Result, Running, find_installed_plugins
from tests.safety.fake_host import TOKEN, FakeHost, create_fake_host
from tests.safety.installation import as_user, installation
from tests.scenarios.sent_requests import check_sent_requests, read_tool_results

Call = tuple[str, Mapping[str, Any]]
WITH_OPEN_SECRET = 'exec 7< "$1"; shift; exec "$@"'


class Run(NamedTuple):
    """The result of a run.

    Attributes:
        result: the result of the process.
        outputs: the result of each call.
        rules: the rule that decided about each call, after "!" if it was refused.
        requests: the number of requests that the model received.
    """

    result: Result
    outputs: list[str]
    rules: list[str]
    requests: int


@contextmanager
def create_ask_host(user: str) -> Iterator[FakeHost]:
    """Create a fake host on which `ask` is configured."""
    with create_fake_host(user) as host:
        (host.base / "data/ask/history.db").unlink()
        (host.base / "config/ask/keys.toml").write_text('anthropic = "sk-ant-in-keys-toml"\n')
        for folder in ("cache", "temporary"):
            (host.base / folder).mkdir()
        host.change_owner()
        yield host


def build_environment(host: FakeHost, server: ModelServer) -> dict[str, str]:
    """Build the environment of `ask` on the fake host."""
    places = {"CONFIG": "config", "DATA": "data", "CACHE": "cache"}
    return {
        **{name: value for name, value in host.environment.items() if name != "BASH_ENV"},
        **{f"XDG_{name}_HOME": str(host.base / folder) for name, folder in places.items()},
        "TMPDIR": str(host.base / "temporary"),
        "ASK_PROVIDER": "openrouter",
        "ASK_MODEL": wire.MODEL,
        "OPENROUTER_API_KEY": TEST_KEY,
        "OPENROUTER_BASE_URL": server.base_url,
    }


@contextmanager
def start_ask(
    host: FakeHost,
    server: ModelServer,
    *options: str,
    before: Sequence[str] = (),
    directory: Path | None = None,
    terminal: bool = False,
    env: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Start `ask`; `before` is prepended to its command."""
    opened = ["sh", "-c", WITH_OPEN_SECRET, "sh", str(host.base / "outside/secret")]
    command = [*as_user(host.user), *opened, *before, installation(host.user).ask, *options, TOKEN]
    env = {**build_environment(host, server), **(env or {})}
    if installation(host.user).ask == ASK:
        write_plugin_index(env, find_installed_plugins)
    with Running(command, env=env, cwd=directory or host.work, terminal=terminal) as running:
        yield running


def run(host: FakeHost, calls: Sequence[Call], *options: str, **more: Any) -> Run:
    """Run `ask` with a model that makes all of the calls in one response."""
    with ModelServer() as server:
        filled = [(tool, json.loads(host.fill(json.dumps(arguments)))) for tool, arguments in calls]
        server.reply(*([wire.calls(*filled)] if filled else []), wire.says("Done."))
        with start_ask(host, server, *options, **more) as running:
            result = running.finish(60)
        bodies = check_sent_requests(server)
        return Run(
            result, read_tool_results(bodies[-1]) if len(bodies) > 1 else [], rules(host)[-len(calls) :], len(bodies)
        )


def rules(host: FakeHost) -> list[str]:
    """Read the rules of all calls in the log of tool calls."""
    log = host.base / "data/ask/audit.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line["rule"] if line["decision"] == "allow" else f"!{line['rule']}" for line in lines]


def bash(*commands: str) -> list[Call]:
    """Build calls that run commands."""
    return [("bash", {"command": command}) for command in commands]
