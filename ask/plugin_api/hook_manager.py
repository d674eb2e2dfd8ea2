"""The hooks of providers that do not come with ask: their implementations are checked and called by pluggy."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy

from ask.plugin_api.provider import Provider, list_hook_names
from ask.suggestions import format_suggestion

PROJECT_NAME = "ask"


class ProviderManager(pluggy.PluginManager):
    """A plugin manager for the hooks of `Provider`; every `provider_*` callable implements one."""

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return {"firstresult": True} if name.startswith("provider_") else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return {} if name.startswith("provider_") and callable(getattr(plugin, name, None)) else None

    def add_defaults(self, default: Provider) -> None:
        """Register the default of each hook that the plugin, a module, omits."""
        omitted = [hook for hook in list_hook_names() if not getattr(self.hook, hook).get_hookimpls()]
        self.register(SimpleNamespace(**{hook: getattr(default, hook) for hook in omitted}))


def create_hook_manager(plugin: Provider | ModuleType, name: str) -> ProviderManager:
    """Return a manager that calls the hooks of a plugin.

    Raises:
        ValueError: a hook has an unknown name or argument.
    """
    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(Provider)
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise ValueError(explain_hook_error(str(error))) from error
    return manager


def explain_hook_error(message: str) -> str:
    """Return pluggy's error, or a suggestion for a misspelled hook."""
    hook = next((word.strip("'") for word in message.split() if word.strip("'").startswith("provider_")), "")
    if not hook or hook in list_hook_names():
        return message
    hint = format_suggestion(hook, list_hook_names(), otherwise="")
    return f"unknown hook {hook}" + (f"; {hint}" if hint else "")
