"""The list of built-in tools that every run has."""

from __future__ import annotations

from ask.tools.base import Tool

READ_SKILL_NAME = "read_skill"
"""The tool that `ask.context.skills` creates where there are skills."""
FILE_TOOL_NAMES = frozenset({"read_file", "write_file", "edit_file", "list_dir"})
"""The tools that respect `ToolContext.confinement`."""


def list_builtin_tools() -> list[Tool]:
    """Return the built-in tools, in the order in which models see them."""
    from ask.tools.fetch_url import FETCH_URL
    from ask.tools.files import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
    from ask.tools.shell import BASH

    return [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR, BASH, FETCH_URL]
