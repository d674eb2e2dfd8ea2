"""`ask config list`: every setting, and where its value is from."""

from __future__ import annotations

from ask.cli.groups import JSON_OPTION, listing


@listing("list")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List every setting with its value and where that is from: a variable, config.toml, or the default."""
    from ask.agent.workspace import Workspace
    from ask.cli.config.effective import every_setting
    from ask.cli.config.keys import word_of
    from ask.console import Console, Output
    from ask.render.table import write_table

    workspace = Workspace()
    for warning in workspace.config.warnings:
        Console(workspace.environment, quiet=False, plain=False).line(f"ask: {warning}")
    rows = [
        {
            "key": setting.key,
            "value": setting.value if as_json or setting.value is None else word_of(setting.key, setting.value),
            "from": setting.origin,
            "meaning": setting.meaning,
        }
        for setting in every_setting(workspace)
    ]
    write_table(Output(), rows, as_json=as_json)
