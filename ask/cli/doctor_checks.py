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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ask import __distribution__, __version__
from ask.agent.provider_selection import ModelSelection, list_configured_models, resolve_endpoint, resolve_fallbacks
from ask.app import AppContext
from ask.cli.commands import find_plugin_commands
from ask.cli.doctor_results import OK, PROBLEM, WARNING, CheckResult, note, ok, problem, warning
from ask.cli.init import EVAL_LINES, RC_FILES, SHELLS, find_completion_script, find_install_path, is_installed_by_ask
from ask.cli.plugin_commands import load_plugin_command
from ask.client.endpoint import (
    ModelEndpoint,
    create_client,
    explain_ignored,
    find_key_origin,
    find_provider_origin,
    list_configured_services,
    list_other_base_urls,
    load_provider,
    open_sign_in,
    report_plugin_output,
    requires_key,
    resolve_base_url,
    resolve_headers,
    resolve_key,
)
from ask.client.models_cache import find_newest_file, read_models
from ask.client.models_list import check_key, keep_models_list
from ask.client.prices import OPENROUTER, PRICES_EXTRA, is_genai_prices_installed
from ask.client.retirement import find_retirement_date, format_retirement, is_due
from ask.config.base_url import expand_base_url
from ask.config.config_file import Config
from ask.config.directories import AppDirs
from ask.config.installation import find_launcher, format_install_command
from ask.config.key_store import KEYRING, SIGNED_IN, KeyStore, format_variable_prefix
from ask.config.logins import LoginStore
from ask.config.precedence import read_switch
from ask.config.settings import SAFE_OPTIONS, SANDBOX_LEVEL, SETTINGS, Settings
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.console import protect_standard_output
from ask.errors import AskError, ConfigError, SafetyError, to_ask_error
from ask.history.entries import generate_conversation_id
from ask.history.store import Store
from ask.inputs.loaders import check_loader, create_readers, find_loaders
from ask.map.ledger import read_jobs
from ask.mcp.offered_tools import is_mcp_installed, open_sign_ins
from ask.mcp.server_config import MCP_EXTRA, expand_variables, find_servers
from ask.process.time_limit import limit_time
from ask.project.project_context import UNTRUSTED, list_all_skills
from ask.project.trust_decisions import TrustStore
from ask.render.amounts import format_count
from ask.safety.approval_store import ApprovalStore
from ask.safety.bubblewrap import find_bubblewrap, read_bubblewrap_version
from ask.safety.command_proxy import parse_command_host
from ask.safety.file_confinement import FileConfinement
from ask.safety.protected_paths import SHOWN_ONCE
from ask.safety.safe_mode import parse_allowed_host, prepare_sandbox_config
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.tool_policy import ToolPolicy
from ask.text import decode_argument, format_size
from ask.tools.base import Tool
from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB
from ask.tools.plugins.plugin_process import PluginLoadError
from ask.tools.plugins.plugin_tools import format_origin, load_plugin_tools
from ask.tools.search_engine import DUCKDUCKGO, KEYED_ENGINES, find_search_engine, format_search_setup_hint

NO_KEY = ": no key"


LOAD_TIMEOUT_SECONDS = 10.0
"""The time limit for loading the command of a package."""
CONTACT_HINT = "contact its author, or uninstall it"
SWITCH_VARIABLES = tuple(setting.variable for setting in SETTINGS.values() if setting.type is bool and setting.variable)
"""The environment variables that are on or off."""


