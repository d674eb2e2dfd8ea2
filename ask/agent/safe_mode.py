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

from ask.agent.workspace import Workspace
from ask.atomic_files import create_private_folder
from ask.errors import ConfigError, UsageError
from ask.safety.command_rules import TRIPWIRES, Tripwire, chosen
from ask.safety.confinement import Confinement
from ask.safety.folder_scan import is_bare_repository
from ask.safety.path_policy import confine
from ask.safety.policy import OWN, Policy
from ask.safety.sandbox import Sandbox
from ask.settings import Settings
from ask.tools.base import Tool, ToolError
from ask.tools.network_policy import host_of


class Confined:
    """A run's safe mode; a context that ends it.

    Args:
        settings: what the user wishes.
        directory: where the run takes place.
        spill: the folder for the long outputs of this run.
        workspace: where things are.
        tell: takes lines for the user, about what is not covered, and what the run has left.

    Attributes:
        policy: what may be called.
        hosts: which hosts may be reached without asking.
        confinement: what the calls are confined to.

    Raises:
        SafetyError: it cannot be had here.
        ConfigError, UsageError: the settings make no sense.
    """

    def __init__(
        self, settings: Settings, directory: Path, spill: Path, workspace: Workspace, tell: Callable[[str], None]
    ) -> None:
        self.hosts = frozenset(map(as_host, settings.allow_hosts))
        self.policy = Policy(
            confirm=settings.confirm,
            yes=settings.yes,
            safe=True,
            allowed_hosts=self.hosts,
            allowed_tools=frozenset(settings.allow_tools),
            tripwires=tripwires(settings.tripwires),
        )
        for folder in (workspace.places.data, spill.parent):
            create_private_folder(folder)
        self.confinement = confinement(settings, directory, spill, workspace)
        self._sandbox = Sandbox(self.confinement, meanwhile=partial(import_module, "requests"))
        self._tell = tell
        for warning in self._sandbox.warnings:
            tell(warning)
        self._repositories = set(filter(is_bare_repository, self.confinement.writable))

    def offered(self, tools: Iterable[Tool]) -> list[Tool]:
        """The tools that safe mode offers, those that touch something here in the sandbox."""
        return [
            self._sandbox.confine(tool) if tool.origin == OWN and not tool.host_of else tool
            for tool in tools
            if tool.origin == OWN or tool.spec.name in self.policy.allowed_tools
        ]

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that calls can change, none of them in another."""
        return self.confinement.outermost

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders in them that exist only because of safe mode."""
        return self._sandbox.placeholders

    def untouched(self) -> set[str]:
        """The paths in them that no call can change, nor move, placeholders among them."""
        return {str(path) for path in self._sandbox.protected}

    def may_read(self, path: Path) -> bool:
        """Whether a call could read what is there, by a path without links."""
        return any(path.is_relative_to(folder) for folder in self.confinement.writable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._sandbox.close()
        for folder in filter(is_bare_repository, set(self.confinement.writable) - self._repositories):
            self._tell(
                f"{folder} has become a git repository itself, by its HEAD, objects and refs: look at its config, "
                "which can have git run commands, before you use git there"
            )
        with suppress(OSError):
            self.confinement.spill.rmdir()


def confinement(settings: Settings, directory: Path, spill: Path, workspace: Workspace) -> Confinement:
    """What the calls of a run are confined to.

    Raises:
        SafetyError: a folder cannot be opened to them.
    """
    return confine(
        directory,
        [Path(folder).expanduser() for folder in settings.allow_dirs],
        config=workspace.places.config,
        data=workspace.places.data,
        spill=spill,
        environment=workspace.secrets().clean_environment(),
        admitted=settings.safe_environment,
    )


def as_host(name: str) -> str:
    """A host as the user names it, in the form in which hosts are compared.

    Raises:
        UsageError: it is none.
    """
    try:
        return host_of(f"https://{name}/")
    except ToolError as error:
        raise UsageError(f"{name} is no host to allow ({error})", "name it as --allow-host example.com") from None


def tripwires(wishes: Sequence[str]) -> tuple[Tripwire, ...]:
    """What is refused: as configured, or else the usual.

    Raises:
        ConfigError: a pattern is none.
    """
    try:
        return chosen(wishes) or TRIPWIRES
    except re.error as fault:
        raise ConfigError(f"safe.tripwires: {fault.pattern!r} is no regular expression ({fault})") from None
