"""`ask providers`: which there are, which would answer, and where they come from."""

from __future__ import annotations

from ask.agent.app_context import AppContext
from ask.agent.model_selection import requires_key, resolve_base_url
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput, StderrConsole
from ask.errors import ConfigError
from ask.render.table import write_table


@subcommand("providers")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List the providers: installed as plugins, or described in config.toml.

    A plugin that cannot be loaded is one line on standard error; the others are listed all the same.
    """
    workspace = AppContext()
    console = StderrConsole(workspace.environment, quiet=False, plain=False)
    rows = []
    for name in workspace.provider_names:
        try:
            loaded = workspace.load_provider(name)
        except ConfigError as error:
            console.print_line(f"ask: {error}")
            continue
        info, table = loaded.info, workspace.config.get_provider(name)
        _, key = workspace.key_store.find(name, workspace.find_key_variables(name, info.key_env))
        base_url = resolve_base_url(workspace, info)
        origin = (
            workspace.provider_plugins[name][0].distribution if name in workspace.provider_plugins else "config.toml"
        )
        rows.append(
            {
                "name": name,
                "title": info.title,
                "default_model": table.get("model") or info.default_model,
                "key": key or ("missing" if requires_key(workspace, info, base_url) else "not needed"),
                "base_url": base_url,
                "from": origin,
            }
        )
    write_table(StandardOutput(), rows, as_json=as_json)
