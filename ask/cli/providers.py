"""`ask providers`: which there are, which would answer, and where they come from."""

from __future__ import annotations

from ask.cli.groups import JSON_OPTION, listing


@listing("providers")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List the providers: installed as plugins, or described in config.toml.

    A plugin that cannot be loaded is one line on standard error; the others are listed all the same.
    """
    from ask.agent.model_selection import base_url_of, needs_key
    from ask.agent.workspace import Workspace
    from ask.console import Console, Output
    from ask.errors import ConfigError
    from ask.render.table import write_table

    workspace = Workspace()
    console = Console(workspace.environment, quiet=False, plain=False)
    rows = []
    for name in workspace.names:
        try:
            loaded = workspace.load(name)
        except ConfigError as error:
            console.line(f"ask: {error}")
            continue
        info, table = loaded.info, workspace.config.provider(name)
        _, key = workspace.keys.find(name, workspace.key_variables(name, info.key_env))
        base_url = base_url_of(workspace, info)
        origin = workspace.claims[name][0].distribution if name in workspace.claims else "config.toml"
        rows.append(
            {
                "name": name,
                "title": info.title,
                "default_model": table.get("model") or info.default_model,
                "key": key or ("missing" if needs_key(workspace, info, base_url) else "not needed"),
                "base_url": base_url,
                "from": origin,
            }
        )
    write_table(Output(), rows, as_json=as_json)
