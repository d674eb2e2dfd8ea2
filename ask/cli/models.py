"""`ask models`: what a provider can be asked for."""

from __future__ import annotations

import click

from ask.cli.groups import JSON_OPTION, listing
from ask.cli.option_types import seconds


@listing("models")
@click.option("-p", "--provider", metavar="NAME", help="List this provider's models.")
@click.option("--timeout", metavar="S", type=seconds, default=30.0, help="Give up when nothing comes for S s (30).")
@JSON_OPTION
def command(*, provider: str | None, timeout: float, as_json: bool) -> None:
    """List a provider's models, with context length and prices where it tells them.

    Prices are in US dollars per million tokens.
    """
    from ask.agent.model_selection import Wish, choose, open_exchange
    from ask.agent.workspace import Workspace
    from ask.cli.error_reporting import reporting
    from ask.client.models_cache import cache_file, keep_models
    from ask.console import Console, Output
    from ask.errors import ProviderError
    from ask.render.table import write_table
    from ask.settings import resolve

    workspace = Workspace()
    console = Console(workspace.environment, quiet=False, plain=False)
    with reporting(console, verbose=False):
        target = choose(workspace, Wish(provider))
        console.redact = workspace.secrets(target.key).redact
        settings = resolve({"timeout": timeout}, workspace.environment, workspace.config)
        models = open_exchange(target, lambda text: console.line(f"ask: {text}"), settings).models()
        if not models:
            raise ProviderError(f"{target.name} lists no models", advice="see its documentation, and use -m")
        keep_models(cache_file(workspace.places.cache, target.name, target.base_url), models)
    rows = [
        {
            "id": model.id,
            "title": model.title,
            "context": model.context_length,
            "tools": model.tools,
            "input_price": model.input_price,
            "output_price": model.output_price,
        }
        for model in sorted(models, key=lambda model: model.id)
    ]
    write_table(Output(), rows, as_json=as_json)
