"""The cells of CSV and TSV outputs, and what `--csv-safe` changes in them."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

FORMULA_SIGNS = frozenset("=+-@\u2212")
"""The characters with which a formula begins, in their compatibility form: a full-width equals sign is "=", too."""
NUMBER_PATTERN = re.compile(r"[+-](?:[0-9]+(?: [0-9]+)*(?:[.,][0-9]+)*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?")
"""A number or a phone number: nothing to calculate, and other programs read the first as a number."""


def format_cell(value: Any) -> Any:
    """Return a value for a table: numbers and text as they are, null as nothing, anything else as JSON."""
    is_plain = value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def escape_formula(value: Any) -> Any:
    """Return a value for a table, with an apostrophe before text other than numbers that a spreadsheet would calculate.

    https://owasp.org/www-community/attacks/CSV_Injection
    """
    cell = format_cell(value)
    is_formula = isinstance(cell, str) and _could_be_formula(cell) and not NUMBER_PATTERN.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def _could_be_formula(text: str) -> bool:
    """Check whether a cell begins with a sign of a formula, or with a tab or line break.

    Spaces, control and other invisible characters before the sign are skipped: some programs remove them on import.
    """
    first = next((character for character in text if unicodedata.category(character)[0] not in "CZ"), "")
    return text.startswith(("\t", "\r", "\n")) or unicodedata.normalize("NFKC", first) in FORMULA_SIGNS
