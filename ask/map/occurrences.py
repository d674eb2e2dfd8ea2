"""Counts identical rows, without keeping the rows in memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

START_SLOTS = 1 << 12


class OccurrenceCounter:
    """Counts how often each digest occurs.

    A hash table with linear probing: it takes 12 to 24 bytes for each digest, and a dictionary would take 130.
    Digests that begin with the same 8 bytes count as the same.
    """

    def __init__(self) -> None:
        self._slots = array("Q", [0]) * START_SLOTS
        """The numbers that the digests begin with; 0 in a free slot."""
        self._used_count = 0
        self._repeated: dict[int, int] = {}
        """The counts of the numbers that occurred more than once."""

    def count(self, digests: Sequence[bytes]) -> list[int]:
        """Count digests; return how often each of them has occurred before."""
        while 3 * (self._used_count + len(digests)) > 2 * len(self._slots):
            self._grow()
        slots, mask, repeated = self._slots, len(self._slots) - 1, self._repeated
        occurrences = []
        for digest in digests:
            number = int.from_bytes(digest[:8], "big") or 1
            slot = number & mask
            while (found := slots[slot]) and found != number:
                slot = (slot + 1) & mask
            if found:
                occurrence = repeated.get(number, 1)
                repeated[number] = occurrence + 1
            else:
                slots[slot] = number
                self._used_count += 1
                occurrence = 0
            occurrences.append(occurrence)
        return occurrences

    def _grow(self) -> None:
        """Double the number of slots."""
        slots = array("Q", [0]) * (2 * len(self._slots))
        mask = len(slots) - 1
        for number in filter(None, self._slots):
            slot = number & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number
        self._slots = slots
