"""A client for MCP servers, whose tools are offered to the model."""
