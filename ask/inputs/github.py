"""`-f github:OWNER/REPO[/PATH][@REF]`: a file, a folder or all text files of a public repository, over HTTPS.

Requests have the limits of the tool `fetch_url`; no key or token is sent.
"""

from __future__ import annotations

import re
import tarfile
import time
import zlib
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import quote

from ask.errors import FileError, NetworkError
from ask.inputs.content_types import parse_content
from ask.inputs.git import LFS_POINTER
from ask.inputs.prompt_inputs import MAX_FILES, InputReaders, PromptInputs
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES
from ask.inputs.web_pages import NETWORK_HINT
from ask.records import NamedTuple
from ask.text import decode_argument, format_one_line, format_size
from ask.tools.base import ToolError
from ask.tools.http_get import MAX_BODY_BYTES, Fetcher, FetchResponse

DEFAULT_SERVER = "https://github.com"
ADDRESS_PATTERN = re.compile(r"([\w.-]+)/([\w.-]+?)(?:\.git)?(?:/(.*?))?(?:(?<!/)@([^@]+))?", re.DOTALL)
"""An @ at the beginning of a part of the path belongs to its name, as in packages/@scope."""
FORM = "OWNER/REPO, OWNER/REPO/PATH or either with @REF"
MAX_ARCHIVE_BYTES = 100_000_000
"""The limit for an archive once it is decompressed."""
MAX_NAMED_FILES = 3
"""How many skipped files a notice names."""
NOT_FOUND = "404"
HINTS = {
    "403": "the server refuses requests without a sign-in; clone the repository, and attach files with -f PATH",
    "429": "there were too many requests; try again later, or clone the repository and attach files with -f PATH",
}
"""What to do about a status. For 5xx that is to try again, and for all others to check the name."""
WEB_PAGE = "text/html"
"""The type of a page to log in, for example; that of a file with HTML is text/plain."""


class GitHubAddress(NamedTuple):
    """What `OWNER/REPO[/PATH][@REF]` names; the path is "" for the repository, `ref` "HEAD" for the default branch."""

    owner: str
    repository: str
    path: str
    ref: str

    @property
    def name(self) -> str:
        return f"{self.owner}/{self.repository}"


def load_github(rest: str, readers: InputReaders, suffix: str = "") -> PromptInputs:
    """Fetch a file or the text files of a folder.

    Args:
        rest: the address.
        readers: the time limit, and the variable with the server.
        suffix: what to add to the path if its last part has no dot; a folder is not looked for then.

    Raises:
        FileError: the address is invalid, there is no such file, or it is too large.
        NetworkError: it cannot be fetched.
    """
    address = _parse_address(rest)
    deadline = time.monotonic() + readers.timeout
    if suffix and "." not in address.path.rpartition("/")[2]:
        address = address._replace(path=f"{address.path}{suffix}")
    base_url = f"{_find_server(readers)}/{address.name}"
    if address.path:
        url = f"{base_url}/raw/{quote(address.ref)}/{quote(address.path)}"
        response = _fetch(url, deadline)
        if not response.is_error and not _is_web_page(response):
            name = f"{address.name}/{address.path}"
            return parse_content(name, response.body, MAX_TEXT_BYTES, keep_location=readers.keep_location)
        if suffix or _is_web_page(response) or not response.status_line.startswith(NOT_FOUND):
            raise _make_missing_error(response)
    response = _fetch(f"{base_url}/archive/{quote(address.ref)}.tar.gz", deadline)
    if response.is_error or _is_web_page(response):
        raise _make_missing_error(response)
    return _read_archive(response.body, address, readers)


def _find_server(readers: InputReaders) -> str:
    # GitHub Actions sets it, also to a server of GitHub Enterprise:
    # https://docs.github.com/actions/reference/workflows-and-actions/variables
    return (readers.environment.get("GITHUB_SERVER_URL", "").strip() or DEFAULT_SERVER).rstrip("/")


def _parse_address(rest: str) -> GitHubAddress:
    """Parse OWNER/REPO[/PATH][@REF].

    Raises:
        FileError: it is not of that form.
    """
    text = decode_argument(rest)
    match = ADDRESS_PATTERN.fullmatch(text)
    owner, repository, path, ref = (part or "" for part in match.groups()) if match else ("",) * 4
    path = path.strip("/")
    names = (owner, repository, *path.split("/"), *ref.split("/"))
    if not match or any(name in (".", "..") for name in names) or not (path.isprintable() and ref.isprintable()):
        raise FileError(f"{format_one_line(text)!r} is not a repository or file on GitHub", f"write {FORM}")
    return GitHubAddress(owner, repository, path, ref or "HEAD")


