"""The project's instructions and the skills of a run, as far as the user trusts the project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from ask.app import AppContext
from ask.atomic_files import write_private_file
from ask.config.settings import CLAUDE_SKILLS_FOLDER, SHARED_SKILLS_FOLDERS
from ask.console import should_show_footer
from ask.errors import AskError, FileError
from ask.parsing import parse_json, read_dict, read_list
from ask.project.instruction_changes import ChangedFile, TrustMarks
from ask.project.instructions import (
    MAX_INSTRUCTIONS_BYTES,
    InstructionFile,
    find_project_root,
    format_instructions,
    list_project_folders,
    read_instructions,
)
from ask.project.skill_validation import SKILL_FILE
from ask.project.skills import Skill, accept_any, find_project_skills, find_user_skills, mark_hidden_skills
from ask.project.trust_decisions import TrustStore
from ask.records import NamedTuple
from ask.regular_files import read_regular_file
from ask.text import decode_argument, escape_non_ascii, format_one_line, format_paths
from ask.text_diff import cut_row, draw_diff, format_unified_diff

TRUST_QUESTION = "Trust this project and send them now and in later runs?"
SHARED_SKILLS_QUESTION = "Offer skills of these programs to the model, now and in later runs?"
MAX_DIFF_LINES = 20
"""Maximum number of lines of a changed file that are shown."""
MAX_CHANGES = 20
"""Maximum number of changed files that are shown; a call can change any number."""
MAX_DIFF_LINE_CHARACTERS = 300
"""Maximum number of characters of such a line."""


REPORTED_FILE = "reported-instructions.json"
"""The instruction files that were named today, by project, in the cache."""


class ProjectContext(NamedTuple):
    """The project's instructions and the skills of a run, which are added to the system prompt.

    Attributes:
        instructions: the blocks of the project's instruction files; "" for none.
        skills: the skills to offer.
        is_accepted: checks the real path and the content of a project's file that is about to be sent.
    """

    instructions: str = ""
    skills: Sequence[Skill] = ()
    is_accepted: Callable[[Path, bytes], bool] = accept_any


def load_project_context(
    app: AppContext,
    file_names: Sequence[str],
    directory: Path,
    *,
    allowed: bool | None,
    confirm: Callable[[str], bool | None],
    footer: str,
) -> ProjectContext:
    """Load the instructions and skills for a folder; print once a day which instruction files are sent.

    Args:
        app: the user's installation.
        file_names: the names of instruction files.
        directory: the folder.
        allowed: whether to use those of the project; None asks the user once, unless there is no terminal.
        confirm: asks the user a question; returns None if there is no terminal.
        footer: the setting: whether to print which files are sent always, never, or only to a person on a terminal.

    Raises:
        FileError: the user's earlier decisions cannot be read.
    """
    shared_folders = _select_shared_folders(app, directory, confirm, may_ask=allowed is None)
    user_skills = find_user_skills(app.app_dirs.skills, shared_folders)
    if allowed is False:
        return ProjectContext(skills=_select_usable_skills(user_skills))
    files = []
    for file in read_instructions(directory, file_names):
        if file.problem:
            app.console.print_notice(f"{format_one_line(file.name)} is not sent: {format_one_line(file.problem)}")
        else:
            files.append(file)
    project_skills = find_project_skills(directory, shared_folders)
    usable_skills = _select_usable_skills(project_skills)
    folders, marks = list_project_folders(directory), TrustMarks(app.app_dirs.trust_marks)
    root = folders[0]
    contents = {os.path.realpath(file.path): file.data for file in files}
    contents |= {os.path.realpath(skill.folder / SKILL_FILE): skill.data for skill in usable_skills}
    if not (files or usable_skills) or not (
        allowed
        or (
            _is_project_trusted(app, root, files, usable_skills, confirm)
            and _are_changes_accepted(app, marks, folders, file_names, contents, confirm=confirm)
        )
    ):
        return ProjectContext(skills=_select_usable_skills(user_skills))
    _report_files(files, root, app, footer)
    skills = _select_usable_skills([*project_skills, *user_skills])
    if allowed:
        return ProjectContext(format_instructions(files), skills)

    def is_accepted(path: Path, data: bytes) -> bool:
        changes = marks.find_changes(root, folders, file_names, {str(path): data})
        return all(os.path.realpath(change.path) != str(path) for change in changes)

    return ProjectContext(format_instructions(files), skills, is_accepted)


UNTRUSTED = "this project is not trusted"
"""The problem of each skill of such a project."""


def list_all_skills(app: AppContext, directory: Path) -> list[Skill]:
    """List the skills of the project that contains a folder, and the user's own. Those with a problem are not offered.

    Raises:
        FileError: the user's decisions cannot be read.
    """
    decision = TrustStore(app.app_dirs.trust_file).read().get(find_project_root(directory))
    shared_folders = app.config.get("skills.folders", ())
    project_skills = find_project_skills(directory, shared_folders)
    if not (decision and decision.trusted):
        project_skills = [skill._replace(problem=skill.problem or UNTRUSTED) for skill in project_skills]
    return mark_hidden_skills([*project_skills, *find_user_skills(app.app_dirs.skills, shared_folders)])


def _select_shared_folders(
    app: AppContext, directory: Path, confirm: Callable[[str], bool | None], *, may_ask: bool
) -> Sequence[str]:
    """Return the folders of other programs whose skills are offered.

    If there are some that the user has not decided about, ask on the terminal, and set `skills.folders`.
    """
    folders: Sequence[str] | None = app.config.get("skills.folders")
    if folders is not None or not may_ask:
        return folders or ()
    counts = {
        name: sum(not skill.problem for skill in find_user_skills(Path(os.path.expanduser(name))))
        for name in SHARED_SKILLS_FOLDERS
        if name != CLAUDE_SKILLS_FOLDER
    }
    project_skills = find_project_skills(directory, [CLAUDE_SKILLS_FOLDER])
    counts[CLAUDE_SKILLS_FOLDER] = sum(
        not skill.problem for skill in project_skills if skill.folder.parent.parent.name == ".claude"
    )
    shown = "\n".join(
        f"  {name} ({count:,} skill{'' if count == 1 else 's'})" for name, count in counts.items() if count
    )
    if not shown:
        return ()
    answer = confirm(
        f"ask: there are skills for other programs, such as Claude Code:\n{shown}\n{SHARED_SKILLS_QUESTION}"
    )
    if answer is None:
        return ()
    from ask.config.config_editor import update_config_file

    decided = SHARED_SKILLS_FOLDERS if answer else ()
    try:
        update_config_file(app.app_dirs.config_file, ("skills", "folders"), [*decided])
        del app.config  # so that it is read again
    except AskError as error:
        app.console.print_notice(f"{error}; you will be asked again")
    return decided


def _select_usable_skills(skills: Sequence[Skill]) -> list[Skill]:
    """Return the skills to offer; of several with the same name, the first."""
    return [skill for skill in mark_hidden_skills(skills) if not skill.problem]


def _is_project_trusted(
    app: AppContext,
    root: Path,
    files: Sequence[InstructionFile],
    skills: Sequence[Skill],
    confirm: Callable[[str], bool | None],
) -> bool:
    """Return the user's decision about a project. If there is none yet, ask on the terminal and remember it."""
    store = TrustStore(app.app_dirs.trust_file)
    decision = store.read().get(root)
    if decision:
        return decision.trusted
    lines = [f"{file.name} ({file.size:,} bytes)" for file in files]
    lines += [f"{decode_argument(str(skill.folder.relative_to(root)))} (a skill)" for skill in skills]
    shown = "\n".join(f"  {escape_non_ascii(format_one_line(line))}" for line in lines)
    folder = escape_non_ascii(format_one_line(decode_argument(str(root))))
    answer = confirm(f"ask: {folder} has instructions for the model:\n{shown}\n{TRUST_QUESTION}")
    if answer is None:
        names = ", ".join([*(file.name for file in files), *(f"the skill {skill.name}" for skill in skills)])
        app.console.print_notice(
            f"this project is not trusted, so its instructions were not sent ({format_one_line(names)}): check them, "
            "then run ask context trust, or add --context for this run"
        )
        return False
    try:
        store.remember(root, trusted=answer)
    except FileError as error:
        app.console.print_notice(f"{error}; you will be asked again")
    return answer


