"""Generates the table of attachment types that each provider supports from its code.

`make generated` writes it into docs/attachments.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ask.attachments import format_supported_types
from tests.provider_table import list_providers, table

PAGE = Path(__file__).parents[1] / "docs" / "attachments.md"
BEGIN = "<!-- make generated writes from here -->\n"
END = "<!-- to here -->\n"


def list_supported_types() -> str:
    """Return what the default model of each provider accepts; for a local server, what the server accepts."""
    rows = []
    for (name, *_), provider in list_providers():
        model = provider.provider_info().default_model
        what = format_supported_types(partial(provider.provider_supports_attachment, model or "a-model"))
        rows.append((f"`{name}`", f"`{model}`" if model else "a vision model", what or "nothing but text"))
    return table("provider | default model | accepts", rows)


def generate() -> dict[Path, str]:
    """Return the page with its table replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} has no place for the table"
    return {PAGE: before + BEGIN + "\n" + list_supported_types() + "\n" + END + after}
