"""The plugin API: provider hooks, base classes, schema conversion, and plugin discovery and loading."""
