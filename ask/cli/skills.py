"""`ask skills`: list, show, check, install, update and remove Agent Skills."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, TEXT, CommandGroup, print_text
from ask.cli.skills_install import add_command, format_source, remove_command, update_command
from ask.config.directories import get_working_directory
from ask.errors import FileError, UsageError
from ask.project.file_ownership import UnsafeFileError
from ask.project.installed_skills import InstalledSkill, InstalledSkills
from ask.project.project_context import list_all_skills
from ask.project.skill_validation import SKILL_FILE, decode_skill_file, find_violations
from ask.project.skills import MAX_SKILL_FILE_BYTES, PROJECT_SKILLS_FOLDER
from ask.regular_files import open_regular_file
from ask.render.amounts import format_count
from ask.render.table import write_table
from ask.text import decode_argument, format_one_line, format_size, format_suggestion


@click.group("skills", cls=CommandGroup)
def command() -> None:
    """Manage the skills that a model may read. Without a command, list them."""


@command.command("list", short_help="List the skills of this project, and your own.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the skills of this project and your own, and why some of them are not offered."""
    app = AppContext()
    installed = {skill.folder: skill for skill in InstalledSkills(app.app_dirs).read().values()}
    rows = [
        {
            "name": skill.name,
            "from": "you" if skill.is_users_own else "project",
            "offered": not skill.problem,
            "folder": decode_argument(str(skill.folder)),
            **_describe_source(installed.get(skill.folder), as_json=as_json),
            "description": skill.description if as_json else skill.problem or skill.description,
            **({"problem": skill.problem} if as_json else {}),
        }
        for skill in list_all_skills(app, get_working_directory())
    ]
    if not (as_json or installed):
        for row in rows:
            del row["source"]
    write_table(
        rows,
        as_json=as_json,
        empty=f"no skills; they are folders with a {SKILL_FILE} in {PROJECT_SKILLS_FOLDER} or in "
        f"{app.app_dirs.skills}, and ask skills add installs some",
        optional=("folder", "source", "from", "offered"),
    )


def _describe_source(skill: InstalledSkill | None, *, as_json: bool) -> dict[str, str]:
    if not as_json:
        return {"source": format_source(skill) if skill else ""}
    return {"source": skill.location.url if skill else "", "commit": skill.commit if skill else ""}


@command.command("show", short_help="Print a skill.")
@click.argument("name", metavar="NAME", type=TEXT)
def show_command(*, name: str) -> None:
    """Print the SKILL.md of a skill."""
    skills = list_all_skills(AppContext(), get_working_directory())
    matching = sorted((skill for skill in skills if skill.name == name), key=lambda skill: bool(skill.problem))
    if not matching:
        hint = format_suggestion(name, [skill.name for skill in skills], "ask skills list shows all")
        raise UsageError(f"there is no skill {name!r}", hint)
    try:
        text = decode_skill_file(matching[0].read_file())
    except UnsafeFileError as error:
        raise FileError(f"cannot read the skill {name} ({error})") from None
    print_text(text)


for _command in (add_command, update_command, remove_command):
    command.add_command(_command)


@command.command("check", short_help="Check skills against the specification.")
@click.argument("paths", metavar="[FOLDER]...", type=click.Path(path_type=Path), nargs=-1)
def check_command(*, paths: Sequence[Path]) -> None:
    """Check whether skills follow the Agent Skills specification.

    FOLDER is a skill or contains skills. By default, the skills of this project and your own are checked. The exit code
    is 9 if a skill does not follow it. Some of these skills are offered nevertheless: ask skills list shows which.
    """
    if paths:
        folders = [(decode_argument(folder.name), folder) for path in paths for folder in _find_skill_folders(path)]
    else:
        folders = [(skill.name, skill.folder) for skill in list_all_skills(AppContext(), get_working_directory())]
    problems = 0
    for name, folder in folders:
        violations = _check_file(name, folder / SKILL_FILE)
        problems += bool(violations)
        shown_folder = format_one_line(decode_argument(str(folder)))
        print_text("\n".join(f"{shown_folder}: {format_one_line(text)}" for text in violations or ["ok"]))
    if problems:
        raise FileError(
            f"{problems:,} of {format_count(len(folders), 'skill')} {'has' if problems == 1 else 'have'} problems"
        )


def _check_file(name: str, file: Path) -> list[str]:
    try:
        with open_regular_file(file) as opened:
            data = opened.read(MAX_SKILL_FILE_BYTES + 1)
    except OSError as error:
        return [f"it cannot be read ({error.strerror})"]
    return (
        find_violations(name, data)
        if len(data) <= MAX_SKILL_FILE_BYTES
        else [f"it is larger than {format_size(MAX_SKILL_FILE_BYTES)}"]
    )


def _find_skill_folders(path: Path) -> list[Path]:
    """Return a folder if it is a skill, otherwise the skills in it.

    Raises:
        UsageError: there are none.
    """
    folder = Path(os.path.expanduser(path)).absolute()
    if os.path.lexists(folder / SKILL_FILE):
        return [folder]
    if found := sorted(file.parent for file in folder.glob(f"*/{SKILL_FILE}")):
        return found
    raise UsageError(f"there is no {SKILL_FILE} in {decode_argument(str(path))}", "pass the folder of a skill")
