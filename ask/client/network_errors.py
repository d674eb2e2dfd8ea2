"""Explains failed connections: the network, a proxy, a certificate, or a setting on this machine."""

from __future__ import annotations

import os
import re
import socket
import threading
from http.client import BadStatusLine
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from ask.client.certificates import explain_certificate_error
from ask.client.http_adapter import HeadersTooLargeError
from ask.config.base_url import is_loopback, split_server_url
from ask.errors import RETRY_STATUSES, AskError, ConfigError, MissingDependencyError, NetworkError, walk_causes
from ask.records import NamedTuple
from ask.text import mask_password

if TYPE_CHECKING:
    import requests

    from ask.client.certificates import CaBundle
    from ask.config.base_url import BaseUrl

CONNECT_REASONS = {
    "Connection refused": "connection refused",
    "Name or service not known": "unknown host",
    "nodename nor servname": "unknown host",
    "Temporary failure in name resolution": "the host name cannot be resolved",
    "No address associated": "unknown host",
    "Network is unreachable": "network unreachable",
    "No route to host": "no route to host",
}
"""The error texts of operating systems, and what to show in their place."""
SOCKET_REASONS = {"No such file or directory": "no such socket", "Permission denied": "permission denied"}
"""The same for Unix sockets."""
PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
PROBE_TIMEOUT_SECONDS = 3.0
_tls_check = threading.Lock()


class ProxySetting(NamedTuple):
    """The URL of a proxy and the environment variable that contains it.

    Attributes:
        variable: the variable's name.
        url: its value.
        scheme: the URL's scheme; "" if it is not the URL of a proxy.
        address: the host and port, without credentials.
    """

    variable: str
    url: str
    scheme: str
    address: str


def _find_proxy(url: str) -> ProxySetting | None:
    """Return the proxy that is used for a URL; None for a direct connection."""
    from requests.utils import select_proxy

    value = select_proxy(url, _read_proxy_variables(url))
    if not value:
        return None
    scheme = urlsplit(url).scheme
    variables = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    variable = next(
        (name for name in variables if os.environ.get(name, "").strip() == value), "the system's proxy setting"
    )
    parts = split_server_url(normalize_proxy_url(value), PROXY_SCHEMES)
    proxy_scheme, address = (parts.scheme, parts.netloc.rpartition("@")[2]) if parts else ("", "")
    return ProxySetting(variable, value, proxy_scheme, address)


def find_proxy_name(url: str) -> str:
    """Return the address of the proxy that is used for a URL, and the variable with it; "" for a direct connection."""
    proxy = _find_proxy(url)
    return f"{proxy.address} ({proxy.variable})" if proxy else ""


def read_proxies(url: str) -> dict[str, str]:
    """Return the proxies for a URL by scheme, as `requests` takes them."""
    return {name: normalize_proxy_url(value) for name, value in _read_proxy_variables(url).items()}


def _read_proxy_variables(url: str) -> dict[str, str]:
    """Return the values that set proxies for a URL, without blank ones, which `requests` would connect to."""
    from requests.utils import get_environ_proxies

    proxies = {} if _is_excluded(url) else get_environ_proxies(url, no_proxy=None)
    return {name: stripped for name, value in proxies.items() if (stripped := value.strip())}


def _is_excluded(url: str) -> bool:
    """Check NO_PROXY in forms of curl and Docker that `requests` does not know.

    They are `*.example.com`, `[::1]`, an address with a port, and spaces between hosts.
    """
    address = urlsplit(url).netloc.rpartition("@")[2].lower()
    host = re.sub(r":\d*$", "", address)
    value = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    entries = filter(None, re.split(r"[\s,]+", value.lower()))
    return any(entry in (address, host) or (entry[:2] == "*." and host.endswith(entry[1:])) for entry in entries)


def normalize_proxy_url(url: str) -> str:
    """Complete a proxy's URL and encode its credentials.

    The address begins after the last "@". Otherwise the part of a password after a "#", "/", "?" or "@" would be
    looked up as a host, by whoever answers that.
    """
    url = url.strip()
    scheme, _, rest = (url if "://" in url else f"http://{url}").partition("://")
    credentials, at_sign, address = rest.rpartition("@")
    if at_sign:
        user, colon, password = credentials.partition(":")
        credentials = f"{_encode_credential(user)}{colon}{_encode_credential(password)}"
    # In curl and most other programs, socks:// leaves the lookup of host names to the proxy.
    scheme = "socks5h" if scheme.lower() == "socks" else scheme
    return f"{scheme}://{credentials}{at_sign}{address}"


def _encode_credential(text: str) -> str:
    """Percent-encode a user name or password, unless it is encoded already."""
    return "%".join(quote(part, safe="") for part in re.split(r"%(?=[0-9a-fA-F]{2})", text))


