"""Renderers: the answer goes to standard output, everything else to standard error."""
