"""Recorded answers of real providers, where they lie beside the checkout; they are no part of it.

Tests over them are empty where there are none, except where `CI` is set.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "shared" / "recordings"


@dataclass(frozen=True)
class Recording:
    """One exchange, and what its answer says as other code read it.

    Attributes:
        name: provider and number, for a test's id.
        wire: "openai-chat", "anthropic", "ollama" or "gemini".
        streaming: whether the body is a stream.
        piece_sizes: the sizes in bytes in which the body arrived; () where that is not known.
        calls: name and arguments of each call; arguments parsed where they are JSON, else their text.
        outcome: "ok", "length", "filter", "error", "empty" or "cut".
    """

    name: str
    wire: str
    model: str
    status: int
    streaming: bool
    content_type: str
    body: bytes
    piece_sizes: tuple[int, ...]
    request_body: Any
    text: str
    calls: tuple[tuple[str, Any], ...]
    outcome: str

    def __str__(self) -> str:
        return self.name


def recordings(provider: str, wire: str = "") -> list[Recording]:
    """A provider's recordings, all or those of one wire.

    Raises:
        FileNotFoundError: there are none, though `CI` is set.
    """
    files = sorted((FOLDER / provider).glob("*.json"))
    if not files and os.environ.get("CI"):
        raise FileNotFoundError(f"no recordings of {provider} in {FOLDER}")
    found = [load(path) for path in files]
    return [recording for recording in found if wire in ("", recording.wire)]


def load(path: Path) -> Recording:
    """One recording."""
    exchange = json.loads(path.read_text(encoding="utf-8"))
    said = exchange["says"]
    return Recording(
        name=f"{path.parent.name}-{path.stem}",
        wire=exchange["wire"],
        model=exchange["model"] or "",
        status=exchange["status"],
        streaming=exchange["streaming"],
        content_type=exchange["response_content_type"] or "",
        body=exchange["response_body"].encode(),
        piece_sizes=tuple(exchange["chunk_lengths"] or ()),
        request_body=exchange["request_body"],
        text=said["text"],
        calls=tuple((call["name"], call["arguments"]) for call in said["calls"]),
        outcome=said["outcome"],
    )
