"""The hooks that a plugin implements, checked, and found by pluggy."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pluggy

from ask.plugin_api.compatibility import accept_keywords, find_hook_mistake, find_profile_mistake
from ask.plugin_api.provider import HOOK_PREFIX, Provider, list_hook_names
from ask.profiles import ModelProfile

PROJECT_NAME = "ask"


class ProviderManager(pluggy.PluginManager):
    """A plugin manager for the hooks of `Provider`; every `provider_*` callable implements one."""

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return {"firstresult": True} if name.startswith(HOOK_PREFIX) else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return {} if name.startswith(HOOK_PREFIX) and callable(getattr(plugin, name, None)) else None


def find_mistake(plugin: Provider | ModuleType) -> str:
    """Return what is wrong with a plugin's hooks or profiles; "" if nothing is."""
    mistake = find_hook_mistake(plugin, Provider, HOOK_PREFIX)
    return mistake or find_profile_mistake(getattr(plugin, "profiles", ()), ModelProfile)


def bind_hooks(plugin: Provider | ModuleType, name: str) -> dict[str, Callable[..., Any]]:
    """Return the functions with which a plugin implements hooks, to be called with all arguments as keywords.

    A function itself may have only some of the arguments, and a module may omit hooks.
    """
    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(Provider)
    manager.register(plugin, name)
    functions = {}
    for hook in list_hook_names():
        caller = getattr(manager.hook, hook)
        for implementation in caller.get_hookimpls():
            functions[hook] = accept_keywords(implementation.function, caller.spec.argnames)
    return functions
