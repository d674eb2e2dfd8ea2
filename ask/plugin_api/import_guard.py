"""Guards for importing plugins: one that takes long or prints is reported, and none can end the process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ask.errors import ConfigError, PluginError, SignalExit
from ask.plugin_api.compatibility import explain_load_error, explain_version
from ask.plugin_api.installed_plugins import PluginEntry
from ask.plugin_api.output_capture import NotifyCallback, block_exit, capture_output
from ask.text import format_one_line

T = TypeVar("T")
SLOW_LOAD_SECONDS = 1.0
"""Seconds after which a plugin that is still loading is reported."""


@contextmanager
def report_slow_loading(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Report the plugin as soon as the block has run for `SLOW_LOAD_SECONDS`."""
    timer = threading.Timer(SLOW_LOAD_SECONDS, notify, [f"the plugin {format_one_line(name)} is slow to load"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def import_plugin(entry: PluginEntry, kind: str, notify: NotifyCallback, check: Callable[[Any], T]) -> T:
    """Import the object of an entry point, and return what `check` makes of it. `kind` says in an error what it is.

    Raises:
        ConfigError: it cannot be loaded, or needs another version of the plugin API; and the errors of `check`.
    """
    title = f"{entry.name} ({entry.distribution})"
    with guard_import(title, notify):
        try:
            plugin = entry.load()
            mismatch = explain_version(plugin, sys.modules.get(entry.location[0]), entry.distribution)
            if not mismatch:
                return check(plugin)
        except (ConfigError, KeyboardInterrupt, SignalExit):
            raise
        except BaseException as error:
            reason, advice = explain_load_error(error, entry.location, entry.distribution)
            raise PluginError(f"cannot load the {kind} {title}: {format_one_line(reason)}", advice) from error
    raise ConfigError(f"cannot load the {kind} {title}: {mismatch[0]}", mismatch[1])


@contextmanager
def guard_import(name: str, notify: NotifyCallback) -> Iterator[None]:
    """Guard the import of the plugin `name` in the block. Whatever it prints is reported as one line.

    Native code can still end the process.
    """
    name = format_one_line(name)
    with (
        capture_output(f"{name} printed output while loading", notify) as notify_user,
        report_slow_loading(name, notify_user),
        block_exit(),
    ):
        yield
