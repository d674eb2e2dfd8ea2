"""A cost: reported, estimated, or unknown."""

from __future__ import annotations

from typing import Any

from ask.records import COST_DECIMALS, NamedTuple


class Cost(NamedTuple):
    """A cost in US dollars.

    Attributes:
        dollars: the known part of the cost; None if nothing is known.
        sources: "reported", "local", or where the prices of an estimate come from: "genai-prices", "provider" (its
            models list), "openrouter" or "built-in" (the price of decisions).
        is_complete: whether the cost of all requests is known.
    """

    dollars: float | None = None
    sources: frozenset[str] = frozenset()
    is_complete: bool = True

    @classmethod
    def from_report(cls, dollars: float) -> Cost:
        """Return a cost that the provider reported."""
        return cls(dollars, frozenset({"reported"}))

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        known = [cost.dollars for cost in (self, other) if cost.dollars is not None]
        dollars = round(sum(known), COST_DECIMALS) if known else None
        return Cost(dollars, self.sources | other.sources, self.is_complete and other.is_complete)

    @property
    def is_estimated(self) -> bool:
        return bool(self.sources - {"reported", "local"})

    @property
    def source(self) -> str | None:
        """The source, "mixed" for several, None for an unknown cost."""
        return "mixed" if len(self.sources) > 1 else next(iter(self.sources), None)

    def to_dict(self) -> dict[str, Any]:
        return {"cost": self.dollars, "cost_source": self.source, "cost_complete": self.is_complete}


UNKNOWN_COST = Cost(is_complete=False)
