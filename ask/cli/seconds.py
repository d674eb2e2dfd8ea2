"""The type of options that take a time."""

from __future__ import annotations

from typing import Any

import click

A_YEAR = 31_536_000.0


class Seconds(click.ParamType):
    """A number of seconds that something can wait for: above 0, and no more than a year."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        seconds: float = click.FLOAT.convert(value, param, ctx)
        if not 0 < seconds <= A_YEAR:
            self.fail(f"{value} is no number of seconds above 0", param, ctx)
        return seconds