def run_checks(app: AppContext, *, offline: bool, verbose: bool) -> list[CheckResult]:
    """Run all checks in the order in which they are shown; redact the results. A check that fails is a problem."""
    usable_app = _leave_out_invalid(app)
    usable_app.needs_keys = not offline
    checks: dict[str, Callable[[AppContext], Iterable[CheckResult]]] = {
        "versions": partial(_check_versions, verbose=verbose),
        "PATH": _check_launcher,
        "config.toml": lambda _: _check_config_file(app),
        "keys.toml": _check_keys,
        "folders": _check_folders,
        "history": _check_history,
        "map": _check_map_jobs,
        "tools": _check_tools,
        "approvals": _check_approvals,
        "tool plugins": _check_tool_plugins,
        "loaders": _check_loaders,
        "commands": _check_commands,
        "entry points": _check_entry_points,
        "context": _check_context,
        "mcp": _check_mcp_servers,
        "sign-ins": _check_sign_ins,
        "safe mode": _check_safe_mode,
        "shell": _check_shell,
        "prices": _check_prices,
        "default": _check_default,
        "providers": partial(_check_providers, offline=offline),
        "models": _check_models,
    }
    results: list[CheckResult] = []
    for name, check in checks.items():
        try:
            results += check(usable_app)
        except Exception as error:  # noqa: BLE001 - a failed check must not prevent the others
            ask_error = to_ask_error(error)
            results.append(problem(name, ask_error.summary, ask_error.hint or "check its permissions"))
    redact = usable_app.collect_secrets().redact
    return [result._replace(found=redact(result.found), fix=redact(result.fix)) for result in results]


def _leave_out_invalid(app: AppContext) -> AppContext:
    """Return a context without the settings and saved keys that are invalid, which have checks of their own."""
    environment = dict(app.environment)
    for variable in SWITCH_VARIABLES:
        try:
            read_switch(environment, variable)
        except ConfigError:
            environment[variable] = ""
    usable_app = AppContext(environment)
    try:
        config = usable_app.config
    except ConfigError:
        config = usable_app.config = Config()
    try:
        usable_app.key_store.read_saved_keys()
    except ConfigError:
        usable_app.key_store = KeyStore(Path(os.devnull), environment, config.providers)
    return usable_app


def _check_versions(_: AppContext, *, verbose: bool) -> Iterator[CheckResult]:
    """Report the versions that bug reports should include, with `verbose` those of packages; check SQLite for FTS5."""
    from importlib.metadata import requires, version

    yield ok("ask", f"{__version__}, in {Path(__file__).parents[2]}")
    yield ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        sqlite3.connect(":memory:").execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
        yield ok("sqlite", sqlite3.sqlite_version)
    except sqlite3.Error as error:
        yield problem("sqlite", f"{sqlite3.sqlite_version}: {error}", "use a Python whose SQLite has FTS5")
    if not verbose:
        return
    requirements = [requirement for requirement in requires(__distribution__) or () if "extra ==" not in requirement]
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in requirements]
    yield ok("packages", ", ".join(f"{name} {version(name)}" for name in names))


def _check_launcher(_: AppContext) -> Iterator[CheckResult]:
    """Check that a shell finds this `ask`."""
    own_launcher, launcher_on_path = find_launcher(), shutil.which("ask")
    if launcher_on_path is None:
        yield warning("PATH", "ask is not in PATH", f"add {own_launcher.parent} to it")
    elif own_launcher.exists() and not Path(launcher_on_path).samefile(own_launcher):
        found = f"ask in PATH is {launcher_on_path}, but this is {own_launcher}"
        yield warning("PATH", found, "put your folder first in PATH")
    else:
        yield ok("PATH", f"ask is {launcher_on_path}")


def _check_config_file(app: AppContext) -> Iterator[CheckResult]:
    """Check config.toml and the on/off variables."""
    fix = "correct it with ask config edit"
    try:
        warnings = app.config.warnings
        yield from (warning("config.toml", text, fix) for text in warnings)
        yield from (problem("config.toml", str(error), fix) for error in app.config.errors.values())
        if not warnings and not app.config.errors:
            path = app.app_dirs.config_file
            yield ok("config.toml", str(path) if path.exists() else f"not created ({path})")
    except ConfigError as error:
        yield problem("config.toml", str(error), fix)
    for variable in SWITCH_VARIABLES:
        try:
            read_switch(app.environment, variable)
        except ConfigError as error:
            yield problem(variable, error.message, error.hint)


def _report_private_file(check: str, found: str, path: Path, hint: str = "") -> CheckResult:
    """Report a file that only the user should be able to access."""
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return warning(check, f"{found}; other users can read it", f"run chmod 600 {path}")
    return ok(check, found, hint)


