"""`ask keys`: save API keys in a private file or the system keyring; they are never printed."""

from __future__ import annotations

import sys

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, CommandGroup, print_notice
from ask.config.key_repair import is_valid_key, repair_key
from ask.config.key_store import KEYRING
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.errors import ConfigError, UsageError
from ask.render.table import write_table
from ask.tools.search_engine import KEYED_ENGINES


@click.group("keys", cls=CommandGroup)
def command() -> None:
    """Manage API keys. Without a command, list them. A key in the environment takes precedence over a saved one."""


@command.command("set")
@click.argument("provider")
@click.option("--keyring", is_flag=True, help="Save it in the system keyring instead of a file.")
def set_key(provider: str, *, keyring: bool) -> None:
    """Save the key of PROVIDER, typed without echo or read from standard input.

    The key of a search engine is saved in the same way: brave or tavily. mcp:NAME is the client secret of an MCP
    server.
    """
    app = AppContext()
    if provider not in KEYED_ENGINES and not provider.startswith("mcp:"):
        from ask.client.endpoint import load_provider

        if provider in SIGN_IN_SERVICES:
            raise UsageError(f"{provider} has a sign-in in place of a key", f"run ask login {provider}")

        provider = load_provider(app, provider).info.name
    text = _read_key(f"Key for {provider}").strip()
    # The secret of an MCP client may contain anything.
    key, removed = (text, []) if provider.startswith("mcp:") else repair_key(text)
    if not key:
        raise UsageError("no key entered", f"run ask keys set {provider} again")
    if not is_valid_key(key):
        raise UsageError("the key contains an invalid character", f"run ask keys set {provider} again")
    app.key_store.save(provider, key, in_keyring=keyring)
    if removed:
        print_notice(f"removed from the key: {', '.join(removed)}")
    click.echo(f"Saved the key for {provider} in {KEYRING if keyring else app.key_store.path}.", err=True)


def _read_key(prompt: str) -> str:
    """Prompt for a key without echo, or read the first line of piped input."""
    if sys.stdin is None:
        return ""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline().decode(errors="replace")
    answer: str = click.prompt(prompt, default="", show_default=False, hide_input=True, err=True)
    return answer


@command.command("list")
@JSON_OPTION
def list_keys(*, as_json: bool) -> None:
    """List the providers that have a key, and where it is set. Keys are never shown."""
    from ask.client.endpoint import find_key_origin, list_configured_services, load_providers

    app = AppContext()
    rows = []
    providers = load_providers(app, list_configured_services(app))
    vendor_variables = {name: provider.info.key_env for name, provider in providers}
    for name in sorted({*vendor_variables, *KEYED_ENGINES, *app.key_store.list_saved_names()}):
        origin = find_key_origin(app, name, vendor_variables.get(name, ()))
        if origin:
            rows.append({"provider": name, "from": origin})
    write_table(rows, as_json=as_json, empty="no keys; ask keys set PROVIDER saves one")


@command.command("remove")
@click.argument("provider")
def remove_key(provider: str) -> None:
    """Remove the saved key of PROVIDER."""
    app = AppContext()
    if provider not in app.key_store.list_saved_names():
        raise ConfigError(f"there is no saved key for {provider}", "ask keys list shows where each key comes from")
    app.key_store.save(provider, "")
    click.echo(f"Removed the saved key for {provider}.", err=True)
