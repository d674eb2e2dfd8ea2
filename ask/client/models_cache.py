"""What providers' models lists said, kept in the cache folder: one file for each provider and address.

A list says which models there are, how long their context is and whether they call tools; prices are not kept. What
is to be done about an old list is for whoever reads it.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from ask.atomic_files import write_private_file
from ask.parsing import as_dict, as_int, as_list, as_number, as_text
from ask.plugin_api.provider import ModelInfo


class CachedModels(NamedTuple):
    """A models list as it was; `age` is in seconds, infinite where there is none."""

    models: tuple[ModelInfo, ...] = ()
    age: float = float("inf")


def get_cache_file(folder: Path, provider: str, base_url: str) -> Path:
    """Where the list of a provider under that address is kept.

    The address is no part of the name but for a checksum: it may hold a password.
    """
    return folder / "models" / f"{_sanitize_file_name(provider)}-{crc32(base_url.encode('utf-8', 'replace')):08x}.json"


def find_newest_file(folder: Path, provider: str) -> Path:
    """The list of a provider that was kept last, under whatever address; it need not exist."""
    kept = (folder / "models").glob(f"{_sanitize_file_name(provider)}-{'[0-9a-f]' * 8}.json")
    return max(kept, key=lambda file: file.stat().st_mtime, default=get_cache_file(folder, provider, ""))


def _sanitize_file_name(provider: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", provider)


def read_models(file: Path) -> CachedModels:
    """The list that is kept; an empty one where there is none, or none that can be read."""
    try:
        kept = as_dict(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return CachedModels()
    written = as_number(kept.get("time"))
    age = time.time() - written if written is not None else -1
    entries = [as_dict(entry) for entry in as_list(kept.get("models"))]
    models = tuple(
        ModelInfo(
            id=as_text(entry.get("id")),
            context_length=as_int(entry.get("context_length")),
            tools=entry["tools"] if isinstance(entry.get("tools"), bool) else None,
        )
        for entry in entries
        if as_text(entry.get("id"))
    )
    return CachedModels(models, age if age >= 0 else float("inf"))


def write_models(file: Path, models: Sequence[ModelInfo], age: float = 0) -> None:
    """Keep a list, as one of that age in seconds. Where that fails there is none next time, which does no harm."""
    rows = [{"id": model.id, "context_length": model.context_length, "tools": model.tools} for model in models]
    with contextlib.suppress(OSError):
        write_private_file(file, json.dumps({"time": time.time() - age, "models": rows}).encode())


def find_model(models: Sequence[ModelInfo], model_id: str) -> ModelInfo | None:
    """The entry of a model that may be named otherwise than in the list: without tag or date, or with a variant."""
    by_id = {model.id: model for model in models}
    base = model_id.rpartition(":")[0]
    found = by_id.get(model_id) or by_id.get(f"{model_id}:latest") or by_id.get(base)
    dated = re.compile(rf"{re.escape(model_id)}-(\d{{8}}|\d{{4}}-\d\d-\d\d)")
    return found or next((model for model in models if dated.fullmatch(model.id)), None)