def _check_keys(app: AppContext) -> Iterator[CheckResult]:
    """Check that keys.toml is valid and private."""
    path = app.app_dirs.keys_file
    try:
        saved_keys = KeyStore(path, app.environment, app.config.providers).read_saved_keys()
    except ConfigError as error:
        yield problem("keys.toml", str(error), f"correct {path}, or move it away")
        return
    if saved_keys:
        in_keyring = [*saved_keys.values()].count(None)
        keyring_count = f"; {format_count(in_keyring, 'key')} in {KEYRING}" if in_keyring else ""
        found = f"{format_count(len(saved_keys) - in_keyring, 'key')} in {path}{keyring_count}"
        yield _report_private_file("keys.toml", found, path)
    else:
        yield note("keys.toml", "no saved keys", "ask keys set PROVIDER saves one")
    for name in sorted(saved_keys.keys() - {*app.provider_names, *app.services, *KEYED_ENGINES}):
        fix = f"install the provider, or run ask keys remove {name}"
        yield warning("keys.toml", f"it has a key for {name}, which is not a provider", fix)


UNWRITABLE_FOLDER_RESULTS = {
    "config": (WARNING, "settings and keys cannot be changed"),
    "data": (PROBLEM, "conversations and file backups cannot be saved"),
    "cache": (WARNING, "every start is slower"),
}
"""State and consequence for each folder if it cannot be written."""
MIN_FREE_BYTES = 10_000_000
"""Free bytes on a disk below which it counts as full."""


def _check_folders(app: AppContext) -> Iterator[CheckResult]:
    """Check that the folders can be written or created."""
    for name, (state, consequence) in UNWRITABLE_FOLDER_RESULTS.items():
        folder: Path = getattr(app.app_dirs, name)
        check = f"{name} folder"
        existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            fix = f"make {existing} writable, or set XDG_{name.upper()}_HOME to another folder"
            yield CheckResult(state, check, f"{existing} is not writable: {consequence}", fix)
        elif (free := shutil.disk_usage(existing).free) < MIN_FREE_BYTES:
            found = f"{folder} is on a disk with only {format_size(free)} free"
            yield CheckResult(state, check, found, "free some space")
        else:
            yield ok(check, str(folder) if existing == folder else f"{folder} (not created yet)")


def _check_history(app: AppContext) -> Iterator[CheckResult]:
    """Check that the saved conversations can be read, and only by the user."""
    path = app.app_dirs.history_file
    if not path.exists():
        yield ok("history", "no saved conversations")
        return
    with Store(path, create=False, lock_timeout=1) as store:
        store.check_integrity()
        [(count,)] = store.fetch_rows("SELECT count(*) FROM conversations")
    found = f"{format_count(count, 'conversation')} in {format_size(path.stat().st_size)}"
    yield _report_private_file("history", found, path)


def _check_map_jobs(app: AppContext) -> Iterator[CheckResult]:
    """Check that the jobs of `ask map` can be read, if there are any."""
    path = app.app_dirs.ledger_file
    if not path.exists():
        return
    jobs = read_jobs(path)
    found = f"{format_count(len(jobs), 'job')} in {format_size(path.stat().st_size)}"
    yield ok("map", found, "ask map --list shows them" if jobs else "")


