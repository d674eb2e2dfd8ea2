"""`ask skills`: list and show Agent Skills."""

from __future__ import annotations

import click

from ask.app import AppContext
from ask.cli.groups import JSON_OPTION, TEXT, CommandGroup, print_text
from ask.config.directories import get_working_directory
from ask.errors import FileError, UsageError
from ask.project.project_context import list_all_skills
from ask.project.skill_validation import SKILL_FILE, decode_skill_file
from ask.project.skills import PROJECT_SKILLS_FOLDER
from ask.project.trusted_files import UntrustedFileError
from ask.render.table import write_table
from ask.text import decode_argument, format_suggestion


@click.group("skills", cls=CommandGroup)
def command() -> None:
    """List and show the skills that a model may read. Without a command, list them."""


@command.command("list", short_help="List the skills of this project, and your own.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the skills of this project and your own, and why some of them are not offered."""
    app = AppContext()
    rows = [
        {
            "name": skill.name,
            "from": "you" if skill.is_users_own else "project",
            "offered": not skill.problem,
            "folder": decode_argument(str(skill.folder)),
            "description": skill.description if as_json else skill.problem or skill.description,
            **({"problem": skill.problem} if as_json else {}),
        }
        for skill in list_all_skills(app, get_working_directory())
    ]
    write_table(
        rows,
        as_json=as_json,
        empty=f"no skills; they are folders with a {SKILL_FILE} in {PROJECT_SKILLS_FOLDER} or in {app.app_dirs.skills}",
        optional=("folder", "from", "offered"),
    )


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
    except UntrustedFileError as error:
        raise FileError(f"cannot read the skill {name} ({error})") from None
    print_text(text)
