"""The reasons for which rows failed. Errors that differ only in numbers, IDs or quoted values are one reason."""

from __future__ import annotations

import re

from ask.map.distributions import PrioritySample, SampledRow
from ask.text import format_one_line

MAX_REASONS = 100
"""How many different reasons are counted one by one."""
OTHER_REASONS = "other reasons"
MAX_REASON_CHARACTERS = 300
VARIABLE_PARTS = re.compile(r"""(, [1-5]\d\d\))|'[^']*'|"[^"]*"|(?<!\w)[\w.:/-]*\d[\w.:/-]*""")
"""An HTTP status, and what differs between errors with the same reason: quoted values, numbers and identifiers."""


class FailureReason:
    """Rows that failed for the same reason.

    Attributes:
        label: the error, without what differs between the rows.
        count: how many rows there are.
        unavailable_count: how many of them the next run sends again.
        rows: the first of them.
    """

    def __init__(self, error: str) -> None:
        self.label = error
        self.count = self.unavailable_count = 0
        self.rows = PrioritySample(1)


class FailureReasons:
    """All reasons of the failed rows of a job, in bounded memory."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, FailureReason] = {}

    def add(self, error: str, row: SampledRow, *, is_unavailable: bool) -> None:
        """Count a failed row; `is_unavailable` if the next run sends it again."""
        pattern = format_one_line(VARIABLE_PARTS.sub(_mask_part, error), MAX_REASON_CHARACTERS)
        error = format_one_line(error, MAX_REASON_CHARACTERS)
        if pattern not in self._by_pattern and len(self._by_pattern) >= MAX_REASONS:
            pattern = OTHER_REASONS
        reason = self._by_pattern.setdefault(pattern, FailureReason(error))
        if error != reason.label:
            reason.label = pattern
        reason.count += 1
        reason.unavailable_count += is_unavailable
        reason.rows.add(row.position, row)

    def list_by_count(self) -> list[FailureReason]:
        """Return the reasons, the most frequent first."""
        return sorted(self._by_pattern.values(), key=lambda reason: (-reason.count, reason.label))


def _mask_part(match: re.Match[str]) -> str:
    """Return an HTTP status as it is, and an ellipsis for anything else."""
    return match[1] or "…"
