"""URLs to which the metadata of a remote server sends a sign-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from ask.config.mcp_servers import ServerConfig
from ask.tools.base import ToolError
from ask.tools.network_policy import is_ip_address, is_public_address, parse_url, resolve_host

Resolver = Callable[[str, int], Sequence[str]]


def find_sign_in_problem(url: str, server: ServerConfig) -> str:
    """Return why a sign-in must send neither anything nor the browser to a URL; "" if it may."""
    return describe_foreign_url(url, server.url, [server.url, server.oauth.get("issuer", "")])


def describe_foreign_url(url: str, server_url: str, known_urls: Sequence[str]) -> str:
    """Return why nothing must be sent to a URL whose host is not that of a known one; "" if it may."""
    if urlsplit(url).hostname in [urlsplit(known_url).hostname for known_url in known_urls if known_url]:
        return ""
    problem = find_url_problem(url, server_url)
    return f"the server leads to {url}, and {problem}" if problem else ""


def find_url_problem(url: str, server_url: str, resolve: Resolver = resolve_host) -> str:
    """Return why a sign-in must not send anything to a URL; "" if it may.

    A server may name any public host with HTTPS. One on this machine may name others on this machine, and one in the
    local network others in it: it could reach them itself.
    """
    try:
        target, server = parse_url(url), parse_url(server_url)
    except ToolError as error:
        return str(error)
    try:
        addresses, server_addresses = (
            [each.host] if is_ip_address(each.host) else resolve(each.host, each.port) for each in (target, server)
        )
    except OSError:  # behind a proxy, which resolves names itself; otherwise, connecting fails, too
        return "" if target.scheme == "https" and not is_ip_address(target.host) else "its name is unknown"
    server_is_local = any(map(_is_local, server_addresses))
    server_is_public = all(map(is_public_address, server_addresses))
    for address in addresses:
        if _is_local(address) and not server_is_local:
            return f"{address} is this machine"
        if not is_public_address(address) and server_is_public:
            return f"{address} is not a public address; mcp.servers.NAME.oauth.issuer allows its host"
    if target.scheme == "http" and not all(map(_is_local, addresses)):
        return "it does not use HTTPS"
    return ""


def _is_local(address: str) -> bool:
    number = ip_address(address.partition("%")[0])
    mapped = getattr(number, "ipv4_mapped", None)
    number = mapped or number
    return number.is_loopback or number.is_unspecified or number.is_link_local
