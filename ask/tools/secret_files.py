"""The names of files that may contain secrets, which safe mode hides and no run sends as instructions."""

from __future__ import annotations


def can_contain_secrets(name: str) -> bool:
    """Check whether a name, in lower case, is one for files with secrets."""
    return name.startswith(".env") or name.endswith(".env")
