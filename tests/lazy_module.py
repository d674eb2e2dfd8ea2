"""SDKs that take almost a second to import: only the workers that run tests of them do so."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """A module that is imported when one of its attributes is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for such attributes in everything that a test module contains
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
