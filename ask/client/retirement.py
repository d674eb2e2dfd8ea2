"""Models that are about to be retired: their dates from cached models lists, and a notice once a day.

The dates that the providers' lists name are also kept in a small file, because a run does not read the lists.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import write_private_file
from ask.config.directories import RETIREMENTS_NAME
from ask.parsing import parse_json, read_dict, read_list, read_str
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.types import ModelInfo
from ask.regular_files import read_regular_file

NOTICE_DAYS = 30
"""How many days before the retirement of a model the notices begin."""
DAY_SECONDS = 86_400
_file_lock = threading.Lock()
"""Held while the file is changed: ask doctor queries several providers at once."""


def find_retirement_date(provider: LoadedProvider, model: str, cache: Path) -> str | None:
    """Return the date from which on a model no longer answers, as YYYY-MM-DD; None if none is announced.

    The provider's models list, if one was cached, is newer than the model's profile.
    """
    listed = read_dict(read_dict(_read_file(cache).get("dates")).get(provider.info.name))
    date = read_str(listed.get(model) or listed.get(model.rpartition(":")[0]))
    return date or provider.find_profile(model).retirement_date


def is_due(date: str, days: int = NOTICE_DAYS) -> bool:
    """Check whether a date is at most this many days ahead."""
    return date <= time.strftime("%Y-%m-%d", time.localtime(time.time() + days * DAY_SECONDS))


def format_retirement(model: str, date: str) -> str:
    """Describe when a model is retired."""
    return f"{model} was due to be retired on {date}" if is_due(date, 0) else f"{model} will be retired on {date}"


def report_once_a_day(provider: LoadedProvider, model: str, cache: Path, notify: Callable[[str], None]) -> None:
    """Report that a model will be retired within `NOTICE_DAYS`, once for each model and day."""
    date = find_retirement_date(provider, model, cache)
    if date is None or not is_due(date):
        return
    content, today, name = _read_file(cache), time.strftime("%Y-%m-%d"), f"{provider.info.name}:{model}"
    reported = [each for each in read_list(content.get("reported")) if isinstance(each, str)]
    reported = reported if content.get("day") == today else []
    if name not in reported:
        notify(f"{format_retirement(model, date)}; choose another with -m (ask models lists them)")
        _write_file(cache, content | {"day": today, "reported": [*reported, name]})


def keep_retirement_dates(provider_name: str, models: Iterable[ModelInfo], cache: Path) -> None:
    """Keep the dates that a provider's models list names."""
    dates = {model.id: model.retirement_date for model in models if model.retirement_date}
    with _file_lock:
        content = _read_file(cache)
        known = read_dict(content.get("dates"))
        if known.get(provider_name, {}) != dates:
            _write_file(cache, content | {"dates": {**known, provider_name: dates}})


def _read_file(cache: Path) -> dict[str, Any]:
    try:
        return read_dict(parse_json(read_regular_file(cache / RETIREMENTS_NAME).decode()))
    except (OSError, ValueError):
        return {}


def _write_file(cache: Path, content: Mapping[str, Any]) -> None:
    with suppress(OSError):
        write_private_file(cache / RETIREMENTS_NAME, json.dumps(content).encode())
