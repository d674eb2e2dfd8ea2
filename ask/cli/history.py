"""`ask history`: list, show, search, export, import and delete saved conversations."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ask.cli.click_helpers import (
    JSON_OPTION,
    TEXT,
    YES_OPTION,
    CommandGroup,
    parse_whole_number,
    print_notice,
    print_text,
    require_confirmation,
)
from ask.cli.commands import PATH
from ask.cli.output_file import STDOUT_NAME, check_document_name, write_output
from ask.config.directories import AppDirs, get_working_directory
from ask.console import STDOUT, StandardOutput, StderrConsole
from ask.errors import FileError, UsageError
from ask.history.conversation_lookup import find_conversation, find_newest_conversation
from ask.history.entries import Conversation, Run, generate_conversation_id, query_conversations, read_runs
from ask.history.listing import NO_LIMIT, ConversationOverview, list_conversations
from ask.history.store import Store
from ask.messages import Usage
from ask.render.amounts import format_count, format_dollars, format_timestamp
from ask.render.live_region import get_terminal_size
from ask.render.table import write_table
from ask.render.text_layout import truncate_text
from ask.text import decode_argument, format_age, format_one_line

if TYPE_CHECKING:
    from ask.history.importer import ImportResult


ID_PATTERN = re.compile(r"[0-9]+|[a-f][0-9a-f]{3,}")
"""The number of a conversation in the list, or the beginning of an ID."""


class HistoryGroup(CommandGroup):
    """Shows the conversation whose ID is given instead of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and ID_PATTERN.fullmatch(args[0]):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("history", cls=HistoryGroup)
def command() -> None:
    """List, search, export and delete conversations. Without a command, list them."""


@contextmanager
def _open_history(*, in_transaction: bool = True) -> Iterator[Store]:
    """Open the history for reading, by default in one transaction; it is empty if there is none."""
    history_file = AppDirs.from_environment(os.environ).history_file
    with Store(history_file, create=False) as store, store.read_transaction() if in_transaction else nullcontext():
        try:
            yield store
        finally:
            for note in store.notes:
                print_notice(note)


TERMINAL_LIST_LIMIT = 20
"""Default number of conversations that are listed on a terminal."""
MIN_MODEL_WIDTH = 12


@command.command("list", short_help="List conversations, newest first.")
@click.option("-n", "--limit", metavar="N", type=parse_whole_number(0), help="List the newest N; 0 lists all.")
@click.option("--here", is_flag=True, help="List only conversations from this folder.")
@JSON_OPTION
def list_command(*, limit: int | None, here: bool, as_json: bool) -> None:
    """List conversations, newest first: the newest 20 on a terminal, all of them in a pipe.

    To select a conversation, use its number, its id, or the unique beginning of its id; for --resume, show and export,
    also words of its title.
    """
    is_terminal = StandardOutput().is_terminal
    max_count = _select_limit(limit, is_terminal=is_terminal, as_json=as_json)
    directory = decode_argument(str(get_working_directory())) if here else ""
    with _open_history() as store:
        row_limit = max_count + 1 if max_count else NO_LIMIT
        overviews = list_conversations(store, row_limit, directory, include_details=as_json)
    listed = overviews[: max_count or None]
    to_row = _to_overview_dict if as_json else partial(to_overview_row, is_terminal=is_terminal)
    write_table(
        [to_row(overview) for overview in listed],
        as_json=as_json,
        empty="no conversations from this folder; ask history lists all" if here else "no saved conversations",
        optional=("rounds", "cost", "model", "age"),
    )
    if limit is None and len(overviews) > len(listed):
        _print_limit()


def _select_limit(limit: int | None, *, is_terminal: bool, as_json: bool) -> int:
    """Return the number of rows to show, 0 for all: by default, a terminal gets the newest, and a program all."""
    return limit if limit is not None else TERMINAL_LIST_LIMIT if is_terminal and not as_json else 0


def _print_limit() -> None:
    console = StderrConsole(os.environ, quiet=False, plain=False)
    console.print_dim(f"· the newest {TERMINAL_LIST_LIMIT}; -n 0 lists all\n")


