"""Cached models lists, in one file per provider and base URL, and how long they are valid.

A list contains the models' ids, limits, efforts, tool support and prices.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import PRIVATE_FILE_MODE, create_private_folder, write_private_file
from ask.parsing import read_dict, read_int, read_list, read_number, read_str
from ask.plugin_api.types import ModelInfo
from ask.records import NamedTuple
from ask.regular_files import read_regular_file
from ask.text import format_checksum

REMOTE_LIST_SECONDS, LOCAL_LIST_SECONDS = 86_400.0, 60.0
"""Seconds for which a list is valid: that of a service, and of a local server, which may load models at any time."""
FAILED_LIST_RETRY_SECONDS = 600.0
"""Seconds after a failed request before the list is requested again."""


class CachedModels(NamedTuple):
    """A cached models list; `age` is in seconds, and infinite if there is no list."""

    models: tuple[ModelInfo, ...] = ()
    age: float = float("inf")


def get_cache_file(folder: Path, provider: str, base_url: str) -> Path:
    """Return the cache file for a provider and base URL.

    The name contains only a checksum of the base URL, which may contain a password.
    """
    return folder / "models" / f"{_sanitize_file_name(provider)}-{format_checksum(base_url)}.json"


def find_newest_file(folder: Path, provider: str) -> Path:
    """Return a provider's newest cache file for any base URL; it may not exist."""
    files = (folder / "models").glob(f"{_sanitize_file_name(provider)}-{'[0-9a-f]' * 8}.json")
    return max(files, key=lambda file: file.stat().st_mtime, default=get_cache_file(folder, provider, ""))


def _sanitize_file_name(provider: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", provider)


def read_models(file: Path) -> CachedModels:
    """Read a cached list; return an empty one if it is missing or damaged.

    Damaged entries are left out, and so are fields that this version does not have: versions share the cache.
    """
    try:
        content = json.loads(read_regular_file(file))
        age = time.time() - content["time"]
        models = [_parse_entry(entry) for entry in read_list(content["models"]) if read_str(read_dict(entry).get("id"))]
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return CachedModels()
    return CachedModels(tuple(models), age if age >= 0 else float("inf"))


def _parse_entry(entry: Mapping[str, Any]) -> ModelInfo:
    tools, efforts = entry.get("tools"), entry.get("efforts")
    return ModelInfo(
        id=read_str(entry["id"]),
        context_length=read_int(entry.get("context_length")),
        tools=tools if isinstance(tools, bool) else None,
        input_price=read_number(entry.get("input_price")),
        output_price=read_number(entry.get("output_price")),
        cached_input_price=read_number(entry.get("cached_input_price")),
        output_limit=read_int(entry.get("output_limit")),
        efforts=tuple(map(read_str, efforts)) if isinstance(efforts, list) else None,
        cache_write_price=read_number(entry.get("cache_write_price")),
        retirement_date=read_str(entry.get("retirement_date")) or None,
        deprecation_date=read_str(entry.get("deprecation_date")) or None,
    )


def write_models(file: Path, models: Sequence[ModelInfo], age: float = 0) -> None:
    """Write a list to the cache as if it were `age` seconds old, ignoring errors."""
    rows = [{name: value for name, value in model._asdict().items() if name != "title"} for model in models]
    with suppress(OSError):
        write_private_file(file, json.dumps({"time": time.time() - age, "models": rows}).encode())


def refresh_in_background(file: Path, provider: str) -> None:
    """Start a process that fetches a provider's models list, unless that was tried recently."""
    stamp_file = file.with_suffix(".asked")
    with suppress(OSError):
        create_private_folder(stamp_file.parent)
        if stamp_file.exists() and 0 <= time.time() - stamp_file.stat().st_mtime < FAILED_LIST_RETRY_SECONDS:
            return
        stamp_file.touch(PRIVATE_FILE_MODE)
        from subprocess import DEVNULL, Popen

        # Without -P, Python would import modules from the working directory, which may not be trusted.
        command = [sys.executable, "-P", "-m", "ask", "models", "-p", provider]
        Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def find_model(models: Sequence[ModelInfo], model_id: str) -> ModelInfo | None:
    """Find a model in a list even if its id has a different form there.

    The list may add Ollama's tag ":latest" or a release date, or lack a variant such as OpenRouter's ":free".
    """
    by_id = {model.id: model for model in models}
    id_without_variant = model_id.rpartition(":")[0]
    found = by_id.get(model_id) or by_id.get(f"{model_id}:latest") or by_id.get(id_without_variant)
    dated_id = re.compile(rf"{re.escape(model_id)}-(\d{{8}}|\d{{4}}-\d\d-\d\d)")
    return found or next((model for model in models if dated_id.fullmatch(model.id)), None)
