"""The tools that come with `ask`."""

from __future__ import annotations

from ask.tools.base import Tool


def list_builtin_tools() -> list[Tool]:
    """The tools that come with `ask`, in the order in which they are offered."""
    from ask.tools.fetch_url import FETCH_URL
    from ask.tools.files import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
    from ask.tools.shell import BASH

    return [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR, BASH, FETCH_URL]
