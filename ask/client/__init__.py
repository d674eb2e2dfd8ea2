"""Requests to a provider: retries, HTTP, streaming formats, and the models list."""
