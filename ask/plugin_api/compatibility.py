"""Whether a plugin fits this version of the plugin API, and why one cannot be loaded.

Also used in the processes of tools and loaders, so it imports little.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from ask.text import format_suggestion

API_VERSION = 2
"""The version of the plugin API, an integer, which is raised if plugins have to be changed.

A plugin can declare the version that it was written for, in the module that its entry point names: `api_version = 2`.
(An attribute of the provider itself works, too.) It is compared before any hook is called, and if another version is
installed, the error says whether to upgrade ask or the package. The same works for modules with tools, loaders and
commands.
"""
VERSION_ATTRIBUTE = "api_version"
"""The name with which a plugin, or its module, declares the version of the API that it needs."""
OWN_PACKAGE = "ask"
Reason = tuple[str, str]
"""Why a plugin cannot be used, and what to do."""


def explain_version(plugin: object, module: object, distribution: str) -> Reason | None:
    """Return why a plugin needs another version of the API; None if it does not.

    The plugin, or the module in which its entry point finds it, may declare the version.
    """
    declared = getattr(plugin, VERSION_ATTRIBUTE, getattr(module, VERSION_ATTRIBUTE, None))
    return _compare_version(declared, distribution)


def _compare_version(declared: object, distribution: str) -> Reason | None:
    if declared is None:
        return None
    if type(declared) is not int or declared.bit_length() > 64:
        value = repr(declared) if isinstance(declared, str | float | bool) else type(declared).__name__
        return f"its {VERSION_ATTRIBUTE} is {value}, not a number such as {API_VERSION}", "correct it"
    if declared == API_VERSION:
        return None
    reason = f"it needs version {declared} of the plugin API, and this ask has version {API_VERSION}"
    return reason, f"upgrade {'ask' if declared > API_VERSION else distribution or 'it'}"


def explain_missing_name(error: BaseException) -> str:
    """Return which name of ask a plugin uses that does not exist; "" if that is not what the error says."""
    owner: object
    if isinstance(error, ImportError):
        owner, title = sys.modules.get(error.name or ""), str(error.name)
        imported = re.match("cannot import name '(.+?)'", str(error))
        name = imported[1] if imported else ""
    elif isinstance(error, AttributeError) and error.name:
        owner = error.obj if isinstance(error.obj, ModuleType | type) else type(error.obj)
        title, name = str(getattr(owner, "__qualname__", getattr(owner, "__name__", ""))), error.name
    else:
        return ""
    module = title if isinstance(owner, ModuleType) or owner is None else str(getattr(owner, "__module__", ""))
    if module.partition(".")[0] != OWN_PACKAGE:
        return ""
    known = getattr(owner, "__all__", dir(owner))
    missing = f"{title}.{name}{_suggest_name(name, known)}" if name else title
    return f"it uses {missing}, which version {API_VERSION} of the plugin API does not have"


def explain_load_error(error: BaseException, location: tuple[str, str], distribution: str) -> Reason:
    """Return why the object of an entry point at a location, a module and a name in it, cannot be loaded.

    Without a distribution, it is the user's own code.
    """
    module_name, attribute = location
    # A module that needs another version may fail because of that before it is complete.
    namespaces = [frame.f_globals for frame, _ in walk_tb(error.__traceback__)]
    namespaces.append(vars(sys.modules.get(module_name, error)))
    for namespace in namespaces:
        if namespace.get("__name__") == module_name and (
            mismatch := _compare_version(namespace.get(VERSION_ATTRIBUTE), distribution)
        ):
            return mismatch
    if missing := explain_missing_name(error):
        return missing, f"upgrade {distribution}, or ask itself" if distribution else "correct it, or upgrade ask"
    report = f"report it to the authors of {distribution}, or uninstall it" if distribution else ""
    target = f"its entry point names {module_name}:{attribute}" if attribute else f"its entry point names {module_name}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        if not f"{module_name}.".startswith(f"{error.name}."):
            return f"it needs the module {error.name}, which is not installed", "install it in the environment of ask"
        return (
            f"{target}, but there is no module {error.name}" if distribution else f"{type(error).__name__}: {error}",
            report,
        )
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and error.obj.__name__ == module_name:
        missing = str(error.name)
        if missing in attribute.split("."):
            return f"{target}, but there is no {missing}{_suggest_name(missing, vars(error.obj))}", report
    return describe_error(error, module_name), report


def _suggest_name(name: str, choices: Iterable[str]) -> str:
    """Return " (did you mean ...?)" for a misspelled name, or ""."""
    suggestion = format_suggestion(name, choices, otherwise="")
    return suggestion and f" ({suggestion})"


def describe_error(error: BaseException, module_name: str) -> str:
    """Describe an error on one line, with the last line of the plugin's code that was running."""
    message = " ".join(str(error).split())
    description = f"{type(error).__name__}: {message}" if message else type(error).__name__
    package = module_name.partition(".")[0]
    for frame, line in [*walk_tb(error.__traceback__)][::-1]:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            return f"{description} ({Path(frame.f_code.co_filename).name}, line {line})"
    return description


def find_hook_mistake(plugin: object, specification: type, prefix: str) -> str:
    """Return what is wrong with the hooks of a plugin, whose names begin with `prefix`; "" if nothing is.

    `specification` has a method for each hook.
    """
    hooks = {name: function for name, function in vars(specification).items() if name.startswith(prefix)}
    for name in dir(plugin):
        if not name.startswith(prefix):
            continue
        if name not in hooks:
            return f"unknown hook {name}{_suggest_name(name, hooks)}"
        implementation = getattr(plugin, name)
        function = getattr(implementation, "__func__", implementation)  # pluggy finds nothing else, such as lru_cache
        if not inspect.isroutine(function) or inspect.ismethoddescriptor(function):
            return f"{name} must be a function, not {type(function).__name__}"
        with suppress(ValueError):  # of a function in C, whose parameters are unknown
            if mistake := _find_signature_mistake(implementation, [*inspect.signature(hooks[name]).parameters][1:]):
                return f"{name} {mistake}"
    return ""


def _find_signature_mistake(function: Callable[..., Any], names: list[str]) -> str:
    """Return what is wrong with the parameters of a hook, which gets `names` as keyword arguments."""
    if inspect.iscoroutinefunction(function):
        return "is async, and hooks are called without await"
    expected = f"it gets {' and '.join(names)}" if names else "it gets no arguments"
    parameters = inspect.signature(function).parameters.values()
    missing = [name for name in names if name not in {parameter.name for parameter in parameters}]
    kinds = {parameter.kind for parameter in parameters}
    if missing and inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD not in kinds:
        return "has a parameter with *, but hooks get their arguments by name"
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            if parameter.default is parameter.empty:
                return f"has the positional-only parameter {parameter.name}, but hooks get their arguments by name"
        elif parameter.name not in names:
            suggestion = _suggest_name(parameter.name, missing)
            if suggestion or parameter.default is parameter.empty:
                return f"has the parameter {parameter.name}, but {expected}{suggestion}"
    return ""


def accept_keywords(function: Callable[..., Any], names: Iterable[str]) -> Callable[..., Any]:
    """Return a function that can be called with all `names` as keywords, and passes on those that `function` has."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function
    accepted = {parameter.name for parameter in parameters}
    if accepted.issuperset(names):
        return function
    return lambda **arguments: function(**{name: arguments[name] for name in arguments.keys() & accepted})
