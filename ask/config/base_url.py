"""Base URLs of providers: what users write, completed to the URLs of requests."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from ask.config.config_file import VARIABLE_PATTERN
from ask.config.key_store import format_variable_prefix
from ask.errors import ConfigError
from ask.records import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}
UNIX_SCHEME = "http+unix"
"""For a server on a Unix socket, whose path is the percent-encoded host: http+unix://%2Frun%2Fserver.sock/v1."""
SERVER_SCHEMES = (*DEFAULT_PORTS, UNIX_SCHEME)
LOCAL_DOMAIN_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Domains that do not exist in public DNS: RFC 6761, 6762 and 8375, ICANN, and common router defaults."""

ENDPOINT_PATTERN = (
    r"(?:/chat/completions|/responses|(?<=/v1)/(?:messages|completions|models)"
    r"|(?<=/api)/(?:chat|generate|tags)|/models/[^/]+:\w+)$"
)
"""Matches the endpoint at the end of a URL, which people copy from documentation together with the base URL."""
VERSIONED_PATH_PATTERN = r"/(?:upload/)?(?:(api)|v\d\w*)/"
"""Matches the beginning of a request's path that contains the version of the API, as Anthropic's, Gemini's and
Ollama's do. Their base URLs have none, unlike those of OpenAI's APIs."""
DEFAULT_VERSION_PATH = "/v1"
HOST_PATTERN = r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d)|\[[\da-fA-F:]+\])(?::\d+)?(?:/|$)"
"""Matches the beginning of a URL without its scheme. A single word without a port is more likely a mistake."""
VERSION_SUFFIX_PATTERN = r"/v\d\w*(?:/openai)?$"
VERTEX_PATH_PATTERN = r"/(?P<version>v\d\w*)/projects/[^/]+/locations/[^/]+(?P<publisher>/publishers/[^/]+)$"
"""Matches the end of a base URL of Vertex AI, which has a version of its own. Only the beta version lists the models.
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/reference/rest"""
VARIABLE_VALUE_PATTERN = r"(?a:[\w-]+(\.[\w-]+)*)"
"""Matches what a variable may put into a base URL, so that it cannot send the key to another host."""
API_SUFFIX_PATTERN = r"(?:/v1|/api)$"
"""Ollama's own API is at /api, its OpenAI-compatible one at /v1: https://docs.ollama.com/api/openai-compatibility."""


class BaseUrl(NamedTuple):
    """A base URL in its parts.

    Attributes:
        scheme: of the connection: "http", also on a Unix socket, or "https".
        origin: the scheme, and the host with its port and credentials.
        path: the path, without a slash or an endpoint at its end.
        query: the query, which is part of each request: Azure requires ?api-version=.
        socket_path: the path of a Unix socket; "" for TCP.
    """

    scheme: str
    origin: str
    path: str
    query: str
    socket_path: str = ""

    @property
    def address(self) -> str:
        """The host and port, or the path of the Unix socket."""
        return self.socket_path or self.origin.partition("//")[2].rpartition("@")[2]

    def format_shown_url(self, path: str) -> str:
        """Return the URL for a request's path as messages show it: without credentials and values in its query."""
        url = self.join(path)
        base, _, query = url.partition("?")
        names = "&".join(f"{part.partition('=')[0]}=…" for part in query.split("&") if part)
        scheme = UNIX_SCHEME if self.socket_path else self.scheme
        return f"{scheme}://{self.address}{base.removeprefix(self.origin)}{f'?{names}' if names else ''}"

    def may_lack_version(self, path: str) -> bool:
        """Check whether neither the base URL nor a request's path contains the version of the API."""
        return not self.path and not re.match(VERSIONED_PATH_PATTERN, path)

    def join(self, path: str) -> str:
        """Return the URL for a request's path. A version that both contain is in it once."""
        base = self.path
        if versioned := re.match(VERSIONED_PATH_PATTERN, path):
            base = re.sub(API_SUFFIX_PATTERN if versioned[1] else VERSION_SUFFIX_PATTERN, "", base)
        request_path, _, request_query = path.partition("?")
        if vertex := re.search(VERTEX_PATH_PATTERN, self.path):
            request_path = re.sub(r"^/v\d\w*(?=/)", "", request_path)
            if request_path == "/models":
                base = f"{self.path[: vertex.start()]}/v1beta1{vertex['publisher']}"
        query = "&".join(filter(None, (request_query, self.query)))
        return f"{self.origin}{base}{request_path}{f'?{query}' if query else ''}"


def format_config_origin(provider: str) -> str:
    """Name the setting of a provider's base URL in config.toml."""
    return f"base_url in [providers.{provider}] of config.toml"


