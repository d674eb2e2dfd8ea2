"""Run the official MCP conformance suite, one scenario at a time:

    python -m tests.mcp_conformance FOLDER [SCENARIO]...
    python -m tests.mcp_conformance FOLDER --requirements REVISION
    python -m tests.mcp_conformance FOLDER --server

The second command runs what a protocol revision requires, with that revision, as the suite's own `--requirements` does
with all clients at once.

FOLDER is one in which `npm install @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22` was run.

Each scenario starts a server and this module as its client, which adds the server to a new configuration, signs in if a
run requires it, and lets a scripted model call the tools. With `--server`, the suite is the client of `ask mcp serve`,
which it reaches over HTTP. Prints the result of each scenario; the exit code is 1 if one
that applies failed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import wire
from tests.mcp.http_bridge import HttpBridge
from tests.mcp.setting import HERE, cached_list_path, configure, offered
from tests.model_server import ModelServer, Reply, Request
from tests.program import ASK, TEST_KEY, Home, make_home

NOT_APPLICABLE = {
    "elicitation-sep1034-client-defaults": "questions are declined: a default may agree to what the user has not read",
    "auth/enterprise-managed-authorization": "needs an identity provider that signs the user in to the company",
    "auth/wif-jwt-bearer": "needs the identity token of a cloud workload",
    "auth/dpop": "the SDK does not support DPoP",
    "auth/dpop-nonce": "the SDK does not support DPoP",
    **dict.fromkeys(
        (f"sep-2640-client-{name}" for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")),
        "skills that servers offer are not used",
    ),
}
"""The scenarios of the suite about what ask does not do, and why; docs/mcp.md lists them."""
SERVER_CHECKS: Mapping[str, str] = {
    "server-initialize": "",
    "ping": "",
    "tools-list": "",
    "input-required-result-unsupported-methods": "",
    "caching": "sep-2549-tools-list-caching-hints|sep-2549-ttl-|sep-2549-cache-|wire-schema-valid",
    "server-stateless": "sep-2575-server-(implements|identifies|unsupported)|sep-2575-discover-|wire-schema-valid",
}
"""The scenarios for servers that apply to `ask mcp serve`, and patterns of their checks. Others need HTTP or the tools,
resources and prompts of the suite."""
SCHEMA_TOOL, SCHEMA_ECHO = "json_schema_2020_12_tool", "web__json_schema_echo"
"""A tool, and another that must be called with the first one's schema."""
MAX_SIGN_INS = 3
EXAMPLES: Mapping[str, Any] = {"integer": 3, "number": 1.5, "boolean": True, "array": [], "object": {}}
"""Arguments of calls, by their type."""


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Run the suite; yield the lines to print."""
    if not arguments or not (suite := Path(arguments[0], "node_modules/.bin/conformance").resolve()).exists():
        raise SystemExit(__doc__)
    node = Path(arguments[0], "node_modules/node/bin").resolve()
    env = {**os.environ, "PATH": f"{node}:{os.environ['PATH']}"}
    if arguments[1:] == ["--server"]:
        yield from check_server(suite, env)
        return
    revision = arguments[2] if arguments[1:2] == ["--requirements"] else ""
    names = list_scenarios(suite, env, revision) if revision else arguments[1:] or list_scenarios(suite, env)
    results: Counter[str] = Counter()
    for name in names:
        if name in NOT_APPLICABLE:
            result, lines = "does not apply", [NOT_APPLICABLE[name]]
        else:
            lines = run_scenario(suite, name, env, revision)
            result = "FAILED" if lines else "passed"
        results[f"{result}, {'with' if name.startswith('auth/') else 'without'} sign-in"] += 1
        yield "\n    ".join([f"{result}  {name}", *lines])
    yield from (f"{count:>4}  {result}" for result, count in results.most_common())
    if any(result.startswith("FAILED") for result in results):
        raise SystemExit(1)


def check_server(suite: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Run the scenarios for servers; yield the lines to print."""
    with tempfile.TemporaryDirectory() as folder:
        home = make_home(Path(folder))

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [ASK, "mcp", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home.env, cwd=home.work
            )

        has_failed = False
        with HttpBridge(start) as bridge:
            for name, pattern in SERVER_CHECKS.items():
                lines = run_suite([str(suite), "server", "--url", bridge.url, "--scenario", name], env, pattern)
                has_failed |= bool(lines)
                yield "\n    ".join([f"{'FAILED' if lines else 'passed'}  {name}", *lines])
    if has_failed:
        raise SystemExit(1)


def list_scenarios(suite: Path, env: Mapping[str, str], revision: str = "") -> list[str]:
    """List the scenarios for clients: all, or those that a protocol revision requires."""
    command = [str(suite), "list", *(["--requirements", revision] if revision else [])]
    output = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    [section] = re.findall(r"^Client scenarios.*?\n(.*?)(?:\n\n|\Z)", output, re.DOTALL | re.MULTILINE)
    return re.findall(r"^ +- (\S+)", section, re.MULTILINE)


