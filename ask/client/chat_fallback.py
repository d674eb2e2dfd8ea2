"""The fallback to Chat Completions for base URLs that do not have the Responses API."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from ask.atomic_files import write_private_file
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider_loading import switch_api
from ask.text import format_checksum

MISSING_API_STATUSES = (404, 405, 501)
"""HTTP statuses of a request to an API that a server does not have."""
MAX_AGE_SECONDS = 7 * 24 * 3600
"""How long a missing API is remembered; the server may be updated."""


class ChatFallback:
    """A provider on Chat Completions, to use once a base URL has turned out not to have the Responses API.

    Attributes:
        provider: the provider on Chat Completions.
        is_active: whether to use it.
    """

    def __init__(self, provider: LoadedProvider, marker: Path) -> None:
        self.provider = provider
        self._marker = marker
        self.is_active = self._is_remembered = False
        with contextlib.suppress(OSError):
            self.is_active = self._is_remembered = 0 <= time.time() - marker.stat().st_mtime < MAX_AGE_SECONDS

    def set_limits(self, time_limit: float, notify: Callable[[str], None]) -> None:
        """Limit each call of a hook, as `LoadedProvider.with_limits` does."""
        self.provider = self.provider.with_limits(time_limit, notify)

    def activate(self, provider: LoadedProvider, status: int) -> bool:
        """Use the fallback from now on if an HTTP status says that a provider's API is missing; return whether it does.

        It is true for each request of other rows that was in flight, because these fail in the same way.
        """
        if provider.openai_api != "responses" or status not in MISSING_API_STATUSES:
            return False
        self.is_active = True
        return True

    def remember(self) -> None:
        """Also use it in later runs, once it has answered."""
        if not self._is_remembered:
            self._is_remembered = True
            with contextlib.suppress(OSError):  # without it, the next run sends one request more
                write_private_file(self._marker, b"")


def create_chat_fallback(provider: LoadedProvider, base_url: str, cache: Path) -> ChatFallback:
    """Create the fallback for a provider on the Responses API, at a base URL that is not its own."""
    # Only a checksum of the base URL, which may contain a password.
    marker = cache / "chat-only" / f"{provider.info.name}-{format_checksum(base_url)}"
    return ChatFallback(switch_api(provider, "chat"), marker)
