"""What may be reached where not everything may: look-ups, and the check of what they give."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ask.network_errors import connect_reason
from ask.tools import ToolError
from ask.tools.addresses import Target, is_address, is_public


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order in which to try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_foreign(address: str) -> bool:
    """Whether an address is public, and not this machine's own: that would reach what only listens to itself."""
    if not is_public(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # sends nothing, but chooses the address to send from
        except OSError:
            return True
        return bool(probe.getsockname()[0] != address)


class Restricted(NamedTuple):
    """What may be reached: each redirect and each address is checked before anything is sent there.

    A name that has even one address that may not be reached is refused, and the connection goes to the very
    address that was checked: a second look-up could give another. So there are no proxies, which look names up
    themselves.

    Attributes:
        hosts: where redirects may lead, beside the host of the URL itself.
        look_up: gives the addresses of a name; raises OSError.
        may_reach: tells whether an address may be reached.
    """

    hosts: frozenset[str]
    look_up: Callable[[str, int], Sequence[str]] = look_up
    may_reach: Callable[[str], bool] = is_foreign

    def addresses_of(self, target: Target) -> Sequence[str]:
        """Where to connect to, in the order in which to try.

        Raises:
            ToolError: there is nothing, or one of them may not be reached.
        """
        try:
            found = [target.host] if is_address(target.host) else self.look_up(target.host, target.port)
        except OSError as fault:
            raise ToolError(f"cannot connect to {target.place}: {connect_reason(fault) or fault}") from None
        if not found:
            raise ToolError(f"cannot connect to {target.place}: unknown host")
        for address in found:
            if not self.may_reach(address):
                raise ToolError(f"not fetched: {target.host} is at {address}, and safe mode reaches public hosts only")
        return found
