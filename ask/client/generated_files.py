"""Saving the images that models generate, in the current folder or in that of the setting `media_dir`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from ask.app import AppContext
from ask.attachments import describe_attachment
from ask.config.settings import Settings
from ask.config.symbolic_links import expand_folder, resolve_output
from ask.errors import AskError, FileError
from ask.events import Event, FileSaved, Notice
from ask.messages import Attachment

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class GeneratedFileSaver:
    """Saves the images of a run's answers, and reports their names.

    Args:
        directory: the folder of the run.
        settings: its settings.
        app: the user's installation.
        on_event: receives a `FileSaved` and a notice for each image when `report` is called, after the answer.

    Attributes:
        error: the first error; None if all images are saved. The run goes on, and the history has the image.
    """

    def __init__(self, directory: Path, settings: Settings, app: AppContext, on_event: Callable[[Event], None]) -> None:
        self._directory = directory
        self._settings = settings
        self._app = app
        self._on_event = on_event
        self.error: AskError | None = None
        self._unreported: list[Event] = []

    def save(self, files: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """Save images, and return them with the names of their files. One that cannot be saved keeps its name."""
        saved: list[Attachment] = []
        for file in files:
            try:
                path = save_generated_file(file, self._directory, self._settings, self._app, self._notify)
            except FileError as error:
                if self._settings.save:
                    error.hint = "the conversation contains it: ask -c can continue with it"
                self.error = self.error or error
                saved.append(file)
                continue
            named = file._replace(name=path.name)
            saved.append(named)
            self._unreported.append(FileSaved(str(path), named.media_type, len(named.data)))
            shown = path.name if path.parent == self._directory else str(path)
            self._notify(f"saved {describe_attachment(named._replace(name=shown))}")
        return tuple(saved)

    def report(self) -> None:
        """Report what was saved."""
        events, self._unreported = self._unreported, []
        for event in events:
            self._on_event(event)

    def _notify(self, text: str) -> None:
        self._unreported.append(Notice(text))


def save_generated_file(
    file: Attachment,
    directory: Path,
    settings: Settings,
    app: AppContext,
    notify: Callable[[str], None],
    *,
    stem: str = "",
) -> Path:
    """Save an image under a new name, which begins with `stem` or is the image's own; return the path.

    No file is ever replaced. In safe mode, the image stays in a folder that tools may write.

    Args:
        file: the image, whose name has the right suffix.
        directory: the folder of the run.
        settings: its settings.
        app: the user's installation.
        notify: called with a line for the user if the setting `media_dir` cannot be used.
        stem: the name without its suffix.

    Raises:
        FileError: it cannot be written.
    """
    folder = directory
    if media_dir := settings.media_dir:
        folder = resolve_output(folder / expand_folder(media_dir, "media_dir"), app.app_dirs)
        allowed = [expand_folder(each, "safe.allow_dirs") for each in settings.allow_dirs]
        writable = [os.path.realpath(directory / each) for each in (Path(), *allowed)]
        if settings.safe and not any(map(folder.is_relative_to, writable)):
            notify(f"media_dir ({folder}) is outside the folders of safe mode; saving in the current folder")
            folder = directory
    own_stem, suffix = os.path.splitext(file.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Relative to a descriptor: a tool's process that still runs could replace the folder by a link.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            name = _write_new_file(descriptor, stem or own_stem, suffix, file.data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(f"cannot save the image {folder / file.name} ({error.strerror})") from error
    return folder / name


def _write_new_file(folder: int, stem: str, suffix: str, data: bytes) -> str:
    """Write a file under the first name that is free, such as image.png or image-2.png; return the name.

    Raises:
        OSError: it cannot be written; a part of it is deleted.
    """
    for number in count(1):
        name = f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}"
        try:
            descriptor = os.open(name, _CREATE_FLAGS, 0o666, dir_fd=folder)
        except FileExistsError:
            continue
        break
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BaseException:  # also Ctrl-C
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return name
