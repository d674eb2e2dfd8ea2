"""The servers of a run, started only where they are needed: for a list that is not kept, or by a call of a tool.

What is offered stays the same for the whole run, whatever a server lists when it is started later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.errors import ConfigError
from ask.mcp.fingerprint import fingerprint
from ask.mcp.server_config import Server
from ask.mcp.tool_list_cache import KeptLists
from ask.mcp.tool_listing import Listed, Offer, choose
from ask.tools.base import ToolError, ToolResult

if TYPE_CHECKING:
    from ask.mcp.servers import Servers, Started


class OnDemand:
    """The servers that a run may use.

    Args:
        kept: the lists that are kept.
        variables: the environment that `$NAME` is filled in from.
        directory: the working directory.
        open_servers: gives what servers run in, which takes long; called when the first is started.
        status: shows what is waited for; "" for nothing.
    """

    def __init__(
        self,
        kept: KeptLists,
        *,
        variables: Mapping[str, str],
        directory: Path,
        open_servers: Callable[[], Servers],
        status: Callable[[str], None],
    ) -> None:
        self._kept = kept
        self._variables = variables
        self._directory = directory
        self._open_servers = open_servers
        self._status = status
        self._running: Servers | None = None
        self._waiting: dict[str, Offer] = {}
        """What is offered of servers that are not started yet."""
        self._failures: dict[str, str] = {}
        self._lost: dict[str, dict[str, str]] = {}
        """By server, why a tool that is offered cannot be called any more."""

    def offers(self, servers: Sequence[Server]) -> list[Offer]:
        """What each server has: by its list where one is kept, else by starting it, all of those at the same time."""
        known = {server.name: offer for server in servers if (offer := self.kept(server))}
        self._waiting |= known
        started = self.start([server for server in servers if server.name not in known])
        known |= {one.server.name: as_offer(one) for one in started}
        return [known[server.name] for server in servers]

    def kept(self, server: Server) -> Offer | None:
        """What a server has by its list; None where none is kept that can be believed."""
        mark = self._mark(server)
        return self._kept.read(server, mark) if mark else None

    def start(self, servers: Sequence[Server]) -> list[Started]:
        """Start all of them. What they list is kept from then on; of one that cannot be started nothing is."""
        if not servers:
            return []
        marks = {server.name: self._mark(server) for server in servers}
        self._status(f"starting {', '.join(marks)}")
        try:
            self._running = self._running or self._open_servers()
            started = self._running.start(servers)
        finally:
            self._status("")
        for one in started:
            name = one.server.name
            if one.problem:
                self._kept.forget(name)
            else:
                self._kept.keep(as_offer(one), marks[name], one.version)
        return started

    def call(self, name: str, tool: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
        """The result of a call of a server's tool, of a server that is started for it where it is not yet.

        Raises:
            ToolError: there is none.
        """
        if name in self._waiting:
            self._start_waiting(name)
        reason = self._failures.get(name) or self._lost.get(name, {}).get(tool)
        if reason or self._running is None:
            raise ToolError(reason or f"the MCP server {name} does not run")
        return self._running.call(name, tool, arguments, seconds)

    def close(self) -> None:
        """End all that were started."""
        if self._running:
            self._running.close()

    def _start_waiting(self, name: str) -> None:
        offer = self._waiting[name]
        try:
            [started] = self.start([offer.server])
        except BaseException:  # such as Ctrl-C, after which a chat goes on
            if self._running:
                self._running.stop(name)
            raise
        del self._waiting[name]
        if started.problem:
            self._failures[name] = started.problem
        else:
            self._lost[name] = lost(offer, started.tools)

    def _mark(self, server: Server) -> str:
        """The fingerprint of a server; "" where there is none, as it cannot be started."""
        try:
            return fingerprint(server, self._variables, self._directory)
        except ConfigError:
            return ""


def as_offer(started: Started) -> Offer:
    """What there is to offer of a server that was started."""
    if started.problem:
        return Offer(started.server, failure=started.problem)
    return choose(started.server, started.tools)


def lost(offer: Offer, listed: Sequence[Listed]) -> dict[str, str]:
    """By name, why a tool that is offered cannot be called, as its server lists it no more, or as another one."""
    now = {one.name: one for one in listed if not one.needs_task}
    said = f"nothing was run: the MCP server {offer.server.name}"
    reasons = {}
    for one in offer.tools:
        if one.name not in now:
            reasons[one.name] = f"{said} no longer lists the tool {one.name!r}"
        elif one.reads_only and not now[one.name].reads_only:
            # Whoever wants to be asked before anything changes was not.
            reasons[one.name] = f"{said} no longer says that {one.name!r} only reads; the next run offers it as it is"
    return reasons
