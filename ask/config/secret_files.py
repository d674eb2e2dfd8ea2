"""The names of files and folders that may contain secrets, which safe mode hides and no run sends as instructions."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

_VIRTUAL_ENVIRONMENT_NAMES = frozenset(
    {"pyvenv.cfg", "bin", "etc", "include", "lib", "lib64", "man", "share", ".gitignore", ".lock", "CACHEDIR.TAG"}
)
_MAX_ENTRIES = 100
"""A virtual environment has about ten entries, so a longer list is that of another folder."""


_SECRET_NAME = re.compile(r"\.env|.*\.env(?:\.(?:bak|kate-swp|old|orig|save|sw[a-p]|un|~\d+))?[~#]?$", re.DOTALL)
"""`.env*`, `*.env`, and the copies of the latter that editors leave: `prod.env~`, `.prod.env.swp`, `#prod.env#`."""


def can_contain_secrets(name: str) -> bool:
    """Check whether a name, in lower case, is one for files with secrets."""
    return _SECRET_NAME.match(name) is not None


def is_virtual_environment(folder: Path) -> bool:
    """Check whether a folder has nothing but a virtual environment: a call can add `pyvenv.cfg` to any folder."""
    try:
        with os.scandir(folder) as entries:
            names = {entry.name for entry in islice(entries, _MAX_ENTRIES)}
    except OSError:
        return False
    unknown = (name for name in names - _VIRTUAL_ENVIRONMENT_NAMES if not can_contain_secrets(name.lower()))
    return "pyvenv.cfg" in names and len(names) < _MAX_ENTRIES and not any(unknown)
