"""`ask providers`: list the providers."""

from __future__ import annotations

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, subcommand
from ask.render.table import write_table
from ask.text import mask_password


@subcommand("providers")
@click.option("--all", "show_all", is_flag=True, help="Include the services that have no key.")
@JSON_OPTION
def command(*, show_all: bool, as_json: bool) -> None:
    """List the providers, from plugins and config.toml, and the further services that have a key.

    A plugin that cannot be loaded is reported on standard error; the others are still listed.
    """
    from ask.client.endpoint import (
        explain_ignored,
        find_key_origin,
        find_provider_origin,
        list_configured_services,
        load_providers,
        requires_key,
        resolve_base_url,
    )

    app = AppContext()
    rows = []
    services = app.services if show_all else list_configured_services(app)
    for name, provider in load_providers(app, services):
        if ignored := explain_ignored(app, name):
            app.notify(ignored)
        info, table = provider.info, app.config.providers.get(name, {})
        key_origin = find_key_origin(app, name, info.key_env)
        base_url, _ = resolve_base_url(app, info)
        rows.append(
            {
                "name": name,
                "title": info.title,
                "default_model": table.get("model") or info.default_model,
                "key": key_origin or ("missing" if requires_key(app, info, base_url) else "not needed"),
                "base_url": mask_password(base_url),
                "from": find_provider_origin(app, name),
            }
        )
    write_table(rows, as_json=as_json, optional=("from", "base_url", "title", "key"))
