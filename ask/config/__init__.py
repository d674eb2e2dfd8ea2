"""Settings, config.toml, keys and folders of the user."""
