"""What a check found."""

from __future__ import annotations

from typing import NamedTuple

OK, WARNING, PROBLEM = "ok", "warning", "problem"


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        state: `OK`; `WARNING` where something is worth a look; `PROBLEM` where something does not work.
        check: what was looked at.
        found: how it is.
        fix: what to do about it; "" for nothing.
    """

    state: str
    check: str
    found: str
    fix: str = ""

    def as_row(self) -> dict[str, str]:
        """As a terminal shows it, where nobody needs the fix in a column of its own."""
        found = f"{self.found}: {self.fix}" if self.fix else self.found
        return {"state": self.state, "check": self.check, "found": found}
