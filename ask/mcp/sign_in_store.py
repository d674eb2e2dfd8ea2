"""Saved sign-ins to remote servers: tokens, and what is needed to refresh them.

There is one JSON file per server, which only the user can read.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import (
    convert_write_errors,
    create_private_folder,
    open_private_file,
    try_lock,
    write_private_file,
)
from ask.config.mcp_servers import ServerConfig
from ask.config.secrets import read_sign_in
from ask.errors import FileError
from ask.records import NamedTuple

_LOCK_POLL_SECONDS = 0.02


class SignInStore:
    """The saved sign-in to one server, whose variables must be expanded.

    It is valid only for the URL and the client ID that it was saved for, so that changing the configuration sends no
    token elsewhere.
    """

    def __init__(self, path: Path, server: ServerConfig) -> None:
        self._path = path
        self._configuration = {"url": server.url, "client_id": server.oauth.get("client_id", "")}

    def read(self) -> dict[str, Any]:
        """Read the values that `update` saved; {} if there are none."""
        record = read_sign_in(self._path)
        return record if record.get("configuration") == self._configuration else {}

    def update(self, values: Mapping[str, Any]) -> None:
        """Save values, which must be JSON. None removes a value.

        Raises:
            FileError: the file cannot be written.
        """
        old = self.read()
        record = {**old, "configuration": self._configuration, **values}
        record = {key: value for key, value in record.items() if value is not None}
        if record == old:
            return
        with convert_write_errors(self._path):
            write_private_file(self._path, json.dumps(record, indent=2).encode(), durable=True)

    @property
    def is_signed_in(self) -> bool:
        return "tokens" in self.read()

    @property
    def is_sign_in_required(self) -> bool:
        """Whether the server has asked for a sign-in that has not been made."""
        return "challenge" in self.read()

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Lock the sign-in against other runs, from reading a refresh token to saving the one that replaces it.

        The lock is polled for, because a blocked thread would delay the end of the run. A file system without locks is
        used without one.
        """
        import asyncio

        descriptor = -1
        try:
            with suppress(OSError):
                create_private_folder(self._path.parent)
                descriptor = open_private_file(self._path.with_suffix(".lock"), os.O_WRONLY)
            while descriptor >= 0 and not try_lock(descriptor):
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            if descriptor >= 0:
                os.close(descriptor)


class SignIns(NamedTuple):
    """The folder of saved sign-ins, and a function that finds a saved API key by its name."""

    folder: Path
    find_key: Callable[[str], str]

    def open(self, server: ServerConfig) -> SignInStore:
        """Open the sign-in to a server, which need not exist."""
        return SignInStore(self._build_path(server.name), server)

    def delete(self, server_name: str) -> dict[str, Any]:
        """Delete the sign-in to a server; return what it contained, {} if there was none.

        Raises:
            FileError: the file cannot be deleted.
        """
        path = self._build_path(server_name)
        record = read_sign_in(path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FileError(f"cannot delete {path} ({error.strerror})") from error
        return record

    def find_client_secret(self, server: ServerConfig) -> str:
        """Find the client secret of a server: the configured one, or the saved key `mcp:NAME`."""
        return server.oauth.get("client_secret") or self.find_key(f"mcp:{server.name}")

    def _build_path(self, server_name: str) -> Path:
        return self.folder / f"{server_name}.json"
