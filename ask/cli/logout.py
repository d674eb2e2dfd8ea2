"""`ask logout`: delete a sign-in to a provider, and revoke its tokens."""

from __future__ import annotations

from contextlib import suppress

import click

from ask.app import AppContext
from ask.cli.click_helpers import TEXT, print_notice, subcommand
from ask.cli.login import forget_models, list_signed_in, open_login
from ask.client.oauth_requests import find_service, revoke_token
from ask.client.saved_sign_in import find_account
from ask.config.logins import Account, Login, LoginStore
from ask.errors import AskError, UsageError


@subcommand("logout")
@click.argument("provider", required=False, type=TEXT)
@click.option("--account", default="", type=TEXT, metavar="NAME", help="Sign out of this account, not the current one.")
@click.option("--all", "all_accounts", is_flag=True, help="Sign out of all accounts.")
@click.option("--forget", is_flag=True, help="Also forget the account, so that the next sign-in registers it anew.")
def command(*, provider: str | None, account: str, all_accounts: bool, forget: bool) -> None:
    """Delete the tokens of a sign-in to PROVIDER, and revoke them.

    The provider can be left out if there is only one. The account stays known, so that ask login can sign in to it
    again.
    """
    app = AppContext()
    if account and all_accounts:
        raise UsageError("--account and --all exclude each other", "pass one of them")
    names = [path.stem for path in list_signed_in(app)]
    if provider is None and len(names) != 1:
        raise UsageError("no provider given" if names else "not signed in to any provider", "ask login lists accounts")
    name = provider or names[0]
    store, _ = open_login(app, name)
    for each in _select_accounts(app, store, account, all_accounts=all_accounts, includes_signed_out=forget):
        _sign_out(app, store, each, forget=forget)
        click.echo(f"Signed out of {name} ({each.label}).", err=True)
    forget_models(app, name)


def _select_accounts(
    app: AppContext, store: LoginStore, label: str, *, all_accounts: bool, includes_signed_out: bool
) -> list[Account]:
    """Return the accounts to sign out of.

    Raises:
        UsageError: there is none.
    """
    login = store.read()
    chosen = login.find(label) if label else find_account(store, app.environment)
    accounts = list(login.accounts.values()) if all_accounts else [chosen] if chosen else []
    accounts = [account for account in accounts if account.is_signed_in or includes_signed_out]
    if not accounts:
        problem = f"not signed in to the account {label!r}" if label else f"not signed in to {store.provider_name}"
        raise UsageError(problem, "ask login lists accounts")
    return accounts


def _sign_out(app: AppContext, store: LoginStore, account: Account, *, forget: bool) -> None:
    """Delete the tokens of an account, and revoke them."""
    tokens = None
    with store.lock():
        login = store.read()
        account = login.accounts.get(account.client_id, account)
        with suppress(AskError):  # a keyring that cannot be opened
            tokens = store.read_tokens(account)
        changed = store.save_tokens(login, account, None)
        if forget:
            store.save(_remove_account(changed, account))
    if not account.is_signed_in:
        return
    service = find_service(store.provider_name, app.environment)._replace(issuer=account.issuer)
    problem = (
        revoke_token(service, account.client_id, tokens.refresh_token) if tokens else "they are not in the keyring"
    )
    if problem:
        print_notice(f"the tokens of {account.label} may remain valid until they expire: {problem}")


def _remove_account(login: Login, account: Account) -> Login:
    others = {key: value for key, value in login.accounts.items() if key != account.client_id}
    return login._replace(accounts=others, current="" if login.current == account.client_id else login.current)
