"""Where skills are installed from: repositories, and the marketplaces in them."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ask.config.base_url import is_local_url
from ask.errors import UsageError
from ask.inputs.git import GIT_FOLDER
from ask.inputs.github import ADDRESS_PATTERN, DEFAULT_SERVER
from ask.parsing import parse_json, read_dict, read_list, read_str
from ask.project.skill_validation import SKILL_FILE
from ask.records import NamedTuple
from ask.text import decode_argument, format_one_line

MARKETPLACE_FILE = ".claude-plugin/marketplace.json"
"""The file that lists plugins: https://code.claude.com/docs/en/plugin-marketplaces."""
SOURCE_FORMS = "write OWNER/REPO, the URL of a git repository or of a folder in it, or ./PATH of a local repository"
_SSH_PATTERN = re.compile(r"[\w.-]+@[\w.-]+:[^:\s\x00-\x1f\x7f]+")
_HOST_PATTERN = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?::\d+)?/[^/]+/[^/]")
"""The beginning of a URL without its scheme. The owner of a repository on GitHub has no dot in its name."""
_PAGE_PATTERN = re.compile(r"(/[^/]+/[^/]+|/.+?/-)/(?:tree|blob)/(.+)|(/[^/]+/[^/]+)/src/(?:branch|tag|commit)/(.+)")
"""The path of a page about a folder or file on GitHub, on GitLab (with /-/), or on Gitea and Codeberg (with /src/)."""
_REF_PATTERN = re.compile(r"(?!-)[^\s:?*\[\\^~\x00-\x1f\x7f]+")


