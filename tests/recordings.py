"""Recorded answers of real providers, which lie beside the checkout and are no part of it.

Where their folder is missing, as beside a public clone, the tests over them are skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "shared" / "recordings"
ITEMS = [
    {"action": "add", "description": "Fresh red apple", "itemid": "apple_001", "price": 0.5},
    {"action": "add", "description": "Ripe yellow banana", "itemid": "banana_001", "price": 0.3},
]
CORRECTIONS: dict[str, dict[str, Any]] = {
    # The answers to several requests glued into one body, whose blocks were mixed up: a response is one message, so
    # all behind the first message_stop is of no concern.
    "anthropic-027": {
        "text": (
            "I'll help you with this task. Let me start by reading the note tree to see the current structure, "
            "and then search for the appropriate tools to add a bullet."
        ),
        "calls": (("readNoteTree", {"noteId": "d10aa585-982b-4bd9-984e-420f9b3717f7"}),),
    },
    "anthropic-028": {
        "text": "Great! I found a weather tool. Let me get the current weather data for San Francisco.",
    },
    # Calls whose arguments come in pieces: each piece was counted as a call of its own, without arguments.
    "gemini-028": {"calls": (("read_theme", {}), *(("read_screen", {"id": name}) for name in "ABC"))},
    "gemini-029": {"calls": (("writeItems", {"operations": ITEMS}),)},
}
"""What some recordings really say, where the code that read them for us was wrong."""


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
    """A provider's recordings, all or those of one wire; none where their folder is missing.

    Raises:
        FileNotFoundError: the folder has none of this provider.
    """
    files = sorted((FOLDER / provider).glob("*.json"))
    if not files and FOLDER.is_dir():
        raise FileNotFoundError(f"no recordings of {provider} in {FOLDER}")
    found = [load(path) for path in files]
    return [recording for recording in found if wire in ("", recording.wire)]


def load(path: Path) -> Recording:
    """One recording."""
    exchange = json.loads(path.read_text(encoding="utf-8"))
    said = exchange["says"]
    recording = Recording(
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
    return replace(recording, **CORRECTIONS.get(recording.name, {}))
