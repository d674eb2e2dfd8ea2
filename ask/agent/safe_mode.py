"""Safe mode, wired to a run: what it is confined to, the sandbox opened before anything is sent, the tools in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

from ask.agent.app_context import AppContext
from ask.atomic_files import create_private_folder
from ask.errors import ConfigError, UsageError
from ask.safety.deny_rules import DEFAULT_DENY_RULES, CommandDenyRule, select_deny_rules
from ask.safety.folder_scan import is_bare_repository
from ask.safety.path_policy import build_sandbox_config
from ask.safety.policy import BUILTIN_ORIGIN, ToolPolicy
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.settings import Settings
from ask.tools.base import Tool, ToolError
from ask.tools.network_policy import parse_host


class SafeModeContext:
    """A run's safe mode; a context that ends it.

    Args:
        settings: what the user wishes.
        directory: where the run takes place.
        spill: the folder for the long outputs of this run.
        workspace: where things are.
        tell: takes lines for the user, about what is not covered, and what the run has left.

    Attributes:
        policy: what may be called.
        allowed_hosts: which hosts may be reached without asking.
        sandbox_config: what the calls are confined to.

    Raises:
        SafetyError: it cannot be had here.
        ConfigError, UsageError: the settings make no sense.
    """

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        overflow_directory: Path,
        app: AppContext,
        notify: Callable[[str], None],
    ) -> None:
        self.allowed_hosts = frozenset(map(parse_allowed_host, settings.allow_hosts))
        self.policy = ToolPolicy(
            confirm=settings.confirm,
            assume_yes=settings.assume_yes,
            safe_mode=True,
            allowed_hosts=self.allowed_hosts,
            allowed_tools=frozenset(settings.allow_tools),
            deny_rules=compile_deny_rules(settings.tripwires),
        )
        for folder in (app.app_dirs.data, overflow_directory.parent):
            create_private_folder(folder)
        self.sandbox_config = prepare_sandbox_config(settings, directory, overflow_directory, app)
        self._sandbox = Sandbox(self.sandbox_config, during_start=partial(import_module, "requests"))
        self._notify = notify
        for warning in self._sandbox.warnings:
            notify(warning)
        self._initial_repositories = set(filter(is_bare_repository, self.sandbox_config.writable_folders))

    def sandbox_tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools that safe mode offers, those that touch something here in the sandbox."""
        return [
            self._sandbox.wrap_tool(tool) if tool.origin == BUILTIN_ORIGIN and not tool.host_of else tool
            for tool in tools
            if tool.origin == BUILTIN_ORIGIN or tool.spec.name in self.policy.allowed_tools
        ]

    @property
    def writable_folders(self) -> Sequence[Path]:
        """The folders that calls can change, none of them in another."""
        return self.sandbox_config.outermost_folders

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders in them that exist only because of safe mode."""
        return self._sandbox.placeholders

    def list_protected_paths(self) -> set[str]:
        """The paths in them that no call can change, nor move, placeholders among them."""
        return {str(path) for path in self._sandbox.protected_paths}

    def can_read(self, path: Path) -> bool:
        """Whether a call could read what is there, by a path without links."""
        return any(path.is_relative_to(folder) for folder in self.sandbox_config.writable_folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self._sandbox.close()
        for folder in filter(
            is_bare_repository, set(self.sandbox_config.writable_folders) - self._initial_repositories
        ):
            self._notify(
                f"{folder} has become a git repository itself, by its HEAD, objects and refs: look at its config, "
                "which can have git run commands, before you use git there"
            )
        with suppress(OSError):
            self.sandbox_config.overflow_directory.rmdir()


def prepare_sandbox_config(
    settings: Settings, directory: Path, overflow_directory: Path, app: AppContext
) -> SandboxConfig:
    """What the calls of a run are confined to.

    Raises:
        SafetyError: a folder cannot be opened to them.
    """
    return build_sandbox_config(
        directory,
        [Path(folder).expanduser() for folder in settings.allow_dirs],
        config_dir=app.app_dirs.config,
        data_dir=app.app_dirs.data,
        overflow_directory=overflow_directory,
        environment=app.collect_secrets().build_child_environment(),
        extra_variables=settings.safe_environment,
    )


def parse_allowed_host(host_name: str) -> str:
    """A host as the user names it, in the form in which hosts are compared.

    Raises:
        UsageError: it is none.
    """
    try:
        return parse_host(f"https://{host_name}/")
    except ToolError as error:
        raise UsageError(f"{host_name} is no host to allow ({error})", "name it as --allow-host example.com") from None


def compile_deny_rules(patterns: Sequence[str]) -> tuple[CommandDenyRule, ...]:
    """What is refused: as configured, or else the usual.

    Raises:
        ConfigError: a pattern is none.
    """
    try:
        return select_deny_rules(patterns) or DEFAULT_DENY_RULES
    except re.error as fault:
        raise ConfigError(f"safe.tripwires: {fault.pattern!r} is no regular expression ({fault})") from None
