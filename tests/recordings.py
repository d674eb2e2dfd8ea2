"""Recorded responses of real providers, stored next to the checkout and not part of it.

If their folder is missing, as for a public clone, the tests that use them are skipped.
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
    # Reasoning in the text, before a closing tag with or without an opening one, was counted as text.
    "lmstudio-002": {"text": '"Hello! Have a day as bright and cheerful as the morning sun!" 🌞'},
    "lmstudio-003": {"text": '"Hi there! Have a wonderful day! 🌞 😊"'},
    "ollama-001": {"text": ""},
    "ollama-002": {"text": "The result of adding 2 and 3 is 5."},
    "ollama-008": {"text": "banana banana banana"},
    "ollama-009": {"text": ""},
}
"""Corrections of recordings whose metadata is wrong."""
SECOND_PARAGRAPHS = {"openai-responses-006": "Here are some **latest AI updates", "anthropic-014": "**Game Over!**"}
"""The beginning of a second message, or of the text after a server's tool, before which the metadata has no space."""


@dataclass(frozen=True)
class Recording:
    """A recorded response, with its content as parsed by independent code.

    Attributes:
        name: Provider and number, used as the id of a test.
        provider: The service that answered.
        wire: "openai-chat", "openai-responses", "anthropic", "ollama" or "gemini".
        streaming: Whether the body is a stream.
        piece_sizes: The sizes in bytes of the received chunks; () if unknown.
        calls: Name and arguments of each call; arguments are parsed if they are JSON, else text.
        outcome: "ok", "length", "filter", "error", "empty" or "cut".
    """

    name: str
    provider: str
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
    """Return the recordings of a provider, or of one of its wire formats; none if the folder is missing.

    Raises FileNotFoundError if the folder exists but has no recordings of this provider.
    """
    files = sorted((FOLDER / provider).glob("*.json"))
    if not files and FOLDER.is_dir():
        raise FileNotFoundError(f"no recordings of {provider} in {FOLDER}")
    found = [load(path) for path in files]
    return [recording for recording in found if wire in ("", recording.wire)]


def load(path: Path) -> Recording:
    exchange = json.loads(path.read_text(encoding="utf-8"))
    content = exchange["says"]
    name = f"{path.parent.name}-{path.stem}"
    paragraph = SECOND_PARAGRAPHS.get(name, "")
    recording = Recording(
        name=name,
        provider=exchange["provider"],
        wire=exchange["wire"],
        model=exchange["model"] or "",
        status=exchange["status"],
        streaming=exchange["streaming"],
        content_type=exchange["response_content_type"] or "",
        body=exchange["response_body"].encode(),
        piece_sizes=tuple(exchange["chunk_lengths"] or ()),
        request_body=exchange["request_body"],
        text=content["text"].replace(paragraph, f"\n\n{paragraph}") if paragraph else content["text"],
        calls=tuple((call["name"], call["arguments"]) for call in content["calls"]),
        outcome=content["outcome"],
    )
    return replace(recording, **CORRECTIONS.get(recording.name, {}))
