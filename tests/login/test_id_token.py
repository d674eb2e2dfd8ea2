"""ID tokens of a sign-in: only one that the server signed for it is accepted."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ask.login.id_token import Identity, verify_id_token
from ask.login.redirect import SignInError
from tests.authorization_server import public_jwk, signing_key

ISSUER, CLIENT, NONCE = "https://auth.example.org", "oaiapp_1", "n-0123456789"
KEYS = [public_jwk(1), public_jwk(2)]


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a token; times are relative to now."""
    values: dict[str, Any] = {
        "iss": ISSUER,
        "aud": CLIENT,
        "sub": "user-1",
        "nonce": NONCE,
        "iat": 0,
        "exp": 3_600,
    } | changes
    now = int(time.time())
    values |= {name: values[name] + now for name in ("iat", "exp") if values[name] is not None}
    return {name: value for name, value in values.items() if value is not None}


def signed(key: Any = None, algorithm: str = "RS256", kid: str | None = "key-1", **changes: Any) -> str:
    headers = {"kid": kid} if kid else {}
    return jwt.encode(claims(**changes), key or signing_key(1), algorithm=algorithm, headers=headers)


def verify(token: str, keys: Any = KEYS) -> Identity:
    return verify_id_token(token, keys, issuer=ISSUER, client_id=CLIENT, nonce=NONCE)


@pytest.mark.parametrize(
    ("changes", "identity"),
    [
        ({}, Identity("user-1")),
        ({"email": "a@b.c"}, Identity("user-1", "a@b.c")),
        ({"email": "a@b.c", "email_verified": False}, Identity("user-1")),
        ({"aud": [CLIENT]}, Identity("user-1")),
        ({"aud": [CLIENT, "other"], "azp": CLIENT}, Identity("user-1")),
        ({"email": "a@b.c\x1b[2J\nSigned in"}, Identity("user-1")),
        ({"email": "a\u202e@b.c"}, Identity("user-1")),
        ({"exp": -20}, Identity("user-1")),  # the clocks differ
        ({"kid": "key-2", "key": signing_key(2)}, Identity("user-1")),
    ],
)
def test_a_valid_token_names_the_user(changes: dict[str, Any], identity: Identity) -> None:
    assert verify(signed(**changes)) == identity


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://attacker.example"},
        {"iss": f"{ISSUER}/"},
        {"aud": "oaiapp_2"},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"aud": [CLIENT], "azp": "other"},
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": 7},
        {"exp": -3_600},
        {"iat": 3_600},
        *({name: None} for name in ("iss", "aud", "sub", "exp", "iat")),
        {"sub": 7},
        {"sub": ""},
        {"key": signing_key(2)},  # under the name of the first
        {"kid": "key-3"},
        {"kid": None},
    ],
)
def test_other_claims_and_keys_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SignInError):
        verify(signed(**changes))


@pytest.mark.parametrize("changes", [{"exp": -3_600}, {"iat": 3_600}])
def test_a_wrong_clock_is_named(changes: dict[str, Any]) -> None:
    with pytest.raises(SignInError) as refusal:
        verify(signed(**changes))
    assert "clock" in refusal.value.hint


def test_other_algorithms_are_refused() -> None:
    public_key = signing_key(1).public_key()
    pem = public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    header, payload, _ = signed().split(".")
    forged_header = jwt.utils.base64url_encode(b'{"alg":"HS256","kid":"key-1","typ":"JWT"}').decode()
    signature = jwt.utils.base64url_encode(hmac.sign(f"{forged_header}.{payload}".encode(), pem)).decode()
    tokens = [
        f"{forged_header}.{payload}.{signature}",
        jwt.encode(claims(), "", algorithm="none"),
        f"{header}.{payload}.",
        signed(algorithm="RS512"),
        signed(algorithm="PS256"),
        "",
        "a.b.c",
        "not a token",
    ]
    for token in tokens:
        with pytest.raises(SignInError):
            verify(token)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [{}],
        [{"kid": "key-1", "kty": "RSA"}],
        [public_jwk(1), public_jwk(1)],
        [public_jwk(1) | {"use": "enc"}],
        [{"kid": "key-1", "kty": "oct", "k": "c2VjcmV0"}],
    ],
)
def test_unusable_keys_are_refused(keys: list[dict[str, Any]]) -> None:
    with pytest.raises(SignInError):
        verify(signed(), keys)
