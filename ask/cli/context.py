"""`ask context`: the projects whose instructions the user has allowed or declined to send."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, CommandGroup, print_text
from ask.config.directories import get_working_directory
from ask.errors import UsageError
from ask.project.instruction_changes import InstructionSearch, TrustMarks
from ask.project.instructions import find_project_root
from ask.project.trust_decisions import TrustStore
from ask.render.amounts import format_since
from ask.render.table import write_table
from ask.text import decode_argument


@click.group("context", cls=CommandGroup)
def command() -> None:
    """List or forget the projects whose instructions are sent. Without a command, list them."""


@command.command("list", short_help="List the projects that you were asked about.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the projects that you were asked about, and whether their AGENTS.md and skills are sent.

    "changed" means that a run in safe mode may have changed them, so that you are asked again.
    """
    app = AppContext()
    names = app.read_settings().context_files
    marks = TrustMarks(app.app_dirs.trust_marks)
    rows = []
    for root, decision in TrustStore(app.app_dirs.trust_file).read().items():
        is_changed = decision.trusted and bool(marks.find_changes(root, _find_folders(root, names), names))
        trusted = "changed" if is_changed else "yes" if decision.trusted else "no"
        rows.append(
            {
                "project": decode_argument(str(root)),
                "trusted": decision.trusted if as_json else trusted,
                **({"changed": is_changed} if as_json else {}),
                "since": format_since(decision.time, as_json=as_json),
            }
        )
    write_table(
        rows,
        as_json=as_json,
        empty="no projects; ask asks about one with an AGENTS.md or skills, and ask context trust trusts it",
        optional=("since",),
    )


def _find_folders(root: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of a project that have instructions. They are searched for only when they are needed."""
    paths = InstructionSearch(root, names).search_project().paths
    yield root
    yield from {folder for path in paths for folder in path.parents if folder.is_relative_to(root)} - {root}


@command.command("trust", short_help="Trust a project with its current instructions.")
@click.argument("folder", metavar="[FOLDER]", required=False)
def trust_command(*, folder: str | None) -> None:
    """Send the instructions and skills of the project in FOLDER, by default this one, from now on.

    This also accepts what a run in safe mode has changed in them.
    """
    app, directory = AppContext(), Path(os.path.expanduser(folder)) if folder else get_working_directory()
    if not directory.is_dir():
        raise UsageError(f"there is no folder {decode_argument(str(directory))}", "pass the project's folder")
    root = find_project_root(directory)
    settings = app.read_settings()
    TrustMarks(app.app_dirs.trust_marks).accept(root, settings.context_files)
    TrustStore(app.app_dirs.trust_file).remember(root, trusted=True)
    print_text(f"The instructions in {decode_argument(str(root))} will be sent.")


@command.command("forget", short_help="Forget a project, so that ask asks again.")
@click.argument("folder", metavar="[FOLDER]", required=False)
def forget_command(*, folder: str | None) -> None:
    """Forget your decision about the project in FOLDER, by default this one. The next run asks again."""
    # A project that no longer exists is found by its path alone.
    root = find_project_root(Path(os.path.expanduser(folder)) if folder else get_working_directory())
    store = TrustStore(AppContext().app_dirs.trust_file)
    if not store.forget(root):
        raise UsageError(f"no decision is saved for {decode_argument(str(root))}", "ask context list shows all")
    print_text(f"Forgot the decision about {decode_argument(str(root))}.")
