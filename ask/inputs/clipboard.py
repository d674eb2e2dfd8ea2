"""`-f clipboard:`: reading an image or text from the clipboard with the system's clipboard program."""

from __future__ import annotations

import re
import shutil
import subprocess
from binascii import a2b_base64, unhexlify
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from ask.errors import FileError, MissingDependencyError
from ask.records import NamedTuple

READ_TIMEOUT_SECONDS = 10.0
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""The image types to read, in order of preference."""
APPLE_PNG_PATTERN = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
"""The form in which osascript prints an image: «data PNGf89504E47...»."""
POWERSHELL_SCRIPT = """\
Add-Type -AssemblyName System.Windows.Forms
$image = [Windows.Forms.Clipboard]::GetImage()
if ($image) {
  $stream = New-Object IO.MemoryStream
  $image.Save($stream, [Drawing.Imaging.ImageFormat]::Png)
  $bytes = $stream.ToArray()
} else {
  $bytes = [Text.Encoding]::UTF8.GetBytes([Windows.Forms.Clipboard]::GetText())
}
[Console]::Out.Write([Convert]::ToBase64String($bytes))
"""
"""Prints Base64, since PowerShell writes text in the system's encoding."""


RunProgram = Callable[[Sequence[str]], bytes]
"""Runs a program and returns its output."""


class ClipboardReadError(Exception):
    """The program failed, or the clipboard does not contain the requested type."""


class ClipboardReader(NamedTuple):
    """A program that reads the clipboard.

    Attributes:
        program: its name.
        read: reads an image, or else text.
        package: the package to install; "" if the system includes the program.
        required_variable: the environment variable that must be set for this clipboard to exist; "" for none.
    """

    program: str
    read: Callable[[RunProgram], bytes]
    package: str = ""
    required_variable: str = ""


def read_clipboard(environment: Mapping[str, str]) -> bytes:
    """Read the clipboard.

    Raises:
        MissingDependencyError: there is no clipboard, or no program to read it.
        FileError: it is empty or cannot be read.
    """
    usable = [
        reader
        for reader in CLIPBOARD_READERS
        # Without a required variable, this looks up "", which no variable is called, and is true.
        if environment.get(reader.required_variable, not reader.required_variable)
    ]
    installed = [reader for reader in usable if shutil.which(reader.program, path=environment.get("PATH"))]
    if not installed:
        installable = next((reader for reader in usable if reader.package), None)
        if installable is None:
            raise MissingDependencyError("there is no clipboard", "neither WAYLAND_DISPLAY nor DISPLAY is set")
        reason = f"{installable.program}, which reads the clipboard, is not installed"
        raise MissingDependencyError(reason, f"install {installable.package}")
    reader = installed[0]
    try:
        data = reader.read(partial(_run_program, environment))
    except subprocess.TimeoutExpired:
        reason = f"{reader.program} did not answer within {READ_TIMEOUT_SECONDS:g} s"
        hint = "copy it again: the program that offers it may not respond"
        raise FileError(f"cannot read the clipboard: {reason}", hint) from None
    except (ClipboardReadError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or "it failed"
        raise FileError(f"cannot read the clipboard ({reader.program}: {reason})", "copy something first") from None
    if not data.strip():
        raise FileError("the clipboard is empty", "copy something first")
    return data


def _run_program(environment: Mapping[str, str], command: Sequence[str]) -> bytes:
    """Run a program and return its output.

    Raises:
        ClipboardReadError: it failed.
        OSError: it cannot be run.
        subprocess.TimeoutExpired: it takes too long.
    """
    process = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=READ_TIMEOUT_SECONDS,
        check=False,
    )
    if process.returncode:
        raise ClipboardReadError(process.stderr.decode(errors="replace").strip() or f"exit status {process.returncode}")
    return process.stdout


def _choose_image_type(offered_types: bytes) -> str:
    """Choose the preferred image type among the offered ones; "" if there is none."""
    types = offered_types.decode(errors="replace").split()
    return next((image_type for image_type in IMAGE_TYPES if image_type in types), "")


def _read_wayland(run: RunProgram) -> bytes:
    """Read the clipboard with wl-paste."""
    image_type = _choose_image_type(run(["wl-paste", "--list-types"]))
    return run(["wl-paste", *(["--type", image_type] if image_type else ["--no-newline"])])


def _read_x11(run: RunProgram) -> bytes:
    """Read the clipboard with xclip."""
    command = ["xclip", "-selection", "clipboard", "-out", "-target"]
    return run([*command, _choose_image_type(run([*command, "TARGETS"])) or "UTF8_STRING"])


def _read_macos(run: RunProgram) -> bytes:
    """Read an image with osascript, or else text with pbpaste."""
    with suppress(ClipboardReadError, OSError):  # there is no image
        if match := APPLE_PNG_PATTERN.search(run(["osascript", "-e", "the clipboard as «class PNGf»"])):
            return unhexlify(match[1])
    return run(["pbpaste"])


def _read_windows(run: RunProgram) -> bytes:
    """Read the clipboard of Windows with PowerShell, from WSL."""
    return a2b_base64(run(["powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-Command", POWERSHELL_SCRIPT]))


CLIPBOARD_READERS = (
    ClipboardReader("pbpaste", _read_macos),
    ClipboardReader("powershell.exe", _read_windows, required_variable="WSL_DISTRO_NAME"),
    ClipboardReader("wl-paste", _read_wayland, "wl-clipboard", "WAYLAND_DISPLAY"),
    ClipboardReader("xclip", _read_x11, "xclip", "DISPLAY"),
    ClipboardReader("xsel", lambda run: run(["xsel", "--clipboard", "--output"]), "xclip", "DISPLAY"),
)
"""The readers, in the order in which they are tried. xsel reads only text."""