def _check_tools(app: AppContext) -> Iterator[CheckResult]:
    """Check which tools a model is offered, and whether they work."""
    settings = app.read_settings()
    engine = find_search_engine(app, settings.search_engine)
    names = [*(tool.spec.name for tool in BUILTIN_TOOLS), SEARCH_WEB.name]
    offered = [name for name in (names if engine else names[:-1]) if name not in settings.disabled_tools]
    if settings.tools:
        yield ok("tools", ", ".join(offered) or "all are disabled")
    else:
        yield note("tools", "switched off", "ask config set tools.enabled true enables them")
    # A name with two underscores may be a tool of an MCP server, and no server is started here.
    unknown_names = {name for name in settings.disabled_tools.difference(names) if "__" not in name}
    if unknown_names:
        loaded = [tools for tools in _load_tool_plugins(app).values() if not isinstance(tools, PluginLoadError)]
        unknown_names -= {tool.spec.name for tools in loaded for tool in tools}
    for name in sorted(unknown_names):
        yield warning("tools", f"tools.disabled contains the unknown tool {name}", "ask tools lists them")
    if engine:
        yield ok("web search", f"uses {engine.name}")
    elif settings.search_engine:
        yield warning("web search", *format_search_setup_hint(settings.search_engine).split(": ", 1))
    else:
        fix = f"{format_search_setup_hint(DUCKDUCKGO)}, or set a key for {' or '.join(KEYED_ENGINES)}"
        yield note("web search", "no search engine is available", fix)
    if settings.tools and "bash" in offered and not shutil.which("bash"):
        yield problem("tools", "bash is not installed", "install it, or use --disable-tool bash")


def _check_approvals(app: AppContext) -> Iterator[CheckResult]:
    """Check the allowlist, the denylist and the remembered approvals, if there are any."""
    policy = ToolPolicy.from_settings(app.read_settings())
    path = app.app_dirs.approvals_file
    remembered = ApprovalStore(path).read()
    if not (policy.allow or policy.deny or remembered):
        return
    found = f"{len(policy.allow)} allowed, {len(policy.deny)} denied, {len(remembered)} remembered"
    if remembered:
        yield _report_private_file("approvals", found, path, "ask tools approvals lists them")
    else:
        yield ok("approvals", found)


def _check_tool_plugins(app: AppContext) -> Iterator[CheckResult]:
    loaded = _load_tool_plugins(app)
    if not loaded:
        yield ok("tool plugins", "none installed")
    for distribution, tools in loaded.items():
        if isinstance(tools, PluginLoadError):
            reason, _, advice = str(tools).rpartition("; ")
            if not reason:
                reason, advice = advice, CONTACT_HINT
            yield problem(distribution, f"cannot load its tools: {reason}", advice)
        else:
            names = ", ".join(tool.spec.name for tool in tools)
            yield ok(distribution, f"tools: {names}" if names else "it has no tools")


def _check_loaders(app: AppContext) -> Iterator[CheckResult]:
    readers = create_readers(app.read_settings(), app)
    usable = find_loaders(app)
    for prefix, entries in app.plugins.loaders.items():
        distribution = entries[0].distribution
        if prefix not in usable:
            yield warning(distribution, f"its loader {prefix!r} has a prefix that ask does not allow", CONTACT_HINT)
            continue
        try:
            check_loader(entries, readers)
            yield ok(distribution, f"loader: {prefix}:")
        except ConfigError as error:
            yield problem(distribution, error.summary, error.hint or CONTACT_HINT)


def _check_commands(app: AppContext) -> Iterator[CheckResult]:
    usable = find_plugin_commands()
    if usable:  # what they print while they are loaded must not be part of the report
        protect_standard_output()
    for name, entries in app.plugins.commands.items():
        distribution = entries[0].distribution
        if name not in usable:
            yield warning(distribution, f"its command {name!r} has a name that ask does not allow", CONTACT_HINT)
            continue
        try:
            with limit_time(LOAD_TIMEOUT_SECONDS, partial(TimeoutError, "it is still loading")):
                load_plugin_command(name)
            yield ok(distribution, f"command: ask {name}")
        except ConfigError as error:
            yield problem(distribution, error.summary, error.hint or CONTACT_HINT)


def _check_entry_points(app: AppContext) -> Iterator[CheckResult]:
    for entry in app.plugins.misplaced:
        yield warning(entry.distribution, entry.explain(), CONTACT_HINT)
    for name in app.plugins.providers:
        ignored, _, advice = explain_ignored(app, name).partition(": ")
        if ignored:
            yield warning("entry points", ignored, advice)


