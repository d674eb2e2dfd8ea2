"""The version, as a constant: reading it from the installed metadata would cost more than `ask --version` may."""

VERSION = "0.1.0"

DISTRIBUTION = "ask-gents"
"""The name under which it is installed."""
