"""The providers of models that other programs name in their own ways."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ask.app import AppContext
from ask.client.endpoint import PROVIDERS_BY_WORD, list_configured_services, load_providers

PROVIDER_NAMES = {
    **PROVIDERS_BY_WORD,
    "llm-anthropic": "anthropic",
    **dict.fromkeys(("models", "llm-gemini"), "gemini"),
    **dict.fromkeys(("azure-openai", "azure_openai"), "azure"),
    **dict.fromkeys(("vertexai", "vertex-ai"), "vertex"),
    "chatgpt": "openai",
    "dashscope": "alibaba",
    "grok": "xai",
    "qianwen": "alibaba",
    "zhipuai": "zai",
}
"""Names of services in other programs and their plugins, with the names of the providers here."""
MODEL_PATTERNS = {
    r"(?:ft:)?(?:gpt|chatgpt|o\d|codex|computer-use|text-davinci)(?:[-:.\d].*)?": "openai",
    r"claude-.*": "anthropic",
    r"gemini-.*": "gemini",
    r"grok-.*": "xai",
    r"deepseek-(?:chat|reasoner|coder).*": "deepseek",
    r"command-.*": "cohere",
    r"(?:mistral|codestral|ministral|magistral|devstral|pixtral)-.*": "mistral",
    r"sonar.*": "perplexity",
    r"[^/:]+:[^/:]+": "ollama",
}
"""The names of models without a prefix, as patterns, with their providers."""


class ModelResolver:
    """Finds the provider of a model.

    Args:
        separator: what separates a provider from its model in the other program.
    """

    def __init__(self, app: AppContext, separator: str) -> None:
        self._app = app
        self._separator = separator
        self._known: dict[str, tuple[str, str]] = {}
        self._prefixes: dict[str, str] = {}
        self._hosts: dict[str, str] | None = None

    def add_prefix(self, name: str, provider: str) -> None:
        """Add the user's name for a service, with which the names of its models begin."""
        self._prefixes[name] = provider

    def find_provider(self, name: str) -> str:
        """Return the name that a service has here; "" if it is unknown."""
        candidates = (self._prefixes.get(name, ""), name, name.lower(), PROVIDER_NAMES.get(name.lower(), ""))
        return next((each for each in candidates if each and self._app.has_provider(each)), "")

    def add_model(self, name: str, provider: str, model: str) -> None:
        """Add a model that the user has configured in the other program."""
        self._known[name] = provider, model

    def resolve(self, name: str) -> tuple[str, str]:
        """Return the provider and model; for an unknown provider "" and the whole name."""
        if name not in self._known:
            prefix, separator, rest = name.partition(self._separator)
            if separator:
                provider = self.find_provider(prefix)
                self._known[name] = provider, rest if provider else name
            else:
                provider = next((each for key, each in MODEL_PATTERNS.items() if re.fullmatch(key, name)), "")
                self._known[name] = self.find_provider(provider), name
        return self._known[name]

    def format_model(self, name: str) -> str:
        """Return a model in the format of `-m`; "" if its provider is unknown."""
        provider, model = self.resolve(name)
        return f"{provider}:{model}" if provider else ""

    def find_provider_by_url(self, base_url: str) -> str:
        """Return the provider at an address, by its host and port; "" if there is none."""
        if self._hosts is None:
            # Those that the user has configured come first.
            services = {name: str(row.get("base_url", "")) for name, row in self._app.services.items()}
            providers = load_providers(self._app, list_configured_services(self._app))
            loaded = {name: provider.info.base_url for name, provider in providers}
            configured = {
                name: url if isinstance(url := table["base_url"], str) else next(iter(url), "")
                for name, table in self._app.config.providers.items()
                if table.get("base_url")
            }
            self._hosts = {
                _get_host(url): name
                for names in (services, loaded, configured)
                for name, url in names.items()
                if _get_host(url)
            }
        return self._hosts.get(_get_host(base_url), "")


def hide_credentials(url: str) -> str:
    """Return a URL without a user name, password and query, which may contain keys."""
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).netloc.replace("127.0.0.1", "localhost")
    except ValueError:
        return ""
