"""Signing in to a provider in the user's browser: OAuth 2.0 with PKCE (RFC 7636) and OpenID Connect."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

from ask.client.oauth_requests import exchange_code, fetch_signing_keys, parse_tokens, revoke_token
from ask.config.external_keys import check_keyring
from ask.config.logins import Account, Login, LoginStore
from ask.config.sign_in_services import SignInService
from ask.errors import AskError, ConfigError
from ask.login.id_token import check_packages, verify_id_token
from ask.login.redirect import SignInError, parse_redirect, receive_redirect
from ask.parsing import read_str
from ask.records import NamedTuple

AGENT_NAME = "ask"
"""The name of this program, which the service shows to the user."""
CLIENT_ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,200}")


class LoginOptions(NamedTuple):
    """The options of a sign-in.

    Attributes:
        label: the account, which may be new; "" for the current one, or a first one.
        port: the port of the redirect URI; 0 for any.
        in_keyring: whether to save the tokens in the system keyring.
        open_page: shows the user the page to open.
        read_redirect: asks the user for the redirected URL; None to receive it on the port.
    """

    label: str
    port: int
    in_keyring: bool
    open_page: Callable[[str], None]
    read_redirect: Callable[[], str] | None


class _Authorization(NamedTuple):
    """One request for authorization, with its secrets."""

    redirect_uri: str
    state: str
    nonce: str
    verifier: str


def sign_in(store: LoginStore, service: SignInService, options: LoginOptions) -> Account:
    """Sign in, save the account, and use it from now on.

    Raises:
        ConfigError: the port is in use, or the user has signed in to another account, or does not allow what is needed.
        FileError: the sign-in cannot be saved.
        MissingDependencyError: a package is not installed.
        NetworkError: the sign-in failed.
    """
    check_packages()
    if options.in_keyring:
        check_keyring()
    with store.lock():
        login = store.read()
        store.save(login)  # the host id must not change
    account = login.find(options.label)
    if account and account.issuer != service.issuer:
        account = None
    with closing(_open_listener(options.port)) as listener:
        redirect_uri = f"http://127.0.0.1:{listener.getsockname()[1]}{service.callback_path}"
        authorization = _Authorization(redirect_uri, *(secrets.token_urlsafe(48) for _ in range(3)))
        options.open_page(_build_url(service, authorization, login.host_id, account))
        if options.read_redirect:
            redirect = parse_redirect(options.read_redirect(), authorization.state)
        else:
            redirect = asyncio.run(receive_redirect(listener, redirect_uri, lambda: authorization.state, service.title))
    client_id = _read_client_id(redirect, service, account)
    response = exchange_code(service, client_id, redirect["code"], authorization.verifier, redirect_uri)
    try:
        new_account = _identify(service, client_id, authorization.nonce, response)
        if account and account.subject != new_account.subject:
            advice = f"sign out there, or run `ask login {store.provider_name} --account NAME` to add another account"
            raise ConfigError(f"the browser is signed in to another account than {account.label}", advice)
        return _save(store, service, options, new_account, response)
    except AskError:  # tokens that are not saved
        if refresh_token := read_str(response.get("refresh_token")):
            revoke_token(service, client_id, refresh_token)
        raise


def _open_listener(port: int) -> socket.socket:
    """Bind a port of this machine.

    Raises:
        ConfigError: it is in use.
    """
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        advice = "pass another --port, or none to use any"
        raise ConfigError(f"cannot listen on port {port} ({os.strerror(error.errno or 0)})", advice) from None


def _build_url(service: SignInService, authorization: _Authorization, host_id: str, account: Account | None) -> str:
    """Build the URL of the page that the browser opens."""
    challenge = urlsafe_b64encode(hashlib.sha256(authorization.verifier.encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "client_id": account.client_id if account else service.registration_client_id,
        "ext_agent_host_id": host_id,
        "response_type": "code",
        "redirect_uri": authorization.redirect_uri,
        "scope": " ".join(service.scopes),
        "resource": service.resource,
        "state": authorization.state,
        "nonce": authorization.nonce,
        "code_challenge_method": "S256",
        "code_challenge": challenge,
    }
    if account is None:
        parameters["agent_name_hint"] = AGENT_NAME
    elif account.email:
        parameters["login_hint"] = account.email
    if account and not account.may_use_plan:
        parameters["prompt"] = "consent"
    return f"{service.issuer}{service.authorization_path}?{urlencode(parameters)}"


def _read_client_id(redirect: Mapping[str, str], service: SignInService, account: Account | None) -> str:
    """Return the client id of the account: the saved one, or the one that the server has issued.

    Raises:
        SignInError: it has issued none, or another one.
    """
    issued = redirect.get("client_id", "")
    if account:
        if issued not in ("", account.client_id):
            raise SignInError("the server returned another client than that of the account")
        return account.client_id
    if issued == service.registration_client_id or not CLIENT_ID_PATTERN.fullmatch(issued):
        raise SignInError("the server issued no client for this account", "sign in again")
    return issued


def _identify(service: SignInService, client_id: str, nonce: str, response: Mapping[str, Any]) -> Account:
    """Return the account that the ID token in a response names, without a label and tokens.

    Raises:
        SignInError: the ID token is not one of this sign-in.
        NetworkError: the keys of the server cannot be fetched.
    """
    identity = verify_id_token(
        read_str(response.get("id_token")),
        fetch_signing_keys(service),
        issuer=service.issuer,
        client_id=client_id,
        nonce=nonce,
    )
    # Without `scope`, all scopes that were requested are granted (RFC 6749, section 5.1).
    granted = read_str(response.get("scope")).split() or service.scopes
    may_use_plan = service.required_scope in granted
    return Account(client_id, service.issuer, "", identity.subject, identity.email, may_use_plan)


def _save(
    store: LoginStore, service: SignInService, options: LoginOptions, account: Account, response: Mapping[str, Any]
) -> Account:
    """Save an account with its tokens, and use it.

    Raises:
        ConfigError: the user does not allow what is needed. The account is saved without tokens.
        FileError: it cannot be saved.
    """
    tokens = parse_tokens(response) if account.may_use_plan else None
    with store.lock():
        login = store.read()
        old = login.accounts.get(account.client_id)
        label = old.label if old else login.choose_label(options.label or account.email or account.client_id)
        account = account._replace(label=label, in_keyring=bool(old and old.in_keyring))
        in_keyring = options.in_keyring and account.may_use_plan
        store.save_tokens(_choose_current(login, account), account, tokens, in_keyring=in_keyring)
    if not account.may_use_plan:
        advice = f"run `ask login {store.provider_name}` again, and allow it"
        raise ConfigError(f"{label} does not allow ask to use the {service.title} plan", advice)
    return account


def _choose_current(login: Login, account: Account) -> Login:
    """Use an account from now on, unless it cannot be used and another one can."""
    current = login.find()
    if account.may_use_plan or current is None or not current.is_signed_in:
        return login._replace(current=account.client_id)
    return login
