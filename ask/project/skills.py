"""Agent Skills: folders with a SKILL.md, whose text the model reads when a task needs it.

The format is that of https://agentskills.io/specification.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ask.config.settings import CLAUDE_SKILLS_FOLDER
from ask.config.type_checks import WrongTypeError
from ask.messages import ToolSpec
from ask.project.file_ownership import UnsafeFileError, read_owned_file
from ask.project.front_matter import FrontMatterError, split_front_matter
from ask.project.instructions import list_project_folders
from ask.project.skill_validation import SKILL_FILE, decode_skill_file, find_problem, read_front_matter
from ask.records import NamedTuple
from ask.text import decode_argument, format_one_line, format_suggestion
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult, build_parameters_schema
from ask.tools.definitions import READ_SKILL_NAME

PROJECT_SKILLS_FOLDER = ".agents/skills"
PROJECT_SKILLS_FOLDERS = (PROJECT_SKILLS_FOLDER, CLAUDE_SKILLS_FOLDER)
"""The folders of a project that may contain skills; the second is read only if the user wants that."""
MAX_SKILL_FILE_BYTES = 1_000_000


class Skill(NamedTuple):
    """A folder with a SKILL.md.

    Attributes:
        folder: the path of the folder, without symbolic links.
        root: the project's root, from which on no other user may be able to write; for the user's own, `folder`.
        name: the name of the folder, and of the skill.
        description: what it is for, on one line.
        problem: why it cannot be used; "" if it can.
        data: the content of its SKILL.md.
    """

    folder: Path
    root: Path
    name: str
    description: str = ""
    problem: str = ""
    data: bytes = b""

    @property
    def is_users_own(self) -> bool:
        """Whether it is the user's own, not of a project."""
        return self.root == self.folder

    def read_file(self, name: str = SKILL_FILE) -> bytes:
        """Return the content of a file in its folder.

        Raises:
            UnsafeFileError: the file must not or cannot be used.
        """
        data, size = read_owned_file(self.folder / name, self.root, MAX_SKILL_FILE_BYTES, self.folder)
        if size > MAX_SKILL_FILE_BYTES:
            raise UnsafeFileError(f"it has {size:,} bytes, and at most {MAX_SKILL_FILE_BYTES:,} are read")
        return data


def accept_any(path: Path, data: bytes) -> bool:
    """Accept every file, as without a check."""
    return True


def find_project_skills(directory: Path, shared_folders: Sequence[str] = ()) -> list[Skill]:
    """Find the skills of the project that contains a folder, the innermost first.

    Those in `.claude/skills` are included if it is one of the folders of other programs that the user wants.
    """
    folders = list_project_folders(directory)
    names = [PROJECT_SKILLS_FOLDER, *(name for name in shared_folders if name == CLAUDE_SKILLS_FOLDER)]
    return [
        skill for folder in reversed(folders) for name in names for skill in _find_skills(folder / name, folders[0])
    ]


def find_user_skills(folder: Path, shared_folders: Sequence[str] = ()) -> list[Skill]:
    """Find the user's own skills: those in a folder of the configuration first, then those for other programs.

    Each may be a symbolic link.
    """
    shared = [Path(os.path.expanduser(name)) for name in shared_folders if name != CLAUDE_SKILLS_FOLDER]
    return [skill for parent in (folder, *shared) for skill in _find_skills(parent, None)]


def mark_hidden_skills(skills: Sequence[Skill]) -> list[Skill]:
    """Add a problem to each usable skill whose name an earlier one has.

    A second path to the same skill is left out, as for the home directory as a project.
    """
    usable: dict[str, Skill] = {}
    marked = []
    for skill in skills:
        first = skill if skill.problem else usable.setdefault(skill.name, skill)
        if first is not skill and first.folder == skill.folder:
            continue
        marked.append(skill if first is skill else skill._replace(problem=f"{first.folder} has the same name"))
    return marked


def _find_skills(parent: Path, root: Path | None) -> Iterator[Skill]:
    try:
        folders = sorted(
            folder
            for folder in parent.iterdir()
            if not folder.name.startswith(".") and os.path.lexists(folder / SKILL_FILE)
        )
    except OSError:
        return
    for folder in folders:
        yield _read_skill(folder, root)


def _read_skill(folder: Path, root: Path | None) -> Skill:
    name = decode_argument(folder.name)
    real_folder = Path(os.path.realpath(folder))
    skill = Skill(real_folder, root or real_folder, name)
    try:
        skill = skill._replace(data=skill.read_file())
        values = read_front_matter(skill.data)
        return skill._replace(description=format_one_line(values.description), problem=find_problem(values, name))
    except (FrontMatterError, UnsafeFileError, WrongTypeError) as error:
        return skill._replace(problem=str(error))


def create_skill_tool(skills: Sequence[Skill], is_accepted: Callable[[Path, bytes], bool] = accept_any) -> Tool:
    """Create the tool `read_skill`, which reads the files of these skills and nothing else.

    `is_accepted` checks the real path and the content of each file of a project before it is returned.
    """
    skills_by_name = {skill.name: skill for skill in skills}

    def read_skill(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
        """Return the instructions of a skill, or one of its files.

        Raises:
            ToolError: there is no such skill or file, or the file may not be read.
        """
        name, path = arguments["name"], arguments.get("path") or SKILL_FILE
        skill = skills_by_name.get(name)
        if skill is None:
            hint = format_suggestion(name, skills_by_name, f"there are {', '.join(skills_by_name)}")
            raise ToolError(f"there is no skill {name}: {hint}")
        try:
            data = skill.read_file(path)
            text = decode_skill_file(data)
            if path == SKILL_FILE:
                folder, body = decode_argument(str(skill.folder)), split_front_matter(text)[1]
                text = f"[relative paths start at {folder}]\n{body.strip()}\n"
        except (UnsafeFileError, FrontMatterError) as error:
            raise ToolError(f"{path} of the skill {name} cannot be read: {error}") from None
        if not (skill.is_users_own or is_accepted(Path(os.path.realpath(skill.folder / path)), data)):
            raise ToolError(
                f"{path} of the skill {name} cannot be read: it has changed since a run in safe mode began, and the "
                "user has not seen the change"
            )
        return ToolResult(text)

    return Tool(
        ToolSpec(
            READ_SKILL_NAME,
            "Read the instructions of a skill, or a file that they refer to.",
            build_parameters_schema(
                {"name": {"type": "string"}},
                {"path": {"type": "string", "description": "a file in the skill's folder"}},
            ),
        ),
        read_skill,
        has_side_effects=False,
        needs_sandbox=False,
    )
