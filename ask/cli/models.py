"""`ask models`: list the models of a provider."""

from __future__ import annotations

import click

from ask.app import AppContext
from ask.cli.ask import parse_seconds
from ask.cli.click_helpers import JSON_OPTION, subcommand
from ask.client.endpoint import create_client
from ask.client.models_list import keep_models_list
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.console import StandardOutput
from ask.errors import ProviderError
from ask.render.table import write_table

OPTIONAL_COLUMNS = (
    *("price_source", "deprecated", "title", "tools", "context", "retires", "output_price", "input_price"),
)


@subcommand("models")
@click.option("-p", "--provider", metavar="NAME", help="Provider whose models to list.")
@click.option(
    "--timeout", metavar="S", type=parse_seconds, default="30", help="Stop if nothing arrives for S seconds (30)."
)
@JSON_OPTION
def command(*, provider: str | None, timeout: float, as_json: bool) -> None:
    """List a provider's models, with context length, prices and retirement date where they are known.

    Prices are in US dollars per million tokens, from the provider, the package genai-prices, or OpenRouter.
    """
    from ask.agent.provider_selection import ModelSelection, resolve_endpoint
    from ask.client.run_costs import find_list_prices

    app = AppContext()
    with app.redact_errors(verbose=False):
        endpoint = resolve_endpoint(app, ModelSelection(provider))
        app.console.redact = app.collect_secrets().redact
        settings = resolve_settings(RunOptions(timeout=timeout), app.environment, app.config)
        models = create_client(endpoint, app.console.print_notice, settings).list_models()
        if not models:
            raise ProviderError(
                f"{endpoint.provider_name} does not list its models", hint="choose one from its documentation with -m"
            )
        keep_models_list(endpoint, app.app_dirs.cache, models)
        prices = find_list_prices(app, endpoint, models, settings)
    rows = [
        {
            "id": model.id,
            "title": model.title,
            "context": model.context_length,
            "tools": model.tools,
            "input_price": price.tiers[0].input if price else None,
            "output_price": price.tiers[0].output if price else None,
            "price_source": price.source if price else None,
            "deprecated": model.deprecation_date,
            "retires": model.retirement_date or endpoint.provider.find_profile(model.id).retirement_date,
        }
        for model, price in sorted(zip(models, prices, strict=True), key=lambda pair: pair[0].id)
    ]
    for name in ("deprecated", "retires"):
        if not as_json and StandardOutput().is_terminal and not any(row[name] for row in rows):
            rows = [{key: value for key, value in row.items() if key != name} for row in rows]
    write_table(rows, as_json=as_json, optional=OPTIONAL_COLUMNS)
