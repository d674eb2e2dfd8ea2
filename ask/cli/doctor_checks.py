"""The checks of `ask doctor`: each yields its results for one subject."""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.mcp_servers import is_mcp_installed
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
from ask.agent.safe_mode import parse_allowed_host, prepare_sandbox_config
from ask.agent.toolset import find_search_engine, format_search_setup_hint
from ask.api_keys import KeyStore, format_variable_prefix
from ask.cli.init import EVAL_LINES, RC_FILES, SHELLS, find_completion_script, find_install_path, is_installed_by_ask
from ask.client.provider_client import ProviderClient
from ask.errors import AskError, ConfigError, FileError, SafetyError
from ask.history.ids import generate_conversation_id
from ask.history.store import Store
from ask.installation import find_launcher, format_install_command
from ask.mcp.server_config import MCP_EXTRA, ServerConfig, find_servers
from ask.mcp.variables import expand_variables
from ask.plugin_api.loader import LoadedProvider
from ask.render.amounts import format_compact_number, format_count
from ask.safety.bubblewrap import find_bubblewrap, read_bubblewrap_version
from ask.safety.policy import compile_deny_rules
from ask.safety.sandbox import Sandbox
from ask.settings import SWITCH_VARIABLES, Config, Settings, read_switch, resolve_settings
from ask.tools.base import Tool
from ask.tools.builtin import list_builtin_tools
from ask.tools.web_search import DUCKDUCKGO, KEYED_ENGINES, SEARCH_WEB
from ask.version import DISTRIBUTION, VERSION

