"""A loader and a command: notes in the folder ~/notes, for `ask -f note:NAME`, `ask -t note:NAME` and `ask notes`.

pyproject.toml names the two functions as entry points; that is all the registration there is.
"""

import os
from pathlib import Path

import click

from ask import AskError, Attachment


def find_folder() -> Path:
    return Path(os.environ.get("NOTES", "~/notes")).expanduser()


def load_note(name: str) -> str | Attachment:
    """Return the note NAME, or the image or PDF NAME. `ask` calls this with what follows `note:`."""
    names = {path.name: path for path in find_folder().glob("*") if path.is_file()}
    path = names.get(name) or names.get(f"{name}.md")
    if path is None:
        raise AskError(f"there is no note {name!r}", "ask notes lists them")  # the user sees this as one line
    if path.suffix == ".md":
        return path.read_text()
    return Attachment(path.name, "", path.read_bytes())  # the content decides what it is


@click.command()
@click.option("--count", is_flag=True, help="Only print how many there are.")
def notes(count: bool) -> None:
    """List the notes."""
    folder = find_folder()
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}")
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    click.echo(len(names) if count else "\n".join(names))
