"""The skills that are installed from repositories.

Each is in a folder of its own, with a record of its source. A link in the user's folder of skills leads to it, so that
an update is the replacement of one link: at any moment, the old or the new version is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TypedDict

from ask.atomic_files import convert_write_errors, create_private_folder, lock_file, replace_atomically
from ask.config.directories import AppDirs
from ask.config.type_checks import parse_value
from ask.errors import FileError, UsageError
from ask.project.skill_repository import IGNORED_NAMES, RepositorySkill, SkillFile, SkillPackage, SkillRepository
from ask.project.skill_sources import SkillLocation
from ask.records import NamedTuple
from ask.regular_files import read_regular_file
from ask.text import decode_argument

SOURCE_FILE = "source.json"
SCRIPT_MODE, DATA_MODE, FOLDER_MODE = 0o700, 0o600, 0o700


class _StoredSource(TypedDict):
    url: str
    ref: str
    path: str
    commit: str
    digest: str
    time: float


class InstalledSkill(NamedTuple):
    """A skill that was installed from a repository.

    Attributes:
        name: the name of the skill.
        folder: the folder with its files.
        location: where it is from.
        commit: the commit that is installed.
        digest: the digest of the files as they were installed.
    """

    name: str
    folder: Path
    location: SkillLocation
    commit: str
    digest: str

    def is_changed(self) -> bool:
        """Check whether its files have changed since it was installed.

        Raises:
            FileError: they cannot be read.
        """
        return compute_digest(read_skill_files(self.folder)) != self.digest


class InstalledSkills:
    """The installed skills of the user. Its methods raise `FileError` if a file cannot be read or written."""

    def __init__(self, app_dirs: AppDirs) -> None:
        self._links, self._folder = app_dirs.skills, app_dirs.installed_skills

    def read(self) -> dict[str, InstalledSkill]:
        """Return them by name, sorted."""
        installed = {}
        with suppress(FileNotFoundError):
            for link in sorted(self._links.iterdir()):
                if not link.name.startswith(".") and (skill := self._read_link(link)):
                    installed[skill.name] = skill
        return installed

    def _read_link(self, link: Path) -> InstalledSkill | None:
        folder = Path(os.path.realpath(link))
        if not link.is_symlink() or folder.parent.parent != Path(os.path.realpath(self._folder)):
            return None
        try:
            content = json.loads(read_regular_file(folder.parent / SOURCE_FILE))
            source = parse_value(content, _StoredSource)
        except (OSError, ValueError, RecursionError):
            return None
        location = SkillLocation(source["url"], source["ref"], source["path"])
        return InstalledSkill(decode_argument(link.name), folder, location, source["commit"], source["digest"])

    def check_name(self, name: str) -> None:
        """Check that no skill of the user has a name.

        Raises:
            UsageError: one has.
        """
        if installed := self.read().get(name):
            raise UsageError(
                f"the skill {name} is already installed from {installed.location.url}",
                f"ask skills update {name} updates it, ask skills remove {name} removes it",
            )
        if os.path.lexists(self._links / name):
            raise UsageError(f"you already have a skill {name} in {self._links}", "rename or delete that one first")

    def install(
        self, package: SkillPackage, location: SkillLocation, commit: str, replaced: InstalledSkill | None = None
    ) -> None:
        """Install a skill, in place of another version of it if there is one.

        Raises:
            UsageError: a skill with its name has been installed or removed in the meantime.
        """
        name = package.skill.name
        with lock_file(self._folder / SOURCE_FILE), convert_write_errors(self._folder):
            if replaced is None:
                self.check_name(name)
            elif self.read().get(name) != replaced:
                raise UsageError(f"the skill {name} has been updated or removed in the meantime", "try again")
            create_private_folder(self._links)
            folder = Path(mkdtemp(dir=self._folder))
            try:
                _write_files(folder / name, package.files)
                source: _StoredSource = {
                    "url": location.url,
                    "ref": location.ref,
                    "path": package.skill.path,
                    "commit": commit,
                    "digest": compute_digest(package.files),
                    "time": time.time(),
                }
                (folder / SOURCE_FILE).write_text(f"{json.dumps(source, indent=2)}\n")
                target = os.path.relpath(os.path.realpath(folder / name), os.path.realpath(self._links))
                with replace_atomically(self._links / name) as temporary:
                    temporary.symlink_to(target)
            finally:
                self._delete_unused()

    def remove(self, skill: InstalledSkill) -> None:
        """Remove a skill."""
        with lock_file(self._folder / SOURCE_FILE), convert_write_errors(self._folder):
            if self.read().get(skill.name) == skill:
                (self._links / skill.name).unlink()
            self._delete_unused()

    def _delete_unused(self) -> None:
        """Delete the folders to which no link leads: old versions, and those of commands that were killed."""
        for temporary in self._links.glob(".ask-*.tmp"):
            temporary.unlink(missing_ok=True)
        used = {os.path.dirname(os.path.realpath(link)) for link in self._links.iterdir() if link.is_symlink()}
        for folder in self._folder.iterdir():
            if os.path.realpath(folder) not in used:
                shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: Path, files: Sequence[SkillFile]) -> None:
    """Write the files of a skill into a new folder.

    Raises:
        OSError: they cannot be written.
    """
    folder.mkdir(FOLDER_MODE)
    for file in sorted(files, key=lambda file: bool(file.link_target)):  # no file is written through a link
        path = folder / file.path
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        if file.link_target:
            path.symlink_to(file.link_target)
            continue
        mode = SCRIPT_MODE if file.is_executable else DATA_MODE
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(file.data)


def read_skill_files(folder: Path) -> list[SkillFile]:
    """Read the files in the folder of a skill.

    Raises:
        FileError: they cannot be read.
    """
    try:
        return [_read_file(folder, path) for path in _list_files(folder)]
    except OSError as error:
        raise FileError(f"cannot read {decode_argument(str(folder))} ({error.strerror})") from error


def _list_files(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in IGNORED_NAMES:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _list_files(Path(entry.path))
        else:
            yield Path(entry.path)


def _read_file(folder: Path, path: Path) -> SkillFile:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink():
        return SkillFile(name, link_target=os.readlink(path))
    if not path.is_file():  # a named pipe, which no repository contains: this is a change, and reading it would wait
        return SkillFile(name, link_target=os.devnull)
    return SkillFile(name, path.read_bytes(), bool(path.stat().st_mode & 0o100))


def compute_digest(files: Sequence[SkillFile]) -> str:
    """Return a digest of the names, contents and permissions of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        kind = "link" if file.link_target else "script" if file.is_executable else "file"
        data = os.fsencode(file.link_target) if file.link_target else file.data
        digest.update(b"%s\0%s\0%d\0" % (os.fsencode(file.path), kind.encode(), len(data)) + data)
    return f"sha256:{digest.hexdigest()}"


def find_successor(installed: InstalledSkill, repository: SkillRepository) -> RepositorySkill | None:
    """Find the new version of a skill in its repository: in the same folder, or elsewhere under its name.

    Raises:
        FileError: the repository has too many skills.
    """
    path = installed.location.path
    for skill in repository.find_skills(path):
        if (skill.name, skill.path) == (installed.name, path):
            return skill
    named = [skill for skill in repository.skills if skill.name == installed.name]
    return named[0] if len(named) == 1 else None
