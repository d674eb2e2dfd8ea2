"""The hooks that a plugin implements, checked, and found by pluggy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pluggy

from ask.config.type_checks import WrongTypeError, check_value, describe_type, describe_value, format_path
from ask.plugin_api.compatibility import accept_keywords, find_hook_mistake
from ask.plugin_api.provider import HOOK_PREFIX, Provider, list_hook_names
from ask.profiles import ModelProfile, find_pattern_problem

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
    return mistake or _find_profile_mistake(getattr(plugin, "profiles", ()))


def _find_profile_mistake(profiles: object) -> str:
    if not isinstance(profiles, Sequence) or not all(isinstance(profile, ModelProfile) for profile in profiles):
        return "profiles must be a tuple of ask.profiles.ModelProfile"
    try:
        check_value(profiles, Sequence[ModelProfile], ("profiles",))
    except WrongTypeError as error:
        return f"{format_path(error.path)} is {describe_value(error.value)}, not {describe_type(error.expected)}"
    problem = next(filter(None, (find_pattern_problem(profile.pattern) for profile in profiles)), "")
    return f"profiles: {problem}" if problem else ""


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
