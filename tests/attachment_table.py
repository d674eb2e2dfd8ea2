"""The table of what each provider takes beside text, made from what its code says.

`python -m tests.attachment_table` writes it into docs/attachments.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ask.attachments import format_supported_types
from tests.provider_table import providers, table

PAGE = Path(__file__).parents[1] / "docs" / "attachments.md"
BEGIN = "<!-- python -m tests.attachment_table writes from here -->\n"
END = "<!-- to here -->\n"


def taken() -> str:
    """What the default model of each provider takes; for a local server, what the server does."""
    rows = []
    for (name, *_), provider in providers():
        model = provider.provider_info().default_model
        what = format_supported_types(partial(provider.provider_takes_attachment, model or "a-model"))
        rows.append((f"`{name}`", f"`{model}`" if model else "one that sees", what or "nothing but text"))
    return table("provider | asked with | takes", rows)


def main() -> None:
    """Write the table into the page, in place of the one that is there."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + taken() + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
