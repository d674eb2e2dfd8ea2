"""Checking ID tokens (OpenID Connect Core, section 3.1.3.7) with PyJWT, which is imported only to sign in."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from ask.config.installation import format_install_command
from ask.errors import MissingDependencyError
from ask.login.redirect import SignInError
from ask.parsing import read_str
from ask.records import NamedTuple

ALGORITHM = "RS256"
"""The only algorithm: tokens without a signature, or signed with a public key as if it were a secret, are refused."""
LEEWAY_SECONDS = 60.0
"""How much the clocks of this machine and the server may differ."""
REQUIRED_CLAIMS = ("iss", "aud", "exp", "iat", "sub")


class Identity(NamedTuple):
    """Who has signed in: the server's id of the user, and a verified e-mail address or ""."""

    subject: str
    email: str = ""


def check_packages() -> None:
    """Check that the packages of the extra `login` are installed.

    Raises:
        MissingDependencyError: they are not.
    """
    try:
        import jwt

        has_cryptography = jwt.algorithms.has_crypto
    except ModuleNotFoundError:
        has_cryptography = False
    if not has_cryptography:
        hint = format_install_command("login")
        raise MissingDependencyError("signing in needs the packages PyJWT and cryptography", hint)


def verify_id_token(
    token: str, keys: Sequence[Mapping[str, Any]], *, issuer: str, client_id: str, nonce: str
) -> Identity:
    """Check the signature and the claims of an ID token, and return whom it names.

    Args:
        token: the ID token.
        keys: the published keys of the authorization server, as JSON Web Keys.
        issuer: the authorization server.
        client_id: the client to which it must be issued.
        nonce: the nonce of this sign-in.

    Raises:
        SignInError: it is not a valid token of this sign-in.
    """
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") != ALGORITHM:
            raise SignInError(f"the ID token is not signed with {ALGORITHM}")
        key = _find_key(keys, read_str(header.get("kid")))
        claims = jwt.decode(
            token,
            key=jwt.PyJWK(dict(key), algorithm=ALGORITHM),
            algorithms=[ALGORITHM],
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(REQUIRED_CLAIMS)},
        )
    except jwt.PyJWTError as error:
        is_mistimed = isinstance(error, (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError))
        hint = "check the clock of this machine" if is_mistimed else ""
        raise SignInError(f"the ID token is not valid ({error})", hint) from None
    # With one audience, `azp` may be missing; if it is there, it decides.
    default = client_id if claims["aud"] in (client_id, [client_id]) else None
    if claims.get("azp", default) != client_id:
        raise SignInError("the ID token was issued to another client")
    if not claims["sub"]:
        raise SignInError("the ID token names no user")
    if not hmac.compare_digest(read_str(claims.get("nonce")).encode(), nonce.encode()):
        raise SignInError("the ID token belongs to another sign-in")
    email = read_str(claims.get("email"))
    is_usable = claims.get("email_verified") is not False and email.isprintable()  # it names the account in lists
    return Identity(read_str(claims["sub"]), email if is_usable else "")


def _find_key(keys: Sequence[Mapping[str, Any]], key_id: str) -> Mapping[str, Any]:
    """Return the only published RSA key for signatures with this id.

    Raises:
        SignInError: there is none.
    """
    usable = [
        key
        for key in keys
        if key.get("kty") == "RSA" and key.get("kid") == key_id and key.get("use") in (None, "sig") and "d" not in key
    ]
    if len(usable) != 1:
        raise SignInError("the ID token is signed with a key that the server does not publish")
    return usable[0]
