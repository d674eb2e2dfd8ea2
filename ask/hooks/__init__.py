"""Hooks: commands that the user's config.toml runs at events of a run, and that can refuse or change tool calls."""