def _check_context(app: AppContext) -> Iterator[CheckResult]:
    """Check the projects that the user was asked about, and the skills, if there are any."""
    decisions = TrustStore(app.app_dirs.trust_file).read()
    if decisions:
        trusted = sum(decision.trusted for decision in decisions.values())
        found = f"{format_count(trusted, 'project')} trusted, {len(decisions) - trusted} not"
        yield ok("context", found, "ask context list shows them")
    skills = list_all_skills(app, Path.cwd())
    for skill in skills:
        if skill.problem not in ("", UNTRUSTED):
            yield warning("skills", f"{decode_argument(str(skill.folder))}: {skill.problem}", "correct its SKILL.md")
    if usable_names := ", ".join(skill.name for skill in skills if not skill.problem):
        yield ok("skills", usable_names)


def _load_tool_plugins(app: AppContext) -> dict[str, Sequence[Tool] | PluginLoadError]:
    """Load the tools of each package; return them, or why they cannot be loaded, by distribution."""
    settings = app.read_settings()
    distributions = {format_origin(distribution): distribution for distribution in app.plugins.tools}
    with app.cleanup:
        return {distributions[origin]: loaded for origin, loaded in load_plugin_tools(app, settings)}


def _check_mcp_servers(app: AppContext) -> Iterator[CheckResult]:
    """Check which MCP servers are configured, and that their variables and programs exist."""
    check, server_index = "mcp", find_servers(app.config, app.app_dirs.config)
    for text in server_index.warnings:
        yield warning(check, text, "ask mcp list shows the valid servers")
    servers = [server for server in server_index.servers.values() if server.enabled]
    names = ", ".join(server.name for server in servers)
    if not servers:
        yield note(check, "no servers configured", "ask mcp add adds one")
        return
    if not is_mcp_installed():
        found = f"{names} cannot be used: the package mcp is not installed"
        yield warning(check, found, format_install_command(MCP_EXTRA))
        return
    for server in servers:
        try:
            expanded = expand_variables(server, app.environment, Path.cwd())
        except ConfigError as error:
            yield warning(check, error.message, error.hint)
            continue
        path = expanded.env.get("PATH", app.environment.get("PATH"))
        if expanded.command and not shutil.which(os.path.expanduser(expanded.command), path=path):
            found = f"cannot start the MCP server {server.name}: {expanded.command!r} is not installed"
            yield warning(check, found, "install it, or use its full path")
        sign_in = open_sign_ins(app).open(expanded)
        if expanded.url and sign_in.is_signed_in:
            yield ok(check, f"signed in to {server.name}", f"ask mcp logout {server.name} signs out")
        elif expanded.url and sign_in.is_sign_in_required:
            yield warning(check, f"not signed in to {server.name}", f"ask mcp login {server.name}")
    yield ok(check, f"{format_count(len(servers), 'server')}: {names}", "ask mcp test starts them")


def _check_sign_ins(app: AppContext) -> Iterator[CheckResult]:
    """Check that sign-ins to providers can be read, and that each other one is to a configured MCP server."""
    for path in sorted(app.app_dirs.logins.glob("*.json")):
        try:
            accounts = LoginStore(path.parent, path.stem).read().accounts.values()
        except ConfigError as error:
            yield problem("sign-ins", error.summary, error.hint)
            continue
        signed_in = [account.label for account in accounts if account.is_signed_in]
        found = f"{path.stem}: {', '.join(signed_in) or 'signed out'}"
        yield _report_private_file("sign-ins", found, path, "ask login lists accounts")
    servers = find_servers(app.config, app.app_dirs.config).servers
    for path in sorted(app.app_dirs.sign_ins.glob("*.json")):
        if path.stem not in servers:
            found = f"there is a sign-in to {path.stem}, which is not a configured server"
            yield warning("sign-ins", found, f"delete {path}")


def _check_prices(app: AppContext) -> Iterator[CheckResult]:
    """Report the source of prices for providers that report no cost."""
    from importlib.metadata import version

    if is_genai_prices_installed():
        yield ok("prices", f"from genai-prices {version('genai-prices')}")
        return
    cached = read_models(find_newest_file(app.app_dirs.cache, OPENROUTER))
    found = "from OpenRouter's models list" if cached.models else "unknown unless the provider reports the cost"
    yield note("prices", found, format_install_command(PRICES_EXTRA))


