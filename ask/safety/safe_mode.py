"""Safe mode of a run: its policy, its sandbox, and the tools that run in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ask.app import AppContext
from ask.atomic_files import create_marker_file
from ask.config.settings import CLAUDE_SKILLS_FOLDER, SAFE_OPTIONS, SANDBOX_LEVEL, Settings
from ask.config.symbolic_links import expand_folder
from ask.errors import FileError, SafetyError, UsageError
from ask.safety.file_snapshot import FileSnapshot, snapshot_imported_modules
from ask.safety.git_commands import find_command_files, find_executed_files
from ask.safety.git_worktrees import has_repository_content
from ask.safety.protected_paths import SHOWN_ONCE
from ask.safety.refused_folders import resolve_path
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.sandbox_folders import build_sandbox_config
from ask.safety.tool_call_log import log_connection
from ask.safety.tool_policy import NETWORK_LEVEL, ToolPolicy, is_local, is_offered
from ask.text import format_one_line, format_paths
from ask.tools.base import RunToolContext, Tool, ToolError

if TYPE_CHECKING:
    from socket import socket

    from ask.project.instruction_changes import RunMark
    from ask.safety.command_proxy import CommandProxy, ProxiedConnection
    from ask.safety.file_confinement import FileConfinement
    from ask.tools.network_policy import HttpTarget

MAX_REFUSALS = 5
"""Maximum number of refused connections that are reported after a call. All of them are logged."""


class SafeModeSession:
    """A run's safe mode. Leaving the context closes the sandbox, or the confined folders.

    The user is notified of what is not protected, and of what the run has left behind. With `uses_network`, the HTTP
    client is imported while the sandbox starts. `programs` are files that tools outside the sandbox run;
    `list_idle_programs` lists those that only later runs start.

    Attributes:
        policy: which tool calls are allowed.
        level: `SANDBOX_LEVEL` or `FILES_LEVEL`.
        sandbox_config: what confined calls can access.
        command_hosts: the hosts that commands can reach.
        writable_folders: the folders that calls can change, none of them inside another.

    Raises:
        SafetyError: safe mode is not available here.
        ConfigError, UsageError: a setting is invalid.
    """

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        conversation_id: str,
        app: AppContext,
        *,
        results_folder: Path,
        uses_network: bool,
        programs: Sequence[Path],
        list_idle_programs: Callable[[], Iterable[Path]],
    ) -> None:
        self.level = settings.safe_level
        self.policy = ToolPolicy.from_settings(settings)._replace(
            safe_mode=True,
            allowed_hosts=frozenset(map(parse_allowed_host, settings.allow_hosts)),
            allowed_tools=frozenset(settings.allow_tools),
            safe_option=SAFE_OPTIONS[self.level],
        )
        self.command_hosts: Sequence[HttpTarget] = ()
        self._refusals: list[str] = []
        self._conversation_id = conversation_id
        self._open_proxy: Callable[[socket], CommandProxy] | None = None
        if settings.allow_command_hosts and self.level == SANDBOX_LEVEL:
            from ask.safety.command_proxy import CommandProxy, parse_command_host

            self.command_hosts = tuple(dict.fromkeys(map(parse_command_host, settings.allow_command_hosts)))
            setting = "add {host} to safe.allow_command_hosts in config.toml"
            hint = setting if settings.is_row else "add --allow-command-host {host}"
            self._open_proxy = partial(CommandProxy, self.command_hosts, self._record_connection, hint=hint)
        config = prepare_sandbox_config(settings, directory, results_folder, app)
        # A run that is not saved has another folder for its own.
        earlier_results = resolve_path(app.app_dirs.results / conversation_id)
        if earlier_results.is_dir() and earlier_results != config.overflow_directory:
            config = config._replace(readable_folders=(*config.readable_folders, earlier_results))
        self.sandbox_config = config._replace(
            unconfined_programs=tuple(programs), configured_paths=tuple(_list_configured_paths(app, directory))
        )
        self.writable_folders: Sequence[Path] = self.sandbox_config.outermost_folders
        self._app, self._directory, self._context_files = app, directory, settings.context_files
        self._list_idle_programs = list_idle_programs
        self._mark = self._mark_trusted_projects()  # before anything can change
        self._later_programs = FileSnapshot(self._list_later_programs)
        try:
            self._confinement = self._open_confinement(uses_network)
        except BaseException:
            if self._mark:
                self._mark.close()
            raise
        self._notify = app.console.print_notice
        for warning in self._confinement.warnings:
            if not warning.endswith(SHOWN_ONCE) or self._is_new(warning):
                self._notify(warning)
        # The warning about commands of git is one of these. Without such commands, no module matters.
        shown_once = [warning for warning in self._confinement.warnings if warning.endswith(SHOWN_ONCE)]
        self._imported_modules = snapshot_imported_modules(self.sandbox_config.writable_folders, shown_once)
        self._explain_git_access(allow_git=settings.allow_git)
        self._initial_repositories = set(filter(has_repository_content, self.sandbox_config.writable_folders))

    def _is_new(self, warning: str) -> bool:
        """Check whether a warning has not been shown in an earlier run, and remember it."""
        digest = sha256(warning.encode(errors="surrogateescape")).hexdigest()
        marker = self.sandbox_config.state_folder / f"shown-{digest[:32]}"
        return not self._app.console.is_quiet and (create_marker_file(marker) or not marker.exists())

    def _list_later_programs(self) -> Iterator[Path]:
        """Yield the programs and scripts in the writable folders that later runs start: of MCP servers and of hooks."""
        paths = [*self._list_idle_programs()]
        for hook in self._app.config.values.get("hooks", ()):
            files = find_executed_files(str(hook.get("command", "")), self._directory, os.path.expanduser("~"))
            paths += (file.path for file in files.paths)
        for path in paths:
            yield from filter(self.can_read, {Path(os.path.abspath(path)), Path(os.path.realpath(path))})

    def _explain_git_access(self, *, allow_git: bool) -> None:
        """Print why git does not work in a writable folder: once if `--allow-git` would change that."""
        for repository in self.sandbox_config.outer_repositories:
            if not allow_git and not repository.reason:
                if not self._app.console.is_quiet and create_marker_file(self._app.app_dirs.data / "shown-git"):
                    self._notify(
                        f"git does not work in {repository.folder}: its repository is outside "
                        f"({repository.paths[0]}); --allow-git makes it readable. (Shown once.)"
                    )
            elif allow_git and repository.reason:
                self._notify(f"git does not work in {repository.folder}, even with --allow-git: {repository.reason}")
            elif allow_git and repository.alternates:
                self._notify(
                    f"{repository.top} borrows objects from {', '.join(map(format_one_line, repository.alternates))}, "
                    "which is not readable: git may fail. To copy them, run git repack -a -d in it and delete "
                    "objects/info/alternates"
                )

    def _open_confinement(self, uses_network: bool) -> Sandbox | FileConfinement:
        if self.level == SANDBOX_LEVEL:
            during_start = partial(_import_next_modules, uses_network)
            return Sandbox(self.sandbox_config, during_start=during_start, open_proxy=self._open_proxy)
        from ask.safety.file_confinement import FileConfinement

        return FileConfinement(self.sandbox_config)

    def _record_connection(self, connection: ProxiedConnection) -> None:
        """Log a connection of a command, and remember a refused one for `take_refusals`. Called in other threads."""
        redact = self._app.console.redact
        connection = connection._replace(target=redact(connection.target), denial=redact(connection.denial))
        if connection.denial and connection.target:
            refusal = f"no connection from a command to {format_one_line(connection.target)} ({connection.denial})"
            if refusal not in self._refusals and len(self._refusals) < MAX_REFUSALS:
                self._refusals.append(refusal)
        try:
            log_connection(self._app.app_dirs.tool_call_log, self._conversation_id, connection)
        except FileError as error:
            if str(error) not in self._refusals:
                self._refusals.append(str(error))

    @property
    def approval_level(self) -> str:
        """The level at which approvals are given and apply."""
        return NETWORK_LEVEL if self.command_hosts else self.level

    def take_refusals(self) -> Sequence[str]:
        """Return why connections of commands were refused since the last time."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def confine_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the tools that safe mode offers. A sandbox runs those that access this machine."""
        return [
            self._confinement.wrap_tool(tool) if isinstance(self._confinement, Sandbox) and is_local(tool) else tool
            for tool in tools
            if is_offered(tool, self.level, self.policy.allowed_tools)
        ]

    def confine_context(self, context: RunToolContext) -> RunToolContext:
        """Return the context for the tools that do not run in a sandbox."""
        context = context._replace(
            overflow_directory=self.sandbox_config.overflow_directory, restrict_hosts=self.policy.allowed_hosts
        )
        if isinstance(self._confinement, Sandbox):
            return context
        # Another name of a file may be outside the folders.
        return context._replace(confinement=self._confinement.context, keep_hard_links=False)

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders that exist only while safe mode is active."""
        return self._confinement.placeholders if isinstance(self._confinement, Sandbox) else ()

    def list_protected_paths(self) -> set[str]:
        """List the paths that no call in the sandbox can change or move. Placeholders are included."""
        return set(map(str, self._confinement.protected_paths)) if isinstance(self._confinement, Sandbox) else set()

    def can_read(self, path: Path) -> bool:
        """Check whether a call could read a path, which must not contain links."""
        return any(path.is_relative_to(folder) for folder in self.sandbox_config.writable_folders)

    def _mark_trusted_projects(self) -> RunMark | None:
        """Mark the trusted projects that calls can write; None if the user trusts none of them."""
        if not self._app.app_dirs.trust_file.exists():
            return None
        from ask.project.instruction_changes import TrustMarks, select_writable_projects
        from ask.project.trust_decisions import TrustStore

        try:
            projects = select_writable_projects(TrustStore(self._app.app_dirs.trust_file), self.writable_folders)
            return TrustMarks(self._app.app_dirs.trust_marks).open_run(projects, self._context_files)
        except FileError as error:
            raise SafetyError(f"safe mode: {error.message}", error.hint) from error

    def _report_changed_instructions(self) -> None:
        """Notify the user about changed instructions, which are not sent until the user has seen them."""
        changed = self._mark.close() if self._mark else ()
        if changed:
            names = format_paths(changed, self._directory)
            was, it_is = ("was", "it is") if len(changed) == 1 else ("were", "they are")
            self._notify(
                f"{names} {was} created or changed in this run: you will be asked before {it_is} sent to a model"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._confinement.close()
        self._report_changed_instructions()
        if programs := self._later_programs.find_changes():
            names = format_paths(programs, self._directory)
            was, them = ("was", "it") if len(programs) == 1 else ("were", "them")
            self._notify(
                f"{names} {was} created or changed in this run; the next run without safe mode may start {them} as an "
                f"MCP server or hook: check {them} first"
            )
        if modules := self._imported_modules.find_changes():
            self._notify(
                f"{format_paths(modules, self._directory)} was created or changed in this run, and a git command that "
                "runs Python may import it: check it before you use git there"
            )
        for folder in self.sandbox_config.writable_folders:
            if has_repository_content(folder) and folder not in self._initial_repositories:
                self._notify(
                    f"{folder} now contains HEAD with objects and refs, or with commondir, so git treats it as a "
                    "repository: check its config files, which can make git run commands, before you use git there"
                )


def prepare_sandbox_config(
    settings: Settings, directory: Path, overflow_directory: Path, app: AppContext
) -> SandboxConfig:
    """Build the sandbox configuration of a run.

    Raises:
        SafetyError: a folder must not be made writable.
    """
    return build_sandbox_config(
        directory,
        [expand_folder(folder, "safe.allow_dirs") for folder in settings.allow_dirs],
        config_dir=app.app_dirs.config,
        cache_dir=app.app_dirs.cache,
        data_dir=app.app_dirs.data,
        overflow_directory=overflow_directory,
        environment=app.collect_secrets().build_child_environment(),
        extra_variables=settings.safe_environment,
        runs_commands=settings.safe_level == SANDBOX_LEVEL,
        allow_git=settings.allow_git,
    )


def _list_configured_paths(app: AppContext, directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield what later runs start or trust without asking, with its type.

    These are the files of commands that print keys and of hooks outside the sandbox, which also run during this run,
    the files that name MCP servers, and the folders with the user's own skills.
    """
    home = os.path.expanduser("~")
    for table in app.config.get("providers", {}).values():
        yield from find_command_files(table.get("key_command", ""), Path(home), home).paths
    for hook in app.config.values.get("hooks", ()):
        if hook.get("sandbox") is False:
            yield from find_command_files(str(hook.get("command", "")), directory, home).paths
    for name in app.config.get("mcp.files", ()):
        yield app.app_dirs.config / os.path.expanduser(name), "file"
    for name in app.config.get("skills.folders", ()):
        if name != CLAUDE_SKILLS_FOLDER:  # that of a project, whose changes the user is asked about
            folder = Path(os.path.expanduser(name))
            yield folder, "folder"
            with suppress(OSError):
                yield from ((skill, "folder") for skill in folder.iterdir() if skill.is_symlink())


def _import_next_modules(uses_network: bool) -> None:
    """Import what the run needs next, while the sandbox starts."""
    import ask.history.recorder  # noqa: F401

    if uses_network:
        from ask.client.transport import import_requests

        import_requests()


def parse_allowed_host(host_name: str) -> str:
    """Normalize a host that the user allows.

    Raises:
        UsageError: it is not a host.
    """
    from ask.tools.network_policy import parse_url

    try:
        return parse_url(f"https://{host_name}/").host
    except ToolError:
        raise UsageError(f"{host_name!r} is not a host", "name each host, for example example.com") from None
