"""A client of MCP servers: finds those that are configured, starts them, and makes tools of what they offer."""
