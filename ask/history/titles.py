"""The titles of conversations."""

from __future__ import annotations

import re
from operator import attrgetter

from ask.text import PromptPart, format_one_line, join_names, split_prompt

MAX_TITLE_CHARACTERS = 80
MAX_DIFF_CHARACTERS = 100_000
"""Characters of a diff that are searched for the names of its files."""
DIFF_FILE_PATTERN = r"^(?:diff --git .* b/|\+\+\+ b/)(.+)$"


def make_title(question: str, template_name: str = "", words: str = "") -> str:
    """Make the title of a conversation from its first question.

    It is the user's words, or else the name of the first file or the beginning of the piped text, of a diff the names
    of its files. The question of a template contains the template's text, so the words are passed separately.
    """
    parts = split_prompt(question) if "<file" in question or "<stdin>" in question else [PromptPart("", question)]
    block = next(filter(attrgetter("title"), parts), None)
    if not template_name:
        words = parts[0].text if parts and not parts[0].title else ""
    if words.strip() or block is None:
        subject = _describe_text(words)
    else:
        subject = _describe_text(block.text) if block.title == "stdin" else block.title
    return format_one_line(f"{template_name}: {subject}" if template_name else subject, MAX_TITLE_CHARACTERS)


def _describe_text(text: str) -> str:
    """Return the names of the files in a diff, or any other text unchanged."""
    if not text.lstrip().startswith(("diff --git ", "--- ")) and "\ndiff --git " not in text[:MAX_DIFF_CHARACTERS]:
        return text
    names = dict.fromkeys(re.findall(DIFF_FILE_PATTERN, text[:MAX_DIFF_CHARACTERS], re.MULTILINE))
    return join_names([*names], 1) if names else text
