"""`ask import`: conversations, templates, aliases, the default model and keys of llm and aichat."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import print_text, subcommand
from ask.console import StderrConsole
from ask.errors import FileError
from ask.history.importer import AddedConversations
from ask.imports.aichat import find_aichat_folder, read_aichat_data
from ask.imports.data_import import AddedData, DataImport
from ask.imports.llm import find_llm_folder, read_llm_data
from ask.imports.source_data import ImportNotes, SourceData, SourceFolder
from ask.records import NamedTuple
from ask.render.amounts import format_count
from ask.safety.approval import confirm
from ask.text import decode_argument, format_one_line, join_names


class Program(NamedTuple):
    """A program whose data can be imported."""

    find_folder: Callable[[Mapping[str, str]], Path]
    read_data: Callable[[SourceFolder], SourceData]
    files: Sequence[str]
    """Files and folders of which its folder has at least one."""


PROGRAMS = {
    "llm": Program(
        find_llm_folder,
        read_llm_data,
        ("logs.db", "templates", "keys.json", "aliases.json", "default_model.txt"),
    ),
    "aichat": Program(
        find_aichat_folder, read_aichat_data, ("config.yaml", "sessions", "roles", "messages.md", "agents")
    ),
}
MAX_LISTED = 20
MAX_NAMES = 10


@subcommand("import")
@click.argument("program", metavar="PROGRAM", type=click.Choice([*PROGRAMS]))
@click.argument("folder", metavar="[FOLDER]", required=False)
@click.option("--keys/--no-keys", "with_keys", default=None, help="Import API keys, or not, without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, program: str, folder: str | None, with_keys: bool | None, as_json: bool) -> None:
    """Import the data of another program: llm or aichat.

    These are conversations, templates or roles, aliases, the default model and, if you agree, API keys. What you
    already have is not replaced. Run it again to import what is new; the program's own files are only read.

    FOLDER is the program's folder, if it is not the usual one. ask history import reads the exports of ask.
    """
    app, notes = AppContext(), ImportNotes()
    find_folder, read_data, files = PROGRAMS[program]
    path = Path(folder) if folder else find_folder(app.environment)
    if not any((path / name).exists() for name in files):
        reason = f"there is no data of {program} in {decode_argument(str(path))!r}"
        raise FileError(reason, f"pass its folder: ask import {program} FOLDER")
    ignored_keys: list[str] = []

    def confirm_keys(providers: Sequence[str]) -> bool:
        answer = with_keys
        if answer is None:
            answer = confirm(f"Import the API keys for {', '.join(providers)}?")
        if not answer:
            ignored_keys.extend(providers)
        return bool(answer)

    data = read_data(SourceFolder(path, app, notes, is_foreign=bool(folder)))
    data_import = DataImport(app, program, notes, confirm_keys)
    added = data_import.add_data(data)
    if ignored_keys:
        notes.add(f"keys for {', '.join(ignored_keys)}: ask import {program} --keys imports them")
    try:
        with closing(data.conversations):
            data_import.add_conversations(data.conversations)
    except KeyboardInterrupt:
        _print_summary(app.console, data_import.added_conversations, added)
        raise
    if as_json:
        value = {"conversations": data_import.added_conversations._asdict(), **added._asdict()}
        value |= {"not_imported": notes.lines, "problems": notes.problems}
        print_text(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        _print_summary(app.console, data_import.added_conversations, added)
        _print_list(app.console, "Kept, because you already have it:", added.kept)
        _print_list(app.console, "Not imported, or changed:", notes.lines)
        _print_list(app.console, "Could not be imported:", notes.problems)
    if notes.problems:
        raise FileError(f"{format_count(len(notes.problems), 'part')} of the data could not be imported")


def _print_summary(console: StderrConsole, conversations: AddedConversations, added: AddedData) -> None:
    counts = [f"{conversations.new:,} new"]
    counts += [f"{conversations.continued:,} continued"] * bool(conversations.continued)
    counts += [f"{conversations.present:,} already imported"] * bool(conversations.present)
    rows = {
        "Conversations": ", ".join(counts),
        "Templates": join_names(added.templates, MAX_NAMES),
        "Aliases": join_names([*added.aliases], MAX_NAMES),
        "Default model": added.default_model,
        "Keys": join_names(added.keys, MAX_NAMES),
    }
    for title, text in rows.items():
        if text:
            console.print_line(f"{title}: {format_one_line(text)}")


def _print_list(console: StderrConsole, title: str, lines: Sequence[str]) -> None:
    if lines:
        console.print_line(title)
    for line in lines[:MAX_LISTED]:
        console.print_line(f"  {format_one_line(line)}")
    if len(lines) > MAX_LISTED:
        console.print_line(f"  and {len(lines) - MAX_LISTED} more; --json lists all")
