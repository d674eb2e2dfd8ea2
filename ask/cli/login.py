"""`ask login`: sign in to a provider in the browser, in place of setting a key; list and choose accounts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, NO_BROWSER_OPTION, TEXT, print_notice, subcommand
from ask.cli.sign_in_page import can_open_browser, read_redirect, show_page
from ask.client.models_cache import find_newest_file
from ask.client.oauth_requests import find_service
from ask.client.saved_sign_in import find_account
from ask.config.logins import Account, LoginStore
from ask.config.sign_in_services import SIGN_IN_SERVICES, SignInService
from ask.errors import ConfigError, UsageError
from ask.login.browser_login import LoginOptions, sign_in
from ask.render.table import write_table
from ask.text import format_suggestion

MAX_PORT = 65_535


@subcommand("login")
@click.argument("provider", required=False, type=TEXT)
@click.option("--account", default="", type=TEXT, metavar="NAME", help="Sign in to this account, which may be new.")
@click.option("--use", default="", type=TEXT, metavar="NAME", help="Use this account, without signing in again.")
@click.option("--keyring", is_flag=True, help="Save the tokens in the system keyring instead of a file.")
@NO_BROWSER_OPTION
@click.option(
    "--port", default=0, type=click.IntRange(0, MAX_PORT), metavar="N", help="Port of this machine for the redirect."
)
@JSON_OPTION
def command(
    *, provider: str | None, account: str, use: str, keyring: bool, no_browser: bool, port: int, as_json: bool
) -> None:
    """Sign in to PROVIDER in the browser. Without a provider, list the accounts.

    Runs use the account that signed in last, or the one of --use or $CHATGPT_ACCOUNT. Their tokens are refreshed
    without a browser.

    The browser is redirected to a port on this machine. With --no-browser, for example over SSH, open the printed
    URL on any machine and paste the URL to which the browser is redirected; that page need not load.
    """
    app = AppContext()
    if provider is None:
        if account or use or keyring or no_browser or port:
            raise UsageError("no provider given", f"try: ask login {next(iter(SIGN_IN_SERVICES))}")
        _list_accounts(app, as_json=as_json)
        return
    if as_json:
        raise UsageError("--json lists the accounts, so it does not go with a provider", "try: ask login --json")
    store, service = open_login(app, provider)
    if use:
        if account or keyring or no_browser or port:
            raise UsageError("--use does not sign in, so it goes with no other option", f"--account {use} signs in")
        used = _use_account(store, use)
    else:
        used = _sign_in(store, service, account, port, in_keyring=keyring, opens_browser=not no_browser)
    forget_models(app, provider)
    _print_result(app, provider, service, used)


def open_login(app: AppContext, provider: str) -> tuple[LoginStore, SignInService]:
    """Return where the sign-in to a provider is saved, and the service at which users sign in.

    Raises:
        UsageError: the provider has no sign-in.
    """
    if provider not in SIGN_IN_SERVICES:
        names = list(SIGN_IN_SERVICES)
        advice = f"ask keys set {provider} saves its key"
        if not app.has_provider(provider):
            advice = format_suggestion(provider, names, f"try: ask login {names[0]}")
        raise UsageError(f"{provider!r} has no sign-in", advice)
    return LoginStore(app.app_dirs.logins, provider), find_service(provider, app.environment)


def forget_models(app: AppContext, provider: str) -> None:
    """Delete the cached models list, which another account may not have."""
    with suppress(OSError):  # a cache that cannot be written; the sign-in is saved
        find_newest_file(app.app_dirs.cache, provider).unlink()


def list_signed_in(app: AppContext) -> list[Path]:
    """List the files of saved sign-ins."""
    return sorted(path for path in app.app_dirs.logins.glob("*.json") if path.stem in SIGN_IN_SERVICES)


def _use_account(store: LoginStore, label: str) -> Account:
    """Use a saved account from now on.

    Raises:
        ConfigError: there is none, or it is signed out.
    """
    with store.lock():
        login = store.read()
        account = login.find(label)
        if account is None or not account.is_signed_in:
            state = "is signed out" if account else "is not known"
            advice = f"ask login {store.provider_name} --account {label!r} signs in"
            raise ConfigError(f"the account {label!r} {state}", advice)
        store.save(login._replace(current=account.client_id))
    return account


def _sign_in(
    store: LoginStore, service: SignInService, label: str, port: int, *, in_keyring: bool, opens_browser: bool
) -> Account:
    opens_browser = opens_browser and can_open_browser()
    options = LoginOptions(
        label,
        port,
        in_keyring,
        lambda url: show_page(service.title, url, opens_browser=opens_browser),
        None if opens_browser else read_redirect,
    )
    return sign_in(store, service, options)


def _print_result(app: AppContext, provider: str, service: SignInService, used: Account) -> None:
    click.echo(f"Signed in to {service.title} as {used.label}; try: ask -p {provider} hello", err=True)
    click.echo(f"Your plan pays. See and limit its use at {service.usage_url}", err=True)
    chosen = find_account(LoginStore(app.app_dirs.logins, provider), app.environment)
    if chosen is None or chosen.client_id != used.client_id:
        print_notice("the environment chooses another account for this shell")
    if origin := app.key_store.find_origin(provider):
        print_notice(f"runs use the key in {origin} instead; remove it to use the sign-in")


def _list_accounts(app: AppContext, *, as_json: bool) -> None:
    rows = []
    for path in list_signed_in(app):
        store = LoginStore(app.app_dirs.logins, path.stem)
        used = find_account(store, app.environment)
        for account in store.read().accounts.values():
            is_used = used is not None and used.client_id == account.client_id
            state = "in use" if is_used else "signed in"
            rows.append(
                {
                    "provider": path.stem,
                    "account": account.label,
                    "state": state if account.is_signed_in else "signed out",
                    "email": account.email,
                    "tokens": "the system keyring" if account.in_keyring else str(path) if account.tokens else "",
                }
            )
    names = ", ".join(SIGN_IN_SERVICES)
    write_table(rows, as_json=as_json, empty=f"not signed in; ask login PROVIDER signs in ({names})")
