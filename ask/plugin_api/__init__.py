"""What the author of a provider plugin works with: the hooks, the base classes, and how plugins are found."""
