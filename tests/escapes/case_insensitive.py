"""A read-only file system that ignores case, as those of Windows and macOS do when they are mounted on Linux."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

DEVICE = Path("/dev/fuse")
_BUFFER_BYTES = 1 << 20
_HEADER = struct.Struct("<IIQQIIII")
"""Of each request: length, operation, request id, node id, and four more (linux/fuse.h)."""
_MNT_DETACH = 2


class _Operation(IntEnum):
    """The operations that reading files needs."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    STATFS = 17
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    BATCH_FORGET = 42


@contextmanager
def mount_case_insensitive(folder: Path, files: Mapping[str, bytes]) -> Iterator[None]:
    """Mount a file system with these files, by their paths.

    Raises:
        OSError: the kernel or a container forbids it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"ask-test", os.fsencode(folder), b"fuse", 0, options):
        os.close(device)
        raise OSError(ctypes.get_errno(), "cannot mount")
    # In a process of its own: this one waits until a command has been started in the folder, and runs no other thread.
    content = json.dumps({name: data.decode() for name, data in files.items()})
    server = subprocess.Popen([sys.executable, __file__, str(device), content], pass_fds=[device])
    os.close(device)
    try:
        yield
    finally:
        libc.umount2(os.fsencode(folder), _MNT_DETACH)
        server.kill()
        server.wait()


class _Server:
    """Answers the kernel's requests until the file system is unmounted. The number of the root is 1."""

    def __init__(self, device: int, files: Mapping[str, bytes]) -> None:
        self._device = device
        self._nodes: list[bytes | dict[str, int]] = [{}, {}]
        for name, content in files.items():
            node = 1
            for part in name.split("/"):
                folder = self._nodes[node]
                assert isinstance(folder, dict)
                if part not in folder:
                    folder[part] = len(self._nodes)
                    self._nodes.append({})
                node = folder[part]
            self._nodes[node] = content

    def serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, _BUFFER_BYTES)
            except OSError:  # unmounted
                os.close(self._device)
                return
            _, operation, number, node, *_ = _HEADER.unpack_from(request)
            if operation in (_Operation.FORGET, _Operation.BATCH_FORGET):
                continue
            try:
                code, answer = 0, self._answer(operation, node, request[_HEADER.size :])
            except OSError as error:
                code, answer = -(error.errno or errno.EIO), b""
            os.write(self._device, struct.pack("<IiQ", 16 + len(answer), code, number) + answer)

    def _answer(self, operation: int, node: int, body: bytes) -> bytes:
        match operation:
            case _Operation.INIT:
                answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 0, 0, 0)
            case _Operation.LOOKUP:
                answer = self._look_up(node, body.rstrip(b"\0").decode())
            case _Operation.GETATTR:
                answer = bytes(16) + self._describe(node)
            case _Operation.READ | _Operation.READDIR:
                _, offset, size = struct.unpack_from("<QQI", body)
                content = self._nodes[node]
                answer = self._list(content, offset) if isinstance(content, dict) else content[offset : offset + size]
            case _Operation.STATFS:
                answer = struct.pack("<40xIIII24x", 4096, 255, 4096, 0)
            case _Operation.OPEN | _Operation.OPENDIR:
                answer = bytes(16)
            case _Operation.RELEASE | _Operation.RELEASEDIR | _Operation.FLUSH:
                answer = b""
            case _:
                raise OSError(errno.ENOSYS, "")
        return answer

    def _look_up(self, node: int, name: str) -> bytes:
        folder = self._nodes[node]
        assert isinstance(folder, dict)
        for each, number in folder.items():
            if each.lower() == name.lower():
                return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._describe(number)
        raise OSError(errno.ENOENT, "")

    def _describe(self, node: int) -> bytes:
        content = self._nodes[node]
        mode, size = (stat.S_IFDIR | 0o755, 0) if isinstance(content, dict) else (stat.S_IFREG | 0o644, len(content))
        return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _list(self, folder: Mapping[str, int], offset: int) -> bytes:
        entries = b""
        for position, (name, number) in enumerate(folder.items(), start=1):
            if position > offset:
                data = name.encode()
                kind = 4 if isinstance(self._nodes[number], dict) else 8  # DT_DIR or DT_REG
                entries += struct.pack("<QQII", number, position, len(data), kind) + data + bytes(-len(data) % 8)
        return entries


if __name__ == "__main__":
    _Server(int(sys.argv[1]), {name: text.encode() for name, text in json.loads(sys.argv[2]).items()}).serve()
