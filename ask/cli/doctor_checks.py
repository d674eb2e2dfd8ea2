"""The checks of `ask doctor`: each yields its results for one subject."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from copy import copy
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.mcp_tools import is_mcp_installed
from ask.agent.model_selection import (
    ModelEndpoint,
    ModelSelection,
    create_client,
    create_endpoint,
    requires_key,
    resolve_base_url,
    resolve_endpoint,
)
from ask.agent.plugin_tools import ToolLoadFailure, format_origin, load_plugin_tools
from ask.agent.request import generate_conversation_id
from ask.agent.safe_mode import compile_deny_rules, parse_allowed_host, prepare_sandbox_config
from ask.agent.toolset import find_search_engine, format_search_setup_hint
from ask.api_keys import KeyStore, format_variable_prefix
from ask.cli.init import EVAL_LINES, RC_FILES, SHELLS, find_completion_script, find_install_path, is_installed_by_ask
from ask.client.provider_client import ProviderClient
from ask.errors import AskError, ConfigError, FileError, SafetyError
from ask.history.store import Store
from ask.installation import find_launcher, format_install_command
from ask.mcp.server_config import MCP_EXTRA, ServerConfig, find_servers
from ask.mcp.variables import expand_variables
from ask.plugin_api.loader import LoadedProvider
from ask.render.amounts import format_compact_number, format_count
from ask.safety.bubblewrap import find_bubblewrap, read_bubblewrap_version
from ask.safety.sandbox import Sandbox
from ask.settings import SWITCH_VARIABLES, Config, Settings, read_switch, resolve_settings
from ask.tools.base import Tool
from ask.tools.builtin import list_builtin_tools
from ask.tools.web_search import DUCKDUCKGO, KEYED_ENGINES, SEARCH_WEB
from ask.version import DISTRIBUTION, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ask.settings import Settings


OK, WARNING, PROBLEM = "ok", "warning", "problem"


class CheckResult(NamedTuple):
    """One thing that was looked at.

    Attributes:
        state: `OK`; `WARNING` where something is worth a look; `PROBLEM` where something does not work.
        check: what was looked at.
        found: how it is.
        fix: what to do about it; "" for nothing.
    """

    state: str
    check: str
    found: str
    fix: str = ""

    def to_terminal_row(self) -> dict[str, str]:
        """As a terminal shows it, where nobody needs the fix in a column of its own."""
        found = f"{self.found}: {self.fix}" if self.fix else self.found
        return {"state": self.state, "check": self.check, "found": found}


REQUIREMENT_PATTERN = re.compile(r"""([\w.-]+)[^;]*(?:;.*extra == ["'](\w+)["'])?""")
"""The name of a package that is required, and the extra that requires it."""


def check_versions(_: AppContext) -> Iterator[CheckResult]:
    """The versions of what a report of a fault should name."""
    yield CheckResult(OK, "ask", f"{VERSION}, in {Path(__file__).parents[2]}")
    yield CheckResult(OK, "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    except sqlite3.Error:
        fix = "use a Python whose SQLite has it"
        yield CheckResult(PROBLEM, "sqlite", f"{sqlite3.sqlite_version} has no full text search (FTS5)", fix)
    else:
        yield CheckResult(OK, "sqlite", sqlite3.sqlite_version)
    finally:
        connection.close()


def check_launcher(_: AppContext) -> Iterator[CheckResult]:
    """Check that a shell finds this `ask`."""
    own, found = find_launcher(), shutil.which("ask")
    if found is None:
        fix = f"add {own.parent} to it"
        yield CheckResult(WARNING, "PATH", "there is no ask in the folders of PATH", fix)
    elif own.exists() and not Path(found).samefile(own):
        yield CheckResult(WARNING, "PATH", f"ask is {found}, and this one is {own}", "put the folder of yours first")
    else:
        yield CheckResult(OK, "PATH", f"ask is {found}")


def check_packages(_: AppContext) -> Iterator[CheckResult]:
    """The packages that it works with."""
    asked = [match.groups() for match in map(REQUIREMENT_PATTERN.match, requires(DISTRIBUTION) or ()) if match]
    needed, web = (
        find_installed_versions(name for name, extra in asked if extra == wanted) for wanted in (None, "web")
    )
    missing = [name for name, found in needed.items() if not found]
    if missing:
        yield CheckResult(PROBLEM, "packages", f"missing: {', '.join(missing)}", "install ask again")
    else:
        yield CheckResult(OK, "packages", ", ".join(f"{name} {found}" for name, found in needed.items()))
    if all(web.values()):
        yield CheckResult(OK, "web pages", "read with the extra web: tables too")
    else:
        yield CheckResult(OK, "web pages", "read without tables", f"{format_install_command('web')} reads these too")


def find_installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each distribution; "" where it is missing."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


KEYS_FILE_PUBLIC_BITS = stat.S_IRWXG | stat.S_IRWXO


def check_config_file(app: AppContext) -> Iterator[CheckResult]:
    """Whether config.toml is understood. Where it is not, the checks to come go on as if there were none."""
    path = app.config_file
    try:
        warnings = app.config.warnings
    except ConfigError as error:
        app.config = Config()
        yield CheckResult(PROBLEM, "config.toml", str(error), "correct it with ask config edit")
        return
    for warning in warnings:
        yield CheckResult(WARNING, "config.toml", warning, "correct it with ask config edit")
    if not warnings:
        yield CheckResult(
            OK, "config.toml", str(path) if path.exists() else f"there is none, and none is needed ({path})"
        )


def check_variables(app: AppContext) -> Iterator[CheckResult]:
    """Check the variables that are on or off; one with another value is ignored by the checks that follow."""
    for variable in SWITCH_VARIABLES.values():
        try:
            read_switch(app.environment, variable)
        except ConfigError as error:
            app.environment = {**app.environment, variable: ""}
            yield CheckResult(PROBLEM, variable, error.message, error.advice)


def check_keys(app: AppContext) -> Iterator[CheckResult]:
    """Whether keys.toml is understood, and private. Where it is not, the checks to come go on as if there were none."""
    path = app.key_store.path
    try:
        stored = app.key_store.read_saved_keys()
    except ConfigError as error:
        app.key_store = KeyStore(Path(os.devnull), app.environment)
        yield CheckResult(PROBLEM, "keys.toml", str(error), f"correct {path}, or move it away")
        return
    if stored and path.stat().st_mode & KEYS_FILE_PUBLIC_BITS:
        yield CheckResult(WARNING, "keys.toml", f"others can read {path}", f"chmod 600 {path}")
    elif stored:
        yield CheckResult(OK, "keys.toml", f"{format_count(len(stored), 'key')} in {path}")
    else:
        yield CheckResult(OK, "keys.toml", "no key is kept", "ask keys set PROVIDER keeps one")
    for name in sorted(stored.keys() - {*app.provider_names, *KEYED_ENGINES}):
        yield CheckResult(
            WARNING, "keys.toml", f"there is no provider {name}", f"install it, or ask keys remove {name}"
        )


def check_tools(app: AppContext) -> Iterator[CheckResult]:
    """Which tools a model is offered, and whether they would work."""
    settings = resolve_settings({}, app.environment, app.config)
    engine = find_search_engine(app, settings.search_engine)
    names = [*(tool.spec.name for tool in list_builtin_tools()), SEARCH_WEB.name]
    there = names if engine else names[:-1]
    offered = [name for name in there if name not in settings.disabled_tools]
    if not settings.tools:
        yield CheckResult(OK, "tools", "switched off", "ask config set tools.enabled true switches them on")
    else:
        yield CheckResult(OK, "tools", ", ".join(offered) or "all are left out")
    for name in sorted(find_unknown_tools(settings.disabled_tools.difference(names), app)):
        yield CheckResult(WARNING, "tools", f"tools.disabled names {name}, which there is not", "ask tools lists them")
    if engine:
        yield CheckResult(OK, "web search", f"asks {engine.name}")
    elif settings.search_engine:
        yield CheckResult(WARNING, "web search", *format_search_setup_hint(settings.search_engine).split(": ", 1))
    else:
        advice = f"{format_search_setup_hint(DUCKDUCKGO)}, or keep a key for {' or '.join(KEYED_ENGINES)}"
        yield CheckResult(OK, "web search", "there is none", advice)
    if settings.tools and "bash" in offered and not shutil.which("bash"):
        yield CheckResult(PROBLEM, "tools", "bash is not installed", "install it, or use --disable-tool bash")


def find_unknown_tools(names: Iterable[str], app: AppContext) -> set[str]:
    """Those of these names that no tool has that can be seen here; one with two underscores may be a server's."""
    left = {name for name in names if "__" not in name}
    if left and app.tool_plugins:
        left -= {tool.spec.name for tools in load_tool_plugins(app)[0].values() for tool in tools}
    return left


def check_default_model(app: AppContext) -> Iterator[CheckResult]:
    """What a run asks where the command line names nothing."""
    try:
        target = resolve_endpoint(app, ModelSelection())
    except ConfigError as error:
        yield CheckResult(PROBLEM, "default", error.message, error.advice)
        return
    model = target.model or "its first model"
    yield CheckResult(OK, "default", f"{model} of {target.provider_name}")


HISTORY_LOCK_TIMEOUT = 1.0
"""Seconds to wait for another process that keeps the history to itself."""
MIN_FREE_BYTES = 10_000_000
"""Bytes on a disk below which it is as good as full."""
HISTORY_PUBLIC_BITS = stat.S_IRWXG | stat.S_IRWXO
UNWRITABLE_FOLDER_RESULTS = {
    "config": (WARNING, "settings and keys cannot be changed"),
    "data": (PROBLEM, "conversations and what files held before cannot be kept"),
    "cache": (WARNING, "every start takes longer"),
}
"""How bad it is that a folder cannot be written, and why."""


def check_folders(app: AppContext) -> Iterator[CheckResult]:
    """Whether the folders can be written, or made."""
    for name, folder in app.app_dirs._asdict().items():
        state, loss = UNWRITABLE_FOLDER_RESULTS[name]
        there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        check, words = f"{name} folder", str(folder) if there == folder else f"{folder}, not made yet"
        if not there.is_dir():
            yield CheckResult(state, check, f"{there} is no folder: {loss}", "move it away")
        elif not os.access(there, os.W_OK | os.X_OK):
            fix = f"make {there} writable, or set XDG_{name.upper()}_HOME to another place"
            yield CheckResult(state, check, f"{there} cannot be written: {loss}", fix)
        elif (free := get_free_bytes(there)) < MIN_FREE_BYTES:
            yield CheckResult(
                state, check, f"{folder} is on a disk with {format_compact_number(free)} bytes left", "make room on it"
            )
        else:
            yield CheckResult(OK, check, words)


def get_free_bytes(folder: Path) -> int:
    """The bytes left on a disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def check_history(app: AppContext) -> Iterator[CheckResult]:
    """Whether the saved conversations can be read, how many they are, and that nobody else reads them."""
    path = app.history_file
    if not path.exists():
        yield CheckResult(OK, "history", "no conversation is saved yet")
        return
    try:
        with Store(path, create=False, lock_timeout=HISTORY_LOCK_TIMEOUT) as store:
            [(count,)] = store.fetch_rows("SELECT count(*) FROM conversations")
    except FileError as error:
        yield CheckResult(PROBLEM, "history", error.message, error.advice)
        return
    status = path.stat()
    words = f"{format_count(count, 'conversation')} in {format_compact_number(status.st_size)} bytes"
    if status.st_mode & HISTORY_PUBLIC_BITS:
        yield CheckResult(WARNING, "history", f"{words}; others can read it", f"chmod 600 {path}")
    elif not app.config.get("history.enabled", True):
        yield CheckResult(OK, "history", f"{words}; not saved any more (history.enabled)")
    else:
        yield CheckResult(OK, "history", words)


PROVIDER_READ_TIMEOUT, ALL_PROVIDERS_TIMEOUT = 3.0, 3.5
"""Seconds without a sign of life from one provider, and for all of them together."""


class ProviderStatus(NamedTuple):
    """A provider that loads.

    Attributes:
        name: what it is chosen by.
        provider: the plugin.
        origin: the distribution that it is from.
        endpoint: how to reach it; None where it needs a key and has none.
        key_origin: where its key is from; "" for none.
        is_configured: whether the user has set anything up for it, so that it should work.
    """

    name: str
    provider: LoadedProvider
    origin: str
    endpoint: ModelEndpoint | None
    key_origin: str
    is_configured: bool


def check_providers(app: AppContext, *, offline: bool) -> Iterator[CheckResult]:
    """A finding for each provider; all that may be asked are asked at the same time."""
    findings: dict[str, CheckResult] = {}
    subjects: dict[str, ProviderStatus] = {}
    for name in app.provider_names:
        origin = ", ".join(claim.distribution for claim in app.provider_plugins.get(name, ())) or "config.toml"
        try:
            subjects[name] = inspect_provider(app, name, origin)
        except ConfigError as error:
            fix = "ask its author, or uninstall it" if origin != "config.toml" else "correct it with ask config edit"
            findings[name] = CheckResult(PROBLEM, name, str(error), fix)
    aliases = {name for name, one in subjects.items() if name != one.provider.info.name in subjects}
    asked = {name: one.endpoint for name, one in subjects.items() if one.endpoint and name not in aliases}
    replies = {} if offline else query_providers(asked)
    for name in app.provider_names:
        if name in aliases:
            yield CheckResult(OK, name, f"another name of {subjects[name].provider.info.name}")
        else:
            yield findings.get(name) or to_check_result(subjects[name], replies.get(name), offline=offline)


def inspect_provider(app: AppContext, name: str, origin: str) -> ProviderStatus:
    """What is known of a provider without asking it.

    Raises:
        ConfigError: it does not load.
    """
    loaded, environment = app.load_provider(name), app.environment
    info = loaded.info
    key, place = app.key_store.find(info.name, app.find_key_variables(info.name, info.key_env))
    chosen = (environment.get("ASK_PROVIDER"), app.config.get("provider"))
    addresses = (f"{format_variable_prefix(info.name)}_BASE_URL", *info.base_url_env)
    used = bool(key or app.config.get_provider(info.name) or any(environment.get(address) for address in addresses))
    base_url = resolve_base_url(app, info)
    target = None if requires_key(app, info, base_url) and not key else create_endpoint(loaded, "", base_url, key)
    return ProviderStatus(name, loaded, origin, target, place, used or name in chosen)


def query_providers(endpoints: Mapping[str, ModelEndpoint]) -> dict[str, int | AskError]:
    """The number of models that each provider lists, or why it does not; those that are late are left out."""
    replies: dict[str, int | AskError] = {}
    threads = []
    for name, target in endpoints.items():
        try:
            exchange = create_client(target, lambda _: None, Settings(timeout=PROVIDER_READ_TIMEOUT, tries=1))
        except AskError as error:
            replies[name] = error
            continue
        # Not an executor, at whose end one would wait for connections that never come about.
        threads.append(threading.Thread(target=query_provider, args=(name, exchange, replies), daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + ALL_PROVIDERS_TIMEOUT
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(replies)


def query_provider(name: str, client: ProviderClient, replies: dict[str, int | AskError]) -> None:
    """Note how many models a provider lists, or why it does not."""
    try:
        replies[name] = len(client.list_models())
    except AskError as error:
        replies[name] = error
    except Exception as fault:  # noqa: BLE001 - a list may hold anything
        replies[name] = AskError(f"{type(fault).__name__}: {fault}", "-v with a question shows where it arose")


def to_check_result(status: ProviderStatus, reply: int | AskError | None, *, offline: bool) -> CheckResult:
    """What there is to say of a provider that loads."""
    info = status.provider.info
    known = f"{info.title} ({status.origin})"
    if status.endpoint is None:
        variable = (*info.key_env, f"{format_variable_prefix(info.name)}_API_KEY")[0]
        state = PROBLEM if status.is_configured else OK
        return CheckResult(state, status.name, f"{known}, no key", f"set {variable} or run ask keys set {info.name}")
    known += f", key from {status.key_origin}" if status.key_origin else ", needs no key"
    if offline:
        return CheckResult(OK, status.name, f"{known}, not asked")
    if isinstance(reply, int):
        listed = f"lists {format_count(reply, 'model')}" if reply else "answers"
        return CheckResult(OK, status.name, f"{known}, {listed}")
    told = reply.brief if reply else f"no whole answer came within {ALL_PROVIDERS_TIMEOUT:g} s"
    advice = reply.advice if reply else "check the network and the base URL"
    if status.is_configured:
        return CheckResult(PROBLEM, status.name, f"{known}, but {told}", advice)
    return CheckResult(OK, status.name, f"{known}, not running here ({told})", advice)


def check_tool_plugins(app: AppContext) -> Iterator[CheckResult]:
    """A finding for each package with tools."""
    tools, faults = load_tool_plugins(app)
    if not app.tool_plugins:
        yield CheckResult(OK, "tool plugins", "none is installed, and none is needed")
    for distribution in app.tool_plugins:
        if distribution in faults:
            reason = f"its tools cannot be loaded: {faults[distribution]}"
            yield CheckResult(PROBLEM, distribution, reason, "ask its author, or uninstall it")
        else:
            names = ", ".join(tool.spec.name for tool in tools.get(distribution, ()))
            yield CheckResult(OK, distribution, f"tools: {names}" if names else "it has no tools")


def load_tool_plugins(app: AppContext) -> tuple[dict[str, list[Tool]], dict[str, str]]:
    """The tools of each package, and why those of others cannot be had, by its name."""
    tools: dict[str, list[Tool]] = {}
    faults: dict[str, str] = {}
    if app.tool_plugins:
        settings = resolve_settings({}, app.environment, app.config)
        names = {format_origin(distribution): distribution for distribution in app.tool_plugins}
        with ExitStack() as cleanup:
            for found in load_plugin_tools(app.tool_plugins, app, settings, cleanup):
                if isinstance(found, ToolLoadFailure):
                    faults[found.distribution] = found.reason
                else:
                    tools.setdefault(names[found.origin], []).append(found)
    return tools, faults


MCP_CHECK = "mcp"


def check_mcp_servers(app: AppContext) -> Iterator[CheckResult]:
    """Which servers are configured, and whether what they need is there."""
    found = find_servers(app.config, app.app_dirs.config)
    for warning in found.warnings:
        yield CheckResult(WARNING, MCP_CHECK, warning, "ask mcp list shows those that are understood")
    used = [server for server in found.servers.values() if server.enabled]
    if used and not is_mcp_installed():
        names = ", ".join(server.name for server in used)
        fix = format_install_command(MCP_EXTRA)
        yield CheckResult(WARNING, MCP_CHECK, f"the package mcp is not installed, and {names} cannot be used", fix)
        return
    for server in used:
        yield from check_mcp_server(server, app)
    if used:
        names = ", ".join(server.name for server in used)
        yield CheckResult(OK, MCP_CHECK, f"{format_count(len(used), 'server')}: {names}", "ask mcp test starts them")
    elif not found.warnings:
        yield CheckResult(OK, MCP_CHECK, "no server is used", "ask mcp add adds one")


def check_mcp_server(server: ServerConfig, app: AppContext) -> Iterator[CheckResult]:
    """What a server needs and has not."""
    try:
        filled = expand_variables(server, app.environment, Path.cwd())
    except ConfigError as error:
        yield CheckResult(WARNING, MCP_CHECK, error.message, error.advice)
        return
    path = filled.env.get("PATH", app.environment.get("PATH"))
    if filled.command and not shutil.which(Path(filled.command).expanduser(), path=path):
        reason = f"the MCP server {server.name} does not start: there is no program {filled.command!r}"
        yield CheckResult(WARNING, MCP_CHECK, reason, "install it, or give its whole path")


def check_safe_mode(app: AppContext) -> Iterator[CheckResult]:
    """Whether the sandbox can be opened and holds, in an empty folder with another beside it for what it notes.

    A problem only where safe mode is switched on for every run.
    """
    settings = resolve_settings({}, app.environment, app.config)
    with TemporaryDirectory() as empty:
        work = Path(empty, "work")
        work.mkdir()
        noting_elsewhere = copy(app)
        noting_elsewhere.app_dirs = app.app_dirs._replace(data=Path(empty, "data"))
        findings = list(probe_sandbox(settings, work, noting_elsewhere))
    for finding in findings:
        if finding.state == PROBLEM:
            yield finding._replace(state=PROBLEM if settings.safe else WARNING, check="safe mode")
            return
    words = "on for every run" if settings.safe else "to be had with --safe"
    yield CheckResult(OK, "safe mode", f"{words}, by {findings[0].found}: `ask safe` tells more")


def get_shell_name(app: AppContext) -> str:
    """The name of the user's shell; "" where it is none that `ask init` knows."""
    name = Path(app.environment.get("SHELL", "")).name
    return name if name in SHELLS else ""


def check_shell(app: AppContext) -> Iterator[CheckResult]:
    """Whether the integration is on in the shell that this was started from."""
    shell, check = get_shell_name(app), "shell"
    if app.environment.get("ASK_SESSION"):
        yield CheckResult(OK, check, "the integration is on ($ASK_SESSION is set)")
    elif shell:
        yield CheckResult(
            OK, check, "the integration is off", f"{EVAL_LINES[shell]} in {RC_FILES[shell]} switches it on"
        )
    else:
        yield CheckResult(OK, check, f"the integration is off; it is for {', '.join(SHELLS)}")


def check_completions(app: AppContext) -> Iterator[CheckResult]:
    """Whether completions are where the user's shell looks for them, and are those of this version."""
    shell, check = get_shell_name(app), "completions"
    if not shell:
        return
    file, fix = find_install_path(shell, app.environment), f"ask init {shell} --install"
    if not is_installed_by_ask(file):
        if app.environment.get("ASK_SESSION"):
            yield CheckResult(OK, check, "they come with the integration")
        else:
            yield CheckResult(OK, check, f"not installed for {shell}", f"{fix} does it")
    elif file.read_bytes() != find_completion_script(shell).read_bytes():
        yield CheckResult(WARNING, check, f"{file} is of another version of ask", fix)
    else:
        yield CheckResult(OK, check, str(file))


def probe_sandbox(settings: Settings, directory: Path, app: AppContext) -> Iterator[CheckResult]:
    """What holds there, tried in a sandbox that is closed again; of what does not hold, the first.

    Raises:
        ConfigError, UsageError: the settings make no sense.
    """
    wires = ", ".join(wire.name for wire in compile_deny_rules(settings.tripwires))
    hosts = ", ".join(map(parse_allowed_host, settings.allow_hosts))
    try:
        program = find_bubblewrap()
        yield CheckResult(
            OK, "bubblewrap", f"{program} {'.'.join(map(str, read_bubblewrap_version(program)))}".rstrip()
        )
        confined = prepare_sandbox_config(settings, directory, app.results_directory / generate_conversation_id(), app)
        with Sandbox(confined) as sandbox:
            yield from (
                CheckResult(OK, finding.name, "tried: it cannot be done") for finding in sandbox.self_test_results
            )
            yield from (CheckResult(WARNING, "what is guarded", warning) for warning in sandbox.warnings)
    except SafetyError as error:
        yield CheckResult(PROBLEM, "sandbox", error.message, error.advice)
        return
    yield CheckResult(OK, "can be written", ", ".join(map(str, confined.writable_folders)))
    yield CheckResult(
        OK, "can be fetched from", f"{hosts}; other hosts after asking" if hosts else "any host, after asking"
    )
    yield CheckResult(OK, "refused before it starts", wires)
    yield CheckResult(OK, "on for every run", "yes" if settings.safe else "no, with --safe alone")