def _fetch(url: str, deadline: float) -> FetchResponse:
    """Fetch a URL in full.

    Raises:
        FileError: it is too large.
        NetworkError: it cannot be fetched, or only in part.
    """
    try:
        response = Fetcher(max(deadline - time.monotonic(), 0.1), None).fetch(url)
    except ToolError as error:
        raise NetworkError(format_one_line(str(error)), NETWORK_HINT) from None
    if response.truncation_reason and len(response.body) >= MAX_BODY_BYTES:
        hint = "name a file of it, or clone the repository and attach a folder"
        raise FileError(f"{format_one_line(url)} is larger than {format_size(MAX_BODY_BYTES)}", hint)
    if response.truncation_reason and not response.is_error:
        raise NetworkError(f"{format_one_line(url)} is incomplete ({response.truncation_reason})", NETWORK_HINT)
    return response


def _is_web_page(response: FetchResponse) -> bool:
    return not response.is_error and response.content_type.lower().startswith(WEB_PAGE)


def _make_missing_error(response: FetchResponse) -> FileError:
    url, status = format_one_line(response.url), format_one_line(response.status_line)
    hint = "check the name; private repositories cannot be read: clone them, and attach files with -f PATH"
    if _is_web_page(response):
        return FileError(f"{url} is a web page, perhaps to sign in", hint)
    if status.startswith("5"):
        hint = "try again later"
    return FileError(f"cannot read {url} ({status})", HINTS.get(status[:3], hint))


def _read_archive(data: bytes, address: GitHubAddress, readers: InputReaders) -> PromptInputs:
    """Return the text files of an archive that are below the path of the address, and the names of others.

    Raises:
        FileError: it is damaged or too large, or contains no such text file.
    """
    texts: list[tuple[str, str]] = []
    notes: list[str] = []
    skipped: list[str] = []
    size = 0
    try:
        archive = zlib.decompressobj(wbits=31).decompress(data, MAX_ARCHIVE_BYTES + 1)
        if len(archive) > MAX_ARCHIVE_BYTES:
            raise FileError(f"{address.name} is larger than {format_size(MAX_ARCHIVE_BYTES)}", "name a file of it")
        for path, content in _iterate_files(archive, address.path):
            name = f"{address.name}/{path}"
            try:
                found = parse_content(name, content, MAX_TEXT_BYTES)
            except FileError:
                found = PromptInputs()
            if not found.texts or content.startswith(LFS_POINTER):
                skipped.append(f"{name}: {'in Git LFS' if content.startswith(LFS_POINTER) else 'not text'}")
                continue
            texts += found.texts
            notes += found.encoding_notes
            size += len(found.texts[0][1])
            if size > MAX_TEXT_BYTES or len(texts) > MAX_FILES:
                limits = f"{format_size(MAX_TEXT_BYTES)} of text or {MAX_FILES:,} files"
                raise FileError(f"{address.name} contains more than {limits}", "name a folder or a file of it")
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:  # tarfile raises all of them
        raise FileError(f"the archive of {address.name} is damaged ({error})", "try again") from None
    if not texts:
        examples = "; ".join(skipped[:MAX_NAMED_FILES])
        hint = f"skipped: {examples}" if examples else "check the path"
        raise FileError(f"{address.name} has no text files below {address.path or '/'}", hint)
    if skipped:
        texts.append((f"{address.name}/{address.path}".rstrip("/"), "\n".join(("Skipped:", *skipped))))
    return PromptInputs(texts=tuple(texts), skipped_files=tuple(skipped), encoding_notes=tuple(notes))


def _iterate_files(archive: bytes, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of each regular file that is `path`, or below it."""
    with tarfile.open(fileobj=BytesIO(archive), mode="r:") as tar:
        for member in tar:
            name = format_one_line(
                decode_argument(member.name.partition("/")[2])
            )  # the first part names the repository and commit
            if not member.isreg() or member.sparse or not (name == path or not path or name.startswith(f"{path}/")):
                continue
            file = tar.extractfile(member)
            if file is not None:
                yield name, file.read()