def _to_overview_dict(overview: ConversationOverview) -> dict[str, Any]:
    """Convert an overview with all details to a dict for JSON; times are in ISO 8601."""
    fields = overview._asdict()
    names = ("id", "title", "created", "updated", "directory", "provider", "model", "runs", "rounds")
    return {
        "number": overview.position,
        **{name: fields[name] for name in names},
        "created": format_timestamp(overview.created),
        "updated": format_timestamp(overview.updated),
        "usage": {name: fields[name] for name in Usage._fields},
    }


def to_overview_row(overview: ConversationOverview, *, is_terminal: bool) -> dict[str, Any]:
    """Convert an overview to a table row.

    On a terminal, provider and vendor are left out of a long model name, which leaves more columns for the title.
    """
    row: dict[str, Any] = {
        "n": overview.position,
        "id": overview.id,
        "title": overview.title,
        "age": format_timestamp(overview.updated),
        "model": format_one_line(f"{overview.provider}:{overview.model}".removeprefix(":")),
        "rounds": overview.rounds,
        "cost": overview.cost,
    }
    if is_terminal:
        from shutil import get_terminal_size  # slow to load, and only needed for a terminal

        width = max(MIN_MODEL_WIDTH, get_terminal_size().columns // 5)
        model = row["model"] if len(row["model"]) <= width else overview.model.rpartition("/")[2]
        row["model"] = truncate_text(model, width)
        row |= {"age": format_age(overview.updated, time.time()), "cost": format_dollars(overview.cost)}
    return row


@command.command("show", short_help="Show a conversation.")
@click.argument("conversation_id", metavar="[ID]", type=TEXT, required=False)
@click.option("-n", "--last", metavar="N", type=parse_whole_number(1), help="Show the last N runs.")
@click.option("--tools", is_flag=True, help="Show full tool arguments and results.")
@click.option("--json", "as_json", is_flag=True, help="Print the conversation as JSON, in the export format.")
def show_command(*, conversation_id: str | None, last: int | None, tools: bool, as_json: bool) -> None:
    """Show a conversation, by default the newest.

    ID is an id, its unique beginning, a number from the list, or words of the title.
    """
    from ask.cli.pager import page_output
    from ask.export.conversation_text import TranscriptWriter
    from ask.history.export_format import ConversationExport, to_json_value

    with _open_history() as store:
        if conversation_id is None:
            conversation = find_newest_conversation(store)
        else:
            conversation = find_conversation(store, conversation_id, by_title=True)
        runs = read_runs(store, conversation)
    runs = runs[-last:] if last else runs
    if as_json:
        value = to_json_value(ConversationExport(conversation, runs))
        print_text(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        width = get_terminal_size(STDOUT).columns  # before standard output is a pipe to the pager
        with page_output(os.environ) as output:
            TranscriptWriter(output, width, show_tool_details=tools).write_runs(runs)


@command.command("search", short_help="Search all conversations.")
@click.argument("words", type=TEXT, nargs=-1, required=True)
@click.option("-n", "--limit", metavar="N", type=parse_whole_number(0), help="Show the newest N; 0 shows all.")
@JSON_OPTION
def search_command(*, words: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Find conversations with a message that contains all WORDS: the newest 20 on a terminal, all of them in a pipe.

    Case and accents are ignored. "Several words" in quotes are a phrase, word* matches all words that start with it,
    and *word* all that contain it. Chinese, Japanese, Korean, Thai and emoji are found anywhere. The arguments and
    results of tools are searched, too.
    """
    from ask.history.search import parse_query, search_conversations
    from ask.render.search_results import to_hit_row, write_hit

    output = StandardOutput(os.environ)
    query = parse_query(words)
    if not query.phrases and not query.fragments:
        raise UsageError("a search needs at least one letter, digit or emoji", "see ask history search --help")
    max_count = _select_limit(limit, is_terminal=output.is_terminal, as_json=as_json)
    with _open_history() as store:
        hits = search_conversations(store, words, max_count + 1 if max_count else NO_LIMIT)
    shown = hits[: max_count or None]
    if as_json or not output.is_terminal:
        write_table([to_hit_row(hit) for hit in shown], as_json=as_json)
    else:
        for hit in shown:
            write_hit(output, hit)
    if limit is None and len(hits) > len(shown):
        _print_limit()
    if not hits:
        word = next((text for text, star in query.phrases if not star and text.isalnum()), "")
        print_notice("no matches" + (f"; '*{word}*' also finds parts of words" if word and output.is_terminal else ""))


FORMATS = ("md", "json", "html")
FORMATS_BY_SUFFIX = {".json": "json", ".jsonl": "json", ".html": "html", ".htm": "html"}
"""Formats by the suffix of the output file; others are Markdown."""
STDIN_NAME = "-"


@command.command("export", short_help="Export conversations as Markdown, JSON or HTML.")
@click.argument("ids", metavar="[ID]...", type=TEXT, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Export all conversations, oldest first.")
@click.option(
    "--format", "format_name", type=click.Choice(FORMATS), help="Output format (default: by the file name, or md)."
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option(
    "-o", "--output", metavar="FILE", type=PATH, default=STDOUT_NAME, help="Write to this file, replacing it."
)
def export_command(
    *, ids: tuple[str, ...], everything: bool, format_name: str | None, as_json: bool, output: str
) -> None:
    """Export conversations, by default the newest. ID is the same as for --resume.

    JSON has one line for each conversation, with all details; ask history import reads it. HTML is a single page
    that needs no network and no scripts.
    """
    if ids and everything:
        raise UsageError("--all and an ID cannot be combined", "use one of them")
    if as_json and format_name not in (None, "json"):
        raise UsageError(f"--json and --format {format_name} cannot be combined", "use one of them")
    export_conversations(ids, output, "json" if as_json else format_name or "", everything=everything)


def export_conversations(ids: Iterable[str], output: str, format_name: str = "", *, everything: bool = False) -> None:
    """Write conversations to a file, or to standard output for "-". Each is read only when it is reached.

    `ids` are given as --resume takes them; none means the newest. `format_name` is "md", "json", "html", or "" to
    choose it by the suffix of `output`.

    Raises:
        UsageError: there is no such conversation, or none at all, or the name of the file is that of another format.
        FileError: a file cannot be read or written.
    """
    if not format_name:
        check_document_name(output, ".md, .json or .html")
    format_name = format_name or FORMATS_BY_SUFFIX.get(Path(output).suffix.lower(), "md")
    # Without a write-ahead log, nothing can be saved during a transaction, and a pager may wait for its user.
    with _open_history(in_transaction=False) as store:
        with store.read_transaction():
            if everything:
                conversations = query_conversations(store, "ORDER BY number")
            elif ids:
                conversations = list(dict.fromkeys(find_conversation(store, wanted, by_title=True) for wanted in ids))
            else:
                conversations = [find_newest_conversation(store)]
        unreadable: list[FileError] = []
        write_output(output, _format_export(format_name, store, conversations, unreadable))
        for error in unreadable:
            print_notice(error.message)
    if unreadable:
        raise FileError(f"{format_count(len(unreadable), 'conversation')} could not be exported")


def _format_export(
    format_name: str, store: Store, conversations: list[Conversation], unreadable: list[FileError]
) -> Iterator[str]:
    """Return the chunks of an export.

    Of several conversations, those that cannot be read are exported without messages, in JSON not at all; the reasons
    are added to `unreadable`.
    """
    from ask.export.conversation_html import render_conversation_html
    from ask.export.conversation_markdown import render_conversation_markdown
    from ask.history.export_format import ConversationExport, to_json_line

    def read(conversation: Conversation) -> list[Run]:
        try:
            with store.read_transaction():
                return read_runs(store, conversation)
        except FileError as error:
            if len(conversations) == 1:
                raise
            if query_conversations(store, "WHERE number = ?", conversation.number):  # it has not been deleted meanwhile
                unreadable.append(error)
            return []

    if format_name == "json":
        exports = (ConversationExport(conversation, read(conversation)) for conversation in conversations)
        return (to_json_line(export) for export in exports if export.runs)
    render = render_conversation_html if format_name == "html" else render_conversation_markdown
    return render(conversations, read)


@command.command("import", short_help="Import conversations from a JSON file.")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--as-new", is_flag=True, help="Import a conversation under a new id if its id is taken.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of results.")
def import_command(*, files: tuple[str, ...], as_new: bool, as_json: bool) -> None:
    """Import conversations from FILE, a folder of files, or standard input.

    A file is an export, or a JSON array of messages with role and content, such as shell_gpt's for a chat.
    Conversations that are already saved are skipped, those that were continued elsewhere get the further messages, and
    those that cannot be read are left out. If another conversation has the same id, nothing is imported.
    """
    from ask.history.importer import import_conversations
    from ask.imports.history_files import add_chats, open_import_files, read_import_files

    if (STDIN_NAME in files or not files) and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no file given", "pass a file written by ask history export --json")
    with ExitStack() as cleanup:
        problems: list[FileError] = []
        exports, chats, notes = open_import_files(files or (STDIN_NAME,), cleanup, problems)
        count = len(chats) + sum(1 for _ in read_import_files(exports, problems))
        if problems and not count:
            raise problems[0]  # nothing is created or locked for an invalid file
        with Store(AppDirs.from_environment(os.environ).history_file) as store:
            generate_id = generate_conversation_id if as_new else None
            results = import_conversations(store, read_import_files(exports, []), generate_id)
            results += add_chats(store, chats)
    _print_import_results(results, as_json=as_json)
    for notice in (*notes, *map(str, problems[:MAX_LISTED])):
        print_notice(notice)
    if problems:
        raise FileError(f"{format_count(len(problems), 'conversation')} could not be imported")


def _print_import_results(results: Sequence[ImportResult], *, as_json: bool) -> None:
    """Print what was done with each conversation."""
    from ask.history.importer import ImportStatus

    if as_json:
        write_table([result._asdict() for result in results], as_json=True)
        return
    for result in results:
        if result.status is ImportStatus.RENAMED:
            click.echo(
                f"{result.id} is already used by another conversation; imported as {result.imported_id}.", err=True
            )
    present_count = sum(result.status is ImportStatus.ALREADY_PRESENT for result in results)
    continued_count = sum(result.status is ImportStatus.CONTINUED for result in results)
    imported_count = len(results) - present_count - continued_count
    if imported_count or not (present_count or continued_count):
        click.echo(f"Imported {format_count(imported_count, 'conversation')}.", err=True)
    if continued_count:
        click.echo(f"Continued {format_count(continued_count, 'conversation')}.", err=True)
    if present_count:
        click.echo(f"Skipped {format_count(present_count, 'conversation')}, already imported.", err=True)


MAX_LISTED = 10
"""Maximum number of conversations that are listed before the confirmation."""


def _parse_age(text: str) -> float:
    """Parse an age such as 30d into seconds, in the units in which lists show ages.

    "m" is rejected: 6m beside 1y could mean months, and deletions cannot be undone.

    Raises:
        click.BadParameter: the text is not an age.
    """
    from ask.config.settings import convert_to_seconds

    if re.fullmatch("[0-9]+m", text):
        raise click.BadParameter(f"{text!r} could be minutes or months; write {text}in or {text}o")
    if not re.fullmatch(r"[0-9]{1,6}(?:min|h|d|w|mo|y)", text):
        raise click.BadParameter(f"must be a duration such as 12h, 30d, 6mo or 1y, not {text!r}")
    return convert_to_seconds(text)


@command.command("delete", short_help="Delete conversations.")
@click.argument("ids", metavar="[ID]...", type=TEXT, nargs=-1)
@click.option(
    "--older-than", metavar="AGE", type=_parse_age, help="Delete conversations unused for this long: 12h, 30d, 6mo, 1y."
)
@YES_OPTION
@JSON_OPTION
def delete_command(*, ids: tuple[str, ...], older_than: float | None, yes: bool, as_json: bool) -> None:
    """Delete conversations permanently. On a terminal, it asks first.

    ID is an id, its unique beginning, or a number from the list. Files written by tools, the log of tool calls, and
    the messages that chats remember for the Up key are kept.
    """
    from ask.history.deletion import delete_conversations, find_unused_conversations
    from ask.undo.retention import delete_conversation_files

    if not ids and older_than is None:
        raise UsageError("no conversation given", "use ask history delete ID, or --older-than AGE")
    app_dirs, console = AppDirs.from_environment(os.environ), StderrConsole(os.environ, quiet=False, plain=False)
    with Store(app_dirs.history_file, create=False) as store:
        with store.read_transaction():
            conversations = [find_conversation(store, wanted) for wanted in ids]
            if older_than is not None:
                conversations += find_unused_conversations(store, time.time() - older_than)
            conversations = list(dict.fromkeys(conversations))
        if conversations:
            if not yes:
                _confirm_deletion(conversations, console)
            deleted_ids = {conversation.id for conversation in conversations}
            delete_conversations(store, conversations, lambda: delete_conversation_files(app_dirs.data, deleted_ids))
    if as_json:
        write_table([{"id": each.id, "title": each.title} for each in conversations], as_json=True)
        return
    for conversation in conversations:
        console.print_line(f"Deleted {conversation.id} {format_one_line(conversation.title)}")
    if not conversations:
        print_notice("no conversation is that old")


def _confirm_deletion(conversations: Sequence[Conversation], console: StderrConsole) -> None:
    """Ask for confirmation.

    Raises:
        UsageError: there is no terminal to ask on.
        click.Abort: the answer is no.
    """
    for conversation in conversations[:MAX_LISTED]:
        console.print_line(f"{conversation.id}  {format_one_line(conversation.title)}")
    if len(conversations) > MAX_LISTED:
        console.print_line(f"and {len(conversations) - MAX_LISTED} more")
    subject = "this conversation" if len(conversations) == 1 else f"these {len(conversations)} conversations"
    require_confirmation(f"Delete {subject}?", "pass --yes to delete without asking")


MAX_DAYS = 100_000


@command.command("stats", short_help="Show runs, tokens and cost by day, model and tool.")
@click.option(
    "--days", metavar="N", type=parse_whole_number(1, MAX_DAYS), default=30, help="Include the last N days (30)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--html", "html_file", metavar="FILE", type=PATH, help="Write an HTML report to FILE, replacing it; - for stdout."
)
def stats_command(*, days: int, as_json: bool, html_file: str | None) -> None:
    """Show runs, tokens and cost by day and model, and calls by tool, for the last 30 days.

    Bars show tokens, or calls. In a pipe, each row starts with day, model or tool. Unsaved conversations are not
    counted. A cost with ~ is estimated; one with + does not include runs whose cost is unknown. --json and the HTML
    report add response times and tool failures.
    """
    if as_json and html_file is not None:
        raise UsageError("--json and --html cannot be combined", "use one of them")
    check_document_name(html_file or "", ".html")
    from ask.export.usage_text import to_statistics_dict, write_charts
    from ask.history.statistics import RunCostCalculator, compute_statistics

    def make_pricing() -> RunCostCalculator:
        from ask.app import AppContext
        from ask.client.run_costs import make_history_pricing

        return make_history_pricing(AppContext())

    first_day = date.today() - timedelta(days=days - 1)
    with _open_history() as store:
        start = datetime.combine(first_day, datetime.min.time()).timestamp()
        statistics = compute_statistics(store, start, make_pricing, include_details=as_json or html_file is not None)
    if as_json:
        value = {"since": first_day.isoformat(), **to_statistics_dict(statistics)}
        print_text(json.dumps(value, indent=2, ensure_ascii=False))
    elif html_file is not None:
        from ask.export.usage_html import render_usage_html

        write_output(html_file, render_usage_html(statistics, first_day, date.today()))
    elif statistics.total.runs:
        write_charts(statistics, first_day.isoformat())
    elif StandardOutput().is_terminal:
        print_notice("no runs in this period; --days N goes further back")