def explain_connection_error(error: Exception, base_url: BaseUrl, shown_url: str, bundle: CaBundle | None) -> AskError:
    """Convert an `OSError` or `ValueError` raised by `requests`, other than a timeout, to one for the user.

    Covers every failure before the first byte of a response.

    Raises:
        ConfigError: the trusted certificates in `bundle` cannot be used.
    """
    address = base_url.address
    certificate_error = explain_certificate_error(error, bundle)
    if certificate_error:
        message = f"cannot connect securely to {address} ({certificate_error.reason})"
        return NetworkError(message, certificate_error.hint, permanent=True)
    if any(isinstance(cause, HeadersTooLargeError) for cause in walk_causes(error)):
        return NetworkError(f"{address} sent too many headers", "check the base URL")
    if not base_url.socket_path and (proxy_error := explain_proxy_error(error, base_url.origin, address)):
        return proxy_error
    return _explain_server_error(error, base_url, shown_url)


def explain_proxy_error(error: Exception, url: str, address: str) -> AskError | None:
    """Return the error for a URL's proxy that failed, or whose address is invalid; None for other failures."""
    proxy = _find_proxy(url)
    if proxy and not proxy.scheme:
        hint = "write a proxy as http://host:port or socks5h://host:port"
        return ConfigError(f"{proxy.variable} is {mask_password(proxy.url)!r}, which is not a proxy address", hint)
    return _explain_proxy_error(error, proxy, address) if proxy and _is_proxy_error(error) else None


def _explain_server_error(error: Exception, base_url: BaseUrl, shown_url: str) -> AskError:
    """Explain a failure that is due to the server or the base URL."""
    import requests

    proxy = None if base_url.socket_path else _find_proxy(base_url.origin)
    if isinstance(error, requests.exceptions.InvalidURL) or not isinstance(error, OSError):
        return make_invalid_base_url_error(base_url.origin + base_url.path)
    reason = find_connect_reason(error)
    if reason:
        # If nothing listens on a local port, a retry within seconds does not help.
        is_local = base_url.socket_path or is_loopback(urlsplit(base_url.origin).hostname or "")
        retryable = not (is_local and reason in ("connection refused", *SOCKET_REASONS.values()))
        message, hint = f"cannot connect to {shown_url} ({reason})", "check the network and the base URL"
        if reason == "unknown host" and base_url.address.partition(":")[0].endswith(".docker.internal"):
            hint = "outside of a container, use localhost in the base URL"
        return NetworkError(message, hint, retryable=retryable, offline=True)
    if base_url.scheme == "http" and proxy is None and not base_url.socket_path and _is_tls_server(base_url.origin):
        return _make_https_required_error(base_url.address)
    if isinstance(error, requests.exceptions.SSLError):
        return _make_tls_error(error, base_url.address, proxy)
    return _explain_lost_response(error, base_url.address, proxy)


def _explain_lost_response(error: Exception, address: str, proxy: ProxySetting | None) -> NetworkError:
    """Explain why there is no response although the connection was established."""
    causes = list(walk_causes(error))
    if any(type(cause) is BadStatusLine for cause in causes):  # not its subclass for a closed connection
        if proxy:
            hint = f"check {proxy.variable} (it must be an HTTP proxy) and the base URL"
            return NetworkError(f"the proxy {proxy.address} answered with something other than HTTP", hint)
        return NetworkError(f"{address} answered with something other than HTTP", "check the base URL")
    is_timeout = any(isinstance(cause, TimeoutError) for cause in causes)
    problem = "stopped reading the request" if is_timeout else "closed the connection without a response"
    return NetworkError(f"{address} {problem}", "try again later", retryable=True, offline=True)


def _make_tls_error(error: Exception, address: str, proxy: ProxySetting | None) -> NetworkError:
    """Return the error for a TLS handshake that failed for another reason than the server's certificate."""
    reason = re.search(r"\[SSL\b[^]]*\] ([^(]+) \(", _join_causes(error))
    detail = f": {reason[1]}" if reason else ""
    hint = f"check the proxy {proxy.address} ({proxy.variable}) and the base URL" if proxy else "check the base URL"
    if "certificate required" in detail:
        hint = "it requires a client certificate, which ask cannot send; a local proxy such as stunnel can add it"
    return NetworkError(f"cannot connect securely to {address} (TLS failed{detail})", hint)