def _are_changes_accepted(
    app: AppContext,
    marks: TrustMarks,
    folders: Sequence[Path],
    file_names: Sequence[str],
    contents: Mapping[str, bytes],
    *,
    confirm: Callable[[str], bool | None],
) -> bool:
    """Ask the user about instructions that may be the work of a run in safe mode; return whether to send them.

    Raises:
        FileError: the marks of such runs cannot be read.
    """
    root = folders[0]
    changes = marks.find_changes(root, folders, file_names, contents)
    if not changes:
        return True
    lines = [line for change in changes[:MAX_CHANGES] for line in _format_change(change, root)]
    if len(changes) > MAX_CHANGES:
        lines.append(f"  ({len(changes) - MAX_CHANGES:,} more files)")
    shown = "\n".join(map(escape_non_ascii, lines))
    title = "These instructions have changed since a run in safe mode began:"
    answer = confirm(f"ask: {title}\n{shown}\n{TRUST_QUESTION}")
    if answer is None:
        names, have = format_paths([change.path for change in changes], root), "has" if len(changes) == 1 else "have"
        app.console.print_notice(
            f"no instructions are sent, because {names} {have} changed since a run in safe mode began: check this, "
            "then run ask context trust"
        )
        return False
    if answer:
        marks.accept(root, file_names, changes)
    return answer


