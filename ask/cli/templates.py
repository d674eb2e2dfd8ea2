"""`ask templates`: list, show, create, edit and delete templates."""

from __future__ import annotations

import json

import click

from ask.app import AppContext
from ask.atomic_files import lock_file
from ask.cli.click_helpers import (
    JSON_OPTION,
    TEXT,
    YES_OPTION,
    CommandGroup,
    print_notice,
    print_text,
    require_confirmation,
)
from ask.cli.commands import is_on_terminal
from ask.cli.editor import edit_file
from ask.config.config_editor import replace_file_content
from ask.errors import UsageError
from ask.render.table import write_table
from ask.templates.loaded_template import is_loaded_template, read_loaded_template
from ask.templates.template import (
    NEW_TEMPLATE_FILE,
    SUFFIX,
    check_template_name,
    find_template,
    find_template_file,
    list_template_files,
    read_all_templates,
    read_template,
    read_template_text,
)
from ask.text import decode_argument


@click.group("templates", cls=CommandGroup)
def command() -> None:
    """Manage prompt templates, which ask -t NAME uses. Without a command, list them."""


@command.command("list", short_help="List the templates, yours and the built-in ones.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List the templates with their tasks; ask -t accepts NAME or NAME:TASK.

    Your own are in the folder templates next to config.toml. They replace built-in ones of the same name.
    """
    app = AppContext()
    rows = [
        {
            "name": template.name,
            "from": "you" if template.file.parent == app.app_dirs.templates else "ask",
            "tasks": list(template.tasks) if as_json else ", ".join(template.tasks),
            "description": template.description,
        }
        for template in read_all_templates(app.app_dirs.templates, print_notice)
    ]
    write_table(rows, as_json=as_json, optional=("from", "tasks"))


@command.command("show", short_help="Print a template.")
@click.argument("name", metavar="NAME", type=TEXT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show_command(*, name: str, as_json: bool) -> None:
    """Print the file of a template, or the prompt of NAME:TASK.

    PREFIX:REST is a template from a loader: read it before you use it with -t.
    """
    app = AppContext()
    is_loaded = ":" in name and is_loaded_template(name, app)
    with app.cleanup:
        if is_loaded:
            settings = app.read_settings()
            template = read_loaded_template(name, settings, app)
        else:
            template = find_template(name, app.app_dirs.templates)
    if as_json:
        value = {**template._asdict(), "file": decode_argument(str(template.file)), "variables": template.variables}
        value |= {"options": dict(template.options), "tasks": dict(template.tasks)}
        for field in ("values", "inputs", "opening_messages"):  # those of a run
            del value[field]
        text = json.dumps(value, ensure_ascii=False, indent=2)
    else:
        text = template.prompt if ":" in name else read_template_text(template.file)
        if is_loaded and template.system:
            text = f"[system prompt]\n{template.system.strip()}\n\n[prompt]\n{text}"
    print_text(text)


@command.command("new", short_help="Create a template.")
@click.argument("name", metavar="NAME", type=TEXT)
def new_command(*, name: str) -> None:
    """Create a template and print its path. On a terminal, your editor opens it."""
    check_template_name(name)
    app = AppContext()
    path = app.app_dirs.templates / f"{name}{SUFFIX}"
    with lock_file(path):
        if name in list_template_files(app.app_dirs.templates):
            hint = f"edit it, or a copy of it, with ask templates edit {name}"
            raise UsageError(f"the template {name} already exists", hint)
        replace_file_content(path, NEW_TEMPLATE_FILE.read_text("utf-8").replace("NAME", name).encode())
    print_text(decode_argument(str(path)))
    if is_on_terminal():
        edit_file(path, b"", read_template)


@command.command("delete", short_help="Delete a template.")
@click.argument("name", metavar="NAME", type=TEXT)
@YES_OPTION
def delete_command(*, name: str, yes: bool) -> None:
    """Delete one of your templates. A built-in template of the same name applies again."""
    folder = AppContext().app_dirs.templates
    path = find_template_file(name, folder)
    if path.parent != folder:
        raise UsageError(f"{name} is a built-in template", f"ask templates edit {name} changes a copy of it")
    if not yes:
        require_confirmation(f"Delete {path}?", "pass --yes to delete without asking")
    path.unlink()
    print_notice(f"deleted {path}")


@command.command("edit", short_help="Edit a template, or a copy of a built-in one.")
@click.argument("name", metavar="NAME", type=TEXT)
def edit_command(*, name: str) -> None:
    """Edit a template in the editor set by VISUAL or EDITOR.

    A built-in template is copied first; the copy is saved once you change it. Changes are saved only if they are
    valid: otherwise you can edit again or discard them.
    """
    app = AppContext()
    file = find_template_file(name, app.app_dirs.templates)
    edit_file(app.app_dirs.templates / f"{name}{SUFFIX}", file.read_bytes(), read_template)
