"""Saved sign-ins to providers: accounts and their tokens, in a private file per provider or in the system keyring."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import (
    PRIVATE_FILE_MODE,
    Ownership,
    convert_write_errors,
    create_private_folder,
    lock_file,
    open_replacement,
    write_private_file,
)
from ask.config.external_keys import find_in_keyring, write_keyring
from ask.errors import ConfigError
from ask.parsing import read_dict, read_list, read_number, read_str
from ask.records import NamedTuple
from ask.regular_files import read_regular_file

RESERVED_BYTES = 32_768
"""How much more than the saved sign-in is reserved on the disk for tokens before they are requested."""
TOKEN_PATTERN = r"[!-{}~]+"  # noqa: S105 - a regular expression
"""Matches tokens that can be sent: visible ASCII without "|", which separates keys."""


class Tokens(NamedTuple):
    """The tokens of an account; `expires_at` is when the access token expires, in seconds since 1970."""

    access_token: str
    refresh_token: str
    expires_at: float


class Account(NamedTuple):
    """An account of the user's at a provider.

    Attributes:
        client_id: the client that the authorization server has issued for it.
        issuer: the authorization server.
        label: the name by which the user chooses it.
        subject: the server's id of the user.
        email: the user's e-mail address; "" if it is unknown.
        may_use_plan: whether the user has allowed what `ask` needs.
        in_keyring: whether the tokens are in the system keyring.
        tokens: the tokens in the file; None if the user is signed out, or they are in the keyring.
    """

    client_id: str
    issuer: str
    label: str
    subject: str
    email: str = ""
    may_use_plan: bool = True
    in_keyring: bool = False
    tokens: Tokens | None = None

    @property
    def is_signed_in(self) -> bool:
        return self.in_keyring or self.tokens is not None


class Login(NamedTuple):
    """The saved accounts of a provider.

    Attributes:
        host_id: the id of this installation of `ask`.
        current: the client id of the account that is used; "" for none.
        accounts: the accounts by their client ids.
    """

    host_id: str
    current: str = ""
    accounts: Mapping[str, Account] = {}

    def find(self, label: str = "") -> Account | None:
        """Return the account with this label, or the current one."""
        if not label:
            return self.accounts.get(self.current)
        return next((account for account in self.accounts.values() if account.label == label), None)

    def with_account(self, account: Account) -> Login:
        """Return the login with an account added or replaced."""
        return self._replace(accounts={**self.accounts, account.client_id: account})

    def choose_label(self, wanted: str) -> str:
        """Return a label that no account has."""
        taken = {account.label for account in self.accounts.values()}
        numbered = (f"{wanted} ({number})" for number in range(2, len(taken) + 3))
        return next(label for label in (wanted, *numbered) if label not in taken)


class LoginStore:
    """The saved sign-in to one provider.

    Args:
        folder: the folder of all sign-ins.
        provider_name: the provider.
    """

    def __init__(self, folder: Path, provider_name: str) -> None:
        self.provider_name = provider_name
        self.path = folder / f"{provider_name}.json"

    def read(self) -> Login:
        """Read the sign-in. If there is none, it has no accounts and a new host id, which must be saved.

        Raises:
            ConfigError: the file cannot be read, or contains something else.
        """
        try:
            record = json.loads(read_regular_file(self.path))
        except FileNotFoundError:
            return Login(f"urn:uuid:{uuid.uuid4()}")
        except OSError as error:
            raise ConfigError(f"cannot read {self.path} ({error.strerror})") from error
        except (ValueError, RecursionError):
            record = None
        login = _parse_login(record)
        if login is None:
            advice = f"delete it, and run `ask login {self.provider_name}`"
            raise ConfigError(f"{self.path} is damaged", advice)
        return login

    def find_current(self, label: str) -> Account | None:
        """Return the account with this label, "" for the current one; None if there is none or the file is damaged."""
        with suppress(ConfigError):
            return self.read().find(label) if self.path.exists() else None
        return None

    def read_tokens(self, account: Account) -> Tokens | None:
        """Return the tokens of an account, from the keyring if they should be there; None if there are none.

        Raises:
            ConfigError: the keyring cannot be used.
            MissingDependencyError: the package for the keyring is not installed.
        """
        if not account.in_keyring:
            return account.tokens
        with suppress(ValueError, RecursionError):
            return _parse_tokens(json.loads(find_in_keyring(self._format_keyring_user(account))))
        return None

    def lock(self) -> AbstractContextManager[None]:
        """Lock the sign-ins against other runs, from reading them to saving them.

        Raises:
            FileError: the folder cannot be created, or another process has locked it for too long.
        """
        return lock_file(self.path)

    def save(self, login: Login) -> None:
        """Replace the sign-in, durably, in a file that only the user can read.

        Raises:
            FileError: the file cannot be written.
        """
        with convert_write_errors(self.path):
            write_private_file(self.path, _dump_login(login), durable=True)

    def save_tokens(self, login: Login, account: Account, tokens: Tokens | None, *, in_keyring: bool = False) -> Login:
        """Save an account with these tokens, and delete those that it had elsewhere; return the changed login.

        Raises:
            ConfigError: the keyring cannot be used.
            FileError: the file cannot be written.
            MissingDependencyError: the package for the keyring is not installed.
        """
        if in_keyring or account.in_keyring:
            text = json.dumps(tokens._asdict()) if tokens and in_keyring else ""
            write_keyring(self._format_keyring_user(account), text)
        stored = account._replace(in_keyring=in_keyring and tokens is not None, tokens=None if in_keyring else tokens)
        changed = login.with_account(stored)
        self.save(changed)
        return changed

    @contextmanager
    def reserve_space(self) -> Iterator[Callable[[Login], None]]:
        """Reserve space on the disk, and yield a function that saves a sign-in there.

        A refresh token is valid once: if the disk is full, this must be known before the token is used.

        Raises:
            FileError: there is no space, or the file cannot be written; the saved sign-in is unchanged.
        """
        target = Path(os.path.realpath(self.path))
        with convert_write_errors(self.path):
            create_private_folder(target.parent)
            ownership = Ownership(PRIVATE_FILE_MODE, os.geteuid(), os.getegid())
            with open_replacement(target, ownership) as file:
                file.write(bytes(target.stat().st_size + RESERVED_BYTES))
                file.flush()

                def write(login: Login) -> None:
                    file.seek(0)
                    file.write(_dump_login(login))
                    file.truncate()
                    file.flush()
                    os.fsync(file.fileno())

                yield write

    def _format_keyring_user(self, account: Account) -> str:
        return f"{self.provider_name}:{account.client_id}"


def list_login_tokens(folder: Path) -> Iterator[str]:
    """Yield the tokens in the files of all sign-ins to providers."""
    for path in folder.glob("*.json"):
        with suppress(ConfigError):
            for account in LoginStore(folder, path.stem).read().accounts.values():
                if account.tokens:
                    yield account.tokens.access_token
                    yield account.tokens.refresh_token


def _parse_login(record: Any) -> Login | None:
    """Parse a saved sign-in, whose damaged accounts are left out; None if it is damaged itself."""
    fields = read_dict(record)
    host_id = read_str(fields.get("host_id"))
    if not host_id:
        return None
    accounts = {
        account.client_id: account for account in map(_parse_account, read_list(fields.get("accounts"))) if account
    }
    return Login(host_id, read_str(fields.get("current")), accounts)


def _parse_account(value: Any) -> Account | None:
    fields = read_dict(value)
    texts = {name: read_str(fields.get(name)) for name in ("client_id", "issuer", "label", "subject", "email")}
    if not all(texts[name] for name in ("client_id", "issuer", "label", "subject")):
        return None
    return Account(
        **texts,
        may_use_plan=fields.get("may_use_plan") is not False,
        in_keyring=fields.get("in_keyring") is True,
        tokens=_parse_tokens(fields.get("tokens")),
    )


def _parse_tokens(value: Any) -> Tokens | None:
    fields = read_dict(value)
    access, refresh = read_str(fields.get("access_token")), read_str(fields.get("refresh_token"))
    if not (re.fullmatch(TOKEN_PATTERN, access) and re.fullmatch(TOKEN_PATTERN, refresh)):
        return None
    return Tokens(access, refresh, read_number(fields.get("expires_at")) or 0.0)


def _dump_login(login: Login) -> bytes:
    accounts = [
        {**account._asdict(), "tokens": account.tokens._asdict() if account.tokens else None}
        for account in login.accounts.values()
    ]
    return f"{json.dumps({**login._asdict(), 'accounts': accounts}, indent=2)}\n".encode()
