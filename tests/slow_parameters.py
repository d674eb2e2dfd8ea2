"""Parameters of tests of which a normal run uses only some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mark_others_slow(values: Iterable[Any], common: Collection[Any] = ()) -> list[Any]:
    """Build test parameters in which all values that are not common, by default all but the first, are slow."""
    values = list(values)
    common = common or values[:1]
    return [value if value in common else pytest.param(value, marks=pytest.mark.slow) for value in values]
