"""Safe mode, approval prompts and the log of tool calls."""