def _check_safe_mode(app: AppContext) -> Iterator[CheckResult]:
    """Check that safe mode works at its level, in an empty folder with a temporary data folder.

    A failure is a problem only if safe mode is on for every run.
    """
    settings = app.read_settings()
    option = SAFE_OPTIONS[settings.safe_level]
    with TemporaryDirectory() as empty:
        work_dir = Path(empty, "work")
        work_dir.mkdir()
        temporary_app = copy(app)
        temporary_app.app_dirs = AppDirs(app.app_dirs.config, Path(empty, "data"), app.app_dirs.cache)
        results = list(probe_safe_mode(settings, work_dir, temporary_app))
    if results[-1].state == PROBLEM:
        yield results[-1]._replace(state=PROBLEM if settings.safe else WARNING, check="safe mode")
    else:
        description = "enabled for every run" if settings.safe else f"available with {option}"
        yield ok("safe mode", f"{description}, level {settings.safe_level} ({results[0].found}); see ask safe")


def probe_safe_mode(settings: Settings, directory: Path, app: AppContext) -> Iterator[CheckResult]:
    """Open safe mode in a folder, and report its self-test and its settings.

    If something fails, this is the last result.

    Raises:
        ConfigError, UsageError: the settings are invalid.
    """
    hosts = ", ".join(map(parse_allowed_host, settings.allow_hosts))
    command_hosts = ", ".join(parse_command_host(host).authority for host in settings.allow_command_hosts)
    is_sandbox = settings.safe_level == SANDBOX_LEVEL
    overflow_directory = app.app_dirs.results / generate_conversation_id()
    try:
        if is_sandbox:
            bubblewrap = find_bubblewrap()
            yield ok("bubblewrap", f"{bubblewrap} {'.'.join(map(str, read_bubblewrap_version(bubblewrap)))}".rstrip())
        sandbox_config = prepare_sandbox_config(settings, directory, overflow_directory, app)
        yield from _probe_sandbox(sandbox_config) if is_sandbox else _probe_confinement(sandbox_config)
    except SafetyError as error:
        yield problem("sandbox" if is_sandbox else "file tools", error.message, error.hint)
        return
    for repository in () if settings.allow_git else sandbox_config.outer_repositories:
        reason = repository.reason or f"its repository is outside ({repository.paths[0]})"
        fix = "" if repository.reason else "--allow-git makes it readable"
        yield warning("git", f"does not work in {repository.folder}: {reason}", fix)
    yield ok("can be written", ", ".join(map(str, sandbox_config.writable_folders)))
    yield ok("can be fetched from", f"{hosts}; other hosts after asking" if hosts else "any host, after asking")
    yield ok("commands can reach", (is_sandbox and command_hosts) or "no host")
    yield ok("enabled for every run", "yes" if settings.safe else f"no, only with {SAFE_OPTIONS[settings.safe_level]}")


def _probe_sandbox(config: SandboxConfig) -> Iterator[CheckResult]:
    with Sandbox(config) as sandbox:
        yield from (ok(result.name, "blocked (verified)") for result in sandbox.self_test_results)
        yield from _report_gaps(sandbox.warnings)


def _probe_confinement(config: SandboxConfig) -> Iterator[CheckResult]:
    """Report what is blocked without a sandbox.

    Raises:
        SafetyError: an attempt succeeds.
    """
    with closing(FileConfinement(config)) as confinement:
        yield ok("commands", "not offered; file tools only")
        for name, is_prevented in confinement.run_self_test():
            if not is_prevented:
                raise SafetyError(f"path checks do not work here: {name} succeeded", "use --no-tools")
            yield ok(name, "blocked (verified)")
        yield from _report_gaps(confinement.warnings)


def _report_gaps(warnings: Iterable[str]) -> Iterator[CheckResult]:
    return (warning("protected files", text.removesuffix(SHOWN_ONCE).rstrip()) for text in warnings)