OK, WARNING, PROBLEM = "ok", "warning", "problem"


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        state: `OK`, `WARNING` for a possible problem, or `PROBLEM` if something does not work.
        check: the subject of the check.
        found: the state of the subject.
        fix: how to fix it; "" if nothing needs to be done.
    """

    state: str
    check: str
    found: str
    fix: str = ""

    def to_terminal_row(self) -> dict[str, str]:
        """Convert the result to a table row whose column `found` includes the fix."""
        found = f"{self.found}: {self.fix}" if self.fix else self.found
        return {"state": self.state, "check": self.check, "found": found}


REQUIREMENT_PATTERN = re.compile(r"""([\w.-]+)[^;]*(?:;.*extra == ["'](\w+)["'])?""")
"""The name of a required package, and the extra that requires it."""


def check_versions(_: AppContext) -> Iterator[CheckResult]:
    """Report the versions that bug reports should include; check SQLite for FTS5."""
    import sqlite3

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
    own_launcher, launcher_on_path = find_launcher(), shutil.which("ask")
    if launcher_on_path is None:
        fix = f"add {own_launcher.parent} to it"
        yield CheckResult(WARNING, "PATH", "there is no ask in the folders of PATH", fix)
    elif own_launcher.exists() and not Path(launcher_on_path).samefile(own_launcher):
        yield CheckResult(
            WARNING,
            "PATH",
            f"ask is {launcher_on_path}, and this one is {own_launcher}",
            "put the folder of yours first",
        )
    else:
        yield CheckResult(OK, "PATH", f"ask is {launcher_on_path}")


def check_packages(_: AppContext) -> Iterator[CheckResult]:
    """Check that the required packages are installed."""
    from importlib.metadata import requires

    requirements = [match.groups() for match in map(REQUIREMENT_PATTERN.match, requires(DISTRIBUTION) or ()) if match]
    required, web_packages = (
        find_installed_versions(name for name, extra in requirements if extra == wanted_extra)
        for wanted_extra in (None, "web")
    )
    missing = [name for name, installed_version in required.items() if not installed_version]
    if missing:
        yield CheckResult(PROBLEM, "packages", f"missing: {', '.join(missing)}", "install ask again")
    else:
        yield CheckResult(
            OK, "packages", ", ".join(f"{name} {installed_version}" for name, installed_version in required.items())
        )
    if all(web_packages.values()):
        yield CheckResult(OK, "web pages", "read with the extra web: tables too")
    else:
        yield CheckResult(OK, "web pages", "read without tables", f"{format_install_command('web')} reads these too")


def find_installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Find the version of each distribution; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions


PUBLIC_BITS = stat.S_IRWXG | stat.S_IRWXO


def check_config_file(app: AppContext) -> Iterator[CheckResult]:
    """Check config.toml; if it is invalid, the checks that follow ignore it."""
    path = app.app_dirs.config_file
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
    """Check the on/off variables; the checks that follow ignore an invalid one."""
    for variable in SWITCH_VARIABLES.values():
        try:
            read_switch(app.environment, variable)
        except ConfigError as error:
            app.environment = {**app.environment, variable: ""}
            yield CheckResult(PROBLEM, variable, error.message, error.advice)


def check_keys(app: AppContext) -> Iterator[CheckResult]:
    """Check that keys.toml is valid and private.

    If it is invalid, the checks that follow ignore it.
    """
    path = app.key_store.path
    try:
        saved_keys = app.key_store.read_saved_keys()
    except ConfigError as error:
        app.key_store = KeyStore(Path(os.devnull), app.environment)
        yield CheckResult(PROBLEM, "keys.toml", str(error), f"correct {path}, or move it away")
        return
    if saved_keys and path.stat().st_mode & PUBLIC_BITS:
        yield CheckResult(WARNING, "keys.toml", f"others can read {path}", f"chmod 600 {path}")
    elif saved_keys:
        yield CheckResult(OK, "keys.toml", f"{format_count(len(saved_keys), 'key')} in {path}")
    else:
        yield CheckResult(OK, "keys.toml", "no key is kept", "ask keys set PROVIDER keeps one")
    for name in sorted(saved_keys.keys() - {*app.provider_names, *KEYED_ENGINES}):
        yield CheckResult(
            WARNING, "keys.toml", f"there is no provider {name}", f"install it, or ask keys remove {name}"
        )


def check_tools(app: AppContext) -> Iterator[CheckResult]:
    """Check which tools a model is offered, and whether they work."""
    settings = resolve_settings({}, app.environment, app.config)
    engine = find_search_engine(app, settings.search_engine)
    names = [*(tool.spec.name for tool in list_builtin_tools()), SEARCH_WEB.name]
    available = names if engine else names[:-1]
    offered = [name for name in available if name not in settings.disabled_tools]
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
        fix = f"{format_search_setup_hint(DUCKDUCKGO)}, or keep a key for {' or '.join(KEYED_ENGINES)}"
        yield CheckResult(OK, "web search", "there is none", fix)
    if settings.tools and "bash" in offered and not shutil.which("bash"):
        yield CheckResult(PROBLEM, "tools", "bash is not installed", "install it, or use --disable-tool bash")


def find_unknown_tools(names: Iterable[str], app: AppContext) -> set[str]:
    """Find the names that no tool has.

    A name with two underscores is never reported: it may be a tool of an MCP server, and no server is started here.
    """
    unknown = {name for name in names if "__" not in name}
    if unknown and app.tool_plugins:
        unknown -= {tool.spec.name for tools in load_tool_plugins(app)[0].values() for tool in tools}
    return unknown


def check_default_model(app: AppContext) -> Iterator[CheckResult]:
    """Check the provider and model that are used if the command line names none."""
    try:
        endpoint = resolve_endpoint(app, ModelSelection())
    except ConfigError as error:
        yield CheckResult(PROBLEM, "default", error.message, error.advice)
        return
    model = endpoint.model or "its first model"
    yield CheckResult(OK, "default", f"{model} of {endpoint.provider_name}")


HISTORY_LOCK_TIMEOUT = 1.0
"""Time to wait for another process that has locked the history, in seconds."""
MIN_FREE_BYTES = 10_000_000
"""Free bytes on a disk below which it counts as full."""
UNWRITABLE_FOLDER_RESULTS = {
    "config": (WARNING, "settings and keys cannot be changed"),
    "data": (PROBLEM, "conversations and what files held before cannot be kept"),
    "cache": (WARNING, "every start takes longer"),
}
"""State and consequence for each folder if it cannot be written."""


def check_folders(app: AppContext) -> Iterator[CheckResult]:
    """Check that the folders can be written or created."""
    for name, folder in app.app_dirs._asdict().items():
        state, consequence = UNWRITABLE_FOLDER_RESULTS[name]
        existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        check, description = f"{name} folder", str(folder) if existing == folder else f"{folder}, not made yet"
        if not existing.is_dir():
            yield CheckResult(state, check, f"{existing} is no folder: {consequence}", "move it away")
        elif not os.access(existing, os.W_OK | os.X_OK):
            fix = f"make {existing} writable, or set XDG_{name.upper()}_HOME to another place"
            yield CheckResult(state, check, f"{existing} cannot be written: {consequence}", fix)
        elif (free := get_free_bytes(existing)) < MIN_FREE_BYTES:
            yield CheckResult(
                state, check, f"{folder} is on a disk with {format_compact_number(free)} bytes left", "make room on it"
            )
        else:
            yield CheckResult(OK, check, description)


def get_free_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def check_history(app: AppContext) -> Iterator[CheckResult]:
    """Check that the saved conversations can be read, and only by the user."""
    path = app.app_dirs.history_file
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
    description = f"{format_count(count, 'conversation')} in {format_compact_number(status.st_size)} bytes"
    if status.st_mode & PUBLIC_BITS:
        yield CheckResult(WARNING, "history", f"{description}; others can read it", f"chmod 600 {path}")
    elif not app.config.get("history.enabled", True):
        yield CheckResult(OK, "history", f"{description}; not saved any more (history.enabled)")
    else:
        yield CheckResult(OK, "history", description)


PROVIDER_READ_TIMEOUT, ALL_PROVIDERS_TIMEOUT = 3.0, 3.5
"""Read timeout for each provider, and total time for all of them, in seconds."""


class ProviderStatus(NamedTuple):
    """A provider that was loaded.

    Attributes:
        name: the name by which the user selects it.
        provider: the plugin.
        origin: the distribution that contains it.
        endpoint: how to reach it; None if it needs a key and has none.
        key_origin: where its key is from; "" for none.
        is_configured: whether the user has configured it, so that it should work.
    """

    name: str
    provider: LoadedProvider
    origin: str
    endpoint: ModelEndpoint | None
    key_origin: str
    is_configured: bool


def check_providers(app: AppContext, *, offline: bool) -> Iterator[CheckResult]:
    """Check each provider; those that can be queried are queried in parallel."""
    results: dict[str, CheckResult] = {}
    statuses: dict[str, ProviderStatus] = {}
    for name in app.provider_names:
        origin = ", ".join(entry.distribution for entry in app.provider_plugins.get(name, ())) or "config.toml"
        try:
            statuses[name] = inspect_provider(app, name, origin)
        except ConfigError as error:
            fix = "ask its author, or uninstall it" if origin != "config.toml" else "correct it with ask config edit"
            results[name] = CheckResult(PROBLEM, name, str(error), fix)
    aliases = {name for name, status in statuses.items() if name != status.provider.info.name in statuses}
    endpoints = {name: status.endpoint for name, status in statuses.items() if status.endpoint and name not in aliases}
    replies = {} if offline else query_providers(endpoints)
    for name in app.provider_names:
        if name in aliases:
            yield CheckResult(OK, name, f"another name of {statuses[name].provider.info.name}")
        else:
            yield results.get(name) or to_check_result(statuses[name], replies.get(name), offline=offline)


def inspect_provider(app: AppContext, name: str, origin: str) -> ProviderStatus:
    """Collect the status of a provider without sending a request.

    Raises:
        ConfigError: the provider does not load.
    """
    loaded, environment = app.load_provider(name), app.environment
    info = loaded.info
    key, key_origin = app.key_store.find(info.name, app.find_key_variables(info.name, info.key_env))
    default_names = (environment.get("ASK_PROVIDER"), app.config.get("provider"))
    url_variables = (f"{format_variable_prefix(info.name)}_BASE_URL", *info.base_url_env)
    is_configured = bool(
        key or app.config.get_provider(info.name) or any(environment.get(variable) for variable in url_variables)
    )
    base_url = resolve_base_url(app, info)
    endpoint = None if requires_key(app, info, base_url) and not key else create_endpoint(loaded, "", base_url, key)
    return ProviderStatus(name, loaded, origin, endpoint, key_origin, is_configured or name in default_names)


def query_providers(endpoints: Mapping[str, ModelEndpoint]) -> dict[str, int | AskError]:
    """Query the number of models that each provider lists, or the error.

    Providers that do not answer in time are left out.
    """
    replies: dict[str, int | AskError] = {}
    threads = []
    for name, endpoint in endpoints.items():
        try:
            client = create_client(endpoint, lambda _: None, Settings(timeout=PROVIDER_READ_TIMEOUT, tries=1))
        except AskError as error:
            replies[name] = error
            continue
        # Not an executor: shutting it down would wait for connections that never complete.
        threads.append(threading.Thread(target=query_provider, args=(name, client, replies), daemon=True))
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ALL_PROVIDERS_TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(replies)


def query_provider(name: str, client: ProviderClient, replies: dict[str, int | AskError]) -> None:
    """Store the number of models that a provider lists, or the error."""
    try:
        replies[name] = len(client.list_models())
    except AskError as error:
        replies[name] = error
    except Exception as error:  # noqa: BLE001 - a server may send anything
        replies[name] = AskError(f"{type(error).__name__}: {error}", "-v with a question shows where it arose")


def to_check_result(status: ProviderStatus, reply: int | AskError | None, *, offline: bool) -> CheckResult:
    """Convert the status of a loaded provider and its reply to a check result."""
    info = status.provider.info
    description = f"{info.title} ({status.origin})"
    if status.endpoint is None:
        variable = (*info.key_env, f"{format_variable_prefix(info.name)}_API_KEY")[0]
        state = PROBLEM if status.is_configured else OK
        return CheckResult(
            state, status.name, f"{description}, no key", f"set {variable} or run ask keys set {info.name}"
        )
    description += f", key from {status.key_origin}" if status.key_origin else ", needs no key"
    if offline:
        return CheckResult(OK, status.name, f"{description}, not asked")
    if isinstance(reply, int):
        listed = f"lists {format_count(reply, 'model')}" if reply else "answers"
        return CheckResult(OK, status.name, f"{description}, {listed}")
    reason = reply.brief if reply else f"no whole answer came within {ALL_PROVIDERS_TIMEOUT:g} s"
    advice = reply.advice if reply else "check the network and the base URL"
    if status.is_configured:
        return CheckResult(PROBLEM, status.name, f"{description}, but {reason}", advice)
    return CheckResult(OK, status.name, f"{description}, not running here ({reason})", advice)


def check_tool_plugins(app: AppContext) -> Iterator[CheckResult]:
    """Check each package with tools."""
    tools, load_errors = load_tool_plugins(app)
    if not app.tool_plugins:
        yield CheckResult(OK, "tool plugins", "none is installed, and none is needed")
    for distribution in app.tool_plugins:
        if distribution in load_errors:
            reason = f"its tools cannot be loaded: {load_errors[distribution]}"
            yield CheckResult(PROBLEM, distribution, reason, "ask its author, or uninstall it")
        else:
            names = ", ".join(tool.spec.name for tool in tools.get(distribution, ()))
            yield CheckResult(OK, distribution, f"tools: {names}" if names else "it has no tools")


def load_tool_plugins(app: AppContext) -> tuple[dict[str, list[Tool]], dict[str, str]]:
    """Load the tools of each package; return the tools and errors by distribution."""
    tools: dict[str, list[Tool]] = {}
    load_errors: dict[str, str] = {}
    if app.tool_plugins:
        settings = resolve_settings({}, app.environment, app.config)
        distributions = {format_origin(distribution): distribution for distribution in app.tool_plugins}
        with ExitStack() as cleanup:
            for tool in load_plugin_tools(app.tool_plugins, app, settings, cleanup):
                if isinstance(tool, ToolLoadFailure):
                    load_errors[tool.distribution] = tool.reason
                else:
                    tools.setdefault(distributions[tool.origin], []).append(tool)
    return tools, load_errors


MCP_CHECK = "mcp"


def check_mcp_servers(app: AppContext) -> Iterator[CheckResult]:
    """Check which MCP servers are configured, and whether their requirements are met."""
    server_index = find_servers(app.config, app.app_dirs.config)
    for warning in server_index.warnings:
        yield CheckResult(WARNING, MCP_CHECK, warning, "ask mcp list shows those that are understood")
    enabled_servers = [server for server in server_index.servers.values() if server.enabled]
    if enabled_servers and not is_mcp_installed():
        names = ", ".join(server.name for server in enabled_servers)
        fix = format_install_command(MCP_EXTRA)
        yield CheckResult(WARNING, MCP_CHECK, f"the package mcp is not installed, and {names} cannot be used", fix)
        return
    for server in enabled_servers:
        yield from check_mcp_server(server, app)
    if enabled_servers:
        names = ", ".join(server.name for server in enabled_servers)
        yield CheckResult(
            OK, MCP_CHECK, f"{format_count(len(enabled_servers), 'server')}: {names}", "ask mcp test starts them"
        )
    elif not server_index.warnings:
        yield CheckResult(OK, MCP_CHECK, "no server is used", "ask mcp add adds one")


def check_mcp_server(server: ServerConfig, app: AppContext) -> Iterator[CheckResult]:
    """Check that the variables and the program of an MCP server exist."""
    try:
        expanded = expand_variables(server, app.environment, Path.cwd())
    except ConfigError as error:
        yield CheckResult(WARNING, MCP_CHECK, error.message, error.advice)
        return
    path = expanded.env.get("PATH", app.environment.get("PATH"))
    if expanded.command and not shutil.which(Path(expanded.command).expanduser(), path=path):
        reason = f"the MCP server {server.name} does not start: there is no program {expanded.command!r}"
        yield CheckResult(WARNING, MCP_CHECK, reason, "install it, or give its whole path")


def check_safe_mode(app: AppContext) -> Iterator[CheckResult]:
    """Check that the sandbox works, in an empty folder with a temporary data folder.

    A failure is a problem only if safe mode is on for every run.
    """
    settings = resolve_settings({}, app.environment, app.config)
    with TemporaryDirectory() as empty:
        work_dir = Path(empty, "work")
        work_dir.mkdir()
        temporary_app = copy(app)
        temporary_app.app_dirs = app.app_dirs._replace(data=Path(empty, "data"))
        results = list(probe_sandbox(settings, work_dir, temporary_app))
    for result in results:
        if result.state == PROBLEM:
            yield result._replace(state=PROBLEM if settings.safe else WARNING, check="safe mode")
            return
    description = "on for every run" if settings.safe else "to be had with --safe"
    yield CheckResult(OK, "safe mode", f"{description}, by {results[0].found}: `ask safe` tells more")


def get_shell_name(app: AppContext) -> str:
    """Return the name of the user's shell; "" if `ask init` does not support it."""
    name = Path(app.environment.get("SHELL", "")).name
    return name if name in SHELLS else ""


def check_shell(app: AppContext) -> Iterator[CheckResult]:
    """Check whether the integration is on in the shell that started this process."""
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
    """Check that the completions of the user's shell are installed and up to date."""
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
    """Open a sandbox in a folder, and report its self-test and its settings.

    If something fails, only the first failure is reported.

    Raises:
        ConfigError, UsageError: the settings are invalid.
    """
    deny_rules = ", ".join(rule.name for rule in compile_deny_rules(settings.tripwires))
    hosts = ", ".join(map(parse_allowed_host, settings.allow_hosts))
    try:
        bubblewrap = find_bubblewrap()
        yield CheckResult(
            OK, "bubblewrap", f"{bubblewrap} {'.'.join(map(str, read_bubblewrap_version(bubblewrap)))}".rstrip()
        )
        sandbox_config = prepare_sandbox_config(
            settings, directory, app.app_dirs.results / generate_conversation_id(), app
        )
        with Sandbox(sandbox_config) as sandbox:
            yield from (
                CheckResult(OK, test_result.name, "tried: it cannot be done")
                for test_result in sandbox.self_test_results
            )
            yield from (CheckResult(WARNING, "what is guarded", warning) for warning in sandbox.warnings)
    except SafetyError as error:
        yield CheckResult(PROBLEM, "sandbox", error.message, error.advice)
        return
    yield CheckResult(OK, "can be written", ", ".join(map(str, sandbox_config.writable_folders)))
    yield CheckResult(
        OK, "can be fetched from", f"{hosts}; other hosts after asking" if hosts else "any host, after asking"
    )
    yield CheckResult(OK, "refused before it starts", deny_rules)
    yield CheckResult(OK, "on for every run", "yes" if settings.safe else "no, with --safe alone")