class SkillLocation(NamedTuple):
    """A folder in a repository.

    Attributes:
        url: the URL of the repository, for git.
        ref: a branch, tag or commit; "" for the default branch.
        path: the path of the folder; "" for the root.
        ref_and_path: in place of both, the end of the URL of a page, whose branch may contain slashes.
    """

    url: str
    ref: str = ""
    path: str = ""
    ref_and_path: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the repository is on this machine or network."""
        url = f"ssh://{self.url.replace(':', '/', 1)}" if _SSH_PATTERN.fullmatch(self.url) else self.url
        return url.startswith("file:") or is_local_url(url)


def parse_location(text: str, ref: str, environment: Mapping[str, str]) -> SkillLocation:
    """Parse what the user names as the source of skills.

    Raises:
        UsageError: it is no repository, or `ref` cannot be used.
    """
    text = decode_argument(text).strip()
    if _HOST_PATTERN.match(text):
        text = f"https://{text}"
    if text in (".", "..") or text.startswith(("/", "./", "../", "~")):
        location = _find_local_repository(text)
    elif "://" in text:
        location = _parse_url(text)
    elif _SSH_PATTERN.fullmatch(text):
        location = SkillLocation(text)
    elif match := ADDRESS_PATTERN.fullmatch(text):
        owner, name, path, named_ref = (part or "" for part in match.groups())
        # GitHub Actions sets the variable, also to a server of GitHub Enterprise.
        server = environment.get("GITHUB_SERVER_URL", "").strip().rstrip("/") or DEFAULT_SERVER
        location = SkillLocation(_parse_url(f"{server}/{owner}/{name}").url, named_ref, _to_folder(path))
    else:
        raise UsageError(f"{format_one_line(text)!r} is not a repository", SOURCE_FORMS)
    if ref and (location.ref or location.ref_and_path):
        raise UsageError("--ref cannot be combined with a source that names a branch", "use one of them")
    return _check_ref(location._replace(ref=ref or location.ref))


def _check_ref(location: SkillLocation) -> SkillLocation:
    """Return a location if git can fetch its `ref`.

    Raises:
        UsageError: git would read it as something else, such as an option.
    """
    if location.ref and not _REF_PATTERN.fullmatch(location.ref):
        raise UsageError(f"{format_one_line(location.ref)!r} is not the name of a branch, tag or commit")
    return location


def _find_local_repository(text: str) -> SkillLocation:
    folder = Path(os.path.realpath(os.path.expanduser(text)))
    for root in (folder, *folder.parents):
        if os.path.lexists(root / GIT_FOLDER) or ((root / "HEAD").is_file() and (root / "objects").is_dir()):
            path = "" if root == folder else folder.relative_to(root).as_posix()
            return SkillLocation(f"file://{quote(os.fsencode(root))}", path=_normalize_path(path))
    raise UsageError(
        f"{format_one_line(text)} is not in a git repository", "to use a folder as it is, link it in the skills folder"
    )


def _parse_url(text: str) -> SkillLocation:
    """Parse the URL of a repository, or of a page about a folder or file in one.

    Raises:
        UsageError: it is malformed, has an unsafe scheme, or contains a password.
    """
    try:
        parts = urlsplit(text)
        has_credentials = bool(parts.password or (parts.username and parts.scheme != "ssh"))
    except ValueError:
        parts, has_credentials = None, False
    if not parts or not text.isprintable() or {".", ".."} & {*parts.path.split("/")}:
        raise UsageError(f"'{format_one_line(text)}' is not the URL of a repository", SOURCE_FORMS)
    if has_credentials:
        raise UsageError(
            "the URL contains a password or token", "leave out what is before the @; git has credential helpers"
        )
    is_allowed = parts.scheme in ("https", "ssh", "file") or (parts.scheme == "http" and is_local_url(text))
    if not is_allowed or not (parts.hostname or parts.scheme == "file"):
        raise UsageError(f"cannot install from {format_one_line(text)!r}", "use https, ssh or a local path")
    if parts.scheme in ("ssh", "file"):
        return SkillLocation(parts.geturl())
    path = parts.path.rstrip("/")
    match = _PAGE_PATTERN.fullmatch(path)
    repository = (match[1] or match[3]).removesuffix("/-") if match else path
    rest = _to_folder(unquote(match[2] or match[4])) if match else ""
    return SkillLocation(f"{parts.scheme}://{parts.netloc}{repository}", ref_and_path=rest)


def _to_folder(path: str) -> str:
    """Return the path of the folder that a user means who names one of its files."""
    return re.sub(rf"(?:^|/)(?:{re.escape(MARKETPLACE_FILE)}|{re.escape(SKILL_FILE)})$", "", _normalize_path(path))


def _normalize_path(path: str) -> str:
    """Normalize the path of a folder in a repository; "" is the root.

    Raises:
        UsageError: it leads out of the repository.
    """
    normalized = posixpath.normpath(path or ".")
    if normalized.startswith("/") or ".." in normalized.split("/"):
        raise UsageError(f"{format_one_line(path)!r} is outside the repository")
    return "" if normalized == "." else normalized


class MarketplacePlugin(NamedTuple):
    """An entry of a marketplace, as far as it is about skills.

    Attributes:
        name: the name of the plugin.
        description: what it is for.
        folders: the folders of the repository whose skills it has.
        location: the other repository that has its skills; None if they are in this one.
        problem: why it cannot be used; "" if it can.
    """

    name: str
    description: str = ""
    folders: tuple[str, ...] = ()
    location: SkillLocation | None = None
    problem: str = ""


def parse_marketplace(data: bytes, folder: str, *, is_local: bool) -> list[MarketplacePlugin]:
    """Parse a marketplace in a folder of a repository. Each entry is judged alone.

    A plugin in another repository on this machine or network is refused unless `is_local`, as the marketplace then is.
    """
    marketplace = read_dict(parse_json(data.decode("utf-8-sig", "replace")))
    plugin_root = read_str(read_dict(marketplace.get("metadata")).get("pluginRoot"))
    plugins = []
    for entry in map(read_dict, read_list(marketplace.get("plugins"))):
        plugin = MarketplacePlugin(read_str(entry.get("name")), format_one_line(read_str(entry.get("description"))))
        if not plugin.name or not plugin.name.isprintable():
            continue
        try:
            source = entry.get("source")
            if isinstance(source, str):
                root = posixpath.join(folder, "" if source.startswith(".") else plugin_root, source)
                skills = list(filter(None, map(read_str, read_list(entry.get("skills")))))
                folders = tuple(_normalize_path(posixpath.join(root, path)) for path in skills or [""])
                plugin = plugin._replace(folders=folders)
            else:
                plugin = plugin._replace(location=_parse_plugin_source(read_dict(source), is_local=is_local))
        except UsageError as error:
            plugin = plugin._replace(problem=error.message)
        plugins.append(plugin)
    return plugins


def _parse_plugin_source(source: Mapping[str, Any], *, is_local: bool) -> SkillLocation:
    """Parse the source of a plugin in another repository.

    Raises:
        UsageError: it is not one that git can fetch, or must not be used.
    """
    keys = ("source", "repo", "url", "path", "sha", "ref")
    kind, repository, url, path, sha, ref = (read_str(source.get(key)) for key in keys)
    if kind == "github" and re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        url = f"{DEFAULT_SERVER}/{repository}"
    elif kind not in ("url", "git-subdir") or not url:
        raise UsageError(f"plugins from {format_one_line(kind) or 'this source'} cannot be installed")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", url):
        url = f"{DEFAULT_SERVER}/{url}"
    location = SkillLocation(url) if _SSH_PATTERN.fullmatch(url) else _parse_url(url)
    if location.is_local and not is_local:
        raise UsageError(f"the marketplace names a repository on this machine or network, {format_one_line(url)}")
    return _check_ref(location._replace(ref=sha or ref, path=_normalize_path(path), ref_and_path=""))