def _check_shell(app: AppContext) -> Iterator[CheckResult]:
    """Check whether the integration is on in this shell, and that its completions are installed and up to date."""
    shell, is_integrated = Path(app.environment.get("SHELL", "")).name, bool(app.environment.get("ASK_SESSION"))
    if is_integrated:
        yield ok("shell", "integration is enabled ($ASK_SESSION is set)")
    elif shell in SHELLS:
        fix = f"add {EVAL_LINES[shell]} to {RC_FILES[shell]} to enable it"
        yield note("shell", "integration is not enabled", fix)
    else:
        yield ok("shell", f"integration is not enabled; it supports {', '.join(SHELLS)}")
    if shell not in SHELLS:
        return
    file, fix = find_install_path(shell, app.environment), f"ask init {shell} --install"
    if is_installed_by_ask(file):
        is_current = file.read_bytes() == find_completion_script(shell).read_bytes()
        if is_current:
            yield ok("completions", str(file))
        else:
            yield warning("completions", f"{file} belongs to another version of ask", fix)
    elif is_integrated:
        yield ok("completions", "included in the integration")
    else:
        yield note("completions", f"not installed for {shell}", f"{fix} installs them")


def _check_default(app: AppContext) -> Iterator[CheckResult]:
    """Check the provider, model and fallbacks that are used if the command line names none."""
    endpoint = resolve_endpoint(app, ModelSelection())
    fallbacks = resolve_fallbacks(app, app.config.get("fallback", ()), endpoint)
    for name, each in (("default", endpoint), *(("fallback", fallback) for fallback in fallbacks)):
        yield ok(name, f"{each.model or 'its first model'} of {each.provider_name}")


PROVIDER_READ_SECONDS, ALL_PROVIDERS_SECONDS = 3.0, 3.5
"""Read timeout for each provider, and total time for all of them."""


def _check_providers(app: AppContext, *, offline: bool) -> Iterator[CheckResult]:
    """Check each provider; those that can be queried are queried in parallel."""
    results: dict[str, CheckResult] = {}
    without_key, threads, queried = [], [], []

    def query(name: str, loaded: CheckResult, endpoint: ModelEndpoint) -> None:
        results[name] = _query_provider(loaded, endpoint, app.app_dirs.cache)

    for name in (*app.provider_names, *list_configured_services(app)):
        result, endpoint = _inspect_provider(app, name)
        if result is None:
            continue
        if result.found.endswith(NO_KEY) and result.state == OK:
            without_key.append(name)
        elif endpoint is None:
            results[name] = result
        elif offline:
            results[name] = result._replace(state=OK, found=f"{result.found}, not contacted")
        else:
            reason = f"no complete response within {ALL_PROVIDERS_SECONDS:g} s"
            results[name] = _add_failure(result, reason, "check the network and the base URL")
            # Not an executor: shutting it down would wait for connections that never complete.
            threads.append(threading.Thread(target=query, args=(name, result, endpoint), daemon=True))
            queried.append(endpoint)
    with report_plugin_output(queried, app.notify):
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + ALL_PROVIDERS_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    yield from list(results.values())
    if without_key:
        advice = "ask keys set PROVIDER saves one; ask login chatgpt signs in"
        yield note("other providers", f"{', '.join(without_key)}{NO_KEY}", advice)


