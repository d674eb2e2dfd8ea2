"""`ask skills add`, `update` and `remove`: skills from repositories, shown before they are installed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ask.app import AppContext
from ask.atomic_files import convert_write_errors, create_private_folder
from ask.cli.click_helpers import TEXT, YES_OPTION, print_notice, require_confirmation, subcommand
from ask.cli.pager import page_output
from ask.console import BOLD, StandardOutput
from ask.errors import FileError, NetworkError, SafetyError, UsageError
from ask.project.installed_skills import (
    InstalledSkill,
    InstalledSkills,
    compute_digest,
    find_successor,
    read_skill_files,
)
from ask.project.skill_repository import (
    RepositorySkill,
    SkillFile,
    SkillPackage,
    SkillRepository,
    fetch_repository,
)
from ask.project.skill_sources import MarketplacePlugin, SkillLocation, parse_location
from ask.project.skill_validation import SKILL_FILE, decode_skill_file
from ask.render.amounts import format_count
from ask.render.table import write_table
from ask.safety.approval import confirm
from ask.safety.tool_policy import NO_TERMINAL
from ask.text import (
    escape_control_characters,
    escape_invisible_characters,
    escape_non_ascii,
    format_one_line,
    format_size,
    format_suggestion,
)
from ask.text_diff import MAX_LINE_CHARACTERS, compare_texts, draw_diff

COMMIT_CHARACTERS = 12
"""How many characters of a commit are shown."""
MAX_DIFF_LINES = 500
"""How many lines of the changes of a file are shown."""
FETCHED_PREFIX, ABANDONED_SECONDS = "fetched-", 86_400.0
"""The prefix of the folders for what is fetched, and the age from which no command is using one."""
SkillChoice = tuple[SkillRepository, RepositorySkill]
"""A skill and its repository."""


@subcommand("add")
@click.argument("source", metavar="SOURCE", type=TEXT)
@click.argument("names", metavar="[NAME]...", type=TEXT, nargs=-1)
@click.option("--all", "installs_all", is_flag=True, help="Install all skills of the repository.")
@click.option("--ref", metavar="REF", type=TEXT, default="", help="The branch, tag or commit to install from.")
@YES_OPTION
def add_command(*, source: str, names: Sequence[str], installs_all: bool, ref: str, yes: bool) -> None:
    """Install skills from a git repository, after showing their files.

    SOURCE is OWNER/REPO on GitHub (or OWNER/REPO/PATH, or with @REF), the URL of a repository or of a folder in it, or
    ./PATH of a local one. NAME is a skill, its folder, or a plugin of the repository's marketplace. If there are
    several skills and none is named, they are listed.
    """
    app = AppContext()
    with app.cleanup:
        repository = _fetch(parse_location(source, ref, app.environment), app)
        store = InstalledSkills(app.app_dirs)
        if names or installs_all:
            choices = [choice for name in names for choice in _find_named(repository, name, app)]
            choices += _select_installable(repository, store) if installs_all else []
        elif len(repository.skills) == 1 and not _find_other_plugins(repository):
            choices = [(repository, repository.skills[0])]
        else:
            _list_skills(repository, required=yes)
            return
        # A plugin stands for all of its skills, as --all does for those of the repository.
        packages, left_out = _load_packages(choices, store, skips_invalid=installs_all or len(choices) > len(names) > 0)
        _install(packages, store, app, yes=yes)
        if left_out and not installs_all:
            raise FileError(f"{format_count(left_out, 'skill')} cannot be installed")


def _install(
    packages: Sequence[tuple[SkillRepository, SkillPackage]], store: InstalledSkills, app: AppContext, *, yes: bool
) -> None:
    """Show skills, unless `yes` is set, and install them."""
    if not packages:
        print_notice("there is nothing to install")
        return
    if not yes:
        _show_packages(packages, app)
        if not _confirm(f"Install {_describe_packages([package for _, package in packages])}?", "install"):
            raise click.Abort
    for chosen, package in packages:
        store.install(package, chosen.location, chosen.commit)
        for note in package.notes if yes else ():
            print_notice(note)
        print_notice(f"installed {package.skill.name} from {format_source(chosen)}")


@subcommand("update")
@click.argument("names", metavar="[NAME]...", type=TEXT, nargs=-1)
@click.option("--force", is_flag=True, help="Also replace skills that you have changed.")
@YES_OPTION
def update_command(*, names: Sequence[str], force: bool, yes: bool) -> None:
    """Update installed skills, by default all, after showing what changes in their files."""
    app = AppContext()
    store = InstalledSkills(app.app_dirs)
    skills = _find_installed(store, names, app) if names else list(store.read().values())
    errors: list[FileError | NetworkError | UsageError] = []
    with app.cleanup:
        by_source = sorted(skills, key=lambda skill: skill.location[:2])
        for _, group in groupby(by_source, key=lambda skill: skill.location[:2]):
            members = list(group)
            try:
                repository = _fetch(members[0].location._replace(path=""), app)
            except (FileError, NetworkError) as error:
                errors.append(error)
                continue
            for skill in members:
                try:
                    _update_skill(store, repository, skill, app, force=force, yes=yes)
                except (FileError, UsageError) as error:
                    errors.append(error)
    if not skills:
        print_notice("no skills are installed; ask skills add SOURCE installs some")
    if errors:
        for each in errors[:-1]:
            print_notice(str(each))
        raise errors[-1]


@subcommand("remove")
@click.argument("names", metavar="NAME...", type=TEXT, nargs=-1, required=True)
@YES_OPTION
def remove_command(*, names: Sequence[str], yes: bool) -> None:
    """Remove skills that ask skills add has installed."""
    app = AppContext()
    store = InstalledSkills(app.app_dirs)
    skills = _find_installed(store, names, app)
    if not yes:
        changed = [skill.name for skill in skills if skill.is_changed()]
        note = f" (you have changed {', '.join(changed)})" if changed else ""
        shown = ", ".join(skill.name for skill in skills)
        require_confirmation(escape_non_ascii(f"Remove {shown}{note}?"), "pass --yes to remove without asking")
    for skill in skills:
        store.remove(skill)
        print_notice(f"removed {skill.name}")


def format_source(origin: SkillRepository | InstalledSkill) -> str:
    """Format the repository and commit of a skill."""
    url = origin.location.url.removeprefix("https://").removesuffix(".git")
    return format_one_line(f"{url}@{origin.commit[:COMMIT_CHARACTERS]}")


def _fetch(location: SkillLocation, app: AppContext) -> SkillRepository:
    """Fetch a repository into a folder that is deleted at the end of the command."""
    with convert_write_errors(app.app_dirs.cache):
        create_private_folder(app.app_dirs.cache)
        _delete_abandoned_folders(app.app_dirs.cache)
        folder = TemporaryDirectory(prefix=FETCHED_PREFIX, dir=app.app_dirs.cache, ignore_cleanup_errors=True)
    return fetch_repository(location, app.environment, Path(app.cleanup.enter_context(folder)), app.console)


def _delete_abandoned_folders(cache: Path) -> None:
    """Delete what commands that were killed have fetched."""
    for folder in cache.glob(f"{FETCHED_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(folder)


# Selection


def _find_other_plugins(repository: SkillRepository) -> list[MarketplacePlugin]:
    """Return the plugins whose skills are in other repositories."""
    return [plugin for plugin in repository.plugins if plugin.location or plugin.problem]


def _list_skills(repository: SkillRepository, *, required: bool) -> None:
    """List the skills of a repository, and the plugins of its marketplace that are in others.

    Raises:
        FileError: there are none.
        UsageError: it is `required` to name some of them.
    """
    rows = [
        {
            "name": skill.name,
            "folder": skill.path or ".",
            "plugin": ", ".join(skill.plugins),
            "description": skill.problem or skill.description,
        }
        for skill in repository.skills
    ]
    rows += [
        {
            "name": plugin.name,
            "folder": plugin.location.url if plugin.location else "",
            "plugin": plugin.name,
            "description": plugin.problem or plugin.description,
        }
        for plugin in _find_other_plugins(repository)
    ]
    if not rows:
        place = f"{repository.location.path} of " if repository.location.path else ""
        message = f"there is no skill in {format_one_line(place + repository.location.url)}"
        raise FileError(message, f"a skill is a folder with a {SKILL_FILE}")
    hint = "name those to install, or pass --all"
    if required:
        raise UsageError(f"the repository has {format_count(len(repository.skills), 'skill')}", hint)
    has_plugins = any(row["plugin"] for row in rows)
    shown = rows if has_plugins else [{key: row[key] for key in ("name", "folder", "description")} for row in rows]
    write_table(shown, as_json=False, optional=("plugin", "folder"))
    print_notice(f"nothing is installed yet: {hint}")


def _find_named(repository: SkillRepository, name: str, app: AppContext) -> list[SkillChoice]:
    """Return the skill with a name or in a folder, or the skills of a plugin, which is fetched if it is elsewhere.

    Raises:
        UsageError: there is none, or several have the name.
        AskError: the plugin cannot be fetched.
    """
    matching = [skill for skill in repository.skills if name.rstrip("/") in (skill.name, skill.path or ".")]
    if len(matching) > 1:
        folders = format_one_line(", ".join(skill.path or "." for skill in matching))
        raise UsageError(f"there are several skills {name}", f"name one by its folder: {folders}")
    if matching:
        return [(repository, matching[0])]
    plugin = next((plugin for plugin in repository.plugins if plugin.name == name), None)
    if plugin is None:
        names = [skill.name for skill in repository.skills] + [plugin.name for plugin in repository.plugins]
        hint = format_suggestion(name, names, "without a name, ask skills add lists them")
        raise UsageError(f"there is no skill {format_one_line(name)!r} in the repository", hint)
    if plugin.problem:
        raise UsageError(f"the plugin {format_one_line(name)} cannot be installed ({plugin.problem})")
    if plugin.location:
        other = _fetch(plugin.location, app)
        found = [(other, skill) for skill in other.skills]
    else:
        found = [(repository, skill) for skill in repository.skills if name in skill.plugins]
    if not found:
        raise UsageError(f"the plugin {format_one_line(name)} has no skills")
    return found


def _select_installable(repository: SkillRepository, store: InstalledSkills) -> Iterator[SkillChoice]:
    """Yield the skills of a repository that can be installed and are not; name the others."""
    installed = {(skill.location.url, skill.location.path) for skill in store.read().values()}
    for skill in repository.skills:
        if skill.problem:
            print_notice(f"{skill.path or skill.name} is left out: {skill.problem}")
        elif (repository.location.url, skill.path) in installed:
            print_notice(f"{skill.name} is already installed")
        else:
            yield repository, skill


def _load_packages(
    choices: Sequence[SkillChoice], store: InstalledSkills, *, skips_invalid: bool
) -> tuple[list[tuple[SkillRepository, SkillPackage]], int]:
    """Load the files of skills, each once. With `skips_invalid`, name and count those that cannot be installed.

    Raises:
        UsageError: a name is not available.
        FileError: a skill is invalid, too large, or has a link out of its folder.
    """
    chosen = {(repository.location.url, skill.path): (repository, skill) for repository, skill in choices}
    paths: dict[str, str] = {}
    packages = []
    for repository, skill in chosen.values():
        try:
            _check_skill(skill, paths, store)
            packages.append((repository, repository.load_package(skill)))
            paths[skill.name] = skill.path or "."
        except (FileError, UsageError) as error:
            if not skips_invalid:
                raise
            print_notice(f"{format_one_line(skill.path or skill.name)} is left out: {error}")
    return packages, len(chosen) - len(packages)


def _check_skill(skill: RepositorySkill, paths: Mapping[str, str], store: InstalledSkills) -> None:
    """Check that a skill is valid, and that neither one of those in `paths` nor an installed one has its name."""
    if skill.problem:
        raise FileError(f"cannot install {format_one_line(skill.path or skill.name)} ({skill.problem})")
    if skill.name in paths:
        folders = format_one_line(f"{paths[skill.name]} and {skill.path or '.'}")
        raise UsageError(f"two skills are named {skill.name}, in {folders}", "name one by its folder")
    store.check_name(skill.name)


def _find_installed(store: InstalledSkills, names: Sequence[str], app: AppContext) -> list[InstalledSkill]:
    """Return the installed skills with these names.

    Raises:
        UsageError: there is none of a name, or `ask skills add` has not installed it.
    """
    installed = store.read()
    for name in names:
        if name not in installed:
            path = app.app_dirs.skills / name
            if "/" not in name and os.path.lexists(path):
                raise UsageError(f"the skill {name} was not installed by ask skills add", f"it is your own, in {path}")
            hint = format_suggestion(name, installed, "ask skills list shows the installed skills")
            raise UsageError(f"no skill {format_one_line(name)!r} is installed", hint)
    return [installed[name] for name in dict.fromkeys(names)]


# Updates


def _update_skill(
    store: InstalledSkills,
    repository: SkillRepository,
    skill: InstalledSkill,
    app: AppContext,
    *,
    force: bool,
    yes: bool,
) -> None:
    """Show how a skill has changed in its repository, and replace it.

    Raises:
        FileError: it has no valid version there, its tag has moved, or the user has changed the installed one.
        SafetyError: there is no terminal to ask on.
    """
    successor = find_successor(skill, repository)
    if not successor or successor.problem:
        reason = f"invalid ({successor.problem})" if successor else "no longer there"
        raise FileError(f"cannot update {skill.name}: in {format_source(repository)}, it is {reason}")
    package = repository.load_package(successor)
    is_new, is_changed = compute_digest(package.files) != skill.digest, skill.is_changed()
    if not is_new and not (force and is_changed):
        print_notice(f"{skill.name} is up to date{' (you have changed it)' if is_changed else ''}")
        return
    if is_new and repository.is_tag and repository.commit != skill.commit:
        raise FileError(
            f"the tag {format_one_line(skill.location.ref)} of {format_source(skill)} now leads to "
            f"{repository.commit[:COMMIT_CHARACTERS]}, and {skill.name} is not updated",
            "if this is intended, remove the skill and add it again",
        )
    if is_changed and not force:
        raise FileError(f"the skill {skill.name} has changed since it was installed", "--force replaces it")
    if not yes:
        with page_output(app.environment) as output:
            output.write(f"{skill.name}: from {format_source(skill)} to {format_source(repository)}\n", BOLD)
            _show_notes(output, package)
            _show_changes(output, read_skill_files(skill.folder), package.files)
        if not _confirm(f"Update {skill.name}?", "update"):
            print_notice(f"{skill.name} is not updated")
            return
    store.install(package, skill.location, repository.commit, skill)
    print_notice(f"updated {skill.name} to {format_source(repository)}")


# Preview


def _confirm(question: str, verb: str) -> bool:
    """Ask on the terminal.

    Raises:
        SafetyError: there is none.
    """
    answer = confirm(escape_non_ascii(question))
    if answer is None:
        raise SafetyError(NO_TERMINAL, f"pass --yes to {verb} without asking")
    return answer


def _describe_packages(packages: Sequence[SkillPackage]) -> str:
    files = [file for package in packages for file in package.files]
    scripts = sum(file.is_script for file in files)
    counts = [format_count(len(files), "file"), *([format_count(scripts, "script")] if scripts else [])]
    return f"{', '.join(package.skill.name for package in packages)} ({', '.join(counts)})"


def _show_packages(packages: Sequence[tuple[SkillRepository, SkillPackage]], app: AppContext) -> None:
    """Show the SKILL.md of each skill and list its other files."""
    with page_output(app.environment) as output:
        for repository, package in packages:
            output.write(f"{package.skill.name}: {package.skill.description}\n", BOLD)
            output.write(f"from {format_source(repository)}, folder {format_one_line(package.skill.path or '.')}\n")
            _show_notes(output, package)
            (skill_file,) = (file for file in package.files if file.path == SKILL_FILE)
            output.write(f"--- {SKILL_FILE}\n", BOLD)
            text = escape_invisible_characters(escape_control_characters(decode_skill_file(skill_file.data)))
            output.write(f"{text.rstrip()}\n")
            others = [file for file in package.files if file.path != SKILL_FILE]
            output.write("--- other files\n" if others else "", BOLD)
            output.write("".join(f"{_describe_file(file)}\n" for file in others))
            output.write("\n")


def _show_notes(output: StandardOutput, package: SkillPackage) -> None:
    output.write("".join(f"note: {note}\n" for note in package.notes))


def _show_changes(output: StandardOutput, before: Sequence[SkillFile], after: Sequence[SkillFile]) -> None:
    """Show the differences between two versions of the files of a skill."""
    old_files, new_files = ({file.path: file for file in files} for files in (before, after))
    for path in sorted({*old_files, *new_files}):
        old, new = old_files.get(path), new_files.get(path)
        if old == new:
            continue
        shown = ", now ".join(_describe_file(file) for file in (old, new) if file)
        state = "" if old and new else "new file " if new else "removed file "
        output.write(f"--- {state}{shown}\n", BOLD)
        texts = [decode_skill_file(file.data) if file and b"\0" not in file.data else "" for file in (old, new)]
        diff = compare_texts(*texts)
        rows = draw_diff(diff.lines, limit=MAX_DIFF_LINES, omitted=diff.omitted, width=MAX_LINE_CHARACTERS)
        for text, style in rows if new else ():
            output.write(f"{text}\n", style)
        output.write(f"{diff.note}\n" if diff.note else "")


def _describe_file(file: SkillFile) -> str:
    kind = f"link to {format_one_line(file.link_target)}" if file.link_target else format_size(len(file.data))
    marks = [*(["script"] if file.is_script else []), *(["binary"] if b"\0" in file.data else [])]
    return f"{format_one_line(file.path)} ({', '.join([kind, *marks])})"
