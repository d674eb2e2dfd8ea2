"""Generates the tables of model profiles from the providers' code.

`make generated` writes them into docs/models.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ask.attachments import format_supported_types
from ask.profiles import ModelProfile
from tests.provider_table import list_providers, table

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
BEGIN = "<!-- make generated writes from here -->\n"
END = "<!-- to here -->\n"
HEADING = "models | reasoning efforts | not accepted | output limit | context | files | retired on | source"


def list_rows(profiles: Sequence[ModelProfile]) -> Iterator[tuple[str, ...]]:
    for profile in profiles:
        patterns = ", ".join(f"`{pattern}`" for pattern in profile.pattern.split("|"))
        yield (
            patterns,
            format_efforts(profile),
            format_refused_options(profile),
            *(f"{limit:,}" if limit else "" for limit in (profile.output_limit, profile.context_length)),
            format_attachments(profile),
            profile.retirement_date or "",
            f"[page]({profile.source})" if profile.source else "",
        )


def format_efforts(profile: ModelProfile) -> str:
    if profile.efforts is None:
        return ""
    efforts = (f"{effort} (default)" if effort == profile.default_effort else effort for effort in profile.efforts)
    return ", ".join(efforts) or "no reasoning"


def format_refused_options(profile: ModelProfile) -> str:
    parts = [", ".join(f"`{name}`" for name in profile.refused_options or ())]
    if profile.refused_when_reasoning:
        parts.append(", ".join(f"`{name}`" for name in profile.refused_when_reasoning) + " with reasoning")
    if profile.reasoning_with_tools is False:
        parts.append("tools with reasoning (Chat Completions)")
    if profile.schema_with_tools is False:
        parts.append("a schema with tools")
    return "; ".join(filter(None, parts))


def format_attachments(profile: ModelProfile) -> str:
    if profile.attachments is None:
        return ""
    return format_supported_types(partial(is_listed, profile.attachments)) or "text only"


def is_listed(attachments: Sequence[str], media_type: str) -> bool:
    return media_type in attachments


def build_tables() -> str:
    """Return a heading and a table for each provider."""
    sections = []
    for (name, *_), provider in list_providers():
        rows = [row for row in list_rows(provider.profiles) if any(row[1:-1])]
        used = [i for i, column in enumerate(zip(*rows, strict=True)) if any(column)]
        heading = " | ".join(HEADING.split(" | ")[i] for i in used)
        sections.append(f"### {name}\n\n{table(heading, [[row[i] for i in used] for row in rows])}")
    return "\n".join(sections)


def generate() -> dict[Path, str]:
    """Return the page with its tables replaced."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} has no place for the tables"
    return {PAGE: before + BEGIN + "\n" + build_tables() + "\n" + END + after}