def expand_base_url(provider: str, environment: Mapping[str, str], base_url: str) -> str:
    """Replace each `${VARIABLE}` in a provider's base URL, such as the name of an Azure resource.

    Raises:
        ConfigError: a variable is not set, or its value is not part of a host name or path.
    """

    def expand(match: re.Match[str]) -> str:
        variable = match[1]
        value = environment.get(variable, "").strip()
        if re.fullmatch(VARIABLE_VALUE_PATTERN, value):
            return value
        problem = f"but {variable} is {value!r}" if value else "which is not set"
        advice = f"set {variable}, or {format_variable_prefix(provider)}_BASE_URL to the complete URL"
        raise ConfigError(f"the base URL of {provider} needs {variable}, {problem}", advice)

    return re.sub(VARIABLE_PATTERN, expand, base_url)


def split_base_url(url: str) -> BaseUrl | None:
    """Split a base URL; return None if it is invalid or has another scheme."""
    parts = split_server_url(url, SERVER_SCHEMES)
    if parts is None:
        return None
    path = re.sub(ENDPOINT_PATTERN, "", parts.path.rstrip("/")).rstrip("/")
    if parts.scheme == UNIX_SCHEME:
        return BaseUrl("http", "http://localhost", path, parts.query, unquote(parts.netloc))
    return BaseUrl(parts.scheme, f"{parts.scheme}://{parts.netloc}", path, parts.query)


def split_server_url(url: str, schemes: Collection[str]) -> SplitResult | None:
    """Split the URL of a server or proxy; return None if it is invalid or has another scheme."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid else None


def list_url_passwords(url: str) -> set[str]:
    """Return the password in a URL, as it is written there and decoded.

    A word is left out if the server is on this machine or network: it is often `password` or the like, which is also
    in ordinary text.
    """
    parts = split_server_url(url, SERVER_SCHEMES)
    if not parts or not parts.password or (parts.password.isalpha() and is_local_url(url)):
        return set()
    return {parts.password, unquote(parts.password)}


def repair_base_url(url: str) -> str:
    """Return a URL without the quotes, brackets and blanks around it, and with the scheme that it lacks.

    Quotes come from docker's env files: https://github.com/bosnet/sebak/pull/148
    """
    url = url.strip("\"'`<> \t\r\n\ufeff\u200b")
    if "://" in url or not re.match(HOST_PATTERN, url):
        return url
    return f"http://{url}" if is_local_url(f"http://{url}") else f"https://{url}"


def add_default_path(url: str, default_url: str) -> str:
    """Add the path of a provider's default URL, such as /v1, to a URL of its server or of its kind of local server.

    Other servers may have their API elsewhere.
    """
    parts, default = split_server_url(url, SERVER_SCHEMES), urlsplit(default_url)
    if parts is None or parts.path.strip("/") or not default.path.strip("/"):
        return url
    if parts.hostname != default.hostname and not is_loopback(default.hostname or ""):
        return url
    return parts._replace(path=default.path).geturl()


def is_same_service(url: str, default_url: str) -> bool:
    """Check whether a URL is on the host of a service's default URL, or a regional one such as eu.api.openai.com."""
    if url == default_url:
        return True
    parts, default = split_server_url(url, SERVER_SCHEMES), split_server_url(default_url, SERVER_SCHEMES)
    return parts is not None and default is not None and f".{parts.hostname}".endswith(f".{default.hostname}")


def complete_base_url(address: str, default_url: str) -> str:
    """Complete an address without scheme or port, such as OLLAMA_HOST's.

    They are taken from the default URL. A listening address such as 0.0.0.0 is replaced by the loopback address.
    """
    default = urlsplit(default_url)
    scheme, _, rest = address.strip("'\"").rpartition("://")
    authority, slash, path = rest.partition("/")
    credentials, at_sign, authority = authority.rpartition("@")
    if scheme == UNIX_SCHEME:
        return f"{scheme}://{rest}"
    if authority.count(":") > 1 and not authority.startswith("["):
        authority = f"[{authority}]"
    host, port = re.fullmatch(r"(\[.*\]|[^:]*):?(.*)", authority, re.DOTALL).groups()  # type: ignore[union-attr]
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - read, not bound
    port_number = port if port.isdigit() else "" if scheme else default.port
    server = f"{credentials}{at_sign}{host}{f':{port_number}' if port_number else ''}"
    return f"{scheme or default.scheme}://{server}{slash}{path}"


def is_local_url(url: str) -> bool:
    """Check whether a URL is on this machine or a private network.

    The host may be an address, or a name that is never public.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = (parts.hostname or "").rstrip(".")
    if not host.isascii():
        import unicodedata

        host = unicodedata.normalize("NFKC", host)
    try:
        address = _parse_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(LOCAL_DOMAIN_SUFFIXES) or parts.scheme == UNIX_SCHEME)
    return address.is_loopback or address.is_private or address.is_link_local


def _parse_address(host: str) -> IPv4Address | IPv6Address:
    """Parse an IP address, also as programs in C write it, such as 127.1 or 0x7f.1.

    Raises:
        ValueError: the host is a name.
    """
    try:
        return ip_address(host)
    except ValueError:
        if not re.search(r"(?:^|\.)(?:0x[\da-f]*|\d+)$", host):
            raise
    import socket

    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError as error:
        raise ValueError(str(error)) from None


def is_loopback(host: str) -> bool:
    """Check whether a host name or address refers to this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
