"""`ask keys`: keeps API keys in a file that only the user can read, and never prints one."""

from __future__ import annotations

import sys

import click

from ask.cli.groups import JSON_OPTION, WordedCommand, WordedGroup


@click.group("keys", cls=WordedGroup, default="list", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Save API keys. Without a subcommand, lists them. A key in the environment comes before a saved one."""


@command.command("set", cls=WordedCommand)
@click.argument("provider")
def set_key(provider: str) -> None:
    """Keep the key of PROVIDER, typed without being shown, or read from standard input.

    A search engine's key is kept in the same way: brave or tavily.
    """
    from ask.agent.workspace import Workspace
    from ask.errors import UsageError
    from ask.tools.web_search import KEYED

    workspace = Workspace()
    if provider not in KEYED:
        provider = workspace.load(provider).info.name
    key = read_key(f"Key for {provider}").strip()
    if not key:
        raise UsageError("no key was given", f"ask keys set {provider}")
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key holds a character that no key has", f"ask keys set {provider}")
    workspace.keys.save(provider, key)
    click.echo(f"The key for {provider} is kept in {workspace.keys.path}.", err=True)


def read_key(question: str) -> str:
    """The key as typed in answer to the question, or the first line that is piped in."""
    if sys.stdin is None:
        return ""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline().decode(errors="replace")
    answer: str = click.prompt(question, default="", show_default=False, hide_input=True, err=True)
    return answer


@command.command("list", cls=WordedCommand)
@JSON_OPTION
def list_keys(*, as_json: bool) -> None:
    """List which providers have a key, and where it is from; never the key."""
    from ask.agent.workspace import Workspace
    from ask.console import Output
    from ask.render.table import write_table
    from ask.tools.web_search import KEYED

    workspace = Workspace()
    rows = []
    for name in sorted({*workspace.names, *KEYED, *workspace.keys.stored()}):
        _, origin = workspace.keys.find(name, workspace.key_variables(name))
        if origin:
            rows.append({"provider": name, "from": origin})
    write_table(Output(), rows, as_json=as_json)


@command.command("remove", cls=WordedCommand)
@click.argument("provider")
def remove_key(provider: str) -> None:
    """Forget the kept key of PROVIDER."""
    from ask.agent.workspace import Workspace
    from ask.errors import ConfigError

    workspace = Workspace()
    if provider not in workspace.keys.stored():
        raise ConfigError(f"no key is kept for {provider}", "ask keys list shows where keys are from")
    workspace.keys.save(provider, "")
    click.echo(f"The key for {provider} is forgotten.", err=True)
