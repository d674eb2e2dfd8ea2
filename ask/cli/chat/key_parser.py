"""The parser of keys: keys that are encoded in newer forms, and reports of the terminal, which are not text.

prompt_toolkit inserts sequences that it does not know as text. They come from a terminal that reports its focus or
answers another program late, and from keys in the forms that tmux, kitty and xterm use on request. `ask` does not
request them: Ctrl-C would not be a signal any more (https://github.com/NousResearch/hermes-agent/pull/87074).
"""

from __future__ import annotations

import re

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser

PASTE_START = "\x1b[200~"
"""The start of pasted text, with bracketed paste enabled."""
SEQUENCE_PATTERN = re.compile(
    r"\x1b(?:"
    r"\[\[[A-E]|\[M[\s\S]{3}|\[(?![\[M])[0-?]*[ -/]*[@-~]"  # CSI; before it, function keys of Linux, and mouse events
    r"|\]\d[^\x07\x1b]*(?:\x07|\x1b\\)|P[\d>!][^\x1b]*\x1b\\|_G[^\x1b]*\x1b\\"  # OSC, DCS, APC
    r")"
)
"""A complete escape sequence."""
INCOMPLETE_PATTERN = re.compile(
    r"\x1b(?:\[(?:\[|M[\s\S]{0,2}|[0-?]*[ -/]*)|\]\d[^\x07\x1b]*\x1b?|[P_]|P[\d>!][^\x1b]*\x1b?|_G[^\x1b]*\x1b?|\])?\Z"
)
"""The beginning of an escape sequence at the end of the input; a single Escape is one, too."""
REPLY_PATTERN = re.compile(r"\x1b(?:\]\d|P[\d>!]|_G)")
"""The beginning of a reply to a query of the terminal, which no key sends."""
KEY_PATTERN = re.compile(
    r"\x1b\[(?:27;(?P<modifiers>\d{1,4});(?P<code>\d{1,7})~"
    r"|(?P<u_code>\d{1,7})(?::[\d:]*)?(?:;(?P<u_modifiers>\d{0,4})(?::(?P<event>\d))?(?:;[\d:]*)?)?u)"
)
"""A key in the form of modifyOtherKeys, or of CSI u, to which kitty adds other codes, the event and the text."""
SHIFT, ALT, CTRL = 1, 2, 4
"""Bits of the modifiers, which are sent plus 1 (https://sw.kovidgoyal.net/kitty/keyboard-protocol/#modifiers)."""
KEYPAD_ENTER = 57414
"""A code that kitty assigns: in Unicode, those from 0xE000 to 0xF8FF are for private use."""
RELEASED = "3"
"""The event type for the release of a key."""


class KeyParser(Vt100Parser):
    """Parses keys, and drops reports of the terminal."""

    _incomplete = ""
    _is_late = False
    """Whether the rest of an incomplete sequence did not arrive at once."""

    def feed(self, data: str) -> None:
        """Parse the input read so far; a sequence that is not complete waits for the rest."""
        if self._in_bracketed_paste:
            super().feed(data)
            return
        # A reply may arrive in two parts; if the second is lost, it must not swallow what is typed.
        if not self._is_late or "\x1b\\" in data or "\x07" in data:
            data = self._incomplete + data
        self._incomplete, self._is_late = "", False
        position = 0
        for match in SEQUENCE_PATTERN.finditer(data):
            super().feed(data[position : match.start()])
            position = match.end()
            if match[0] == PASTE_START:
                super().feed(match[0])
                self.feed(data[position:])
                return
            super().feed(_decode_sequence(match[0]))
        rest = data[position:]
        if incomplete := INCOMPLETE_PATTERN.search(rest):
            self._incomplete, rest = incomplete[0], rest[: incomplete.start()]
        super().feed(rest)

    def flush(self) -> None:
        """Parse a sequence that stays incomplete as keys: Escape, or Alt with another key."""
        self._is_late = bool(REPLY_PATTERN.match(self._incomplete))
        if not self._is_late:
            incomplete, self._incomplete = self._incomplete, ""
            super().feed(incomplete)
        super().flush()


def _decode_sequence(sequence: str) -> str:
    """Convert a sequence to one that prompt_toolkit knows; "" if it is not a key."""
    key = KEY_PATTERN.fullmatch(sequence)
    if key is None:
        return sequence if sequence in ANSI_SEQUENCES else ""
    if key["event"] == RELEASED:
        return ""
    return _decode_key(int(key["code"] or key["u_code"]), int(key["modifiers"] or key["u_modifiers"] or 1) - 1)


def _decode_key(code: int, modifiers: int) -> str:
    """Return the older form of a key that is pressed together with modifiers."""
    if code in (ord("\r"), KEYPAD_ENTER):
        return "\x1b\r" if modifiers & (SHIFT | ALT | CTRL) else "\r"
    if code == ord("\t"):
        return "\x1b[Z" if modifiers & SHIFT else "\t"
    if code in (0x1B, 0x7F):
        return chr(code)
    if not 0x20 <= code < 0xE000 or (modifiers & CTRL and not 0x40 <= code < 0x7F):
        return ""  # a key without a character, or without a control character
    text = chr(code)
    if modifiers & CTRL:
        text = chr(code & 0x1F)
    elif modifiers & SHIFT:
        text = text.upper()
    return "\x1b" + text if modifiers & ALT else text
