"""Write the files that are generated from the code, or with `--check` list those that are out of date.

`make generated` and `make lint` run this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ask.safety.seccomp import generate_filters
from tests import (
    attachment_table,
    completion_scripts,
    manual,
    model_table,
    plugin_reference,
    provider_table,
    session_picture,
)


def generate_files() -> dict[Path, bytes]:
    """Return the content of all generated files, by path."""
    modules = (
        completion_scripts,
        manual,
        provider_table,
        plugin_reference,
        attachment_table,
        model_table,
        session_picture,
    )
    texts = {path: text.encode() for module in modules for path, text in module.generate().items()}
    return {**texts, **generate_filters()}


def main() -> None:
    outdated = {path: content for path, content in generate_files().items() if path.read_bytes() != content}
    if "--check" in sys.argv[1:]:
        if outdated:
            sys.exit(f"out of date: {', '.join(path.name for path in outdated)}; make generated writes them")
        return
    for path, content in outdated.items():
        path.write_bytes(content)
        sys.stderr.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
