"""A commit of a repository with skills, read without checking it out.

So nothing that the repository names is run: no hooks, no filters (as of Git LFS), no submodules.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ask.config.type_checks import WrongTypeError
from ask.console import StderrConsole
from ask.errors import FileError, MissingDependencyError, NetworkError
from ask.inputs.git import LFS_POINTER, UNSAFE_PATH_PATTERN, GitError, GitNetwork, run_git
from ask.project.front_matter import FrontMatterError
from ask.project.skill_sources import MARKETPLACE_FILE, MarketplacePlugin, SkillLocation, parse_marketplace
from ask.project.skill_validation import SKILL_FILE, SkillFrontMatter, find_problem, read_front_matter
from ask.project.skills import MAX_SKILL_FILE_BYTES
from ask.records import NamedTuple
from ask.text import format_one_line, format_size

FETCH_SECONDS = 300.0
MAX_FETCHED_BYTES = 500_000_000
"""The limit for what is fetched, compressed."""
MAX_LISTING_BYTES = 50_000_000
MAX_SKILLS = 1_000
"""How many skills of a repository are read."""
MAX_SKILL_FILES, MAX_SKILL_BYTES = 2_000, 50_000_000
"""The limits for the files of one skill."""
MAX_FOLDER_DEPTH = 50
IGNORED_NAMES = frozenset({"__pycache__", ".DS_Store"})
"""Files and folders that running scripts or looking at a folder leaves in it. They are no part of a skill."""
FILE_MODE, EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE = "100644", "100755", "120000", "160000"
FETCHED_REF = "refs/ask/fetched"
FETCH_SETTINGS = {"core.bigFileThreshold": "10m", "fetch.unpackLimit": "1", "gc.auto": "0"}
"""All that is fetched becomes one file, whose size is limited. Larger files are not decompressed in memory."""
NO_REF, NO_HOST_KEY = "couldn't find remote ref", "Host key verification failed"
NO_SHALLOW_TRANSPORT = "does not support shallow"
_ENTRY_PATTERN = re.compile(rb"(\d+) \w+ ([0-9a-f]+) +(\d+|-)\t(.+)", re.DOTALL)


class RepositoryFile(NamedTuple):
    """A file of a commit: its mode, the id of its content, and its size in bytes."""

    mode: str
    id: str
    size: int


class RepositorySkill(NamedTuple):
    """A skill in a repository.

    Attributes:
        name: its name; if it has none, that of its folder.
        path: the path of its folder; "" for the root.
        description: what it is for, on one line.
        problem: why it cannot be installed; "" if it can.
        plugins: the plugins of the marketplace that have it.
    """

    name: str
    path: str
    description: str = ""
    problem: str = ""
    plugins: tuple[str, ...] = ()


class SkillFile(NamedTuple):
    """A file of a skill. A link has no content, but the path from its folder to another file of the skill."""

    path: str
    data: bytes = b""
    is_executable: bool = False
    link_target: str = ""

    @property
    def is_script(self) -> bool:
        """Whether it is a program in text, by its permissions, its first line or its name."""
        return b"\0" not in self.data and (
            self.is_executable or self.data.startswith(b"#!") or self.path.lower().endswith(SCRIPT_SUFFIXES)
        )


SCRIPT_SUFFIXES = (
    *(".bash", ".bat", ".cjs", ".cmd", ".command", ".fish", ".js", ".lua", ".mjs", ".php", ".pl", ".ps1", ".py"),
    *(".r", ".rb", ".sh", ".ts", ".zsh"),
)


class SkillPackage(NamedTuple):
    """The files of a skill, and notes about what is left out."""

    skill: RepositorySkill
    files: Sequence[SkillFile]
    notes: Sequence[str] = ()


class SkillRepository:
    """A fetched commit.

    Attributes:
        location: where it is from; the ref is as the user or a marketplace gave it.
        commit: the id of the commit.
        is_tag: whether the ref of the location is a tag.
        plugins: the plugins of the marketplace in it.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], location: SkillLocation, commit: str, *, is_tag: bool
    ) -> None:
        self._folder, self._environment = folder, environment
        self.location, self.commit, self.is_tag = location, commit, is_tag
        self._files = self._list_files()
        self.plugins = self._read_marketplace()

    @cached_property
    def skills(self) -> list[RepositorySkill]:
        """The skills below the path of the location, sorted by path.

        Raises:
            FileError: there are too many.
        """
        return self.find_skills(self.location.path)

    def _list_files(self) -> dict[str, RepositoryFile]:
        listing = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", self.commit, limit=MAX_LISTING_BYTES)
        files = {}
        for entry in listing.split(b"\0")[:-1]:
            match = _ENTRY_PATTERN.fullmatch(entry)
            if not match or UNSAFE_PATH_PATTERN.search(b"\0" + match[4] + b"\0"):
                raise FileError(f"{self.location.url} contains a file that cannot be in a repository")
            size = 0 if match[3] == b"-" else int(match[3])
            files[os.fsdecode(match[4])] = RepositoryFile(match[1].decode(), match[2].decode(), size)
        return files

    def _read_marketplace(self) -> list[MarketplacePlugin]:
        path = _join(self.location.path, MARKETPLACE_FILE)
        file = self._files.get(path)
        if not file or file.mode not in (FILE_MODE, EXECUTABLE_MODE) or file.size > MAX_SKILL_FILE_BYTES:
            return []
        return parse_marketplace(self._read([path])[path], self.location.path, is_local=self.location.is_local)

    def find_skills(self, folder: str) -> list[RepositorySkill]:
        """Find the skills in a folder, which may be one. One in the folder of another is a part of that, except at the
        root.

        Raises:
            FileError: there are too many.
        """
        start = _join(folder, "")
        folders: list[str] = []
        for path in sorted(path for path in self._files if path.startswith(start)):
            folder, _, name = path.rpartition("/")
            is_file = self._files[path].mode in (FILE_MODE, EXECUTABLE_MODE)
            if name == SKILL_FILE and is_file and "node_modules" not in folder.split("/"):
                folders.append(folder)
        found: list[str] = []
        for folder in sorted(folders, key=lambda folder: folder.split("/")):
            outer = found[-1] if found else ""
            if not (outer and folder.startswith(f"{outer}/")):
                found.append(folder)
        files = {folder: _join(folder, SKILL_FILE) for folder in found}
        readable = [file for file in files.values() if self._files[file].size <= MAX_SKILL_FILE_BYTES]
        if len(found) > MAX_SKILLS or sum(self._files[file].size for file in readable) > MAX_SKILL_BYTES:
            raise FileError(f"{self.location.url} has too many skills ({len(found):,})", "name a folder in it")
        contents = self._read(readable)
        return [self._read_skill(folder, contents.get(file)) for folder, file in files.items()]

    def _read_skill(self, path: str, data: bytes | None) -> RepositorySkill:
        plugins = tuple(
            plugin.name
            for plugin in self.plugins
            if any(f"{path}/".startswith(_join(root, "")) for root in plugin.folders)
        )
        name = path.rpartition("/")[2] or self.location.url.rstrip("/").rpartition("/")[2].removesuffix(".git")
        skill = RepositorySkill(name, path, plugins=plugins)
        if data is None:
            return skill._replace(problem=f"its {SKILL_FILE} is larger than {format_size(MAX_SKILL_FILE_BYTES)}")
        if b"\0" in data:
            return skill._replace(problem=f"its {SKILL_FILE} is not text")
        try:
            values = read_front_matter(data)
        except (FrontMatterError, WrongTypeError) as error:
            return skill._replace(problem=str(error))
        # It is installed under its name, whatever the folder is called in the repository.
        name = unicodedata.normalize("NFKC", values.name.strip()) or name
        return skill._replace(
            name=name,
            description=format_one_line(values.description),
            problem=find_problem(SkillFrontMatter(values.name, values.description), name),
        )

    def load_package(self, skill: RepositorySkill) -> SkillPackage:
        """Read the files of a skill.

        Raises:
            FileError: it has too many or too large files, or a link out of its folder.
        """
        start = _join(skill.path, "")
        entries = {
            path: file
            for path, file in self._files.items()
            if path.startswith(start) and not IGNORED_NAMES & {*path.removeprefix(start).split("/")}
        }
        size = sum(file.size for file in entries.values())
        if len(entries) > MAX_SKILL_FILES or size > MAX_SKILL_BYTES:
            raise FileError(
                f"the skill {skill.name} has {len(entries):,} files with {format_size(size)}",
                f"at most {MAX_SKILL_FILES:,} files with {format_size(MAX_SKILL_BYTES)} are installed",
            )
        if any(path.removeprefix(start).count("/") > MAX_FOLDER_DEPTH for path in entries):
            raise FileError(f"the skill {skill.name} has more than {MAX_FOLDER_DEPTH} levels of folders")
        contents = self._read([path for path, file in entries.items() if file.mode != SUBMODULE_MODE])
        files, notes = [], []
        names = {path.removeprefix(start) for path, file in entries.items() if file.mode != LINK_MODE}
        for path, entry in entries.items():
            name = path.removeprefix(start)
            shown_name = format_one_line(name)
            if entry.mode == SUBMODULE_MODE:
                notes.append(f"{shown_name} is a submodule and is left out")
            elif entry.mode == LINK_MODE:
                target = os.fsdecode(contents[path])
                if not is_link_inside(name, target, names):
                    raise FileError(
                        f"the skill {skill.name} cannot be installed, because the link {shown_name} leads to "
                        f"{format_one_line(target)}, which is not one of its files"
                    )
                files.append(SkillFile(name, link_target=target))
            else:
                if contents[path].startswith(LFS_POINTER):
                    notes.append(f"{shown_name} is in Git LFS; its content is not fetched")
                files.append(SkillFile(name, contents[path], entry.mode == EXECUTABLE_MODE))
        return SkillPackage(skill, files, notes)

    def _read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Read the content of files."""
        ids = {path: self._files[path].id for path in paths}
        sizes = {self._files[path].id: self._files[path].size for path in ids}
        limit = sum(sizes.values()) + 200 * len(sizes)  # of each, the line with its id is short
        output = self._run(
            "cat-file", "--batch", stdin="".join(f"{file_id}\n" for file_id in sizes).encode(), limit=limit
        )
        contents, position = {}, 0
        for _ in sizes:
            end = output.index(b"\n", position)
            file_id, _, size = output[position:end].decode().split()
            contents[file_id] = output[end + 1 : end + 1 + int(size)]
            position = end + 2 + int(size)
        return {path: contents[file_id] for path, file_id in ids.items()}

    def _run(self, *arguments: str, limit: int, stdin: bytes = b"") -> bytes:
        try:
            return run_git(self._folder, self._environment, *arguments, limit=limit, stdin=stdin)
        except GitError as error:
            raise FileError(f"cannot read what was fetched from {self.location.url} ({error})") from None


def fetch_repository(
    location: SkillLocation, environment: Mapping[str, str], folder: Path, console: StderrConsole
) -> SkillRepository:
    """Fetch a commit into an empty folder.

    Raises:
        NetworkError: the repository cannot be fetched.
        FileError: it is on this machine and cannot be fetched, or there is no such folder, or it has too many skills.
        MissingDependencyError: git is not installed.
    """
    protocols = "https:ssh:file:http" if location.url.startswith("http:") else "https:ssh:file"
    network = GitNetwork(protocols, FETCH_SECONDS, MAX_FETCHED_BYTES)

    def run(*arguments: str) -> bytes:
        return run_git(folder, environment, *arguments, settings=FETCH_SETTINGS, network=network)

    console.show_status(f"fetching {location.url}")
    try:
        run_git(folder, environment, "init", "--quiet", "--bare", "--template=")
        if location.ref_and_path:
            refs = run("ls-remote", "--quiet", "--heads", "--tags", "--", location.url).decode(errors="replace")
            location = _split_ref(location, refs.split())
        fetch = ("--quiet", "--no-tags", "--no-recurse-submodules")
        source = ("--", location.url, f"+{location.ref or 'HEAD'}:{FETCHED_REF}")
        try:
            run("fetch", "--depth=1", *fetch, *source)
        except GitError as error:
            if NO_SHALLOW_TRANSPORT not in str(error):
                raise
            run("fetch", *fetch, *source)
        commit = _resolve_commit(folder, environment, location)
        is_tag = b"\t\ttag '" in (folder / "FETCH_HEAD").read_bytes()
    except FileNotFoundError:
        raise MissingDependencyError("git is not installed", "skills are installed with it") from None
    except GitError as error:
        raise _make_fetch_error(location, error, folder) from None
    finally:
        console.show_status("")
    return SkillRepository(folder, environment, location, commit, is_tag=is_tag)


def _resolve_commit(folder: Path, environment: Mapping[str, str], location: SkillLocation) -> str:
    try:
        return run_git(folder, environment, "rev-parse", f"{FETCHED_REF}^{{commit}}").decode().strip()
    except GitError:
        name = format_one_line(f"{location.ref or 'HEAD'} of {location.url}")
        raise FileError(f"{name} is not a commit") from None


def _split_ref(location: SkillLocation, words: Sequence[str]) -> SkillLocation:
    """Find the end of the branch or tag at the beginning of what follows /tree/ in a URL; it may contain slashes."""
    names = {word.split("/", 2)[2] for word in words if word.startswith(("refs/heads/", "refs/tags/"))}
    parts = location.ref_and_path.split("/")
    candidates = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    ref = next((name for name in candidates if name in names), parts[0])
    return location._replace(ref=ref, path=location.ref_and_path[len(ref) :].strip("/"), ref_and_path="")


def _make_fetch_error(location: SkillLocation, error: GitError, folder: Path) -> FileError | NetworkError:
    size = max((path.stat().st_size for path in folder.rglob("*pack_*") if path.is_file()), default=0)
    if size >= MAX_FETCHED_BYTES * 0.99:
        return FileError(f"{location.url} is larger than {format_size(MAX_FETCHED_BYTES)}", "clone it yourself")
    name = f"{location.ref} of {location.url}" if location.ref else location.url
    message = f"cannot fetch {format_one_line(name)} ({error})"
    hint = ""
    if NO_REF in str(error):
        is_partial_id = re.fullmatch(r"[0-9a-f]{4,39}", location.ref)
        hint = "the id of a commit must be complete" if is_partial_id else "--ref selects a branch, a tag or a commit"
    elif NO_HOST_KEY in str(error):
        hint = "connect to the server with ssh once, to check its key"
    elif not location.url.startswith("file:"):
        hint = "check the name; a private repository needs a credential helper or an SSH key"
    return FileError(message, hint) if location.is_local else NetworkError(message, hint)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def is_link_inside(link: str, target: str, names: set[str]) -> bool:
    """Check whether a link leads to a file or folder of the skill, without a detour over another link."""
    parts = [part for part in target.rstrip("/").split("/") if part != "."]
    rest = parts[next((number for number, part in enumerate(parts) if part != ".."), len(parts)) :]
    folders = link.split("/")[:-1]
    depth = len(folders) - (len(parts) - len(rest))
    if target.startswith("/") or depth < 0 or not rest or {"", ".."} & {*rest}:
        return False
    path = "/".join([*folders[:depth], *rest])
    return path in names or any(name.startswith(f"{path}/") for name in names)
