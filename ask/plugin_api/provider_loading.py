"""Loads and checks the selected provider. `ask.tools.plugins` loads tools and loaders of -f, `ask.cli` commands."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, cast

from ask import __distribution__
from ask.console import protect_standard_output
from ask.errors import ConfigError
from ask.plugin_api.installed_plugins import PluginEntry, select_entry
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS, TOOL_HOOKS, Provider, list_hook_names
from ask.plugin_api.types import ProviderInfo

if TYPE_CHECKING:
    from ask.plugin_api.chat_completions import ChatCompletions
    from ask.plugin_api.output_capture import NotifyCallback
    from ask.plugin_api.responses import Responses

OWN_SOURCES = (__distribution__, "config.toml")
"""Where the providers come from that run ask's own code. Their hooks are checked by tests, and not in each run."""


def load_provider(entries: tuple[PluginEntry, ...], notify: NotifyCallback) -> LoadedProvider:
    """Import and check the provider with these entries.

    A slow import, and output during the import, is reported to `notify`.

    Raises:
        ConfigError: two distributions use the name, or the plugin is broken.
    """
    entry = select_entry(entries, "provider")
    if entry.distribution == __distribution__:
        return check_provider(entry.load(), entry.name, entry.distribution)
    from ask.plugin_api.import_guard import import_plugin

    protect_standard_output()
    provider = import_plugin(
        entry, "provider", notify, lambda plugin: check_provider(plugin, entry.name, entry.distribution)
    )
    if provider.info.name != entry.name:
        names = f"its entry point is named {entry.name}, and its ProviderInfo.name is {provider.info.name!r}"
        raise _make_provider_error(entry.name, entry.distribution, f"{names}, which must be the same")
    return provider


def check_provider(plugin: object, name: str, distribution: str) -> LoadedProvider:
    """Check that a plugin implements the required provider hooks, and register it with the defaults of the others.

    Raises:
        ConfigError: it is a class, lacks a required hook, or has a hook with an unknown name or argument.
    """
    if isinstance(plugin, Provider) and distribution in OWN_SOURCES:
        functions = {hook: getattr(plugin, hook) for hook in list_hook_names()}
        return LoadedProvider(functions, plugin.info, plugin=plugin, profiles=plugin.profiles, is_third_party=False)
    make_error = partial(_make_provider_error, name, distribution)
    if isinstance(plugin, type):
        raise make_error(f"{plugin.__name__} is a class; the entry point must name an instance")
    if not isinstance(plugin, Provider | ModuleType):
        raise make_error(f"it must be an instance of ask.Provider, or a module, not {type(plugin).__name__}")
    from ask.plugin_api.hook_binding import bind_hooks, find_mistake

    if mistake := find_mistake(plugin):
        raise make_error(mistake)
    functions = bind_hooks(plugin, name)
    required: tuple[str, ...] = REQUIRED_HOOKS
    if isinstance(plugin, ModuleType):
        required = MODULE_HOOKS + required
    elif not defines_hook(plugin, "provider_supports_tools"):  # the inherited one returns True
        required = TOOL_HOOKS + required
    if missing := [hook for hook in required if not defines_hook(plugin, hook)]:
        raise make_error(f"missing: {', '.join(missing)}")
    try:
        info = functions["provider_info"]()
    except Exception as error:
        raise make_error(f"provider_info: {type(error).__name__}: {error}") from error
    if not isinstance(info, ProviderInfo):
        raise make_error("provider_info does not return a ProviderInfo")
    default = Provider(info)
    provider = LoadedProvider(
        {hook: getattr(default, hook) for hook in list_hook_names()} | functions,
        info,
        plugin=plugin,
        profiles=getattr(plugin, "profiles", ()),
        is_third_party=distribution not in OWN_SOURCES,
        missing_tool_hooks=[hook for hook in TOOL_HOOKS if not defines_hook(plugin, hook)],
    )
    provider.check_result("provider_info", info, ProviderInfo)
    return provider


def switch_api(provider: LoadedProvider, api: str) -> LoadedProvider:
    """Return a provider that speaks one of OpenAI's APIs on "responses" or "chat"."""
    if provider.openai_api == api:
        return provider
    if api == "responses":
        from ask.plugin_api.responses import Responses

        plugin: Provider = Responses(cast("ChatCompletions", provider.plugin))
    else:
        plugin = cast("Responses", provider.plugin).chat
    switched = check_provider(plugin, provider.info.name, "" if provider.is_third_party else __distribution__)
    return switched.with_profiles(provider.configured_profiles, provider.listed_profiles)


def defines_hook(plugin: Provider | ModuleType, hook: str) -> bool:
    """Check whether a plugin defines a hook. Inheriting the default does not count."""
    if isinstance(plugin, ModuleType):
        return callable(vars(plugin).get(hook))
    return getattr(getattr(plugin, hook), "__func__", None) is not getattr(Provider, hook)


def _make_provider_error(name: str, distribution: str, reason: str) -> ConfigError:
    """Return the error for a provider plugin that cannot be used."""
    if not distribution:
        return ConfigError(f"cannot load the provider {name}", reason)
    advice = f"report it to the authors of {distribution}, or uninstall it"
    return ConfigError(f"cannot load the provider {name} ({distribution}): {reason}", advice)
