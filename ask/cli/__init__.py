"""Click commands: one module per command or group."""
