"""Trusted certificates from the environment, and explanations of TLS certificate errors.

Used for every server that ask connects to: providers, web pages, search engines and MCP servers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ask.errors import ConfigError, walk_causes
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ssl import SSLContext

CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables of requests, curl and OpenSSL that name trusted certificates, in order of precedence."""

_CERTIFICATE_PATTERN = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----[^\n]*", re.DOTALL)
# https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_DATE_ERRORS = (9, 10)
_NAME_ERRORS = (62, 63, 64)


class CaBundle(NamedTuple):
    """A file or folder of trusted certificates, and the environment variable that names it."""

    path: str
    variable: str

    def __str__(self) -> str:
        return f"{self.path} ({self.variable})"


class CertificateError(NamedTuple):
    """The reason why a server's certificate was rejected, and a hint."""

    reason: str
    hint: str


def find_ca_bundle(environment: Mapping[str, str] | None = None) -> CaBundle | None:
    """Return the certificates that the environment names; None for the default.

    SSL_CERT_DIR may list several folders; the first one that exists is used.

    Raises:
        ConfigError: the file or folder does not exist or cannot be read, or the log of TLS keys cannot be written.
    """
    environment = os.environ if environment is None else environment
    _check_key_log(environment.get("SSLKEYLOGFILE", ""))
    variable = next((name for name in CA_VARIABLES if environment.get(name)), "")
    if not variable:
        return None
    paths = [environment[variable]]
    if variable == "SSL_CERT_DIR":
        paths = [path for path in paths[0].split(os.pathsep) if path] or paths
    path = next((path for path in paths if os.path.exists(path)), "")
    if not path:
        raise ConfigError(f"{variable} is set to {paths[0]}, which does not exist", f"correct or unset {variable}")
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{variable} is set to {path}, which cannot be read", f"correct or unset {variable}")
    return CaBundle(path, variable)


def _check_key_log(path: str) -> None:
    """Refuse a log of TLS keys that cannot be written: each TLS context would fail to open it, without naming it."""
    try:
        if path:
            open(path, "ab").close()
    except OSError as error:
        problem = f"SSLKEYLOGFILE is set to {path}, which cannot be written ({error.strerror})"
        raise ConfigError(problem, "correct or unset SSLKEYLOGFILE") from None


def create_ssl_context(bundle: CaBundle) -> SSLContext:
    """Return a client context that trusts only the certificates in `bundle`.

    Raises:
        ConfigError: the file contains no certificates, or an invalid one.
    """
    import ssl

    try:
        if Path(bundle.path).is_dir():
            return ssl.create_default_context(capath=bundle.path)
        return ssl.create_default_context(cafile=bundle.path)
    except (OSError, ValueError):
        hint = f"correct or unset {bundle.variable}"
        problem = _find_invalid_certificate(Path(bundle.path)) or "contains no certificates"
        raise ConfigError(f"{bundle.variable} is set to {bundle.path}, which {problem}", hint) from None


def _find_invalid_certificate(path: Path) -> str:
    """Describe the first invalid certificate in a file; "" if there is none.

    OpenSSL loads none of a file's certificates if one is invalid, and does not say which. Most often the line break
    between two is missing after files were joined.
    """
    import ssl

    text = path.read_text(errors="replace") if path.is_file() else ""
    for block in _CERTIFICATE_PATTERN.finditer(text):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block[0])
        except (OSError, ValueError):
            return f"contains an invalid certificate (line {text.count(chr(10), 0, block.start()) + 1})"
    return ""


def explain_certificate_error(error: BaseException, bundle: CaBundle | None) -> CertificateError | None:
    """Explain a connection error; None if the server's certificate is not the cause.

    Raises:
        ConfigError: the cause is that `bundle`, the trusted certificates, is empty or invalid.
    """
    from ssl import SSLCertVerificationError

    rejection = next((cause for cause in walk_causes(error) if isinstance(cause, SSLCertVerificationError)), None)
    if rejection is None:
        if bundle is not None:
            create_ssl_context(bundle)
        return None
    reason = f"its certificate is invalid: {rejection.verify_message.rstrip('.')}"
    if rejection.verify_code in _DATE_ERRORS:
        return CertificateError(reason, "check this machine's date, or report it to the server's operator")
    if rejection.verify_code in _NAME_ERRORS:
        return CertificateError(reason, "check the address")
    if bundle is None:
        return CertificateError(
            reason, f"to trust its issuer, set {CA_VARIABLES[0]} to a file with the issuer's certificate"
        )
    return CertificateError(reason, f"trusted certificates come from {bundle}")
