"""Decide which URLs and addresses tools may reach.

A URL is parsed once, strictly, and rebuilt from its checked parts, so that no later parser can find a different host in
it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from ask.client.network_errors import find_connect_reason
from ask.config.base_url import DEFAULT_PORTS, is_loopback
from ask.records import NamedTuple
from ask.tools.base import ToolError

_URL_PATTERN = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY_PATTERN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{0,5}))?")
_HOST_NAME_PATTERN = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# Not public, but global for `ipaddress`, or for its older versions.
# https://www.iana.org/assignments/iana-ipv4-special-registry, iana-ipv6-special-registry
_NON_PUBLIC_NETWORKS = [
    ip_network(block)
    for block in (
        "168.63.129.16/32",  # looks public, but is the host of an Azure virtual machine
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # Teredo and others
        "2002::/16",  # 6to4
        "3fff::/20",
    )
]
_GLOBAL_UNICAST_IPV6 = ip_network("2000::/3")
_NAT64_NETWORK = ip_network("64:ff9b::/96")


class AddressRefusedError(ToolError):
    """A host that is not public, and therefore not reached in safe mode."""


class HttpTarget(NamedTuple):
    """A parsed http(s) URL.

    Attributes:
        scheme: "http" or "https".
        host: a name in lower-case ASCII without a trailing dot, or an IP address without brackets.
        port: 1 to 65535.
        path: path and query, not empty.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as in a URL and the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(url: str) -> HttpTarget:
    """Parse an http(s) URL.

    Raises:
        ToolError: it is invalid, contains credentials, or has an ambiguous host.
    """
    url = url.strip(" ")
    try:
        return _parse_url(url)
    except ValueError as error:
        excerpt = url if len(url) <= 200 else url[:200] + "..."
        raise ToolError(f"not fetched: {excerpt!r}: {error}") from None


def _parse_url(url: str) -> HttpTarget:
    match = _URL_PATTERN.match(url)
    if _CONTROL_CHARACTERS.search(url):
        raise ValueError("it contains a control character")
    if not match:
        raise ValueError("a URL must start with http:// or https://")
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if "@" in authority:
        raise ValueError("credentials in URLs are not sent; remove the part before the @")
    parts = _AUTHORITY_PATTERN.fullmatch(authority)
    if not parts:
        raise ValueError("it has no host")
    port = int(parts["port"] or DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise ValueError("invalid port")
    try:
        host = IPv6Address(parts["six"]).compressed if parts["six"] else _parse_host_name(parts["name"])
    except ValueError:  # of IPv6Address, IPv4Address and idna
        raise ValueError("its host is neither an address nor a valid name") from None
    return HttpTarget(scheme, host, port, path if path.startswith("/") else f"/{path}")


def is_ip_address(host: str) -> bool:
    """Check whether the host of an `HttpTarget` is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdecimal()


def is_public_address(address: str) -> bool:
    """Check whether an IP address, and any address embedded in it, is public.

    An IPv4 address embedded in IPv6 is checked itself (NAT64) or always refused (mapped, 6to4, Teredo).
    """
    if "%" in address:
        return False
    number = ip_address(address)
    if number in _NAT64_NETWORK:
        number = IPv4Address(int(number) & 0xFFFF_FFFF)
    if isinstance(number, IPv6Address) and number not in _GLOBAL_UNICAST_IPV6:
        return False
    return number.is_global and not number.is_multicast and not any(number in each for each in _NON_PUBLIC_NETWORKS)


def _parse_host_name(host: str) -> str:
    """Normalize a host name.

    Raises:
        ValueError: it is invalid, or an IPv4 address in a form other than four decimal numbers.
    """
    if not host.isascii():
        from idna import encode

        host = encode(host, uts46=True).decode("ascii")
    name = host.lower().removesuffix(".")
    if not _HOST_NAME_PATTERN.fullmatch(name) or len(name) > 253:
        raise ValueError
    # As in browsers, a name whose last label is a number is an IPv4 address, in one of its many forms.
    return str(IPv4Address(name)) if _NUMERIC_LABEL_PATTERN.fullmatch(name.rpartition(".")[2]) else name


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a name to its addresses, in the order to try them."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


def check_public_host(host: str) -> None:
    """Check the host of an `HttpTarget` without resolving it: nobody has approved yet that its name is looked up.

    Raises:
        AddressRefusedError: it is this machine, or an address that is not public.
    """
    if is_loopback(host) or (is_ip_address(host) and not is_public_address(host)):
        raise AddressRefusedError(f"not fetched: {host} is not public, and safe mode reaches only public hosts")


def is_public_remote_address(address: str) -> bool:
    """Check whether an address is public and not this machine's own.

    Its own addresses would reach services that are only meant for local use.
    """
    if not is_public_address(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing, but chooses the address to send from
            return bool(probe.getsockname()[0] != address)
    except OSError:  # no route, or no IPv6
        return True


class NetworkPolicy(NamedTuple):
    """The hosts that safe mode lets `fetch_url` and the command proxy reach.

    Checked for the URL and for every redirect. A host is refused if any of its addresses is not allowed, and the
    connection is made to the address that was checked, so a second DNS answer cannot change it (DNS rebinding). Proxies
    are not used: they would resolve the name themselves.

    Attributes:
        redirect_hosts: other hosts that redirects may lead to.
        resolve: resolves a name to its addresses; raises OSError.
        is_allowed: decides whether an address may be reached.
    """

    redirect_hosts: frozenset[str]
    resolve: Callable[[str, int], Sequence[str]] = resolve_host
    is_allowed: Callable[[str], bool] = is_public_remote_address

    def resolve_allowed(self, target: HttpTarget) -> Sequence[str]:
        """Resolve `target` to the addresses to try, in order.

        Raises:
            AddressRefusedError: one of its addresses is not allowed.
            ToolError: it has no address.
        """
        try:
            addresses = [target.host] if is_ip_address(target.host) else self.resolve(target.host, target.port)
        except OSError as error:
            raise ToolError(f"cannot connect to {target.authority}: {find_connect_reason(error) or error}") from None
        if not addresses:
            raise ToolError(f"cannot connect to {target.authority}: unknown host")
        for address in addresses:
            if not self.is_allowed(address):
                raise AddressRefusedError(
                    f"not connected: {target.host} is at {address}, and safe mode reaches only public hosts"
                )
        return addresses
