"""The Agent Client Protocol: `ask` as an agent in an editor."""