def _inspect_provider(app: AppContext, name: str) -> tuple[CheckResult | None, ModelEndpoint | None]:
    """Check a provider without sending a request; return also how to query it, or None.

    There is no result for another name of a provider. The state is `PROBLEM` if a query must not fail, because the user
    has configured the provider.
    """
    origin = find_provider_origin(app, name)
    try:
        loaded = load_provider(app, name)
    except ConfigError as error:
        fix = error.hint if origin != "config.toml" else "correct it with ask config edit"
        return problem(name, error.summary, fix), None
    info, environment = loaded.info, app.environment
    if name != info.name and info.name in app.provider_names:
        return None, None
    key_origin = find_key_origin(app, info.name, info.key_env)
    prefix, (base_url, base_url_origin) = format_variable_prefix(info.name), resolve_base_url(app, info)
    is_configured = (
        name in (environment.get("ASK_PROVIDER"), app.config.get("provider"))
        or bool(key_origin or app.config.providers.get(info.name, {}))
        or any(environment.get(variable) for variable in (f"{prefix}_BASE_URL", *info.base_url_env))
    )
    result = CheckResult(PROBLEM if is_configured else OK, name, f"{info.title} ({origin})")
    if not key_origin and requires_key(app, info, base_url):
        fix = f"set {(*info.key_env, f'{prefix}_API_KEY')[0]} or run ask keys set {info.name}"
        if info.name in SIGN_IN_SERVICES:
            fix = f"run ask login {info.name}"
        return result._replace(found=f"{result.found}{NO_KEY}", fix=fix), None
    key_description = f"key from {key_origin}" if key_origin else "needs no key"
    if key_origin == SIGNED_IN:
        key_description = "signed in"
    result = result._replace(found=f"{result.found}, {key_description}")
    try:
        base_url = expand_base_url(info.name, environment, base_url)
        other_base_urls = list_other_base_urls(app, info, base_url_origin)
        headers = resolve_headers(app, info.name)
        key = resolve_key(app, info, base_url)[0]
    except AskError as error:
        return problem(name, f"{result.found}, but {error.summary}", error.hint), None
    sign_in = open_sign_in(app, info.name) if key_origin == SIGNED_IN else None
    return result, ModelEndpoint(
        loaded, "", base_url, key, sign_in=sign_in, other_base_urls=other_base_urls, headers=headers
    )


def _query_provider(loaded: CheckResult, endpoint: ModelEndpoint, cache: Path) -> CheckResult:
    """Query each server of a provider; return its result, a failure if there is one: a warning if others answer."""
    servers = [endpoint._replace(base_url=url, other_base_urls=()) for url in endpoint.base_urls]
    results = [_query_server(loaded, server, cache) for server in servers]
    failed = [result for result in results if result.state != OK]
    if failed and len(failed) < len(results):  # the others are used
        found = f"{failed[0].found} at {len(failed)} of {len(results)} base URLs"
        return failed[0]._replace(state=WARNING, found=found)
    return failed[0] if failed else results[0]


def _query_server(loaded: CheckResult, endpoint: ModelEndpoint, cache: Path) -> CheckResult:
    """Query the models that a server lists, and add their number or the error to the result of its provider."""
    try:
        settings = Settings(timeout=PROVIDER_READ_SECONDS, tries=1)
        client = create_client(endpoint, lambda _: None, settings)
        models = client.list_models()
        check_key(endpoint, client)
    except Exception as error:  # noqa: BLE001 - a server may send anything
        # Not to_ask_error(), which asks for a report: the plugin may be to blame.
        advice = "-v with a question shows the traceback"
        unforeseen = AskError(f"{type(error).__name__}: {error}", advice)
        ask_error = error if isinstance(error, AskError) else unforeseen
        return _add_failure(loaded, ask_error.summary, ask_error.hint)
    if models:
        keep_models_list(endpoint, cache, models)
    listed = f"lists {format_count(len(models), 'model')}" if models else "answers"
    return loaded._replace(state=OK, found=f"{loaded.found}, {listed}")


def _add_failure(loaded: CheckResult, reason: str, advice: str) -> CheckResult:
    """Add to the result of a provider why it cannot be queried."""
    failure = f", but {reason}" if loaded.state == PROBLEM else f", not running here ({reason})"
    return loaded._replace(found=loaded.found + failure, fix=advice)


def _check_models(app: AppContext) -> Iterator[CheckResult]:
    """Check when the models in the environment and config.toml are retired."""
    for name, (provider, model) in list_configured_models(app).items():
        date = find_retirement_date(provider, model, app.app_dirs.cache)
        if date and is_due(date):
            advice = f"choose another: ask models -p {provider.info.name}"
            yield warning(name, format_retirement(model, date), advice)