def _format_change(change: ChangedFile, root: Path) -> list[str]:
    """Format what has changed in a file as at most `MAX_DIFF_LINES` lines."""
    name = format_one_line(decode_argument(str(change.path.relative_to(root))))
    new_text = change.state.text if change.state else None
    lines = None if new_text is None else format_unified_diff(change.old_text or "", new_text)
    if not lines:
        return [f"  {name}"]
    rows = draw_diff(lines, limit=MAX_DIFF_LINES, width=MAX_DIFF_LINE_CHARACTERS, ellipsis="...")
    return [f"  {name}", *(f"    {cut_row(text, MAX_DIFF_LINE_CHARACTERS)}" for text, _ in rows)]


def _report_files(files: Sequence[InstructionFile], root: Path, app: AppContext, footer: str) -> None:
    """Print which instruction files are sent, and what is cut from them."""
    sent = [format_one_line(file.name) for file in files if file.text]
    is_shown = bool(sent) and not app.console.is_quiet and should_show_footer(footer)
    if is_shown and (footer == "always" or _is_first_today(sent, root, app.app_dirs.cache)):
        app.console.print_dim(f"· project instructions: {', '.join(sent)}\n")
    for file in files:
        if file.omitted:
            app.console.print_notice(
                f"the last {file.omitted:,} of {file.size:,} bytes of {format_one_line(file.name)} are not sent: "
                f"the limit is {MAX_INSTRUCTIONS_BYTES:,} bytes for all files"
            )


def _is_first_today(names: Sequence[str], root: Path, cache: Path) -> bool:
    """Check whether one of these files of a project has not been named today, and record that they all are now."""
    path, key = cache / REPORTED_FILE, decode_argument(str(root))
    today = date.today().isoformat()
    try:
        reported = read_dict(read_dict(parse_json(read_regular_file(path).decode())).get(today))
    except (OSError, ValueError):
        reported = {}
    known = read_list(reported.get(key))
    if set(names) <= {name for name in known if isinstance(name, str)}:
        return False
    with suppress(OSError):
        write_private_file(path, json.dumps({today: {**reported, key: [*known, *names]}}).encode())
    return True
