"""`-f clipboard:`: what the clipboard holds, an image before a text, by the program that reads it on this system."""

from __future__ import annotations

import re
import shutil
import subprocess
from binascii import a2b_base64, unhexlify
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ask.errors import FileError, MissingDependencyError

READ_TIMEOUT = 10.0
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""What is taken of an image that is there in several forms, the best first."""
APPLE_PNG_PATTERN = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")
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
"""In Base64, since what PowerShell writes is otherwise text in the system's encoding."""


class ClipboardReadError(Exception):
    """A program ended with an error, or holds nothing of what was asked for."""


class ClipboardReader(NamedTuple):
    """A program that reads a clipboard.

    Attributes:
        program: its name.
        read: reads an image or else text.
        package: what to install; "" where the system has it.
        required_variable: the environment variable without which its clipboard is not there; "" for none.
    """

    program: str
    read: Callable[[Mapping[str, str]], bytes]
    package: str = ""
    required_variable: str = ""


def read_clipboard(environment: Mapping[str, str]) -> bytes:
    """What the clipboard holds.

    Args:
        environment: of the programs.

    Raises:
        MissingProgram: there is no clipboard, or no program that reads it.
        FileError: it is empty, or cannot be read.
    """
    usable = [
        reader
        for reader in CLIPBOARD_READERS
        if not reader.required_variable or environment.get(reader.required_variable)
    ]
    present = [reader for reader in usable if shutil.which(reader.program, path=environment.get("PATH"))]
    if not present:
        wanted = next((reader for reader in usable if reader.package), None)
        if wanted is None:
            raise MissingDependencyError("there is no clipboard here", "neither WAYLAND_DISPLAY nor DISPLAY is set")
        raise MissingDependencyError(
            f"{wanted.program} is not installed, which reads the clipboard", f"install {wanted.package}"
        )
    reader = present[0]
    try:
        data = reader.read(environment)
    except (ClipboardReadError, OSError, ValueError, subprocess.TimeoutExpired) as fault:
        reason = " ".join(str(fault).split())[:200] or "it failed"
        raise FileError(f"cannot read the clipboard ({reader.program}: {reason})", "copy something first") from None
    if not data.strip():
        raise FileError("the clipboard is empty", "copy something first")
    return data


def run_program(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """What a program writes.

    Raises:
        Failed: it ends with an error.
        OSError: it cannot be run.
        subprocess.TimeoutExpired: it takes too long.
    """
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=READ_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise ClipboardReadError(done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}")
    return done.stdout


def choose_image_type(offered_types: bytes) -> str:
    """The best of the image types in a list of what is on offer; "" where there is none."""
    offered = offered_types.decode(errors="replace").split()
    return next((kind for kind in IMAGE_TYPES if kind in offered), "")


def read_wayland(environment: Mapping[str, str]) -> bytes:
    """By wl-paste."""
    kind = choose_image_type(run_program(["wl-paste", "--list-types"], environment))
    how = ["--type", kind] if kind else ["--no-newline"]
    return run_program(["wl-paste", *how], environment)


def read_x11(environment: Mapping[str, str]) -> bytes:
    """By xclip."""
    command = ["xclip", "-selection", "clipboard", "-out", "-target"]
    kind = choose_image_type(run_program([*command, "TARGETS"], environment))
    return run_program([*command, kind or "UTF8_STRING"], environment)


def read_x11_text(environment: Mapping[str, str]) -> bytes:
    """By xsel, which reads text alone."""
    return run_program(["xsel", "--clipboard", "--output"], environment)


def read_macos(environment: Mapping[str, str]) -> bytes:
    """By osascript where there is an image, else by pbpaste."""
    try:
        told = run_program(["osascript", "-e", "the clipboard as «class PNGf»"], environment)
    except (ClipboardReadError, OSError):  # there is no image
        told = b""
    found = APPLE_PNG_PATTERN.search(told)
    return unhexlify(found[1]) if found else run_program(["pbpaste"], environment)


def read_windows(environment: Mapping[str, str]) -> bytes:
    """By PowerShell, from Linux inside of Windows."""
    command = ["powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-Command", POWERSHELL_SCRIPT]
    return a2b_base64(run_program(command, environment))


CLIPBOARD_READERS = (
    ClipboardReader("pbpaste", read_macos),
    ClipboardReader("powershell.exe", read_windows, required_variable="WSL_DISTRO_NAME"),
    ClipboardReader("wl-paste", read_wayland, "wl-clipboard", "WAYLAND_DISPLAY"),
    ClipboardReader("xclip", read_x11, "xclip", "DISPLAY"),
    ClipboardReader("xsel", read_x11_text, "xclip", "DISPLAY"),
)
"""In the order in which they are tried."""
