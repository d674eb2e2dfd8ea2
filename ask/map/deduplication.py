"""Rows with the same request as an earlier row: it is sent once, and each of them gets its answer."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from ask.map.job import DIGEST_BYTES, RowTask
from ask.map.ledger import Ledger, RowKey, RowResult

SAMPLING_PARAMETERS = {"temperature", "seed", "random_seed"}
"""Who sets one of these samples answers on purpose. Mistral calls the seed `random_seed`:
https://docs.mistral.ai/api/endpoint/chat"""
HELD_COPY_BYTES = 300
"""What a waiting row takes besides its columns."""


class WaitingCopies:
    """Keeps the rows that wait for the answer of another row.

    Attributes:
        held_bytes: the memory that they take.
    """

    def __init__(self) -> None:
        self._waiting: dict[RowKey, deque[bytes]] = {}
        """For each row that is being sent, those that wait for it, encoded because that takes less memory."""
        self.held_bytes = 0

    def begin(self, task: RowTask) -> None:
        """Note that a row is being sent."""
        self._waiting[task.key] = deque()

    def wait_for(self, original: RowKey, task: RowTask) -> bool:
        """Keep a row until the one with the same request is finished; return False if that is not being sent."""
        waiting = self._waiting.get(original)
        if waiting is None:
            return False
        encoded = pickle.dumps((task.position, task.columns, task.model_number, task.location, task.key))
        self.held_bytes += len(encoded) + HELD_COPY_BYTES
        waiting.append(encoded)
        return True

    def end(self, key: RowKey) -> Iterator[RowTask]:
        """Yield the rows that waited for a row that has finished."""
        waiting = self._waiting.pop(key, None)
        while waiting:
            encoded = waiting.popleft()
            self.held_bytes -= len(encoded) + HELD_COPY_BYTES
            position, columns, model_number, location, own_key = pickle.loads(encoded)  # noqa: S301 - encoded above
            yield RowTask(position, columns, model_number, location, key=own_key)


def find_original(task: RowTask, ledger: Ledger) -> RowKey:
    """Return the key of the first row with the same request, which is the task's own if there is no earlier one."""
    if not task.message.attachments:
        return RowKey(task.key.digest, 0)
    digest = blake2b(task.key.digest, digest_size=DIGEST_BYTES)
    for attachment in task.message.attachments:  # services get the name, too, and the key does not contain it
        digest.update(f"{attachment.name}\0{attachment.media_type}\0".encode("utf-8", "replace"))
    return ledger.find_first_row(digest.digest(), task.key)


def copy_result(result: RowResult) -> RowResult:
    """Return the result of a row for another one with the same request, which was not sent and cost nothing."""
    return RowResult(
        result.status, result.answer, result.finish_reason, error=result.error, citations=result.citations, tries=0
    )


def is_sampling(options: Mapping[str, Any]) -> bool:
    """Check whether model parameters ask for answers that differ, or for a certain one of them."""
    return any(
        name.rpartition(".")[2] in SAMPLING_PARAMETERS or (isinstance(value, Mapping) and is_sampling(value))
        for name, value in options.items()
    )
