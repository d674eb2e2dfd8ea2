"""`ask config get`: one setting, for scripts."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("get")
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="Print the value as JSON.")
def command(*, key: str, as_json: bool) -> None:
    """Print the value of KEY: the one that counts, from environment, config.toml or default.

    It is printed as `ask config set` takes it; a table such as providers.groq as JSON. Nothing set is exit code 4.
    """
    import json

    from ask.agent.workspace import Workspace
    from ask.cli.config.effective import effective, of_provider
    from ask.cli.config.keys import find_key, word_of
    from ask.config_file import find_value, find_written
    from ask.console import Output
    from ask.errors import ConfigError
    from ask.settings import KEYS
    from ask.text import as_text

    workspace, word = Workspace(), as_text(key)
    values = workspace.config.values
    written = find_written(values, word)
    if word in KEYS:
        value = effective(workspace, word).value
    elif written and not (len(written) == 3 and written[0] == "providers"):
        value = find_value(values, written)
    else:
        parts = find_key(word).parts
        value = of_provider(workspace, *parts[1:]).value if parts[0] == "providers" else None
    if value is None or value == "":
        raise ConfigError(f"{word} is not set", "ask config list shows what is")
    Output().write((json.dumps(value, ensure_ascii=False) if as_json else word_of(word, value)) + "\n")
