"""Decide which URLs and addresses tools may reach.

A URL is parsed once, strictly, and rebuilt from its checked parts, so that no later parser can find a different host in
it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

from ask.client.network_errors import find_connect_reason
from ask.tools.base import ToolError

_URL_PATTERN = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY_PATTERN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{0,5}))?")
_HOST_NAME_PATTERN = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DEFAULT_PORTS = {"http": 80, "https": 443}

# https://www.iana.org/assignments/iana-ipv4-special-registry
_NON_PUBLIC_IPV4 = [
    ip_network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # looks public, but is the host of an Azure virtual machine
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
]
# https://www.iana.org/assignments/iana-ipv6-special-registry: the non-public blocks inside global unicast.
_GLOBAL_UNICAST_IPV6 = ip_network("2000::/3")
_NON_PUBLIC_IPV6 = [ip_network(block) for block in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
_NAT64_NETWORK = ip_network("64:ff9b::/96")


class HttpTarget(NamedTuple):
    """A parsed http(s) URL.

    Attributes:
        scheme: "http" or "https".
        host: A name in lower-case ASCII without a trailing dot, or an IP address without brackets.
        port: 1 to 65535.
        path: Path and query, not empty.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as in a URL and the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(url: str) -> HttpTarget:
    """Parse an http(s) URL.

    Raises:
        ToolError: It is invalid, contains credentials, or has an ambiguous host.
    """
    url = url.strip(" ")
    match = _URL_PATTERN.match(url)
    if _CONTROL_CHARACTERS.search(url):
        raise _make_url_error(url, "it holds a control character")
    if not match:
        raise _make_url_error(url, "a URL begins with http:// or https://")
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if "@" in authority:
        raise _make_url_error(url, "credentials are not sent; leave out what stands before the @")
    parts = _AUTHORITY_PATTERN.fullmatch(authority)
    if not parts:
        raise _make_url_error(url, "it names no host")
    port = int(parts["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise _make_url_error(url, "there is no such port")
    host = _parse_ipv6(url, parts["six"]) if parts["six"] else _parse_host_name(url, parts["name"])
    return HttpTarget(scheme, host, port, path if path.startswith("/") else f"/{path}")


def parse_host(url: str) -> str:
    """Return the normalized host of an http(s) URL; an IPv6 address without brackets.

    Raises:
        ToolError: As `parse_url`.
    """
    return parse_url(url).host


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
    if isinstance(number, IPv4Address):
        return not any(number in block for block in _NON_PUBLIC_IPV4)
    if number in _NAT64_NETWORK:
        return is_public_address(str(IPv4Address(int(number) & 0xFFFF_FFFF)))
    return number in _GLOBAL_UNICAST_IPV6 and not any(number in block for block in _NON_PUBLIC_IPV6)


def _parse_ipv6(url: str, literal: str) -> str:
    try:
        return IPv6Address(literal).compressed
    except ValueError:
        raise _make_url_error(url, "its IPv6 address is none") from None


def _parse_host_name(url: str, host: str) -> str:
    if not host.isascii():
        from idna import IDNAError, encode

        try:
            host = encode(host, uts46=True).decode("ascii")
        except IDNAError:
            raise _make_url_error(url, "its host is no name that can be looked up") from None
    name = host.lower().removesuffix(".")
    if not _HOST_NAME_PATTERN.fullmatch(name) or len(name) > 253:
        raise _make_url_error(url, "its host is no name that can be looked up")
    # As in browsers, a name whose last label is a number is an IPv4 address, in one of its many forms.
    if _NUMERIC_LABEL_PATTERN.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise _make_url_error(url, "an IPv4 address is written as four decimal numbers") from None
    return name


def _make_url_error(url: str, reason: str) -> ToolError:
    excerpt = url if len(url) <= 200 else url[:200] + "..."
    return ToolError(f"not fetched: {excerpt!r}: {reason}")


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a name to its addresses, in the order to try them."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


def is_public_remote_address(address: str) -> bool:
    """Check whether an address is public and not this machine's own.

    Its own addresses would reach services that are only meant for local use.
    """
    if not is_public_address(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # sends nothing, but chooses the address to send from
        except OSError:
            return True
        return bool(probe.getsockname()[0] != address)


class NetworkPolicy(NamedTuple):
    """The hosts that safe mode lets `fetch_url` reach.

    Checked for the URL and for every redirect. A host is refused if any of its addresses is not allowed, and the
    connection is made to the address that was checked, so a second DNS answer cannot change it (DNS rebinding). Proxies
    are not used: they would resolve the name themselves.

    Attributes:
        redirect_hosts: Other hosts that redirects may lead to.
        resolve: Resolves a name to its addresses; raises OSError.
        is_allowed: Decides whether an address may be reached.
    """

    redirect_hosts: frozenset[str]
    resolve: Callable[[str, int], Sequence[str]] = resolve_host
    is_allowed: Callable[[str], bool] = is_public_remote_address

    def resolve_allowed(self, target: HttpTarget) -> Sequence[str]:
        """Resolve `target` to the addresses to try, in order.

        Raises:
            ToolError: It has no address, or one of them is not allowed.
        """
        try:
            addresses = [target.host] if is_ip_address(target.host) else self.resolve(target.host, target.port)
        except OSError as error:
            raise ToolError(f"cannot connect to {target.authority}: {find_connect_reason(error) or error}") from None
        if not addresses:
            raise ToolError(f"cannot connect to {target.authority}: unknown host")
        for address in addresses:
            if not self.is_allowed(address):
                raise ToolError(f"not fetched: {target.host} is at {address}, and safe mode reaches public hosts only")
        return addresses
