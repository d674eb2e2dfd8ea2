"""`ask events`: the protocol of `--events` and `--input-events`."""

from __future__ import annotations

import json

import click

from ask.cli.click_helpers import print_text, subcommand
from ask.render.event_schema import build_event_schema, list_event_types


@subcommand("events")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the lines.")
def command(*, schema: bool) -> None:
    """List the events that --events prints, and the lines that --input-events reads.

    With --schema, print the JSON Schema of both: of an event, and, as $defs/input, of a line of input.
    """
    if schema:
        print_text(json.dumps(build_event_schema(), indent=2))
        return
    print_text("\n".join(f"{name:<14}{description}" for name, description in list_event_types()))