def run_scenario(suite: Path, name: str, env: Mapping[str, str], revision: str) -> list[str]:
    """Run a scenario, with a protocol revision if it is not ""; return its failures, one line each."""
    client = f"{sys.executable} -m tests.mcp_conformance --client"
    command = [str(suite), "client", "--command", client, "--scenario", name, "--timeout", "120000"]
    return run_suite([*command, *(["--spec-version", revision, "--force"] if revision else [])], env)


def run_suite(command: Sequence[str], env: Mapping[str, str], pattern: str = "") -> list[str]:
    """Run a command of the suite; return its failures in the checks whose IDs match a pattern, one line each."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run([*command, "-o", folder], env=env, capture_output=True, text=True, check=False)
        checks = [check for path in Path(folder).rglob("checks.json") for check in json.loads(path.read_text())]
        checks = [check for check in checks if re.match(pattern, check["id"])]
        if not checks:
            return ["the suite made no check", *process.stderr.splitlines()[-3:]]
    failures = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    return [f"{check['id']} {check['status']}: {check.get('errorMessage', '')[:300]}" for check in failures]


class Client:
    """A user of ask with one configured server."""

    def __init__(self, home: Home, url: str, scenario: str, context: Mapping[str, Any]) -> None:
        self._home = home
        self._calls = [(f"web__{call['name']}", call["arguments"]) for call in context.get("toolCalls", ())]
        oauth = build_oauth_table(home, url, scenario, context)
        configure(home, {"web": {"url": url, "timeout": 30, **({"oauth": oauth} if oauth else {})}})

    def use(self) -> None:
        """Run ask with all tools, and sign in as long as it says that this is required."""
        for _ in range(MAX_SIGN_INS):
            output = self._run_with_model()
            if "ask mcp login web" not in output or self._run("mcp", "login", "web").returncode:
                return

    def _run_with_model(self) -> str:
        with ModelServer() as model:
            model.reply(self._answer)
            self._results: list[str] = []
            self._pending: list[wire.Call] | None = None
            variables = {"OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": model.base_url}
            process = self._run("--max-rounds", "99", "call every tool", **variables)
        return "\n".join([process.stderr, *self._results])

    def _answer(self, request: Request) -> Reply:
        if self._pending is None:
            tools, self._pending = offered(request), []
            if SCHEMA_ECHO in tools:
                return wire.calls((SCHEMA_ECHO, {"schema": self._read_listed_schema(SCHEMA_TOOL)}))
            self._pending = [call for call in self._calls if call[0] in tools] or [
                (name, build_arguments(tool["parameters"])) for name, tool in tools.items()
            ]
        else:
            self._results.append(wire.asked(request.json))
        return wire.calls(self._pending.pop(0)) if self._pending else wire.says("done")

    def _read_listed_schema(self, tool_name: str) -> Any:
        """Return the schema that ask has kept of a tool; the one that is sent is adapted to the provider."""
        tools = json.loads(cached_list_path(self._home, "web").read_text())["tools"]
        return next(tool["schema"] for tool in tools if tool["name"] == tool_name)

    def _run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**self._home.env, "BROWSER": f"{sys.executable} {HERE / 'browser.py'} %s", **variables}
        process = subprocess.run(
            [ASK, *arguments],
            env=env,
            cwd=self._home.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        sys.stderr.write(process.stderr)
        return process


def build_oauth_table(home: Home, url: str, scenario: str, context: Mapping[str, Any]) -> dict[str, str]:
    """Build the table `oauth` from what the scenario tells about its client."""
    if scenario == "auth/basic-cimd":
        return {"client_metadata_url": "https://conformance-test.local/client-metadata.json"}
    if "client_id" not in context:
        return {}
    oauth = {key: context[key] for key in ("client_id", "client_secret", "issuer") if key in context}
    oauth.setdefault("issuer", fetch_issuer(url))
    if "private_key_pem" in context:
        path = home.path / "key.pem"
        path.write_text(context["private_key_pem"])
        oauth["private_key"] = str(path)
    elif "client-credentials" in scenario:
        oauth["grant_type"] = "client_credentials"
    return oauth


def fetch_issuer(url: str) -> str:
    """Return the issuer that the server's metadata names; a user finds it in the documentation of the service."""
    origin, path = re.fullmatch(r"(https?://[^/]+)(.*)", url).groups()  # type: ignore[union-attr]
    with urllib.request.urlopen(f"{origin}/.well-known/oauth-protected-resource{path}") as response:
        [issuer] = json.load(response)["authorization_servers"]
    return str(issuer)


def build_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Build arguments that fit a simple schema."""
    properties = schema.get("properties", {})
    return {
        name: part["enum"][0] if "enum" in part else EXAMPLES.get(part.get("type", ""), "text")
        for name, part in properties.items()
        if name in schema.get("required", ())
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        with tempfile.TemporaryDirectory() as temporary:
            given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
            Client(make_home(Path(temporary)), sys.argv[-1], os.environ["MCP_CONFORMANCE_SCENARIO"], given).use()
    else:
        for line in main(sys.argv[1:]):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
