"""The version, as a constant: reading the installed metadata would slow down `ask --version`."""

VERSION = "0.1.0"

DISTRIBUTION = "ask-gents"
"""The name of the distribution package."""
