"""How much is backed up for `ask undo`."""

from __future__ import annotations

MAX_BACKUP_BYTES = 100_000_000
"""The size in bytes up to which a single file is backed up, and compared by content instead of size and time."""
MAX_FILES = 20_000
"""The limit for the single files in a backup set, and for the files and for the folders in copied folders."""
MAX_TOTAL_BYTES = 256_000_000
"""The limit for the size of the single files in a backup set, and of copied folders."""
MAX_DEPTH = 100
"""The limit for nested folders; each of them is kept open during a walk."""
