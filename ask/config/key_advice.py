"""What to do about a key that a service has rejected, which may be a key for another service."""

from __future__ import annotations

from ask.config.key_store import KEY_COMMAND, SIGNED_IN

KEY_PREFIXES = {
    "sk-or-": "openrouter",
    "sk-ant-": "anthropic",
    "sk-proj-": "openai",
    "sk-svcacct-": "openai",
    "AIza": "gemini",
    "xai-": "xai",
    "gsk_": "groq",
    "pplx-": "perplexity",
    "nvapi-": "nvidia",
    "hf_": "huggingface",
}
"""The services whose keys begin in a certain way."""


def format_key_advice(provider_name: str, key: str, origin: str) -> str:
    """Return what to do about a key that a service has rejected.

    Args:
        provider_name: the provider.
        key: the key.
        origin: where the key is set, as `KeyStore.find` returns it; "" if that is unknown.
    """
    owner = next((owner for prefix, owner in KEY_PREFIXES.items() if key.startswith(prefix)), provider_name)
    place = f" in {origin}" if origin else ""
    if owner != provider_name:
        return f"the key{place} looks like a key for {owner}: use -p {owner}, or set a key for {provider_name}"
    if origin == KEY_COMMAND:
        return f"check key_command in [providers.{provider_name}] (ask config edit)"
    if origin == SIGNED_IN:
        return f"run `ask login {provider_name}` again"
    if origin.isupper():  # a variable, which precedes a saved key
        return f"check the key in {origin}, or unset it and run `ask keys set {provider_name}`"
    return f"check the key{place} (ask keys set {provider_name})"
