"""Signing in to a provider or an MCP server in the browser."""