def explain_http_error(base_url: BaseUrl, response: requests.Response) -> AskError | None:
    """Explain a response with status 400 or 407 from a proxy, or from a server that expects HTTPS; None for others."""
    if base_url.socket_path:
        return None
    proxy = _find_proxy(base_url.origin)
    if response.status_code == 407 and proxy:
        return _make_proxy_credentials_error(proxy)
    is_json = "json" in response.headers.get("Content-Type", "")
    if response.status_code == 400 and not proxy and not is_json and _is_tls_server(base_url.origin):
        return _make_https_required_error(base_url.address)
    return None


def _is_proxy_error(error: Exception) -> bool:
    """Check whether the proxy failed, rather than the server behind it."""
    import requests

    if isinstance(error, requests.exceptions.ProxyError | requests.exceptions.InvalidProxyURL):
        return True
    # Errors of a SOCKS proxy differ from those of a direct connection only in their text.
    return any("SOCKS" in str(cause) or type(cause).__module__ == "socks" for cause in walk_causes(error))


def _explain_proxy_error(error: Exception, proxy: ProxySetting, address: str) -> AskError:
    text = _join_causes(error)
    if "Missing dependencies for SOCKS" in text:
        from ask.config.installation import format_install_command

        message = f"{proxy.variable} is set to a SOCKS proxy, which needs the package PySocks"
        return MissingDependencyError(message, f"{format_install_command('socks')}, or unset {proxy.variable}")
    subject = f"the proxy {proxy.address} ({proxy.variable})"
    if "failed: 407" in text or "authentication" in text:
        return _make_proxy_credentials_error(proxy)
    refusal = re.search(r"Tunnel connection failed: (\d+)[^'\")]*|SOCKS\w* (0x\w\w: [\w ]+)", text)
    if refusal:
        retryable = refusal[1] is None or int(refusal[1]) in RETRY_STATUSES
        reason = refusal[0].removeprefix("Tunnel connection failed: ").strip()
        message = f"{subject} did not connect to {address} ({reason})"
        return NetworkError(message, "check the proxy, or add the host to NO_PROXY", retryable=retryable)
    if "appears to only use HTTP" in text:
        return ConfigError(f"{subject} uses plain HTTP", f"change {proxy.variable} to http://{proxy.address}")
    reason = find_connect_reason(error) or ("no response in time" if "timed out" in text else "")
    if not reason:  # urllib3 reports any connection that was closed as one that the proxy did not accept
        message = f"{subject} or {address} closed the connection without a response"
        return NetworkError(message, "try again later", retryable=True)
    return NetworkError(f"cannot reach {subject} ({reason})", f"start the proxy, or correct or unset {proxy.variable}")


def _make_proxy_credentials_error(proxy: ProxySetting) -> NetworkError:
    """Return the error for a proxy that requires credentials or rejects them (407)."""
    message = f"the proxy {proxy.address} ({proxy.variable}) requires credentials"
    if not proxy.scheme.startswith("socks"):
        message += " (407)"
    hint = f"set {proxy.variable} to {proxy.scheme}://USER:PASSWORD@{proxy.address}"
    return NetworkError(message, hint, permanent=True)


def make_invalid_base_url_error(base_url: str, origin: str = "") -> ConfigError:
    """Return the error for an invalid base URL, without any password in it, that names where it is set."""
    is_socket = base_url.startswith(("unix:", "http+unix:", "/"))
    form = "http+unix://%2FPATH%2FOF.sock/v1" if is_socket else "https://HOST/PATH"
    hint = f"write the base URL as {form}" + (f" ({origin})" if origin else "")
    return ConfigError(f"{mask_password(base_url)!r} is not an http(s) address", hint)


def _make_https_required_error(address: str) -> ConfigError:
    """Return the error for an http URL whose server expects https."""
    return ConfigError(f"{address} expects HTTPS, but the base URL starts with http://", "change it to https://")


def _join_causes(error: BaseException) -> str:
    """Return the texts of an exception and of its causes."""
    return " ".join(map(str, walk_causes(error)))


def find_connect_reason(error: BaseException) -> str:
    """Return a short reason for a failed connection; "" if it is unknown."""
    text = _join_causes(error)
    reasons = CONNECT_REASONS | SOCKET_REASONS
    return next((reason for os_text, reason in reasons.items() if os_text in text), "")


def _is_tls_server(base_url: str) -> bool:
    """Check whether the server of an http URL answers a TLS handshake; False while another thread checks one."""
    import ssl

    parts = urlsplit(base_url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent over this connection
    # The rows of a job that fail together should not all wait, nor send a failing server as many handshakes.
    if not _tls_check.acquire(blocking=False):
        return False
    try:
        with (
            socket.create_connection((parts.hostname or "", parts.port or 80), PROBE_TIMEOUT_SECONDS) as sock,
            context.wrap_socket(sock, server_hostname=parts.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False
    finally:
        _tls_check.release()
