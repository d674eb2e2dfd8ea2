"""`ask providers`: list the providers."""

from __future__ import annotations

from ask.app import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.render.table import write_table
from ask.text import mask_password


@subcommand("providers")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """List the providers, from plugins and config.toml.

    A plugin that cannot be loaded is reported on standard error; the others are still listed.
    """
    from ask.client.endpoint import load_providers, requires_key, resolve_base_url

    app = AppContext()
    rows = []
    for name, provider in load_providers(app):
        info, table = provider.info, app.config.get_provider(name)
        key_origin = app.key_store.find_origin(name, info.key_env)
        base_url = resolve_base_url(app, info)
        origin = app.plugins.providers[name][0].distribution if name in app.plugins.providers else "config.toml"
        rows.append(
            {
                "name": name,
                "title": info.title,
                "default_model": table.get("model") or info.default_model,
                "key": key_origin or ("missing" if requires_key(app, info, base_url) else "not needed"),
                "base_url": mask_password(base_url),
                "from": origin,
            }
        )
    write_table(rows, as_json=as_json)
