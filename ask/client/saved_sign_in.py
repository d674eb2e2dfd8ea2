"""The saved sign-in to a provider: its access token, which is refreshed once for all threads and runs.

A refresh token is valid once, so from reading it to saving the one that replaces it, other runs are locked out, and
neither Ctrl-C nor the end of the run interrupts.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ask.client.oauth_requests import REQUEST_SECONDS, RejectedTokenError, find_service, refresh_tokens
from ask.config.key_store import format_variable_prefix
from ask.config.logins import Account, LoginStore, Tokens
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.errors import AskError, ConfigError, NetworkError

EXPIRY_MARGIN_SECONDS = 60.0
"""Seconds before its expiry that an access token is refreshed: a request takes time to arrive."""


class SavedSignIn:
    """The sign-in to one provider.

    Args:
        folder: the folder of sign-ins.
        provider_name: the provider.
        environment: the environment, which may choose the account and the authorization server.
        notify: called with a line for the user if new tokens cannot be saved.
        on_tokens: called with new tokens, before they are used.
    """

    def __init__(
        self,
        folder: Path,
        provider_name: str,
        environment: Mapping[str, str],
        *,
        notify: Callable[[str], None],
        on_tokens: Callable[[Tokens], None],
    ) -> None:
        self._store = LoginStore(folder, provider_name)
        self._environment = environment
        self._notify = notify
        self._on_tokens = on_tokens
        self._lock = threading.Lock()
        self._tokens: Tokens | None = None
        self._client_id = ""
        self._margin_seconds = EXPIRY_MARGIN_SECONDS
        """The seconds before its expiry that a token is refreshed: none once the server could not be reached."""
        self._unsaved: dict[str, Tokens] = {}
        """The newest tokens that could not be saved, by the refresh tokens that were used up for them."""

    def read_token(self) -> str:
        """Return the saved access token, which may have expired.

        Raises:
            ConfigError: the user is not signed in.
        """
        with self._lock:
            if self._tokens is None:
                account, tokens = self._read_account()
                self._set_tokens(account.client_id, tokens)
            return self._tokens.access_token if self._tokens else ""

    def get_token(self, refused_token: str = "") -> str:
        """Return an access token that has neither expired nor been refused by the service.

        Raises:
            ConfigError: the user is not signed in, or must sign in again.
            FileError: there is no space to save new tokens.
            NetworkError: the authorization server cannot be reached.
        """
        with self._lock:
            if self._tokens is None or not self._is_usable(self._tokens, refused_token):
                self._set_tokens(*_Refresh(self, refused_token).wait())
            assert self._tokens, "they were set"  # noqa: S101
            return self._tokens.access_token

    def refresh(self, refused_token: str, begin: Callable[[], None]) -> tuple[str, Tokens]:
        """Return usable tokens and their client id: those that another run has saved, or new ones.

        `begin` is called before a refresh token is sent.

        Raises:
            ConfigError, FileError, NetworkError: as for `get_token`.
        """
        start = time.monotonic()
        with self._store.lock():
            has_waited = time.monotonic() - start > REQUEST_SECONDS / 2
            account, tokens = self._read_account()
            tokens = self._unsaved.get(tokens.refresh_token, tokens)
            if self._is_usable(tokens, refused_token):
                return account.client_id, tokens
            begin()
            try:
                new_tokens = self._request_tokens(account, tokens, has_waited=has_waited)
            except RejectedTokenError as error:
                login = self._store.read()
                self._store.save_tokens(login, account, None)
                raise self._make_error("has ended", error.summary) from None
            except ConfigError as error:  # for another reason, which may be temporary: the tokens are kept
                error.hint = self._advice
                raise
            except NetworkError:
                # It may be used up to its expiry, if the service has not refused it.
                self._margin_seconds = 0.0
                if self._is_usable(tokens, refused_token):
                    return account.client_id, tokens
                raise
            self._margin_seconds = EXPIRY_MARGIN_SECONDS
            return account.client_id, new_tokens

    def _request_tokens(self, account: Account, tokens: Tokens, *, has_waited: bool) -> Tokens:
        """Request new tokens and save them, unless this run has waited for another one that got none."""
        if has_waited:
            raise NetworkError("the authorization server did not answer another run", "try again later")
        service = find_service(self._store.provider_name, self._environment)
        if account.in_keyring:
            new_tokens = refresh_tokens(service, account.client_id, tokens.refresh_token)
            self._on_tokens(new_tokens)  # an error of the keyring may contain them
            try:
                self._store.save_tokens(self._store.read(), account, new_tokens, in_keyring=True)
            except (AskError, OSError) as error:
                self._unsaved = dict.fromkeys((*self._unsaved, tokens.refresh_token), new_tokens)
                reason = error.summary if isinstance(error, AskError) else str(error)
                self._notify(f"cannot save the new tokens ({reason}); {self._advice} after this run")
            return new_tokens
        with self._store.reserve_space() as save:
            new_tokens = refresh_tokens(service, account.client_id, tokens.refresh_token)
            login = self._store.read()
            save(login.with_account(account._replace(tokens=new_tokens)))
        return new_tokens

    def _read_account(self) -> tuple[Account, Tokens]:
        """Read the account that this run uses, and its tokens.

        Raises:
            ConfigError: the user is not signed in to it.
        """
        login = self._store.read()
        if self._client_id:  # even if another terminal has changed the current account
            account = login.accounts.get(self._client_id)
        else:
            account = find_account(self._store, self._environment)
        tokens = self._store.read_tokens(account) if account and account.is_signed_in else None
        if account is None or tokens is None:
            raise make_sign_in_error(self._store.provider_name, self._environment)
        if account.issuer != find_service(self._store.provider_name, self._environment).issuer:
            raise self._make_error(f"is one to {account.issuer}", "")
        return account, tokens

    def _set_tokens(self, client_id: str, tokens: Tokens) -> None:
        self._on_tokens(tokens)
        self._client_id, self._tokens = client_id, tokens

    def _make_error(self, problem: str, reason: str) -> ConfigError:
        title = SIGN_IN_SERVICES[self._store.provider_name].title
        return ConfigError(f"the sign-in to {title} {problem}{f' ({reason})' if reason else ''}", self._advice)

    def _is_usable(self, tokens: Tokens, refused_token: str) -> bool:
        return tokens.access_token != refused_token and tokens.expires_at - self._margin_seconds > time.time()

    @property
    def _advice(self) -> str:
        provider_name = self._store.provider_name
        return _format_sign_in_advice(provider_name, _read_label(provider_name, self._environment))


class _Refresh:
    """A refresh in a thread of its own, which an exception that Ctrl-C raises in the main thread does not reach."""

    def __init__(self, sign_in: SavedSignIn, refused_token: str) -> None:
        # Not `Thread.join`: if Ctrl-C interrupts it, Python 3.11 takes the thread for one that has ended.
        self.has_ended = threading.Event()
        self._sign_in = sign_in
        self._refused_token = refused_token
        self._result: tuple[str, Tokens] | None = None
        self._error: BaseException | None = None

    def wait(self) -> tuple[str, Tokens]:
        """Start the thread, and return its result."""
        threading.Thread(target=self._run, daemon=True).start()
        self.has_ended.wait()
        if self._error:
            raise self._error
        assert self._result, "it ended"  # noqa: S101
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._sign_in.refresh(self._refused_token, self._begin)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._error = error
        finally:
            _running.discard(self)
            self.has_ended.set()

    def _begin(self) -> None:
        """Have the end of the process wait for this refresh.

        Raises:
            SystemExit: the process is ending.
        """
        _running.add(self)
        if _is_ending.is_set():
            raise SystemExit


_running: set[_Refresh] = set()
"""The refreshes that have sent a refresh token, and have not saved its successor."""
_is_ending = threading.Event()


def finish_refreshes() -> None:
    """Wait at the end of the process until the tokens that were requested are saved; start no further request."""
    _is_ending.set()
    for refresh in list(_running):
        refresh.has_ended.wait(2 * REQUEST_SECONDS)


def find_account(store: LoginStore, environment: Mapping[str, str]) -> Account | None:
    """Find the account that `<NAME>_ACCOUNT` names, or else the current one."""
    return store.find_current(_read_label(store.provider_name, environment))


def is_signed_in(folder: Path, provider_name: str, environment: Mapping[str, str]) -> bool:
    """Check whether there are tokens of the account to use, without opening the keyring."""
    account = find_account(LoginStore(folder, provider_name), environment)
    return account is not None and account.is_signed_in


def make_sign_in_error(provider_name: str, environment: Mapping[str, str]) -> ConfigError:
    """Return the error for a provider without a sign-in, or without one to the account that the environment names."""
    label, title = _read_label(provider_name, environment), SIGN_IN_SERVICES[provider_name].title
    account = f" as {label}, the account in {_name_label_variable(provider_name)}" if label else ""
    return ConfigError(f"not signed in to {title}{account}", _format_sign_in_advice(provider_name, label))


def _read_label(provider_name: str, environment: Mapping[str, str]) -> str:
    """Return the label of the account that the environment names, or ""."""
    return environment.get(_name_label_variable(provider_name), "").strip()


def _name_label_variable(provider_name: str) -> str:
    return f"{format_variable_prefix(provider_name)}_ACCOUNT"


def _format_sign_in_advice(provider_name: str, label: str) -> str:
    """Tell the user how to sign in."""
    return f"run `ask login {provider_name}{f' --account {shlex.quote(label)}' if label else ''}`"
